"""What the compiler made of a kernel: the facts, by source line where that is known."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from course import toolchain
from course.occupancy import Occupancy, occupancy
from course.ptx import Instruction, float64_kind, instructions
from course.real_kernels import RealKernel
from course.simt import gpus


@dataclass(frozen=True)
class Float64Line:
    """The float64 instructions of one source line.

    Attributes
    ----------
    line : int
        Counted from the line of `def` as 1; 0 where the compiler names no line.
    code : str
        The line's text.
    function : str
        The kernel, or the device function that the line stands in.
    instructions : dict
        PTX instructions and how often each occurs: ``{"add.f64": 4, "cvt.f64.f32": 4}``.
    """

    line: int
    code: str
    function: str
    instructions: dict[str, int]

    def count(self, kind: str) -> int:
        """Instructions of a kind: "arithmetic", "conversion", "compare" or "atomic"."""
        return sum(n for name, n in self.instructions.items() if float64_kind(name) == kind)

    def __str__(self) -> str:
        listed = ", ".join(f"{n} × {name}" for name, n in self.instructions.items())
        return f"line {self.line} of {self.function}: {self.code}    {listed}"


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a kernel.

    Counts of instructions are those in the code, not those that are executed: a loop counts once,
    and as often as the compiler unrolled it.

    Attributes
    ----------
    name, signature, target : str
        The kernel, its argument types, and what it was compiled for ("sm_75").
    registers : int
        32-bit registers of a thread.
    spill_stores, spill_loads : int
        Bytes that a thread writes to and reads from local memory because registers ran out.
    shared_bytes : int
        Static shared memory of a block.
    local_bytes : int
        Local memory of a thread (its stack): arrays that are not in registers, spilled registers.
    load_widths, store_widths : dict
        ``{"global": {"f32": 10, "v4.f32": 2}}``: by memory space, instructions of each width.
    ptx : str
        The kernel in PTX.
    float64_lines : tuple of Float64Line
        The source lines with float64 arithmetic, conversions, compares or atomics, the kernel's
        first, then those of device functions. Each instruction is with the line that the compiler
        gives it; code that it moved out of a loop is with the loop's. Moves, loads and stores of
        float64 values are not counted: they take twice the bytes and no float64 unit. Note that
        ``math.sin``, ``cos`` and ``tan`` of float32 have three float64 instructions of their own,
        which run for arguments over 100,000.
    toolkit : str
        The compiler's release, such as "13.0, V13.0.88".
    """

    name: str
    signature: str
    target: str
    registers: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int
    local_bytes: int
    load_widths: dict[str, dict[str, int]]
    store_widths: dict[str, dict[str, int]]
    toolkit: str
    ptx: str
    float64_lines: tuple[Float64Line, ...]

    @property
    def spills(self) -> int:
        """Bytes of spill stores and spill loads together; 0 is what you want."""
        return self.spill_stores + self.spill_loads

    def occupancy(
        self,
        gpu: str | None = None,
        block: int | tuple[int, ...] = 256,
        dynamic_shared: int = 0,
    ) -> Occupancy:
        """How many blocks and warps of this kernel a multiprocessor holds, and what limits it.

        Parameters
        ----------
        gpu : str, optional
            "T4", "H200", ...; without it, any GPU of the target's compute capability.
        block : int or tuple
            Threads of a block, or its shape.
        dynamic_shared : int
            Bytes of dynamic shared memory of a block.

        Raises
        ------
        ValueError
            For an unknown GPU, one that does not run code for this target, or an impossible block.
        """
        capability = toolchain.capability(self.target)
        shared = self.shared_bytes + dynamic_shared
        if gpu is None:
            return occupancy(capability, block, self.registers, shared)
        model = gpus.find(gpu)
        major, minor = model.compute_capability
        if (major, minor) < capability or major != capability[0]:
            raise ValueError(
                f"the registers were counted for {self.target}; the {model.name} needs "
                f'target="sm_{major}{minor}"'
            )
        return occupancy(model, block, self.registers, shared)

    def __str__(self) -> str:
        rows = [
            f"{self.name}({self.signature}) for {self.target}",
            f"  registers      {self.registers}",
            f"  spills         {self.spill_stores} bytes stored, {self.spill_loads} loaded",
            f"  shared memory  {self.shared_bytes:,} bytes",
            f"  local memory   {self.local_bytes:,} bytes a thread",
            f"  loads          {_widths(self.load_widths)}",
            f"  stores         {_widths(self.store_widths)}",
        ]
        if not self.float64_lines:
            rows.append("  float64        none")
        rows += [f"  float64        {line}" for line in self.float64_lines]
        return "\n".join(rows)

    __repr__ = __str__


def _widths(widths: dict[str, dict[str, int]]) -> str:
    listed = [
        f"{n} × {space}.{kind}" for space, kinds in widths.items() for kind, n in kinds.items()
    ]
    return ", ".join(listed) or "none"


def has_float64(ptx: str) -> bool:
    """Whether a PTX text has any instruction that counts for `Compiled.float64_lines`."""
    return any(float64_kind(found.name) for found in instructions(ptx))


def float64_lines(ptx: str, real: RealKernel) -> tuple[Float64Line, ...]:
    """The float64 instructions of the PTX of a kernel compiled with line numbers, by line."""
    lines: dict[tuple[int, str, int], Counter[str]] = {}
    for found in instructions(ptx):
        if float64_kind(found.name):
            lines.setdefault(_place(found, real), Counter())[found.name] += 1
    return tuple(
        Float64Line(line, _code(order, line, real), function, dict(sorted(counts.items())))
        for (order, function, line), counts in sorted(lines.items())
    )


def _place(found: Instruction, real: RealKernel) -> tuple[int, str, int]:
    """Where an instruction comes from: number and name of the function, line from its `def`."""
    place = real.find(found.file, found.line)
    if place:
        order, line = place
        return order, real.origins[order].name, line
    elsewhere = len(real.origins)
    if found.file:
        return elsewhere, re.split(r"[/\\]", found.file)[-1], found.line
    kernel = real.origins[0].name
    return elsewhere, kernel if kernel in found.function else found.function, 0


def _code(order: int, line: int, real: RealKernel) -> str:
    if order < len(real.origins):
        return real.origins[order].code(line)
    return "(outside of the kernel)" if line else "(no source line)"
