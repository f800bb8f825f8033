"""Every step of the ladders by both compilers, alternately on one GPU: ``<gpu>-successor.csv``.

    python -m tools.successor.times FILE [FAMILY ...] [--rounds 7] [--patience 100]

needs a GPU, PyTorch, numba-cuda and numba-cuda-mlir. A process has one compiler, so two answer
alternately; what both compute is compared. (That it is right is asked by ``COURSE_COMPILER=mlir
pytest tests/course/kernels``.) A process in which something fails, or that is silent for longer
than the patience, ends, and another goes on with the next step. What is compiled is kept on disk: a
run of one round for each family, beside each other, before the one that times all saves minutes. A
step's time is the GPU's of calls on end, the host's that of calls which only queue.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any

from course import backend, successor
from course.backend import installed_version
from course.files import table_text, write_whole
from course.measure.recorded import header

COMPILERS = ("numba-cuda", "mlir")
CALLS, LONG = 20, 4e-3  # calls on end are at most so many seconds, or one
SAMPLE = 4096  # results that are compared where not all bits are the same
CHUNK = 1 << 24  # results whose bits are summed at once, each times its place
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


@functools.cache
def ladder(family: str) -> Any:
    """The function of a family, or its ladder."""
    module, _, name = FAMILIES[family][0].partition(":")
    return getattr(importlib.import_module(module), name)


def steps(family: str) -> list[str]:
    """The names of its steps."""
    found = ladder(family)
    return [name for name in getattr(found, "ladder", found).names if name != "auto"]


@functools.lru_cache(1)
def problem(family: str, place: int) -> list[Any]:
    """What a family's function is given."""
    import torch

    generator = torch.Generator("cuda").manual_seed(7)
    torch.cuda.empty_cache()

    def made(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        sizes = [size for size in one if isinstance(size, int)]
        kind = torch.float16 if HALF in one else torch.float32
        return torch.rand(sizes, device="cuda", generator=generator).to(kind)

    return [made(one) for one in FAMILIES[family][1][place]]


@functools.lru_cache(1)
def called(family: str, place: int, step: str) -> Callable[[], Any]:
    """A step's call."""
    function, given = ladder(family), problem(family, place)
    if hasattr(function, "ladder"):
        return lambda: function(*given, method=step)
    from course.kernels.steps import configured

    *arrays, options = given if isinstance(given[-1], dict) else (*given, {})
    there = map(backend.cuda.as_cuda_array, arrays)
    launches = configured(function.launches(*there, method=step, **options))

    def call() -> Any:
        for kernel, arguments in launches:
            kernel(*arguments)
        return arrays[-1]

    return call


def computed(family: str, place: int, step: str) -> dict[str, Any]:
    """What tells a step's result from others, some of it, and the first call's seconds."""
    import torch

    start = time.perf_counter()
    found = called(family, place, step)()
    found = torch.as_tensor(found[1] if isinstance(found, tuple) else found, device="cuda")
    torch.cuda.synchronize()
    seconds, flat = time.perf_counter() - start, found.reshape(-1)
    bits = flat.view(torch.int16 if flat.dtype == torch.float16 else torch.int32)
    places = torch.arange(1, CHUNK + 1, device="cuda")
    sums = [int((part.long() * places[: len(part)]).sum()) for part in bits.split(CHUNK)]
    return {"sums": sums, "some": flat[:: -(-len(flat) // SAMPLE)].tolist(), "seconds": seconds}


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

    return run(max(1, min(CALLS, int(1e6 * LONG / run(1)[0]))))


def about(command: str) -> dict[str, str]:
    """What the figures may depend on."""
    if backend.gpu() is None:
        raise RuntimeError(backend.why())
    package = successor.DISTRIBUTION
    return header(backend.gpu(), None, command) | {package: installed_version(package)}


def answer(compiler: str, question: Callable, given: tuple) -> tuple[Any, str]:
    """What a question gives in a process of this compiler, and what was refused."""
    environ[successor.VARIABLE] = compiler  # before anything asks
    try:
        return question(*given), ""
    except Exception as error:  # the GPU's, a compiler's, or a step's refusal
        return None, f"{type(error).__name__}: {error}"[:300]


class Process:
    """A process with a compiler, started when it is asked, and anew after a failure."""

    def __init__(self, compiler: str, patience: float):
        self.compiler, self.patience, self.running = compiler, patience, None

    def ask(self, question: Callable, *given: Any) -> tuple[Any, str]:
        """The answer, and what was refused."""
        if self.running is None:
            self.running = multiprocessing.get_context("spawn").Pool(1)
        asked = self.running.apply_async(answer, (self.compiler, question, given))
        try:
            found, refused = asked.get(self.patience)
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
    if one["sums"] == other["sums"]:
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


def run(file: Path, families: list[str], rounds: int, both: list[Process]) -> int:
    """Compare and time; write the table after each step. Returns how many steps failed."""
    facts, refused = both[0].ask(about, "python -m tools.successor.times")
    if refused:
        print(refused, file=sys.stderr)
        return 1
    facts["times"] = f"medians of {rounds} rounds of up to {CALLS} calls, alternately, warm caches"
    failed, rows = 0, []
    places = [(one, place) for one in families for place in range(len(FAMILIES[one][1]))]
    for which in [(*one, step) for one in places for step in steps(one[0])]:
        answers = [one.ask(computed, *which) for one in both]
        for one in both * rounds:
            if not any(refused for _, refused in answers):
                answers.append(one.ask(timed, *which))
        if refused := "; ".join(why for _, why in answers if why):
            failed += "the method" not in refused
            print("refused:", *which, refused, flush=True)
            continue
        found = [one for one, _ in answers]
        rows.append(row_of(which, found[:2], [found[2::2], found[3::2]]))
        print(*rows[-1], *(f"{one['seconds']:.1f} s" for one in found[:2]), flush=True)
        write_whole(file, table_text(file.name, facts, COLUMNS, rows, ValueError))
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
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--patience", type=float, default=100, help="seconds for an answer")
    asked = parser.parse_args(arguments)
    both = [Process(compiler, asked.patience) for compiler in COMPILERS]
    try:
        return bool(run(asked.file, asked.family or [*FAMILIES], asked.rounds, both))
    finally:
        for one in both:
            one.end()


if __name__ == "__main__":
    sys.exit(main())
