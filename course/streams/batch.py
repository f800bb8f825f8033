"""The ways in which a stack of images goes to a GPU and comes back, by name, and what they move."""

from __future__ import annotations

import dataclasses

import numpy as np

FLOAT32 = 4  # bytes
CHUNK = 4  # images of a launch, where a batch goes in several
ALL = 0  # streams or images: as many as there are images


@dataclasses.dataclass(frozen=True)
class Way:
    """How a batch goes to the GPU and comes back.

    Attributes
    ----------
    text : str
        In a line.
    streams : int, optional
        How many images (or chunks) are under way; `ALL` of them; None: no stream is named, and the
        host waits for each step.
    chunk : int
        Images of one launch; `ALL` of them.
    pinned : bool
        Factors and images lie in pinned memory, and memory on the GPU is used again.
    whole : bool
        All of u and vt travels, not the k columns and rows that are needed.
    queues : bool
        A stream for each engine, with events between them, instead of a stream for each image.
    graph : bool
        All of it is captured once, as a CUDA graph, and launched by one call.
    """

    text: str
    streams: int | None = None
    chunk: int = 1
    pinned: bool = True
    whole: bool = False
    queues: bool = False
    graph: bool = False


def _streams(count: int, text: str) -> Way:
    return Way(f"{text} streams in turns, each with copy in, kernel, copy out", count)


#: The ways by name, in the order in which they are explained.
WAYS: dict[str, Way] = {
    "original": Way(
        "whole factors from pageable memory, memory allocated for each image, waiting at each step",
        pinned=False, whole=True,
    ),
    "original's streams": Way(
        "the same, a stream for each image, all copies back at the end on the default stream",
        ALL, pinned=False, whole=True,
    ),
    "truncated": Way("k columns and rows from pageable memory, the rest as it was", pinned=False),
    "pinned": Way("pinned memory and memory on the GPU, used again; waiting at each step"),
    "2 streams": _streams(2, "two"),
    "3 streams": _streams(3, "three"),
    "4 streams": _streams(4, "four"),
    "n streams": _streams(ALL, "as many as there are images:"),
    "queues": Way("a stream for each engine, events between them, room for three images", 3,
                  queues=True),
    "batched": Way("one copy in, one launch for all images, one copy out", 1, ALL),
    "chunks": Way(f"{CHUNK} images to a launch, in three streams", 3, CHUNK),
    "graph": Way("three streams, captured as a CUDA graph and launched at once", 3, graph=True),
}  # fmt: skip


def shapes_of(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> tuple[int, int, int, int]:
    """Images, rows, columns and r of stacks of factors; ValueError where they do not fit."""
    shapes = [tuple(np.shape(array)) for array in (u, s, vt)]
    fit = len(shapes[0]) == 3 and len(shapes[1]) == 2 and len(shapes[2]) == 3
    if fit:
        images, rows, rank = shapes[0]
        fit = shapes[1] == (images, rank) and shapes[2][:2] == (images, rank) and images > 0
    if not fit:
        raise ValueError(
            f"u, s, vt have the shapes {', '.join(map(str, shapes))}; they must be stacks of one "
            "or more images of one size: (images, rows, r), (images, r), (images, r, columns); of "
            "one image u[None], s[None], vt[None] are such stacks"
        )
    if not 1 <= k <= rank:
        raise ValueError(f"k is {k}; with {rank} singular values it must be from 1 to {rank}")
    return images, rows, shapes[2][2], rank


def factor_bytes(images: int, rows: int, columns: int, depth: int) -> int:
    """Bytes of `depth` columns of u, singular values and rows of vt, of so many images."""
    return FLOAT32 * images * depth * (rows + 1 + columns)


def least_copy_time(bytes_in: int, bytes_out: int, rate_in: float, rate_out: float) -> float:
    """Least time of a batch [ms]: the copies of one direction, at rates in GB/s, one after another.

    Both directions at once, with all computing behind them, is the best that can be hoped for.
    """
    return max(bytes_in / rate_in, bytes_out / rate_out) * 1e-6
