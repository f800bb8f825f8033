"""Attention and LayerNorm of 16-bit numbers beside PyTorch's, in CUDA graphs, interleaved.

As in `course_recording.subjects.halves`: inputs have copies, replays are interleaved, and rows
"peer / ours" are the medians and quartiles of ratios of neighbours in time; over 1 is faster than
the peer. Attention takes q, k and v as views of one product. Its peers are the three backends of
PyTorch's scaled_dot_product_attention, with these views and with copies of them in C order; the
ratio is to the fastest. LayerNorm has its ladder and its two sweeps: tokens a block, and numbers a
thread.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course import backend
from course.dispatch.entry import EntryPoint
from course.dispatch.slots import name_of
from course.kernels import norm
from course.kernels.attention import attention
from course.kernels.norm import half
from course.kernels.steps import Launch
from course.measure.recorded import Figure
from course.measure.roofline import refuse_impossible
from course_recording.subjects.halves import (
    BEYOND_L2,
    METRIC,
    MOST_SETS,
    captured,
    checked,
    interleaved,
)

CHARTS = "course_recording.charts.attention"  # beside the file
SHAPES = ((64, 12, 197), (8, 12, 197), (1, 12, 197), (4, 16, 4096))  # batch, heads, tokens
STEPS = (8, 12, 197)  # where all steps are timed
ROWS, WIDTH, EPS = (12_608, 1576, 197), 768, 1e-6
SIZE = 64  # of a head
#: Each weight is rounded once, and so is the result.
LIMITS = {"float16": 6e-4, "bfloat16": 5e-3}


def run(bench):
    """Check and time attention of all shapes, then LayerNorm."""
    if not (torch := bench.peer("torch")):
        return
    for shape in bench.parts(SHAPES):
        for dtype in ("float16", "bfloat16")[: 1 + (shape == SHAPES[0])]:
            of_attention(bench, torch, *shape, dtype)
    for rows in bench.parts(ROWS):
        of_norm(bench, torch, rows)


def of_attention(bench: Any, torch: Any, batch: int, heads: int, tokens: int, dtype: str) -> None:
    """Attention of one shape beside PyTorch's backends."""
    kind, wide = getattr(torch, dtype), heads * SIZE
    moved, work = 2 * 4 * batch * tokens * wide, 4 * batch * heads * tokens * tokens * SIZE
    sets = max(1, min(MOST_SETS, -(-BEYOND_L2 // moved)))
    generator = torch.Generator(device="cuda").manual_seed(tokens + batch)
    qkv = [
        torch.randn(batch, tokens, 3, heads, SIZE, device="cuda", generator=generator).to(kind)
        for _ in range(sets)
    ]
    outs = [torch.empty(batch, tokens, wide, device="cuda", dtype=kind) for _ in range(sets)]
    views = [one.permute(2, 0, 3, 1, 4).unbind(0) for one in qkv]
    copies = [tuple(part.contiguous() for part in three) for three in views]
    exact = torch.empty(batch, tokens, wide, device="cuda", dtype=torch.float64)
    for i in range(batch):
        q, k, v = (part[i].double() for part in views[0])
        its = (q @ k.mT * SIZE**-0.5).softmax(-1) @ v
        exact[i] = its.transpose(0, 1).reshape(tokens, wide)

    def ours(i: int, method: str) -> Any:
        return attention(*qkv[i].unbind(2), out=outs[i], method=method)

    sdpa = importlib.import_module("torch.nn.attention")
    backends = sdpa.SDPBackend
    peers = {
        "FlashAttention": backends.FLASH_ATTENTION, "cuDNN": backends.CUDNN_ATTENTION,
        "efficient": backends.EFFICIENT_ATTENTION,
    }  # fmt: skip

    def theirs(i: int, which: Any, given: list[Any]) -> Any:
        with sdpa.sdpa_kernel([which]):
            return torch.nn.functional.scaled_dot_product_attention(*given[i])

    programs = {
        name + suffix: partial(theirs, which=which, given=given)
        for name, which in peers.items()
        for suffix, given in (("", views), (", in C order", copies))
    }
    steps = (
        ("wgmma", "online", "fused", "scores") if (batch, heads, tokens) == STEPS else ("wgmma",)
    )
    own = {("ours" if n == 0 else step): partial(ours, method=step) for n, step in enumerate(steps)}
    size = f"{batch}x{heads}x{tokens}x{SIZE}"

    def right(variant: str, call: Callable) -> float:
        if variant in own:
            return checked(torch, call, exact, outs, LIMITS[dtype])
        found = call(0).transpose(1, 2).reshape(exact.shape).double()
        return float((found - exact).norm() / exact.norm())

    timed(bench, torch, ("attention", size, dtype), programs | own, right, list(peers), sets, moved,
          {"tensor_float16": work})  # fmt: skip


def of_norm(bench: Any, torch: Any, rows: int) -> None:
    """LayerNorm of 768 columns: ladder and sweeps beside PyTorch's."""
    moved = 2 * 2 * rows * WIDTH
    sets = max(2, min(MOST_SETS, -(-BEYOND_L2 // moved)))
    x = [torch.randn(rows, WIDTH, device="cuda").half() for _ in range(sets)]
    outs = [torch.empty_like(one) for one in x]
    gamma, beta = (torch.randn(WIDTH, device="cuda").half() for _ in range(2))
    exact = torch.nn.functional.layer_norm(
        x[0].double(), (WIDTH,), gamma.double(), beta.double(), EPS
    )
    layer_norm = torch.nn.functional.layer_norm
    programs: dict[str, Callable] = {
        "PyTorch": lambda i: layer_norm(x[i], (WIDTH,), gamma, beta, EPS),
        "ours": lambda i: norm.layer_norm(x[i], gamma, beta, EPS, outs[i]),
    }
    makes = {name: made for name, made in half.STEPS.items() if name != "wide"}
    if rows == ROWS[0]:
        for tokens, shape in half.tokens_sweep(WIDTH).items():
            makes[f"{tokens} tokens a block"] = partial(half.in_registers, shape)
        for elements, shape in half.elements_sweep(WIDTH).items():
            makes[f"{elements} numbers a thread"] = partial(half.in_registers, shape)
    own = {"ours"}
    for name, made in makes.items():
        step = entry_of(made)
        programs[name] = lambda i, step=step: step.call((x[i], gamma, beta), (), outs[i])
        own.add(name)

    def right(variant: str, call: Callable) -> float:
        if variant in own:
            return checked(torch, call, exact, outs, LIMITS["float16"])
        return float((call(0).double() - exact).norm() / exact.norm())

    timed(bench, torch, ("layer norm in halves", f"{rows}x{WIDTH}", "float16"), programs, right,
          ["PyTorch"], sets, moved, {})  # fmt: skip


def entry_of(made: Callable) -> EntryPoint:
    """The entry point of a step of the ladder of 16-bit rows, or of a config of a sweep."""

    def launches(x: Any, gamma: Any, beta: Any, out: Any) -> list[Launch]:
        kernel, blocks, threads, _ = made(*x.shape, norm.Variant(name_of(out.dtype)))
        return [Launch(kernel, blocks, threads, (x, gamma, beta, np.float32(EPS), out))]

    return EntryPoint("step", ("x", "gamma", "beta"), lambda x, *_: (x.shape, x.dtype), launches)


def timed(
    bench: Any, torch: Any, what: tuple[str, str, str], programs: dict[str, Callable],
    right: Callable, peers: list[str], sets: int, moved: int, operations: dict[str, int],
) -> None:  # fmt: skip
    """Capture programs in graphs, interleave replays, keep times, errors and ratios."""
    kernel, size, dtype = what
    amount = sum(operations.values())
    calls = max(2, min(40, int(2e10 / (moved + amount / 100)) + 1))
    graphs = {}
    for variant, call in programs.items():
        try:
            error = right(variant, call)
            graphs[variant] = captured(torch, call, calls, sets)
            bench.figure(kernel, variant, size, dtype, "error", "relative", error)
        except Exception as problem:  # the others are still measured
            words = f"{variant} {size}: {backend.one_line(problem, 300)}"
            (bench.failures if variant.split(",")[0] not in peers else bench.notes).append(words)
            bench.say(f"  {words}")
    times = interleaved(torch, graphs, calls)
    for variant, its in times.items():
        q1, median, q3 = statistics.quantiles(its, n=4)
        refuse_impossible(median, None, operations or None, bench.roofs, what=variant)
        bench.rows.append(Figure(kernel, variant, size, dtype, METRIC, "ms", median, q1, q3,
                                 len(its), moved, amount or None))  # fmt: skip
        bench.say(f"  {kernel} {dtype} {size} {variant}: {1e3 * median:.2f} µs")
    there = [variant for variant in times if variant.split(",")[0] in peers]
    if not there or "ours" not in times:
        return
    best = min(there, key=lambda variant: statistics.median(times[variant]))
    ratios = [x / y for x, y in zip(times[best], times["ours"], strict=True)]
    q1, median, q3 = statistics.quantiles(ratios, n=4)
    ratio = kernel, f"{best} / ours", size, dtype, "ratio", "ratio"
    bench.rows.append(Figure(*ratio, median, q1, q3, len(ratios)))
    bench.say(f"  {kernel} {dtype} {size} {best} / ours: {median:.3f} ({q1:.3f}, {q3:.3f})")
    torch.cuda.empty_cache()
