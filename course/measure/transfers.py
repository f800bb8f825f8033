"""How long data takes between host and device: in and out, from pinned and from pageable memory.

Pageable memory, such as an ordinary NumPy array's, is first copied to a buffer of the driver that
the GPU can reach; page-locked ("pinned") memory is reached directly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from course import backend
from course.measure.roofline import Roofs, transfer_bound
from course.measure.timing import Timing, sampled, timing_of, timing_of_bound
from warpsim.core.words import wrapped

DIRECTIONS = ("in", "out")
KINDS = ("pinned", "pageable")


@dataclass(frozen=True)
class Transfers:
    """Times of the four ways to move so many bytes; shows itself.

    Attributes
    ----------
    bytes : int
    pinned_in, pinned_out, pageable_in, pageable_out : Timing
        As the host's clock sees them, until the data is there. In: to the device.
    """

    bytes: int
    pinned_in: Timing
    pinned_out: Timing
    pageable_in: Timing
    pageable_out: Timing

    def __iter__(self) -> Iterator[Timing]:
        return iter((self.pinned_in, self.pinned_out, self.pageable_in, self.pageable_out))

    def __str__(self) -> str:
        if self.pinned_in.source == "bound":
            lines = [str(self.pinned_in)]
            lines += [f"  {t.recorded}" for t in self if t.recorded and t is not self.pinned_in]
            return wrapped("\n".join(lines))
        lines = [f"{self.bytes:,} bytes between host and {self.pinned_in.device}:"]
        for timing in self:
            lines.append(
                f"  {timing.name:<12}{timing.median:9.4f} ms{timing.gigabytes_per_second:8.2f} GB/s"
                f" (middle half {timing.q1:.4f} to {timing.q3:.4f}, n = {timing.n})"
            )
        return "\n".join(lines)

    __repr__ = __str__


def transfers(
    what: int | np.ndarray = 64 * 1024**2,
    *,
    gpu: str | Roofs | None = None,
    samples: int = 20,
    seconds: float = 0.5,
) -> Transfers:
    """Time copies between host and device.

    Parameters
    ----------
    what : int or ndarray
        So many bytes, or the bytes of an array.
    gpu : str or Roofs, optional
        Without a GPU here: whose link gives the bound; else the simulated one's.
    samples, seconds : int, float
        Of each of the four ways: at most so many samples, at least 5, in about that time.

    Returns
    -------
    Transfers
        Without a GPU the four times are the bound of the link, with what was recorded.
    """
    count = int(what.nbytes) if isinstance(what, np.ndarray) else int(what)
    if count < 1:
        raise ValueError(f"transfers({what!r}): give a number of bytes from 1 up, or an array")
    if backend.gpu() is None:
        return _bounds(count, gpu)
    from course.measure.event_clock import clock

    cuda, wall, now = backend.cuda, clock().wall, clock().now
    device = cuda.device_array(count, np.uint8)
    sources = {"pinned": cuda.pinned_array(count, np.uint8), "pageable": np.empty(count, np.uint8)}
    found: dict[str, Timing] = {}
    for kind, host in sources.items():
        host[:] = 1  # so that the pages exist
        ways = {
            "in": lambda host=host: device.copy_to_device(host),
            "out": lambda host=host: device.copy_to_host(host),
        }
        for direction, way in ways.items():
            first = wall(way)
            times = sampled(lambda way=way: wall(way), samples, seconds, now)
            found[f"{kind}_{direction}"] = timing_of(
                times, first_call=first, name=f"{kind} {direction}", device=backend.gpu(),
                bytes=count,
            )  # fmt: skip
    return Transfers(count, **found)


def _bounds(count: int, gpu: str | Roofs | None) -> Transfers:
    from course.measure.recorded import recorded

    least = transfer_bound(count, gpu)

    def of(name: str) -> Timing:
        rows = recorded("transfers", kernel="transfer", variant=name)
        nearest = min(rows, key=lambda row: abs(math.log(row.bytes / count)), default=None)
        return timing_of_bound(least, name, nearest)

    ways: dict[str, Any] = {f"{k}_{d}": of(f"{k} {d}") for k in KINDS for d in DIRECTIONS}
    return Transfers(count, **ways)
