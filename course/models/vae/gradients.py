"""Tiles of weights' gradients, and of biases', with Adam's step: for a VAE's `update`.

A block makes a tile of d W = d' y, of one layer, and Adam's step of it at once: no gradient is
stored. Weights are read from one half of their array (P) and written to the other (Q).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import float32, int32

from course.backend import cuda
from course.kernels.adam import adam_of
from course.kernels.intrinsics import load, load4, store, store4
from course.kernels.layer_tiles import Awaits, taken_by, tile_of
from course.kernels.split_factors import parts_of
from course.kernels.warps import WARP

ZERO = float32(0)
SIDE = 32  # of a tile
BIASES = 32  # that a block sums
QUADS = BIASES // 4


@cuda.jit(device=True)
def _fours(known, n, which):
    return known[n, which, 0], known[n, which, 1], known[n, which, 2], known[n, which, 3]


class Layer(NamedTuple):
    """Of a layer's weights: sizes, padded; where they begin in P, and their factors in S."""

    rows: int
    columns: int
    weights: int
    above: int
    below: int


def tile_maker(
    batch: int, precision: str, warps: int, awaits: Awaits, first: Layer | None = None
) -> tuple[Callable, int]:
    """Device function: a tile of a layer's weights, 32 x 32, by warps that share the batch.

    Also its numbers in shared memory. It takes a `Layer`'s numbers; or it is of the `first` one
    alone, whose factor below are pixels.
    """
    rows, columns = (first.rows, first.columns) if first else (0, 0)
    how = {"exact": "b", "places": "b"} if first else {"given": True}
    t = tile_of("tn", rows, columns, batch, (rows, columns), precision, warps=warps,
                fragments=(2, 4), ahead=1, awaits=awaits, **how)  # fmt: skip
    fetch, multiply, four, room = t.fetch, t.multiply, t.four, t.room
    threads = WARP * warps
    EACH = t.high * t.wide // 4 // threads
    of_quads = parts_of(t.wide // 4)
    factor = float32(1 / 255 if first else 1)

    @cuda.jit(device=True)
    def place(n, row, column, layer):
        """Row and column of this thread's n-th four, where it lies, and whether it does."""
        r, quad = of_quads(int32(cuda.threadIdx.x + n * threads))
        c = int32(4 * quad)
        at = int32(layer[2] + (row + r) * layer[1] + column + c)
        return r, c, at, row + r < layer[0] and column + c < layer[1]

    @cuda.jit(device=True, fastmath=True)
    def tile(down, right, layer, shared, P, Q, M, V, S, a0, B, b0, size, spread):
        b = cuda.local.array(room, float32)
        # all that is read before anything is written: writes might change what is read
        known = cuda.local.array((EACH, 3, 4), float32)
        row, column = int32(down * SIDE), int32(right * SIDE)
        fetch(B, b0, column, b)
        multiply(shared, S, a0, B, b0, row, column, b)
        for n in range(EACH):
            at, there = place(n, row, column, layer)[2:]
            if there:
                p, m, v = load4(P, at), load4(M, at), load4(V, at)
                for e in range(4):
                    known[n, 0, e], known[n, 1, e], known[n, 2, e] = p[e], m[e], v[e]
        for n in range(EACH):
            r, c, at, there = place(n, row, column, layer)
            if there:
                s = four(shared, r, c)
                for e in range(4):
                    p, m, v = known[n, 0, e], known[n, 1, e], known[n, 2, e]
                    p, m, v = adam_of(p, s[e] * factor, m, v, size, spread)
                    known[n, 0, e], known[n, 1, e], known[n, 2, e] = p, m, v
                store4(Q, at, _fours(known, n, 0))
                store4(M, at, _fours(known, n, 1))
                store4(V, at, _fours(known, n, 2))

    return tile, t.numbers


def reader_of(awaits: Awaits) -> Callable:
    """Device function: four neighbours, read until all are there."""
    take4, is_missing = taken_by(awaits)

    @cuda.jit(device=True)
    def read4(S, at):
        of = take4(S, at)
        while is_missing(of[0]) or is_missing(of[1]) or is_missing(of[2]) or is_missing(of[3]):
            of = take4(S, at)
        return of

    return read4


def biases_of(batch: int, threads: int, awaits: Awaits) -> tuple[Callable, int]:
    """Device function: Adam's step of 32 biases; and its numbers in shared memory."""
    read4 = reader_of(awaits)
    shares = threads // QUADS  # of the batch
    of_biases = parts_of(QUADS)

    @cuda.jit(device=True)
    def rows_sum(S, above, columns, column, share):
        """Four neighbours' sums over some of the rows."""
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        for row in range(share, batch, shares):
            of = read4(S, int32(above + row * columns + column))
            w, x, y, z = w + of[0], x + of[1], y + of[2], z + of[3]
        return w, x, y, z

    @cuda.jit(device=True, fastmath=True)
    def bias(i, shared, P, Q, M, V, S, above, columns, at, size, spread):
        """The i-th 32 of `columns` biases, which begin in P at `at`: sums of what is `above`."""
        t = int32(cuda.threadIdx.x)
        share, quad = of_biases(t)
        column = int32(i * int32(BIASES) + 4 * quad)
        cuda.syncthreads()  # whoever still reads what lies in shared memory is done
        if column < columns:
            store4(shared, share * int32(BIASES) + 4 * quad,
                   rows_sum(S, above, columns, column, share))  # fmt: skip
        cuda.syncthreads()
        if t < BIASES and i * int32(BIASES) + t < columns:
            total = ZERO
            for n in range(shares):
                total += load(shared, n * BIASES + t)
            here = at + i * int32(BIASES) + t
            p, m, v = adam_of(load(P, here), total, load(M, here), load(V, here), size, spread)
            store(Q, here, p)
            store(M, here, m)
            store(V, here, v)

    return bias, shares * BIASES
