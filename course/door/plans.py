"""Plans: what a front door does for arrays that look like those of an earlier call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course import backend
from course.door import launches as packing
from course.door.layout import Layout, Workspace, in_c_order, planning
from course.door.libraries import Library, Seen
from course.measure.event_clock import Memory

if TYPE_CHECKING:
    from course.door.door import Door

Array = Any  # of NumPy, CuPy, PyTorch, numba.cuda, or what speaks their protocols
MOST_STREAMS = 8  # whose workspaces a plan keeps


class About:
    """What all plans of arrays on a GPU are made of."""

    def __init__(self, door: Door, options: tuple, seen: list, results: list, has_out: bool,
                 remains: Any):  # fmt: skip
        self.door, self.options, self.seen, self.has_out = door, options, seen, has_out
        self.inputs = len(door.names)
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
        self.given_streams = [
            (slot, one.stream) for slot, one in enumerate(seen) if one is not None and one.stream
        ]

    def listed(self, arrays: Sequence[Array | None], *stream: Any) -> Any:
        """What is launched for these arrays and results."""
        door = self.door
        if 0 in self.seen[0].shape and not door.empty:
            return []
        return door.launches(*arrays, *self.options, **({"stream": stream[0]} if stream else {}))

    def new(self) -> list[Array | None]:
        """Memory for the results that the caller gave none for."""
        makes = self.results[1:] if self.has_out else self.results
        return [None if one is None else self.library.empty(*one, self.device) for one in makes]

    def handed_back(self, results: list[Array | None]) -> Any:
        """What the front door returns."""
        if len(results) > 1:
            return tuple(results)
        if self.door.scalar and not self.has_out:
            return self.library.as_scalar(results[0])
        return results[0]


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream of numba.cuda, CuPy or PyTorch, or the number itself."""
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    if isinstance(stream, int):
        return stream
    raise TypeError(
        f"stream is {type(stream).__name__}: give a stream of CuPy, PyTorch or numba.cuda, or the "
        "number of one"
    )


# --- plans ----------------------------------------------------------------------------------------


