"""The steps of the ladders by both compilers in turns: are they right, how long do they take?

    python -m tools.successor.times FILE [FAMILY ...] [--processes 14] [--seconds 150]

writes ``<gpu>-successor.csv``. It needs a GPU, PyTorch, numba-cuda and numba-cuda-mlir. A process
has one compiler, so two are measured in turns; before, several compile every step and compare its
result with float64. A process in which something fails, or that is silent, ends, and others go on.
A step's time is the GPU's for calls on end, the host's that of calls which only queue.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import itertools
import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from course.files import write_whole

COMPILERS = ("numba-cuda", "mlir")
ROUNDS, CALLS, LONG = 7, 20, 4e-3  # calls on end are at most so many seconds, or one
SILENT = 100  # seconds until a process is given up
COLUMNS = (
    "family", "what", "step", "numba_error", "successor_error", "same_bits", "numba_us",
    "successor_us", "ratio", "numba_host_us", "successor_host_us",
)  # fmt: skip


class Problem(NamedTuple):
    """What a function of the course is given, and its result in float64."""

    call: Callable
    given: tuple
    exact: Callable[[], Any]


# --- families: shapes of the recorded benches -----------------------------------------------------


def _softmax(torch: Any, random: Callable, kind: str) -> Problem:
    from course.kernels.softmax import softmax

    x = random(16_384, 4096, kind=kind)
    return Problem(softmax, (x,), lambda: torch.softmax(x.double(), 1))


def _softmax_backward(torch: Any, random: Callable, kind: str) -> Problem:
    from course.kernels.softmax.backward import softmax_backward

    dy, y = random(16_384, 4096), torch.softmax(random(16_384, 4096), 1)
    return Problem(
        softmax_backward, (dy, y),
        lambda: y.double() * (dy.double() - (dy.double() * y.double()).sum(1, keepdim=True)),
    )  # fmt: skip


def _norm(torch: Any, random: Callable, rows: int, columns: int) -> Problem:
    from course.kernels.norm import layer_norm

    x, gamma, beta = random(rows, columns), random(columns), random(columns)
    return Problem(
        layer_norm, (x, gamma, beta),
        lambda: torch.layer_norm(x.double(), [columns], gamma.double(), beta.double()),
    )  # fmt: skip


def _norm_backward(torch: Any, random: Callable, rows: int, columns: int) -> Problem:
    from course.kernels.norm.backward import layer_norm_backward

    dy, x, gamma = random(rows, columns), random(rows, columns), random(columns)

    def exact() -> Any:
        its = x.double().requires_grad_()
        torch.layer_norm(its, [columns], gamma.double(), None).backward(dy.double())
        return its.grad

    return Problem(layer_norm_backward, (dy, x, gamma), exact)


def _reduce(torch: Any, random: Callable, size: int) -> Problem:
    from course.kernels.reduce import reduction

    x = random(size).abs()
    return Problem(reduction, (x,), lambda: x.double().sum())


def _activation(torch: Any, random: Callable, kind: str) -> Problem:
    from course.kernels.activation import activation

    x = random(1 << 26, kind=kind)
    return Problem(activation, (x,), lambda: torch.nn.functional.gelu(x.double()))


def _gradient(torch: Any, random: Callable, kind: str) -> Problem:
    from course.kernels.activation import activation_gradient

    grad, x = random(1 << 26, kind=kind), random(1 << 26, kind=kind)
    return Problem(
        activation_gradient, (grad, x),
        lambda: torch.ops.aten.gelu_backward(grad.double(), x.double()),
    )  # fmt: skip


def _transpose(torch: Any, random: Callable, rows: int, columns: int) -> Problem:
    from course.kernels.transpose import transpose

    x = random(rows, columns)
    return Problem(transpose, (x,), lambda: x.T.double())


def _matmul(torch: Any, random: Callable, side: int) -> Problem:
    from course.kernels.gemm.float32 import matmul

    a, b = random(side, side), random(side, side)
    return Problem(matmul, (a, b), lambda: a.double() @ b.double())


def _gemm(torch: Any, random: Callable, rows: int, columns: int, depth: int) -> Problem:
    from course.kernels.gemm.half import gemm

    a, b = random(rows, depth, kind="float16"), random(columns, depth, kind="float16")
    return Problem(gemm, (a, b, "nt"), lambda: a.double() @ b.double().T)


def _attention(torch: Any, random: Callable, batch: int, heads: int, tokens: int) -> Problem:
    from course.kernels.attention import attention

    qkv = random(batch, tokens, 3, heads, 64, kind="float16")
    q, k, v = (qkv[:, :, part] for part in range(3))

    def exact() -> Any:
        of = (one.double().transpose(1, 2) for one in (q, k, v))
        found = torch.nn.functional.scaled_dot_product_attention(*of)
        return found.transpose(1, 2).flatten(2)

    return Problem(attention, (q, k, v), exact)


def _reconstruct(torch: Any, random: Callable, side: int, k: int) -> Problem:
    from course.kernels.reconstruct import reconstruct

    u, s, vt = random(side, k), random(k).abs(), random(k, side)
    return Problem(reconstruct, (u, s, vt, k), lambda: (u.double() * s.double()) @ vt.double())


def _svd(torch: Any, random: Callable, batch: int, side: int) -> Problem:
    from course.kernels.svd import svd

    a = random(batch, side, side)

    def values(a: Any, **more: Any) -> Any:
        return svd(a, **more)[1]

    values.ladder = svd.ladder
    return Problem(values, (a,), lambda: torch.linalg.svdvals(a.double()))


def _loss(torch: Any, random: Callable, name: str) -> Problem:
    from course_models.training.losses import loss

    x, y = random(1 << 24), random(1 << 24).sigmoid()
    exact = {
        "bce": lambda x, y: torch.nn.functional.softplus(x) - x * y,
        "kl": lambda x, y: (x * x + y.exp() - 1 - y) / 2,
    }[name]

    def named_last(x: Any, y: Any, **more: Any) -> Any:
        return loss(name, x, y, **more)

    named_last.ladder = loss.ladder
    return Problem(named_last, (x, y), lambda: exact(x.double(), y.double()).sum())


def _layer(torch: Any, random: Callable, name: str) -> Problem:
    """What networks launch: a ladder without a function."""
    from course.kernels.gemm import gemv
    from course_lessons.lesson13.digits import convolution
    from course_models.training import adam

    if name == "convolution":
        ladder, shape = convolution.LADDER, (16, 8, 3, 3)
        given = random(512, 8, 32, 32), random(*shape), random(16)
        shapes, options = [(512, 16, 16, 16)], {"activation": None}
    elif name == "linear":
        ladder, given = gemv.LADDER, (random(2048, 784), random(2048, 784), random(2048))
        shapes, options = [(2048, 2048)], {"activation": None}
    else:
        size = 1 << 24
        ladder, options, shapes = adam.LADDER, {}, [(size,)] * 3
        factors = torch.from_numpy(adam.corrections(3, 1e-3)).cuda()
        given = *(random(size) for _ in range(3)), random(size).square(), factors

    def exact() -> Any:
        x, *more = (one.double() for one in given)
        if name == "convolution":
            return torch.nn.functional.max_pool2d(torch.conv2d(x, *more, padding=1), 2)
        if name == "linear":
            return torch.nn.functional.linear(x, *more)
        grad, first, second, (size, of_square) = more
        first, second = 0.9 * first + 0.1 * grad, 0.999 * second + 0.001 * grad * grad
        return x - size * first / ((second * of_square).sqrt() + 1e-8)

    @functools.cache
    def launches(method: str) -> tuple[list, Any]:
        from course.backend import cuda
        from course.kernels.steps import configured

        results = [torch.empty(shape, device="cuda") for shape in shapes]
        there = [cuda.as_cuda_array(one) for one in (*given, *results)]
        return configured(ladder.launches(*there, method=method, **options)), results[0]

    def call(*_: Any, method: str) -> Any:
        made, found = launches(method)
        for kernel, arguments in made:
            kernel(*arguments)
        return found

    call.ladder = ladder
    return Problem(call, given, exact)


FAMILIES: dict[str, tuple[Callable, tuple]] = {
    "softmax": (_softmax, (("float32",), ("float16",))),
    "softmax backward": (_softmax_backward, (("float32",),)),
    "norm": (_norm, ((65_536, 768), (16_384, 4096))),
    "norm backward": (_norm_backward, ((65_536, 768), (16_384, 4096))),
    "reduce": (_reduce, ((1 << 26,),)),
    "activation": (_activation, (("float32",), ("float16",))),
    "activation gradient": (_gradient, (("float32",),)),
    "transpose": (_transpose, ((8192, 8192), (4099, 8191))),
    "matmul": (_matmul, ((2048,),)),
    "gemm": (_gemm, ((4096, 4096, 4096), (12_608, 2304, 768))),
    "attention": (_attention, ((64, 12, 197),)),
    "reconstruct": (_reconstruct, ((4096, 1024),)),
    "svd": (_svd, ((64, 64), (64, 256))),
    "loss": (_loss, (("bce",), ("kl",))),
    "layers": (_layer, (("convolution",), ("linear",), ("adam",))),
}


# --- a process with a compiler --------------------------------------------------------------------


@functools.lru_cache(1)
def problem(family: str, place: int) -> Problem:
    """A family's problem, with numbers of one seed."""
    import torch

    make, shapes = FAMILIES[family]
    generator = torch.Generator("cuda").manual_seed(7)

    def random(*shape: int, kind: str = "float32") -> Any:
        made = torch.randn(shape, device="cuda", generator=generator)
        return made.to(getattr(torch, kind))

    torch.cuda.empty_cache()
    return make(torch, random, *shapes[place])


