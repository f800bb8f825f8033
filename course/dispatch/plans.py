"""Plans: what a front door does for arrays that look like those of an earlier call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course import backend
from course.dispatch import graphs, prepared
from course.dispatch.array_facts import ArrayFacts, Library, handle_of
from course.dispatch.slots import ArraySlot, DeviceMemory, Workspace, in_c_order, planning

if TYPE_CHECKING:
    from course.dispatch.entry import EntryPoint

Array = Any  # of NumPy, CuPy, PyTorch, numba.cuda, or what speaks their protocols
PER_THREAD = prepared.PER_THREAD
MOST_STREAMS = 8  # whose workspaces a plan keeps


class CallFacts:
    """What all plans of arrays on a GPU are made of."""

    def __init__(self, door: EntryPoint, options: tuple, seen: list, results: list, has_out: bool,
                 remains: Any):  # fmt: skip
        self.door, self.seen, self.has_out = door, seen, has_out
        self.options = dict(zip(door.options, options, strict=True))
        self.results = [
            None if result is None else (tuple(result[0]), np.dtype(result[1]))
            for result in results
        ]
        self.beyond = remains or [0] * len(seen)
        self.library: Library = seen[0].library
        self.device = seen[0].device
        #: Other libraries whose current stream may be another one.
        self.others = [
            one.library for one in seen if one is not None and one.library is not self.library
        ]
        #: Slots of arrays that name the stream they work on.
        self.named = [slot for slot, one in enumerate(seen) if one is not None and one.stream]
        self.lock = threading.RLock()
        self.event: prepared.Event | None = None

    def launches(self, arrays: Sequence[Array | None]) -> Iterable[Any]:
        """Each `course.kernels.steps.Launch` for these arrays and results.

        Where work lies between the launches, it is done as they are taken.
        """
        door = self.door
        nothing = all(0 in one[0] for one in self.results if one is not None)
        if nothing or (0 in self.seen[0].shape and not door.empty):
            return []
        return door.launches(*arrays, **self.options)

    def new(self) -> list[Array | None]:
        """Memory for the results that the caller gave none for."""
        makes = self.results[1:] if self.has_out else self.results
        return [None if one is None else self.library.empty(*one, self.device) for one in makes]

    def where(self, stream: Any) -> tuple[int, Any]:
        """The stream that is launched on, and a context in which results are made for it."""
        if stream is None:
            return self.library.stream(self.device), contextlib.nullcontext()
        queue = handle_of(stream)
        if prepared.are_many() and not prepared.is_on_current(stream, queue, self.device):
            raise ValueError(
                f"stream is one of another GPU, and the arrays lie on GPU {self.device}: give a "
                "stream of that GPU, or bring the arrays to the stream's"
            )
        return queue, self.library.on_stream(queue, self.device)

    @contextlib.contextmanager
    def ordered(self, queue: int, arrays: Sequence[Array], out: Array | None) -> Iterator[None]:
        """Let work wait for the streams that arrays of other libraries are on, and these for it.

        One thread at a time. In a graph that is captured only what is captured can be waited for.
        """
        given = (*arrays, out)
        others = {other.stream(self.device) for other in self.others}
        others |= {
            int(given[slot].__cuda_array_interface__.get("stream") or 0) for slot in self.named
        }
        others.discard(queue)
        if others and graphs.is_captured(queue):
            others = {other for other in others if other > PER_THREAD and graphs.is_captured(other)}
        with self.lock:
            if others and self.event is None:
                self.event = prepared.Event()
            for other in others:
                self.event.order(before=other, after=queue)
            yield
            for other in others:  # they may write there again
                self.event.order(before=queue, after=other)

    def handed_back(self, results: list[Array | None], queue: int) -> Any:
        """What the front door returns, of work on a stream."""
        if len(results) > 1:
            return tuple(results)
        if self.door.scalar and not self.has_out:
            if queue and self.library.waits:
                prepared.wait(queue)
            return self.library.as_scalar(results[0])
        return results[0]


# --- plans ----------------------------------------------------------------------------------------


class PreparedPlan:
    """Launches that are packed, see `course.dispatch.prepared`."""

    launched_by = "prepared"

    def __init__(self, about: CallFacts):
        self.about = about
        layouts: list[ArraySlot | None] = [
            None if one is None else ArraySlot(
                slot, one.shape, one.strides, np.dtype(one.dtype), beyond=about.beyond[slot]
            )
            for slot, one in enumerate(about.seen)
        ]  # fmt: skip
        for result in about.results[1:] if about.has_out else about.results:
            layouts.append(None if result is None else _fresh(len(layouts), *result))
        with planning(len(layouts)) as workspaces:
            listed = list(about.launches(layouts))
            slots = len(layouts) + len(workspaces)
            self.launches = [
                prepared.PreparedLaunch(
                    launch, slots, prepared.attributes_behind(launch.kernel) if n else ()
                )
                for n, launch in enumerate(listed)
            ]
        self.workspaces: list[Workspace] = workspaces
        self.by_stream: dict[tuple[int, int], list[Array]] = {}
        self.borrows = [
            about.library.maker((one.nbytes,), np.dtype(np.uint8), about.device)
            for one in workspaces
        ]
        self.are_borrowed = about.library.lends and not any(one.zeros for one in workspaces)
        self.lock = about.lock
        self.library, self.device = about.library, about.device
        self.stream, self.address = self.library.stream, self.library.address
        self.makers = [
            None if one is None else self.library.maker(*one, self.device)
            for one in (about.results[1:] if about.has_out else about.results)
        ]

    def quick(self) -> Callable[..., Any]:
        """What is called for it: where one stream does for all, a function without detours."""
        about = self.about
        if about.others or about.named or prepared.are_many():
            return self._in_full
        one = len(about.results) == len(self.launches) == 1
        kept = self.workspaces and not self.are_borrowed
        if about.door.scalar or kept or any(packed.moved for packed in self.launches):
            return self._on_one_stream
        if one and not self.workspaces:
            return self._launched(*self.launches)
        return self._launched_in_turn()

    def _launched_in_turn(self) -> Callable[..., Any]:
        """A function for several launches or results, which share their slots."""
        if not self.launches:
            return self._on_one_stream
        in_full, lock, current, device = self._in_full, self.lock, self.stream, self.device
        launches, makers, borrows, address = self.launches, self.makers, self.borrows, self.address
        slots, is_captured = launches[0].slots, self.library.is_captured
        for packed in launches[1:]:
            packed.share(slots)

        def call(
            arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
        ) -> Any:
            if stream is not None:
                return in_full(arrays, addresses, out, stream)
            results = [] if out is None else [out]
            for make in makers:
                result = None if make is None else make()
                results.append(result)
                addresses.append(0 if result is None else address(result))
            queue = current(device)
            with lock:
                memories = [borrow() for borrow in borrows]  # held until all is launched
                if memories and is_captured():
                    memories = self._borrowed(queue)
                for memory in memories:
                    addresses.append(address(memory))
                slots[:] = addresses
                for packed in launches:
                    if queue != packed.queue:
                        packed.go_to(queue)
                    status = packed.launch(*packed.where)
                    if status:
                        packed.again(status)
            return tuple(results) if len(results) > 1 else results[0]

        return call

    def _launched(self, packed: prepared.PreparedLaunch) -> Callable[..., Any]:
        """A function for one launch and one result."""
        in_full, lock, current, device = self._in_full, self.lock, self.stream, self.device
        address = self.address
        make = self.makers[0] if self.makers else None
        slots, launch, how = packed.slots, packed.launch, packed.where

        def call(
            arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
        ) -> Array:
            if stream is not None:
                return in_full(arrays, addresses, out, stream)
            if out is None:
                out = make()
                addresses.append(address(out))
            queue = current(device)
            with lock:
                slots[:] = addresses
                if queue != packed.queue:
                    packed.go_to(queue)
                status = launch(*how)
                if status:
                    packed.again(status)
            return out

        def parts() -> tuple:
            """What a thread of its own needs for the same, see `EntryPoint._entered_alone`."""
            own = packed.copy()
            return make, address, current, device, own, own.slots, own.launch, own.where

        if make is not None:
            call.parts = parts
        return call

    def _on_one_stream(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        """The same for any number of launches and results."""
        if stream is not None:
            return self._in_full(arrays, addresses, out, stream)
        results = [None if make is None else make() for make in self.makers]
        addresses += [0 if one is None else self.address(one) for one in results]
        queue = self.stream(self.device)
        with self.lock:
            memories = self._workspaces(queue)  # held until all is launched
            addresses += map(self.address, memories)
            for launch in self.launches:
                launch(queue, addresses)
        return self.about.handed_back(results if out is None else [out, *results], queue)

    def _in_full(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        """The same with all that can be asked for."""
        about, device, context = self.about, self.device, contextlib.nullcontext()
        if prepared.are_many() and not prepared.is_current(device):
            context = backend.cuda.gpus[device]
        with context:
            queue, within = about.where(stream)
            with within:
                results = about.new()
                addresses += [0 if one is None else self.address(one) for one in results]
                with about.ordered(queue, arrays, out):
                    memories = self._workspaces(queue)
                    addresses += map(self.address, memories)
                    for launch in self.launches:
                        launch(queue, addresses)
        return about.handed_back(results if out is None else [out, *results], queue)

    def _workspaces(self, queue: int) -> list[Array]:
        """The workspaces of a stream, of the graph that is captured on it, or of this call."""
        if not self.workspaces:
            return []
        if self.are_borrowed:
            return self._borrowed(queue)
        key = (queue, threading.get_ident() if queue == PER_THREAD else 0)
        memories = self.by_stream.get(key)
        captured = graphs.is_captured(queue)
        if memories is None or captured:
            memories = [
                self.library.empty((one.nbytes,), np.dtype(np.uint8), self.device)
                for one in self.workspaces
            ]
            for memory, one in zip(memories, self.workspaces, strict=True):
                if one.zeros:
                    prepared.zero(self.address(memory), one.nbytes, queue)
            if captured:
                graphs.keep_with_graph(queue, memories)
            else:
                while len(self.by_stream) >= MOST_STREAMS:
                    self.by_stream.pop(next(iter(self.by_stream)))
                self.by_stream[key] = memories
        return memories

    def _borrowed(self, queue: int) -> list[Array]:
        """Memory that a library lends for what this call launches."""
        memories = [make() for make in self.borrows]
        if self.library.is_captured_by_others(self.address(memories[0])):
            graphs.keep_with_graph(queue, memories)
        return memories


def _fresh(slot: int, shape: tuple[int, ...], dtype: np.dtype) -> ArraySlot:
    """The layout of memory that is made for a result."""
    return ArraySlot(slot, shape, in_c_order(shape, dtype.itemsize), dtype)


class NumbaPlan:
    """Launches that Numba makes, or the simulator: prepared anew for each call."""

    launched_by = "Numba"

    def __init__(self, about: CallFacts):
        self.about = about

    def __call__(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        about, cuda = self.about, backend.cuda
        simulated = about.device < 0
        given = (*arrays, out) if about.has_out else tuple(arrays)
        with contextlib.nullcontext() if simulated else cuda.gpus[about.device]:
            queue, within = about.where(stream)
            with within:
                results = about.new()
            there = [
                None if array is None else _as_numba(one, address, array)
                for array, one, address in zip(given, about.seen, addresses, strict=True)
            ]
            there += [
                None if one is None else one if simulated or hasattr(one, "copy_to_host")
                else cuda.as_cuda_array(one, sync=False)
                for one in results
            ]  # fmt: skip
            order = contextlib.nullcontext() if simulated else about.ordered(queue, arrays, out)
            with order:
                if not about.door.whole:
                    numba_stream = cuda.external_stream(queue) if queue else 0
                    for launch in about.launches(there):
                        launch.on(numba_stream)
                elif simulated or not queue:
                    about.launches(there)
                else:  # on the default stream, between what the caller's was and is given
                    prepared.Event().order(before=queue, after=0)
                    about.launches(there)
                    prepared.Event().order(before=0, after=queue)
        queue = 0 if simulated else queue
        return about.handed_back([out, *results] if about.has_out else results, queue)


def _as_numba(one: ArrayFacts, address: int, owner: Array) -> Array:
    """An array as numba.cuda sees it, without waiting for anything."""
    if hasattr(owner, "copy_to_host"):
        return owner
    if one.device < 0:
        return backend.cuda.as_cuda_array(owner)
    place = DeviceMemory(address, one.shape, one.strides, np.dtype(one.dtype).str, owner)
    return backend.cuda.as_cuda_array(place, sync=False)


class HostPlan:
    """Arrays of the host travel to the GPU, and the result back: such a call waits for its work."""

    launched_by = "host"

    def __init__(self, door: EntryPoint, seen: list[ArrayFacts | None], options: tuple):
        self.door, self.options = door, options
        self.libraries = [
            None if one is None or one.library.on_device else one.library for one in seen
        ]
        self.first = self.libraries[0]

    def __call__(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        count, door = len(arrays), self.door
        there: list[Any] = [
            array if owner is None or array is None else owner.to_host(array)
            for array, owner in zip(arrays, self.libraries, strict=False)
        ]
        if door.part is not None:
            there = door.part(there, self.options)
        to_device = backend.cuda.to_device
        there = [
            to_device(np.asarray(array, order="C")) if isinstance(array, np.ndarray) else array
            for array in there
        ]
        owner_of_out = self.libraries[count] if out is not None else None
        found = door.call(tuple(there), self.options, None if owner_of_out else out, stream)
        if stream is not None and backend.gpu() is not None:
            prepared.wait(handle_of(stream))
        results = list(found) if isinstance(found, tuple) else [found]
        if owner_of_out is not None:
            owner_of_out.to_host(out)[...] = _to_host(results[0])
            results[0] = out
        if self.first is not None:
            results = [one if one is out else self._home(one) for one in results]
        return tuple(results) if isinstance(found, tuple) else results[0]

    def _home(self, found: Array | None) -> Array | None:
        """A result as the first array is: an array, or what a reduction hands back."""
        if found is None:
            return None
        if self.door.scalar:
            return self.first.as_scalar(self.first.from_host(np.reshape(found, 1)))
        return self.first.from_host(_to_host(found))


def _to_host(array: Array) -> np.ndarray:
    """An array of any library as NumPy's."""
    for name in ("copy_to_host", "get"):
        if hasattr(array, name):
            return getattr(array, name)()
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)
