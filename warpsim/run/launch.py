"""Launching: arguments in, blocks in chunks, arguments out."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from operator import attrgetter
from types import FrameType
from typing import Any

import numpy as np
from numba import types

from warpsim.code.programs import Program, program_of
from warpsim.core.interface import device_memory, memory_from
from warpsim.core.masks import Loop
from warpsim.core.memory import Array, global_array
from warpsim.core.number_types import SCALARS
from warpsim.core.operators import CONVERT
from warpsim.draw.report import Report
from warpsim.front.allocations import Pointer, declared
from warpsim.front.names import Site, typing_error
from warpsim.front.numba_typing import dtype_of, of_value, only_choice, plain, tuple_type
from warpsim.host import gpus
from warpsim.host.device import copied, never_set_elements, now_set, wait_for
from warpsim.ptx.tma import Box
from warpsim.run.gpu_arrays import Copies
from warpsim.run.other_data import judged
from warpsim.run.program_findings import findings_of, place_of
from warpsim.run.state import Dim3, geometry
from warpsim.run.threads import Threads
from warpsim.run.uninitialised import Again, Inputs
from warpsim.run.warp_scheduler import run_clusters
from warpsim.watch.access_history import Clock, Shadow, Span, spread, watch
from warpsim.watch.counts import Counters
from warpsim.watch.disputes import Disputes
from warpsim.watch.findings import Finding, KernelError
from warpsim.watch.store_flow import alike_on_any_data
from warpsim.watch.uninitialised_reads import Candidate

# ---------------------------------------------------------------------- how long it takes
PROGRESS_SECONDS = 10.0
clock = time.monotonic


class Progress:
    """How far a launch is: past 10 s a line on stderr for its blocks, and one for its loops."""

    def __init__(self) -> None:
        self.began = clock()
        # not in a notebook: its cells' output would depend on the machine
        self.tells_blocks = self.tells_loops = "ipykernel" not in sys.modules
        self.whole = False  # all blocks run at once: its outermost loop says how long that takes

    def parts(self, name: str, blocks: int, most: int) -> Iterator[tuple[int, int]]:
        """The parts of a launch, each its first block and how many."""
        self.whole = blocks <= most
        for done in range(0, blocks, most):
            passed = clock() - self.began
            if passed >= PROGRESS_SECONDS and done and self.tells_blocks:
                self.tells_blocks = False
                more = span(passed * (blocks - done) / done)
                _say(name, f"{done:,} of {blocks:,} blocks after {passed:.0f} s, about {more} more")
            yield done, min(most, blocks - done)
        self.tells_loops = False

    def look(self, name: str, frame: FrameType | None) -> None:
        """The threads are in a loop of a lane program's frame: now and then it asks for this."""
        if not self.tells_loops or (passed := clock() - self.began) < PROGRESS_SECONDS:
            return
        self.tells_loops = False
        loops: list[tuple[Loop, str]] = []  # with the function that each is in, outermost first
        while frame is not None:
            here = (one for one in frame.f_locals.values() if isinstance(one, Loop))
            going = sorted((one for one in here if not one.ended), key=attrgetter("line"))
            loops = [(one, frame.f_code.co_name) for one in going] + loops
            frame = frame.f_back
        loop, function = next((pair for pair in loops if pair[0].steps > 1), loops[-1])
        total, of = loop.total, f" of {loop.total:,}" if loop.total else ""
        where = f"line {loop.line}" + (f" of {function}" if function != name else "")
        text = f"pass {loop.steps:,}{of} of the loop in {where} after {passed:.0f} s"
        if total and self.whole and loop is loops[0][0]:
            text += f", about {span(passed * (total - loop.steps) / loop.steps)} more"
        _say(name, text)


def _say(name: str, text: str) -> None:
    print(f"warpsim: {name}: {text}", file=sys.stderr, flush=True)


