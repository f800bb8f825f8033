"""Random elements from a seed, made where they are needed, and a digest of images that stay there.

An element depends on the seed and on its index alone, not on who makes it or how many are made at
once: GPUs that each make their part of the data make the same data as one GPU, and as NumPy. A
digest is 8 bytes that tell whether two images are the same, bit for bit, without moving either.

The elements are those of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014), whose state goes up by the same step each time, so that the n-th
number can be had at once.
"""

import numpy as np
from numba import float32, int32, uint64

from course.backend import cuda

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
SCALE = np.float32(2.0**-24)  # of 24 bits, so that every number is exact in float32
HALF = np.float32(0.5)
THREADS = 256
BLOCKS = 1024  # that walk over the elements together, in steps of the grid


@cuda.jit
def fill(out, seed, start):
    """Element start + i of a seed into out[i], from -0.5 to 0.5.

    Threads walk over `out` (n,) in steps of the whole grid: neighbours write neighbours, n * 4
    bytes are written and none is read.
    """
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        z = seed + (start + uint64(i) + uint64(1)) * STEP
        z = (z ^ (z >> uint64(30))) * FIRST_FACTOR
        z = (z ^ (z >> uint64(27))) * SECOND_FACTOR
        z = z ^ (z >> uint64(31))
        out[i] = float32(int32(z >> uint64(40))) * SCALE - HALF


@cuda.jit
def digest(pixels, totals):
    """Add pixels[image, i] * (2 i + 1), modulo 2⁶⁴, to totals[image].

    `pixels` (images, pixels) are their bits, as uint32; y of the grid is the image, its blocks in x
    walk over the pixels. Integers can be added in any order, so the digest is always the same.
    Each pixel is read once.
    """
    total = cuda.shared.array(1, uint64)
    image = cuda.blockIdx.y
    if cuda.threadIdx.x == 0:
        total[0] = uint64(0)
    cuda.syncthreads()
    mine = uint64(0)
    for i in range(cuda.grid(2)[0], pixels.shape[1], cuda.blockDim.x * cuda.gridDim.x):
        mine += uint64(pixels[image, i]) * (uint64(2) * uint64(i) + uint64(1))
    cuda.atomic.add(total, 0, mine)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(totals, image, total[0])


def filled(shape: tuple[int, ...], seed: int, start: int):
    """A device array of float32 with the elements of a seed from `start` on, in C order."""
    out = cuda.device_array(shape, np.float32)
    blocks = min(BLOCKS, -(-out.size // THREADS))
    fill[blocks, THREADS](out.reshape(out.size), np.uint64(seed), np.uint64(start))
    return out


def filled_by_numpy(shape: tuple[int, ...], seed: int, start: int) -> np.ndarray:
    """The same elements, bit for bit, as a NumPy array."""
    z = np.arange(start + 1, start + 1 + int(np.prod(shape)), dtype=np.uint64)
    z *= STEP  # NumPy's integers in arrays wrap at 2⁶⁴ as the GPU's do
    z += np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * FIRST_FACTOR
    z = (z ^ (z >> np.uint64(27))) * SECOND_FACTOR
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) * SCALE - HALF).reshape(shape)


def digests(images, totals) -> None:
    """Add the digest of each of `images` (n, rows, columns) to totals (n,), uint64; on the device.

    Nothing is waited for. The images lie in C order.
    """
    count, size = images.shape[0], images.shape[1] * images.shape[2]
    pixels = images.view(np.uint32).reshape(count, size)
    blocks = max(1, min(-(-size // THREADS), BLOCKS // count))
    digest[(blocks, count), THREADS](pixels, totals)


def digests_by_numpy(images: np.ndarray) -> np.ndarray:
    """The digest of each of the images (n, rows, columns), float32: (n,), uint64."""
    pixels = np.ascontiguousarray(images).view(np.uint32).reshape(len(images), -1)
    weights = 2 * np.arange(pixels.shape[1], dtype=np.uint64) + np.uint64(1)
    return (pixels.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
