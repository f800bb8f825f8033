"""Measuring honestly: wrong ways of timing beside the right one, block shapes, CPU against GPU.

Lesson 03 shows these figures. The work is the course's own, ``(u[:, :k] * s[:k]) @ vt[:k]`` in
float32; copies stand for kernels that only move memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial

import numpy as np

from course.kernels.reconstruct.ladder import (
    TILE,
    reconstruct_float32,
    reconstruct_naive,
    reconstruct_original,
    reconstruct_tiled,
)
from course.measure import event_clock
from course.measure.measured_roofs import roof_kernels
from course.measure.timing import processor, sampled, timing_of
from course_lessons.lesson02 import cpu

SIZES = (512, 1024, 2048, 4096)
RANK = 256
BLOCKS = ((8, 8), (16, 16), (32, 8), (32, 32), (64, 4), (256, 1))
SQUARES = ((8, 8), (16, 16), (32, 32))  # what the first version of the program tried
CROSSING = (64, 128, 256, 512, 1024, 2048, 4096)  # sides; k is an eighth of the side
SIZE = 2048  # where the ways of timing are compared
MIB = 1024**2
COPIED = (2, 8, 32, 128, 512)  # MiB, read and written together
ALLOCATED = (4 * 1024, MIB, 16 * MIB, 256 * MIB)  # bytes
WARPS = (1, 2, 4, 8, 16, 32, 64)  # resident on a multiprocessor


def run(bench):
    """Measure what lesson 03 compares."""
    bench.notes.append(f"CPU: {processor()}, {os.cpu_count()} cores")
    parts = (
        block_shapes, ways, copies_in_and_out, allocations, crossing, caches, warps, first_images,
    )  # fmt: skip
    for part in parts:
        try:
            part(bench)
        except Exception as problem:  # the other parts are still measured
            bench.fail(part.__name__, problem)


def factors(bench, size, k):
    """Random u, s, vt of an image of size × size pixels, and the image's bytes and operations."""
    arrays = bench.random(size, k), bench.random(k) + np.float32(1), bench.random(k, size)
    work = {"bytes": 4 * (2 * size * k + k + size * size), "needed": 2 * size * size * k}
    return arrays, work


def keep_events(bench, kernel, variant, shape, dtype, call, args, **options):
    """Time on the GPU, with fewer samples than `Bench.variant`, and keep the row."""
    try:
        timing = bench.time(call, args, name=variant, samples=20, seconds=0.3, **options)
    except ValueError as problem:  # faster than a roof allows: no row
        bench.fail(f"{kernel} {variant} {shape}", problem)
        return
    bench.row(kernel, variant, shape, dtype, timing)


def by_the_wall(call, samples=20):
    """The host's times of calls until their work is done, without the first call."""
    clock = event_clock.clock()
    first = clock.wall(call)
    times = sampled(lambda: clock.wall(call), samples, 0.2, clock.now)
    return timing_of(times, first_call=first)