def span(seconds: float) -> str:
    """A time in the unit that people would say it in."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


# ---------------------------------------------------------------------- a launch
#: Lanes that run in step: enough to pay for NumPy's overhead, few enough to stay in the cache.
CHUNK_LANES = 16_384

NO_CONFIGURATION = (
    "Kernel launch configuration was not specified. Use the syntax:\n\n"
    "kernel_function[blockspergrid, threadsperblock](arg0, arg1, ..., argN)"
)


# glibc takes a large block that is freed for a sign: from then on it keeps memory up to that size,
# which each statement of a launch frees and asks for again, instead of handing its pages back. Page
# faults took up to 40% of a launch.
np.empty(1 << 24, np.uint8)


@dataclass
class Launch:
    """What all chunks of one launch share."""

    name: str
    gpu: gpus.GPU
    sites: tuple[Site, ...]
    dynamic_shared: int
    debug: bool
    counters: Counters | None
    findings: dict[tuple[str, Site], Finding] = field(default_factory=dict)
    candidates: dict[Site, Candidate] = field(default_factory=dict)  # reads of nothing written
    signature: tuple[types.Type, ...] = ()
    captured: dict[int, Array] = field(default_factory=dict)  # device arrays from outside
    inputs: Inputs | None = None  # kept for other runs
    clock: Clock | None = None
    shadows: dict[int, Shadow] = field(default_factory=dict)
    disputes: Disputes = field(default_factory=Disputes)
    progress: Progress = field(default_factory=Progress)
    spans: list[Span] = field(default_factory=list)  # memory that is watched for races
    passes: int = 0  # of loops that have ended
    program: Program | None = None
    one_thread: bool = False  # nothing can race

    def is_settled(self, site: Site) -> bool:
        """Whether what a place stores unordered is the same on any data, as the source says."""
        alone = all(span.arrays == 1 for span in self.spans)  # no element has two names
        if not alone or site.function != self.name:
            return False
        if self.program.alike is None:
            self.program.alike = alike_on_any_data(self.program.source, program_of)
        return site.array.split("[")[0] in self.program.alike

    def watch(self, names: frozenset[str], arguments: dict[str, Any]) -> None:
        """Look for races in the arrays that the kernel may change; what is set in any of them."""
        if not self.one_thread:
            watch(self.spans, names, arguments)
        for _, array in spread(arguments.items()):
            array.written = never_set_elements(array.flat)
        self.shadows.update((id(span.shadow), span.shadow) for span in self.spans)


# ---------------------------------------------------------------------- configuration
def dimensions(value: Any, name: str) -> Dim3:
    """A grid or block shape as three integers."""
    sizes = list(value) if isinstance(value, tuple | list) else [value]
    if value is None:
        raise ValueError(NO_CONFIGURATION)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {sizes!r}")
    if not all(isinstance(size, Integral) for size in sizes):
        raise TypeError(f"{name} must be a sequence of integers, got {sizes!r}")
    return (*map(int, sizes), 1, 1)[:3]


def check_configuration(grid: Dim3, block: Dim3, dynamic_shared: int, gpu: gpus.GPU) -> None:
    """Refuse what the GPU refuses."""
    threads = math.prod(block)
    if min(grid) < 1 or min(block) < 1:
        raise ValueError(f"every dimension must be at least 1: grid {grid}, block {block}")
    if threads > gpu.threads_per_block:
        raise ValueError(
            f"{threads:,} threads in a block of {block}: a GPU allows {gpu.threads_per_block:,}; "
            "use smaller blocks and more of them"
        )
    if block[2] > 64:
        raise ValueError(f"block {block}: the third dimension is at most 64")
    if grid[0] > 2**31 - 1 or max(grid[1:]) > 65_535:
        raise ValueError(f"grid {grid}: at most 2,147,483,647 by 65,535 by 65,535 blocks")
    if dynamic_shared > gpu.shared_per_block:
        raise ValueError(
            f"{dynamic_shared:,} bytes of dynamic shared memory: a {gpu.name} has "
            f"{gpu.shared_per_block:,} for a block"
        )


def most_at_once(block: Dim3, gpu: gpus.GPU) -> int:
    """How many blocks of a shape run at once."""
    return gpu.multiprocessors * (gpu.threads_per_multiprocessor // math.prod(block))


# ---------------------------------------------------------------------- arguments
class Arguments:
    """Arguments of a launch: their types, their values in the kernel, and results' copies."""

    def __init__(self, names: list[str], values: tuple):
        self.names = names
        self.given = values
        self.back: list[Callable[[], None]] = []
        taken = [self.take(value, self._name(n)) for n, value in enumerate(values)]
        self.types: list[types.Type] = [kind for kind, _ in taken]
        self.values: list[Any] = [value for _, value in taken]

    #: Of what lies on a real GPU, made when the first such array comes.
    gpu = cached_property(lambda self: Copies(self.given))

    def _name(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else f"argument {position}"

    def take(self, value: Any, name: str) -> tuple[types.Type, Any]:
        direction = getattr(value, "direction", None)  # cuda.In, cuda.Out, cuda.InOut
        if direction in ("in", "out", "inout"):
            value = value.value
        if hasattr(value, "swizzle"):  # a tensor map
            array = self.take(value.array, name)[1]
            return value._numba_type_, Box(array, value.box, value.swizzle)
        if hasattr(value, "_memory"):
            kind, array = self._array(value._memory, name)
            return (kind.dtype if value.is_record else kind), array
        if isinstance(value, np.void) and value.dtype.names is not None:
            record = np.array(value)
            if direction != "in" and value.flags.writeable:
                for part in value.dtype.names:
                    self.back.append(lambda part=part: value.__setitem__(part, record[part]))
            kind, array = self._array(record, name)
            return kind.dtype, array
        if isinstance(value, np.ndarray):
            if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
                raise typing_error(
                    "Unsupported array type: numpy.ma.MaskedArray.\n\n"
                    f"argument {name!r}: fill what is masked first, with .filled(0)"
                )
            copy = copied(value, f"argument {name!r}")
            if value.flags.writeable and direction != "in":
                self.back.append(lambda: np.copyto(value, copy))
            copy.flags.writeable = value.flags.writeable
            return self._array(copy, name)
        if hasattr(value, "__cuda_array_interface__"):
            memory = device_memory(value)
            if memory is not None:
                wait_for(value.__cuda_array_interface__)
                return self._array(memory, name)
            copy = self.gpu.of(value)  # of an array on a real GPU; it goes back at the end
            before = copy.tobytes()
            self.back.append(lambda: Copies.back(value, copy, before))
            return self._array(copy, name)
        if isinstance(value, tuple):
            parts = [self.take(part, f"{name}[{i}]") for i, part in enumerate(value)]
            kinds = [kind for kind, _ in parts]
            return tuple_type(value, kinds), tuple(inside for _, inside in parts)
        if value is None:
            raise NotImplementedError(
                f"argument {name!r} is None: no kernel takes that; give a number, or another kernel"
            )
        kind = of_value(value)
        if isinstance(kind, types.EnumMember):
            return kind, self.take(value.value, name)[1]
        if kind is None or not isinstance(kind, SCALARS):
            raise TypeError(
                f"argument {name!r} is a {type(value).__name__}: a kernel takes arrays (NumPy or "
                "device), numbers and tuples of them"
            )
        return kind, CONVERT[kind](value)

    def _array(self, memory: np.ndarray, name: str) -> tuple[types.Type, Array]:
        kind = of_value(memory)
        if kind is None:
            mends = memory.dtype.byteorder == ">" or memory.dtype.kind == "O"
            cure = "; convert it with .astype(...)" if mends else ""
            raise TypeError(
                f"argument {name!r} is an array of {memory.dtype!r}, which a kernel cannot take"
                f"{cure}"
            )
        if not memory.flags.writeable:
            kind = kind.copy(readonly=True)  # as in Numba, no kernel may change it
        return kind, global_array(memory, name)

    def _misfit(self, signature: tuple, exact: bool = False, alone: bool = True) -> int | None:
        """The first argument that an explicit signature, ``alone`` or one of several, takes not.

        None if it takes all; if their number differs, the one after the last.
        """
        if len(signature) != len(self.types):
            return len(self.types)
        pairs = enumerate(zip(self.types, signature, self.values, strict=True))
        return next((i for i, pair in pairs if not _is_taken(*pair, exact, alone)), None)

    def match(self, signatures: list[tuple[types.Type, ...]], program: Program) -> None:
        """Choose among explicit signatures as a launch does, and convert to its types."""
        if not signatures:
            return
        exact = [one for one in signatures if self._misfit(one, exact=True) is None]
        alone = len(signatures) == 1
        near = [one for one in signatures if self._misfit(one, alone=alone) is None]
        if len(near) > 1 and not exact:
            given = tuple(map(plain, self.types))
            near = near[only_choice(program.source.function, tuple(near), given) or 0 :]
        self.convert((exact or near or signatures)[0], alone)

    def convert(self, signature: tuple[types.Type, ...], alone: bool = True) -> None:
        number = self._misfit(signature, alone=alone)
        if number is not None:
            given = ", ".join(map(str, self.types))
            text = f"the signature has {len(signature)}, {len(self.types)} are given"
            if len(signature) == len(self.types):
                text = f"argument {self._name(number)!r} is {self.types[number]}, the signature "
                text += f"says {signature[number]}; no array is converted at a launch, neither its "
                text += "elements nor its layout (C, F or A)"
            raise TypeError(f"No matching definition for argument type(s) {given}: {text}")
        for i, (given, wanted) in enumerate(zip(self.types, signature, strict=True)):
            whole = isinstance(plain(given), types.Integer | types.Boolean)
            if isinstance(wanted, types.Integer) and not whole:
                raise TypeError(
                    f"argument {self._name(i)!r} is a {plain(given)}, the signature says {wanted}: "
                    "Numba converts no such number at a launch; give int(...)"
                )
            if isinstance(wanted, Pointer) and isinstance(given, types.Integer):
                memory = memory_from(self.values[i], dtype_of(wanted.dtype))
                self.types[i] = wanted
                self.values[i] = Array(memory, memory.shape, (1,), "global", self._name(i))
            if isinstance(given, types.Array) and given.dtype != wanted.dtype:
                array = self.values[i]
                place = array.shape, array.strides, "global", array.name, array.offset
                self.values[i] = Array(array.flat.view(dtype_of(wanted.dtype)), *place)
                self.values[i].address = array.address
            if isinstance(wanted, types.Array):
                self.types[i] = wanted  # what a kernel knows of it is its signature
            if wanted in CONVERT and plain(given) != wanted:
                self.values[i] = CONVERT[wanted](self.values[i])
                self.types[i] = wanted


def _is_taken(given: types.Type, wanted: types.Type, value: Any, exact: bool, alone: bool) -> bool:
    """May an argument be given where an explicit signature says a type?"""
    if isinstance(wanted, Pointer) and isinstance(given, types.Integer):
        return True
    if isinstance(given, types.Array) and isinstance(wanted, types.Array):
        own, other = given.dtype, wanted.dtype
        whole = isinstance(own, types.Integer) and isinstance(other, types.Integer)
        # a compiled kernel does not look at its arrays' elements
        like = alone and not exact and whole and own.bitwidth == other.bitwidth
        same = own == other or like
        writes = given.mutable or not wanted.mutable
        return given.ndim == wanted.ndim and same and writes and _lies(value, wanted.layout)
    return _convertible(plain(given), wanted) and (not exact or plain(given) == wanted)


def _convertible(given: types.Type, wanted: types.Type) -> bool:
    """May a number, or a tuple of numbers, be given for another? Nothing else is converted."""
    if isinstance(given, types.BaseTuple) and isinstance(wanted, types.BaseTuple):
        return len(given) == len(wanted) and all(map(_convertible, given, wanted))
    numbers = types.Number | types.Boolean
    lost = isinstance(given, types.Complex) and not isinstance(wanted, types.Complex)
    both = isinstance(given, numbers) and isinstance(wanted, numbers)
    return given == wanted or (both and not lost)


def _lies(array: Array, layout: str) -> bool:
    """Do the elements lie as a layout says? Axes of one element do not count."""
    step, axes = 1, list(zip(array.shape, array.strides, strict=True))
    for size, stride in axes if layout == "F" else axes[::-1]:
        if size != 1 and stride != step and 0 not in array.shape:
            return layout == "A"
        step *= size
    return True


def types_of(values: tuple) -> tuple[types.Type, ...]:
    """The types of some arguments in a kernel."""
    return tuple(Arguments([], values).types)


def signatures_of(kernel: Any) -> list[tuple[types.Type, ...]]:
    """The explicit signatures of a kernel, the simulator's or one of numba.cuda."""
    if hasattr(kernel, "declared"):
        return kernel.declared
    compiles = getattr(kernel, "_can_compile", True)
    return [] if compiles else [tuple(map(declared, kinds)) for kinds in kernel.overloads]


def taken_by(kernel: Any, values: tuple) -> Arguments:
    """The arguments as a launch takes them, matched to the kernel's explicit signatures.

    TypeError where a launch would refuse them; it names the argument and both types.
    """
    program = program_of(kernel)
    taken = Arguments(program.arguments, program.packed(values))
    taken.match(signatures_of(kernel), program)
    return taken


# ---------------------------------------------------------------------- running
def run_kernel(
    kernel: Any, grid: Any, block: Any, arguments: tuple, dynamic_shared: int = 0,
    counters: Counters | None = None, gpu: gpus.GPU | None = None, debug: bool = False,
) -> Launch:  # fmt: skip
    """Run a kernel on all threads; arrays get their new values only if all went well."""
    gpu = gpu or gpus.current()
    grid, block = dimensions(grid, "griddim"), dimensions(block, "blockdim")
    check_configuration(grid, block, dynamic_shared, gpu)
    program = program_of(kernel)
    taken = taken_by(kernel, arguments)
    kinds = tuple(taken.types)
    checked = debug and not getattr(kernel, "targetoptions", {}).get("fastmath")
    costs = counters is not None and counters.costs
    lanes = program.lane_program(kinds, counters is not None, False, checked, costs)
    launch = Launch(lanes.name, gpu, lanes.sites, dynamic_shared, debug, counters)
    launch.signature, launch.program = kinds, program
    named = dict(zip(taken.names, taken.values, strict=True))
    launch.one_thread = math.prod(grid) * math.prod(block) == 1
    launch.disputes.thorough = program.loads_unordered
    padded = -(-math.prod(block) // 32) * 32
    blocks, chunk = math.prod(grid), max(1, CHUNK_LANES // padded)
    if lanes.by_warp and blocks % lanes.cluster:
        raise ValueError(f"{blocks:,} blocks are no whole clusters of {lanes.cluster}")
    if lanes.cooperative:
        if blocks > (most := most_at_once(block, gpu)):
            raise ValueError(
                f"{lanes.name} waits for the whole grid, so all {blocks:,} blocks must run at "
                f"once; a {gpu.name} runs at most {most:,} of {math.prod(block)} threads"
            )
        chunk = blocks
    elif lanes.locks:  # who holds a lock is a block that has ended
        chunk = 1
    if counters is not None:
        try:
            launch.clock = Clock(blocks, padded)
        except MemoryError:
            raise MemoryError(
                f"{lanes.name}: a trace remembers something of each of its {blocks:,} blocks, more "
                "than this machine has memory for; trace fewer, which do the same"
            ) from None
        counters.keep_by_thread(blocks, math.prod(block), padded)
        counters.sites, counters.barriers = lanes.sites, launch.clock.block
        launch.watch(program.stored, named)
        if not lanes.by_warp:
            launch.inputs = Inputs(taken.names, taken.values, program.stored)
    try:
        with np.errstate(all="ignore"):
            if lanes.by_warp:
                run_clusters(launch, lanes, grid, block, taken.values)
            for part in () if lanes.by_warp else launch.progress.parts(launch.name, blocks, chunk):
                lanes.run(Threads(launch, geometry(grid, block, *part)), *taken.values)
            starts = range(0, blocks, chunk)
            parts = [(grid, block, first, min(chunk, blocks - first)) for first in starts]
            if launch.candidates:
                launch.findings.update(Again(launch, lanes.run, parts).findings())
            if launch.disputes.told or launch.disputes.harmless:
                launch.findings = judged(launch, lanes.run, parts)
    except KernelError as error:
        error.module = program.source.function.__module__
        error.place = place_of(error.finding, program.source)[:2]
        raise error.with_traceback(None) from None
    if counters is None:
        changed = [array for name, array in spread(named.items()) if name in program.stored]
        for array in (*changed, *launch.captured.values()):
            now_set(array.flat)
    for copy_back in taken.back:
        copy_back()
    return launch


def trace(
    kernel: Any, grid: Any, block: Any, *args: Any, dynamic_shared: int = 0, gpu: str | None = None
) -> Report:
    """Simulate a launch, count what it does, and look for mistakes.

    Parameters
    ----------
    kernel
        A kernel of the simulator or of ``numba.cuda``, or its plain function.
    grid, block : int or tuple of int
        As at a launch.
    *args
        As at a launch: NumPy arrays are copied in and back, device arrays are used.
    dynamic_shared : int
        Bytes of dynamic shared memory.
    gpu : str, optional
        The GPU whose limits are kept, such as ``"H200"``.

    Returns
    -------
    Report
        Never raises for a finding: bad stores are dropped, bad loads give NaN or the type's
        largest value.
    """
    counters = Counters()
    chosen = gpus.find(gpu) if gpu is not None else None
    launch = run_kernel(kernel, grid, block, args, dynamic_shared, counters, chosen)
    return Report(launch.name, counters, findings_of(launch), program_of(kernel).source.text)
