"""A stack of images, host to host: the ways of lesson 08's `batches`, PCIe's rates, timelines."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from course.backend import gpu
from course.measure import timeline
from course.measure.recorded import file_name, header
from course.measure.timing import timing_of
from course_lessons.lesson08.batches import WAYS, Batch, least_copy_time
from course_lessons.lesson08.pinned import LANES, PinnedPool
from course_recording.frame import FLOAT32_LIMIT, judged

IMAGES, SIZE, RANK = 32, 2048, 128
SMALL = (50, 256, 50)  # images, rows and columns, k
SHOWN = 12  # images on a timeline
FEW = 4  # images on the original program's timeline
CHECKED = 3  # images that are compared with float64; all others must be finite
MIB = 1024**2
LARGE = 256 * MIB  # bytes of a copy whose rate is PCIe's
PACKERS = 4  # threads that pack
FAST = ("pinned", "2 streams", "3 streams", "4 streams", "n streams", "queues", "batched", "chunks",
        "graph")  # fmt: skip
#: Timelines: name -> way, images, whether whole factors are copied.
TIMELINES = {
    "original": ("original", FEW, True),
    "original's streams": ("original's streams", SHOWN, True),
    "pinned": ("pinned", SHOWN, False),
    "3 streams": ("3 streams", SHOWN, False),
    "queues": ("queues", SHOWN, False),
    "batched": ("batched", SHOWN, False),
    "chunks": ("chunks", SHOWN, False),
    "whole pinned": ("pinned", SHOWN, True),
    "whole 3 streams": ("3 streams", SHOWN, True),
}


def run(bench):
    """Measure what lesson 08 compares."""
    Streams(bench).run()


class Streams:
    """The parts of the subject, and what they share: inputs, the pool, the link's rates."""

    def __init__(self, bench):
        self.bench, self.cuda = bench, bench.cuda
        self.pool = PinnedPool(6 << 30)
        self.rates = None

    def run(self):
        """Run all parts; one that fails stops no other."""
        for part in (
            self.link, self.truncated, self.packing, self.copied_on, self.timelines, self.whole,
            self.columns, self.calls, self.small,
        ):  # fmt: skip
            start = time.perf_counter()
            try:
                part()
            except Exception as problem:  # the other parts are still measured
                self.bench.fail(part.__name__, problem)
            self.bench.say(f"  ({part.__name__}: {time.perf_counter() - start:.1f} s)")

    # ------------------------------------------------------------------ inputs
    @functools.cached_property
    def factors(self):
        """Whole factors of the images in pageable memory: 1 GiB of random numbers."""
        return self.random(IMAGES, SIZE, SIZE)

    def random(self, images, size, rank):
        """Stacks u, s, vt."""
        random = self.bench.random
        s = random(images, rank) + np.float32(1)
        return random(images, size, rank), s, random(images, rank, size)

    def expected(self, factors, k):
        """`CHECKED` of the images in float64, the first and the last among them."""
        u, s, vt = factors
        chosen = np.linspace(0, len(u) - 1, CHECKED).astype(int)
        wide = np.float64
        return {
            int(i): (u[i, :, :k].astype(wide) * s[i, :k]) @ vt[i, :k].astype(wide) for i in chosen
        }

    # ------------------------------------------------------------------ one program
    def measured(self, case, variant, batch, expected, *, queue=None, samples=15, seconds=1.0):
        """Check a batch, time it, keep its rows."""
        bench, n, (rows, columns) = self.bench, batch.count, batch.shape
        shape = f"{n}x{rows}x{columns}x{batch.k}"
        queue = queue or batch.queue
        first = self.clocked(queue, batch.wait)[1]
        error = self.checked(queue, batch, expected)
        host, whole, end = [], [], time.perf_counter() + seconds
        while len(whole) < samples and (len(whole) < 5 or time.perf_counter() < end):
            for kept, value in zip((host, whole), self.clocked(queue, batch.wait), strict=True):
                kept.append(value)
        total = batch.bytes_in + batch.bytes_out
        timing = timing_of(whole, first_call=first, bytes=total)
        bench.row(case, variant, shape, "float32", timing)
        bench.row(case, variant, shape, "float32", timing_of(host), metric="host")
        least = least_copy_time(batch.bytes_in, batch.bytes_out, *self.rates)
        for metric, unit, value in (
            ("bytes in", "bytes", batch.bytes_in), ("bytes out", "bytes", batch.bytes_out),
            ("bound", "ms", least), ("error", "relative", error),
        ):  # fmt: skip
            bench.figure(case, variant, shape, "float32", metric, unit, value)
        bench.say(f"    {timing.median / least:.3f} of the bound; host {np.median(host):.2f} ms")
        return timing

    def clocked(self, queue, wait):
        """Milliseconds until the host has queued all work, and until that is done."""
        self.cuda.synchronize()
        start = time.perf_counter()
        queue()
        queued = time.perf_counter()
        wait()
        return (queued - start) * 1e3, (time.perf_counter() - start) * 1e3

    def checked(self, queue, batch, expected):
        """Run into poisoned outputs; check each image as soon as the batch says that it is there.

        Returns
        -------
        error : float
            The largest relative Frobenius error.
        """
        batch.poison(factors=queue != batch.queue)  # a queue that packs must do so before the copy
        queue()
        worst, numbers = 0.0, []
        for number, image in batch.finished():
            numbers.append(number)
            if number in expected:
                found = judged(image, expected[number], FLOAT32_LIMIT, self.cuda)
                worst = max(worst, found)
            elif not np.isfinite(image.sum()):
                raise ValueError(
                    f"{batch.way}: image {number} is not finite: not written, or wrong"
                )
        if numbers != list(range(batch.count)):
            raise ValueError(f"{batch.way}: images came in the order {numbers}")
        return worst

    def attempt(self, case, way, factors, k, expected, variant=None, **more):
        """Measure a way; whatever goes wrong, the others are still measured."""
        images, rows, rank = factors[0].shape
        try:
            with Batch(way, images, rows, factors[2].shape[2], k, rank=rank, pool=self.pool,
                       **more) as batch:  # fmt: skip
                batch.load(*factors)
                return self.measured(case, variant or way, batch, expected)
        except Exception as problem:
            self.bench.fail(f"{case} {variant or way}", problem)
            return None

    # ------------------------------------------------------------------ parts
    def link(self):
        """Rates of large copies from and to pinned memory, alone and together; cost of pinning."""
        bench, cuda = self.bench, self.cuda
        start = time.perf_counter()
        hosts = [self.pool.take(LARGE, np.uint8) for _ in range(2)]
        pinning = timing_of([(time.perf_counter() - start) * 1e3], bytes=2 * LARGE)
        bench.row("pinned memory", "allocate", f"{2 * LARGE}", "uint8", pinning)
        for host in hosts:
            host[:] = 1
        there = [cuda.device_array(LARGE, np.uint8) for _ in hosts]
        streams = [cuda.stream() for _ in hosts]

        into = functools.partial(there[0].copy_to_device, hosts[0])
        out_of = functools.partial(there[1].copy_to_host, hosts[1])
        rates = []
        for name, copy in (("in", into), ("out", out_of)):
            copy(streams[0])
            times = [between(cuda, [streams[0]], [copy])[0] for _ in range(20)]
            timing = timing_of(times, bytes=LARGE)
            bench.row("link", f"{name}, alone", f"{LARGE}", "uint8", timing)
            rates.append(timing.gigabytes_per_second)
        self.rates = tuple(rates)
        both = [between(cuda, streams, [into, out_of], 3) for _ in range(10)]
        for place, name in enumerate(("in", "out")):
            timing = timing_of([pair[place] for pair in both], bytes=LARGE)
            bench.row("link", f"{name}, both at once", f"{LARGE}", "uint8", timing)
        self.pool.give(*hosts)

    def truncated(self):
        """Copy in only k columns and rows, copy out the images; every way, in one run."""
        expected = self.expected(self.factors, RANK)
        case = "k columns and rows"
        for way in WAYS:
            self.attempt(case, way, self.factors, RANK, expected)
        self.attempt(case, "original", self.factors, RANK, expected, kernel="original",
                     variant="original, its own kernel")  # fmt: skip

    def whole(self):
        """Copy in whole factors: for k = 128, where that is a waste, and for the full rank."""
        for k, ways in ((RANK, FAST), (SIZE, ("pinned", "3 streams", "queues", "chunks", "graph"))):
            expected = self.expected(self.factors, k)
            for way in ways:
                self.attempt("whole factors", way, self.factors, k, expected, whole=True)

    def packing(self):
        """Whole factors in pageable memory, packed before the GPU starts or while it works."""
        case, factors = "packed on the host", self.factors
        expected = self.expected(factors, RANK)
        with Batch("3 streams", IMAGES, SIZE, SIZE, RANK, pool=self.pool) as batch:
            pack = functools.partial(batch.pack, *factors)

            def before():
                batch.load(*factors)
                batch.queue()

            def meanwhile():
                batch.queue(ready=pack)

            def by_threads():
                done = {part.start: threads.submit(pack, part) for part in batch.parts}
                batch.queue(ready=lambda part: done[part.start].result())

            with ThreadPoolExecutor(PACKERS) as threads:
                for name, queue in (
                    ("before", before), ("meanwhile", meanwhile),
                    (f"meanwhile, {PACKERS} threads", by_threads),
                ):  # fmt: skip
                    self.measured(case, name, batch, expected, queue=queue)
            load, wait = functools.partial(batch.load, *factors), self.cuda.synchronize
            times = [self.clocked(load, wait)[1] for _ in range(7)]
            timing = timing_of(times, bytes=2 * batch.bytes_in)
            shape = f"{IMAGES}x{SIZE}x{SIZE}x{RANK}"
            self.bench.row(case, "packing alone", shape, "float32", timing)

    def copied_on(self):
        """Images that must leave pinned memory: one thread copies them to NumPy's memory."""
        with self.pool.lend((IMAGES, SIZE, SIZE)) as images:
            images[...] = 1
            used = np.ones_like(images)
            for name, copy in (
                ("to memory in use", lambda: np.copyto(used, images)),
                ("to fresh memory", images.copy),
            ):
                times = [self.clocked(copy, self.cuda.synchronize)[1] for _ in range(5)]
                timing = timing_of(times, bytes=2 * images.nbytes)
                shape = f"{IMAGES}x{SIZE}x{SIZE}"
                self.bench.row("images copied on", name, shape, "float32", timing)

    def columns(self):
        """Ways to copy k columns of a whole matrix in pinned memory to the GPU."""
        bench, cuda = self.bench, self.cuda
        stream = cuda.stream()
        with self.pool.lend((SIZE, SIZE)) as matrix, self.pool.lend((SIZE, RANK)) as packed:
            matrix[...] = self.factors[0][0]
            packed[...] = matrix[:, :RANK]
            whole = cuda.device_array((SIZE, SIZE), np.float32)
            part = cuda.device_array((SIZE, RANK), np.float32)
            ways = {
                "the whole matrix": lambda: whole.copy_to_device(matrix, stream=stream),
                "columns side by side already": lambda: part.copy_to_device(packed, stream=stream),
                "packed, then copied": lambda: (
                    np.copyto(packed, matrix[:, :RANK]), part.copy_to_device(packed, stream=stream)
                ),
            }  # fmt: skip
            if cupy := bench.peer("cupy"):
                runtime, word = cupy.cuda.runtime, 4
                there = part.__cuda_array_interface__["data"][0]
                handle, to_device = int(stream.handle), runtime.memcpyHostToDevice
                ways["2-D copy, by CuPy"] = lambda: runtime.memcpy2DAsync(
                    there, word * RANK, matrix.ctypes.data, word * SIZE, word * RANK, SIZE,
                    to_device, handle,
                )  # fmt: skip
                ways["columns side by side already, by CuPy"] = lambda: runtime.memcpyAsync(
                    there, packed.ctypes.data, packed.nbytes, to_device, handle
                )
                ways["the whole matrix, by CuPy"] = lambda: runtime.memcpyAsync(
                    whole.__cuda_array_interface__["data"][0], matrix.ctypes.data, matrix.nbytes,
                    to_device, handle,
                )  # fmt: skip
            for name, way in ways.items():
                bench.cuda.synchronize()
                part.copy_to_device(np.full((SIZE, RANK), np.nan, np.float32))
                self.clocked(way, stream.synchronize)
                if not name.startswith("the whole"):
                    judged(part, matrix[:, :RANK].astype(np.float64), 0.0, cuda)
                times = [self.clocked(way, stream.synchronize)[1] for _ in range(30)]
                size = matrix.nbytes if name.startswith("the whole") else packed.nbytes
                timing = timing_of(times, bytes=size)
                bench.row("k columns in", name, f"{SIZE}x{RANK}", "float32", timing)

    def calls(self):
        """The host's time for each call that an image needs: copies, a launch, events."""
        bench, cuda = self.bench, self.cuda
        stream, event = cuda.stream(), cuda.event(timing=False)
        size = 1 << 10
        with self.pool.lend(size) as host:
            host[:] = 0
            there = cuda.to_device(host)
            with Batch("3 streams", 1, SMALL[1], SMALL[1], SMALL[2], pool=self.pool) as batch:
                calls = {
                    "copy in": lambda: there.copy_to_device(host, stream=stream),
                    "copy out": lambda: there.copy_to_host(host, stream=stream),
                    "launch": batch.slots[0].launch,
                    "record an event": lambda: event.record(stream),
                    "wait for an event": lambda: event.wait(stream),
                }
                if cupy := bench.peer("cupy"):
                    runtime = cupy.cuda.runtime
                    address, handle = there.__cuda_array_interface__["data"][0], int(stream.handle)
                    calls["copy in, by CuPy"] = lambda: runtime.memcpyAsync(
                        address, host.ctypes.data, host.nbytes, runtime.memcpyHostToDevice, handle
                    )
                for name, call in calls.items():
                    call()
                    times = [self.clocked(call, cuda.synchronize)[0] for _ in range(100)]
                    bench.row("host call", name, "", "float32", timing_of(times))

    def small(self):
        """Small images, where the host's calls cost more than the copies."""
        images, size, k = SMALL
        factors = self.random(images, size, size)
        expected = self.expected(factors, k)
        for way in WAYS:
            self.attempt("small images", way, factors, k, expected)

    def timelines(self):
        """Write timelines of some ways: of five runs the one of median length."""
        bench = self.bench
        for name, (way, images, whole) in TIMELINES.items():
            images = min(images, IMAGES)
            factors = tuple(array[:images] for array in self.factors)
            with Batch(way, images, SIZE, SIZE, RANK, rank=SIZE, whole=whole,
                       pool=self.pool) as batch:  # fmt: skip
                batch.load(*factors)
                batch.go()
                untimed = np.median([self.clocked(batch.queue, batch.wait)[1] for _ in range(7)])
                runs = [batch.go(timeline=True) for _ in range(5)]
                least = least_copy_time(batch.bytes_in, batch.bytes_out, *self.rates)
            runs.sort(key=lambda spans: max(span.end for span in spans))
            spans = runs[len(runs) // 2]
            about = header(gpu(), bench.roofs, f"python -m course bench {bench.subject}")
            about |= {
                "way": f"{name}: {WAYS[way].text}", "images": str(images), "bound": f"{least:.4f}",
                "shape": f"{images}x{SIZE}x{SIZE}x{RANK}", "whole": "yes" if whole else "no",
                "without events": f"{untimed:.4f}",
            }  # fmt: skip
            last = max(span.end for span in spans)
            busy = ", ".join(f"{lane} {timeline.busy(spans, lane) / last:.0%}" for lane in LANES)
            bench.say(f"    {name}: {last:.2f} ms with events, {untimed:.2f} without; {busy}")
            if bench.folder is not None:
                path = bench.folder / file_name(gpu(), f"timeline-{timeline.slug(name)}")
                timeline.write(path, spans, about)


def between(cuda, streams, copies, times=1):
    """Milliseconds of a copy in each stream, all streams at the same time; by events."""
    cuda.synchronize()
    marks = [(cuda.event(), cuda.event()) for _ in streams]
    for stream, (start, _) in zip(streams, marks, strict=True):
        start.record(stream)
    for _ in range(times):
        for stream, copy in zip(streams, copies, strict=True):
            copy(stream)
    for stream, (_, end) in zip(streams, marks, strict=True):
        end.record(stream)
    cuda.synchronize()
    return [cuda.event_elapsed_time(start, end) / times for start, end in marks]
