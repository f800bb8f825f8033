"""Tiles of weights' and biases' gradients, with Adam's step: for a VAE's `update`.

A block makes a tile of d W = d' y, of one layer, and Adam's step of it at once: no gradient is
stored. A bias is the weight of an input that is always 1. Weights are read from one half of their
array (P) and written to the other (Q).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import float32, int32

from course.backend import cuda
from course.kernels.adam import adam_of
from course.kernels.intrinsics import (
    commit_copies,
    copy4_async,
    load4,
    store4,
    wait_copies,
)
from course.kernels.layer_tiles import Awaits, Tile, small_gemm_tile
from course.kernels.split_factors import parts_of
from course.kernels.warps import WARP

ZERO = float32(0)
SIDE = 32  # of a tile
WHITE = 255  # a pixel


class Layer(NamedTuple):
    """Of a layer's weights: sizes, padded; where they begin in P, and their factors in S.

    Behind the columns are four more, of which the first has the biases. `lead` is from row to row.
    """

    rows: int
    columns: int
    weights: int
    lead: int
    above: int
    below: int


class Tiles(NamedTuple):
    """Device functions that make a tile of a layer's weights, 32 x 32; `at` is (down, right).

    Attributes
    ----------
    fetch : device function of (at, layer, shared, P, M, V)
        Begins to copy what Adam needs to shared memory.
    multiply : device function of (at, shared, S, above, B, below)
        Of a layer whose factors are numbers: they begin there, with elements from row to row, and
        columns less four. Warps share the batch; their sums come to shared memory.
    multiply_first : device function of (at, shared, S, above, B, images)
        Of the first layer, whose factor below are pixels.
    learn : device function of (at, layer, factor, shared, Q, M, V, size, spread)
        Adam's step, the sums times a factor.
    numbers : int
        float32 in shared memory.
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

    Of a thread's own. For plain cores, where a GPU may lack such copies, they are load and store.
    """
    if precision == "float32":
        return _copied, _nothing, _nothing
    return copy4_async, commit_copies, _arrived


def tiles_of(batch: int, precision: str, warps: int, awaits: Awaits, first: Layer) -> Tiles:
    """Functions for tiles of all layers, of which the first has pixels below."""
    how = {"warps": warps, "fragments": (2, 4), "awaits": awaits}
    t = small_gemm_tile("tn", 0, 0, batch, (0, 0), precision, given=True, ones=1, **how)
    sizes = first.rows, first.columns
    t1 = small_gemm_tile(
        "tn", *sizes, batch, sizes, precision, exact="b", places="b", ones=WHITE, **how
    )
    four, threads = t.four, WARP * warps
    copy, commit, arrive = copies_of(precision)
    KEPT, PART, FOURS = t.numbers, 4 * threads, SIDE * SIDE // 4
    EACH = FOURS // threads
    of_quads = parts_of(SIDE // 4)

    @cuda.jit(device=True)
    def place(n, at, layer):
        """Row and column of a tile's n-th four, where it lies, and whether it does."""
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
        begin, products, room = t.fetch, t.multiply, t.room

        @cuda.jit(device=True)
        def multiply(at, shared, S, above, B, below):
            b = cuda.local.array(room, float32)
            row, column = int32(at[0] * SIDE), int32(at[1] * SIDE)
            begin(B, below, column, b)
            products(shared, S, above, B, below, row, column, b)

        return multiply

    @cuda.jit(device=True, fastmath=True)
    def learn(at, layer, factor, shared, Q, M, V, size, spread):
        t = int32(cuda.threadIdx.x)
        arrive()
        to, n = int32(KEPT + 4 * t), t
        while n < FOURS:  # a loop that is not unrolled: it would be so much more code
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
