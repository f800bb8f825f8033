"""Rooflines: what a GPU can do at most, and the least time that some work takes on it.

A kernel must move its bytes and do its operations. Each takes at least amount / rate, and they can
overlap, so the kernel takes at least the longest of these times: its bound. The rates are roofs,
printed by the vendor (`known_gpu`, the table ``data/gpus.csv`` with its sources) or measured on the
machine in front of you (`course.measure.measured_roofs.measure_roofs`). A figure above a roof is a
mistake of the measurement, and `refuse_impossible` says so.

Source: S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model
for multicore architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course.files import data_path, table_of
from warpsim.core.words import wrapped

#: Pipes that have a roof. A fused multiply-add is two operations.
PIPES = ("float32", "float64", "tensor_float64", "tensor_float32", "tensor_float16")
#: The simulator also counts float16 operations; their roof here is the tensor cores', a higher one.
_PIPE_OF = {"float16": "tensor_float16"}
#: Counted, but without a roof: how many of them are left depends on the compiler.
_WITHOUT_ROOF = ("integer", "special")
_MIB = 1024**2
#: How far above a roof a figure may be: a measured roof has a spread of its own, and cards run at
#: higher clock rates than those for which vendors print peaks.
SPREAD, FASTER_CLOCK = 0.03, 0.15


class ImpossibleFigure(ValueError):
    """A figure above the roof of its pipe or memory level: the measurement is wrong."""


@dataclass(frozen=True)
class Roofs:
    """What one GPU can do at most.

    Attributes
    ----------
    gpu : str
    bandwidth : float
        Device memory [GB/s, 10⁹ bytes a second]: printed, or measured by a copy (read + written).
    rates : mapping of a pipe of `PIPES` to its peak [TFLOP/s]
    l2_bytes : int
    read_bandwidth, l2_bandwidth : float or None
        Reading only, and data that stays in L2 [GB/s]; known where they were measured.
    link : float or None
        Host to device, one direction [GB/s].
    measured : bool
        By a program, or printed by the vendor.
    source : str
    multiprocessors : int
    """

    gpu: str
    bandwidth: float
    rates: Mapping[str, float]
    l2_bytes: int
    read_bandwidth: float | None = None
    l2_bandwidth: float | None = None
    link: float | None = None
    measured: bool = False
    source: str = ""
    multiprocessors: int = 0

    @property
    def highest_bandwidth(self) -> float:
        """The higher one of the bandwidths of copying and of reading [GB/s]."""
        return max(self.bandwidth, self.read_bandwidth or 0.0)

    def ridge(self, pipe: str = "float32") -> float:
        """Arithmetic intensity [operations/byte] above which the pipe binds, not the memory."""
        return self.rates[pipe] * 1e3 / self.bandwidth

    @property
    def sentence(self) -> str:
        """All of them on one line."""
        parts = [f"memory {self.bandwidth:,.0f} GB/s"]
        if self.read_bandwidth:
            parts.append(f"reading {self.read_bandwidth:,.0f} GB/s")
        if self.l2_bandwidth:
            parts.append(f"L2 {self.l2_bandwidth:,.0f} GB/s")
        parts += [f"{pipe} {rate:.3g} TFLOP/s" for pipe, rate in self.rates.items()]
        kind = "measured" if self.measured else "data sheet"
        return f"{self.gpu} ({kind}): {', '.join(parts)}"

    def __str__(self) -> str:
        return wrapped(self.sentence)

    __repr__ = __str__


@dataclass(frozen=True)
class Bound:
    """The least time that some work takes on a GPU.

    Attributes
    ----------
    milliseconds : float
    binding : str
        "memory", or the pipe whose time is the longest; "link" for a transfer.
    times : mapping of "memory" and each pipe to its least time [ms]
    bytes : float
    operations : mapping of a kind of operation to how many
    roofs : Roofs
    """

    milliseconds: float
    binding: str
    times: Mapping[str, float]
    bytes: float
    operations: Mapping[str, float]
    roofs: Roofs = field(repr=False)

    @property
    def intensity(self) -> float:
        """Operations a byte, of the pipes that have a roof."""
        return with_roof(self.operations) / self.bytes if self.bytes else math.inf

    @property
    def sentence(self) -> str:
        """The bound and its reason, in one line."""
        roofs = self.roofs
        if self.binding == "memory":
            why = f"{self.bytes:,.0f} bytes at {roofs.bandwidth:,.0f} GB/s"
        elif self.binding == "link":
            why = f"{self.bytes:,.0f} bytes between host and device at {roofs.link:,.4g} GB/s"
        else:
            done = sum(
                n for kind, n in self.operations.items() if _PIPE_OF.get(kind, kind) == self.binding
            )
            why = (
                f"{done:,.0f} {self.binding} operations at {roofs.rates[self.binding]:.3g} TFLOP/s"
            )
        kind = "measured" if roofs.measured else "data sheet"
        return f"at least {time_text(self.milliseconds)} on {article(roofs.gpu)}: {why} ({kind})"

    def __str__(self) -> str:
        return wrapped(self.sentence)

    __repr__ = __str__


def with_roof(operations: Mapping[str, float]) -> float:
    """How many of the operations have a roof, those of floating-point numbers."""
    return sum(amount for kind, amount in operations.items() if kind not in _WITHOUT_ROOF)


def article(gpu: str) -> str:
    """A GPU's name with its article: a Tesla T4, an H200."""
    return f"{'an' if gpu[:1] in 'AEFHILMNORSX' else 'a'} {gpu}"


