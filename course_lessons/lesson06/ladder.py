"""The ladder of lesson 06 as a table that fills as you climb: times, rates, compiled facts, bounds.

Times are those recorded on a GPU (``data/measurements``) or the reader's own; registers and
instructions come from NVIDIA's compilers, recorded in ``data/compiled-ladder.csv`` by
``python -m tools.compile.ladder``. Nothing here is typed by hand.
"""

from __future__ import annotations

import csv
import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course import backend
from course.checks.exercises import find_exercise
from course.files import data_path
from course.kernels.reconstruct.ladder import LADDER, SPLIT, ImageProblem
from course.kernels.steps import configured, one_call
from course.measure.occupancy import Occupancy, occupancy
from course.measure.recorded import Figure, read
from course.measure.recorded import recorded as find
from course.measure.roofline import article, known_gpu, time_text
from course.measure.timing import Timing, benchmark
from warpsim import Report, trace
from warpsim.core.words import wrapped
from warpsim.host import gpus

SHAPE = (4096, 4096, 1024)  # rows, columns, k: where `python -m course bench` times every step
PEER = "cupy"  # the whole expression, its product by cuBLAS
PRODUCT = "cuBLAS alone"  # the same without the scaling by s
OWN = "yours"  # the last rung, as the lesson's solution has it
CAPABILITY = {"sm_75": "T4", "sm_90": "H200"}


@dataclass(frozen=True)
class InnerLoop:
    """What a warp executes to make its products: the piece of code with the most of them.

    Attributes
    ----------
    instructions : int
        Of the piece, in PTX.
    products : int
        How many of them multiply and add.
    reads : int
        How many read shared memory.
    """

    instructions: int
    products: int
    reads: int

    @property
    def per_product(self) -> float:
        """Instructions for one product."""
        return self.instructions / self.products


#: Of the reader's last rung the whole main loop, by the compilers; a test compiles it.
OWN_LOOP = InnerLoop(580, 512, 32)


def main_loop(ptx: str) -> InnerLoop:
    """The loop with the most products, from its first instruction to the jump back, barriers too.

    Raises
    ------
    ValueError
        When no loop of the code has a product.
    """
    lines = [line.strip() for line in ptx.splitlines()]
    labels = {line.split(":")[0]: n for n, line in enumerate(lines) if line.startswith("$L")}
    loops = []
    for end, line in enumerate(lines):
        jump = re.search(r"\bbra(?:\.uni)?\s+(\$L\w+)", line)
        if jump and labels.get(jump[1], end) < end:
            inside = [re.sub(r"^@!?%p\d+ +", "", each) for each in lines[labels[jump[1]] : end + 1]]
            loops.append([each for each in inside if re.match(r"[a-z][\w.]+[ \t;]", each)])
    best = max(loops, key=_products, default=[])
    if not _products(best):
        raise ValueError("no loop of this code has a product")
    return InnerLoop(len(best), _products(best), _reads(best))


def _products(lines: list[str]) -> int:
    return sum(line.startswith("fma.rn.") for line in lines)


def _reads(lines: list[str]) -> int:
    return sum(line.startswith("ld.shared") for line in lines)


def has_products(ptx: str) -> bool:
    """Whether the code multiplies and adds in float32, small numbers flushed to zero or not."""
    return re.search(r"\bfma\.rn\.(ftz\.)?f32\b", ptx) is not None


def inner_loop(ptx: str) -> InnerLoop:
    """Find the piece of straight code with the most products; barriers and jumps end a piece.

    Raises
    ------
    ValueError
        When the code multiplies and adds nothing in float32.
    """
    pieces: list[list[str]] = [[]]
    for line in map(str.strip, ptx.splitlines()):
        if line.startswith(("$L", "bar.")):
            pieces.append([])
        elif re.match(r"(@!?%p\d+ +)?[a-z][\w.]+[ \t;]", line):
            pieces[-1].append(re.sub(r"^@!?%p\d+ +", "", line))
            if pieces[-1][-1].startswith("bra"):
                pieces.append([])
    best = max(pieces, key=_products)
    if not _products(best):
        raise ValueError("this code has no product: no fma instruction of float32 is in it")
    return InnerLoop(len(best), _products(best), _reads(best))