def called(family: str, place: int, method: str) -> Callable[[], Any]:
    """A step's call."""
    call, given, _ = problem(family, place)
    return lambda: call(*given, method=method)


def steps(family: str, place: int) -> list[str]:
    """The names of the steps."""
    return [name for name in problem(family, place).call.ladder.names if name != "auto"]


def checked(family: str, place: int, method: str) -> dict[str, Any]:
    """The largest error, of the largest result, and what tells the result from others."""
    import torch

    start = time.perf_counter()
    found = called(family, place, method)()
    found = torch.as_tensor(found[0] if isinstance(found, tuple) else found, device="cuda")
    torch.cuda.synchronize()
    seconds, wanted = time.perf_counter() - start, problem(family, place).exact()
    error = (found.double().reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()
    torch.cuda.empty_cache()
    digest = hashlib.sha256(found.reshape(-1).view(torch.uint8).cpu().numpy()).hexdigest()
    return {"error": float(error), "digest": digest, "seconds": seconds}


def timed(family: str, place: int, method: str) -> tuple[float, float]:
    """Microseconds of a call on the GPU, and of the host."""
    import torch

    call = called(family, place, method)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(calls: int) -> tuple[float, float]:
        torch.cuda.synchronize()
        begin.record()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        host = time.perf_counter() - start
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end) / calls, 1e6 * host / calls

    once = min(run(1)[0], run(1)[0])
    return run(max(1, min(CALLS, int(1e6 * LONG / once))))


