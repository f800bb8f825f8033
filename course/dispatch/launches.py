"""Launches: a kernel, how it is launched, and with what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from course import backend
from course.dispatch import prepared

STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block has without asking for more


class Launch(NamedTuple):
    """A kernel and how it is launched."""

    kernel: Any  # as `cuda.jit` made it
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: tuple  # device arrays or array slots, tensor maps, scalars
    shared: int = 0  # bytes of dynamic shared memory of a block
    early: bool = True  # programmatic dependent launch, if the kernel waits for the launch before

    @property
    def shape(self) -> tuple[int, ...]:
        """Three numbers of the grid and three of the block, and bytes of shared memory."""
        parts = (one if isinstance(one, tuple) else (one,) for one in (self.grid, self.block))
        sizes = (size for part in parts for size in (*part, 1, 1)[:3])
        return (*map(int, sizes), int(self.shared))

    def allow_shared(self) -> None:
        """Allow the kernel its shared memory; RuntimeError when the driver refuses so much."""
        # 1 KiB less: the kernel's barriers and the alignment of dynamic memory come on top
        if self.shared > STATIC_SHARED - 1024 and backend.gpu() is not None:
            types = tuple(prepared.type_of(one, self.kernel) for one in self.arguments)
            prepared.allow_shared(self.kernel, types, self.shared)

    def configured(self, stream: Any = 0) -> Callable[..., None]:
        """The kernel with its launch configuration, to be called with the arguments."""
        if backend.successor.is_chosen() and backend.gpu() is not None:
            return prepared.Configured(self, stream)
        self.allow_shared()
        return self.kernel[self.grid, self.block, stream, self.shared]

    def prepared(self, slots: Any) -> prepared.PreparedLaunch:
        """The launch with all parameters prepared but the addresses in its slots."""
        early = prepared.attributes_behind(self.kernel) if self.early else ()
        return prepared.PreparedLaunch(self, slots, early)

    def on(self, stream: Any = 0) -> None:
        """Launch by Numba on one of its streams; 0 is the default stream."""
        self.configured(stream)(*self.arguments)


def configured(launches: Iterable[Launch], stream: Any = 0) -> list[tuple[Callable, tuple]]:
    """For launches that repeat: each kernel with its configuration, and its arguments."""
    return [(one.configured(stream), one.arguments) for one in launches]


def one_call(calls: Sequence[tuple[Callable, tuple]], given: Sequence[Any]) -> Callable:
    """All calls of `configured` as one function of `given`, the arguments that they were made for.

    A benchmark passes alternating copies of the data, so that L2 never holds what a call reads.
    """
    places = {id(argument): place for place, argument in enumerate(given)}
    if len(calls) == 1 and [*map(id, calls[0][1])] == [*places]:
        return calls[0][0]

    def call(*arguments: Any) -> None:
        for launch, own in calls:
            launch(*(arguments[places[id(a)]] if id(a) in places else a for a in own))

    return call
