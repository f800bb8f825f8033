"""Every step of the ladders by both compilers, alternately on one GPU: ``<gpu>-successor.csv``.

    python -m tools.successor.times FILE [FAMILY ...] [--processes 14] [--seconds 150]

needs a GPU, PyTorch, numba-cuda and numba-cuda-mlir. A process has one compiler, so two are timed
alternately; before, several compile every step, and what both compute is compared. (That it is
right is asked by ``COURSE_COMPILER=mlir pytest tests/course/kernels``.) A process in which
something fails, or that is silent, ends, and others go on. A step's time is the GPU's of calls on
end, the host's that of calls which only queue.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import importlib
import importlib.metadata
import itertools
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from course.files import write_whole

COMPILERS = ("numba-cuda", "mlir")
ROUNDS, CALLS, LONG = 7, 20, 4e-3  # calls on end are at most so many seconds, or one
SILENT = 100  # seconds until a process is given up
SAMPLE = 4096  # results that are compared where not all bits are the same
COLUMNS = (
    "family", "what", "step", "difference", "numba_us", "successor_us", "ratio", "numba_host_us",
    "successor_host_us",
)  # fmt: skip

HALF, LAYER = "float16", {"activation": None}
_ROWS, _MANY, _MORE = ((65536, 768), (16384, 4096)), (1 << 26,), (1 << 24,)
_IMAGES = ((512, 8, 32, 32), (16, 8, 3, 3), (16,), (512, 16, 16, 16), LAYER)
_LAYERS = ((2048, 784), (2048, 784), (2048,), (2048, 2048), LAYER)
#: Functions with a ladder, or ladders, and what they are given: shapes of arrays of float32, or of
#: the type that they end with; others as they are. A ladder's last array is a result.
FAMILIES: dict[str, tuple[str, list[tuple]]] = {
    "softmax": ("course.kernels.softmax:softmax", [((16384, 4096),), ((16384, 4096, HALF),)]),
    "softmax backward": ("course.kernels.softmax.backward:softmax_backward", [(_ROWS[1],) * 2]),
    "norm": ("course.kernels.norm:layer_norm", [((n, m), (m,), (m,)) for n, m in _ROWS]),
    "norm backward": (
        "course.kernels.norm.backward:layer_norm_backward",
        [((n, m), (n, m), (m,)) for n, m in _ROWS],
    ),
    "reduce": ("course.kernels.reduce:reduction", [(_MANY,)]),
    "activation": ("course.kernels.activation:activation", [(_MANY,), ((*_MANY, HALF),)]),
    "activation gradient": ("course.kernels.activation:activation_gradient", [(_MANY,) * 2]),
    "transpose": ("course.kernels.transpose:transpose", [((8192, 8192),), ((4099, 8191),)]),
    "matmul": ("course.kernels.gemm.float32:matmul", [((2048, 2048),) * 2]),
    "gemm": (
        "course.kernels.gemm.half:gemm",
        [((m, k, HALF), (n, k, HALF), "nt") for m, n, k in ((4096,) * 3, (12608, 2304, 768))],
    ),
    "attention": ("course.kernels.attention:attention", [((64, 197, 12, 64, HALF),) * 3]),
    "reconstruct": (
        "course.kernels.reconstruct:reconstruct", [((4096, 1024), (1024,), (1024, 4096), 1024)]
    ),
    "loss": ("course_models.training.losses:loss", [("bce", _MORE, _MORE), ("kl", _MORE, _MORE)]),
    "adam": ("course_models.training.adam:LADDER", [(*(_MORE,) * 4, (2,), *(_MORE,) * 3)]),
    "linear": ("course.kernels.gemm.gemv:LADDER", [_LAYERS]),
    "convolution": ("course_lessons.lesson13.digits.convolution:LADDER", [_IMAGES]),
    "svd": ("course.kernels.svd:svd", [((64, 64, 64),), ((64, 256, 256),)]),
}  # fmt: skip


# --- a process with a compiler --------------------------------------------------------------------


@functools.lru_cache(1)
def problem(family: str, place: int) -> tuple[Any, Callable[[str], Callable[[], Any]]]:
    """A ladder, and what gives the call of one of its steps."""
    import torch

    path, problems = FAMILIES[family]
    module, _, name = path.partition(":")
    function = getattr(importlib.import_module(module), name)
    generator = torch.Generator("cuda").manual_seed(7)
    torch.cuda.empty_cache()

    def made(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        sizes = [size for size in one if isinstance(size, int)]
        kind = torch.float16 if HALF in one else torch.float32
        return torch.rand(sizes, device="cuda", generator=generator).to(kind)

    given = [made(one) for one in problems[place]]
    options = given.pop() if isinstance(given[-1], dict) else {}
    if hasattr(function, "ladder"):
        return function.ladder, lambda step: lambda: function(*given, method=step)

    def launched(step: str) -> Callable[[], Any]:
        from course.backend import cuda
        from course.kernels.steps import configured

        there = [cuda.as_cuda_array(one) for one in given]
        launches = configured(function.launches(*there, method=step, **options))

        def call() -> Any:
            for kernel, arguments in launches:
                kernel(*arguments)
            return given[-1]

        return call

    return function, launched


@functools.lru_cache(1)
def called(family: str, place: int, step: str) -> Callable[[], Any]:
    """A step's call."""
    return problem(family, place)[1](step)


