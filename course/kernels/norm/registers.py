"""Normalise the rows of a matrix, steps 6, 7, 9 and 10: wide loads, and the row in registers.

Step 6: a block reads its row once, 16 bytes a thread and access, with all loads in flight together,
and keeps it in registers. From there it computes the mean, the squared differences and the result.
Step 7 does so for several short rows a block: a part of a warp has a row, so shuffles suffice. Step
9 takes rows of any length. It computes the moments chunk by chunk, then reads the row again, while
some of it may still be in L2. In step 10 the blocks of a cluster share a row, and merge counts,
means and squares as a block's warps do. So a long row is read once, too, and a few rows keep more
SMs busy than there are rows.

A thread has columns ``(part * row_threads + thread) * wide`` and the ``wide - 1`` after it, for
each part. Parts that every row fills are compiled without a guard. In the others, columns beyond
the row's end are clamped to its last ones and left out of the sums. So no load is behind a branch.
Columns are 64-bit integers, so that all parts' addresses share one register, with constant offsets.

An activation may follow before the result is written: fused, it costs no memory traffic.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

from numba import float32, int32, int64

from course.backend import cuda
from course.heuristics import norm as heuristics
from course.heuristics.norm import RowConfig, Variant
from course.kernels.activation import function_of
from course.kernels.arrays import NUMBA_TYPES
from course.kernels.norm.first_steps import Made, fused, merged, merged_in_block
from course.kernels.steps import ceil_div, row_limit
from course.kernels.warps import WARP, lanes_sum
from warpsim import ptx
from warpsim.ptx import cluster, cluster_barrier, cluster_rank, grid_dependency_wait, load4_cluster

# --- the kernels ----------------------------------------------------------------------------------


def row_functions(config: RowConfig, variant: Variant, again: bool = False) -> SimpleNamespace:
    """Device functions of one thread's elements, for a config and a variant.

    `load_at`, `store_at`, `load_row`: access ``wide`` elements at an index, as ``values[n:]``.
    `load_chunk`: load all elements of a chunk. `how_many`: count those inside the row, `of_warp`
    those of a warp. `added`, `squared`: sum the elements, or their squared differences from a mean.
    `factors_at`: load ``wide`` elements of gamma, then of beta, from a column on. `result`:
    normalise ``wide`` elements by them. `fetch_factors`: load all of a thread's factors, where
    `config.ahead` wants them early. `finish`: normalise all elements, and store them.
    `load_row`, `load_chunk` and `finish` hint that no cache need keep a row, unless it is read
    `again` or the variant says `keep_in_l2`.
    """
    row_threads, unguarded = config.across, variant.unguarded
    wide, kind = variant.wide, NUMBA_TYPES[variant.dtype]
    parts, ahead, step = config.elements // wide, config.ahead, row_threads * wide
    has_gamma, has_beta, activation = variant.gamma, variant.beta, function_of(variant.activation)
    read_one, read_four = ptx.load_streaming, ptx.load4_streaming
    write_one, write_four = ptx.store_streaming, ptx.store4_streaming
    if variant.keep_in_l2:
        read_one, read_four = ptx.load_kept, ptx.load4_kept
        write_one, write_four = ptx.store, ptx.store4
    elif again:
        read_one, read_four = ptx.load, ptx.load4
    by_four = wide == 4

    def make_load(one, four):
        @cuda.jit(device=True)
        def load_at(array, index, values, n):
            if by_four:
                a, b, c, d = four(array, index)
                values[n], values[n + 1] = float32(a), float32(b)
                values[n + 2], values[n + 3] = float32(c), float32(d)
            else:
                values[n] = float32(one(array, index))

        return load_at

    load_at, load_row = make_load(ptx.load, ptx.load4), make_load(read_one, read_four)

    @cuda.jit(device=True)
    def store_at(array, index, values, n):
        if by_four:
            four = kind(values[n]), kind(values[n + 1]), kind(values[n + 2]), kind(values[n + 3])
            write_four(array, index, four)
        else:
            write_one(array, index, kind(values[n]))

    @cuda.jit(device=True)
    def load_chunk(x, row, first, columns, values):
        for part in range(parts):
            column = first + part * step
            clamped = column if part < unguarded else min(column, int64(columns - wide))
            load_row(x, (row, clamped), values, part * wide)

    @cuda.jit(device=True)
    def how_many(first, columns):
        found = int32(0)
        for part in range(parts):
            if part < unguarded or first + part * step < columns:
                found += int32(wide)
        return float32(found)

    @cuda.jit(device=True)
    def of_warp(warp, columns):
        found = int32(unguarded * WARP * wide)
        for part in range(unguarded, parts):
            start = int32((part * row_threads + warp * WARP) * wide)
            found += max(int32(0), min(int32(columns - start), int32(WARP * wide)))
        return float32(found)

    @cuda.jit(device=True)
    def added(values, first, columns):
        result = float32(0)
        for part in range(parts):
            some = float32(0)
            for e in range(wide):
                some += values[part * wide + e]
            here = part < unguarded or first + part * step < columns
            result += some if here else float32(0)
        return result

    @cuda.jit(device=True)
    def squared(values, first, columns, mean):
        result = float32(0)
        for part in range(parts):
            some = float32(0)
            for e in range(wide):
                difference = values[part * wide + e] - mean
                some += difference * difference
            here = part < unguarded or first + part * step < columns
            result += some if here else float32(0)
        return result

    @cuda.jit(device=True)
    def factors_at(gamma, beta, column, factors, n):
        if has_gamma:
            load_at(gamma, column, factors, n)
        if has_beta:
            load_at(beta, column, factors, n + wide)

    @cuda.jit(device=True)
    def result(values, n, mean, scale, factors, m):
        for e in range(wide):
            value = (values[n + e] - mean) * scale
            if has_gamma:
                value *= factors[m + e]
            if has_beta:
                value += factors[m + wide + e]
            values[n + e] = activation(value)

    @cuda.jit(device=True)
    def fetch_factors(gamma, beta, first, columns, factors):
        for part in range(parts):
            column = first + part * step
            clamped = column if part < unguarded else min(column, int64(columns - wide))
            factors_at(gamma, beta, clamped, factors, 2 * part * wide)

    @cuda.jit(device=True)
    def finish(out, row, first, columns, values, mean, scale, gamma, beta, wanted, factors):
        for part in range(parts):
            column, n = first + part * step, part * wide
            m = 2 * n if ahead else 0
            if not ahead:
                clamped = column if part < unguarded else min(column, int64(columns - wide))
                factors_at(gamma, beta, clamped, factors, 0)
            result(values, n, mean, scale, factors, m)
            if wanted and (part < unguarded or column < columns):
                store_at(out, (row, column), values, n)

    return SimpleNamespace(
        load_at=load_at, load_row=load_row, store_at=store_at, load_chunk=load_chunk,
        how_many=how_many, of_warp=of_warp, added=added, squared=squared, factors_at=factors_at,
        result=result, fetch_factors=fetch_factors, finish=finish,
    )  # fmt: skip


@functools.cache
def merged_in_cluster(blocks: int) -> Callable:
    """Device function: a row's mean and squared differences, merged from its cluster's blocks.

    They merge as a block's warps do, and read each other's shared memory.
    """

    @cuda.jit(device=True)
    def of_row(count, mean, square, columns):
        moments = cuda.shared.array(4, float32, alignment=16)
        its = cuda.local.array((blocks, 3), float32)
        if cuda.threadIdx.x == 0:
            ptx.store4(moments, 0, (count, mean, square, float32(0)))
        cluster_barrier()
        total, squares = float32(0), float32(0)
        for block in range(blocks):
            four = load4_cluster(moments, int32(0), int32(block))
            its[block, 0], its[block, 1], its[block, 2] = four[0], four[1], four[2]
            total += four[0] * four[1]
        middle = total / float32(columns)
        for block in range(blocks):
            difference = its[block, 1] - middle
            squares += its[block, 2] + difference * its[block, 0] * difference
        cluster_barrier()  # a block may not end while others read its moments
        return middle, squares

    return of_row


@functools.cache
def rows_in_registers(config: RowConfig, variant: Variant) -> Callable:
    """The kernel of steps 6, 7 and 10, (x, gamma, beta, eps, out), with `config.rows` rows a block.

    Rows are at most `config.longest` long. Launch with ``config.threads`` threads; where a row has
    several blocks, with ``rows * config.blocks`` blocks.
    """
    part = row_functions(config, variant)
    load_chunk, added, squared, finish = part.load_chunk, part.added, part.squared, part.finish
    of_warp, fetch_factors = part.of_warp, part.fetch_factors
    fetches = config.ahead and (variant.gamma or variant.beta)
    row_threads, rows, elements = config.row_threads, config.rows, config.elements
    wide = variant.wide
    held = 2 * elements if config.ahead else 8
    warps = row_threads // WARP
    add_lanes = lanes_sum(min(row_threads, WARP))
    near_warps = heuristics.power_above(warps)
    add_warps = lanes_sum(near_warps)

    if warps <= 1:

        @cuda.jit(fastmath=True, max_registers=config.max_registers)
        def layer_norm_rows(x, gamma, beta, eps, out):
            values = cuda.local.array(elements, float32)
            factors = cuda.local.array(held, float32)
            grid_dependency_wait()
            t = int32(cuda.threadIdx.x)
            first = int64(t % int32(row_threads)) * wide
            wanted = int32(cuda.blockIdx.x * rows + t // int32(row_threads))
            columns = int32(x.shape[1])
            row = min(wanted, int32(x.shape[0] - 1))  # surplus threads load the last row again
            load_chunk(x, row, first, columns, values)
            if fetches:
                fetch_factors(gamma, beta, first, columns, factors)
            mean = add_lanes(added(values, first, columns)) / float32(columns)
            variance = add_lanes(squared(values, first, columns, mean)) / float32(columns)
            scale = float32(1) / math.sqrt(variance + eps)
            here = wanted < x.shape[0]
            finish(out, row, first, columns, values, mean, scale, gamma, beta, here, factors)

        return layer_norm_rows

    blocks = config.blocks
    of_cluster = merged_in_cluster(blocks) if blocks > 1 else None

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def layer_norm_row(x, gamma, beta, eps, out):
        if blocks > 1:
            cluster(blocks)
        values = cuda.local.array(elements, float32)
        factors = cuda.local.array(held, float32)
        warp_means = cuda.shared.array(warps, float32)
        warp_squares = cuda.shared.array(warps, float32)
        grid_dependency_wait()
        row, t, before = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x), int32(0)
        if blocks > 1:
            row, before = row // int32(blocks), cluster_rank() * int32(warps)
        warp, lane = t // int32(WARP), t % int32(WARP)
        first = int64(t + before * int32(WARP)) * wide
        columns = int32(x.shape[1])
        load_chunk(x, row, first, columns, values)
        if fetches:
            fetch_factors(gamma, beta, first, columns, factors)
        count = max(of_warp(before + warp, columns), float32(1))
        mean = add_lanes(added(values, first, columns)) / count
        square = add_lanes(squared(values, first, columns, mean))
        if lane == 0:
            warp_means[warp], warp_squares[warp] = mean, square
        cuda.syncthreads()
        # a lane takes the moments of a warp: all are merged at once, by the formula of `merged`
        place = lane % int32(near_warps)
        other = min(place, int32(warps - 1))
        weight = of_warp(before + other, columns) if place < warps else float32(0)
        count = float32(columns)
        if blocks > 1:
            count = add_warps(weight)
        mean = add_warps(warp_means[other] * weight) / max(count, float32(1))
        difference = warp_means[other] - mean
        square = warp_squares[other] if place < warps else float32(0)
        square = add_warps(square + difference * weight * difference)
        if blocks > 1:
            mean, square = of_cluster(count, mean, square, columns)
        scale = float32(1) / math.sqrt(square / float32(columns) + eps)
        finish(out, row, first, columns, values, mean, scale, gamma, beta, True, factors)

    return layer_norm_row


@functools.cache
def long_rows(config: RowConfig, variant: Variant) -> Callable:
    """The kernel of step 9, (x, gamma, beta, eps, out): a block a row of any length.

    It walks in chunks of `config.longest`; a thread merges its part of each into its moments.
    """
    part = row_functions(config, variant, again=True)
    load_chunk, how_many, finish = part.load_chunk, part.how_many, part.finish
    added, squared = part.added, part.squared
    elements, chunk, wide = config.elements, config.longest, variant.wide
    of_block = merged_in_block(config.row_threads // WARP)

    @cuda.jit(max_registers=config.max_registers)
    def layer_norm_long(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        factors = cuda.local.array(8, float32)
        grid_dependency_wait()
        row, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        begin, columns = int64(thread) * wide, int32(x.shape[1])
        count, mean, square = float32(0), float32(0), float32(0)
        for start in range(0, columns, chunk):
            first = int64(start) + begin
            load_chunk(x, row, first, columns, values)
            found = how_many(first, columns)
            middle = added(values, first, columns) / max(found, float32(1))
            spread = squared(values, first, columns, middle)
            count, mean, square = merged(count, mean, square, found, middle, spread)
        count, mean, square = of_block(count, mean, square)
        scale = float32(1) / math.sqrt(square / count + eps)
        for start in range(0, columns, chunk):
            first = int64(start) + begin
            load_chunk(x, row, first, columns, values)
            finish(out, row, first, columns, values, mean, scale, gamma, beta, True, factors)

    return layer_norm_long


# --- launches -------------------------------------------------------------------------------------


def in_registers(config: RowConfig, rows: int, columns: int, variant: Variant) -> Made:
    """The kernel of rows in registers for a config, and its launch parameters."""
    variant = replace(variant, unguarded=config.unguarded(columns, variant.aligned))
    blocks = ceil_div(rows, config.rows) * config.blocks
    return Made(rows_in_registers(config, variant), blocks, config.threads)


def _kept(columns: int, variant: Variant) -> Variant:
    keep = variant.keep_in_l2 and variant.aligned and columns <= heuristics.IN_L2
    return replace(variant, keep_in_l2=keep)


def _by(config_for: Callable[[int, int, Variant], RowConfig]) -> Callable[..., Made]:
    def launch(rows: int, columns: int, variant: Variant) -> Made:
        config = config_for(rows, columns, variant)
        return in_registers(config, rows, columns, _kept(columns, variant))

    return launch


def _long(rows: int, columns: int, variant: Variant) -> Made:
    return Made(long_rows(heuristics.LONG, _kept(columns, variant)), rows, heuristics.LONG.threads)


def _clusters(rows: int, columns: int, variant: Variant) -> Made:
    config = heuristics.cluster_config(rows, columns, variant.aligned)
    return in_registers(config, rows, columns, replace(variant, keep_in_l2=False))


#: The steps by name.
IN_REGISTERS = {
    "registers": fused(_by(heuristics.block_config), row_limit(heuristics.longest_in_registers)),
    "several rows": fused(
        _by(heuristics.several_config), row_limit(lambda _: WARP * heuristics.SHORT_ELEMENTS[-1])
    ),
    "long": fused(_long, lambda problem: ""),
    "clusters": fused(_clusters, heuristics.no_cluster),
}
