"""The kernels whose traffic is read from a GPU's counters and counted by the simulator.

Each has one kind of memory access. The compiler cannot merge or remove its loads and stores:
indices and strides are arguments, and results are stored. The lessons' are in `lesson_kernels`.
"""

from __future__ import annotations

from numba import float32, types

from course.backend import cuda

TILE = 32
SMALL_TILE = 16


# ---------------------------------------------------------------------- global memory
@cuda.jit
def take_numbers(counter, out):
    """Store the old values of atomics."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.atomic.add(counter, i % counter.size, 1)


@cuda.jit
def copy(out, x):
    """One element a thread."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@cuda.jit
def strided_load(out, x, stride):
    """Reads ``stride`` elements apart."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride]


@cuda.jit
def strided_store(out, x, stride):
    """Writes ``stride`` elements apart."""
    i = cuda.grid(1)
    if i < x.size:
        out[i * stride] = x[i]


@cuda.jit
def broadcast(out, x, width):
    """``width`` neighbouring threads read one element."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i // width]


@cuda.jit
def gather(out, x, index):
    """Reads where an index array says."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


@cuda.jit
def scatter(out, x, index):
    """Writes where an index array says."""
    i = cuda.grid(1)
    if i < x.size:
        out[index[i]] = x[i]


@cuda.jit
def early_return(out, image):
    """Threads outside the image return first."""
    column, row = cuda.grid(2)
    if column >= out.shape[1] or row >= out.shape[0]:
        return
    out[row, column] = image[row, column] * float32(2)


@cuda.jit
def either(out, x, y):
    """Even threads read one array, odd threads the other."""
    i = cuda.grid(1)
    if i < out.size:
        if i % 2 == 0:
            out[i] = x[i] * float32(2)
        else:
            out[i] = y[i] + float32(1)


@cuda.jit
def lower_triangle_sums(out, matrix):
    """Loops of different lengths in one warp."""
    row = cuda.grid(1)
    if row < out.size:
        total = float32(0)
        for column in range(row + 1):
            total += matrix[row, column]
        out[row] = total


@cuda.jit
def three_axes(out, volume):
    """Blocks with three axes, x along the last."""
    i, j, k = cuda.grid(3)
    if k < out.shape[0] and j < out.shape[1] and i < out.shape[2]:
        out[k, j, i] = volume[k, j, i] + float32(1)


@cuda.jit
def transpose_naive(out, image):
    """Coalesced reads, writes down a column."""
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[column, row] = image[row, column]


@cuda.jit
def in_registers(out, x):
    """A local array with constant indices: it lies in registers."""
    i = cuda.grid(1)
    part = cuda.local.array(2, float32)
    if i < out.size:
        part[0] = x[i]
        part[1] = part[0] * float32(3)
        out[i] = part[1] - part[0]


@cuda.jit
def in_local_memory(out, x, index):
    """A local array with indices that the compiler does not know: it lies in local memory."""
    i = cuda.grid(1)
    part = cuda.local.array(64, float32)
    if i < out.size:
        start = x[i]
        for j in range(index.size):
            part[index[j]] = start + float32(j)
        total = float32(0)
        for j in range(index.size):
            total += part[index[index.size - 1 - j]]
        out[i] = total


# ---------------------------------------------------------------------- shared memory
def transpose_through_tile(padding: int):
    """The transpose through tiles of 32x32, by 32x8 threads; the tile's rows padded or not."""
    width = TILE + padding

    @cuda.jit
    def transpose_tiled(out, image):
        tile = cuda.shared.array((TILE, width), float32)
        column = cuda.blockIdx.x * TILE + cuda.threadIdx.x
        first = cuda.blockIdx.y * TILE + cuda.threadIdx.y
        for step in range(0, TILE, cuda.blockDim.y):
            if first + step < image.shape[0] and column < image.shape[1]:
                tile[cuda.threadIdx.y + step, cuda.threadIdx.x] = image[first + step, column]
        cuda.syncthreads()
        column = cuda.blockIdx.y * TILE + cuda.threadIdx.x
        first = cuda.blockIdx.x * TILE + cuda.threadIdx.y
        for step in range(0, TILE, cuda.blockDim.y):
            if first + step < out.shape[0] and column < out.shape[1]:
                out[first + step, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y + step]

    return transpose_tiled


