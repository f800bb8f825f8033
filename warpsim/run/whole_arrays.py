"""Reductions and ufuncs: each thread goes through all elements, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from warpsim.core import operators
from warpsim.core.memory import Array
from warpsim.front.names import Unsupported
from warpsim.run.elements import Elements
from warpsim.run.memory import Memory
from warpsim.run.state import State


class WholeArrays:
    """What lane programs do with all elements of an array."""

    def __init__(self, state: State, memory: Memory, elements: Elements):
        self.state, self.memory, self.elements = state, memory, elements

    def total(self, array: Array, convert: Callable, mean: bool, heading: str, site: int):
        """The sum or the mean, in the result's type."""
        value = self._folded(
            array, convert(0), lambda old, x, _: convert(old + convert(x)), heading, site
        )
        return self._divided(value, array, convert) if mean else value

    def _divided(self, value, array: Array, convert: Callable):
        return convert(operators.divide(value, convert(math.prod(array.shape))))

    def _folded(self, array: Array, value, step: Callable, heading: str, site: int):
        """``step(value, element, its number)`` for all elements, from the first on."""
        state = self.state
        counted = {heading: 1, "in double": 1} if heading == "float64" else {heading: 1}
        for number, index in enumerate(self.elements.places(array)):
            more = step(value, self.memory.load(array, index, site), number)
            value = (
                self.elements.control.merged(state.mask.active, more, value)
                if array.ragged
                else more
            )
            if state.counters is not None:
                self.memory.observer.count(site, counted)
        return value

    def reduced(self, name: str, array: Array, convert: Callable, heading: str, site: int):
        """``array.prod()``, ``any``, ``all``, ``argmin``, ``argmax``, ``var``, ``std``."""
        return getattr(self, f"_{name}")(array, convert, heading, site)

    def _prod(self, array: Array, convert: Callable, heading: str, site: int):
        def step(old, x, _):
            return convert(operators.wrap(old * convert(x)))

        return self._folded(array, convert(1), step, heading, site)

    def _any(self, array: Array, convert: Callable, heading: str, site: int):
        return self._folded(array, False, lambda old, x, _: old | (x != 0), heading, site)

    def _all(self, array: Array, convert: Callable, heading: str, site: int):
        return self._folded(array, True, lambda old, x, _: old & (x != 0), heading, site)

    def _argmax(self, array: Array, convert: Callable, heading: str, site: int):
        return self._place(array, np.greater, heading, site)

    def _argmin(self, array: Array, convert: Callable, heading: str, site: int):
        return self._place(array, np.less, heading, site)

    def _max(self, array: Array, convert: Callable, heading: str, site: int):
        return self._best(array, np.greater, convert, heading, site)

    def _min(self, array: Array, convert: Callable, heading: str, site: int):
        return self._best(array, np.less, convert, heading, site)

    def _best(self, array: Array, better: Callable, convert: Callable, heading: str, site: int):
        """``max(array)``: by comparisons, which a NaN never wins."""
        self._refuse_empty(array, site, "iterable argument is empty")

        def step(old, x, number):
            return x if number == 0 else convert(np.where(better(x, old), x, old)[()])

        return self._folded(array, array.dtype.type(0), step, heading, site)

    def _refuse_empty(self, array: Array, site: int, words: str) -> None:
        state = self.state
        empty = np.zeros(state.lanes, bool)
        for size in array.shape:
            empty |= np.asarray(size) == 0
        if (empty & state.mask.active).any():
            raise ValueError(f"line {state.site(site).line}: {words}")

    def _place(self, array: Array, better: Callable, heading: str, site: int):
        """The number of the first best element; NaN is better than any other."""
        self._refuse_empty(array, site, "attempt to reduce an empty sequence")

        def step(old, x, number):
            place, best = old
            if number == 0:
                return 0, x
            new = better(x, best) | ((x != x) & (best == best))
            if type(new) is not np.ndarray:
                return (number, x) if new else old
            return np.where(new, number, place), np.where(new, x, best)

        return self._folded(array, (0, array.dtype.type(0)), step, heading, site)[0]

    def _var(self, array: Array, convert: Callable, heading: str, site: int):
        mean = self.total(array, operators.CONVERT_DTYPE[_wide(array.dtype)], True, heading, site)

        def step(old, x, _):
            away = x - mean
            return old + (away * np.conj(away)).real

        return self._divided(self._folded(array, convert(0), step, heading, site), array, convert)

    def _std(self, array: Array, convert: Callable, heading: str, site: int):
        return self._var(array, convert, heading, site) ** 0.5

    # ------------------------------------------------------------------ ufuncs
    def ufunc(self, run: Callable, out: Array, convert: Callable, site: int, *inputs: Any) -> Array:
        """``out[...] = run(inputs)``, the inputs broadcast to the shape of ``out``."""
        arrays = [value for _, value in inputs if isinstance(value, Array)]
        place = f"line {self.state.site(site).line}"
        if out.ragged or any(array.ragged for array in arrays):
            raise Unsupported(f"{place}: a ufunc of arrays whose shape differs by thread")
        for array in arrays:
            lead = out.ndim - array.ndim
            if any(
                own not in (1, size)
                for own, size in zip(array.shape, out.shape[lead:], strict=True)
            ):
                raise ValueError(
                    f"{place}: operands could not be broadcast together: {array.name} has shape "
                    f"{array.shape}, the result {out.shape}"
                )
        for index in product(*map(range, out.shape)):
            values = [
                value if widen is None else widen(self._broadcast(value, index, site))
                for widen, value in inputs
            ]
            self.memory.store(out, index, convert(run(*values)), site)
        return out

    def _broadcast(self, array: Array, index: tuple, site: int):
        """The element of an array for an index of the result."""
        own = index[len(index) - array.ndim :]
        place = tuple(0 if size == 1 else i for i, size in zip(own, array.shape, strict=True))
        return self.memory.load(array, place, site)


def _wide(dtype: np.dtype) -> np.dtype:
    return np.dtype("complex128" if dtype.kind == "c" else "float64")
