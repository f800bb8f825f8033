"""Attention and LayerNorm in 16 bits beside PyTorch's, in CUDA graphs, interleaved.

How is in `course_recording.interleaved`. Attention takes q, k and v as views of one product. Its
peers are the three backends of PyTorch's scaled_dot_product_attention, with these views and with
copies of them in C order; the ratio is to the fastest.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from course.kernels import norm
from course.kernels.attention import attention
from course_recording.interleaved import Call, Key, keep_ratio, poisoned, relative, sets_of, timed

CHARTS = "course_recording.charts.attention"  # beside the file
SHAPES = ((64, 12, 197), (8, 12, 197), (1, 12, 197), (4, 16, 4096))  # batch, heads, tokens
STEPS = (8, 12, 197)  # the shape for which all steps are timed
ROWS, WIDTH, EPS = (12_608, 1576, 197), 768, 1e-6
SIZE = 64  # of a head
#: Largest relative errors: each weight of the softmax is rounded once, and so is the result.
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
    sets = sets_of(moved)
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
            return poisoned(call, exact, outs, LIMITS[dtype])
        return relative(call(0).transpose(1, 2).reshape(exact.shape), exact, math.inf)

    keep(bench, torch, ("attention", size, dtype), programs | own, right, list(peers), sets, moved,
         work)  # fmt: skip


def of_norm(bench: Any, torch: Any, rows: int) -> None:
    """LayerNorm of 768 columns beside PyTorch's."""
    moved = 2 * 2 * rows * WIDTH
    sets = max(2, sets_of(moved))
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

    def right(variant: str, call: Callable) -> float:
        if variant == "ours":
            return poisoned(call, exact, outs, LIMITS["float16"])
        return relative(call(0), exact, math.inf)

    keep(bench, torch, ("layer norm in halves", f"{rows}x{WIDTH}", "float16"), programs, right,
         ["PyTorch"], sets, moved, None)  # fmt: skip


def keep(
    bench: Any, torch: Any, key: Key, programs: dict[str, Call], right: Callable, peers: list[str],
    sets: int, moved: int, work: int | None,
) -> None:  # fmt: skip
    """Keep times and errors, and the ratio to the fastest of the peers."""
    calls = max(2, min(40, int(2e10 / (moved + (work or 0) / 100)) + 1))
    theirs = [name for name in programs if name.split(",")[0] in peers]
    times = timed(bench, torch, key, programs, right, calls, sets, moved, work, may_fail=theirs)
    there = [name for name in theirs if name in times]
    if there:
        best = min(there, key=lambda name: statistics.median(times[name]))
        keep_ratio(bench, key, times, best)
    torch.cuda.empty_cache()
