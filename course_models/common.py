"""What networks share: a base class of weights, float32 arrays by name, and a GELU in NumPy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numba import vectorize

from course.files import arrays_in


class StoredWeights:
    """A dataclass whose fields are arrays of float32, but for the `TEXTS` among them."""

    TEXTS: ClassVar[tuple[str, ...]] = ()

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse arrays of other shapes or types, and numbers that are not finite."""
        for name, shape in shapes.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.shape != shape:
                given = getattr(array, "shape", type(array).__name__)
                raise ValueError(f"{name} is {given}; it must be a NumPy array of shape {shape}")
            if array.dtype != np.float32:
                raise ValueError(f"{name} is {array.dtype}: convert it to float32")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has numbers that are not finite")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read weights from an ``.npz`` file; nothing in it is executed.

        Raises
        ------
        ValueError
            When it is no .npz file, or an array is missing, superfluous, pickled or does not fit.
        """
        found = arrays_in(path)
        wrong = found.keys() ^ {field.name for field in dataclasses.fields(cls)}
        if wrong:
            raise ValueError(f"{path} lacks, or has beside the weights: {', '.join(sorted(wrong))}")
        return cls(**found | {name: str(found[name]) for name in cls.TEXTS})

    def save(self, path: Path | str) -> None:
        """Write an ``.npz`` file."""
        texts = {name: np.array(getattr(self, name)) for name in self.TEXTS}
        np.savez(path, **texts, **self.as_dict())

    def as_dict(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in self.TEXTS}


@vectorize
def erf(x: float) -> float:
    """The error function of each number."""
    return math.erf(x)


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU: x times the probability that a standard normal number is below x, by erf."""
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))
