"""Asynchronous copies: from global to shared memory without a register between; needs 8.0.

Before a copied element is touched, the thread that began the copy waits for it, and other threads
synchronise with it after that: all else is a ``race``.

Source: NVIDIA, PTX ISA, "Data movement and conversion instructions": cp.async.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numpy import ndarray

from warpsim.core.memory import Array
from warpsim.front.names import typing_error
from warpsim.ptx.instruction import GENERIC, SHARED, Ptx, instruction
from warpsim.ptx.memory import Accesses, unfit


# ---------------------------------------------------------------------- in the simulator
@dataclass
class Copy:
    """An asynchronous copy in flight: what to write where, and the lanes still waiting for it."""

    array: Array
    place: tuple
    values: tuple
    active: ndarray
    group: Any
    site: int
    base: int


class AsyncCopies(Accesses):
    """What the running threads copy asynchronously."""

    def copy_async(self, to: Array, index, source: Array, place, count, site, other, values=None):
        self.needs((8, 0), "an asynchronous copy (cp.async)", site)
        if to.space != "shared" or source.space != "global":
            raise typing_error(
                f"line {self.site(site).line}: an asynchronous copy goes from global to shared "
                f"memory, not from {source.space} ({source.name}) to {to.space} ({to.name})"
            )
        if values is None:
            values = self.load_vector(source, place, count, other)
        uniform, varying, bad = self._reach(to, index, count, site, "store")
        mask = self.active_part(bad)
        if not mask:
            return
        self._count_vector(to, uniform, varying, bad, count, site, "store")
        values = values if count > 1 else (values,)
        target = uniform, varying, bad
        self.copies.append(Copy(to, target, values, mask.active, self.groups, site, self.base))
        if to.root.shadow is not None:  # traced: from now on these elements may change
            if to.root.pending is None:
                to.root.pending = np.zeros(to.root.flat.size, np.int32)
            for e, value in enumerate(values):
                elements = self.elements(to, uniform + e, varying)
                if not self.conflicts_with_copy(to, elements, mask, site, "store"):
                    self.look_for_races(to, elements, mask, site, "store", value)
                to.root.pending[elements[mask.indices]] = self.base + site + 1

    def commit_copies(self, site: int) -> None:
        self.needs((8, 0), "a group of asynchronous copies (cp.async)", site)
        self.groups = self.groups + (self.mask.active if self.mask else 0)

    def wait_copies(self, most: int, site: int) -> None:
        self.needs((8, 0), "waiting for asynchronous copies (cp.async)", site)
        here, base = self.mask, self.base
        if not here:
            return
        for copy in self.copies:
            ready = copy.active & here.active & (copy.group < self.groups - most)
            if ready.any():
                copy.active = copy.active & ~ready
                self.mask, self.base = self.root.part(ready), copy.base
                if copy.array.root.pending is not None:
                    for e in range(len(copy.values)):
                        elements = self.elements(copy.array, copy.place[0] + e, copy.place[1])
                        copy.array.root.pending[elements[self.mask.indices]] = 0
                self._write(copy.array, copy.place, copy.values, copy.site)
        self.mask, self.base = here, base
        self.copies = [copy for copy in self.copies if copy.active.any()]

    def copy8_async(self, to: Array, index, source: Array, place, count, site: int) -> None:
        self.needs((8, 0), "an asynchronous copy (cp.async)", site)
        whole = np.broadcast_to(np.asarray(count), (self.lanes,))
        values = tuple(np.zeros(self.lanes, source.dtype) for _ in range(8))
        here, last = self.mask, tuple(place[:-1])
        for most in np.unique(whole[here.indices]).tolist() if here else ():
            self.mask = here.part(here.active & (whole == most))
            width = 1 if most < 8 else 8
            for e in range(0, min(most, 8), width):
                part = self.load_vector(source, (*last, place[-1] + e), width, site)
                for n, value in enumerate((part,) if width == 1 else part):
                    np.copyto(values[e + n], value, where=self.mask.active)
        self.mask = here
        if here:
            self.copy_async(to, index, source, place, 8, site, site, values)


# ---------------------------------------------------------------------- code
WAITS_FOR = "wait_copies takes a literal, 0 or more: how many groups of copies may be under way"


def _copied(name: str, to: types.Array, index, source: types.Array, place) -> str | None:
    if not to.mutable:
        return f"{name} cannot write to a read-only array"
    if to.dtype != source.dtype or to.dtype.bitwidth != 32:
        return f"{name} copies elements of 4 bytes of one type, not {source.dtype} to {to.dtype}"
    return None


def copies(count: int) -> Any:
    """Declare a copy of so many elements of 4 bytes."""
    return instruction(
        "array index array index", each=unfit, check=_copied,
        twin=AsyncCopies.copy_async, more={"count": count},
    )  # fmt: skip


@copies(1)
def copy_async(to, index, source, place):
    """``copy_async(to, index, source, place)``: begin to copy one element of 4 bytes."""
    return Ptx("cp.async.ca.shared.global [$0], [$1], 4;", spaces=(SHARED, GENERIC))


@copies(4)
def copy4_async(to, index, source, place):
    """``copy4_async(to, index, source, place)``: begin to copy four neighbours, 16 bytes."""
    return Ptx("cp.async.cg.shared.global [$0], [$1], 16;", spaces=(SHARED, GENERIC))


@instruction(
    "halves index halves index number", twin=AsyncCopies.copy8_async,
    check=lambda name, to, index, source, *rest: None if to.dtype == source.dtype else (
        f"{name} copies elements of one type, not {source.dtype} to {to.dtype}"
    ),
)  # fmt: skip
def copy8_async(to, index, source, place, count):
    """``copy8_async(to, index, source, place, count)``: begin to copy eight elements of 16 bits.

    Only the first ``count`` are read, the rest of the eight becomes 0. Both places are at multiples
    of 16 bytes. The copy is waited for as those of `copy_async`.
    """
    text = "{ .reg .b32 size; shl.b32 size, $2, 1; "
    text += "cp.async.cg.shared.global [$0], [$1], 16, size; }"
    return Ptx(text, spaces=(SHARED, GENERIC))


@instruction(twin=AsyncCopies.commit_copies)
def commit_copies():
    """``commit_copies()``: the copies begun since the last call are one group."""
    return Ptx("cp.async.commit_group;")


@instruction("literal", known=range(1 << 31), unknown=WAITS_FOR, twin=AsyncCopies.wait_copies)
def wait_copies(most):
    """``wait_copies(n)``: wait until at most the newest n groups are in flight; n is a literal."""
    return Ptx(f"cp.async.wait_group {most.literal_value};")
