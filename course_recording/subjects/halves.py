"""Products of float16 and bfloat16 beside cuBLAS, which also sums in float32.

All is called by the public functions, with PyTorch's arrays, in CUDA graphs of PyTorch: calls
alternate between copies of inputs so that none is found in L2. A fast program heats the chip to its
power limit, so who comes second is slower: replays are interleaved, and a ratio is that of
neighbours in time. Rows
"cuBLAS / ours" are medians and quartiles of these ratios; over 1 is faster than cuBLAS.

Two metrics are of the host's clock. ``called``: with NumPy's arrays, from the call until the result
is there. ``first``: the first product of a process, whose kernels are compiled or kept.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from course.kernels.gemm.half import gemm
from course.measure import event_clock
from course.measure.recorded import Figure
from course.measure.roofline import known_gpu, refuse_impossible
from course.measure.timing import timing_of
from course_recording.frame import WrongResult

TOKENS = 197  # of an image in a vision transformer
LAYERS = ((768, 2304), (768, 768), (768, 3072), (3072, 768))  # its depths and columns
IMAGES = (64, 8, 1)
SQUARES = (4096, 8192)
LIMITS = {"float16": 4e-4, "bfloat16": 4e-3}  # the result's rounding is 2.1e-4, 1.7e-3
BEYOND_L2, MOST_SETS = 150_000_000, 10  # bytes of copies of inputs and outputs
ROUNDS, WARM_UP = 21, 3
GRAPH = 4e12  # operations of a graph, so that one takes milliseconds
METRIC = "time in a graph"
CALLED = (TOKENS * IMAGES[0], *LAYERS[0][::-1])  # rows, columns and depth of what is called once
#: A process of its own that multiplies once, then by cuBLAS; it prints the milliseconds of both.
ALONE = """
import sys, time, torch
from course.kernels.gemm.half import gemm
rows, columns, depth = map(int, sys.argv[1:])
a, b = (torch.ones(n, depth, device="cuda", dtype=torch.half) for n in (rows, columns))
for multiply in (lambda: gemm(a, b, "nt"), lambda: torch.mm(a, b.t())):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    multiply()
    torch.cuda.synchronize()
    print(1e3 * (time.perf_counter() - begun))
"""


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
    first_of_a_process(bench)


def measured(bench: Any, torch: Any, rows: int, columns: int, depth: int, dtype: str, layout: str):
    """Time a product beside cuBLAS's; where it is a layer before GELU, that with its GELU, too."""
    work, kind = 2 * rows * columns * depth, getattr(torch, dtype)
    moved = 2 * (rows * depth + columns * depth + rows * columns)
    sets = max(1, min(MOST_SETS, -(-BEYOND_L2 // moved)))
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
    name, calls = f"{rows}x{columns}x{depth}", max(2, min(40, int(GRAPH / work) + 1))
    graphs = {}
    for variant, (call, expected) in programs.items():
        try:
            graphs[variant] = captured(torch, call, calls, sets)
            error = checked(torch, call, expected, outs, LIMITS[dtype])
            bench.figure(f"product {layout}", variant, name, dtype, "error", "relative", error)
        except Exception as problem:  # the others are still measured
            bench.fail(f"{variant} {name}", problem)
    times = interleaved(torch, graphs, calls)
    for variant, its in times.items():
        q1, median, q3 = statistics.quantiles(its, n=4)
        refuse(bench, variant, median, work)
        bench.rows.append(Figure(f"product {layout}", variant, name, dtype, METRIC, "ms", median,
                                 q1, q3, len(its), moved, work))  # fmt: skip
    pairs = [("cuBLAS", "ours")]
    pairs += [("cuBLAS, then GELU", "ours with GELU")]
    pairs += [("_addmm_activation", "ours with GELU (tanh)")]
    for peer, variant in pairs:
        if peer in times and variant in times:
            ratios = [x / y for x, y in zip(times[peer], times[variant], strict=True)]
            q1, median, q3 = statistics.quantiles(ratios, n=4)
            bench.rows.append(Figure(f"product {layout}", f"{peer} / {variant}", name, dtype,
                                     "ratio", "ratio", median, q1, q3, len(ratios)))  # fmt: skip
            took = 1e3 * statistics.median(times[variant])
            bench.say(f"  {layout} {dtype} {name} {peer} / {variant}: {median:.3f} "
                      f"({q1:.3f}, {q3:.3f}), {took:.2f} µs")  # fmt: skip
    torch.cuda.empty_cache()


def refuse(bench: Any, variant: str, median: float, work: int) -> None:
    """Refuse what is faster than the tensor cores, by the data sheet where there is one.

    Their measured roof is of a chip at its power limit; one that had a pause is a little faster.
    """
    roofs = bench.roofs
    with contextlib.suppress(ValueError):
        roofs = known_gpu(roofs.gpu)
    refuse_impossible(median, None, {"tensor_float16": work}, roofs, what=variant)


def checked(torch: Any, call: Callable, expected: Any, outs: list[Any], limit: float) -> float:
    """The relative error of a first result, written into NaN; WrongResult beyond the limit."""
    outs[0].fill_(float("nan"))
    error = float((call(0).double() - expected).norm() / expected.norm())
    if not error <= limit:
        raise WrongResult(f"the relative Frobenius error is {error:.3g}; {limit:.3g} is allowed")
    return error


def captured(torch: Any, call: Callable[[int], Any], calls: int, sets: int) -> Any:
    """A graph of calls, which alternate between copies of arrays."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(min(2, sets)):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls):
            call(i % sets)
    return graph


def interleaved(torch: Any, graphs: dict[str, Any], calls: int) -> dict[str, list[float]]:
    """Milliseconds of a call, round by round; in each round every graph is replayed once."""
    times: dict[str, list[float]] = {variant: [] for variant in graphs}
    for number in range(ROUNDS + WARM_UP):
        for variant, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number >= WARM_UP:
                times[variant].append(start.elapsed_time(end) / calls)
    return times


def with_numpys_arrays(bench: Any, torch: Any) -> None:
    """Time calls whose arrays and results are on the host: copies are most of them."""
    rows, columns, depth = CALLED
    a, b = (bench.random(n, depth, dtype=np.float16) for n in (rows, columns))
    clock = event_clock.clock()

    def peer() -> None:
        torch.mm(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda().t()).cpu()

    for variant, call in (("ours", lambda: gemm(a, b, "nt")), ("cuBLAS", peer)):
        call()
        timing = timing_of([clock.wall(call) for _ in range(ROUNDS)])
        shape = "x".join(map(str, CALLED))
        bench.row("product nt", variant, shape, "float16", timing, metric="called")


def first_of_a_process(bench: Any) -> None:
    """Time the first product of a process: without and with the kernels that one before kept."""
    shape = "x".join(map(str, CALLED))
    with tempfile.TemporaryDirectory() as folder:
        for kept in ("compiled", "kept"):
            done = subprocess.run(
                [sys.executable, "-c", ALONE, *map(str, CALLED)], capture_output=True, text=True,
                env={**os.environ, "COURSE_CACHE": folder}, check=False,
            )  # fmt: skip
            if done.returncode:
                bench.failures.append(f"a process of its own: {done.stderr[-400:]}")
                return
            ours, peer = map(float, done.stdout.split())
            for variant, took in ((f"ours, {kept}", ours), ("cuBLAS", peer)):
                if variant == "cuBLAS" and kept == "compiled":
                    continue
                bench.figure("product nt", variant, shape, "float16", "first", "ms", took)
                bench.say(f"  the first product of a process, {variant}: {took:.1f} ms")
