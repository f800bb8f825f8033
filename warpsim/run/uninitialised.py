"""Does the value of something that was never written matter? The launch runs again to find out.

A traced launch notes its reads of unwritten memory and of variables that were never set
(:mod:`warpsim.watch.uninitialised_reads`). If there are any, it runs again on the same inputs, each
time with something else in all that is never written. If a value stored to global memory, an
address, or the way of a thread at an `if` or a loop differs between two such runs, it comes from
there, and that is an error; if nothing differs, the kernel throws the values away, as correct
kernels do with padding. Runs stop at the first difference, and a launch without such reads never
runs again.

The stand-ins: 0 everywhere; large numbers, another for each element; the same with the other signs;
1 everywhere; and NaN, where there is one, as 0 times what a GPU's memory holds need not be 0. A
comparison could come out alike for all of them, as ``flag == 7`` does; so in two of the runs each
comparison whose operands are not those of the first run comes out the other way.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from warpsim.core.interface import owner_of, start_of
from warpsim.core.masks import EndlessLoop
from warpsim.core.memory import Array, arrays
from warpsim.front.names import Site, Unsupported
from warpsim.run.replay import BASE, ELSEWHERE, OTHERS, Differs, Replay, Transcript, stand_ins
from warpsim.run.state import geometry
from warpsim.watch.counts import Counters
from warpsim.watch.findings import Finding, call_of, in_function

ndarray = np.ndarray

#: At most so many places are tried one by one.
MOST_PLACES = 12
#: Events after which the first run waits for another one: most values that matter have ended.
SOON = 2_500


# ---------------------------------------------------------------------- the same inputs again
class Inputs:
    """The arguments of a launch as they were before it."""

    def __init__(self, names: list[str], values: list[Any], stored: frozenset[str]):
        self.names, self.values = names, values
        self._kept: dict[int, tuple[ndarray, ndarray]] = {}
        self._set: dict[int, ndarray] = {}
        for name, value in zip(names, values, strict=True):
            for part in arrays(value):
                if name in stored or part.written is not None:
                    self.keep(part)

    def keep(self, array: Array) -> None:
        """Keep the memory of an array that the kernel is going to use, as it is now."""
        owner = _owner(array.flat)
        if id(owner) not in self._kept:
            self._kept[id(owner)] = owner, owner.copy(order="K")
        if array.written is not None:
            self._set.setdefault(id(array), array.written.copy())

    def again(self, launch: Any, copies: dict[int, ndarray], **more: Any) -> tuple[Any, list]:
        """A launch to run again, and its arguments, in some copies of the memory."""
        captured = {key: self.renewed(array, copies) for key, array in launch.captured.items()}
        made = replace(
            launch, counters=Counters(launch.sites), findings={}, candidates={}, shadows={},
            spans=[], captured=captured, inputs=None, debug=False, **more,
        )  # fmt: skip
        return made, [self.renewed(value, copies) for value in self.values]

    def copies(self) -> dict[int, ndarray]:
        return {key: kept.copy(order="K") for key, (_, kept) in self._kept.items()}

    def renewed(self, value: Any, copies: dict[int, ndarray]) -> Any:
        """An argument that lies in copied memory where the kernel may change it."""
        if isinstance(value, tuple):
            return tuple(self.renewed(part, copies) for part in value)
        if not isinstance(value, Array):
            return value
        owner, flat = _owner(value.flat), value.flat
        if id(owner) in copies and flat.size:
            memory = copies[id(owner)].reshape(-1, order="A")
            start = start_of(flat) - start_of(owner)
            flat = np.ndarray(flat.shape, flat.dtype, memory.view(np.uint8), start, flat.strides)
        new = Array(flat, value.shape, value.strides, value.space, value.name, value.offset)
        new.address, new.pitch = value.address, value.pitch
        if id(value) in self._set:
            new.written = self._set[id(value)].copy()
        return new


def _owner(flat: ndarray) -> ndarray:
    """The whole allocation that memory is a part of, if that has no gaps."""
    owner = owner_of(flat)
    return owner if owner.flags.forc else flat


# ---------------------------------------------------------------------- the judgement
class Again:
    """Runs a launch again, and says which of its candidates are errors.

    ``program`` is the lane program, ``chunks`` are the geometries of the chunks of blocks.
    """

    def __init__(self, launch: Any, program: Callable, chunks: list[tuple]):
        self.launch, self.program, self.chunks = launch, program, chunks

    def findings(self) -> dict[tuple[str, Site], Finding]:
        try:
            base, end = self._first()
        except Unsupported:  # a value is no longer one for all threads, as it was when traced
            return {}
        for fill in OTHERS:
            end = end or self._difference(Transcript(fill, model=base))
            if end is not None:
                ends = self._tried_alone(len(base.events)) or {
                    next(iter(self.launch.candidates)): end
                }
                found = {site: self._finding(site, *how) for site, how in ends.items()}
                return {(finding.kind, site): finding for site, finding in found.items()}
        return {}

    def _first(self) -> tuple[Transcript, tuple[str, Site | None] | None]:
        """The run that others are held against; where the value of one candidate ends, if soon."""
        if len(self.launch.candidates) == 1:
            base = Transcript(BASE, most=SOON)
            try:
                self._run(base)
                return base, None
            except EndlessLoop:  # it goes on
                end = self._difference(Transcript(OTHERS[0], model=base, most=SOON))
                if end is not None:
                    return base, end
        base = Transcript(BASE)
        self._run(base)
        return base, None

    def _run(self, transcript: Transcript) -> None:
        inputs: Inputs = self.launch.inputs
        copies = inputs.copies()
        transcript.memory = list(copies.values())
        launch, values = inputs.again(self.launch, copies)
        unset = [a for a in arrays((*values, *launch.captured.values())) if a.written is not None]
        for seed, array in enumerate(unset):
            fresh = stand_ins(transcript.everywhere, array.dtype, array.flat.size, seed)
            np.copyto(array.flat, fresh, where=~array.written)
        for chunk in self.chunks:
            threads = Replay(launch, geometry(*chunk))
            threads.observer.transcript = transcript
            self.program(threads, *values)
        for array in unset:  # what nobody has set is no result
            array.flat[~array.written] = 0

    def _difference(self, transcript: Transcript) -> tuple[str, Site | None] | None:
        """Where a run first does something else than its model, if anywhere."""
        model = transcript.model
        try:
            self._run(transcript)
        except Differs as difference:
            return difference.args
        except (EndlessLoop, Unsupported):
            return None
        same = len(transcript.events) == len(model.events) and all(
            _same(a, b) for a, b in zip(transcript.memory, model.memory, strict=True)
        )
        return None if same else ("changes the result", None)

    def _tried_alone(self, events: int) -> dict[Site, tuple]:
        """Where the values of each candidate end, for those that matter without the others."""
        candidates = list(self.launch.candidates)
        if len(candidates) == 1:
            return {}
        model = Transcript(ELSEWHERE, most=2 * events + 1000)
        try:
            self._run(model)
        except (EndlessLoop, Unsupported):
            return {}
        ends = {}
        for site in candidates[:MOST_PLACES]:
            for fill in ("wild", "opposite", "nan"):
                end = self._difference(Transcript(fill, site, model))
                if end is not None:
                    ends[site] = end
                    break
        return ends

    def _finding(self, site: Site, words: str, end: Site | None) -> Finding:
        found = self.launch.candidates[site]
        if end is not None:
            words = words.format(array=end.array)
            if (end.line, end.function) != (site.line, site.function):
                words += f" in line {end.line}"
                if end.function != site.function:
                    words += f" of {end.function}"
        message = f"{found.what} {words}; {found.advice}{in_function(site, self.launch.name)}"
        return Finding(
            "uninitialised-read", site.line, site.code, message, found.where,
            call_of(self.launch.counters, site), found.whole, site.function,
        )  # fmt: skip


def _same(a: ndarray, b: ndarray) -> bool:
    if a.dtype.names:
        return all(_same(a[name], b[name]) for name in a.dtype.names)
    return bool(np.all((a == b) | ((a != a) & (b != b))))
