"""Rebuild an image from its SVD, steps 1 to 4: from the first program to tiles in shared memory.

Every kernel computes ``out[row, col] = sum over i < k of u[row, i] * s[i] * vt[i, col]``, with
float32 arrays u (rows, k), s (k,), vt (k, cols) and out (rows, cols), one thread for each pixel.

A warp is 32 consecutive threads; x runs fastest. A block of 16x16 threads gives each warp 16 values
of x and 2 of y. The GPU moves memory in sectors of 32 bytes, eight float32 values. So a warp's load
costs as much as the number of different sectors that it touches.
"""

from numba import float32

from course.backend import cuda

# --- step 1: the program as it is usually written first -----------------------------------------


@cuda.jit
def reconstruct_original(u, s, vt, k, out):
    """Step 1: x walks down the rows, and the sum is float64 without anyone having asked for it.

    Mapping: thread (x, y) computes row x, column y.
    Memory, a warp of 16 rows and 2 columns, for each i: 16 sectors of u (each row its own),
    1 of s, 1 of vt. It stores to 16 sectors.
    Arithmetic: the literal 0.0 is float64 in Numba, so each product is converted and added in
    float64, which a Tesla T4 does at 1/32 of its float32 rate.
    """
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0.0
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# --- step 2: the sum in float32 -----------------------------------------------------------------


@cuda.jit
def reconstruct_float32(u, s, vt, k, out):
    """Step 2: the sum starts as float32(0), so no float64 operation is left.

    Mapping and memory: as in step 1.
    """
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# --- step 3: x on the columns -------------------------------------------------------------------


@cuda.jit
def reconstruct_naive(u, s, vt, k, out):
    """Step 3: x walks along the columns, as the pixels lie in memory.

    Mapping: thread (x, y) computes row y, column x.
    Memory, a warp of 2 rows and 16 columns, for each i: 2 sectors of u, 1 of s, 2 of vt (16
    neighbouring values are 64 bytes). It stores to 4 sectors: 5 sectors a step of the loop
    instead of 18, and a quarter of the stores.
    """
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# --- step 4: tiles in shared memory -------------------------------------------------------------

TILE = 16  # rows and columns of a tile, and of a block


@cuda.jit
def reconstruct_tiled(u, s, vt, k, out):
    """Step 4: the block loads a tile of u and one of vt once, and all its threads use them.

    Mapping: thread (x, y) computes row y, column x. Launch with blocks of TILE x TILE threads.
    Memory, a warp, for each 16 values of i: 4 sectors of u, 2 of s, 4 of vt, where step 3 loads
    80. The inner loop reads shared memory only, two elements a step, without a bank conflict.
    Edges: where a tile goes past the edge it holds zeros, so that all threads run the same loop.
    """
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        u_tile[y, x] = float32(0)
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        vt_tile[y, x] = float32(0)
        if start + y < k and col < vt.shape[1]:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()  # the tiles are complete
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()  # all threads have read them
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total
