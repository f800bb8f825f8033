"""Every step of the ladders by the compiler that is chosen: is it right, how long does it take?

    COURSE_COMPILER=mlir python -m tools.successor.ladders [FAMILY ...]

needs a GPU and PyTorch. A line of JSON a step: the largest error, relative to the largest result,
against float64, microseconds (the median of rounds by events), and those of the host a call. Run
for both compilers, one after the other, their lines are compared by

    python -m tools.successor.ladders --compare NUMBA_CUDA.jsonl MLIR.jsonl
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course import backend, successor

CALLS, ROUNDS = 20, 9


def _softmax(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.softmax import softmax

    for kind in (torch.float32, torch.float16):
        x = random(8192, 1024).to(kind)
        for method in softmax.ladder.names:
            yield (
                f"{method}, {x.dtype}", lambda x=x, m=method: softmax(x, method=m),
                lambda x=x: torch.softmax(x.double(), 1),
            )  # fmt: skip


def _norm(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.norm import layer_norm

    for shape in ((65536, 768), (512, 20_000)):
        x, gamma, beta = random(*shape), random(shape[1]), random(shape[1])
        for method in layer_norm.ladder.names:
            yield (
                f"{method}, {shape[1]}",
                lambda x=x, g=gamma, b=beta, m=method: layer_norm(x, g, b, method=m),
                lambda x=x, g=gamma, b=beta: torch.layer_norm(
                    x.double(), x.shape[1:], g.double(), b.double()
                ),
            )


def _reduce(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.reduce import reduction

    x = random(1 << 25)
    for method in reduction.ladder.names:
        yield f"sum, {method}", lambda m=method: reduction(x, method=m), lambda: x.double().sum()


def _activation(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.activation import activation

    for kind in (torch.float32, torch.bfloat16):
        x = random(1 << 25).to(kind)
        for method in activation.ladder.names:
            yield (
                f"gelu, {method}, {x.dtype}", lambda x=x, m=method: activation(x, method=m),
                lambda x=x: torch.nn.functional.gelu(x.double()),
            )  # fmt: skip


def _transpose(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.transpose import transpose

    x = random(8192, 8192)
    for method in transpose.ladder.names:
        yield method, lambda m=method: transpose(x, method=m), lambda: x.T.double()


def _matmul(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.gemm.float32 import matmul

    a, b = random(2048, 2048), random(2048, 2048)
    for method in matmul.ladder.names:
        yield method, lambda m=method: matmul(a, b, method=m), lambda: a.double() @ b.double()


def _gemm(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.gemm.half import gemm

    a, b = (random(4096, 4096).half() for _ in range(2))
    for method in gemm.ladder.names:
        yield (
            method, lambda m=method: gemm(a, b, "nt", method=m), lambda: a.double() @ b.double().T
        )  # fmt: skip


def _attention(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.attention import attention

    qkv = random(16, 197, 3, 12, 64).half()
    q, k, v = (qkv[:, :, part] for part in range(3))

    def exact() -> Any:
        heads = (one.double().transpose(1, 2) for one in (q, k, v))
        found = torch.nn.functional.scaled_dot_product_attention(*heads)
        return found.transpose(1, 2).flatten(2)

    for method in attention.ladder.names:
        yield method, lambda m=method: attention(q, k, v, method=m), exact


def _reconstruct(torch: Any, random: Callable) -> Iterator[tuple[str, Callable, Callable]]:
    from course.kernels.reconstruct import reconstruct

    u, s, vt = random(2048, 512), random(512).abs(), random(512, 2048)
    for method in reconstruct.ladder.names:
        yield (
            method, lambda m=method: reconstruct(u, s, vt, 512, method=m),
            lambda: (u.double() * s.double()) @ vt.double(),
        )  # fmt: skip


FAMILIES = {
    "softmax": _softmax, "norm": _norm, "reduce": _reduce, "activation": _activation,
    "transpose": _transpose, "matmul": _matmul, "gemm": _gemm, "attention": _attention,
    "reconstruct": _reconstruct,
}  # fmt: skip


def measured(torch: Any, call: Callable, exact: Callable) -> dict[str, float]:
    """Error and times of a step."""
    start = time.perf_counter()
    found = call()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    wanted = exact()
    error = (found.double().reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, host = [], []
    for _ in range(ROUNDS):
        begin.record()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        host.append((time.perf_counter() - start) / CALLS)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / CALLS)
    return {
        "error": float(f"{float(error):.3g}"),
        "us": round(1e3 * statistics.median(times), 2),
        "host_us": round(1e6 * min(host), 2),
        "first_s": round(first, 2),
    }


def run(families: list[str]) -> None:
    """Print a line a step; a family whose memory is spoilt ends there."""
    import torch

    generator = torch.Generator("cuda").manual_seed(7)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", generator=generator)

    about = {"compiler": successor.compiler(), "gpu": backend.gpu(), "why": backend.why()}
    print(json.dumps(about), flush=True)
    for family in families:
        for name, call, exact in FAMILIES[family](torch, random):
            line: dict[str, Any] = {"step": f"{family}: {name}"}
            try:
                line |= measured(torch, call, exact)
            except Exception as error:  # a refusal, or the GPU's
                line["refused"] = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps(line), flush=True)
            if "CUDA" in line.get("refused", ""):
                break


def compare(files: list[str]) -> None:
    """Print both compilers' times of each step that both have, and the mean of their ratios."""
    tables = []
    for file in files:
        lines = map(json.loads, Path(file).read_text(encoding="utf-8").splitlines())
        tables.append({line["step"]: line for line in lines if "us" in line})
    ratios: dict[str, list[float]] = {}
    for step in tables[0]:
        old, new = tables[0][step], tables[1].get(step)
        if new is not None:
            ratio = old["us"] / new["us"]
            ratios.setdefault(step.partition(":")[0], []).append(ratio)
            print(
                f"{step:48} {old['us']:9.2f} {new['us']:9.2f} {ratio:6.3f}  errors "
                f"{old['error']:.1e} {new['error']:.1e}  host {old['host_us']} {new['host_us']}"
            )
    for family, found in ratios.items():
        print(f"{family}: {statistics.geometric_mean(found):.3f} of {len(found)} steps")
    if ratios:
        every = [one for found in ratios.values() for one in found]
        print(f"all: {statistics.geometric_mean(every):.3f} of {len(every)} steps")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []])
    parser.add_argument("--compare", nargs=2, metavar="FILE")
    asked = parser.parse_args(arguments)
    if asked.compare:
        compare(asked.compare)
    else:
        run(asked.family or list(FAMILIES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
