"""Normalise long rows, steps 8 and 9: a row in registers and shared memory, and longer ones.

Step 8 is for rows that a block's registers do not hold: the first numbers lie in registers as in
step 6, the rest in shared memory, up to 74,201 numbers on an H200. Still each is read once. Few
blocks, or one, have room on a multiprocessor, so few others' loads fill the time in which a block
writes. Hence it walks over rows: where a result was written, the same place's next number is on its
way, and what has arrived is added up meanwhile.

Gamma and beta are as long as a row, too long for the L1 cache beside it, so every row fetches them
from L2, as many bytes as x and the result together: always those of the next access, while a thread
computes one.

Blocks that walk over several rows begin a little apart. Together they would wait for sums at the
same time, and memory with them: on an H200 that is worth 1 to 2%. Tried there, and no faster: a
cluster of two or more blocks a row, which tell each other their sums through shared memory.

Step 9 is for rows of any length: moments of a chunk after the other, then the row is read a second
time, while some of it may still be in L2.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from numba import float32, int32, int64, uint32

from course.backend import cuda
from course.kernels.norm_rows import Form, Pieces, Shape, lanes_sum, pieces, power_above
from course.kernels.norm_split import Rest, Split, edges, rest_pieces
from course.kernels.norm_steps import WARP, merged, merged_in_warp

SUMS = 4 * 5 * WARP  # bytes of static shared memory: warps' counts, two of means and squares
#: Blocks that walk over more rows than `FEW` begin in `PHASES` groups, `APART` ns after each other.
FEW, PHASES, APART = 2, 8, 1000


class Finish(NamedTuple):
    """Device functions that write a row's results, and begin to bring the next row's numbers.

    `factors`: begin to fetch gamma and beta of a group of accesses in registers. `near`: results of
    the numbers in registers; `far`: of those in shared memory. It returns up to which place it has
    added up what arrived, and the sums.
    """

    factors: Callable
    near: Callable
    far: Callable


def finishing(split: Split, form: Form, part: Pieces, rest: Rest, follows: bool) -> Finish:
    """The device functions for a split and a form, and for whether a row follows.

    Gamma and beta are fetched one group of accesses ahead, into two sets in turn.
    """
    shape, group, wide, full = split.shape, split.group, form.wide, form.full
    put, take_row, factors_at, result = part.put, part.take_row, part.factors_at, part.result
    write, write_one = rest.write, rest.write_one
    catch_up, caught_up = rest.catch_up, rest.caught_up
    held, across, parts = shape.longest, shape.threads * wide, shape.elements // wide
    span, pair = group * across, 2 * wide
    begin = -(-parts // group) % 2  # of the two sets, the rest's first
    exact = not form.shifted  # else a last group may be fetched in vain: no register is left
    reach = 2 * span if exact else span

    @cuda.jit(device=True)
    def near_factors(gamma, beta, body, thread, weights, start, factors):
        first = int64(thread) * wide
        for g in range(group):
            p = start + g
            if p < parts:
                column = first + p * across
                near = column if p < full else min(column, int64(body - wide))
                n = (start // group % 2 * group + g) * pair
                factors_at(gamma, beta, near + weights, factors, n)

    @cuda.jit(device=True)
    def far_factors(gamma, beta, body, place, weights, factors, half):
        last = int32(body - (held + (group - 1) * across + wide))
        column = int64(int32(min(place, last) + weights))
        for g in range(group):
            n = (half * group + g) * pair
            factors_at(gamma, beta, column + (held + g * across), factors, n)

    @cuda.jit(device=True)
    def far(out, now, rest, some, first, body, length, factors, weights, scaling, gamma, beta,
            x, then, shift):  # fmt: skip
        total, square = float32(0), float32(0)
        place, stop = first, int32(length - (group - 1) * across)
        while place + reach < stop:
            ahead = int32(place + span)
            far_factors(gamma, beta, body, ahead, weights, factors, 1 - begin)
            write(out, now, rest, some, factors, begin, place, scaling, x, then)
            total, square = catch_up(rest, some, first, place, shift, total, square)
            place = ahead
            ahead = int32(place + span)
            far_factors(gamma, beta, body, ahead, weights, factors, begin)
            write(out, now, rest, some, factors, 1 - begin, place, scaling, x, then)
            total, square = catch_up(rest, some, first, place, shift, total, square)
            place = ahead
        if exact and place + span < stop:
            ahead = int32(place + span)
            far_factors(gamma, beta, body, ahead, weights, factors, 1 - begin)
            write(out, now, rest, some, factors, begin, place, scaling, x, then)
            total, square = catch_up(rest, some, first, place, shift, total, square)
            place = ahead
            upto = caught_up(first, place)
            write(out, now, rest, some, factors, 1 - begin, place, scaling, x, then)
            place += int32(span)
        else:
            upto = caught_up(first, place)
            if place < stop:
                write(out, now, rest, some, factors, begin, place, scaling, x, then)
                place += int32(span)
        while group > 1 and place < length:
            write_one(out, now, rest, some, factors, place, scaling, weights, gamma, beta, x, then)
            place += int32(across)
        return upto, total, square

    @cuda.jit(device=True)
    def near(out, now, values, body, thread, factors, weights, scaling, gamma, beta, x, then):
        mean, scale = scaling
        row, before = now
        following, next_before = then
        first = int64(thread) * wide
        for start in range(0, parts, group):
            if start + group < parts:
                near_factors(gamma, beta, body, thread, weights, start + group, factors)
            elif body > held:
                far_factors(gamma, beta, body, int32(first), weights, factors, begin)
            for g in range(group):
                p = start + g
                if p < parts:
                    n = (start // group % 2 * group + g) * pair
                    result(values, p * wide, mean, scale, factors, n)
            for g in range(group):
                p = start + g
                column = first + p * across
                if p < full or (p < parts and column < body):
                    put(out, (row, column + before), values, p * wide)
            if follows:
                for g in range(group):
                    p = start + g
                    if p < parts:
                        column = first + p * across
                        near = column if p < full else min(column, int64(body - wide))
                        take_row(x, (following, near + next_before), values, p * wide)

    return Finish(near_factors, near, far)


@functools.cache
def rows_in_both(split: Split, form: Form) -> Callable:
    """The kernel of step 8, (x, gamma, beta, eps, out), with a row a block at a time.

    `form` is of `course.kernels.norm_split.form_of`. Warps exchange means and squares in one of two
    sets, in turn, so that one barrier a row is enough. Sums are of differences from the row's first
    number that a thread has: a number of the row, whatever its mean is.
    Launch with ``split.shape.threads`` threads, ``split.dynamic_shared(...)`` bytes and any number
    of blocks.
    """
    shape = split.shape
    # with streaming loads of what is in registers, rows took 1 to 8% longer on an H200
    part, edge = pieces(shape, form, again=True), edges(form)
    bring, added, squared, of_warp = part.bring, part.added, part.squared, part.of_warp
    rests = [rest_pieces(split, form, part, follows) for follows in (True, False)]
    fetch, arrived, sums = rests[0].fetch, rests[0].arrived, rests[0].sums
    go_on, stop = (finishing(split, form, part, rest, rest is rests[0]) for rest in rests)
    near_factors = go_on.factors
    finish, finish_rest = go_on.near, go_on.far
    finish_last, finish_last_rest = stop.near, stop.far
    body_in, before_in, factors_from = edge.body, edge.before, edge.factors_from
    edge_column, fetch_edge, finish_edge = edge.column, edge.fetch, edge.finish
    elements, held, wide = shape.elements, shape.longest, form.wide
    across, at_once, both_sets = shape.threads * wide, split.group * wide, 4 * split.group * wide
    shifted, has_gamma = form.shifted, form.gamma
    warps = shape.threads // WARP
    near_warps = power_above(warps)
    add_lanes, add_warps = lanes_sum(WARP), lanes_sum(near_warps)

    @cuda.jit(device=True)
    def weight_of(warp, body, columns):
        """Numbers of a row that a warp has."""
        rest = max(int32(body - held), int32(0))
        whole = rest // int32(across)
        left = rest - whole * int32(across) - warp * int32(WARP * wide)
        left = min(max(left, int32(0)), int32(WARP * wide))
        left += min(max(int32(columns - body) - warp * int32(WARP), int32(0)), int32(WARP))
        return of_warp(warp, body) + float32(whole * int32(WARP * wide) + left)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def layer_norm_both(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        some = cuda.local.array(at_once, float32)
        factors = cuda.local.array(both_sets, float32)
        warp_means = cuda.shared.array((2, WARP), float32)
        warp_squares = cuda.shared.array((2, WARP), float32)
        warp_counts = cuda.shared.array(WARP, float32)
        rest = cuda.shared.array(0, float32)
        rows, columns = int32(x.shape[0]), int32(x.shape[1])
        thread = int32(cuda.threadIdx.x)
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
                fetch(rest, start, x, row, start + held + before)
            bring(x, row, before, int32(body + before), thread, values)
        if lane == 0:
            warp_counts[warp] = weight_of(warp, body, columns)
        cuda.syncthreads()
        upto, total, square = first, float32(0), float32(0)
        while row < rows:
            arrived()
            count, shift = max(warp_counts[warp], float32(1)), values[0]
            total, square = sums(rest, some, upto, length, shift, total, square)
            number = float32(
                int32(length - first + int32(across - 1)) // int32(across) * int32(wide)
            )
            middle = total / max(number, float32(1))
            square -= total * middle
            total += number * shift + added(values, 0, body, thread)
            if beside:
                total += float32(rest[own])
            mean = add_lanes(total) / count
            middle += shift - mean
            square += number * middle * middle + squared(values, 0, body, thread, mean)
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
                finish(out, now, values, body, thread, factors, weights, scaling, gamma, beta,
                       x, then)  # fmt: skip
                upto, total, square = finish_rest(
                    out, now, rest, some, first, body, length, factors, weights, scaling, gamma,
                    beta, x, then, values[0],
                )  # fmt: skip
            else:
                finish_last(out, now, values, body, thread, factors, weights, scaling, gamma, beta,
                            x, then)  # fmt: skip
                finish_last_rest(
                    out, now, rest, some, first, body, length, factors, weights, scaling, gamma,
                    beta, x, then, values[0],
                )  # fmt: skip
            row, before, slot = following, then[1], slot ^ int32(1)

    return layer_norm_both


@functools.cache
def long_rows(shape: Shape, form: Form) -> Callable:
    """The kernel of step 9, (x, gamma, beta, eps, out): a block a row of any length.

    Chunks of `shape.longest` numbers; each thread merges its part of a chunk into its moments.
    """
    part = pieces(shape, form, again=True)
    bring, how_many, finish = part.bring, part.how_many, part.finish
    added, squared = part.added, part.squared
    elements, chunk, warps = shape.elements, shape.longest, shape.row_threads // WARP

    @cuda.jit(max_registers=shape.max_registers)
    def layer_norm_long(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        counts = cuda.shared.array(warps, float32)
        means = cuda.shared.array(warps, float32)
        squares = cuda.shared.array(warps, float32)
        row, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        warp, lane = thread // int32(WARP), thread % int32(WARP)
        columns = int32(x.shape[1])
        count, mean, square = float32(0), float32(0), float32(0)
        for start in range(0, columns, chunk):
            bring(x, row, start, columns, thread, values)
            found = how_many(start, columns, thread)
            middle = added(values, start, columns, thread) / max(found, float32(1))
            spread = squared(values, start, columns, thread, middle)
            count, mean, square = merged(count, mean, square, found, middle, spread)
        count, mean, square = merged_in_warp(count, mean, square)
        if lane == 0:
            counts[warp], means[warp], squares[warp] = count, mean, square
        cuda.syncthreads()
        other = min(lane, int32(warps - 1))
        count = counts[other] if lane < warps else float32(0)
        square = squares[other] if lane < warps else float32(0)
        count, mean, square = merged_in_warp(count, means[other], square)
        scale = float32(1) / math.sqrt(square / count + eps)
        for start in range(0, columns, chunk):
            bring(x, row, start, columns, thread, values)
            finish(out, row, start, columns, thread, values, mean, scale, gamma, beta, True)

    return layer_norm_long
