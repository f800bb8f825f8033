"""LayerNorm backward in one persistent kernel, with rows of dy and x in registers.

A thread has a few columns of each row, of x and of dy. It adds up dgamma and dbeta of its columns
over the rows in registers, too. The formulas are in `course.kernels.norm.backward`.

Where an activation follows, its derivative comes first. Its input, hat * gamma + beta, is computed
once more, and never written. That needs a row's mean and scale before the sums over dy can begin:
two barriers a row, not one.
"""

import functools
import math
from collections.abc import Callable

from numba import float32, int32, int64

from course.backend import cuda
from course.heuristics.norm import RowConfig, Variant, power_above
from course.kernels.activation import function_of
from course.kernels.norm.registers import row_functions
from course.kernels.warps import WARP, lanes_sum


@functools.cache
def backward_in_registers(config: RowConfig, variant: Variant, parameters: bool) -> Callable:
    """The kernel (dy, x, gamma, beta, eps, dx, some) of method "registers".

    beta is read only where the variant has an activation.

    some : (2, blocks * config.rows, columns) float32
        Receives sums over parts of the rows, for dgamma and then for dbeta, where `parameters` is
        true.

    Launch with ``config.threads`` threads and any number of blocks. One barrier a row: each warp
    sums about its own mean, and merging moves the sums to the row's. With an activation, two.
    The shared arrays are double buffered, so no thread overwrites what another still reads.
    """
    part = row_functions(config, variant)
    load_at, store_at, load_chunk = part.load_at, part.store_at, part.load_chunk
    added, squared, of_warp = part.added, part.squared, part.of_warp
    row_threads, rows, elements = config.row_threads, config.rows, config.elements
    unguarded, wide = variant.unguarded, 4 if variant.aligned else 1
    activated, slope = bool(variant.activation), function_of(variant.activation, backward=True)
    parts, warps = config.parts(variant.aligned), max(row_threads // WARP, 1)
    add_lanes = lanes_sum(min(row_threads, WARP))
    near_warps = power_above(warps)
    add_warps = lanes_sum(near_warps)
    of_sums = Variant("float32", variant.aligned, unguarded)
    own = row_functions(config, of_sums).store_at

    def make_factors(there: bool, missing: float) -> Callable:
        missing = float32(missing)

        @cuda.jit(device=True)
        def near_factors(array, p, columns, thread, factors):
            """Part p of gamma or beta, or constants for None; zeros beyond the end of the row."""
            column = int64(thread) * wide + p * row_threads * wide
            here = p < unguarded or column < columns
            for e in range(wide):
                factors[e] = missing
            if there:
                clamped = column if p < unguarded else min(column, int64(columns - wide))
                load_at(array, clamped, factors, 0)
            for e in range(wide):
                factors[e] = factors[e] if here else float32(0)

        return near_factors

    near_gamma = make_factors(variant.gamma, 1)
    near_beta = make_factors(variant.beta, 0)

    @cuda.jit(device=True)
    def go_back(values, gradients, mean, scale, gamma, beta, columns, thread):
        """Multiply gradients, in place, by the activation's derivative at its input."""
        factors, shifts = cuda.local.array(4, float32), cuda.local.array(4, float32)
        for p in range(parts):
            near_gamma(gamma, p, columns, thread, factors)
            near_beta(beta, p, columns, thread, shifts)
            for e in range(wide):
                hat = (values[p * wide + e] - mean) * scale
                given = hat * factors[e] + shifts[e]
                gradients[p * wide + e] = slope(gradients[p * wide + e], given)

    @cuda.jit(device=True)
    def sums(values, gradients, mean, gamma, columns, thread):
        """The sums of g = dy * gamma and of g * (x - mean)."""
        factors = cuda.local.array(4, float32)
        sum_g, sum_gx = float32(0), float32(0)
        for p in range(parts):
            near_gamma(gamma, p, columns, thread, factors)
            for e in range(wide):
                g = gradients[p * wide + e] * factors[e]
                sum_g += g
                sum_gx += g * (values[p * wide + e] - mean)
        return add_lanes(sum_g), add_lanes(sum_gx)

    @cuda.jit(device=True)
    def publish(a, b, shared, side, first, thread):
        """Write two numbers of each warp to shared memory, for all others."""
        if thread % int32(WARP) == 0:
            warp = thread // int32(WARP)
            shared[side, first, warp], shared[side, first + 1, warp] = a, b

    @cuda.jit(device=True)
    def merged_moments(shared, side, columns, thread):
        """The row's mean and squares, merged from its warps'; this lane's mean less the row's."""
        place = thread % int32(near_warps)
        other, here = min(place, int32(warps - 1)), place < warps
        weight = of_warp(other, columns) if here else float32(0)
        mean = add_warps(shared[side, 0, other] * weight) / float32(columns)
        moved = shared[side, 0, other] - mean
        square = shared[side, 1, other] if here else float32(0)
        return mean, add_warps(square + moved * weight * moved), moved

    @cuda.jit(device=True)
    def merged_sums(moved, shared, side, thread):
        """The row's sums, merged from its warps'; `moved` is a warp's mean less the row's."""
        place = thread % int32(near_warps)
        other, here = min(place, int32(warps - 1)), place < warps
        sum_g = shared[side, 2, other] if here else float32(0)
        sum_gx = shared[side, 3, other] if here else float32(0)
        sum_gx = add_warps(sum_gx + sum_g * moved)
        return add_warps(sum_g), sum_gx

    @cuda.jit(device=True)
    def row_sums(values, gradients, mean, square, eps, gamma, beta, columns, thread, shared, side):
        moved = float32(0)
        if activated:
            if warps > 1:
                publish(mean, square, shared, side, 0, thread)
                cuda.syncthreads()
                mean, square, _ = merged_moments(shared, side, columns, thread)
            scale = float32(1) / math.sqrt(square / float32(columns) + eps)
            go_back(values, gradients, mean, scale, gamma, beta, columns, thread)
        sum_g, sum_gx = sums(values, gradients, mean, gamma, columns, thread)
        if warps > 1:
            if not activated:
                publish(mean, square, shared, side, 0, thread)
            publish(sum_g, sum_gx, shared, side, 2, thread)
            cuda.syncthreads()
            if not activated:
                mean, square, moved = merged_moments(shared, side, columns, thread)
            sum_g, sum_gx = merged_sums(moved, shared, side, thread)
        scale = float32(1) / math.sqrt(square / float32(columns) + eps)
        return mean, scale, sum_g, sum_gx

    @cuda.jit(device=True)
    def save(some, which, row, sums_of, columns, thread):
        for p in range(parts):
            column = int64(thread) * wide + p * row_threads * wide
            if p < unguarded or column < columns:
                own(some, (which, row, column), sums_of, p * wide)

    @cuda.jit(max_registers=config.max_registers)
    def layer_norm_backward(dy, x, gamma, beta, eps, dx, some):
        shared = cuda.shared.array((2, 4, warps), float32)
        values = cuda.local.array(elements, float32)
        gradients = cuda.local.array(elements, float32)
        factors = cuda.local.array(4, float32)
        of_gamma = cuda.local.array(elements, float32)
        of_beta = cuda.local.array(elements, float32)
        t = int32(cuda.threadIdx.x)
        thread, slot = t % int32(row_threads), t // int32(row_threads)
        begin = int64(thread) * wide
        columns, last, side = int32(x.shape[1]), int32(x.shape[0] - 1), int32(0)
        for e in range(elements):
            of_gamma[e], of_beta[e] = float32(0), float32(0)
        for first in range(cuda.blockIdx.x * rows, x.shape[0], cuda.gridDim.x * rows):
            wanted = int32(first) + slot
            row = min(wanted, last)
            load_chunk(x, row, begin, columns, values)
            load_chunk(dy, row, begin, columns, gradients)
            count = float32(columns)
            if warps > 1:
                count = max(of_warp(t // int32(WARP), columns), float32(1))
            mean = add_lanes(added(values, begin, columns)) / count
            square = add_lanes(squared(values, begin, columns, mean))
            mean, scale, sum_g, sum_gx = row_sums(
                values, gradients, mean, square, eps, gamma, beta, columns, thread, shared, side
            )
            side = int32(1) - side
            sum_g, sum_gx = sum_g / float32(columns), sum_gx * scale / float32(columns)
            for p in range(parts):
                column, n = begin + p * row_threads * wide, p * wide
                here = wanted <= last and (p < unguarded or column < columns)
                near_gamma(gamma, p, columns, thread, factors)
                for e in range(wide):
                    hat = (values[n + e] - mean) * scale
                    if parameters and here:
                        of_gamma[n + e] += gradients[n + e] * hat
                        of_beta[n + e] += gradients[n + e]
                    values[n + e] = scale * (gradients[n + e] * factors[e] - sum_g - hat * sum_gx)
                if here:
                    store_at(dx, (row, column), values, n)
        if parameters:
            place = int32(cuda.blockIdx.x * rows) + slot
            save(some, 0, place, of_gamma, columns, thread)
            save(some, 1, place, of_beta, columns, thread)

    return layer_norm_backward
