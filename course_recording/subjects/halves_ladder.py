"""The ladder of products of float16, a step a row, beside cuBLAS in float16.

As `course_recording.subjects.halves`: in CUDA graphs of PyTorch, interleaved with cuBLAS.
"roles, a tile a block" is the kernel of "roles" with as many blocks as tiles: not persistent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from course import backend
from course.kernels.gemm.choice import config_for
from course.kernels.gemm.half import gemm
from course.kernels.steps import ceil_div, multiprocessors
from course.measure.recorded import Figure
from course_recording.frame import compiled_facts
from course_recording.subjects import halves

#: 4096 cubed, and the first layer of a vision transformer's block for 64 images.
SHAPES = ((4096, 4096, 4096), (12608, 2304, 768))
STEPS = ("plain", "wgmma", "tma", "roles, a tile a block", "roles")
KERNEL, DTYPE = "product nt", "float16"


def run(bench):
    """Check and time every step at two shapes."""
    if not (torch := bench.peer("torch")):
        return
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    for shape in bench.parts(SHAPES):
        measured(bench, torch, *shape)


def measured(bench: Any, torch: Any, rows: int, columns: int, depth: int) -> None:
    """Time the steps of one shape, interleaved with cuBLAS."""
    work, name = 2 * rows * columns * depth, f"{rows}x{columns}x{depth}"
    moved = 2 * (rows * depth + columns * depth + rows * columns)
    sets = max(1, min(halves.MOST_SETS, -(-halves.BEYOND_L2 // moved)))
    generator = torch.Generator(device="cuda").manual_seed(rows)
    a, b, outs = (
        [torch.randn(*shape, device="cuda", generator=generator).half() for _ in range(sets)]
        for shape in ((rows, depth), (columns, depth), (rows, columns))
    )
    exact = a[0].double() @ b[0].double().t()
    programs: dict[str, Callable[[int], Any]] = {
        "cuBLAS": lambda i: torch.mm(a[i], b[i].t(), out=outs[i])
    }
    for step in STEPS:
        programs[step] = partial(launched, step, a, b, outs)
    graphs, calls = {}, max(2, min(40, int(halves.GRAPH / work) + 1))
    for variant, call in programs.items():
        try:
            error = halves.checked(torch, call, exact, outs, halves.LIMITS[DTYPE])
            graphs[variant] = halves.captured(torch, call, calls, sets)
            bench.figure(KERNEL, variant, name, DTYPE, "error", "relative", error)
        except Exception as problem:  # the others are still measured
            bench.fail(f"{variant} {name}", problem)
            continue
        if variant != "cuBLAS":
            kernel = configured(variant, a[0], b[0], outs[0])[0]
            for metric, unit, amount in compiled_facts(kernel):
                bench.figure(KERNEL, variant, name, DTYPE, metric, unit, amount)
    times = halves.interleaved(torch, graphs, calls)
    for variant, its in times.items():
        q1, median, q3 = statistics.quantiles(its, n=4)
        halves.refuse(bench, variant, median, work)
        bench.rows.append(Figure(KERNEL, variant, name, DTYPE, halves.METRIC, "ms", median, q1, q3,
                                 len(its), moved, work))  # fmt: skip
        ratios = [x / y for x, y in zip(times["cuBLAS"], its, strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        if variant != "cuBLAS":
            bench.rows.append(Figure(KERNEL, f"cuBLAS / {variant}", name, DTYPE, "ratio", "ratio",
                                     ratio, low, high, len(ratios)))  # fmt: skip
        bench.say(f"  {name} {variant}: {1e3 * median:.2f} µs, {work / median * 1e-9:.0f} TFLOP/s, "
                  f"cuBLAS / it {ratio:.3f} ({low:.3f}, {high:.3f})")  # fmt: skip
    torch.cuda.empty_cache()


def launched(step: str, a: Any, b: Any, outs: Any, i: int) -> Any:
    """Launch a step on one of the sets of arrays."""
    if step in gemm.ladder:
        return gemm(a[i], b[i], "nt", out=outs[i], method=step)
    kernel, arguments = configured(step, a[i], b[i], outs[i])
    kernel(*arguments)
    return outs[i]


def configured(step: str, a: Any, b: Any, out: Any) -> tuple[Callable, tuple]:
    """The kernel of a step, ready to be called, and its arguments."""
    import torch

    method, _, alone = step.partition(", ")
    arrays = [backend.cuda.as_cuda_array(array, sync=False) for array in (a, b, out)]
    stream = backend.cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    given = *arrays[:2], None, None, arrays[2]
    (its,) = gemm.ladder.launches(*given, layout="nt", method=method)
    if alone:
        (rows, columns), depth = out.shape, a.shape[1]
        config, _ = config_for("nt", rows, columns, depth, multiprocessors(), (1,))
        its = its._replace(grid=ceil_div(rows, config.rows) * ceil_div(columns, config.columns))
    return its.configured(stream), its.arguments
