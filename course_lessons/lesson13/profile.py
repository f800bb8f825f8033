"""What Nsight Compute says of the kernels over rows and elements, and what the trace predicts.

A representative of each family: sum, softmax and its way back, GELU, SiLU, LayerNorm, LayerNorm
fused with GELU, and LayerNorm's way back, all on the same 2²⁶ float32. They are recorded by
``python -m course_recording.profiling.record_profile --subject norm``, and shown here on any
machine:

>>> print(table())                              # utilisation, occupancy, traffic beside prediction
>>> counter("layer norm", "DRAM throughput")

A kernel is traced on few rows, twice. Its traffic grows by the same amount with each further row,
so the counts of the profiled size follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from course import backend
from course_lessons.lesson07 import profile
from warpsim import Report, trace
from warpsim.host import gpus

GPU = "H200"  # the one that is profiled
ROWS, COLUMNS = 16_384, 4096  # of the profiled work; 2^26 elements where there are no rows
EPS = 1e-5
TRAFFIC = tuple(name for name in profile.TRAFFIC if name.startswith("global"))
DRAM = ("DRAM bytes read", "DRAM bytes written")

Launch = tuple[Any, tuple[Any, ...]]  # a kernel with its grid and block, and its arguments


@dataclass(frozen=True)
class Case:
    """A kernel that is profiled.

    Attributes
    ----------
    kernel, variant : str
        As in the bench's rows.
    launch : callable
        ``launch(rows)`` gives the launch on so many rows of `COLUMNS` numbers, on the GPU or the
        simulated one.
    arrays_read, arrays_written : int
        Of as many bytes as x.
    few : int
        Rows from which on each further row costs the same.
    """

    kernel: str
    variant: str
    launch: Callable[[int], Launch]
    arrays_read: int = 1
    arrays_written: int = 1
    few: int = 16

    @property
    def shape(self) -> str:
        """As in the bench's rows."""
        elements = self.kernel in ("sum", "gelu", "silu")
        return str(ROWS * COLUMNS) if elements else f"{ROWS}x{COLUMNS}"


def _numbers(rows: int, *, flat: bool = False) -> Any:
    """Random float32 from -0.5 to 0.5 on the GPU."""
    shape = rows * COLUMNS if flat else (rows, COLUMNS)
    x = np.random.default_rng(rows).random(shape, dtype=np.float32)
    return backend.cuda.to_device(x - np.float32(0.5))


def _room(like: Any) -> Any:
    return backend.cuda.device_array(like.shape, np.float32)