def steps(family: str, place: int) -> list[str]:
    """The names of the steps."""
    return [name for name in problem(family, place)[0].names if name != "auto"]


def computed(family: str, place: int, step: str) -> dict[str, Any]:
    """What tells a step's result from others, some of it, and the first call's seconds."""
    import torch

    start = time.perf_counter()
    found = called(family, place, step)()
    found = torch.as_tensor(found[1] if isinstance(found, tuple) else found, device="cuda")
    torch.cuda.synchronize()
    seconds, flat = time.perf_counter() - start, found.reshape(-1)
    some = flat[:: -(-len(flat) // SAMPLE)].double().tolist()
    digest = hashlib.sha256(flat.view(torch.uint8).cpu().numpy()).hexdigest()
    return {"digest": digest, "some": some, "seconds": seconds}


def timed(family: str, place: int, step: str) -> tuple[float, float]:
    """Microseconds of a call on the GPU, and of the host."""
    import torch

    call = called(family, place, step)
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
    from course.driver import read_driver

    if backend.gpu() is None:
        raise RuntimeError(backend.why())
    cuda = ".".join(map(str, read_driver().version or ()))
    packages = (successor.compiler(), "numba", "numpy", "torch")
    found = {package: importlib.metadata.version(package) for package in packages}
    return {"gpu": backend.gpu(), "driver_cuda": cuda, "python": platform.python_version()} | found


def answer(compiler: str, question: Callable, given: tuple) -> tuple[Any, str]:
    """What a question gives in a process of this compiler, and what was refused."""
    os.environ["COURSE_COMPILER"] = compiler  # before anything asks
    try:
        return question(*given), ""
    except Exception as error:  # the GPU's, a compiler's, or a step's refusal
        return None, f"{type(error).__name__}: {error}"[:300]


class Process:
    """A process with a compiler, started when it is asked, and anew after a failure."""

    def __init__(self, compiler: str):
        self.compiler, self.running = compiler, None

    def ask(self, question: Callable, *given: Any) -> tuple[Any, str]:
        """The answer, and what was refused."""
        if self.running is None:
            self.running = multiprocessing.get_context("spawn").Pool(1)
        asked = self.running.apply_async(answer, (self.compiler, question, given))
        try:
            found, refused = asked.get(SILENT)
        except multiprocessing.TimeoutError:
            found, refused = None, "it is silent, or has died"
        if refused and "the method" not in refused:
            self.end()
        return found, refused

    def end(self) -> None:
        """End it."""
        if self.running is not None:
            self.running.terminate()
        self.running = None


# --- all of them ----------------------------------------------------------------------------------


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference of some results, relative to the largest; 0 for the same bits."""
    if one["digest"] == other["digest"]:
        return 0.0
    pairs = list(zip(one["some"], other["some"], strict=True))
    return max(abs(a - b) for a, b in pairs) / max(abs(a) for a, _ in pairs)


def row_of(which: tuple, results: list[dict], times: list[list[tuple[float, float]]]) -> list[str]:
    """A line of the table: medians of the GPU's times, the least of the host's."""
    (old, host), (new, its_host) = (
        (statistics.median(gpu for gpu, _ in one), min(host for _, host in one)) for one in times
    )
    family, place, step = which
    what = str(FAMILIES[family][1][place]).replace(",", "")
    return [
        family, what, step, f"{difference(*results):.1e}", f"{old:.2f}", f"{new:.2f}",
        f"{old / new:.3f}", f"{host:.1f}", f"{its_host:.1f}",
    ]  # fmt: skip


def run(file: Path, families: list[str], processes: int, seconds: float) -> int:
    """Compile, compare and time; write the table after each step. Returns how many failed."""
    until, facts = time.monotonic() + seconds, {}
    two = [Process(compiler) for compiler in COMPILERS]
    for one in two:
        its, refused = one.ask(about)
        if refused:
            print(f"{one.compiler}: {refused}", file=sys.stderr)
            return 1
        facts |= its
    facts["command"] = "python -m tools.successor.times"
    facts["date"] = datetime.date.today().isoformat()
    facts["times"] = f"medians of {ROUNDS} rounds of up to {CALLS} calls, alternately, warm caches"
    places = [(one, place) for one in families for place in range(len(FAMILIES[one][1]))]
    todo = [(*one, step) for one in places for step in two[0].ask(steps, *one)[0]]
    idle = [[Process(compiler) for compiler in COMPILERS] for _ in range(processes)]

    def compute(which: tuple) -> list[tuple[Any, str]]:
        mine = idle.pop()
        try:
            return [one.ask(computed, *which) for one in mine]
        finally:
            idle.append(mine)

    with ThreadPoolExecutor(processes) as pool:
        found = dict(zip(todo, pool.map(compute, todo), strict=True))
    for one in itertools.chain(*idle):
        one.end()
    failed, rows = 0, []
    for which, both in found.items():
        for compiler, (_, refused) in zip(COMPILERS, both, strict=True):
            if refused:
                failed += "the method" not in refused
                print("refused:", *which, compiler, refused, flush=True)
        if any(refused for _, refused in both) or time.monotonic() > until:
            continue
        times: list[list] = [[], []]
        with contextlib.suppress(TypeError):  # it fails now
            for _ in range(ROUNDS):
                for one, its in zip(two, times, strict=True):
                    its.append(tuple(one.ask(timed, *which)[0]))
        if len(times[1]) < ROUNDS:
            failed += 1
            print("not timed:", *which, flush=True)
            continue
        rows.append(row_of(which, [its for its, _ in both], times))
        print(*rows[-1], *(f"{its['seconds']:.1f} s" for its, _ in both), flush=True)
        head = [f"# {key}={value}" for key, value in facts.items()]
        lines = [*head, *map(",".join, (COLUMNS, *rows)), ""]
        write_whole(file, "\n".join(lines).encode())
    for one in two:
        one.end()
    for family in (*families, ""):
        ratios = [float(row[6]) for row in rows if row[0] == family or not family]
        if ratios:
            print(family or "all", f"{statistics.geometric_mean(ratios):.3f} of {len(ratios)}")
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="the table to write")
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seconds", type=float, default=3600, help="time nothing after so many")
    asked = parser.parse_args(arguments)
    return 1 if run(asked.file, asked.family or [*FAMILIES], asked.processes, asked.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