@dataclass(frozen=True)
class Facts:
    """What NVIDIA's compilers made of a step for one kind of GPU."""

    step: str
    target: str
    registers: int
    spills: int
    shared_bytes: int
    loop: InnerLoop | None

    def occupancy(self, gpu: str | None = None) -> Occupancy:
        """How many of its blocks fit on a multiprocessor."""
        threads = int(np.prod(LADDER[self.step].block))
        name = gpu or CAPABILITY[self.target]
        return occupancy(name, threads, self.registers, self.shared_bytes)


@functools.cache
def _recorded_facts() -> dict[tuple[str, str], Facts]:
    found = {}
    with data_path("compiled-ladder.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            numbers = {name: int(row[name]) for name in ("registers", "spills", "shared_bytes")}
            loop = None
            if row["products"]:
                parts = (row[name] for name in ("instructions", "products", "reads"))
                loop = InnerLoop(*map(int, parts))
            found[row["step"], row["target"]] = Facts(
                row["step"], row["target"], **numbers, loop=loop
            )
    return found


def facts(step: str, target: str = "sm_90") -> Facts:
    """The recorded compiled facts of a step of `LADDER`.

    Raises
    ------
    KeyError
        When the step was not compiled for that target.
    """
    known = _recorded_facts()
    if (step, target) not in known:
        steps = sorted({name for name, its in known if its == target})
        raise KeyError(f"no compiled facts of {step!r} for {target}; there are {', '.join(steps)}")
    return known[step, target]


def recorded(step: str, metric: str = "time", gpu: str = "H200") -> Figure | None:
    """The recorded figure of a step of the ladder at `SHAPE`; None where nobody measured it."""
    shape = "x".join(map(str, SHAPE))
    found = find("reconstruct", variant=step, shape=shape, metric=metric, gpu=gpu)
    return found[0] if found else None


def card_of(step: str) -> str:
    """The GPU on which a step is recorded at `SHAPE`: the H200 where it is, or where none is."""
    shape = "x".join(map(str, SHAPE))
    names = [its.gpu for its in find("reconstruct", variant=step, shape=shape)]
    cards = [card for card in gpus.GPUS for name in names if card in name]
    return "H200" if "H200" in cards or not cards else cards[0]


def counter(step: str, metric: str, gpu: str = "H200") -> float:
    """A counter of the GPU itself, recorded of a step's whole launch at `SHAPE`, see lesson 07.

    Raises
    ------
    ValueError
        Where it was not recorded.
    """
    for figure in _profile(gpu):
        if (figure.variant, figure.metric) == (step, metric):
            return figure.median
    raise ValueError(f"no recorded {metric!r} of {step!r} on {article(gpu)}")


@functools.cache
def _profile(gpu: str) -> tuple[Figure, ...]:
    return tuple(read(data_path("measurements", f"{gpu.lower()}-profile.csv")).figures)


def instructions(step: str, gpu: str = "H200") -> float:
    """Instructions for a product of a warp, counted by the GPU in a step's whole launch."""
    return counter(step, "instructions", gpu) * 32 / math.prod(SHAPE)


def of_peer(figure: Figure | Timing, gpu: str = "H200") -> float:
    """A recorded step's speed as a share of the peer's in the same run."""
    return recorded(PEER, gpu=gpu).median / figure.median


class Table:
    """Rows for some steps, in the order of the ladder; shows itself."""

    def __init__(self, steps: Iterable[str], gpu: str = "H200"):
        self.gpu, self.steps = gpu, list(steps)

    def __str__(self) -> str:
        peer = recorded(PEER, gpu=self.gpu)
        rows, columns, k = SHAPE
        lines = [
            f"{rows} x {columns}, k = {k}, recorded on an {peer.gpu}, {peer.date}",
            f"{'rung':16}{'time':>10}{'TFLOP/s':>10}{'of CuPy':>11}{'registers':>11}",
        ]
        for name in self.steps:
            figure = recorded(name, gpu=self.gpu)
            if figure is None:
                lines.append(f"{name:16}  not recorded: `beside` times it on a GPU")
                continue
            lines.append(
                f"{name:16}{time_text(figure.median):>10}{figure.teraflops:10.3g}"
                f"{of_peer(figure, self.gpu):11.1%}{_registers(name, self.gpu):>11}"
            )
        for name, figure in (("CuPy", peer), ("cuBLAS alone", recorded(PRODUCT, gpu=self.gpu))):
            if figure is not None:
                lines.append(
                    f"{name:16}{time_text(figure.median):>10}{figure.teraflops:10.3g}"
                    f"{of_peer(figure, self.gpu):11.1%}"
                )
        return "\n".join(lines)

    __repr__ = __str__


def _registers(step: str, gpu: str) -> str:
    """Of a thread, by the compilers; of the reader's last rung those recorded with its time."""
    if step != OWN:
        return str(facts(step).registers)
    figure = recorded(step, "registers", gpu)
    return f"{figure.median:.0f}" if figure else ""


def faster(step: str, than: str, gpu: str = "H200") -> float:
    """How many times as fast a step was recorded as another one; below 1 it was slower."""
    return recorded(than, gpu=gpu).median / recorded(step, gpu=gpu).median


#: Products of a warp that a multiprocessor makes in a clock: its float32 units / 32.
_PRODUCTS_A_CLOCK = {(7, 0): 2, (7, 5): 2, (8, 0): 2}
_INSTRUCTIONS_A_CLOCK = 4  # each quarter of a multiprocessor starts one
_WAVEFRONTS_A_CLOCK = 1  # 32 banks of 4 bytes


def products_a_clock(gpu: str = "H200") -> int:
    """Warp-wide float32 multiply-adds that a multiprocessor makes in a clock.

    Source: NVIDIA, CUDA C++ programming guide, "Arithmetic Instructions" and "Compute
    Capabilities": 64 float32 units in 7.0, 7.5 and 8.0, 128 from 8.6 on; four warp schedulers.
    """
    return _PRODUCTS_A_CLOCK.get(tuple(gpus.find(gpu).compute_capability), 4)


def shared_roof(wavefronts_per_product: float, gpu: str = "H200") -> float:
    """TFLOP/s at most, if a warp's product needs so many wavefronts of shared memory."""
    clocks = wavefronts_per_product / _WAVEFRONTS_A_CLOCK
    return known_gpu(gpu).rates["float32"] / max(1.0, products_a_clock(gpu) * clocks)


def issue_roof(instructions_per_product: float, gpu: str = "H200") -> float:
    """TFLOP/s at most, if a warp executes so many instructions for each product."""
    clocks = instructions_per_product / _INSTRUCTIONS_A_CLOCK
    return known_gpu(gpu).rates["float32"] / max(1.0, products_a_clock(gpu) * clocks)


# ---------------------------------------------------------------------- the reader's own
def compiled_text(
    kernel: Any, arguments: tuple[Any, ...], block: int, target: str = "sm_90"
) -> str:
    """What the compilers make of the reader's own kernel, in a line or two; or why nothing."""
    from course.compiler.facts import CompilerMissing, compiled

    try:
        found = compiled(kernel, arguments, target=target)
    except CompilerMissing:
        return "The extra compile is not installed here."
    if not has_products(found.ptx):
        return f"{found.name}: no product in it yet."
    loop = inner_loop(found.ptx)
    return (
        f"{found.name}: {found.registers} registers, {found.spills} bytes spilled, "
        f"{loop.per_product:.2f} instructions for a product\n"
        f"{found.occupancy(CAPABILITY.get(target), block)}"
    )


def work_of(name: str, m: int, n: int, k: int, images: int = 1) -> dict[str, Any]:
    """Bytes and operations by unit of a step, and the operations that are needed."""
    needed = 2 * m * n * k * images
    work = {"bytes": 4 * images * (m * k + k + k * n + m * n), "operations": {"float32": needed}}
    if name == "original":
        work["operations"] = {"float64": needed}
    if name in ("tensor cores", "warpgroups"):
        work |= {"operations": {"tensor_float16": 3 * needed}, "needed": needed}
        work["dtype"] = "tensor_float16"  # what is multiplied: three products for one
    if name == "tf32":
        work |= {"operations": {"tensor_float32": needed}, "dtype": "tensor_float32"}
    return work


def work(name: str = "", shape: tuple[int, int, int] = SHAPE) -> dict[str, Any]:
    """Bytes that must be moved, and operations by the unit that makes them, for `benchmark`."""
    its = work_of(name, *shape)
    return {"bytes": its["bytes"], "operations": its["operations"]}


def measure(name: str, shape: tuple[int, int, int] = SHAPE) -> str:
    """Time a step on the reader's GPU, beside what was recorded; without a GPU say the bound.

    Returns
    -------
    str
        Lines to print.
    """
    step = LADDER[name]
    if backend.gpu() is None:
        bound = benchmark(prepared, gpu="H200", name=name, **work(name, shape)).bound
        lines = [f"{name}: no GPU here, so no time", f"  {bound.sentence}"]
    elif tuple(backend.cuda.get_current_device().compute_capability) < step.capability:
        wanted = ".".join(map(str, step.capability))
        lines = [f"{name}: this GPU cannot run it, it needs compute capability {wanted}"]
    else:
        u, s, vt, out = _factors(shape)
        call = prepared(name, u, s, vt, shape[2], out)
        timing = benchmark(call, u, s, vt, shape[2], out, name=name, **work(name, shape))
        rate = 2 * math.prod(shape) / timing.median * 1e-9
        lines = [f"{timing}", f"  {rate:.3g} TFLOP/s"]
    old = recorded(name) if shape == SHAPE else None
    if old is not None:
        lines.append(f"  {old}, {old.teraflops:.3g} TFLOP/s")
    return wrapped("\n".join(lines))


def prepared(name: str, u: Any, s: Any, vt: Any, k: int, out: Any) -> Callable[..., None]:
    """A step of the ladder, ready to be called with (u, s, vt, k, out) that look like these.

    Memory for fragments lives as long as what is returned. Nothing is waited for.
    """
    launches = LADDER.launches(u, s, vt, out, k=k, method=name)
    return one_call(configured(launches), (u, s, vt, k, out))


def own_rung(rows: int, columns: int) -> Any:
    """The last rung as lesson 06's solution has it, ready to be called with (u, s, vt, k, out).

    k is a multiple of 8, columns are one of 4.
    """
    return find_exercise("last-rung").model()[(-(-columns // 128), -(-rows // 128)), 256]


def trace_fragments(
    name: str, u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int, out: np.ndarray
) -> tuple[Report, Report, Report]:
    """Trace a tensor-core step on a simulated H200: u split, s vt split, and their product.

    Parameters
    ----------
    name : str
        A step of `LADDER` that multiplies fragments.
    u, s, vt : ndarray, shapes (rows, k), (k,), (k, columns), float32
        The factors.
    k : int
        How many values of them are used.
    out : ndarray, shape (rows, columns), float32
        The result is written here.

    Returns
    -------
    tuple of Report
        Of the three kernels, in the order of their launches.
    """
    given = u, s, vt, out
    there = [backend.cuda.to_device(array) for array in given]
    launches = SPLIT[name].launches(ImageProblem.of(*there, k), *there, k)
    host = {id(one): array for one, array in zip(there, given, strict=True)}
    for one in (one for launch in launches for one in launch.arguments):
        if hasattr(one, "copy_to_host"):
            host.setdefault(id(one), one.copy_to_host())
    return tuple(
        trace(its.kernel, its.grid, its.block, *(host.get(id(one), one) for one in its.arguments),
              gpu="H200")
        for its in launches
    )  # fmt: skip


def _factors(shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """Random u, s, vt in device memory, and room for the result."""
    rows, columns, k = shape
    rng = np.random.default_rng(0)
    factors = (
        backend.cuda.to_device(rng.random(size, dtype=np.float32) - np.float32(0.5))
        for size in ((rows, k), k, (k, columns))
    )
    return *factors, backend.cuda.device_array((rows, columns), np.float32)