def reconstruct_through_tiles(rows_on_x: bool):
    """The reconstruction with 16x16 tiles; threadIdx.x is the row (uncoalesced) or the column."""

    @cuda.jit
    def reconstruct_tiled(u, s, vt, k, out):
        u_tile = cuda.shared.array((SMALL_TILE, SMALL_TILE), float32)
        v_tile = cuda.shared.array((SMALL_TILE, SMALL_TILE), float32)
        if rows_on_x:
            row, col = cuda.grid(2)
            i, j = cuda.threadIdx.x, cuda.threadIdx.y
        else:
            col, row = cuda.grid(2)
            j, i = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for first in range(0, k, SMALL_TILE):
            left = right = float32(0)
            if row < out.shape[0] and first + j < k:
                left = u[row, first + j] * s[first + j]
            if col < out.shape[1] and first + i < k:
                right = vt[first + i, col]
            u_tile[i, j] = left
            v_tile[i, j] = right
            cuda.syncthreads()
            for step in range(min(SMALL_TILE, k - first)):
                total += u_tile[i, step] * v_tile[step, j]
            cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = total

    return reconstruct_tiled


def shared_strided(kind: types.Type):
    """Store and load ``stride`` elements apart; the load is of a neighbour's element."""

    @cuda.jit
    def shared_strided(out, x, stride):
        tile = cuda.shared.array(2048, kind)
        t = cuda.threadIdx.x
        tile[t * stride] = x[t]
        cuda.syncthreads()
        out[t] = tile[(t ^ 1) * stride]

    return shared_strided


def shared_uniform(kind: types.Type):
    """All threads load one element of shared memory, and the last of them stores it."""

    @cuda.jit
    def shared_uniform(out, x, place):
        tile = cuda.shared.array(64, kind)
        t = cuda.threadIdx.x
        if t == cuda.blockDim.x - 1:
            tile[place] = x[t]
        cuda.syncthreads()
        out[t] = tile[place]

    return shared_uniform


def shared_gather(kind: types.Type):
    """Load where an index array says; threads with a negative index do not."""

    @cuda.jit
    def shared_gather(out, x, index):
        tile = cuda.shared.array(1024, kind)
        t = cuda.threadIdx.x
        for i in range(t, x.size, cuda.blockDim.x):
            tile[i] = x[i]
        cuda.syncthreads()
        j = index[t]
        if j >= 0:
            out[t] = tile[j]

    return shared_gather


def shared_scatter(kind: types.Type):
    """Store where an index array says; threads with a negative index do not."""

    @cuda.jit
    def shared_scatter(out, x, index):
        tile = cuda.shared.array(1024, kind)
        t = cuda.threadIdx.x
        j = index[t]
        if j >= 0:
            tile[j] = x[t]
        cuda.syncthreads()
        for i in range(t, out.size, cuda.blockDim.x):
            out[i] = tile[i]

    return shared_scatter


def shared_wide():
    """Store and load 16 bytes at once where an index array says. Needs a GPU.

    Numba has no type of 16 bytes that it loads at once, hence the two intrinsics.
    """
    from llvmlite import ir
    from numba.cuda.extending import intrinsic

    word, vector = ir.IntType(32), ir.VectorType(ir.FloatType(), 4)

    def pointer(context, builder, array_type, array, element):
        data = context.make_array(array_type)(context, builder, array).data
        shared = builder.addrspacecast(data, ir.PointerType(ir.FloatType(), 3))
        address = builder.add(builder.ptrtoint(shared, word), builder.shl(element, word(4)))
        return builder.inttoptr(address, ir.PointerType(vector, 3))

    @intrinsic
    def load(typing, tile, element):
        def code(context, builder, signature, arguments):
            place = pointer(context, builder, signature.args[0], *arguments)
            value = builder.load(place, align=16)
            total = builder.extract_element(value, word(0))
            for part in range(1, 4):
                total = builder.fadd(total, builder.extract_element(value, word(part)))
            return total

        return types.float32(tile, types.int32), code

    @intrinsic
    def store(typing, tile, element, value):
        def code(context, builder, signature, arguments):
            place = pointer(context, builder, signature.args[0], *arguments[:2])
            values = ir.Constant(vector, ir.Undefined)
            for part in range(4):
                values = builder.insert_element(values, arguments[2], word(part))
            builder.store(values, place, align=16)
            return context.get_dummy_value()

        return types.void(tile, types.int32, types.float32), code

    @cuda.jit
    def shared_wide(out, x, index):
        tile = cuda.shared.array(4096, float32, alignment=16)
        t = cuda.threadIdx.x
        j = index[t]
        if j >= 0:
            store(tile, j, x[t])
        cuda.syncthreads()
        if j >= 0:
            out[t] = load(tile, j)

    return shared_wide
