"""The ways in which a stack of images goes to a GPU and comes back, by name, and what they move.

The same images rebuilt in many ways: what is copied, from which memory, in how many streams.

>>> rebuild_stack("original", u, s, vt, 128)   # pageable memory, whole factors, one at a time
>>> rebuild_stack("3 streams", u, s, vt, 128)  # pinned memory, what is needed, three queues

u, s, vt are stacks, (images, rows, r), (images, r), (images, r, columns), in the host's memory, and
so are the images at the end. `WAYS` names the ways. A `Batch` is a way made ready once, to be run
over and over on the same memory, as a program with many batches does.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from course import backend
from course.dispatch import graphs
from course.kernels.reconstruct.ladder import LADDER
from course.measure.timeline import Span
from course_lessons.lesson08.pinned import PinnedPool, Recorder, Slot, floats, untimed, views

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
        How many images (or chunks) are in flight; `ALL` of them; None: no stream is named, and the
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


# --- made ready, and run --------------------------------------------------------------------------

Timed = Callable[..., AbstractContextManager[None]]  # what `Recorder` is


@dataclasses.dataclass(frozen=True)
class Run:
    """What came out.

    Attributes
    ----------
    way : str
    images : ndarray, shape (images, rows, columns), float32
        In the order of the factors. In pinned memory of the pool, where the way uses it.
    spans : tuple of Span
        Copies and kernels, from CUDA events; none without a GPU, and none of a graph.
    milliseconds : float or None
        On the host's clock, from the first copy in to the last image; None without a GPU. The
        second of two runs: what is made once is not in it.
    """

    way: str
    images: np.ndarray
    spans: tuple[Span, ...]
    milliseconds: float | None


def rebuild_stack(
    way: str,
    u: np.ndarray,
    s: np.ndarray,
    vt: np.ndarray,
    k: int,
    *,
    kernel: str = "auto",
    whole: bool = False,
    pool: PinnedPool | None = None,
) -> Run:
    """Rebuild a stack of images one way.

    Parameters
    ----------
    way : str
        A name of `WAYS`.
    u, s, vt : ndarray, shapes (images, rows, r), (images, r), (images, r, columns)
    k : int
        From 1 to r.
    kernel : str
        Of `course.kernels.reconstruct.reconstruct.ladder.names`.
    whole : bool
        Copy all of u and vt, whatever the way needs.
    pool : PinnedPool, optional
        Where pinned memory comes from. Of its arrays the images stay lent: give them back with
        ``pool.give(run.images)``. Without it the memory is this run's own.

    Raises
    ------
    ValueError
        For a way that does not exist, shapes that do not fit together, or a k out of range.
    RuntimeError
        For a graph, on a GPU without CuPy.
    """
    images, rows, columns, rank = shapes_of(u, s, vt, k)
    batch = Batch(way, images, rows, columns, k, rank=rank, kernel=kernel, whole=whole, pool=pool)
    with batch:
        batch.load(u, s, vt)
        spans = batch.go(timeline=True)
        milliseconds = None
        if backend.gpu():
            start = time.perf_counter()
            batch.go()
            milliseconds = (time.perf_counter() - start) * 1e3
        result = batch.images if isinstance(batch.images, np.ndarray) else np.stack(batch.images)
        batch.keep_images()
    return Run(way, result, spans, milliseconds)


class Batch:
    """A way, made ready for so many images of one shape: memory and kernels, once.

    Parameters
    ----------
    way : str
        A name of `WAYS`.
    images, rows, columns, k : int
    rank : int, optional
        r of the factors that will be loaded; without it as large as it can be.
    kernel, whole, pool
        As in `run`.

    Attributes
    ----------
    parts : list of slice
        Images of each launch.
    slots : list of Slot
        For each launch its room on the GPU.
    images : ndarray or list of ndarray
        Where results go; of the ways without pinned memory new arrays in each run.
    bytes_in, bytes_out : int
        What travels in a run.
    """

    def __init__(
        self, way: str, images: int, rows: int, columns: int, k: int, *, rank: int | None = None,
        kernel: str = "auto", whole: bool = False, pool: PinnedPool | None = None,
    ):  # fmt: skip
        if way not in WAYS:
            raise ValueError(f"there is no way {way!r}: choose one of {', '.join(WAYS)}")
        rank = min(rows, columns) if rank is None else rank
        for name, value in (("images", images), ("rows", rows), ("columns", columns)):
            if value < 1:
                raise ValueError(f"Batch: {name} is {value}; it must be 1 or more")
        if not 1 <= k <= rank:
            raise ValueError(f"k is {k}; with {rank} singular values it must be from 1 to {rank}")
        self.way, self.how, self.k, self.kernel = way, WAYS[way], k, kernel
        self.shape, self.count = (rows, columns), images
        self.depth = rank if whole or self.how.whole else k
        self.bytes_in = factor_bytes(images, rows, columns, self.depth)
        self.bytes_out = FLOAT32 * images * rows * columns
        self.images: Any = []
        self.parts: list[slice] = []
        self.slots: list[Slot] = []
        self._given: tuple[np.ndarray, ...] = ()  # factors in pageable memory
        self._lent: list[np.ndarray] = []
        self._graph: Any = None
        self._streams: list[Any] = []
        self._pool = pool or PinnedPool(2 * (self.bytes_in + self.bytes_out) + (1 << 20))
        if self.how.pinned:
            try:
                self._make_ready()
            except BaseException:
                self.close()
                raise

    # ------------------------------------------------------------------ ready
    def _make_ready(self) -> None:
        n, shape = self.count, (*self.shape, self.depth)
        size = min(self.how.chunk or n, n)
        self.parts = [slice(first, min(first + size, n)) for first in range(0, n, size)]
        lengths = [floats(part.stop - part.start, shape) for part in self.parts]
        self._lent.append(self._pool.take(sum(lengths)))
        self._lent.append(self._pool.take((n, *self.shape)))
        self._packed = np.split(self._lent[0], np.cumsum(lengths)[:-1])  # a piece a launch
        self.images = self._lent[1]
        self.slots = self._make_slots()
        cuda = backend.cuda
        self._done = [cuda.event(timing=False) for _ in self.parts]
        # Compiled and loaded before anything is timed or captured; what it computes is unused.
        for slot in {id(slot): slot for slot in self.slots}.values():
            slot.launch()
        cuda.synchronize()
        if self.how.graph and backend.gpu():
            self._capture()

    def _make_slots(self) -> list[Slot]:
        """The slot of each part; parts of one size share slots, in turns."""
        cuda, how = backend.cuda, self.how
        count = 1 if how.streams is None else min(how.streams or self.count, len(self.parts))
        if how.streams is not None:
            self._streams = [cuda.stream() for _ in range(3 if how.queues else count)]
        known: dict[tuple[int, int], Slot] = {}
        slots = []
        for place, part in enumerate(self.parts):
            number, size = place % count, part.stop - part.start
            if (number, size) not in known:
                if how.queues:
                    streams = tuple(self._streams)
                else:
                    streams = (self._streams[number] if self._streams else 0,) * 3
                known[number, size] = Slot(
                    size, (*self.shape, self.depth), self.k, self.kernel, streams, number
                )
            slots.append(known[number, size])
        return slots

    def _capture(self) -> None:
        """Queue everything once while CuPy records it; nothing runs."""
        try:
            import cupy
        except ImportError as problem:
            raise RuntimeError(
                f"a CUDA graph is captured through CuPy, and it cannot be imported ({problem}): "
                "install CuPy for your CUDA version, or take another way, such as '3 streams'"
            ) from problem
        cuda = backend.cuda
        self._origin = cupy.cuda.Stream(non_blocking=True)
        origin, fork = cuda.external_stream(self._origin.ptr), cuda.event(timing=False)
        joins = [cuda.event(timing=False) for _ in self._streams]

        def queue() -> None:
            fork.record(origin)  # the other streams join the capture by waiting for this one
            for stream in self._streams:
                fork.wait(stream)
            self._queue(untimed)
            for stream, join in zip(self._streams, joins, strict=True):
                join.record(stream)
                join.wait(origin)

        graph, _ = graphs.capture_graph(self._origin, queue)
        graph.upload(self._origin)
        self._graph = graph

    # ------------------------------------------------------------------ factors
    def load(self, u: np.ndarray, s: np.ndarray, vt: np.ndarray) -> None:
        """Put factors where the way takes them from; into pinned memory only what travels.

        Raises
        ------
        ValueError
            When the shapes are not those that the batch was made for.
        """
        images, rows, columns, rank = shapes_of(u, s, vt, self.k)
        if (images, rows, columns) != (self.count, *self.shape) or rank < self.depth:
            raise ValueError(
                f"the factors are of {images} images of {rows} x {columns} and rank {rank}; this "
                f"batch is for {self.count} of {self.shape[0]} x {self.shape[1]} with rank "
                f"{self.depth} or more: make another Batch"
            )
        if not self.how.pinned:
            self._given = tuple(np.asarray(array, np.float32) for array in (u, s, vt))
            return
        for part in self.parts:
            self.pack(u, s, vt, part)

    def pack(self, u: np.ndarray, s: np.ndarray, vt: np.ndarray, part: slice) -> None:
        """Copy what travels of a launch's images into its piece of pinned memory; see `room`."""
        depth = self.depth
        given = u[part, :, :depth], s[part, :depth], vt[part, :depth]
        for room, values in zip(self.room(part), given, strict=True):
            room[...] = values

    def room(self, part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where u, s, vt of a launch's images lie in pinned memory, for who produces them.

        Parameters
        ----------
        part : slice
            One of `parts`.

        Returns
        -------
        u, s, vt : ndarray, shapes (size, rows, depth), (size, depth), (size, depth, columns)
            `depth` is k, or all of r where whole factors travel.
        """
        memory = self._packed[self.parts.index(part)]
        return views(memory, part.stop - part.start, (*self.shape, self.depth))

    # ------------------------------------------------------------------ running
    def go(self, timeline: bool = False) -> tuple[Span, ...]:
        """Run it and wait for the images; with `timeline` return the spans.

        Events in between cost the host time, so a run whose time counts does without.
        """
        first = self._streams[0] if self._streams else 0
        recorder = Recorder(first) if timeline and self._graph is None else None
        self.queue(recorder)
        self.wait()
        return recorder.spans() if recorder else ()

    def queue(
        self, recorder: Timed | None = None, ready: Callable[[slice], None] | None = None
    ) -> None:
        """Hand all work to the GPU; in ways with streams the host need not wait for it.

        Parameters
        ----------
        recorder : Recorder, optional
        ready : callable, optional
            Called with the images of a launch before they are queued: it returns when their factors
            lie in their `room`. So the host prepares some while the GPU is busy with others.
        """
        if self._graph is not None:
            self._graph.launch(self._origin)
        elif self.how.pinned:
            self._queue(recorder or untimed, ready)
        elif self.how.streams is None:
            self._as_the_original(recorder or untimed)
        else:
            self._as_the_originals_streams(recorder or untimed)

    def wait(self) -> None:
        """Wait until all images are there."""
        backend.cuda.synchronize()

    def finished(self) -> Iterator[tuple[int, np.ndarray]]:
        """Images in order, each as soon as it is there, while later ones are under way.

        Yields
        ------
        number : int
        image : ndarray, shape (rows, columns)
        """
        if not self.how.pinned or self._graph is not None:
            self.wait()
            yield from enumerate(self.images)
            return
        for part, done in zip(self.parts, self._done, strict=True):
            done.synchronize()
            for number in range(part.start, part.stop):
                yield number, self.images[number]

    def _queue(self, timed: Timed, ready: Callable[[slice], None] | None = None) -> None:
        """Copy in, compute, copy out, part after part, each in its slot's streams."""
        queues = self.how.queues
        launches = zip(self.parts, self._packed, self.slots, self._done, strict=True)
        for part, packed, slot, done in launches:
            if ready is not None:
                ready(part)
            alone = part.stop - part.start == 1
            place = part.start if alone else part
            tag = (-1 if len(self.parts) == 1 and not alone else part.start, slot.number)
            if queues:  # the factors of the image before must have been used
                slot.computed.wait(slot.into)
            with timed("copy in", "copy in", slot.into, *tag):
                slot.memory.copy_to_device(packed, stream=slot.into)
            if queues:  # its image must have left, and the new factors must be there
                slot.arrived.record(slot.into)
                slot.arrived.wait(slot.compute)
                slot.emptied.wait(slot.compute)
            with timed("kernel", "compute", slot.compute, *tag):
                slot.launch()
            if queues:
                slot.computed.record(slot.compute)
                slot.computed.wait(slot.out_of)
            with timed("copy out", "copy out", slot.out_of, *tag):
                slot.out.copy_to_host(self.images[place], stream=slot.out_of)
            if queues:
                slot.emptied.record(slot.out_of)
            done.record(slot.out_of)

    # ------------------------------------------------------------------ the original's ways
    def _factors_of(self, image: int) -> list[np.ndarray]:
        """What travels of an image, in one piece."""
        u, s, vt = (array[image] for array in self._given)
        depth = self.depth
        return [np.ascontiguousarray(part) for part in (u[:, :depth], s[:depth], vt[:depth])]

    def _launch(self, u: Any, s: Any, vt: Any, out: Any, stream: Any = 0) -> None:
        for launch in LADDER.launches(u, s, vt, out, k=self.k, method=self.kernel):
            launch.on(stream)

    def _as_the_original(self, timed: Timed) -> None:
        cuda, self.images = backend.cuda, []
        for image in range(self.count):
            with timed("copy in", "copy in", 0, image, 0):
                there = [cuda.to_device(part) for part in self._factors_of(image)]
            out = cuda.device_array(self.shape, np.float32)
            with timed("kernel", "compute", 0, image, 0):
                self._launch(*there, out)
            with timed("copy out", "copy out", 0, image, 0):
                self.images.append(out.copy_to_host())

    def _as_the_originals_streams(self, timed: Timed) -> None:
        cuda, results = backend.cuda, []
        for image in range(self.count):
            stream = cuda.stream()
            with timed("copy in", "copy in", stream, image, image):
                there = [cuda.to_device(part, stream=stream) for part in self._factors_of(image)]
            out = cuda.device_array(self.shape, np.float32)
            with timed("kernel", "compute", stream, image, image):
                self._launch(*there, out, stream)
            results.append((out, there, stream))
        self.images = []
        for image, (out, *_) in enumerate(results):
            with timed("copy out", "copy out", 0, image, image):
                self.images.append(out.copy_to_host())

    # ------------------------------------------------------------------ the end
    def poison(self, factors: bool = False) -> None:
        """Fill images, here and on the GPU, with NaN, so that a result is this run's or none.

        With `factors` the pinned ones, too, for ways that pack them in each run.
        """
        if not self.how.pinned:
            self.images = []
            return
        for array in self._lent if factors else (self.images,):
            array[...] = np.nan
        for slot in {id(slot): slot for slot in self.slots}.values():
            slot.out.copy_to_device(np.full(slot.out.shape, np.nan, np.float32))

    def keep_images(self) -> None:
        """Leave the images lent when the batch is closed."""
        self._lent = [array for array in self._lent if array is not self.images]

    def close(self) -> None:
        """Wait, and give pinned memory back to the pool."""
        if self.how.pinned and self._lent:
            self.wait()
            self._pool.give(*self._lent)
            self._lent, self._packed = [], []

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
