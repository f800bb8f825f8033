"""The spectral autoencoder as one kernel: five warps take the five frames of a few spectra.

A group of five warps has a tile of spectra; warp f has frame f of each. A lane has `samples` x
`columns` results of every product with 64 columns: a warp's lanes are 64 / columns across and
columns / 2 down. What a warp computes from its own frame stays in its own part of shared memory. So
only two steps need the whole block: the code is a sum over the five frames (first barrier), and all
frames are rebuilt from the code (second barrier).

Memory traffic: a spectrum is read once from device memory, and once more, from L1 or L2, for its
error. The rebuilt spectrum and its error are written once; each block reads the weights once.

==========================  =====================================================================
`fused(config)`, resident   all weights, 77 KiB, stay in shared memory, and a block takes tile after
                            tile; the first tile copies weights in three parts (needs 8.0)
`fused(config)`, else       a block fetches a part of at most 21 KiB when it needs it: fits in the
                            48 KiB of static shared memory of every GPU, at 13 barriers a tile
==========================  =====================================================================

Bank conflicts: spectra have a pitch of 336 elements in shared memory, a shift by 16 banks, since
neighbouring lanes read two spectra. (Two lanes side by side read the same weights, and the next two
the same spectrum: such loads of 16 bytes need half the wavefronts.) Rows of the basis have a pitch
of 324: 8 lanes that read 4 elements of 8 rows use all 32 banks.

With link-time optimisation (lto) a kernel would have 2 to 7% more instructions (sm_90).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda, jit_without_lto
from course.kernels.activation import gelu
from course.kernels.warps import ALL
from course_models.spectral.config import CODE_PITCH, HALF_BASIS, SAMPLE, FusedConfig
from course_models.spectral.data import BANDS, FRAMES, POINTS
from course_models.spectral.weights import (
    BASIS_PITCH,
    BIASES,
    CODE,
    CODE_BIAS,
    DECODE_BIAS,
    EPSILON,
    PACKED_BASIS,
    PACKED_BIASES,
    PACKED_CODE,
    PACKED_DECODE,
    PACKED_ENCODE,
)
from warpsim.ptx import (
    commit_copies,
    copy4_async,
    load,
    load2,
    load4,
    store,
    store2,
    store4,
    wait_copies,
)


def fused(config: FusedConfig) -> Callable:
    """The kernel of a config: (x, packed, y, errors).

    x and y (batch, 320), errors (batch,), packed from `Weights.packed`, all float32, in C order and
    at addresses that are multiples of 16. Launch any number of blocks of ``config.threads``
    threads, with ``config.dynamic_shared`` bytes of dynamic shared memory.
    """
    samples, columns, groups, tile = config.samples, config.columns, config.groups, config.tile
    threads, resident, folded = config.threads, config.resident, config.folded
    across, down = BANDS // columns, columns // 2  # lanes of a warp
    wide = min(columns, 4)  # elements in one access
    stride = across * wide  # between a lane's accesses to a row
    features = CODE // across  # elements of a code that a lane has in the first product
    first, steps = (2, across.bit_length() - 1) if down > 1 else (1, 5)  # lanes of a spectrum
    of_weights, of_group = config.weight_elements, config.group_elements
    of_block = of_weights + groups * of_group
    of_codes, of_errors = tile * SAMPLE, tile * (SAMPLE + CODE_PITCH)
    half = features // 2
    each = -(-tile // FRAMES)  # spectra of a warp in `middle`
    skew = 8 if down == 4 else 0  # banks by which every second pair of spectra is shifted
    made = jit_without_lto(fastmath=True, max_registers=config.max_registers)

    @cuda.jit(device=True)
    def read(array, at, to, row, column):
        """Load a lane's `wide` neighbouring elements to registers."""
        if wide == 4:
            four = load4(array, at)
            to[row, column], to[row, column + 1] = four[0], four[1]
            to[row, column + 2], to[row, column + 3] = four[2], four[3]
        else:
            to[row, column], to[row, column + 1] = load2(array, at)

    @cuda.jit(device=True)
    def write(array, at, of, row, column):
        """Store a lane's `wide` neighbouring elements from registers."""
        if wide == 4:
            four = of[row, column], of[row, column + 1], of[row, column + 2], of[row, column + 3]
            store4(array, at, four)
        else:
            store2(array, at, (of[row, column], of[row, column + 1]))

    @cuda.jit(device=True)
    def begin_copy(packed, start, count, shared, to):
        """Begin to copy weights, all threads of the block together."""
        for j in range((count + 4 * threads - 1) // (4 * threads)):
            n = (j * threads + int32(cuda.threadIdx.x)) * 4
            if n < count:
                copy4_async(shared, to + n, packed, start + n)

    @cuda.jit(device=True)
    def fetch(packed, start, count, shared, to):
        """Copy weights once all threads are done with the old ones, and wait for the copy."""
        cuda.syncthreads()
        for j in range((count + 4 * threads - 1) // (4 * threads)):
            n = (j * threads + int32(cuda.threadIdx.x)) * 4
            if n < count:
                store4(shared, to + n, load4(packed, start + n))
        cuda.syncthreads()

    @cuda.jit(device=True)
    def sum_across(value):
        """The sum over the lanes of a spectrum, in each of these lanes."""
        for n in range(steps):
            value += cuda.shfl_xor_sync(ALL, value, first << n)
        return value

    @cuda.jit(device=True)
    def sum_warp(value):
        for n in range(5):
            value += cuda.shfl_xor_sync(ALL, value, 1 << n)
        return value

    @cuda.jit(device=True)
    def normalise(x, sample, column, shared, rows):
        """LayerNorm of this warp's frame, from device memory to shared memory."""
        values = cuda.local.array((samples, columns), float32)
        last = int32(x.shape[0] - 1)
        for i in range(samples):
            row = min(int32(sample + i * down), last)
            for c in range(0, columns, wide):
                read(x, (row, column + c // wide * stride), values, i, c)
        for i in range(samples):
            total = float32(0)
            for c in range(columns):
                total += values[i, c]
            mean = sum_across(total) * float32(1 / BANDS)
            square = float32(0)
            for c in range(columns):
                values[i, c] -= mean
                square += values[i, c] * values[i, c]
            variance = sum_across(square) * float32(1 / BANDS)
            scale = float32(1) / math.sqrt(variance + float32(EPSILON))
            for c in range(columns):
                values[i, c] *= scale
            for c in range(0, columns, wide):
                write(shared, rows + i * down * SAMPLE + c // wide * stride, values, i, c)

    @cuda.jit(device=True)
    def begin_with(total, shared, bias):
        """Start each sum with its bias."""
        for i in range(samples):
            for c in range(0, columns, wide):
                read(shared, bias + c // wide * stride, total, i, c)

    @cuda.jit(device=True)
    def begin_with_zero(total):
        for i in range(total.shape[0]):
            for c in range(total.shape[1]):
                total[i, c] = float32(0)

    @cuda.jit(device=True)
    def multiply(total, shared, row, row_pitch, weight, pitch, depth):
        """total[i, c] += sum over k of row i's element k times weights[k, c]."""
        a = cuda.local.array((samples, 4), float32)
        b = cuda.local.array((1, columns), float32)
        for k in range(0, depth, 4):
            for i in range(samples):
                a[i, 0], a[i, 1], a[i, 2], a[i, 3] = load4(shared, row + i * down * row_pitch + k)
            for e in range(4):
                for c in range(0, columns, wide):
                    read(shared, weight + (k + e) * pitch + c // wide * stride, b, 0, c)
                for i in range(samples):
                    for c in range(columns):
                        total[i, c] += a[i, e] * b[0, c]

    @cuda.jit(device=True)
    def project(code, shared, row, basis, begin, count):
        """code[i, begin + n] += row i . row n of the basis, over this frame's 64 elements."""
        a = cuda.local.array((samples, 4), float32)
        for k in range(0, BANDS, 4):
            for i in range(samples):
                a[i, 0], a[i, 1], a[i, 2], a[i, 3] = load4(shared, row + i * down * SAMPLE + k)
            for n in range(count):
                p, q, r, s = load4(shared, basis + n * across * BASIS_PITCH + k)
                for i in range(samples):
                    part = a[i, 0] * p + a[i, 1] * q + a[i, 2] * r + a[i, 3] * s
                    code[i, begin + n] += part

    @cuda.jit(device=True)
    def keep(total, shared, rows, with_gelu):
        """Store a warp's results over the frames from which they were computed."""
        cuda.syncwarp()
        for i in range(samples):
            if with_gelu:
                for c in range(columns):
                    total[i, c] = gelu(total[i, c])
            for c in range(0, columns, wide):
                write(shared, rows + i * down * SAMPLE + c // wide * stride, total, i, c)
        cuda.syncwarp()

    @cuda.jit(device=True)
    def keep_codes(code, shared, rows, lane_column):
        """Store this frame's share of the codes; two of four spectra are shifted by 8 banks."""
        cuda.syncwarp()
        for i in range(samples):
            for n in range(features):
                store(shared, rows + i * down * SAMPLE + lane_column + n * across, code[i, n])

    @cuda.jit(device=True)
    def warp_sample(frame, n):
        sample = int32(frame + n * FRAMES)
        return sample if sample < tile else frame

    @cuda.jit(device=True)
    def middle(weights, at, shared, spectra, codes, bias, frame, lane):
        """Sum of shares, LayerNorm, Linear 32 -> 32, GELU: a spectrum a warp, an element a lane.

        A warp has each fifth spectrum; in place of those beyond the tile it takes its first again.
        """
        total = cuda.local.array(each, float32)
        for n in range(each):
            sample = warp_sample(frame, n)
            share = spectra + sample * SAMPLE + sample // 2 % 2 * skew + lane
            value = float32(0)
            for other in range(FRAMES):
                value += load(shared, share + other * BANDS)
            value -= sum_warp(value) * float32(1 / CODE)
            variance = sum_warp(value * value) * float32(1 / CODE)
            scale = float32(1) / math.sqrt(variance + float32(EPSILON))
            store(shared, codes + sample * CODE_PITCH + lane, value * scale)
            total[n] = load(shared, bias + lane)
        cuda.syncwarp()
        for k in range(0, CODE, 4):
            w0, w1 = load(weights, at + k * CODE), load(weights, at + (k + 1) * CODE)
            w2, w3 = load(weights, at + (k + 2) * CODE), load(weights, at + (k + 3) * CODE)
            for n in range(each):
                sample = warp_sample(frame, n)
                p, q, r, s = load4(shared, codes + sample * CODE_PITCH + k)
                total[n] += p * w0 + q * w1 + r * w2 + s * w3
        cuda.syncwarp()
        for n in range(each):
            sample = warp_sample(frame, n)
            store(shared, codes + sample * CODE_PITCH + lane, gelu(total[n]))

    @cuda.jit(device=True)
    def save(total, x, y, sample, column, lane_column, shared, errors):
        """Store the rebuilt frame, and its squared error."""
        given = cuda.local.array((samples, columns), float32)
        batch = int32(x.shape[0])
        for i in range(samples):
            row = min(int32(sample + i * down), batch - int32(1))
            for c in range(0, columns, wide):
                read(x, (row, column + c // wide * stride), given, i, c)
        for i in range(samples):
            square = float32(0)
            for c in range(columns):
                difference = total[i, c] - given[i, c]
                square += difference * difference
            square = sum_across(square)
            if lane_column == 0:
                store(shared, errors + i * down, square)
            row = int32(sample + i * down)
            if row < batch:
                for c in range(0, columns, wide):
                    write(y, (row, column + c // wide * stride), total, i, c)

    @cuda.jit(device=True)
    def add_errors(shared, errors, sample, lane, out):
        """Add up the frames' errors of a finished tile."""
        if lane < tile and sample + lane < out.shape[0]:
            total = float32(0)
            for frame in range(FRAMES):
                total += load(shared, errors + frame * tile + lane)
            store(out, sample + lane, total * float32(1 / POINTS))

    @cuda.jit(device=True)
    def position():
        """This thread's group, frame and lane, and the lane's row and column in the warp."""
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        group, frame = warp // int32(FRAMES), warp % int32(FRAMES)
        if down == 4:
            lane_row, lane_column = lane // int32(16) * int32(2) + lane % int32(2), lane // 2 % 8
        elif down == 2:
            lane_row, lane_column = lane % int32(2), lane // 2
        else:
            lane_row, lane_column = int32(0), lane
        return group, frame, lane, int32(lane_row), int32(lane_column)

    @made
    def spectral_resident(x, packed, y, errors):
        shared = cuda.shared.array(0, float32)
        group, frame, lane, lane_row, lane_column = position()
        spectra = int32(of_weights + group * of_group)
        codes, squares = spectra + of_codes, spectra + of_errors
        column = int32(lane_column * wide)
        own = int32(spectra + lane_row * SAMPLE + frame * BANDS)  # the lane's first row
        point = frame * BANDS + column
        batch = int32(x.shape[0])
        tiles = (batch + tile - 1) // tile
        begin_copy(packed, PACKED_ENCODE, PACKED_BASIS, shared, 0)  # with the biases
        commit_copies()
        begin_copy(packed, PACKED_BASIS, PACKED_DECODE - PACKED_BASIS, shared, PACKED_BASIS)
        commit_copies()
        begin_copy(packed, PACKED_DECODE, of_weights - PACKED_DECODE, shared, PACKED_DECODE)
        commit_copies()
        total = cuda.local.array((samples, columns), float32)
        code = cuda.local.array((samples, features), float32)
        fresh, before = True, batch
        start, step = int32(cuda.blockIdx.x * groups), int32(cuda.gridDim.x * groups)
        while start < tiles:
            sample = int32((start + group) * tile)
            normalise(x, sample + lane_row, point, shared, own + column)
            cuda.syncwarp()
            if fresh:
                wait_copies(2)
                cuda.syncthreads()
            begin_with(total, shared, PACKED_BIASES + column)
            multiply(total, shared, own, SAMPLE, PACKED_ENCODE + column, BANDS, BANDS)
            keep(total, shared, own + column, True)
            if fresh:
                wait_copies(1)
                cuda.syncthreads()
            begin_with_zero(code)
            basis = PACKED_BASIS + frame * BANDS
            project(code, shared, own, basis + lane_column * BASIS_PITCH, 0, features)
            keep_codes(code, shared, own + lane_row // 2 * skew, lane_column)
            if fresh:
                wait_copies(0)
            cuda.syncthreads()
            if frame < tile:
                bias = PACKED_BIASES + CODE_BIAS
                middle(shared, PACKED_CODE + lane, shared, spectra, codes, bias, frame, lane)
            if frame == FRAMES - 1:
                add_errors(shared, squares, before, lane, errors)
            cuda.syncthreads()
            row = codes + lane_row * CODE_PITCH
            if folded:
                begin_with(total, shared, PACKED_BIASES + DECODE_BIAS + column)
                decoder = PACKED_DECODE + frame * BANDS + column
                multiply(total, shared, row, CODE_PITCH, decoder, BASIS_PITCH, CODE)
            else:
                begin_with_zero(total)
                multiply(total, shared, row, CODE_PITCH, basis + column, BASIS_PITCH, CODE)
                keep(total, shared, own + column, False)
                begin_with(total, shared, PACKED_BIASES + DECODE_BIAS + column)
                multiply(total, shared, own, SAMPLE, PACKED_DECODE + column, BANDS, BANDS)
            at = squares + frame * tile + lane_row
            save(total, x, y, sample + lane_row, point, lane_column, shared, at)
            cuda.syncwarp()
            fresh, before, start = False, sample, int32(start + step)
        cuda.syncthreads()
        if frame == FRAMES - 1:
            add_errors(shared, squares, before, lane, errors)

    @made
    def spectral_fetched(x, packed, y, errors):
        shared = cuda.shared.array(of_block, float32)
        group, frame, lane, lane_row, lane_column = position()
        spectra = int32(of_weights + group * of_group)
        codes, squares = spectra + of_codes, spectra + of_errors
        column = int32(lane_column * wide)
        own = int32(spectra + lane_row * SAMPLE + frame * BANDS)
        point = frame * BANDS + column
        tiles = (int32(x.shape[0]) + tile - 1) // tile
        total = cuda.local.array((samples, columns), float32)
        code = cuda.local.array((samples, features), float32)
        weights = int32(BIASES)  # parts of the weights, one at a time, behind the biases
        basis = weights + frame * BANDS
        fetch(packed, PACKED_BIASES, BIASES, shared, 0)
        start, step = int32(cuda.blockIdx.x * groups), int32(cuda.gridDim.x * groups)
        while start < tiles:
            sample = int32((start + group) * tile)
            normalise(x, sample + lane_row, point, shared, own + column)
            fetch(packed, PACKED_ENCODE, BANDS * BANDS, shared, weights)
            begin_with(total, shared, column)
            multiply(total, shared, own, SAMPLE, weights + column, BANDS, BANDS)
            keep(total, shared, own + column, True)
            begin_with_zero(code)
            fetch(packed, PACKED_BASIS, HALF_BASIS, shared, weights)
            project(code, shared, own, basis + lane_column * BASIS_PITCH, 0, half)
            fetch(packed, PACKED_BASIS + HALF_BASIS, HALF_BASIS, shared, weights)
            project(code, shared, own, basis + lane_column * BASIS_PITCH, half, half)
            keep_codes(code, shared, own + lane_row // 2 * skew, lane_column)
            cuda.syncthreads()
            if frame < tile:
                middle(packed, PACKED_CODE + lane, shared, spectra, codes, CODE_BIAS, frame, lane)
            cuda.syncthreads()
            begin_with_zero(total)
            row = codes + lane_row * CODE_PITCH  # the basis's second half is still in shared memory
            multiply(
                total, shared, row + CODE // 2, CODE_PITCH, basis + column, BASIS_PITCH, CODE // 2
            )
            fetch(packed, PACKED_BASIS, HALF_BASIS, shared, weights)
            multiply(total, shared, row, CODE_PITCH, basis + column, BASIS_PITCH, CODE // 2)
            keep(total, shared, own + column, False)
            fetch(packed, PACKED_DECODE, BANDS * BANDS, shared, weights)
            begin_with(total, shared, DECODE_BIAS + column)
            multiply(total, shared, own, SAMPLE, weights + column, BANDS, BANDS)
            at = squares + frame * tile + lane_row
            save(total, x, y, sample + lane_row, point, lane_column, shared, at)
            cuda.syncthreads()
            if frame == FRAMES - 1:
                add_errors(shared, squares, sample, lane, errors)
            start = int32(start + step)

    return spectral_resident if resident else spectral_fetched
