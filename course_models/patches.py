"""Patch embedding, five ways: patches become rows, and a matrix product makes tokens of these.

    tokens[n, 0] = cls + position[0],   tokens[n, 1 + p] = W patch p of image n + bias + position

A patch is a row of channels x patch x patch pixels. W is a matrix with `width` rows of that many
weights: in PyTorch a convolution whose stride is its size. The ways, from the obvious to the last:

============  =================================================  ========  =====  ===========
way           what is done                                       launches  waits  copied back
============  =================================================  ========  =====  ===========
"channels"    for each channel: copy in, product, copy back;     2 c       2 c    c x tokens
              the host adds the products up
"sorted"      the host sorts all pixels to rows, one product     1         2      tokens
"streams"     "sorted" in parts, a stream each, pinned memory    s         s      tokens
"kept"        rows and product of each channel, added on GPU     2 c       2      tokens
"gemm"        one kernel gathers rows and initialises tokens,    2         2      tokens
              one product is added to the tokens
============  =================================================  ========  =====  ===========

>>> tokens, counts = PatchEmbedding(weight, bias, cls, position).embed(images, "streams")
>>> counts.launches, counts.synchronisations, counts.to_gpu, counts.to_host

There are c channels and s streams. Pixels are copied to the GPU, or the rows that the host has
sorted. `counts` counts what is really done. A first version might launch a kernel for each dot
product of 16 pixels: 7.2 million launches for an image of 224 x 224.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32, uint32
from numba.types import float16

from course.backend import cuda
from course.kernels.arrays import VECTOR, Array, as_words
from course.kernels.gemm.half import gemm
from course.kernels.steps import Ladder, Launch, Step, require_choice, round_up
from warpsim.ptx import grid_dependency_wait, load4, quotient, store4

HOST = ("channels", "sorted", "streams")  # those in which the host sorts or adds
THREADS = 96
ROW_PITCH = 8  # a row's length is padded to a multiple of 8 float16, 16 bytes
ZERO = float32(0)


@functools.cache
def gather(wide: bool, begins: bool) -> Callable:
    """The kernel of (images, rows, table, tokens, patch, first, channels), float16 or words of two.

    ``rows[image * tokens + 1 + p]`` becomes the pixels of patch p, of `channels` channels from
    `first` on. An image's row 0, the class token's, becomes 0, and so does padding behind the
    pixels. With `begins`, the table is copied to ``tokens`` for each image.

    Mapping: a block has a row; if `wide`, thread t has elements 8 t to 8 t + 7, then those 768 on.
    Memory: if `wide`, arrays are words of two pixels, and a thread accesses four words at once. A
    patch's line of 16 pixels is a sector, read once.
    """
    EACH, TWO = (VECTOR, 1) if wide else (1, 0)

    @cuda.jit
    def patch_rows(images, rows, table, tokens, patch, first, channels):
        grid_dependency_wait()
        row, t = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        side, count = int32(patch), int32(table.shape[0])
        line = int32(side >> TWO)
        area, across = int32(side * line), quotient(int32(images.shape[3]), line)
        image = quotient(row, count)
        token = int32(row - image * count)
        down = quotient(int32(token - 1), across)
        top, left = int32(down * side), int32((token - 1 - down * across) * line)
        for column in range(t * EACH, rows.shape[1], THREADS * EACH):
            c = int32(column)
            channel = quotient(c, area)
            place = int32(c - channel * area)
            i = quotient(place, line)
            y, x = int32(top + i), int32(left + place - i * line)
            inside = token > 0 and channel < channels
            if wide:
                four = uint32(0), uint32(0), uint32(0), uint32(0)
                if inside:
                    four = load4(images, (image, int32(first + channel), y, x))
                store4(rows, (row, c), four)
            else:
                value = float16(ZERO)
                if inside:
                    value = images[image, int32(first + channel), y, x]
                rows[row, c] = value
        if begins:
            for column in range(t * EACH, tokens.shape[1], THREADS * EACH):
                c = int32(column)
                if wide:
                    store4(tokens, (row, c), load4(table, (token, c)))
                else:
                    tokens[row, c] = table[token, c]

    return patch_rows


def gathered(
    images: Array, rows: Array, table: Array, tokens: Array | None, patch: int, first: int,
    channels: int,
) -> list[Launch]:  # fmt: skip
    """The launch that gathers rows (images * tokens, depth), and initialises `tokens` if given."""
    out = rows if tokens is None else tokens
    arrays = images, rows, table, out
    wide = not any(n % (2 * VECTOR) for n in (patch, table.shape[1]))
    places = [(its.__cuda_array_interface__["data"][0], *its.strides[:-1]) for its in arrays]
    wide = wide and not any(n % 16 for place in places for n in place)
    kernel, sizes = gather(wide, tokens is not None), map(np.int32, (patch, first, channels))
    arrays = map(as_words, arrays) if wide else arrays
    return [Launch(kernel, rows.shape[0], THREADS, (*arrays, *sizes))]


# --- what is counted ------------------------------------------------------------------------------


@dataclass
class Counts:
    """What was done: launches, waits of the host, bytes that were copied."""

    launches: int = 0
    synchronisations: int = 0
    to_gpu: int = 0
    to_host: int = 0

    def launch(self, launches: list[Launch], stream: Any = 0) -> None:
        """Launch, and count."""
        for launch in launches:
            launch.on(stream)
        self.launches += len(launches)

    def to_device(self, array: np.ndarray, stream: Any = 0) -> Array:
        """An array's copy on the GPU; without a stream, the host waits for it."""
        self.to_gpu += array.nbytes
        self.synchronisations += not stream
        return cuda.to_device(np.ascontiguousarray(array), stream)

    def fetch(self, array: Array, to: np.ndarray, stream: Any = 0) -> None:
        """Copy to the host; without a stream, the host waits for it."""
        self.to_host += to.nbytes
        self.synchronisations += not stream
        array.copy_to_host(to, stream)

    def wait(self, stream: Any) -> None:
        """Wait for a stream."""
        stream.synchronize()
        self.synchronisations += 1


