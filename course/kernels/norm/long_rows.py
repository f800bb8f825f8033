"""Normalise long rows, step 8: a row in registers and in shared memory.

Step 8 takes rows that do not fit a block's registers. The first elements are in registers as in
step 6, the rest in shared memory, up to 74,201 elements on an H200. So each element is still read
once. Only one block, or a few, fit an SM, so hardly any other block loads while one stores. Hence
blocks are persistent. Where a result was stored, they prefetch the next row's element, and add up
elements that have arrived. Each thread accesses only its own part of shared memory.

Gamma and beta are as long as a row and do not fit L1 beside it. So every row loads them from L2, as
many bytes as x and the result. A thread loads the factors of its next access while it computes one.

Rows whose length is no multiple of four begin at any address. All of such a row but at most 66
elements is its *body*, which begins at a multiple of 256 bytes. The body is accessed four elements
at a time; the elements before and behind it are loaded and stored one a thread. The body's first
column differs from row to row. So there are four copies of gamma and of beta, which begin with
elements 0 to 3. In one of them the body's factors are aligned.

Blocks that have several rows start staggered. Else all would wait for their sums at the same time,
and leave memory idle: on an H200 staggering is worth 1 to 2%.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numba import float32, int32, int64, uint32

from course.backend import cuda
from course.heuristics import norm as heuristics
from course.heuristics.norm import BODY_ALIGNMENT, EDGE, RowConfig, Variant
from course.kernels.activation import function_of
from course.kernels.norm.first_steps import Made
from course.kernels.norm.registers import row_functions
from course.kernels.steps import multiprocessors, shared_memory_limit
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx import commit_copies, copy4_async, copy_async, wait_copies

#: Blocks that have more rows than `FEW` start in `PHASES` groups, `APART` ns after each other.
FEW, PHASES, APART = 2, 8, 1000
BEHIND = 2  # accesses in flight, behind which arrived elements are added up

# --- rows that begin anywhere ---------------------------------------------------------------------


def edges(variant: Variant) -> tuple[Callable, ...]:
    """Device functions of a row's body and the elements beside it; unless shifted, all is body.

    `body`: number of elements in it. `before`: number in front of it. `factors_from`: index of
    its first element's factors in the four copies of gamma and beta. `column`: column of a thread's
    element beside the body. `fetch`: start to copy that element and its factors. `finish`: store
    its result.
    """
    has_gamma, has_beta, activation = variant.gamma, variant.beta, function_of(variant.activation)
    shifted = variant.shifted

    @cuda.jit(device=True)
    def body(columns):
        return int32((columns - (BODY_ALIGNMENT - 1)) // 4 * 4) if shifted else int32(columns)

    @cuda.jit(device=True)
    def before(row, columns):
        return int32(-(row * columns) & int32(BODY_ALIGNMENT - 1)) if shifted else int32(0)

    @cuda.jit(device=True)
    def factors_from(before, factor):
        return int32(before + (before & int32(3)) * (factor.size // 4 - 1)) if shifted else int32(0)

    @cuda.jit(device=True)
    def column(thread, before, body):
        return int64(thread) if thread < before else int64(thread + body)

    @cuda.jit(device=True)
    def fetch(rest, place, x, row, column, gamma, beta):
        copy_async(rest, place, x, (row, column))
        if has_gamma:
            copy_async(rest, place + EDGE, gamma, column)
        if has_beta:
            copy_async(rest, place + 2 * EDGE, beta, column)

    @cuda.jit(device=True)
    def finish(out, row, column, rest, place, scaling):
        mean, scale = scaling
        value = (rest[place] - mean) * scale
        if has_gamma:
            value *= rest[place + EDGE]
        if has_beta:
            value += rest[place + 2 * EDGE]
        out[row, column] = activation(value)

    return body, before, factors_from, column, fetch, finish


# --- the kernel -----------------------------------------------------------------------------------


def walking(config: RowConfig, variant: Variant, part: Any, follows: bool) -> tuple[Callable, ...]:
    """Device functions that store a row's results, and prefetch the next row, if one `follows`.

    `sums`: add up a thread's elements in shared memory, less `shift`, and their squares.
    `near_factors`: load the factors of an access that is in registers, one access ahead, double
    buffered. `finish`: store results; return up to which index the next row is summed, and sums.
    """
    load_at, load_row, store_at = part.load_at, part.load_row, part.store_at
    factors_at, result = part.factors_at, part.result
    wide, unguarded, held = variant.wide, variant.unguarded, config.longest
    across, parts, pair = config.threads * wide, config.elements // wide, 2 * wide
    back, begin = BEHIND * across, parts % 2  # begin: the buffer of the first far factors

    @cuda.jit(device=True)
    def added(some, shift, total, square):
        for e in range(wide):
            difference = some[e] - shift
            total += difference
            square += difference * difference
        return total, square

    @cuda.jit(device=True)
    def sums(rest, some, place, length, shift, total, square):
        while place < length:
            load_at(rest, int64(place), some, 0)
            total, square = added(some, shift, total, square)
            place += int32(across)
        return total, square

    @cuda.jit(device=True)
    def write(out, now, rest, some, factors, half, place, scaling, x, then):
        """Store the results of an access, and prefetch the next row's elements in their place."""
        mean, scale = scaling
        row, before = now
        following, next_before = then
        here, column = int64(place), int64(int32(place + before)) + held
        load_at(rest, here, some, 0)
        result(some, 0, mean, scale, factors, half * pair)
        store_at(out, (row, column), some, 0)
        if follows:
            copy4_async(rest, here, x, (following, int64(int32(place + next_before)) + held))

    @cuda.jit(device=True)
    def catch_up(rest, some, first, place, shift, total, square):
        """Add up the elements that were fetched `BEHIND` accesses before."""
        if follows:
            commit_copies()
            wait_copies(BEHIND)
            if place >= first + back:
                load_at(rest, int64(place) - back, some, 0)
                total, square = added(some, shift, total, square)
        return total, square

    @cuda.jit(device=True)
    def caught_up(first, place):
        """The index up to which `catch_up` has added, before the access at `place`."""
        return max(int32(place - back), first) if follows else first

    @cuda.jit(device=True)
    def near_factors(gamma, beta, body, thread, weights, p, factors):
        column = int64(thread) * wide + p * across
        clamped = column if p < unguarded else min(column, int64(body - wide))
        factors_at(gamma, beta, clamped + weights, factors, p % 2 * pair)

    @cuda.jit(device=True)
    def far_factors(gamma, beta, body, place, weights, factors, half):
        last = int32(body - (held + wide))
        column = int64(int32(min(place, last) + weights))
        factors_at(gamma, beta, column + held, factors, half * pair)

    @cuda.jit(device=True)
    def far(out, now, rest, some, first, body, length, factors, weights, scaling, gamma, beta,
            x, then, shift):  # fmt: skip
        """Store the results of the elements in shared memory."""
        total, square = float32(0), float32(0)
        place = first
        while place + across < length:  # the last prefetch of factors may be in vain
            ahead = int32(place + across)
            far_factors(gamma, beta, body, ahead, weights, factors, 1 - begin)
            write(out, now, rest, some, factors, begin, place, scaling, x, then)
            total, square = catch_up(rest, some, first, place, shift, total, square)
            place = ahead
            ahead = int32(place + across)
            far_factors(gamma, beta, body, ahead, weights, factors, begin)
            write(out, now, rest, some, factors, 1 - begin, place, scaling, x, then)
            total, square = catch_up(rest, some, first, place, shift, total, square)
            place = ahead
        upto = caught_up(first, place)
        if place < length:
            write(out, now, rest, some, factors, begin, place, scaling, x, then)
        return upto, total, square

    @cuda.jit(device=True)
    def finish(out, now, values, rest, some, thread, first, body, length, factors, weights, scaling,
               gamma, beta, x, then):  # fmt: skip
        mean, scale = scaling
        row, before = now
        following, next_before = then
        start = int64(thread) * wide
        for p in range(parts):
            if p + 1 < parts:
                near_factors(gamma, beta, body, thread, weights, p + 1, factors)
            elif body > held:
                far_factors(gamma, beta, body, int32(start), weights, factors, begin)
            result(values, p * wide, mean, scale, factors, p % 2 * pair)
            column = start + p * across
            if p < unguarded or column < body:
                store_at(out, (row, column + before), values, p * wide)
            if follows:
                clamped = column if p < unguarded else min(column, int64(body - wide))
                load_row(x, (following, clamped + next_before), values, p * wide)
        return far(out, now, rest, some, first, body, length, factors, weights, scaling, gamma,
                   beta, x, then, values[0])  # fmt: skip

    return sums, near_factors, finish


