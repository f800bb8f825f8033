"""What the compiler makes of a kernel: facts of its machine code, without a GPU.

`compiled` runs NVIDIA's own compilers, as a launch on a GPU does, and reads what they say:
registers, spills, shared memory, float64 instructions by line, widths of loads and stores, and
from these the occupancy. It needs the extra ``compile`` and no GPU and no installed toolkit.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from course import successor
from course.compiler import toolchain
from course.compiler.arguments import arguments_of, function_of, parameters_of
from course.compiler.ptx import (
    Instruction,
    access_widths,
    float64_kind,
    instructions,
    resources,
    shared_bytes,
)
from course.compiler.real_kernels import RealKernel, origin
from course.compiler.together import answers, common
from course.compiler.toolchain import CompilerError, CompilerMissing
from course.measure.occupancy import Occupancy, occupancy
from warpsim.core.words import wrapped
from warpsim.host import gpus

__all__ = ["Compiled", "CompilerError", "CompilerMissing", "Float64Line", "compiled"]


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
        self, gpu: str | None = None, block: int | tuple[int, ...] = 256, dynamic_shared: int = 0
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
        return wrapped("\n".join(rows), hanging=" " * 17)

    __repr__ = __str__


def _widths(widths: dict[str, dict[str, int]]) -> str:
    listed = [
        f"{n} × {space}.{kind}" for space, kinds in widths.items() for kind, n in kinds.items()
    ]
    return ", ".join(listed) or "none"


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


# ---------------------------------------------------------------------- compiling
_Key = tuple[tuple[Any, ...], str, bool, int | None, Any, bool]
_compiled: weakref.WeakKeyDictionary[FunctionType, dict[_Key, Compiled]]
_compiled = weakref.WeakKeyDictionary()


def compiled(
    kernel: Any,
    args_or_signature: Any = None,
    target: str = "sm_75",
    *,
    max_registers: int | None = None,
    fastmath: bool | None = None,
) -> Compiled:
    """Compile a kernel as a launch on a GPU would, and say what came out; needs no GPU.

    Parameters
    ----------
    kernel : kernel or function
        Of the simulator, of numba.cuda, or a function that could be decorated with ``@cuda.jit``.
    args_or_signature : tuple, Signature or str
        Arguments as at a launch (arrays, numbers), Numba types, or a signature such as
        ``"void(float32[:, :], float32[:])"``. Not needed where the kernel was declared with one.
    target : str
        "sm_75" (Tesla T4), "sm_80" (A100), "sm_89" (L4), "sm_90" (H100, H200), ...
    max_registers, fastmath : optional
        As for ``cuda.jit``; without them, those that the kernel was declared with. Link-time
        optimisation (``lto``) is always as the kernel was declared.

    Returns
    -------
    Compiled
        Cached: the same kernel, types and target are not compiled twice.

    Raises
    ------
    CompilerMissing
        Without NVIDIA's compilers (extra ``compile``), or when they are of several CUDA releases.
    CompilerError
        When NVIDIA's linker refuses the kernel.
    NoSource
        For a lambda, and for a function whose source cannot be found.
    numba.core.errors.TypingError
        When the kernel does not compile with these types.
    TypeError, ValueError
        For something that is not a kernel, other arguments than it takes, or an unknown target.
    """
    made = _making(kernel, args_or_signature, target, fastmath)
    if max_registers is None:
        max_registers = function_of(kernel)[1].get("max_registers")
    known = _compiled.setdefault(made.function, {})
    key = (made.signature, target, made.fastmath, max_registers, made.launch_bounds, made.lto)
    if key not in known:
        known[key] = made.facts(max_registers)
    return known[key]


def unlinked_ptx(kernel: Any, args_or_signature: Any = None, target: str = "sm_75") -> str:
    """The PTX of a kernel as NVVM writes it, with no library and before the linker optimises it.

    Parameters and errors as of `compiled`.
    """
    made = _making(kernel, args_or_signature, target)
    return replace(made, lto=False).codes()[0].decode()


def _making(
    kernel: Any, args_or_signature: Any, target: str, fastmath: bool | None = None
) -> _Making:
    function, options = function_of(kernel)
    source = origin(function)
    wanted = parameters_of(function, source.name)
    toolchain.capability(target)
    toolchain.require()
    signature = arguments_of(kernel, args_or_signature)
    if len(signature) != len(wanted):
        raise TypeError(
            f"{source.name} takes {len(wanted)} arguments ({', '.join(wanted)}), "
            f"{len(signature)} given"
        )
    toolchain.check_supported(target)
    fast = bool(options.get("fastmath") if fastmath is None else fastmath)
    bounds, lto = options.get("launch_bounds"), options.get("lto") is not False
    if successor.is_chosen():  # it optimises at link time only where that is asked for
        lto = bool(options.get("lto"))
    return _Making(function, signature, target, fast, bounds, lto)


@dataclass(frozen=True)
class _Making:
    """One kernel on its way through the compilers."""

    function: FunctionType
    signature: tuple[Any, ...]
    target: str
    fastmath: bool
    launch_bounds: Any
    lto: bool = True

    def facts(self, max_registers: int | None) -> Compiled:
        name, codes = self.function.__name__, self.codes()
        ptx = toolchain.linked_ptx(codes, name, self.target) if self.lto else codes[0].decode()
        sync = "cudaCGSynchronize" in ptx
        log = toolchain.link(codes, name, self.target, max_registers, sync, lto=self.lto)
        used = resources(log)
        lines: tuple[Float64Line, ...] = ()
        if any(float64_kind(found.name) for found in instructions(ptx)):
            lines = float64_lines(*self.with_lines(uses_libraries=len(codes) > 1))
        release = re.search(r"release ([^\n]+)", ptx)
        return Compiled(
            name=name,
            signature=", ".join(map(str, self.signature)),
            target=self.target,
            registers=used.registers,
            spill_stores=used.spill_stores,
            spill_loads=used.spill_loads,
            shared_bytes=used.shared if self.lto else shared_bytes(ptx),
            local_bytes=used.stack,
            load_widths=access_widths(ptx, "ld"),
            store_widths=access_widths(ptx, "st"),
            toolkit=release[1].strip() if release else "unknown",
            ptx=ptx,
            float64_lines=lines,
        )

    def codes(self) -> list[bytes]:
        """The linker's input: LTO-IR, or PTX without `lto`."""
        there, capability = common(), toolchain.capability(self.target)
        if there is None or successor.is_chosen():
            return self._translated(RealKernel(self.function), self.lto)
        options = self.fastmath, self.launch_bounds, self.lto
        asked = answers(capability, self.signature, self.function)
        key = self.function, self.signature, options, asked
        if key in there.codes:
            return [toolchain.translate(*there.codes[key], self.target)]
        with toolchain.translations() as made:
            functions = there.device_functions(capability)
            codes = self._translated(RealKernel(self.function, functions=functions), self.lto)
        if len(codes) == len(made) == 1:  # a library's code would depend on the target
            there.codes[key] = made[0]
        return codes

    def _translated(self, real: RealKernel, lto: bool, **lines: bool) -> list[bytes]:
        given = {"fastmath": self.fastmath, "launch_bounds": self.launch_bounds, **lines}
        return toolchain.compile_kernel(real.function, self.signature, self.target, lto, **given)

    def with_lines(self, uses_libraries: bool) -> tuple[str, RealKernel]:
        """PTX with line numbers, compiled besides what is measured: a launch has no line numbers.

        A library's debug information does not link with Numba's, so the PTX of a kernel that uses
        one is taken before linking. With numba-cuda-mlir linking loses all line numbers.
        """
        real = RealKernel(self.function, lineinfo=True)
        lto = not (uses_libraries or successor.is_chosen())
        with real.readable():
            codes = self._translated(real, lto, lineinfo=True)
        name = self.function.__name__
        return toolchain.linked_ptx(codes, name, self.target) if lto else codes[0].decode(), real