# ---------------------------------------------------------------------- block shapes
def block_shapes(bench):
    """Time the ladder's first kernels by block shape and size; k is always `RANK`."""
    cuda = bench.cuda
    for size in SIZES:
        arrays, work = factors(bench, size, RANK)
        u, s, vt = (cuda.to_device(part) for part in arrays)
        out = cuda.device_array((size, size), np.float32)
        wide = [part.astype(np.float64) for part in arrays]
        expected = (wide[0] * wide[1]) @ wide[2]
        steps = size * size * RANK
        in_float32 = {"float32": 3 * steps}
        in_float64 = {"float32": 2 * steps, "float64": steps}
        programs = [(reconstruct_naive, block, in_float32) for block in BLOCKS]
        programs += [(reconstruct_float32, block, in_float32) for block in SQUARES]
        programs += [(reconstruct_original, block, in_float64) for block in SQUARES]
        programs.append((reconstruct_tiled, (TILE, TILE), {"float32": 2 * steps}))
        for kernel, block, operations in programs:
            name = f"{kernel.py_func.__name__} {block[0]}x{block[1]}"
            grid = tuple(-(-size // threads) for threads in block)
            bench.variant(
                "reconstruct", name, kernel[grid, block], (u, s, vt, RANK, out), out=out,
                expected=expected, shape=f"{size}x{size}x{RANK}", operations=operations, **work,
            )  # fmt: skip


# ---------------------------------------------------------------------- ways of timing
def ways(bench):
    """Time one launch of the program's first version in wrong ways, and in the right one."""
    cuda = bench.cuda
    clock = event_clock.clock()
    grid, block = (SIZE // 16, SIZE // 16), (16, 16)
    whole = bench.random(SIZE, SIZE), bench.random(SIZE), bench.random(SIZE, SIZE)
    image = np.zeros((SIZE, SIZE), np.float32)

    def keep(name, timing):
        bench.row("way of timing", name, f"{SIZE}x{SIZE}x{RANK}", "float32", timing)

    fresh = cuda.jit(reconstruct_original.py_func)[grid, block]
    from_host = (*whole, RANK, image)
    keep("first call, NumPy arrays", timing_of([clock.wall(lambda: fresh(*from_host))]))
    keep("NumPy arrays", by_the_wall(lambda: fresh(*from_host)))

    there = [cuda.to_device(part) for part in (*whole, image)]
    args = (*there[:3], RANK, there[3])
    keep("host clock, no synchronize", timing_of(host_alone(clock, lambda: fresh(*args))))
    keep("host clock, synchronize", by_the_wall(lambda: fresh(*args), samples=50))
    keep("events", timing_of([clock.between_events(lambda: fresh(*args)) for _ in range(50)]))
    again = cuda.jit(reconstruct_original.py_func)[grid, block]
    keep("first call, device arrays", timing_of([clock.wall(lambda: again(*args))]))

    wide = [cuda.to_device(part.astype(np.float64)) for part in (*whole, image)]
    in_float64 = (*wide[:3], RANK, wide[3])
    full = (*there[:3], SIZE, there[3])
    for name, k, given in (
        ("events, queued, cold", RANK, args),
        ("events, queued, cold, float64 arrays", RANK, in_float64),
        ("events, queued, cold", SIZE, full),
    ):
        shape = f"{SIZE}x{SIZE}x{k}"
        keep_events(bench, "way of timing", name, shape, "float32", fresh, given)
    for k in (RANK, SIZE):
        u, s, vt = whole[0][:, :k], whole[1][:k], whole[2][:k]
        timing = by_the_wall(lambda u=u, s=s, vt=vt, k=k: cpu.reconstruct_matmul(u, s, vt, k))
        bench.row("way of timing", "NumPy", f"{SIZE}x{SIZE}x{k}", "float32", timing)


def host_alone(clock, call, samples=50):
    """The host's times of launches without waiting for the kernel; the queue is empty before."""
    times = []
    for _ in range(samples):
        clock.cuda.synchronize()
        start = clock.now()
        call()
        times.append((clock.now() - start) * 1e3)
    clock.cuda.synchronize()
    return times


# ---------------------------------------------------------------------- copies
def copies_in_and_out(bench):
    """Time the copies of one image: of whole factors, or of the k columns and rows needed."""
    cuda = bench.cuda
    u, vt = bench.random(SIZE, SIZE), bench.random(SIZE, SIZE)
    few, image = (np.ascontiguousarray(u[:, :RANK]), vt[:RANK]), np.zeros((SIZE, SIZE), np.float32)
    *pinned, pinned_image = in_pinned_memory(cuda, (*few, image))
    out = cuda.to_device(image)
    for name, parts in (
        ("in, whole factors, pageable", (u, vt)),
        ("in, k columns and rows, pageable", few),
        ("in, k columns and rows, pinned", pinned),
    ):
        there = [cuda.device_array(part.shape, np.float32) for part in parts]
        copy = partial(copy_in, there, parts)
        keep_copy(bench, name, copy, sum(part.nbytes for part in parts))
    keep_copy(bench, "out, pageable", lambda: out.copy_to_host(image), image.nbytes)
    keep_copy(bench, "out, pinned", lambda: out.copy_to_host(pinned_image), image.nbytes)
    keep_copy(bench, "out, into a new array each time", lambda: out.copy_to_host(), image.nbytes)
    keep_copy(bench, "k columns put in order on the host",
              lambda: np.ascontiguousarray(u[:, :RANK]), 2 * few[0].nbytes)  # fmt: skip


def in_pinned_memory(cuda, parts):
    """Copies of float32 arrays in pinned memory."""
    found = [cuda.pinned_array(part.shape, np.float32) for part in parts]
    for memory, part in zip(found, parts, strict=True):
        memory[:] = part
    return found


def copy_in(there, parts):
    """Copy `parts` to the arrays `there` on the device."""
    for memory, part in zip(there, parts, strict=True):
        memory.copy_to_device(part)


def keep_copy(bench, name, call, size):
    """Keep the time of a copy of so many bytes, as the host sees it."""
    timing = by_the_wall(call)
    kept = timing_of(list(timing.samples), bytes=size)
    bench.row("copies of an image", name, f"{SIZE}x{SIZE}x{RANK}", "float32", kept)


def allocations(bench):
    """Time allocations: on the device, pinned on the host, and from CuPy's pool."""
    cuda, cupy = bench.cuda, bench.peer("cupy")
    for size in ALLOCATED:
        ways = {
            "device": lambda size=size: cuda.device_array(size, np.uint8),
            "pinned": lambda size=size: cuda.pinned_array(size, np.uint8),
        }
        if cupy:
            ways["CuPy's pool"] = lambda size=size: cupy.empty(size, np.uint8)
        for name, way in ways.items():
            bench.row("allocation", name, f"{size}", "uint8", by_the_wall(way))


# ---------------------------------------------------------------------- CPU against GPU
def crossing(bench):
    """Time the same work on the CPU and on the GPU, by size, with and without copies."""
    cuda, block = bench.cuda, (32, 8)
    cupy = bench.peer("cupy")
    for size in CROSSING:
        k = size // 8
        (u, s, vt), work = factors(bench, size, k)
        shape = f"{size}x{size}x{k}"
        there = [cuda.to_device(part) for part in (u, s, vt)]
        out = cuda.device_array((size, size), np.float32)
        image = np.zeros((size, size), np.float32)
        launch = reconstruct_naive[(-(-size // 32), -(-size // 8)), block]
        args = (*there, k, out)
        error = bench.check(launch, args, (u.astype(np.float64) * s) @ vt, out=out)
        bench.figure("crossing", "kernel", shape, "float32", "error", "relative", error)

        pinned = in_pinned_memory(cuda, (u, s, vt, image))

        def whole(parts, image, there=there, launch=launch, args=args):
            copy_in(there, parts)
            launch(*args)
            args[-1].copy_to_host(image)

        programs = {
            "NumPy": partial(cpu.reconstruct_matmul, u, s, vt, k),
            "Numba threads": partial(cpu.reconstruct_parallel, u, s, vt, k),
            "kernel, launch and wait": partial(launch, *args),
            "copies in": partial(copy_in, there, (u, s, vt)),
            "copy out": partial(out.copy_to_host, image),
            "kernel and copies": partial(whole, (u, s, vt), image),
            "kernel and copies, pinned": partial(whole, pinned[:3], pinned[3]),
        }
        if cupy:

            def by_cupy(u=u, s=s, vt=vt):
                return ((cupy.asarray(u) * cupy.asarray(s)) @ cupy.asarray(vt)).get()

            programs["CuPy and copies"] = by_cupy
        keep_events(bench, "crossing", "kernel", shape, "float32", launch, args,
                    bytes=work["bytes"], operations={"float32": 3 * size * size * k})  # fmt: skip
        for name, program in programs.items():
            timing = by_the_wall(program)
            bench.row("crossing", name, shape, "float32", timing)
            bench.figure("crossing", name, shape, "float32", "first call", "ms", timing.first_call)


# ---------------------------------------------------------------------- caches, occupancy
def caches(bench):
    """Time copies of little and much data, left in the cache by the launch before, or not."""
    copy, *_ = roof_kernels()
    blocks = 8 * bench.roofs.multiprocessors
    for size in COPIED:
        values = bench.random(size * MIB // 16, dtype=np.float64)
        there, out = bench.cuda.to_device(values), bench.cuda.device_array_like(values)
        launch = copy[blocks, 256]
        bench.check(launch, (out, there), values, out=out, limit=0)
        for name, warm in (("cold", False), ("warm", True)):
            keep_events(bench, "cached copy", name, f"{size}", "float64", launch, (out, there),
                        warm=warm, bytes=size * MIB)  # fmt: skip


def warps(bench):
    """Time a copy by few and by many warps on each SM; each thread has one load in flight.

    The shape is the number of warps that are resident on a multiprocessor.
    """
    copy, *_ = roof_kernels()
    for dtype in ("float32", "float64"):
        values = bench.random(128 * MIB // np.dtype(dtype).itemsize, dtype=dtype)
        there, out = bench.cuda.to_device(values), bench.cuda.device_array_like(values)
        for count in WARPS:
            a_block = min(count, 32)
            launch = copy[bench.roofs.multiprocessors * (count // a_block), 32 * a_block]
            if count == WARPS[0]:
                bench.check(launch, (out, there), values.astype(np.float64), out=out, limit=0)
            keep_events(bench, "copy by warps", f"{count} warps", f"{count}", dtype, launch,
                        (out, there), bytes=2 * values.nbytes)  # fmt: skip


# ---------------------------------------------------------------------- first calls
FIRST_IMAGES = (("CuPy", 256, 100), ("Numba", 256, 100), ("NumPy", 256, 100), ("NumPy", 2048, 256))
#: One image in a new process, as in a notebook's first cell; imports come before the clock.
IMAGE = """
import json, sys, time
import numpy as np
from course_recording.subjects.measuring import single_image
work = single_image(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
times = []
for _ in range(21):
    start = time.perf_counter()
    work()
    times.append(1e3 * (time.perf_counter() - start))
print(json.dumps(times))
"""


def first_images(bench):
    """Time the first image, copies included, by each library in its own process."""
    for name, size, k in FIRST_IMAGES:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-c", IMAGE, name, str(size), str(k)], capture_output=True,
                text=True, timeout=60, env={**os.environ, "CUPY_CACHE_DIR": empty},
            )  # fmt: skip
        if done.returncode:
            bench.notes.append(f"first image by {name} left out")
            bench.say(f"  first image by {name}: {done.stderr.strip()[-400:]}")
            continue
        first, *later = json.loads(done.stdout.strip().split("\n")[-1])
        shape = f"{size}x{size}x{k}"
        bench.row("first image", name, shape, "float32", timing_of([first]), metric="first call")
        bench.row("first image", name, shape, "float32", timing_of(later))


def single_image(name, size, k):
    """A function that rebuilds one image with that library, copies included."""
    rng = np.random.default_rng(0)
    u, s, vt = (rng.random(shape, dtype=np.float32) for shape in ((size, k), k, (k, size)))
    if name == "NumPy":
        return lambda: cpu.reconstruct_matmul(u, s, vt, k)
    if name == "CuPy":
        import cupy

        return lambda: ((cupy.asarray(u) * cupy.asarray(s)) @ cupy.asarray(vt)).get()
    from course.backend import cuda

    def by_numba():
        there = [cuda.to_device(part) for part in (u, s, vt)]
        out = cuda.device_array((size, size), np.float32)
        reconstruct_original[(size // 16, size // 16), (16, 16)](*there, k, out)
        return out.copy_to_host()

    return by_numba