@functools.cache
def rows_in_both(config: RowConfig, variant: Variant) -> Callable:
    """The kernel of step 8, (x, gamma, beta, eps, out); a block has one row at a time.

    `variant` comes from `split_variant`. The buffers of warps' means and squares are doubled, so
    that one barrier a row is enough. A thread sums differences from its first element of the row.
    Launch with ``config.threads`` threads, `dynamic_shared` bytes and any number of blocks.
    """
    # again: with streaming loads into registers, rows took 1 to 8% longer on an H200
    part = row_functions(config, variant, again=True)
    load_chunk, added, squared, of_warp = part.load_chunk, part.added, part.squared, part.of_warp
    body_in, before_in, factors_from, edge_column, fetch_edge, finish_edge = edges(variant)
    sums, near_factors, finish = walking(config, variant, part, True)
    finish_last = walking(config, variant, part, False)[-1]
    elements, held, wide = config.elements, config.longest, variant.wide
    across, both_sets = config.threads * wide, 4 * wide
    shifted, has_gamma = variant.shifted, variant.gamma
    warps = config.threads // WARP
    near_warps = heuristics.power_above(warps)
    add_lanes, add_warps = lanes_sum(WARP), lanes_sum(near_warps)

    @cuda.jit(device=True)
    def weight_of(warp, body, columns):
        rest = max(int32(body - held), int32(0))
        whole = rest // int32(across)
        left = rest - whole * int32(across) - warp * int32(WARP * wide)
        left = min(max(left, int32(0)), int32(WARP * wide))
        left += min(max(int32(columns - body) - warp * int32(WARP), int32(0)), int32(WARP))
        return of_warp(warp, body) + float32(whole * int32(WARP * wide) + left)

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def layer_norm_both(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        some = cuda.local.array(wide, float32)
        factors = cuda.local.array(both_sets, float32)
        warp_means = cuda.shared.array((2, WARP), float32)
        warp_squares = cuda.shared.array((2, WARP), float32)
        warp_counts = cuda.shared.array(WARP, float32)
        rest = cuda.shared.array(0, float32)
        rows, columns = int32(x.shape[0]), int32(x.shape[1])
        thread = int32(cuda.threadIdx.x)
        begin = int64(thread) * wide
        warp, lane = thread // int32(WARP), thread % int32(WARP)
        body = body_in(columns)
        first, length = int32(thread * wide), int32(max(int32(body - held), int32(0)))
        beside, own = shifted and thread < columns - body, int32(length + thread)
        row, slot = int32(cuda.blockIdx.x), int32(0)
        if rows > FEW * cuda.gridDim.x:
            cuda.nanosleep(uint32(row % PHASES * APART))
        before = before_in(row, columns)
        if row < rows:
            if beside:
                fetch_edge(rest, own, x, row, edge_column(thread, before, body), gamma, beta)
            for start in range(first, length, across):
                copy4_async(rest, start, x, (row, start + held + before))
            load_chunk(x, row, before + begin, int32(body + before), values)
        if lane == 0:
            warp_counts[warp] = weight_of(warp, body, columns)
        cuda.syncthreads()
        upto, total, square = first, float32(0), float32(0)
        while row < rows:
            commit_copies()
            wait_copies(0)
            count, shift = max(warp_counts[warp], float32(1)), values[0]
            total, square = sums(rest, some, upto, length, shift, total, square)
            number = float32(
                int32(length - first + int32(across - 1)) // int32(across) * int32(wide)
            )
            middle = total / max(number, float32(1))
            square -= total * middle
            total += number * shift + added(values, begin, body)
            if beside:
                total += float32(rest[own])
            mean = add_lanes(total) / count
            middle += shift - mean
            square += number * middle * middle + squared(values, begin, body, mean)
            if beside:
                difference = float32(rest[own]) - mean
                square += difference * difference
            square = add_lanes(square)
            weights = factors_from(before, gamma if has_gamma else beta)
            near_factors(gamma, beta, body, thread, weights, 0, factors)
            if lane == 0:
                warp_means[slot, warp], warp_squares[slot, warp] = mean, square
            cuda.syncthreads()
            place = lane % int32(near_warps)
            other = min(place, int32(warps - 1))
            weight = warp_counts[other] if place < warps else float32(0)
            mean = add_warps(warp_means[slot, other] * weight) / float32(columns)
            difference = warp_means[slot, other] - mean
            square = warp_squares[slot, other] if place < warps else float32(0)
            square = add_warps(square + difference * weight * difference)
            scaling = mean, float32(1) / math.sqrt(square / float32(columns) + eps)
            following = row + int32(cuda.gridDim.x)
            now, then = (row, before), (following, before_in(following, columns))
            if beside:
                column = edge_column(thread, before, body)
                finish_edge(out, row, column, rest, own, scaling)
                if following < rows:
                    column = edge_column(thread, then[1], body)
                    fetch_edge(rest, own, x, following, column, gamma, beta)
            if following < rows:
                upto, total, square = finish(out, now, values, rest, some, thread, first, body,
                    length, factors, weights, scaling, gamma, beta, x, then)  # fmt: skip
            else:
                finish_last(out, now, values, rest, some, thread, first, body, length, factors,
                            weights, scaling, gamma, beta, x, then)  # fmt: skip
            row, before, slot = following, then[1], slot ^ int32(1)

    return layer_norm_both


# --- its launch -----------------------------------------------------------------------------------


def in_both(rows: int, columns: int, variant: Variant) -> Made:
    """The kernel for rows of a length, and its launch parameters."""
    config = heuristics.split_config(columns, shared_memory_limit()[0], variant.shifted)
    variant = replace(heuristics.split_variant(config, variant, columns), keep_in_l2=False)
    most = multiprocessors() * (heuristics.ROW_THREADS[-1] // config.threads)
    size = heuristics.dynamic_shared(config, columns, variant.shifted)
    return Made(rows_in_both(config, variant), min(rows, most), config.threads, size)
