"""Kernels that are compiled one after the other share Numba's work.

Much of a compilation's time is Numba's own: it infers the type of every name, then generates LLVM
IR, for a kernel and for each device function that it calls. A device function is the same for all
kernels that call it; a program with a GPU compiles it once, too. And the target makes no difference
to Numba, unless something asks for its compute capability (`ASKED`). So within
`compiled_together()` Numba compiles each kernel and each device function once. NVIDIA's compilers,
for which the target is what matters, compile every kernel for every target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from warpsim.ptx.grid_dependency import waits

#: Compute capabilities that numba-cuda asks for while it generates LLVM IR: from 6.0 on float64 has
#: atomics, from 7.5 on tanh an instruction. tests/course/compiler/test_together.py finds others.
ASKED = ((6, 0), (7, 5))
#: The one that `warpsim.ptx.bfloat16` asks for, where a kernel stores bfloat16.
ASKED_FOR_BFLOAT16 = (8, 0)
#: The one that `warpsim.ptx.grid_dependency_wait` asks for, which kernels themselves call.
ASKED_TO_FOLLOW = (9, 0)

Answers = tuple[bool, ...]


def answers(
    capability: tuple[int, int], signature: tuple[Any, ...] | None = None,
    kernel: FunctionType | None = None,
) -> Answers:  # fmt: skip
    """The answers to `ASKED` for a target: for a kernel and its argument types, or for any."""
    asked = ASKED
    if signature is None or any("bfloat16" in str(kind) for kind in signature):
        asked = (*asked, ASKED_FOR_BFLOAT16)
    if kernel is not None and waits(kernel):
        asked = (*asked, ASKED_TO_FOLLOW)
    return tuple(capability >= one for one in asked)


@dataclass
class Common:
    """What Numba has compiled already.

    Attributes
    ----------
    codes : dict
        LLVM IR of kernels as NVVM takes it, by all that it depends on.
    functions : dict
        For each result of `answers`, numba.cuda's device functions by their Python functions.
    """

    codes: dict[tuple[Any, ...], tuple[list[str], dict[str, Any]]] = field(default_factory=dict)
    functions: dict[Answers, dict[FunctionType, Any]] = field(default_factory=dict)

    def device_functions(self, capability: tuple[int, int]) -> dict[FunctionType, Any]:
        """The device functions for a target; the caller may add to them."""
        return self.functions.setdefault(answers(capability), {})


_common: ContextVar[Common | None] = ContextVar("common", default=None)
common = _common.get  # what is compiled already; None outside of `compiled_together`


@contextmanager
def compiled_together() -> Iterator[None]:
    """In this block `compiled` does only once what kernels and targets have in common."""
    token = _common.set(Common())
    try:
        yield
    finally:
        _common.reset(token)
