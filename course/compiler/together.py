"""What kernels that are compiled one after the other have in common, done once.

Much of a compilation's time is Numba's own: it finds the type of every name, then writes LLVM's
code, of a kernel and of each device function that it calls. A device function is the same for all
kernels that call it; a program with a GPU compiles it once, too. And no target makes a difference
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

#: What numba-cuda asks for while it writes LLVM's code: from 6.0 on float64 has atomics, from 7.5
#: on tanh an instruction. tests/course/compiler/test_together.py looks for others.
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
    """What Numba learns of a target: for a kernel and its argument types, or for all there are."""
    asked = ASKED
    if signature is None or any("bfloat16" in str(kind) for kind in signature):
        asked = (*asked, ASKED_FOR_BFLOAT16)
    if kernel is not None and waits(kernel):
        asked = (*asked, ASKED_TO_FOLLOW)
    return tuple(capability >= one for one in asked)


@dataclass
class Common:
    """What is there already.

    Attributes
    ----------
    codes : dict
        LLVM's code of kernels as NVVM takes it, by all that it depends on.
    functions : dict
        numba.cuda's device functions, by the functions they are made of; by `answers`.
    """

    codes: dict[tuple[Any, ...], tuple[list[str], dict[str, Any]]] = field(default_factory=dict)
    functions: dict[Answers, dict[FunctionType, Any]] = field(default_factory=dict)

    def device_functions(self, capability: tuple[int, int]) -> dict[FunctionType, Any]:
        """Those for a target, to be added to."""
        return self.functions.setdefault(answers(capability), {})


_common: ContextVar[Common | None] = ContextVar("common", default=None)
common = _common.get  # what is there already, within `compiled_together`


@contextmanager
def compiled_together() -> Iterator[None]:
    """`compiled` does in this block what kernels and targets have in common once."""
    token = _common.set(Common())
    try:
        yield
    finally:
        _common.reset(token)