def time_text(milliseconds: float) -> str:
    """A time with four digits in the unit that suits it: ns, µs, ms or s."""
    if not math.isfinite(milliseconds):
        return "no time"
    for factor, unit in ((1e-3, "s"), (1.0, "ms"), (1e3, "µs")):
        if abs(milliseconds) * factor >= 1:
            return f"{milliseconds * factor:.4g} {unit}"
    return f"{milliseconds * 1e6:.4g} ns"


# ---------------------------------------------------------------------- known GPUs
def plain_name(name: str) -> str:
    """A GPU's name as it is compared: in lower case, without the maker and the family."""
    words = re.sub(r"[^a-z0-9]+", " ", str(name).lower()).split()
    return " ".join(word for word in words if word not in ("nvidia", "geforce", "tesla"))


@functools.cache
def _table() -> tuple[dict[str, Roofs], dict[str, str]]:
    """The GPUs of ``data/gpus.csv`` by name, and the plain form of every name and alias."""
    known, names = {}, {}
    for row in table_of(data_path("gpus.csv"))[1]:
        known[row["name"]] = Roofs(
            gpu=row["name"],
            bandwidth=float(row["bandwidth"]),
            rates={pipe: float(row[pipe]) for pipe in PIPES if row[pipe]},
            l2_bytes=int(float(row["l2"]) * _MIB),
            link=float(row["link"]),
            source=row["source"],
            multiprocessors=int(row["multiprocessors"]),
        )
        for name in (row["name"], *filter(None, row["aliases"].split(";"))):
            names[plain_name(name)] = row["name"]
    return known, names


def known_gpu(name: str) -> Roofs:
    """What the vendor prints of a GPU such as "T4", "NVIDIA H200" or "RTX 4090".

    Raises
    ------
    ValueError
        When the table does not have it; a similar name is another GPU with other figures.
    """
    known, names = _table()
    plain = plain_name(name)
    if plain in names:
        return known[names[plain]]
    close = difflib.get_close_matches(plain, names, n=1, cutoff=0.7)
    other = bool(close) and (plain.startswith(close[0]) or close[0].startswith(plain))
    hint = f" Did you mean {names[close[0]]!r}?" if close and not other else ""
    raise ValueError(
        f"no figures are known of a GPU {name!r}; known: {', '.join(known)}.{hint} "
        "On the machine itself measure_roofs() measures them."
    )


def roofs_of(gpu: str | Roofs | None = None) -> Roofs:
    """The roofs of a named GPU; without a name of the GPU in this machine, else the simulated one.

    Raises
    ------
    ValueError
        When nothing is known of it.
    """
    if isinstance(gpu, Roofs):
        return gpu
    if gpu is not None:
        return known_gpu(gpu)
    from course import backend
    from warpsim.host import gpus

    return known_gpu(backend.gpu() or gpus.current().name)


# ---------------------------------------------------------------------- bounds
def kinds(operations: float | Mapping[str, float]) -> dict[str, float]:
    """Operations by kind; a number alone is of float32.

    Raises
    ------
    ValueError
        For a kind that nobody counts, or a negative amount.
    """
    given = dict(operations) if isinstance(operations, Mapping) else {"float32": operations}
    allowed = (*PIPES, *_PIPE_OF, *_WITHOUT_ROOF)
    for kind, amount in given.items():
        if kind not in allowed:
            raise ValueError(f"operations of kind {kind!r}; the kinds are {', '.join(allowed)}")
        if not amount >= 0:
            raise ValueError(f"operations: {amount} of {kind}; give a number from 0 up")
    return given


