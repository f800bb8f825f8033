"""What numba-cuda-mlir's code computes on a GPU, and how fast: `<gpu>-successor.csv`.

    python -m tools.successor.times compile FOLDER     # once in each virtual environment, no GPU
    python -m tools.successor.times measure FOLDER FILE    # with numba-cuda and CuPy, on the GPU

The two packages do not live in one environment (`tools.successor.compiles` says how the successor's
is made), so the successor's machine code goes from one to the other: its kernels take each array as
two pointers, an offset, sizes and strides, counted in elements. Both compilers' seconds are those
of the machine that compiles. Both kernels are launched in CUDA graphs, by rounds, on the same data.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import io
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from course.compiler import toolchain
from course.compiler.arguments import arguments_of, function_of
from course.compiler.real_kernels import RealKernel
from course.files import write_whole
from tools import compile_all
from tools.successor import compiles as successor

TARGET = "sm_90"
CALLS, ROUNDS = 20, 15
COLUMNS = (
    "kernel", "shape", "difference", "numba_us", "successor_us", "ratio", "numba_s", "successor_s"
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A kernel's launch; `arguments` come from a random generator, the last ones are results."""

    grid: Any
    block: Any
    arguments: Callable[[np.random.Generator], tuple]
    results: int = 1


def _floats(*shapes: Any) -> Callable[[np.random.Generator], tuple]:
    """Normal numbers; what is no shape is passed on as it is."""

    def made(random: np.random.Generator) -> tuple:
        return tuple(
            random.standard_normal(one, dtype=np.float32) if isinstance(one, tuple) else one
            for one in shapes
        )

    return made


def _half_matrices(random: np.random.Generator) -> tuple:
    q, k = (random.standard_normal((8, 197, 12, 64), dtype=np.float32) for _ in range(2))
    scores = np.zeros((8 * 12 * 197, 197), np.float32)
    return q.astype(np.float16), k.astype(np.float16), np.float32(0.125), scores


def _digest(random: np.random.Generator) -> tuple:
    words = random.integers(0, 2**32, (64, 1 << 18), np.uint32)
    return words, np.zeros(64, np.uint64)


def _adam(random: np.random.Generator) -> tuple:
    size = 1 << 22
    given = [random.standard_normal(size, dtype=np.float32) for _ in range(4)]
    given[3] = given[3] ** 2
    return *given, np.float32([1e-3, 1.5]), *np.zeros((3, size), np.float32)


SIDE, FLAT, ROWS = 4096, 1 << 24, (8192, 1024)
_square = _floats((SIDE, SIDE), (SIDE, SIDE))
_factors = _floats((2048, 64), (64,), (64, 2048), np.int64(64), (2048, 2048))
_normed = _floats(ROWS, (ROWS[1],), (ROWS[1],), np.float32(1e-5), ROWS)
_norm = "norm.first_steps.layer_norm_"
_reconstruct = "reconstruct.first_steps.reconstruct_"