# --- the ways -------------------------------------------------------------------------------------


class PatchEmbedding:
    """Makes tokens from images in float16; its weights are on the GPU.

    Parameters
    ----------
    weight : ndarray, shape (width, channels, patch, patch)
    bias, cls : ndarray, shape (width,)
    position : ndarray, shape (1 + patches, width)
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, cls: np.ndarray, position: np.ndarray):
        self.width, self.channels, self.patch, _ = weight.shape
        self.tokens, self.area = len(position), self.patch**2
        #: What is added to each token's product: position and bias, or class token; rounded once.
        self.host_table = position.astype(np.float32) + np.vstack(
            [cls.astype(np.float32), np.tile(bias.astype(np.float32), (self.tokens - 1, 1))]
        )
        self.table = cuda.to_device(self.host_table.astype(np.float16))
        flat = weight.reshape(self.width, self.channels, self.area).astype(np.float16, "C")
        self.weight = cuda.to_device(_padded(flat.reshape(self.width, -1)))
        self.by_channel = [cuda.to_device(_padded(flat[:, n])) for n in range(self.channels)]
        wide = self.depth, self.width
        self._pinned = functools.lru_cache(1)(
            lambda count: [cuda.pinned_array((count, n), np.float16) for n in wide]
        )

    @property
    def depth(self) -> int:
        """Elements of a row, rounded up to a multiple of 8."""
        return round_up(self.channels * self.area, ROW_PITCH)

    def launches(
        self, images: Array, rows: Array, begun: Array, tokens: Array, way: str = "gemm",
        method: str = "auto",
    ) -> list[Launch]:  # fmt: skip
        """The launches of a way of `LADDER`, for arrays on the GPU.

        Parameters
        ----------
        images : device array, shape (n, channels, side, side), float16
        rows : device array, shape (n * tokens, depth)
            Scratch; with "kept", the rows of one channel, see `rows_of`.
        begun, tokens : device array, shape (n * tokens, width)
            Scratch, and the result. Each product reads one of them and writes the other.
        """
        arrays = images, rows, begun, tokens
        return LADDER.launches(*arrays, method=way, embedding=self, product=method)

    def rows_of(self, way: str) -> int:
        """How many elements each row of the scratch that `launches` needs has."""
        return round_up(self.area, ROW_PITCH) if way == "kept" else self.depth

    def embed(
        self, images: np.ndarray, way: str = "gemm", streams: int = 4, method: str = "auto"
    ) -> tuple[np.ndarray, Counts]:
        """Tokens of images that lie on the host, and counts of what was done.

        Parameters
        ----------
        images : ndarray, shape (n, channels, side, side), float16
        way : str
            One of `WAYS`.
        streams : int
            For "streams": into how many parts the rows are cut.

        Returns
        -------
        tokens : ndarray, shape (n * tokens, width), float16
        counts : Counts

        Raises
        ------
        ValueError
            For another way, no streams, or images that do not fit the positions.
        """
        require_choice(way, "way", WAYS)
        if streams < 1:
            raise ValueError(f"streams is {streams}; it must be at least 1")
        checked_images(images, self.channels, self.patch, self.tokens)
        counts, count = Counts(), len(images) * self.tokens
        found = np.empty((count, self.width), np.float16)
        if not count:
            return found, counts
        if way in LADDER:
            there = counts.to_device(images)
            rows = cuda.device_array((count, self.rows_of(way)), np.float16)
            begun, tokens = (cuda.device_array(found.shape, np.float16) for _ in range(2))
            counts.launch(self.launches(there, rows, begun, tokens, way, method))
            counts.fetch(tokens, found)
        elif way == "channels":
            self._channel_by_channel(images, found, counts, method)
        else:
            parts = streams if way == "streams" else 1
            self._sorted(images, found, counts, parts, way == "streams", method)
        return found, counts

    def _channel_by_channel(
        self, images: np.ndarray, found: np.ndarray, counts: Counts, method: str
    ) -> None:
        total, part = np.tile(self.host_table, (len(images), 1)), np.empty_like(found)
        for n, weight in enumerate(self.by_channel):
            there = counts.to_device(images[:, n : n + 1])
            rows = cuda.device_array((len(found), round_up(self.area, ROW_PITCH)), np.float16)
            out = cuda.device_array(found.shape, np.float16)
            counts.launch(gathered(there, rows, self.table, None, self.patch, 0, 1))
            counts.launch(_product(rows, weight, None, out, method))
            counts.fetch(out, part)
            total += part
        found[...] = total

    def _sorted(
        self, images: np.ndarray, found: np.ndarray, counts: Counts, parts: int, pinned: bool,
        method: str,
    ) -> None:  # fmt: skip
        ends = [len(found) * n // parts for n in range(parts + 1)]
        if pinned:  # pinning memory takes longest, so it is done once
            rows, back = self._pinned(len(found))
        else:
            rows, back = np.empty((len(found), self.depth), np.float16), np.empty_like(found)
        rows[...] = sorted_rows(images, self.patch, self.tokens, self.depth)
        streams, kept = [cuda.stream() if pinned else 0 for _ in range(parts)], []
        for stream, start, end in zip(streams, ends, ends[1:], strict=False):
            if start == end:
                continue
            there = counts.to_device(rows[start:end], stream)
            out = cuda.device_array((end - start, self.width), np.float16, stream=stream)
            counts.launch(_product(there, self.weight, None, out, method), stream)
            counts.fetch(out, back[start:end], stream)
            kept.append((there, out))  # alive until all is done
        for stream in streams if pinned else []:
            counts.wait(stream)
        found[...] = back + np.tile(self.host_table, (len(images), 1))


class PatchProblem(NamedTuple):
    """What decides between the steps: images, and the channels of each."""

    images: int
    channels: int

    @classmethod
    def of(cls, images: Array, *arrays: Array, embedding: Any, product: str) -> PatchProblem:
        """The problem of images on the device."""
        return cls(*images.shape[:2])


def _by_parts(count: Callable[[PatchProblem], int]) -> Step:
    """A step that gathers and multiplies the channels in so many parts, one after the other."""

    def launches(p, images, rows, begun, tokens, embedding, product):
        found, parts = [], count(p)
        weights = [embedding.weight] if parts == 1 else embedding.by_channel
        source, target = (begun, tokens) if parts % 2 else (tokens, begun)
        for n, weight in enumerate(weights):
            place, first = (n, p.channels // parts), source if n == 0 else None
            found += gathered(images, rows, embedding.table, first, embedding.patch, *place)
            found += _product(rows, weight, source, target, product)
            source, target = target, source
        return found

    return Step(launches)


#: The ways that run on the GPU alone; below, all ways.
LADDER = Ladder(
    "the patch embedding", PatchProblem.of,
    {"kept": _by_parts(lambda p: p.channels), "gemm": _by_parts(lambda p: 1)}, lambda p: "gemm",
)  # fmt: skip
WAYS = (*HOST, *LADDER)


def _product(rows, weight, residual, out, method):
    return gemm.ladder.launches(rows, weight, None, residual, out, layout="nt", method=method)


def sorted_rows(images: np.ndarray, patch: int, tokens: int, depth: int) -> np.ndarray:
    """The rows of `gather`, made on the host: (n * tokens, depth), of the images' dtype."""
    n, channels, high, wide = images.shape
    down, across = high // patch, wide // patch
    cut = images.reshape(n, channels, down, patch, across, patch).transpose(0, 2, 4, 1, 3, 5)
    rows = np.zeros((n, tokens, depth), images.dtype)
    rows[:, 1:, : channels * patch**2] = cut.reshape(n, down * across, -1)
    return rows.reshape(n * tokens, depth)


def checked_images(images: Any, channels: int, patch: int, tokens: int) -> None:
    """Refuse images that are not float16, or have another size than the positions are for."""
    shape, dtype = getattr(images, "shape", None), getattr(images, "dtype", type(images).__name__)
    if dtype != np.float16:
        raise TypeError(f"the images hold {dtype}; they must hold float16: convert them")
    side = patch * math.isqrt(tokens - 1)
    if shape[1:] != (channels, side, side):
        raise ValueError(
            f"the images have the shape {shape}; it must be (n, {channels}, {side}, {side})"
        )


def _padded(matrix: np.ndarray) -> np.ndarray:
    """A matrix with zeros behind its rows, so that each begins at a multiple of 16 bytes."""
    return np.pad(matrix, ((0, 0), (0, round_up(matrix.shape[1], ROW_PITCH) - matrix.shape[1])))
