"""The ladder of products of float16, a row for each step, beside cuBLAS in float16.

All run in CUDA graphs of PyTorch, interleaved, as `course_recording.interleaved` says.
"roles, a tile a block" is the kernel of "roles" with as many blocks as tiles: not persistent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from course import backend
from course.heuristics.gemm import config_for
from course.kernels.gemm.half import gemm
from course.kernels.steps import ceil_div, multiprocessors
from course_recording.frame import compiled_facts
from course_recording.interleaved import keep_ratio, poisoned, printed_roofs, sets_of, timed
from course_recording.subjects import halves

#: 4096 cubed, and the qkv layer of a vision transformer's block for 64 images.
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
    sets = sets_of(moved)
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

    def right(step: str, call: Callable) -> float:
        return poisoned(call, exact, outs, halves.LIMITS[DTYPE])

    key = KERNEL, name, DTYPE
    times = timed(
        bench, torch, key, programs, right, halves.calls_of(work), sets, moved, work,
        printed_roofs(bench),
    )  # fmt: skip
    for step in STEPS:
        keep_ratio(bench, key, times, "cuBLAS", step)
        if step in times:
            kernel, _ = configured(step, a[0], b[0], outs[0])
            for metric, unit, amount in compiled_facts(kernel):
                bench.figure(KERNEL, step, name, DTYPE, metric, unit, amount)
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
