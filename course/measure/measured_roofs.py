"""The roofs of the machine in front of you: what simple programs reach, not what is printed.

Each roof is one program that does nothing but press on it: copy, read, read from the L2 cache,
multiply and add in registers, multiply matrices on tensor cores.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from course import backend
from course.measure.roofline import PIPES, Roofs, known_gpu
from course.measure.timing import Timing, measure, roofs_here
from warpsim.host.device import NoTime

if TYPE_CHECKING:
    from course.measure.recorded import Figure

ROOF = "roof"  # the kernel that a file of figures names in its rows of roofs
BIG = 512 * 1024**2  # bytes of an array that no cache holds
PASSES = 40  # over data that stays in L2
ABOVE_MEMORY = 1.1  # how many times faster than device memory L2 must be, to count as a roof
CHAINS = 8  # independent sums a thread: enough to hide the latency of a multiply-add
UNROLLED = 16  # multiply-adds of a chain in an iteration: the loop's own work is little
ITERATIONS = 256
MATRICES = (4096, 8192)  # sides of the matrices multiplied on tensor cores; the faster counts
#: Pipes of the tensor cores that are measured, where CuPy or PyTorch is installed.
TENSOR = {"tensor_float16": "float16", "tensor_float32": "TF32"}


@functools.cache
def measure_roofs() -> Roofs:
    """Measure this GPU's roofs, of each the fastest sample; once in a session, in some seconds.

    Raises
    ------
    NoTime
        Without a GPU.
    """
    from course.measure.event_clock import l2_bytes

    fastest = {name: dataclasses.replace(t, median=min(t.samples)) for name, t in roof_timings()}
    count = backend.cuda.get_current_device().MULTIPROCESSOR_COUNT
    source = "measured by course.measure.measured_roofs"
    return _roofs(fastest, backend.gpu() or "", source, l2_bytes(backend.cuda), count)


def recorded_roofs(gpu: str) -> Roofs:
    """The roofs that were measured on a GPU such as "H200" and recorded: medians.

    Raises
    ------
    ValueError
        When none of such a GPU are recorded.
    """
    from course.measure.recorded import recorded

    found = {figure.variant: figure for figure in recorded("roofs", kernel="roof", gpu=gpu)}
    if not found:
        raise ValueError(f"no roofs of a GPU {gpu!r} are recorded; known_gpu() has data sheets")
    name, source = next(iter(found.values())).gpu, "recorded in data/measurements"
    known = known_gpu(name)
    return _roofs(found, name, source, known.l2_bytes, known.multiprocessors)


def _roofs(
    found: Mapping[str, Timing | Figure], gpu: str, source: str, l2: int, multiprocessors: int
) -> Roofs:
    """The roofs, from the timings or figures of all the programs."""
    return Roofs(
        gpu=gpu,
        bandwidth=found["copy"].gigabytes_per_second,
        rates={name: one.teraflops for name, one in found.items() if one.operations},
        l2_bytes=l2,
        read_bandwidth=found["read"].gigabytes_per_second,
        l2_bandwidth=l2_roof(found["read from L2"], found["copy"], found["read"]),
        measured=True,
        source=source,
        multiprocessors=multiprocessors,
    )


def roofs_in(figures: Iterable[Figure]) -> Roofs:
    """The roofs that a file of figures has as rows.

    Raises
    ------
    ValueError
        When it has none.
    """
    rows = [its for its in figures if its.kernel == ROOF and its.metric == "peak"]
    found = {its.variant: its.median for its in rows}
    if "memory" not in found:
        raise ValueError("the figures have no roofs: benches such as vae_micro and vit write them")
    return Roofs(
        gpu=rows[0].gpu or "this GPU",
        bandwidth=found["memory"],
        rates={pipe: found[pipe] for pipe in PIPES if pipe in found},
        l2_bytes=0,
        read_bandwidth=found.get("reading"),
        l2_bandwidth=found.get("L2"),
        measured=True,
        source="rows of the same file",
    )


def l2_roof(from_l2: Timing | Figure, *from_memory: Timing | Figure) -> float | None:
    """The bandwidth of reading from L2 [GB/s]; None where it was not above device memory's.

    Then something else than L2 was the bottleneck, and the figure is no roof.
    """
    rate = from_l2.gigabytes_per_second
    above = max(found.gigabytes_per_second for found in from_memory)
    return rate if rate > ABOVE_MEMORY * above else None


def roof_timings() -> Iterator[tuple[str, Timing]]:
    """Measure roof after roof: its name and its timing, with bytes or operations.

    Raises
    ------
    NoTime
        Without a GPU.
    course.measure.roofline.ImpossibleFigure
        When a figure is above what the vendor prints.
    """
    if backend.gpu() is None:
        raise NoTime(
            f"measure_roofs(): there is no GPU here to measure ({backend.why()}). known_gpu('T4') "
            "gives what a vendor prints, recorded_roofs('H200') what was measured on one."
        )
    from course.measure.event_clock import clock, l2_bytes

    cuda = backend.cuda
    copy, read, read_again, multiply_add = roof_kernels()
    run = functools.partial(measure, clock(), samples=20, seconds=0.5, roofs=roofs_here())

    blocks = 16 * cuda.get_current_device().MULTIPROCESSOR_COUNT
    source = cuda.to_device(np.ones(BIG // 8, np.float64))
    target = cuda.device_array(BIG // 8, np.float64)
    candidates = [
        run(call, (target, source), bytes=2 * BIG, warm=False, name="copy")
        for call in (copy[blocks, 512], lambda to, of: to.copy_to_device(of))
    ]
    yield "copy", min(candidates, key=lambda timing: timing.median)
    never = cuda.device_array(1, np.float64)
    yield "read", run(read[blocks, 512], (never, source), bytes=BIG, warm=False, name="read")
    few = cuda.get_current_device().MULTIPROCESSOR_COUNT
    part = max(l2_bytes(cuda) // 3 // 8 // (4 * few * 1024), 1) * 4 * few * 1024
    yield "read from L2", run(
        read_again[few, 1024], (never, source[:part], PASSES), bytes=8 * part * PASSES, roofs=None,
        warm=True, name="read from L2",
    )  # fmt: skip
    for name, kind in (("float32", np.float32), ("float64", np.float64)):
        threads = 256 * blocks
        # fewer in float64: on a GPU such as a T4 it has 1/32 of float32's rate
        iterations = ITERATIONS if name == "float32" else ITERATIONS // 8
        out, seeds = cuda.device_array(1, kind), cuda.to_device(np.linspace(0, 1, 256, dtype=kind))
        yield name, run(
            multiply_add[blocks, 256], (out, seeds, iterations, kind(0.5), kind(1.5)), warm=True,
            operations={name: 2 * CHAINS * UNROLLED * iterations * threads}, name=name,
        )  # fmt: skip
    for name, pipe in TENSOR.items():
        candidates = []
        for size in MATRICES:
            program = tensor_program(name, size)
            if program is not None:
                done, what = {name: 2 * size**3}, f"{pipe}, {size}"
                candidates.append(run(*program, operations=done, warm=True, name=what))
        if candidates:
            yield name, max(candidates, key=lambda timing: timing.teraflops)


@functools.cache
def roof_kernels() -> tuple[Any, Any, Any, Any]:
    """Kernels that copy, read, read again and again, and multiply and add in registers."""
    cuda = backend.cuda

    @cuda.jit
    def copy(out, values):
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            out[i] = values[i]

    @cuda.jit
    def read(out, values):
        total = values[0] - values[0]
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            total += values[i]
        if total < 0:  # never, but no compiler knows
            out[0] = total

    @cuda.jit
    def read_again(out, values, passes):
        # In each pass a block reads another block's part, so that its own L1 has none of it; four
        # loads at a time, so that their latencies overlap.
        a = b = c = d = values[0] - values[0]
        part = values.size // 4
        shift = 0
        for _ in range(passes):
            for i in range(cuda.grid(1), part, cuda.gridsize(1)):
                place = i + shift
                if place >= part:
                    place -= part
                a += values[place]
                b += values[place + part]
                c += values[place + 2 * part]
                d += values[place + 3 * part]
            shift = (shift + 37 * cuda.blockDim.x) % part
        if a + b + c + d < 0:
            out[0] = a

    @cuda.jit(device=True)
    def four(x, factor, term):
        x = cuda.fma(x, factor, term)
        x = cuda.fma(x, factor, term)
        x = cuda.fma(x, factor, term)
        return cuda.fma(x, factor, term)

    @cuda.jit(device=True)
    def sixteen(x, factor, term):
        x = four(four(x, factor, term), factor, term)
        return four(four(x, factor, term), factor, term)

    @cuda.jit
    def multiply_add(out, seeds, iterations, factor, term):
        a = seeds[cuda.threadIdx.x]
        b, c, d, e, f, g, h = a + term, a - term, a + factor, -a, factor, term, factor - term
        for _ in range(iterations):
            a = sixteen(a, factor, term)
            b = sixteen(b, factor, term)
            c = sixteen(c, factor, term)
            d = sixteen(d, factor, term)
            e = sixteen(e, factor, term)
            f = sixteen(f, factor, term)
            g = sixteen(g, factor, term)
            h = sixteen(h, factor, term)
        total = a + b + c + d + e + f + g + h
        if total == term:  # never: each sum tends to term / (1 - factor)
            out[0] = total

    return copy, read, read_again, multiply_add


def tensor_program(pipe: str, size: int) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """A product of size × size matrices on tensor cores, by PyTorch or CuPy; None without them.

    Without PyTorch there is no TF32: CuPy decides on it when it is imported.
    """
    numbers = np.random.default_rng(0).random((size, size), dtype=np.float32) - np.float32(0.5)
    try:
        import torch

        left = torch.from_numpy(numbers).cuda()
    except Exception:  # not installed, or without CUDA: whatever it raises
        return _cupy_product(numbers) if pipe == "tensor_float16" else None
    if pipe == "tensor_float16":
        left = left.half()

    def product(left, right, out):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            torch.matmul(left, right, out=out)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return product, (left, left, torch.empty_like(left))


def _cupy_product(numbers: np.ndarray) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    try:
        import cupy

        half = cupy.asarray(numbers, dtype=cupy.float16)
        return (lambda left, right, out: cupy.matmul(left, right, out=out)), (
            half, half, cupy.empty_like(half),
        )  # fmt: skip
    except Exception:  # not installed, or broken
        return None
