"""The second launch of a VAE's training step: the weights' gradients, and Adam's step.

A block computes a tile of one layer's gradient, d W = d' y, and at once Adam's step of the tile: no
gradient is stored. A bias is the weight of an input that is always 1. Weights are loaded from one
half of their array (P) and stored to the other (Q). The last block adds up the loss.

Where the GPU can begin this launch beside the first one, each block polls the results that it
needs. The last layers' tiles come first, since their gradients are known first. So much of the
work is done while the first launch still goes backward through the other layers. While a block
waits, what Adam needs is copied to shared memory. Three layers share one tile's code and pass it
their sizes, since code that runs once is not in the instruction cache, see `forward`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import NamedTuple

from numba import float32, int32

from course.backend import cuda
from course.kernels.gemm.small_tile import Awaits, Tile, parts_of, small_gemm_tile, taken_by
from course.kernels.warps import WARP, lanes_sum
from course_models.training.adam import adam_of
from course_models.vae.block_sync import BLOCK_SYNC, MISSING
from course_models.vae.forward import Forward
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
from warpsim.ptx import commit_copies, copy4_async, load, load4, store, store4, wait_copies

ZERO = float32(0)
SIDE = 32  # rows and columns of a tile
WHITE = 255  # the pixel that stands for 1, as the input of the bias


class Layer(NamedTuple):
    """A layer's weights: padded sizes, where they begin in P, and where their factors begin in S.

    Behind the columns are four more; the first of these has the biases.
    """

    rows: int
    columns: int
    weights: int
    row_pitch: int
    above: int
    below: int


class Tiles(NamedTuple):
    """Device functions for a tile of 32 x 32 of a layer's weights; `at` is its row and column.

    Attributes
    ----------
    fetch : device function of (at, layer, shared, P, M, V)
        Begins to copy weights and moments to shared memory.
    multiply : device function of (at, shared, S, above, B, below)
        The gradient's tile. `above` and `below` are the factors: where each begins, its row pitch,
        its columns less four. Warps share the batch; their sums are stored in shared memory.
    multiply_first : device function of (at, shared, S, above, B, images)
        The gradient's tile of the first layer, whose factor below is the images' pixels.
    learn : device function of (at, layer, factor, shared, Q, M, V, size, spread)
        Adam's step, with the sums times `factor` as gradients.
    numbers : int
        Elements in shared memory, float32.
    """

    fetch: Callable
    multiply: Callable
    multiply_first: Callable
    learn: Callable
    numbers: int


@cuda.jit(device=True)
def _copied(to, index, source, place):
    store4(to, index, load4(source, place))


@cuda.jit(device=True)
def _nothing():
    pass


@cuda.jit(device=True)
def _arrived():
    wait_copies(0)


def copies_of(precision: str) -> tuple[Callable, Callable, Callable]:
    """Device functions: begin to copy four numbers to shared memory; close a group; wait for all.

    The copies are a thread's own. With "float32", whose GPUs may lack them, they load and store.
    """
    if precision == "float32":
        return _copied, _nothing, _nothing
    return copy4_async, commit_copies, _arrived


def tiles_of(batch: int, precision: str, warps: int, awaits: Awaits, first: Layer) -> Tiles:
    """Functions for tiles of all layers; the first layer has pixels as its factor below."""
    how = {"warps": warps, "fragments": (2, 4), "awaits": awaits}
    t = small_gemm_tile("tn", 0, 0, batch, (0, 0), precision, given=True, ones=1, **how)
    sizes = first.rows, first.columns
    t1 = small_gemm_tile(
        "tn", *sizes, batch, sizes, precision, exact="b", scattered="b", ones=WHITE, **how
    )
    four, threads = t.four, WARP * warps
    copy, commit, arrive = copies_of(precision)
    KEPT, PART, FOURS = t.elements, 4 * threads, SIDE * SIDE // 4
    EACH = FOURS // threads
    of_quads = parts_of(SIDE // 4)

    @cuda.jit(device=True)
    def place(n, at, layer):
        """Row and column of a tile's n-th four elements, their index, and whether they exist."""
        r, quad = of_quads(n)
        c = int32(4 * quad)
        row, column = int32(at[0] * SIDE + r), int32(at[1] * SIDE + c)
        there = row < layer[0] and column < int32(layer[1] + 4)
        return r, c, int32(layer[2] + row * layer[3] + column), there

    @cuda.jit(device=True)
    def fetch(at, layer, shared, P, M, V):
        t = int32(cuda.threadIdx.x)
        for n in range(EACH):
            _, _, here, there = place(int32(t + n * threads), at, layer)
            if there:
                to = KEPT + 3 * n * PART + 4 * t
                copy(shared, to, P, here)
                copy(shared, to + PART, M, here)
                copy(shared, to + 2 * PART, V, here)
        commit()

    def multiplied(t: Tile) -> Callable:
        begin, products, shape_b = t.fetch, t.multiply, t.shape_b

        @cuda.jit(device=True)
        def multiply(at, shared, S, above, B, below):
            b = cuda.local.array(shape_b, float32)
            row, column = int32(at[0] * SIDE), int32(at[1] * SIDE)
            begin(B, below, column, b)
            products(shared, S, above, B, below, row, column, b)

        return multiply

    @cuda.jit(device=True, fastmath=True)
    def learn(at, layer, factor, shared, Q, M, V, size, spread):
        t = int32(cuda.threadIdx.x)
        arrive()
        to, n = int32(KEPT + 4 * t), t
        while n < FOURS:  # not unrolled: that would be too much code
            r, c, here, there = place(n, at, layer)
            if there:
                s = four(shared, r, c)
                p, m, v = load4(shared, to), load4(shared, to + PART), load4(shared, to + 2 * PART)
                made = cuda.local.array((3, 4), float32)
                for e in range(4):
                    made[0, e], made[1, e], made[2, e] = adam_of(
                        p[e], s[e] * factor, m[e], v[e], size, spread
                    )
                store4(Q, here, (made[0, 0], made[0, 1], made[0, 2], made[0, 3]))
                store4(M, here, (made[1, 0], made[1, 1], made[1, 2], made[1, 3]))
                store4(V, here, (made[2, 0], made[2, 1], made[2, 2], made[2, 3]))
            n, to = int32(n + threads), int32(to + 3 * PART)

    return Tiles(fetch, multiplied(t), multiplied(t1), learn, KEPT + 3 * EACH * PART)


