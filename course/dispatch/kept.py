"""What is kept on the GPU between calls: memory and graphs of the shapes that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

MOST_BYTES = 2 * 2**30  # of a `Kept`'s values together; the latest one may be larger
MOST = 64  # shapes


class Memory:
    """Base class of objects whose attributes are arrays on the GPU, or other such objects."""

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays, each counted once."""
        held = {id(one): one for one in vars(self).values()}
        return sum(getattr(one, "nbytes", 0) for one in held.values())


class Kept:
    """A least-recently-used cache: alternating calls find their values, and memory is bounded.

    It holds up to `most` values, of up to `most_bytes` together, and always the latest, however
    large. Not for several threads at once.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most: int = MOST):
        self.most_bytes, self.most = most_bytes, most
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of a key; `make` makes it where there is none. Its `nbytes` are its size.

        Where `make` fails for lack of GPU memory, all other values go, and it is called again.
        """
        if key not in self._values:
            try:
                value = make()
            except Exception as wrong:  # a refused argument is no lack of memory
                if not self._values or isinstance(wrong, (TypeError, ValueError)):
                    raise
                self.clear()
                value = make()
            self._values[key] = value, value.nbytes
            self._bound()
        self._values.move_to_end(key)
        return self._values[key][0]

    def _bound(self) -> None:
        total = sum(size for _, size in self._values.values())
        while len(self._values) > 1 and (total > self.most_bytes or len(self._values) > self.most):
            _, (_, size) = self._values.popitem(last=False)
            total -= size

    def clear(self) -> None:
        self._values.clear()