def about() -> dict[str, str]:
    """What the figures may depend on."""
    from course import backend, successor
    from course_recording.profiling.hardware_counters import versions

    if backend.gpu() is None:
        raise RuntimeError(backend.why())
    import torch

    found = versions(backend.gpu(), backend.cuda) | {"torch": torch.__version__}
    package = successor.compiler()
    return found | {package: backend.installed_version(package) or "", "command": __spec__.name}


def serve() -> None:
    """Answer questions, a line of JSON each, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        what, *given = json.loads(line)
        try:
            found: Any = {"answer": globals()[what](*given)}
        except Exception as error:  # the GPU's, a compiler's, or a step's refusal
            found = {"refused": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), file=answers, flush=True)


class Process:
    """A process with a compiler, started when it is asked, and anew after a failure."""

    def __init__(self, compiler: str):
        self.compiler, self.running = compiler, None

    def ask(self, *question: Any) -> tuple[Any, str]:
        """The answer, and what was refused."""
        if self.running is None:
            self.running = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, "--serve"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True,
                env=os.environ | {"COURSE_COMPILER": self.compiler},
            )  # fmt: skip
        print(json.dumps(question), file=self.running.stdin, flush=True)
        ready, *_ = select.select([self.running.stdout], [], [], SILENT)
        line = self.running.stdout.readline() if ready else ""
        found = json.loads(line or '{"refused": "it is silent, or has died"}')
        if "refused" in found and "the method" not in found["refused"]:
            self.end()
        return found.get("answer"), found.get("refused", "")

    def end(self) -> None:
        """End it."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
        self.running = None


