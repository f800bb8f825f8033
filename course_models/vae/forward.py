"""The first launch of a VAE's training step: forward, and backward to the first hidden layer.

An image's results depend on no other image. So blocks work in groups, on 16 images each, and
between layers a block waits for its group's results alone. Meanwhile the weights of the next layer
are in flight.

Each instruction runs once or twice in a step, so instructions are seldom in the cache: with 8,300
(130 KB) a warp waited for the next one in 29% of a profiler's samples on an H200. Shifts for `//`
and `%`, which Numba does in 64 bits, and addresses that differ by constants removed a third of
the instructions.

An SM holds a block of 256 threads with up to 192 registers beside one of `update`, of 128.
Where the GPU can do that, blocks of `update` begin once the gradient by the logits, their first
factor, is known; earlier they would only poll, which slows down the blocks that compute. The next
step's blocks begin where those of `update` end, prefetch its images, and wait for the weights.

    h = leaky(x W' + b)
    mean, log variance = h W' + b; z = mean + exp(log variance / 2) e; KL
    g = leaky(z W' + b)
    d_logits = (sigmoid(g W' + b) - x) / batch; BCE
    d_g = d_logits W . leaky'
    d_mean, d_log variance = f(d_g W)
    d_h = d_code W . leaky'

All sums have a fixed order, the losses' too: each warp writes its part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32

from course.backend import cuda
from course.kernels.activation import leaky_relu, leaky_relu_gradient
from course.kernels.gemm.small_tile import Tile, parts_of, small_gemm_tile, taken_by
from course.kernels.warps import WARP, lanes_sum
from course_models.training.losses import bce_of, bce_slope, kl_of
from course_models.training.rng import normal4
from course_models.vae.block_sync import BLOCK_SYNC
from course_models.vae.memory import (
    I4,
    F,
    KernelPlan,
    ParameterLayout,
    between,
    round_up4,
    row_pitch,
)
from course_models.vae.shape import VAEShape
from warpsim.ptx import load, load4, store

ONE, HALF, ZERO = float32(1), float32(0.5), float32(0)
LEVELS = float32(1 / 255)
ROWS = 16  # images of the batch that a group of blocks works on
MOST = 16  # blocks of a group, at most
WARPS = 8  # of a block; each has a part of the depth
#: Fragments of weights that a lane has in flight, four elements each. Each round is unrolled code,
#: and on CUDA cores 30 times as much.
AHEAD = {"tf32x3": 20, "tf32": 24, "float32": 4}
TYPES = f"void({F}, {F}, uint8[::1], {I4}, {I4}, uint64)"


@dataclass(frozen=True)
class Forward(KernelPlan):
    """A plan, and where partial losses begin in a half of S, and where that half ends."""

    losses: int
    end: int


@functools.cache
def forward_of(shape: VAEShape, batch: int, precision: str, at_once: int, sync: str) -> Forward:
    """The launch for one shape and batch.

    Parameters
    ----------
    at_once : int
        Blocks that the GPU runs at the same time.
    sync : str
        How a group's blocks wait for each other, of `block_sync.BLOCK_SYNC`.
    """
    W1, W2, W3, W4 = (begin for begin, _ in ParameterLayout(shape).places.values())
    D, H, Z, B = map(round_up4, (shape.pixels, shape.hidden, shape.latent, batch))
    H_AT, CODE_AT, Z_AT, NOISE_AT, G_AT, LOGITS_AT, DG_AT, DCODE_AT, DH_AT, LOSSES_AT = between(
        shape, batch
    )
    PIXELS, LATENT, BATCH = shape.pixels, shape.latent, batch
    TOGETHER = LATENT % 4 == 0  # four neighbours' noise comes from one counter
    INVERSE = float32(1 / batch)
    of_warp, warp_sum = parts_of(WARP), lanes_sum(WARP)
    TILES = -(-B // ROWS)
    GROUPS = min(TILES, at_once)
    MEMBERS = min(at_once // GROUPS, MOST)
    of_members = parts_of(MEMBERS)

    awaits, publish4, sync_blocks, _, done, let_next, prefetch = BLOCK_SYNC[sync]
    await4, _ = taken_by(awaits)
    LINE = 128  # bytes

    def tile(layout, columns, depth, leads, across, most=24, **more):
        more = {"awaits": awaits, "ahead": max(1, min(most, AHEAD[precision] // across)), **more}
        return small_gemm_tile(layout, B, columns, depth, leads, precision, warps=WARPS,
                       fragments=(1, across), **more)  # fmt: skip

    D4, H4, Z4 = map(row_pitch, (D, H, Z))
    t1 = tile("nt", H, D, (D, D4), 4, exact="a", scattered="a", awaits=None)
    t2 = tile("nt", 2 * Z, H, (H, H4), 4, half_pitch=Z)
    t3 = tile("nt", H, Z, (Z, Z4), 4)
    t4 = tile("nt", D, H, (H, H4), 7)
    t5 = tile("nn", H, D, (D, H4), 4, most=4)  # with more a thread has 194 registers
    t6 = tile("nn", Z, H, (H, Z4), 2)
    t7 = tile("nn", H, 2 * Z, (2 * Z, H4), 4)
    HALF_WIDE = t2.columns // 2
    NUMBERS = max(its.elements for its in (t1, t2, t3, t4, t5, t6, t7))
    ACROSS4 = -(-D // t4.columns)
    ACROSS2 = -(-Z // HALF_WIDE)
    KL_AT = TILES * ACROSS4 * WARPS
    END = round_up4(LOSSES_AT + KL_AT + TILES * ACROSS2 * WARPS)

    # --- the layers: what a thread loads before the sums, and how it finishes four of these

    def layer(tile: Tile, columns: int, weights: int, early: Callable, late: Callable,
              parts: int = -1, wide: int = 0) -> tuple[Callable, Callable]:  # fmt: skip
        """Device functions: load ahead what is known; compute a layer's tiles of a group."""
        fetch, multiply, four = tile.fetch, tile.multiply, tile.four
        WIDE = wide or tile.columns
        COUNT, QUADS = -(-columns // WIDE), WIDE // 4
        ALONE = GROUPS == TILES and COUNT <= MEMBERS  # no block has more than one tile
        of_quads = parts_of(QUADS)

        @cuda.jit(device=True)
        def place(down, i):
            """Row and column of this thread's four in the tile, whether it has any, and in S."""
            n = int32(cuda.threadIdx.x)
            r, quad = of_quads(n)
            c = int32(4 * quad)
            row, column = int32(down * ROWS + r), int32(i * WIDE + c)
            mine = n < ROWS * QUADS and row < B and column < columns
            return r, c, mine, row if mine else int32(0), column if mine else int32(0)

        @cuda.jit(device=True, fastmath=True)
        def ahead(P, S, data, images, step, seed, group, member, b):
            i = min(member, int32(COUNT - 1))
            fetch(P, int32(weights), int32(i * WIDE), b)
            here, there = place(group, i)[3:]
            return early(P, S, data, images, step, seed, here, there)

        @cuda.jit(device=True, fastmath=True)
        def one(shared, A, a0, P, S, down, i, b, known):
            row, column = int32(down * ROWS), int32(i * WIDE)
            r, c, mine, here, there = place(down, i)
            multiply(shared, A, a0, P, int32(weights), row, column, b)
            part = ZERO
            if mine:
                part = late(S, four, shared, r, c, here, there, known)
            if parts >= 0:
                part = warp_sum(part)
                warp, lane = of_warp(cuda.threadIdx.x)
                if lane == 0:
                    store(S, int32(LOSSES_AT + parts + (down * COUNT + i) * WARPS + warp), part)

        @cuda.jit(device=True, fastmath=True)
        def tiles(shared, A, a0, P, S, data, images, step, seed, group, member, b, known):
            if ALONE:
                if member < COUNT:
                    one(shared, A, a0, P, S, group, member, b, known)
            else:
                for down in range(group, TILES, GROUPS):
                    for i in range(member, COUNT, MEMBERS):
                        if down != group or i != member:
                            fetch(P, int32(weights), int32(i * WIDE), b)
                            here, there = place(down, i)[3:]
                            known = early(P, S, data, images, step, seed, here, there)
                        one(shared, A, a0, P, S, int32(down), int32(i), b, known)

        return ahead, tiles

    def biases(weights: int, inputs: int) -> Callable:
        """Device function that loads four neighbours' biases from P."""
        pitch = row_pitch(inputs)

        @cuda.jit(device=True)
        def four_of(P, column):
            at = int32(weights + inputs + column * pitch)
            return (load(P, at), load(P, at + pitch),
                    load(P, at + 2 * pitch), load(P, at + 3 * pitch))  # fmt: skip

        return four_of

    def activated(bias: Callable, columns: int, at: int, scale: float) -> tuple[Callable, Callable]:
        """Device functions for LeakyReLU of scaled sums plus biases, stored from `at` on."""
        factor = float32(scale)

        @cuda.jit(device=True)
        def early(P, S, data, images, step, seed, row, column):
            return bias(P, column)

        @cuda.jit(device=True, fastmath=True)
        def late(S, four, shared, r, c, row, column, b):
            s = four(shared, r, c)
            w, x, y, z = s[0] * factor, s[1] * factor, s[2] * factor, s[3] * factor
            result = (leaky_relu(w + b[0]), leaky_relu(x + b[1]),
                      leaky_relu(y + b[2]), leaky_relu(z + b[3]))  # fmt: skip
            publish4(S, at + row * columns + column, result)
            return ZERO

        return early, late

    def through(columns: int, activation: int, at: int) -> tuple[Callable, Callable]:
        """Device functions for the gradient by LeakyReLU's input, from LeakyReLU's output."""

        @cuda.jit(device=True)
        def early(P, S, data, images, step, seed, row, column):
            return load4(S, activation + row * columns + column)

        @cuda.jit(device=True)
        def late(S, four, shared, r, c, row, column, y):
            s = four(shared, r, c)
            result = (leaky_relu_gradient(s[0], y[0]), leaky_relu_gradient(s[1], y[1]),
                      leaky_relu_gradient(s[2], y[2]), leaky_relu_gradient(s[3], y[3]))  # fmt: skip
            publish4(S, at + row * columns + column, result)
            return ZERO

        return early, late

    bias1, bias2, bias3, bias4 = biases(W1, D), biases(W2, H), biases(W3, Z), biases(W4, H)

    @cuda.jit(device=True, fastmath=True)
    def drawn(place, step, seed):
        """Four neighbours' noise; a row may begin in the middle of a counter's four numbers."""
        if TOGETHER:
            return normal4(place // 4, step, seed)
        found = cuda.local.array(4, float32)
        for e in range(4):
            of = normal4((place + e) // 4, step, seed)
            which = (place + e) % 4
            low = of[0] if which == 0 else of[1]
            found[e] = low if which < 2 else of[2] if which == 2 else of[3]
        return found[0], found[1], found[2], found[3]

    @cuda.jit(device=True, fastmath=True)
    def code_early(P, S, data, images, step, seed, row, column):
        b, d = bias2(P, column), bias2(P, int32(Z + column))
        e = drawn(row * LATENT + column, step, seed)
        return b[0], b[1], b[2], b[3], d[0], d[1], d[2], d[3], e[0], e[1], e[2], e[3]

    @cuda.jit(device=True, fastmath=True)
    def code_late(S, four, shared, r, c, row, column, known):
        """Store mean, log variance, noise and z; return the KL divergence."""
        s, u = four(shared, r, c), four(shared, r, c + int32(HALF_WIDE))
        made = cuda.local.array((3, 4), float32)
        part = ZERO
        for e in range(4):
            mean, log_variance = s[e] + known[e], u[e] + known[4 + e]
            real = row < BATCH and column + e < LATENT
            value = mean + math.exp(HALF * log_variance) * known[8 + e]
            made[0, e], made[1, e], made[2, e] = mean, log_variance, value if real else ZERO
            if real:
                part += kl_of(mean, log_variance)
        at = CODE_AT + row * (2 * Z) + column
        publish4(S, at, (made[0, 0], made[0, 1], made[0, 2], made[0, 3]))
        publish4(S, at + Z, (made[1, 0], made[1, 1], made[1, 2], made[1, 3]))
        publish4(S, NOISE_AT + row * Z + column, (known[8], known[9], known[10], known[11]))
        publish4(S, Z_AT + row * Z + column, (made[2, 0], made[2, 1], made[2, 2], made[2, 3]))
        return part

    @cuda.jit(device=True)
    def pixels_early(P, S, data, images, step, seed, row, column):
        b = bias4(P, column)
        x = load4(data, load(images[0], images[1] + row) + column)
        return (b[0], b[1], b[2], b[3],
                float32(x[0]), float32(x[1]), float32(x[2]), float32(x[3]))  # fmt: skip

    @cuda.jit(device=True, fastmath=True)
    def pixels_late(S, four, shared, r, c, row, column, known):
        """Store the gradient by the logits; return their cross-entropy."""
        s = four(shared, r, c)
        made = cuda.local.array(4, float32)
        part = ZERO
        for e in range(4):
            logit, pixel = s[e] + known[e], known[4 + e] * LEVELS
            real = row < BATCH and column + e < PIXELS
            slope = bce_slope(logit, pixel) * INVERSE
            made[e] = slope if real else ZERO
            if real:
                part += bce_of(logit, pixel)
        publish4(S, LOGITS_AT + row * D + column, (made[0], made[1], made[2], made[3]))
        return part

    @cuda.jit(device=True)
    def sample_early(P, S, data, images, step, seed, row, column):
        m = load4(S, CODE_AT + row * (2 * Z) + column)
        v = load4(S, CODE_AT + row * (2 * Z) + Z + column)
        e = load4(S, NOISE_AT + row * Z + column)
        return m[0], m[1], m[2], m[3], v[0], v[1], v[2], v[3], e[0], e[1], e[2], e[3]

    @cuda.jit(device=True, fastmath=True)
    def sample_late(S, four, shared, r, c, row, column, known):
        s = four(shared, r, c)
        made = cuda.local.array((2, 4), float32)
        for e in range(4):
            deviation = math.exp(HALF * known[4 + e])
            d_mean = s[e] + known[e] * INVERSE
            more = (deviation * deviation - ONE) * INVERSE
            d_log_variance = HALF * (s[e] * known[8 + e] * deviation + more)
            real = row < BATCH and column + e < LATENT
            made[0, e] = d_mean if real else ZERO
            made[1, e] = d_log_variance if real else ZERO
        at = DCODE_AT + row * (2 * Z) + column
        publish4(S, at, (made[0, 0], made[0, 1], made[0, 2], made[0, 3]))
        publish4(S, at + Z, (made[1, 0], made[1, 1], made[1, 2], made[1, 3]))
        return ZERO

    ahead1, layer1 = layer(t1, H, W1, *activated(bias1, H, H_AT, 1 / 255))
    ahead2, layer2 = layer(t2, Z, W2, code_early, code_late, KL_AT, HALF_WIDE)
    ahead3, layer3 = layer(t3, H, W3, *activated(bias3, H, G_AT, 1))
    ahead4, layer4 = layer(t4, D, W4, pixels_early, pixels_late, 0)
    ahead5, layer5 = layer(t5, H, W4, *through(H, G_AT, DG_AT))
    ahead6, layer6 = layer(t6, Z, W3, sample_early, sample_late)
    ahead7, layer7 = layer(t7, H, W2, *through(H, H_AT, DH_AT))
    ROOM1, ROOM2, ROOM3, ROOM4 = t1.shape_b, t2.shape_b, t3.shape_b, t4.shape_b
    ROOM5, ROOM6, ROOM7 = t5.shape_b, t6.shape_b, t7.shape_b

    @cuda.jit
    def forward(P, S, data, order, now, seed):
        """now: the step, and its index in the epoch."""
        shared = cuda.shared.array(0, float32)
        b1 = cuda.local.array(ROOM1, float32)
        b2 = cuda.local.array(ROOM2, float32)
        b3 = cuda.local.array(ROOM3, float32)
        b4 = cuda.local.array(ROOM4, float32)
        b5 = cuda.local.array(ROOM5, float32)
        b6 = cuda.local.array(ROOM6, float32)
        b7 = cuda.local.array(ROOM7, float32)
        group, member = of_members(int32(cuda.blockIdx.x))
        four = await4(now, 0)
        step, place = four[0], four[1]
        images = order, place * int32(BATCH)
        n = int32(cuda.threadIdx.x)
        row = int32(group * ROWS + member)
        if row < B and LINE * n < D:  # each member of a group prefetches a row of pixels
            prefetch(data, int32(load(images[0], images[1] + row) + LINE * n))
        done()
        known1 = ahead1(P, S, data, images, step, seed, group, member, b1)
        layer1(shared, data, images, P, S, data, images, step, seed, group, member, b1,
               known1)  # fmt: skip
        known2 = ahead2(P, S, data, images, step, seed, group, member, b2)
        sync_blocks()
        layer2(shared, S, int32(H_AT), P, S, data, images, step, seed, group, member, b2,
               known2)  # fmt: skip
        known3 = ahead3(P, S, data, images, step, seed, group, member, b3)
        sync_blocks()
        layer3(shared, S, int32(Z_AT), P, S, data, images, step, seed, group, member, b3,
               known3)  # fmt: skip
        known4 = ahead4(P, S, data, images, step, seed, group, member, b4)
        sync_blocks()
        layer4(shared, S, int32(G_AT), P, S, data, images, step, seed, group, member, b4,
               known4)  # fmt: skip
        let_next()
        known5 = ahead5(P, S, data, images, step, seed, group, member, b5)
        sync_blocks()
        layer5(shared, S, int32(LOGITS_AT), P, S, data, images, step, seed, group, member,
               b5, known5)  # fmt: skip
        known6 = ahead6(P, S, data, images, step, seed, group, member, b6)
        sync_blocks()
        layer6(shared, S, int32(DG_AT), P, S, data, images, step, seed, group, member, b6,
               known6)  # fmt: skip
        known7 = ahead7(P, S, data, images, step, seed, group, member, b7)
        sync_blocks()
        layer7(shared, S, int32(DCODE_AT), P, S, data, images, step, seed, group, member,
               b7, known7)  # fmt: skip

    return Forward(forward, TYPES, GROUPS * MEMBERS, WARP * WARPS, 4 * NUMBERS, LOSSES_AT, END)