WORK = {
    "transpose.copy": Work((SIDE // 32, SIDE // 8), (32, 8), _square, 2),
    "transpose.transpose_read_coalesced": Work((SIDE // 32, SIDE // 8), (32, 8), _square, 2),
    "transpose.transpose_tiled": Work((SIDE // 32, SIDE // 32), (32, 8), _square, 2),
    "transpose.transpose_padded": Work((SIDE // 32, SIDE // 32), (32, 8), _square, 2),
    f"{_reconstruct}original": Work((128, 128), (16, 16), _factors),
    f"{_reconstruct}naive": Work((128, 128), (16, 16), _factors),
    f"{_reconstruct}tiled": Work((128, 128), (16, 16), _factors),
    "softmax.forward.softmax_three_passes": Work(ROWS[0], 256, _floats(ROWS, ROWS)),
    f"{_norm}naive": Work(ROWS[0] // 64, 64, _normed),
    f"{_norm}tree": Work(ROWS[0], 128, _normed),
    f"{_norm}warp": Work(ROWS[0] // 4, 128, _normed),
    f"{_norm}block": Work(ROWS[0], 128, _normed),
    "activation.multiply": Work(FLAT // 256, 256, _floats((FLAT,), (FLAT,), (FLAT,))),
    "training.adam.adam_each": Work((1 << 22) // 256, 256, _adam, 3),
    "training.losses.kl_backward": Work(
        FLAT // 256, 256, _floats((FLAT,), (FLAT,), np.float32(0.5), (FLAT,), (FLAT,)), 2
    ),
    "convolution.convolve_naive": Work(
        64 * 32 * 32 * 32 // 256, 256,
        _floats((64, 16, 32, 32), (32, 16, 3, 3), (32,), (64, 32, 32, 32)),
    ),
    "gemm.gemv.linear_naive": Work(
        (16, 64), (32, 8), _floats((512, 784), (512, 784), (512,), (512, 512))
    ),
    "gemm.float32.bias_backward": Work(32, (32, 8), _floats(ROWS, (1024,))),
    "attention.first_steps.scores_in_memory": Work((13, 13, 96), (16, 16), _half_matrices),
    "synthetic_images.digest": Work((16, 64), 256, _digest),
}  # fmt: skip
#: Kernels of (out, x), whose results come first.
RESULT_FIRST = {name for name in WORK if name.startswith("transpose.")}


def cases() -> dict[str, compile_all.Case]:
    """The cases of `tools.compile_all` that are measured."""
    return {case.name: case for case in compile_all.kernels() if case.name in WORK}


def compile_here(folder: Path) -> None:
    """Compile all kernels with the package of this environment; note seconds and versions."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        new = importlib.import_module(f"{successor.PACKAGE}.cuda")
    except ImportError:
        new = None
    else:
        sys.modules["numba.cuda"], sys.modules["numba.cuda.random"] = new, new.random
    seconds: dict[str, float] = {}
    for number in range(2):  # what a compiler loads at its first kernel is no kernel's
        for name, case in cases().items():
            start = time.perf_counter()
            if new is None:
                function, options = function_of(case.kernel)
                kinds = arguments_of(case.kernel, compile_all.signature(case))
                fast = {"fastmath": bool(options.get("fastmath"))}
                codes = toolchain.compile_kernel(
                    RealKernel(function).function, kinds, TARGET, **fast
                )
                toolchain.link(codes, name, TARGET)
            else:
                code = successor_code(case)
                (folder / f"{name}.cubin").write_bytes(code)
            if number:
                seconds[name] = round(time.perf_counter() - start, 3)
    package = "numba-cuda" if new is None else "numba-cuda-mlir"
    facts = {"version": f"{package} {importlib.metadata.version(package)}", "seconds": seconds}
    write_whole(folder / f"{package}.json", json.dumps(facts, indent=1))


def successor_code(case: compile_all.Case) -> bytes:
    """A kernel's machine code, by the successor."""
    importlib.import_module(f"{successor.PACKAGE}.tools")._cached_cc = toolchain.capability(TARGET)
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    given = {name: options[name] for name in successor.OPTIONS if options.get(name) is not None}
    compiler = importlib.import_module(f"{successor.PACKAGE}.compiler")
    with redirect_stdout(io.StringIO()):
        return compiler.compile_cubin(
            successor.Moved(function).function, tuple(map(successor.moved, kinds)),
            cc=toolchain.capability(TARGET), **given,
        )  # fmt: skip


def abi(cupy: Any, arguments: tuple) -> tuple:
    """Arguments as the successor's kernels take them."""
    flat: list[Any] = []
    for one in arguments:
        if not isinstance(one, cupy.ndarray):
            flat.append(one)
            continue
        flat += [one, one, np.int64(0), *map(np.int64, one.shape)]
        flat += [np.int64(stride // one.itemsize) for stride in one.strides]
    return tuple(flat)


def measured(cupy: Any, cuda: Any, folder: Path, name: str, kernel: Any) -> list[Any]:
    """Difference and times of a kernel: relative, and microseconds of each."""
    work = WORK[name]
    arrays = [
        cupy.asarray(one) if isinstance(one, np.ndarray) else one
        for one in work.arguments(np.random.default_rng(0))
    ]
    places = [0] if name in RESULT_FIRST else range(len(arrays) - work.results, len(arrays))
    code = (folder / f"{name}.cubin").read_bytes()
    symbol = re.search(rb"\.nv\.constant0\.([\w$]+)", code)[1].decode()  # type: ignore[index]
    other = cupy.cuda.function.Module()
    other.load(code)
    theirs = other.get_function(symbol)
    grid, block = (one if isinstance(one, tuple) else (one,) for one in (work.grid, work.block))
    stream = cupy.cuda.Stream(non_blocking=True)
    outside = cuda.external_stream(stream.ptr)
    wrapped = [cuda.as_cuda_array(a) if isinstance(a, cupy.ndarray) else a for a in arrays]

    def ours() -> None:
        kernel[work.grid, work.block, outside](*wrapped)

    def its() -> None:
        theirs(grid, block, abi(cupy, tuple(arrays)), stream=stream)

    results = []
    for call in (ours, its):
        for place in places:
            arrays[place].fill(0)
        cupy.cuda.Device().synchronize()
        call()
        stream.synchronize()
        results.append([arrays[place].get().astype(np.float64) for place in places])
    difference = max(
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
        for a, b in zip(*results, strict=True)
    )
    graphs = []
    for call in (ours, its):
        with stream:
            stream.begin_capture()
            for _ in range(CALLS):
                call()
            graphs.append(stream.end_capture())
    times: list[list[float]] = [[], []]
    for number in range(ROUNDS + 2):
        for graph, its_times in zip(graphs, times, strict=True):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            if number >= 2:
                its_times.append(1e3 * cupy.cuda.get_elapsed_time(start, end) / CALLS)
    return [difference, *map(statistics.median, times)]


def measure(folder: Path, file: Path) -> int:
    """Measure all kernels and write the table; returns how many failed."""
    import cupy

    from course import backend, kernel_cache
    from course_recording.profiling.hardware_counters import versions

    known = {
        package: json.loads((folder / f"{package}.json").read_text(encoding="utf-8"))
        for package in ("numba-cuda", "numba-cuda-mlir")
    }
    facts = {**versions(backend.gpu(), backend.cuda), "cupy": cupy.__version__}
    facts |= {"date": datetime.date.today().isoformat()}
    facts["compiled_by"] = ", ".join(one["version"] for one in known.values())
    facts["seconds"] = "of compiling on two processor cores, the second time in a process"
    facts["times"] = f"medians of {ROUNDS} graphs of {CALLS} launches each, in turns, warm caches"
    lines, failed = [], 0
    for name, case in cases().items():
        kernel_cache.cached(case.kernel)
        try:
            found = measured(cupy, backend.cuda, folder, name, case.kernel)
        except Exception as error:  # the others are measured all the same
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed += 1
            continue
        shape = "+".join(
            "x".join(map(str, one.shape))
            for one in WORK[name].arguments(np.random.default_rng(0))
            if isinstance(one, np.ndarray)
        )
        seconds = [known[package]["seconds"][name] for package in known]
        times = [f"{value:.2f}" for value in found[1:]]
        row = [name, shape, f"{found[0]:.1e}", *times, f"{found[2] / found[1]:.3f}", *seconds]
        lines.append(",".join(map(str, row)))
        print(lines[-1], flush=True)
    head = [f"# {key}={value}" for key, value in facts.items()]
    write_whole(file, "\n".join([*head, ",".join(COLUMNS), *lines, ""]).encode())
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("compile", "measure"))
    parser.add_argument("folder", type=Path, help="where machine code and seconds lie")
    parser.add_argument("file", type=Path, nargs="?", help="the table to write")
    chosen = parser.parse_args(arguments)
    if chosen.what == "compile":
        compile_here(chosen.folder)
        return 0
    if chosen.file is None:
        parser.error("which file shall be written?")
    return 1 if measure(chosen.folder, chosen.file) else 0


if __name__ == "__main__":
    sys.exit(main())