# --- all of them ----------------------------------------------------------------------------------


def run(file: Path, families: list[str], processes: int, seconds: float) -> int:
    """Check and time; write the table after each step. Returns how many steps failed."""
    until = time.monotonic() + seconds
    two = [Process(compiler) for compiler in COMPILERS]
    facts: dict[str, str] = {}
    for one in two:
        its, refused = one.ask("about")
        if refused:
            print(f"{one.compiler}: {refused}", file=sys.stderr)
            return 1
        facts = {**(its or {}), **facts}
    facts |= {"date": datetime.date.today().isoformat()}
    facts["times"] = f"medians of {ROUNDS} rounds of up to {CALLS} calls, in turns, warm caches"
    places = [(one, place) for one in families for place in range(len(FAMILIES[one][1]))]
    todo = [(*one, step) for one in places for step in two[0].ask("steps", *one)[0]]
    idle = [[Process(compiler) for compiler in COMPILERS] for _ in range(processes)]

    def check(which: tuple) -> list[tuple[Any, str]]:
        mine = idle.pop()
        try:
            return [one.ask("checked", *which) for one in mine]
        finally:
            idle.append(mine)

    right, failed, rows, ratios = {}, 0, [], {}
    with ThreadPoolExecutor(processes) as pool:
        for which, found in zip(todo, pool.map(check, todo), strict=True):
            right[which] = [its for its, _ in found]
            for compiler, (its, refused) in zip(COMPILERS, found, strict=True):
                if its is None:
                    failed += "the method" not in refused
                    print("refused:", *which, compiler, refused, flush=True)
    for one in itertools.chain(*idle):
        one.end()
    for which in todo:
        both = right[which]
        if None in both or time.monotonic() > until:
            continue
        times: list[list] = [[], []]
        with contextlib.suppress(TypeError):  # refused now
            for _ in range(ROUNDS):
                for one, its in zip(two, times, strict=True):
                    its.append(tuple(one.ask("timed", *which)[0]))
        if len(times[1]) < ROUNDS:
            failed += 1
            print("not timed:", *which, flush=True)
            continue
        (old, host), (new, its_host) = (
            (statistics.median(t for t, _ in one), min(h for _, h in one)) for one in times
        )
        family, place, step = which
        ratios.setdefault(family, []).append(old / new)
        row = [family, " x ".join(map(str, FAMILIES[family][1][place])), step]
        row += [f"{one['error']:.1e}" for one in both]
        row += ["yes" if both[0]["digest"] == both[1]["digest"] else "no"]
        row += [f"{old:.2f}", f"{new:.2f}", f"{old / new:.3f}", f"{host:.1f}", f"{its_host:.1f}"]
        rows.append(",".join(row))
        print(rows[-1], f"{both[0]['seconds']:.1f} {both[1]['seconds']:.1f} s", flush=True)
        head = [f"# {key}={value}" for key, value in facts.items()]
        write_whole(file, "\n".join([*head, ",".join(COLUMNS), *rows, ""]).encode())
    for one in two:
        one.end()
    for family, its in (*ratios.items(), ("all", [r for one in ratios.values() for r in one])):
        print(f"{family}: {statistics.geometric_mean(its or [1]):.3f} of {len(its)} steps")
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", help="the table to write")
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seconds", type=float, default=3600, help="time nothing after so many")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.serve:
        serve()
        return 0
    if asked.file is None:
        parser.error("which file shall be written?")
    return 1 if run(asked.file, asked.family or [*FAMILIES], asked.processes, asked.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