# --- the launch -----------------------------------------------------------------------------------

ONE, LEVELS = float32(1), float32(1 / 255)
NONE_YET = (int32(MISSING),) * 4
WARPS = 4  # of a block, so that one fits on an SM beside a block of `forward`
THREADS = WARP * WARPS
CLEARING = 128  # blocks that fill the next step's results with MISSING
warp_sum = lanes_sum(WARP)
TYPES = f"void({F}, {F}, {F}, {F}, {F}, {I4}, {F}, uint8[::1], {I4}, {F}, {I4}, {I4})"


@functools.cache
def update_of(shape: VAEShape, batch: int, precision: str, first: Forward, sync: str) -> KernelPlan:
    """The launch for one shape and batch, after the launch `first` of `forward_of`."""
    W1, W2, W3, W4 = (begin for begin, _ in ParameterLayout(shape).places.values())
    D, H, Z, B = map(round_up4, (shape.pixels, shape.hidden, shape.latent, batch))
    H_AT, _, Z_AT, _, G_AT, LOGITS_AT, DG_AT, DCODE_AT, DH_AT, _ = between(shape, batch)
    LOSSES_AT, END, BATCH = first.losses, first.end, batch
    INVERSE = float32(1 / batch)
    its = BLOCK_SYNC[sync]
    awaits, done, let_next = its.later, its.done, its.let_next
    await4, is_missing = taken_by(awaits)

    layers = (
        Layer(D, H, W4, row_pitch(H), LOGITS_AT, G_AT),
        Layer(H, Z, W3, row_pitch(Z), DG_AT, Z_AT),
        Layer(2 * Z, H, W2, row_pitch(H), DCODE_AT, H_AT),
        Layer(H, D, W1, row_pitch(D), DH_AT, 0),
    )
    tiles = tiles_of(B, precision, WARPS, awaits, layers[3])
    fetch, multiply, multiply_first, learn = tiles[:4]
    LAYER4, LAYER3, LAYER2, LAYER1 = (tuple(map(int32, its)) for its in layers)
    downs, acrosses = ([-(-size // SIDE) for size in sizes] for sizes in (
        [its.rows for its in layers], [its.columns + 4 for its in layers]))  # fmt: skip
    of4, of3, of2, of1 = map(parts_of, acrosses)
    # blocks of the last layer come first
    UNTIL4, UNTIL3, UNTIL2, LAST = itertools.accumulate(map(operator.mul, downs, acrosses))
    CLEAR = min(CLEARING, LAST)

    @cuda.jit(device=True)
    def read4(S, at):
        """Load four neighbours until all are there: each comes from another warp."""
        of = await4(S, at)
        while is_missing(of[0]) or is_missing(of[1]) or is_missing(of[2]) or is_missing(of[3]):
            of = await4(S, at)
        return of

    @cuda.jit(device=True)
    def book(shared, S, history, step):
        """Let one block add up the step's loss."""
        t = int32(cuda.threadIdx.x)
        total = ZERO
        for n in range(LOSSES_AT + 4 * t, END, 4 * THREADS):
            of = read4(S, n)
            total += of[0] + of[1] + of[2] + of[3]
        total = warp_sum(total)
        if t % WARP == 0:
            store(shared, t // WARP, total)
        cuda.syncthreads()
        if t == 0:
            total = ZERO
            for w in range(WARPS):
                total += load(shared, w)
            store(history, step % history.size, total * INVERSE)
        done()

    @cuda.jit(max_registers=255 if precision == "float32" else 128)  # 128: it fits beside `forward`
    def update(P, Q, M, V, S, bits, history, data, order, corrected, now, then):
        shared = cuda.shared.array(0, float32)
        i = int32(cuda.blockIdx.x)
        four = await4(now, 0)
        step, place = four[0], four[1]
        if i == 0:  # the next launch needs step and place before this launch is done
            if cuda.threadIdx.x == 0:
                following = int32(place + 1)
                if following == corrected.size // 2:
                    following = int32(0)
                store4(then, 0, (int32(step + 1), following, int32(0), int32(0)))
                cuda.threadfence()
            cuda.syncthreads()
        let_next()
        if i < CLEAR:  # the buffer of the next step
            for n in range(cuda.grid(1), END // 4, CLEAR * THREADS):
                store4(bits, 4 * n, NONE_YET)
        size, spread = load(corrected, 2 * place), load(corrected, 2 * place + 1)
        if i < LAST:
            if i < UNTIL4:
                at, of = of4(i), LAYER4
            elif i < UNTIL3:
                at, of = of3(i - int32(UNTIL4)), LAYER3
            elif i < UNTIL2:
                at, of = of2(i - int32(UNTIL3)), LAYER2
            else:
                at, of = of1(i - int32(UNTIL2)), LAYER1
            fetch(at, of, shared, P, M, V)
            rows, columns, _, _, above, below = of
            above, factor = (above, rows, int32(rows - 4)), ONE
            if i < UNTIL2:
                multiply(at, shared, S, above, S, (below, columns, int32(columns - 4)))
            else:
                images, factor = (order, int32(place * BATCH)), LEVELS
                multiply_first(at, shared, S, int32(DH_AT), data, images)
            learn(at, of, factor, shared, Q, M, V, size, spread)
        else:
            book(shared, S, history, step)

    return KernelPlan(update, TYPES, LAST + 1, THREADS, 4 * tiles.numbers)
