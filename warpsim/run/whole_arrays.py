"""Reductions and ufuncs: each thread goes through all elements, one after the other."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from warpsim.core import operators
from warpsim.core.memory import Array
from warpsim.front.names import Unsupported
from warpsim.run.elements import Elements, broadcast_place, broadcasts
from warpsim.run.memory import Memory
from warpsim.run.state import State


class WholeArrays:
    """What lane programs do with all elements of an array."""

    def __init__(self, state: State, memory: Memory, elements: Elements):
        self.state, self.memory, self.elements = state, memory, elements

    def total(self, array: Array, convert: Callable, mean: bool, heading: str, site: int):
        """The sum or the mean, in the result's type."""
        fold = partial(self._folded, array, heading, site)
        value = fold(convert(0), lambda old, x, _: convert(old + convert(x)))
        return self._divided(value, array, convert) if mean else value

    def _divided(self, value, array: Array, convert: Callable):
        return convert(operators.divide(value, convert(math.prod(array.shape))))

    def _folded(self, array: Array, heading: str, site: int, value, step: Callable):
        """``step(value, element, its number)`` for all elements, from the first on."""
        state, control = self.state, self.elements.control
        counted = {heading: 1, "in double": 1} if heading == "float64" else {heading: 1}
        for number, index in enumerate(self.elements.places(array)):
            more = step(value, self.memory.load(array, index, site), number)
            value = control.merged(state.mask.active, more, value) if array.ragged else more
            if state.counters is not None:
                self.memory.observer.count(site, counted)
        return value

    def reduced(self, name: str, array: Array, convert: Callable, heading: str, site: int):
        """``array.prod()``, ``any``, ``all``, ``argmin``, ``argmax``, ``var``, ``std``; ``max``."""
        fold = partial(self._folded, array, heading, site)
        zero, better = array.dtype.type(0), np.less if name.endswith("min") else np.greater
        match name:
            case "prod":
                wrap = operators.wrap
                return fold(convert(1), lambda old, x, _: convert(wrap(old * convert(x))))
            case "any":
                return fold(False, lambda old, x, _: old | (x != 0))
            case "all":
                return fold(True, lambda old, x, _: old & (x != 0))
            case "min" | "max":
                self._refuse_empty(array, site, "iterable argument is empty")
                return fold(zero, _best(better, convert))
            case "argmin" | "argmax":
                self._refuse_empty(array, site, "attempt to reduce an empty sequence")
                return fold((0, zero), _first_best(better))[0]
        wide = operators.complex128 if array.dtype.kind == "c" else operators.float64
        mean = self.total(array, wide, True, heading, site)
        squares = fold(convert(0), lambda old, x, _: old + ((x - mean) * np.conj(x - mean)).real)
        variance = self._divided(squares, array, convert)
        return variance if name == "var" else variance**0.5

    def _refuse_empty(self, array: Array, site: int, words: str) -> None:
        empty = (self.state.mask.active & (np.asarray(size) == 0) for size in array.shape)
        if any(lanes.any() for lanes in empty):
            raise ValueError(f"line {self.state.site(site).line}: {words}")

    # ------------------------------------------------------------------ ufuncs
    def ufunc(self, run: Callable, out: Array, convert: Callable, site: int, *inputs: Any) -> Array:
        """``out[...] = run(inputs)``, the inputs broadcast to the shape of ``out``."""
        arrays = [value for _, value in inputs if isinstance(value, Array)]
        place = f"line {self.state.site(site).line}"
        if out.ragged or any(array.ragged for array in arrays):
            raise Unsupported(f"{place}: a ufunc of arrays whose shape differs by thread")
        for array in arrays:
            if not broadcasts(array.shape, out.shape):
                raise ValueError(
                    f"{place}: operands could not be broadcast together: {array.name} has shape "
                    f"{array.shape}, the result {out.shape}"
                )
        for index in product(*map(range, out.shape)):
            values = []
            for widen, value in inputs:
                if widen is not None:
                    place = broadcast_place(index, value.shape)
                    value = widen(self.memory.load(value, place, site))
                values.append(value)
            self.memory.store(out, index, convert(run(*values)), site)
        return out


def _best(better: Callable, convert: Callable) -> Callable:
    """``max(array)``: by comparisons, which a NaN never wins."""

    def step(old, x, number):
        return x if number == 0 else convert(np.where(better(x, old), x, old)[()])

    return step


def _first_best(better: Callable) -> Callable:
    """The number of the first best element; NaN is better than any other."""

    def step(old, x, number):
        place, best = old
        if number == 0:
            return 0, x
        new = better(x, best) | ((x != x) & (best == best))
        if type(new) is not np.ndarray:
            return (number, x) if new else old
        return np.where(new, number, place), np.where(new, x, best)

    return step