def bound(
    bytes: float, operations: float | Mapping[str, float] = 0, gpu: str | Roofs | None = None
) -> Bound:
    """The least time that some work takes: its bytes and operations at the GPU's full rates.

    Parameters
    ----------
    bytes : float
        Bytes that must come from or go to device memory, each counted once.
    operations : float or mapping
        float32 operations, or a mapping such as ``{"float64": n}``; a trace's ``operations`` fits.
        A fused multiply-add is two. Integer and special operations have no roof and are left out.
    gpu : str or Roofs, optional
        A GPU's name, or measured roofs. Without it the GPU here, else the simulated one.

    Returns
    -------
    Bound
        ``.milliseconds``, ``.binding``, ``.times``, ``.intensity``.

    Raises
    ------
    ValueError
        When the GPU is not known, a pipe has no roof on it, or an amount is negative.
    """
    if not bytes >= 0:
        raise ValueError(f"bound(bytes={bytes!r}, ...): give a number of bytes, from 0 up")
    roofs, counted = roofs_of(gpu), kinds(operations)
    times = {"memory": bytes / roofs.bandwidth * 1e-6}
    for kind, amount in counted.items():
        pipe = _PIPE_OF.get(kind, kind)
        if kind in _WITHOUT_ROOF or not amount:
            continue
        if pipe not in roofs.rates:
            raise ValueError(
                f"{article(roofs.gpu)} has no roof for {pipe}; it has {', '.join(roofs.rates)}"
            )
        times[pipe] = times.get(pipe, 0.0) + amount / roofs.rates[pipe] * 1e-9
    binding = max(times, key=times.__getitem__)
    return Bound(times[binding], binding, times, bytes, counted, roofs)


def transfer_bound(bytes: float, gpu: str | Roofs | None = None) -> Bound:
    """The least time that bytes take from the host to the device or back.

    Raises
    ------
    ValueError
        When the GPU is not known, or its link to the host.
    """
    roofs = roofs_of(gpu)
    if not roofs.link:
        raise ValueError(f"nothing is known of the link between host and {roofs.gpu}")
    milliseconds = bytes / roofs.link * 1e-6
    return Bound(milliseconds, "link", {"link": milliseconds}, bytes, {}, roofs)


def bound_of(report: Any, gpu: str | Roofs | None = None) -> Bound:
    """The bound of a traced launch: each byte it touched once, and the operations it did."""
    return bound(report.unique_bytes, report.operations, gpu)


def refuse_impossible(
    milliseconds: float,
    bytes: float | None,
    operations: float | Mapping[str, float] | None,
    roofs: Roofs,
    *,
    in_l2: bool = False,
    what: str = "the measurement",
) -> None:
    """Raise when a time is shorter than the roofs allow.

    Parameters
    ----------
    milliseconds : float
    bytes, operations : as in `bound`; None where they are not known
    roofs : Roofs
    in_l2 : bool
        The data may stay in L2, so L2's roof counts and not device memory's. Where L2 was not
        measured, no time is refused for its bytes.
    what : str
        What was measured, for the message.

    Raises
    ------
    ImpossibleFigure
        It names the rate, the roof and what usually is wrong.
    """
    if not milliseconds > 0:
        raise ImpossibleFigure(f"{what}: a time of {milliseconds!r} ms; every launch takes some")
    level, roof = "L2", roofs.l2_bandwidth
    if not in_l2:
        level, roof = "device memory", roofs.highest_bandwidth
    if bytes and roof:
        rate = bytes / milliseconds * 1e-6
        if rate > roof * (1 + SPREAD):
            raise ImpossibleFigure(
                f"{what}: {bytes:,.0f} bytes in {time_text(milliseconds)} are {rate:,.0f} GB/s, "
                f"above the {roof:,.0f} GB/s of {level} on {article(roofs.gpu)}. The kernel did "
                "not do all its work, its data was in a cache, or bytes are counted too often."
            )
    for kind, amount in kinds(operations or 0).items():
        peak = roofs.rates.get(_PIPE_OF.get(kind, kind))
        above = SPREAD if roofs.measured else FASTER_CLOCK
        rate = amount / milliseconds * 1e-9
        if peak and rate > peak * (1 + above):
            raise ImpossibleFigure(
                f"{what}: {amount:,.0f} {kind} operations in {time_text(milliseconds)} are "
                f"{rate:,.3g} TFLOP/s, above the {peak:,.3g} of that pipe on {article(roofs.gpu)}. "
                "The kernel did not do all its work, or used another pipe than was said."
            )
