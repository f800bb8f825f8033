"""The entry point of functions that users call: read the arrays, find or make a plan, launch.

>>> SOFTMAX = EntryPoint("softmax", ("x",), _result, _launches, options=("method",))
>>> SOFTMAX.call((x,), ("registers",), out=None, stream=None)

`_result(x, method)` checks the arguments and returns the result's shape and dtype. `_launches(x,
out, method=method)` returns the launches. Both run once for arrays that look alike, with
`ArrayFacts` and `ArraySlot`s, and a plan prepares the launches, see `course.dispatch.prepared`. In
the simulator, and where Numba's internals are not as expected, launches cannot be prepared: there
`_launches` runs in each call, with the arrays, and Numba launches.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from course import backend
from course.dispatch import prepared
from course.dispatch.array_facts import DLPACK_IMPORTERS, READERS, ArrayFacts, reader_of
from course.dispatch.overlaps import without_overlap
from course.dispatch.plans import Array, CallFacts, HostPlan, NumbaPlan, PreparedPlan
from course.dispatch.slots import name_of
from warpsim.ptx.bfloat16 import BFLOAT16
from warpsim.ptx.tma import CannotEncode

Result = tuple[tuple[int, ...], Any]  # shape, dtype
#: A stream of CuPy, PyTorch or numba.cuda, or the driver's handle; None: the library's current one.
Stream = Any

LIBRARIES = "NumPy, CuPy, PyTorch or numba.cuda"
MASKED = "{0} is a masked array, and kernels see no mask: fill what is masked first, {1}"
MOST_PLANS = 512  # an entry point drops the oldest of its plans, a thread all of them
ALIGNMENT_MASK = 15  # the bits of an address that a plan depends on: the address modulo 16


class EntryPoint:
    """Takes the arrays of a user's call to the kernels of one public function.

    Parameters
    ----------
    name : str
        Of the public function.
    names : sequence of str
        Of its arrays; results have the library and the device of the first one.
    result : callable
        ``result(*facts, *options)`` checks its arguments and returns (shape, dtype), or a list of
        these, None for a result that is not wanted. It gets `ArrayFacts`, None for no array.
    launches : callable
        ``launches(*arrays, *results, **options)`` returns the launches, each a
        `course.dispatch.launches.Launch`. Further memory is `course.dispatch.slots.workspace`'s.
        It is not called for a first array without elements, unless `empty` is set.
    options : sequence of str
        Names of the options, by which `launches` is given them.
    optional : sequence of str
        Names of arrays that may be None.
    part : callable, optional
        ``part(arrays, options)`` returns the parts of host arrays that must be copied to the GPU.
    scalar : bool
        The result is one element, returned as the library returns scalars.
    empty : bool
        A first array without elements needs launches, too.
    whole : bool
        `launches` does the work itself, on the default stream, and returns nothing.
    in_place : sequence of str
        Names of arrays that `out` may be: each element is read before it is written.
    packs : bool
        Launches may be prepared, because `launches` does nothing between them.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        result: Callable[..., Any],
        launches: Callable[..., Any],
        optional: Sequence[str] = (),
        part: Callable[..., Any] | None = None,
        scalar: bool = False,
        empty: bool = False,
        whole: bool = False,
        packs: bool = True,
        in_place: Sequence[str] = (),
        options: Sequence[str] = (),
    ):
        self.name, self.names, self.result, self.launches = name, tuple(names), result, launches
        self.optional, self.part, self.in_place = tuple(optional), part, tuple(in_place)
        self.scalar, self.empty, self.whole = scalar, empty, whole
        self.options = tuple(options)
        self.packs = packs and not whole
        self.plans: dict[tuple, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        #: What the public function calls: ``call(arrays, options, out, stream)``.
        self.call = self._called()

    # ------------------------------------------------------------------ every call
    def _called(self) -> Callable[..., Any]:
        """Make `EntryPoint.call`: a closure, since looking up attributes would cost each call."""
        plans, readers, planned, own = self.plans, READERS, self._planned, _Own()

        def call(
            arrays: tuple[Array | None, ...],
            options: tuple = (),
            out: Array | None = None,
            stream: Stream = None,
        ) -> Any:
            key, addresses, together = [options], [], 0
            for array in arrays if out is None else (*arrays, out):
                read = readers.get(type(array))
                if read is None:  # the first array of its type
                    return self._call_with_new_type(arrays, options, out, stream)
                facts, address = read(array)
                key.append(facts)
                addresses.append(address)
                together |= address
            if together & ALIGNMENT_MASK:
                key.append(tuple(address & ALIGNMENT_MASK for address in addresses))
            try:
                if key != own.key:  # comparing with the last key costs less than a look-up
                    own.plan = own.made.get(tuple(key)) or own.found(plans, tuple(key))
                    own.key = key
                plan = own.plan
            except (KeyError, TypeError, ValueError, RuntimeError):  # no plan, or an unhashable key
                plan = None
            if plan is None:  # outside of the handler, so that a refusal shows no chained error
                plan = planned(tuple(key), len(addresses))
            return plan(arrays, addresses, out, stream)

        return call

    # ------------------------------------------------------------------ the first call
    def _planned(self, key: tuple, count: int) -> Callable[..., Any]:
        """Check the `count` arrays and the options of a key, make its plan and store it."""
        options, facts, alignment = key[0], key[1 : 1 + count], key[1 + count :]
        arrays = [None if one is None else ArrayFacts(one) for one in facts]
        has_out = len(arrays) > len(self.names)
        names = (*self.names, "out")[: len(arrays)]
        for one, name in zip(arrays, names, strict=True):
            if one is None and name not in self.optional:
                raise TypeError(f"{name} is None: give an array of {LIBRARIES}")
            _check_alone(one, name, self.name)
        results = self.result(*arrays[: len(self.names)], *options)
        results = results if isinstance(results, list) else [results]
        if has_out:
            _check_out(arrays[-1], results[0])
        if not all(one is None or one.library.on_device for one in arrays):
            _check_host(arrays, names)
            plan: Callable[..., Any] = HostPlan(self, arrays, options)
        else:
            _check_devices(arrays, names)
            call = CallFacts(
                self, options, arrays, results, has_out, alignment[0] if alignment else None
            )
            plan = NumbaPlan(call)
            if arrays[0].device >= 0 and self.packs:
                plan = self._prepared(call) or plan
            if has_out:
                plan = without_overlap(plan, arrays, names, self.in_place)
        with contextlib.suppress(TypeError), self._lock:
            while len(self.plans) >= MOST_PLANS:
                self.plans.pop(next(iter(self.plans)), None)
            self.plans[key] = plan
        return plan

    def _prepared(self, call: CallFacts) -> Callable[..., Any] | None:
        """A plan of prepared launches; None where Numba must launch."""

        def prepare() -> Callable[..., Any]:
            with backend.cuda.gpus[call.device]:
                return PreparedPlan(call)

        try:
            return apart(prepare)
        except (prepared.CannotPrepare, CannotEncode) as problem:
            if any(one is not None and one.dtype == BFLOAT16 for one in call.arrays):
                raise TypeError(
                    f"{self.name}: bfloat16 needs packed launches, which cannot be had here "
                    f"({backend.one_line(problem)}): convert to float32 or float16"
                ) from problem
            warnings.warn(
                f"{self.name}: launches go through Numba, which costs some 20 µs more a call: "
                f"{backend.one_line(problem)}",
                RuntimeWarning,
                stacklevel=4,
            )
            return None

    def launched_by(self, *arrays: Array, out: Array | None = None) -> str:
        """How arrays like these are launched, once they were: "prepared", "Numba" or "host"."""
        facts = [reader_of(array)(array)[0] for array in (*arrays, out) if array is not None]
        for key, plan in list(self.plans.items()):
            if [one for one in key[1:] if one and isinstance(one[0], str)] == facts:
                return inspect.unwrap(plan).launched_by
        raise KeyError("no call with such arrays was made yet")

    def _call_with_new_type(
        self, arrays: Sequence[Array | None], options: tuple, out: Array | None, stream: Any
    ) -> Any:
        """Call with arrays of a type that no call had before.

        Arrays that have DLPack alone, or whose library can take results over by it, are imported
        without a copy.
        """
        if all(reader_of(array) is not None for array in (*arrays, out)):
            return self.call(arrays, options, out, stream)
        names = (*self.names, "out")
        taken = [
            None if array is None else _from_dlpack(array, name)
            for array, name in zip((*arrays, out), names, strict=False)
        ]
        found = self.call(tuple(taken[: len(arrays)]), options, taken[-1], stream)
        if out is not None:
            return out
        giver = getattr(arrays[0], "__array_namespace__", None)
        space = giver() if giver is not None else None
        if space is None or taken[0] is arrays[0] or not hasattr(space, "from_dlpack"):
            return found
        if isinstance(found, tuple):
            return tuple(one if one is None else space.from_dlpack(one) for one in found)
        return space.from_dlpack(found)


def apart(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread of its own; return or raise what it does.

    Numba's compiler leaves reference cycles of exceptions behind. Their frames keep all calling
    frames alive until Python collects garbage, with the caller's arrays and their autograd graph.
    In a thread of its own the caller's frames are not among them.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def _from_dlpack(array: Any, name: str) -> Any:
    """Import an array of a library without a reader through DLPack, without a copy."""
    if reader_of(array) is not None:
        return array
    if isinstance(array, np.ndarray):  # of a subclass
        raise TypeError(
            MASKED.format(name, f"{name}.filled(0)")
            if isinstance(array, np.ma.MaskedArray)
            else f"{name} is {type(array).__name__}, an array with rules of its own, which kernels "
            f"do not know: give its elements alone, np.asarray({name})"
        )
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        raise TypeError(f"{name} is {type(array).__name__}: give an array of {LIBRARIES}")
    on_host = int(array.__dlpack_device__()[0]) in (1, 3)  # 3: pinned memory
    problems: dict[str, Exception] = {}
    for package in ("numpy", "torch") if on_host else DLPACK_IMPORTERS:  # NumPy has no bfloat16
        try:
            return __import__(package).from_dlpack(array)
        except ImportError:
            continue
        except (TypeError, ValueError, RuntimeError, BufferError) as problem:
            problems[package] = problem
    where = "the host" if on_host else "the GPU"
    needed = "PyTorch" if on_host else "CuPy or PyTorch"
    told = "; ".join(
        f"{package} says {backend.one_line(problems[package])}" for package in problems
    )
    raise TypeError(
        f"{name} is {type(array).__name__}, which lies on {where}: taking it over needs {needed}"
        f"{f' ({told})' if told else ''}; or give an array of {LIBRARIES}"
    ) from next(iter(problems.values()), None)


class _Own(threading.local):
    """Each thread's own state: key and plan of its latest call, and its plans by key."""

    def __init__(self) -> None:
        self.key: list = []
        self.plan: Callable[..., Any] | None = None
        self.made: dict[tuple, Callable[..., Any]] = {}

    def found(self, plans: dict[tuple, Callable[..., Any]], key: tuple) -> Callable[..., Any]:
        """Make this thread's plan of a key from the shared one; KeyError where there is none."""
        plan = plans[key]
        if len(self.made) >= MOST_PLANS:
            self.made.clear()
        self.made[key] = plan = plan.own() if hasattr(plan, "own") else plan
        return plan


# --- what any function refuses --------------------------------------------------------------------


def _check_alone(one: ArrayFacts | None, name: str, function: str) -> None:
    if one is None:
        return
    if one.has_mask:
        raise TypeError(MASKED.format(name, "where it is"))
    if one.wants_gradient:
        raise ValueError(
            f"{name} requires a gradient, and {function} records none: call it within "
            f"torch.no_grad(), or give {name}.detach()"
        )
    if name == "out" and one.read_only:
        raise ValueError("out is read-only: give memory that can be written")


def _check_out(out: ArrayFacts, result: Result) -> None:
    shape, dtype = tuple(result[0]), np.dtype(result[1])
    if (out.shape, out.dtype) != (shape, dtype):
        raise ValueError(
            f"out is {name_of(out.dtype)} of shape {out.shape}; it must be {name_of(dtype)} of "
            f"shape {shape}"
        )
    reach = dtype.itemsize
    for step, length in sorted(zip(map(abs, out.strides), shape, strict=True)):
        if length > 1 and step < reach and 0 not in shape:
            raise ValueError(
                f"out has the strides {out.strides} bytes, so that some of its elements lie in the "
                "same memory: give an array in which each has its own"
            )
        reach += step * (length - 1)


def _check_host(arrays: list[ArrayFacts | None], names: Sequence[str]) -> None:
    """Refuse what PyTorch refuses: some tensors on the GPU, some not."""
    torch = {
        one.library.on_device: name
        for one, name in zip(arrays, names, strict=True)
        if one is not None and one.library.name == "PyTorch"
    }
    if len(torch) == 2:
        raise ValueError(
            f"{torch[True]} lies on the GPU and {torch[False]} in the host's memory: bring them to "
            f"one device, {torch[False]}.to({torch[True]}.device)"
        )


def _check_devices(arrays: list[ArrayFacts | None], names: Sequence[str]) -> None:
    on_gpus = [
        n for one, n in zip(arrays, names, strict=True) if one is not None and one.device >= 0
    ]
    if on_gpus and backend.gpu() is None:
        raise ValueError(
            f"{on_gpus[0]} lies on a GPU, and the course does not use one here: `python -m course "
            "doctor` says why; or give NumPy's arrays"
        )
    devices = {one.device: name for one, name in zip(arrays, names, strict=True) if one is not None}
    if len(devices) > 1:
        told = " and ".join(f"{name} on GPU {device}" for device, name in devices.items())
        raise ValueError(f"{told}: bring all arrays to one device first")