class PackedPlan:
    """Launches that are packed, see `course.door.launches`."""

    way = "packed"

    def __init__(self, about: About):
        self.about, door = about, about.door
        layouts: list[Layout | None] = [
            None if one is None else Layout(
                slot, one.shape, one.strides, np.dtype(one.dtype), beyond=about.beyond[slot]
            )
            for slot, one in enumerate(about.seen)
        ]  # fmt: skip
        for result in about.results[1:] if about.has_out else about.results:
            layouts.append(None if result is None else _fresh(len(layouts), *result))
        with planning(len(layouts)) as workspaces:
            listed = about.listed(layouts, 0)
            self.launches = [packing.Packed(*launch) for launch in listed]
        self.workspaces: list[Workspace] = workspaces
        self.rooms: dict[int, list[Array]] = {}
        self.lock = threading.Lock()
        self.event: packing.Event | None = None
        self.plain = not (
            workspaces or about.others or about.given_streams or packing.are_many()
            or len(about.results) != 1 or door.scalar
        )  # fmt: skip
        self.library, self.device = about.library, about.device
        self.stream, self.address = self.library.stream, self.library.address

    def quick(self) -> Callable[..., Any]:
        """What is called for it: for one launch and one result, a function without detours."""
        if not self.plain or len(self.launches) != 1:
            return self._in_full
        about, in_full, lock = self.about, self._in_full, self.lock
        make = self.library.maker(*about.results[0], about.seen[0])
        address, current, device = self.address, self.stream, self.device
        (packed,) = self.launches
        words, fills, launch = packed.words, packed.fills, packed.launch
        how, kernel, what, nothing = packed.where
        configuration = packed.configuration

        def call(
            arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
        ) -> Array:
            if stream is not None:
                return in_full(arrays, addresses, out, stream)
            if out is None:
                out = make(arrays[0])
                addresses.append(address(out))
            queue = current(device)
            with lock:
                for place, slot, offset in fills:
                    words[place] = addresses[slot] + offset
                if queue != packed.queue:
                    configuration.stream = packed.queue = queue
                status = launch(how, kernel, what, nothing)
                if status:
                    packed.again(status)
            return out

        return call

    def _in_full(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        """The same with all that can be asked for."""
        about, device, context = self.about, self.device, contextlib.nullcontext()
        if packing.are_many() and not packing.is_current(device):
            context = backend.cuda.gpus[device]
        with context:
            if stream is None:
                queue, within = self.stream(device), contextlib.nullcontext()
            else:
                queue = handle_of(stream)
                within = self.library.on_stream(queue, device)
            with within:
                results = about.new()
                if out is not None:
                    results.insert(0, out)
                    addresses += [0 if one is None else self.address(one) for one in results[1:]]
                else:
                    addresses += [0 if one is None else self.address(one) for one in results]
                others = {other.stream(device) for other in about.others} - {queue}
                others |= {_named(arrays, slot) for slot, _ in about.given_streams} - {queue}
                with self.lock:
                    for other in others:
                        self._event().order(before=other, after=queue)
                    addresses += self._rooms(queue)
                    for launch in self.launches:
                        launch(queue, addresses)
                    for other in others:  # they may write there again
                        self._event().order(before=queue, after=other)
        return about.handed_back(results)

    def _event(self) -> packing.Event:
        if self.event is None:
            self.event = packing.Event()
        return self.event

    def _rooms(self, queue: int) -> list[int]:
        """Addresses of the workspaces of a stream, or of the graph that is captured on it."""
        if not self.workspaces:
            return []
        rooms = self.rooms.get(queue)
        captured = packing.is_captured(queue)
        if rooms is None or captured:
            rooms = [
                self.library.empty((one.nbytes,), np.dtype(np.uint8), self.device)
                for one in self.workspaces
            ]
            for room, one in zip(rooms, self.workspaces, strict=True):
                if one.zeros:
                    packing.zero(self.address(room), one.nbytes, queue)
            if captured:
                packing.keep_with_graph(queue, rooms)
            else:
                while len(self.rooms) >= MOST_STREAMS:
                    self.rooms.pop(next(iter(self.rooms)))
                self.rooms[queue] = rooms
        return [self.address(room) for room in rooms]


def _fresh(slot: int, shape: tuple[int, ...], dtype: np.dtype) -> Layout:
    """The layout of memory that is made for a result."""
    return Layout(slot, shape, in_c_order(shape, dtype.itemsize), dtype)


def _named(arrays: Sequence[Array], slot: int) -> int:
    """The stream that an array's interface names now."""
    return int(arrays[slot].__cuda_array_interface__.get("stream") or 0)


class NumbaPlan:
    """Launches that Numba makes, or the simulator: prepared anew for each call."""

    way = "Numba"

    def __init__(self, about: About):
        self.about, self.event = about, None
        self.lock = threading.Lock()

    def __call__(
        self, arrays: Sequence[Array], addresses: list[int], out: Array | None, stream: Any
    ) -> Any:
        about, cuda = self.about, backend.cuda
        simulated = about.device < 0
        given = (*arrays, out) if about.has_out else tuple(arrays)
        with contextlib.nullcontext() if simulated else cuda.gpus[about.device]:
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
            queue = about.library.stream(about.device) if stream is None else handle_of(stream)
            if about.door.whole:
                self._on_default(queue, lambda: about.listed(there))
            else:
                for launch, arguments in about.listed(
                    there, cuda.external_stream(queue) if queue else 0
                ):
                    launch(*arguments)
        return about.handed_back([out, *results] if about.has_out else results)

    def _on_default(self, queue: int, work: Callable[[], None]) -> None:
        """Do work on the default stream, between what the caller's stream was and is given."""
        if not queue:
            work()
            return
        with self.lock:
            if self.event is None:
                self.event = packing.Event()
            self.event.order(before=queue, after=0)
            work()
            self.event.order(before=0, after=queue)


def _as_numba(one: Seen, address: int, owner: Array) -> Array:
    """An array as numba.cuda sees it, without waiting for anything."""
    if hasattr(owner, "copy_to_host"):
        return owner
    if one.device < 0:
        return backend.cuda.as_cuda_array(owner)
    place = Memory(address, one.shape, one.strides, np.dtype(one.dtype).str, owner)
    return backend.cuda.as_cuda_array(place, sync=False)


class HostPlan:
    """Arrays of the host travel to the GPU, and the result back: such a call waits for its work."""

    way = "host"

    def __init__(self, door: Door, seen: list[Seen | None], options: tuple):
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
            to_device(np.ascontiguousarray(array)) if isinstance(array, np.ndarray) else array
            for array in there
        ]
        owner_of_out = self.libraries[count] if out is not None else None
        found = door.enter(tuple(there), self.options, None if owner_of_out else out, stream)
        if stream is not None and backend.gpu() is not None:
            backend.cuda.external_stream(handle_of(stream)).synchronize()
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