def _sum(rows: int) -> Launch:
    from course.kernels import reduce

    x, shape = _numbers(rows, flat=True), reduce.config_for()
    blocks = min(-(-x.size // shape.tile), shape.blocks * reduce.multiprocessors())
    kernel = reduce.last_block(reduce.KINDS["sum"], shape, True)
    partial = backend.cuda.to_device(np.zeros(blocks, np.float32))
    counter = backend.cuda.to_device(np.zeros(1, np.uint32))
    out = backend.cuda.to_device(np.zeros(1, np.float32))
    return kernel[blocks, shape.threads], (x, partial, counter, out)


def _softmax(rows: int) -> Launch:
    from course.kernels.softmax import forward

    x = _numbers(rows)
    out = _room(x)
    (launch,) = forward.LADDER.launches(x, out, method="registers")
    return launch.configured(), launch.arguments


def _softmax_gradient(rows: int) -> Launch:
    from course.kernels.softmax import backward

    arrays = _numbers(rows), _numbers(rows)
    arrays = *arrays, _room(arrays[0])
    (launch,) = backward.BACKWARD.launches(*arrays, method="registers")
    return launch.configured(), launch.arguments


def _activation(name: str) -> Callable[[int], Launch]:
    def launch(rows: int) -> Launch:
        from course.kernels import activation

        x = _numbers(rows, flat=True)
        out = _room(x)
        (launch,) = activation.LADDER.launches(x, out, name=name)
        return launch.configured(), launch.arguments

    return launch


def _layer_norm(activation: str | None) -> Callable[[int], Launch]:
    def launch(rows: int) -> Launch:
        from course.kernels.norm import LADDER

        x, gamma, beta = _numbers(rows), _numbers(1, flat=True), _numbers(1, flat=True)
        how = {"eps": EPS, "activation": activation, "method": "registers"}
        (launch,) = LADDER.launches(x, gamma, beta, _room(x), **how)
        return launch.configured(), launch.arguments

    return launch


def _backward(rows: int) -> Launch:
    from course.kernels.norm import backward

    dy, x, gamma = _numbers(rows), _numbers(rows), _numbers(1, flat=True)
    sums = _room(gamma), _room(gamma)
    arrays, options = (dy, x, gamma, None, _room(x), *sums), {"eps": EPS, "activation": None}
    launch, _ = backward.BACKWARD.launches(*arrays, method="registers", **options)
    return launch.configured(), launch.arguments


CASES = {
    case.kernel: case
    for case in (
        Case("sum", "last block", _sum, arrays_written=0, few=8 * 132),
        Case("softmax", "registers", _softmax),
        Case("softmax gradient", "registers", _softmax_gradient, arrays_read=2),
        Case("gelu", "wide", _activation("gelu")),
        Case("silu", "wide", _activation("silu")),
        Case("layer norm", "registers", _layer_norm(None)),
        Case("layer norm + gelu", "registers", _layer_norm("gelu")),
        Case("layer norm backward", "registers", _backward, arrays_read=2, few=4 * 132),
    )
}


# --- what was recorded ---------------------------------------------------------------------------
of_rows = profile.Counters("profile-norm", "kernel")
recorded, counter, main_stall = of_rows.recorded, of_rows.counter, of_rows.main_stall


# --- what the trace predicts ---------------------------------------------------------------------
@contextmanager
def _as_profiled() -> Iterator[None]:
    """Kernels take the shapes that they have on the profiled GPU, where none is here."""
    before = gpus._chosen
    gpus.simulate(GPU)
    try:
        yield
    finally:
        gpus._chosen = before


@functools.cache
def traced(kernel: str, rows: int) -> Report:
    """The trace of a kernel on so many rows."""
    with _as_profiled():
        return trace_launch(*CASES[kernel].launch(rows))


def trace_launch(launch: Any, arguments: tuple[Any, ...]) -> Report:
    """Trace a kernel with its grid and block, of numba.cuda or of the simulator, on `GPU`."""
    if hasattr(launch, "dispatcher"):
        parts = launch.dispatcher, launch.griddim, launch.blockdim
    else:
        parts = launch.kernel, launch.grid, launch.block
    return trace(*parts, *arguments, gpu=GPU)


def predicted(kernel: str, name: str) -> float:
    """A counter's value at the size that is profiled.

    Parameters
    ----------
    kernel : str
        Of `CASES`.
    name : str
        Of `TRAFFIC`, predicted from two traces; or of `DRAM`: each array once.

    Raises
    ------
    ValueError
        For another counter.
    """
    case = CASES[kernel]
    if name in DRAM:
        arrays = case.arrays_read if name == DRAM[0] else case.arrays_written
        return float(4 * arrays * ROWS * COLUMNS)
    sizes = case.few, 2 * case.few
    counted = profile.traffic(name, (traced(kernel, rows) for rows in sizes), also=DRAM)
    return profile.grown(*counted, sizes, ROWS)


def table(gpu: str = "h200") -> str:
    """The recorded profile as text, a kernel a line; of traffic "counted / predicted".

    Percentages are of what the GPU sustains at its peak; sectors are of 32 bytes, in millions;
    DRAM bytes in 10⁶.
    """
    lines = [
        ("kernel", "variant", "time", "SM", "memory", "DRAM", "occupancy", "of at most",
         "waits most for", "load sectors", "store sectors", "bytes read", "bytes written")
    ]  # fmt: skip
    shares = ("SM throughput", "memory throughput", "DRAM throughput", "achieved occupancy",
              "theoretical occupancy")  # fmt: skip
    for name, case in CASES.items():
        reason, share = main_stall(name, gpu)
        lines.append((
            name, case.variant, recorded(name, "duration", gpu).amount,
            *(f"{counter(name, metric, gpu):.0f}%" for metric in shares),
            f"{reason} {share:.0%}",
            *(
                f"{counter(name, metric, gpu) / 1e6:.2f} / {predicted(name, metric) / 1e6:.2f}"
                for metric in ("global load sectors", "global store sectors", *DRAM)
            ),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
