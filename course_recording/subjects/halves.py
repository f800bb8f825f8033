"""Products of float16 and bfloat16 beside cuBLAS, which also sums in float32.

All products are called by public functions with PyTorch's arrays, `course_recording.interleaved`: a
fast program heats the chip to its power limit, which slows the program after it.

Two metrics are of the host's clock. ``called``: with NumPy's arrays, from the call until the result
is there. ``first``: a process's first product; our kernels are compiled anew, or kept from before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from course.kernels.gemm.half import gemm
from course.measure import event_clock
from course.measure.timing import timing_of
from course_recording.first_calls import keep, print_two
from course_recording.interleaved import keep_ratio, poisoned, printed_roofs, sets_of, timed

TOKENS = 197  # of an image in a vision transformer
LAYERS = ((768, 2304), (768, 768), (768, 3072), (3072, 768))  # depth and columns of each layer
IMAGES = (64, 8, 1)
SQUARES = (4096, 8192)
LIMITS = {"float16": 4e-4, "bfloat16": 4e-3}  # the result's rounding is 2.1e-4, 1.7e-3
GRAPH = 4e12  # operations in a graph, so that a replay takes milliseconds
CALLS = 21  # with NumPy's arrays
CALLED = (TOKENS * IMAGES[0], *LAYERS[0][::-1])  # rows, columns, depth with NumPy's arrays


def run(bench):
    """Check and time products of all shapes."""
    if not (torch := bench.peer("torch")):
        return
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    shapes = [(n, n, n) for n in SQUARES]
    shapes += [(TOKENS * images, n, k) for images in IMAGES for k, n in LAYERS]
    for shape in bench.parts(shapes):
        measured(bench, torch, *shape, "float16", "nt")
    for dtype, layout in (("bfloat16", "nt"), ("float16", "nn"), ("float16", "tn")):
        measured(bench, torch, 4096, 4096, 4096, dtype, layout)
    with_numpys_arrays(bench, torch)
    for who in ("ours", "cuBLAS"):
        keep(bench, __name__, ("product nt", "x".join(map(str, CALLED)), "float16"), who,
             compiles=who == "ours")  # fmt: skip


def calls_of(work: int) -> int:
    """How many calls a graph has, if each does so many operations."""
    return max(2, min(40, int(GRAPH / work) + 1))


def measured(bench: Any, torch: Any, rows: int, columns: int, depth: int, dtype: str, layout: str):
    """Time a product beside cuBLAS's; a layer that GELU follows is timed with GELU, too."""
    work, kind = 2 * rows * columns * depth, getattr(torch, dtype)
    moved = 2 * (rows * depth + columns * depth + rows * columns)
    sets = sets_of(moved)
    generator = torch.Generator(device="cuda").manual_seed(rows + columns + depth)

    def some(*shape: int) -> list[Any]:
        random = (torch.randn(*shape, device="cuda", generator=generator) for _ in range(sets))
        return [numbers.to(kind) for numbers in random]

    a = some(*((depth, rows) if layout == "tn" else (rows, depth)))
    b = some(*((columns, depth) if layout == "nt" else (depth, columns)))
    (bias, *_), outs = some(columns), some(rows, columns)
    left = [one.t() if layout == "tn" else one for one in a]
    right = [one.t() if layout == "nt" else one for one in b]
    exact = left[0].double() @ right[0].double()
    programs: dict[str, tuple[Callable[[int], Any], Any]] = {
        "cuBLAS": (lambda i: torch.mm(left[i], right[i], out=outs[i]), exact),
        "ours": (lambda i: gemm(a[i], b[i], layout, out=outs[i]), exact),
    }
    if (columns, layout) == (4 * 768, "nt"):
        gelu = torch.nn.functional.gelu
        exact, tanh = gelu(exact + bias), gelu(exact + bias, approximate="tanh")

        def fused(name: str) -> Callable[[int], Any]:
            return lambda i: gemm(a[i], b[i], layout, bias, name, out=outs[i])

        programs |= {
            "cuBLAS, then GELU": (lambda i: gelu(torch.addmm(bias, left[i], right[i])), exact),
            "_addmm_activation": (
                lambda i: torch._addmm_activation(bias, left[i], right[i], use_gelu=True), tanh,
            ),
            "ours with GELU": (fused("gelu"), exact),
            "ours with GELU (tanh)": (fused("gelu tanh"), tanh),
        }  # fmt: skip
    key = f"product {layout}", f"{rows}x{columns}x{depth}", dtype

    def error_of(variant: str, call: Callable) -> float:
        return poisoned(call, programs[variant][1], outs, LIMITS[dtype])

    times = timed(
        bench, torch, key, {variant: call for variant, (call, _) in programs.items()}, error_of,
        calls_of(work), sets, moved, work, printed_roofs(bench),
    )  # fmt: skip
    keep_ratio(bench, key, times, "cuBLAS")
    keep_ratio(bench, key, times, "cuBLAS, then GELU", "ours with GELU")
    keep_ratio(bench, key, times, "_addmm_activation", "ours with GELU (tanh)")
    torch.cuda.empty_cache()


def with_numpys_arrays(bench: Any, torch: Any) -> None:
    """Time calls whose arrays and results are on the host: copies take most of the time."""
    rows, columns, depth = CALLED
    a, b = (bench.random(n, depth, dtype=np.float16) for n in (rows, columns))
    clock = event_clock.clock()

    def peer() -> None:
        torch.mm(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda().t()).cpu()

    for variant, call in (("ours", lambda: gemm(a, b, "nt")), ("cuBLAS", peer)):
        call()
        timing = timing_of([clock.wall(call) for _ in range(CALLS)])
        shape = "x".join(map(str, CALLED))
        bench.row("product nt", variant, shape, "float16", timing, metric="called")


def main() -> None:
    """Print what the first product of a process takes, and the next: "ours" or "cuBLAS"."""
    import torch

    rows, columns, depth = CALLED
    a, b = (torch.ones(n, depth, device="cuda", dtype=torch.half) for n in (rows, columns))
    ways = {"ours": lambda: gemm(a, b, "nt"), "cuBLAS": lambda: torch.mm(a, b.t())}
    print_two(ways[sys.argv[1]], torch.cuda.synchronize)


if __name__ == "__main__":
    main()
