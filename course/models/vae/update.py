"""The second launch of a VAE's training step: the weights' gradients, and Adam in the same tiles.

A block makes a tile of d W = d' y, of one of the four layers, and Adam's step of it at once: no
gradient is stored. It is the only launch that writes weights, and a block reads none but those of
its own tile. After its tile it sums some biases' gradients; one block more adds up the loss. So all
blocks of a model of MNIST's run at once on an H200.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.kernels.adam import adam_of
from course.kernels.intrinsics import load, load4, store, store4
from course.kernels.layer_tiles import parts_of, tile_of
from course.kernels.warps import WARP, lanes_sum
from course.models.vae.meeting import MISSING
from course.models.vae.packed import I4, F, Launch, Layout, between, up
from course.models.vae.shape import VAEShape

ZERO = float32(0)
NONE_YET = (int32(MISSING),) * 4
WARPS = 8  # of a block
BESIDE = 2, 2  # of them, in a tile of 64 x 64
SHARE = 2  # that share the batch
THREADS = WARP * WARPS
warp_sum = lanes_sum(WARP)
BIASES = 32  # that a block sums
TYPES = f"void({F}, {F}, {F}, {F}, {I4}, {F}, {F}, uint8[::1], {I4}, {F}, {I4})"


@functools.cache
def update_of(shape: VAEShape, batch: int, precision: str, partials: int) -> Launch:
    """The launch for one shape and batch, after a `forward` of so many parts of the loss."""
    W1, B1, W2, B2, W3, B3, W4, B4 = (begin for begin, _ in Layout(shape).places.values())
    D, H, Z, B = map(up, (shape.pixels, shape.hidden, shape.latent, batch))
    H_AT, _, Z_AT, _, G_AT, LOGITS_AT, DG_AT, DCODE_AT, DH_AT, END = between(shape, batch)
    BATCH, PARTIALS = batch, partials
    INVERSE = float32(1 / batch)

    def changed(rows: int, columns: int, above: int, below: int, weights: int, scale: float,
                **more) -> tuple[Callable, int, int]:  # fmt: skip
        """Device function: a tile of a layer's gradient by its weights, and Adam's step of it."""
        t = tile_of("tn", rows, columns, B, (rows, columns), precision, warps=SHARE,
                    fragments=(2, 4), beside=BESIDE, **more)  # fmt: skip
        fetch, multiply, four, room = t.fetch, t.multiply, t.four, t.room
        across = -(-columns // t.wide)
        HIGH, WIDE, EACH = t.high, t.wide, t.high * t.wide // 4 // THREADS
        of_across, of_quads = parts_of(across), parts_of(WIDE // 4)
        factor = float32(scale)

        @cuda.jit(device=True)
        def place(n, row, column):
            """Row and column of this thread's n-th four, where it lies, and whether it does."""
            r, quad = of_quads(int32(cuda.threadIdx.x + n * THREADS))
            c = int32(4 * quad)
            at = int32(int32(weights) + (row + r) * int32(columns) + column + c)
            return r, c, at, row + r < rows and column + c < columns

        @cuda.jit(device=True, fastmath=True)
        def tile(i, shared, P, M, V, S, B_, b0, size, spread):
            b = cuda.local.array(room, float32)
            down, right = of_across(i)
            row, column = int32(down * HIGH), int32(right * WIDE)
            fetch(B_, b0, column, b)
            multiply(shared, S, int32(above), B_, b0, row, column, b)
            # all that is read before anything is written: writes might change what is read
            known = cuda.local.array((EACH, 3, 4), float32)
            for n in range(EACH):
                at, there = place(n, row, column)[2:]
                if there:
                    p, m, v = load4(P, at), load4(M, at), load4(V, at)
                    for e in range(4):
                        known[n, 0, e], known[n, 1, e], known[n, 2, e] = p[e], m[e], v[e]
            for n in range(EACH):
                r, c, at, there = place(n, row, column)
                if there:
                    s = four(shared, r, c)
                    for e in range(4):
                        p, m, v = known[n, 0, e], known[n, 1, e], known[n, 2, e]
                        p, m, v = adam_of(p, s[e] * factor, m, v, size, spread)
                        known[n, 0, e], known[n, 1, e], known[n, 2, e] = p, m, v
                    store4(P, at, (known[n, 0, 0], known[n, 0, 1], known[n, 0, 2], known[n, 0, 3]))
                    store4(M, at, (known[n, 1, 0], known[n, 1, 1], known[n, 1, 2], known[n, 1, 3]))
                    store4(V, at, (known[n, 2, 0], known[n, 2, 1], known[n, 2, 2], known[n, 2, 3]))

        return tile, across * -(-rows // t.high), t.numbers

    tile1, COUNT1, numbers1 = changed(H, D, DH_AT, 0, W1, 1 / 255, exact="b", places="b")
    tile2, COUNT2, numbers2 = changed(2 * Z, H, DCODE_AT, H_AT, W2, 1)
    tile3, COUNT3, numbers3 = changed(H, Z, DG_AT, Z_AT, W3, 1)
    tile4, COUNT4, numbers4 = changed(D, H, LOGITS_AT, G_AT, W4, 1)
    UNTIL2 = COUNT1 + COUNT2
    UNTIL3 = UNTIL2 + COUNT3
    UNTIL4 = UNTIL3 + COUNT4
    BIAS1, BIAS2, BIAS3, BIAS4 = (-(-n // BIASES) for n in (H, 2 * Z, H, D))
    GROUP2, GROUP3 = BIAS1 + BIAS2, BIAS1 + BIAS2 + BIAS3
    ALL_GROUPS = GROUP3 + BIAS4

    @cuda.jit(device=True, fastmath=True)
    def bias(i, shared, P, M, V, S, above, columns, at, size, spread):
        """Adam's step of 32 biases: each warp sums some rows of what came from above."""
        t = int32(cuda.threadIdx.x)
        column = i * int32(BIASES) + t % int32(BIASES)
        total = ZERO
        cuda.syncthreads()  # whoever still reads what lay in shared memory is done
        if column < columns:
            for row in range(t // BIASES, B, WARPS):
                total += load(S, above + row * columns + column)
        store(shared, t, total)
        cuda.syncthreads()
        if t < BIASES and column < columns:
            total = ZERO
            for w in range(WARPS):
                total += load(shared, w * BIASES + t)
            here = at + column
            p, m, v = adam_of(load(P, here), total, load(M, here), load(V, here), size, spread)
            store(P, here, p)
            store(M, here, m)
            store(V, here, v)

    @cuda.jit(device=True)
    def book(shared, losses, history, state, steps):
        """One block: the step's loss; then the next step's number and place."""
        t = int32(cuda.threadIdx.x)
        total = ZERO
        for n in range(t, PARTIALS, THREADS):
            total += load(losses, n)
        total = warp_sum(total)
        if t % WARP == 0:
            store(shared, t // WARP, total)
        cuda.syncthreads()
        if t == 0:
            total = ZERO
            for w in range(WARPS):
                total += load(shared, w)
            step, place = load(state, 2), int32(load(state, 3) + 1)
            store(history, step % history.size, total * INVERSE)
            store(state, 0, int32(step + 1))
            store(state, 1, int32(0) if place == steps else place)

    @cuda.jit(max_registers=255 if precision == "float32" else 128)  # 128: two blocks at once
    def update(P, M, V, S, bits, losses, history, data, order, corrected, state):
        shared = cuda.shared.array(0, float32)
        i = int32(cuda.blockIdx.x)
        place = load(state, 3)
        half = load(state, 2) & 1
        S = S[half * END : half * END + END]
        for n in range(cuda.grid(1), END // 4, cuda.gridsize(1)):  # for the next step
            store4(bits, (1 - half) * END + 4 * n, NONE_YET)
        size, spread = load(corrected, 2 * place), load(corrected, 2 * place + 1)
        images = order, place * int32(BATCH)
        if i < COUNT1:
            tile1(i, shared, P, M, V, S, data, images, size, spread)
        elif i < UNTIL2:
            tile2(i - int32(COUNT1), shared, P, M, V, S, S, int32(H_AT), size, spread)
        elif i < UNTIL3:
            tile3(i - int32(UNTIL2), shared, P, M, V, S, S, int32(Z_AT), size, spread)
        elif i < UNTIL4:
            tile4(i - int32(UNTIL3), shared, P, M, V, S, S, int32(G_AT), size, spread)
        else:
            book(shared, losses, history, state, int32(corrected.size // 2))
            return
        for n in range(i, ALL_GROUPS, UNTIL4):
            first, above, columns, at = int32(GROUP3), int32(LOGITS_AT), int32(D), int32(B4)
            if n < BIAS1:
                first, above, columns, at = int32(0), int32(DH_AT), int32(H), int32(B1)
            elif n < GROUP2:
                first, above, columns, at = int32(BIAS1), int32(DCODE_AT), int32(2 * Z), int32(B2)
            elif n < GROUP3:
                first, above, columns, at = int32(GROUP2), int32(DG_AT), int32(H), int32(B3)
            bias(int32(n - first), shared, P, M, V, S, above, columns, at, size, spread)

    numbers = max(numbers1, numbers2, numbers3, numbers4)
    return Launch(update, TYPES, UNTIL4 + 1, THREADS, 4 * numbers)
