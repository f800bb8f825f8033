"""A VAE's weights, and the whole state of its training: made, saved, loaded.

The weights are a dict, a float32 array by each name of `VAEShape.parameters`. Files are NumPy's
.npz, without pickle: nothing in them is executed.
"""

from __future__ import annotations

import io
import numbers
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from course.files import arrays_in, data_path, write_whole
from course_models import is_whole
from course_models.vae.shape import VAEShape

Weights = dict[str, np.ndarray]
SIZES = "sizes"  # name in a file: pixels, hidden, latent
NUMBERS = "numbers"  # name in a file: step, batch, seed, losses of a training
MOMENTS = "first", "second"
KAIMING = "encode.weight", "decode.weight"  # layers that a LeakyReLU follows


def initial(shape: VAEShape, seed: int = 0, slope: float = 0.2) -> Weights:
    """Initial weights: uniform, within a bound that depends on the layer's width; biases are 0.

    The bound is Kaiming's before a LeakyReLU of this slope, Xavier's (Glorot's) elsewhere.

    Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852; Glorot, Bengio,
    "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010.
    """
    rng, made = np.random.default_rng(seed), {}
    for name, size in shape.parameters.items():
        if len(size) == 1:
            made[name] = np.zeros(size, np.float32)
            continue
        outputs, inputs = size
        bound = (6 / ((1 + slope**2) * inputs)) if name in KAIMING else 6 / (inputs + outputs)
        made[name] = (np.sqrt(bound) * rng.uniform(-1, 1, size)).astype(np.float32)
    return made


def checked(shape: VAEShape, weights: Mapping[str, np.ndarray], what: str = "weights") -> Weights:
    """The weights in the shape's order, C-contiguous; ValueError if one is missing or unfit."""
    wrong = sorted(set(weights) ^ set(shape.parameters))
    if wrong:
        raise ValueError(f"{what}: missing or superfluous are {', '.join(wrong)}")
    for name, size in shape.parameters.items():
        array = weights[name]
        if not isinstance(array, np.ndarray) or array.shape != size or array.dtype != np.float32:
            given = (
                f"{array.dtype} {array.shape}"
                if isinstance(array, np.ndarray)
                else type(array).__name__
            )
            raise ValueError(f"{what}: {name} is {given}; it must be float32 {size}")
        if not np.isfinite(array).all():
            raise ValueError(f"{what}: {name} has numbers that are not finite")
    return {name: np.ascontiguousarray(weights[name]) for name in shape.parameters}


@dataclass(frozen=True)
class Training:
    """The state with which a training continues to the same bits, in mid-epoch, too.

    Attributes
    ----------
    shape : VAEShape
    weights, first, second : dict of str to ndarray
        Weights, and Adam's moments of each.
    step : int
        Steps that are done.
    batch, seed : int
    rate : float
    losses : int
        CRC-32 of the table of the steps' losses, which lies beside the file.
    """

    shape: VAEShape
    weights: Weights
    first: Weights
    second: Weights
    step: int
    batch: int
    seed: int
    rate: float
    losses: int = 0

    def __post_init__(self) -> None:
        for name, least, beyond in (("step", 0, 31), ("batch", 1, 31), ("seed", 0, 63)):
            its = getattr(self, name)
            if not is_whole(its) or not least <= its < 2**beyond:
                raise ValueError(
                    f"{name} is {its!r}; it must be a whole number from {least} to 2**{beyond} - 1"
                )
            object.__setattr__(self, name, int(its))  # NumPy's become Python's
        real = isinstance(self.rate, numbers.Real) and not isinstance(self.rate, bool)
        if not real or not 0 < self.rate < np.inf:
            raise ValueError(f"rate is {self.rate}; it must be a number above 0")
        object.__setattr__(self, "rate", float(self.rate))

    @classmethod
    def begun(
        cls, shape: VAEShape, weights: Weights | None = None, *, batch: int = 128, seed: int = 0,
        rate: float = 1e-3,
    ) -> Training:  # fmt: skip
        """A training before its first step, with these weights or with `initial` ones."""
        begun = cls(shape, {}, {}, {}, 0, batch, seed, rate)  # refuses wrong values
        weights = checked(shape, weights) if weights is not None else initial(shape, begun.seed)
        zeros = {which: {name: np.zeros_like(its) for name, its in weights.items()}
                 for which in MOMENTS}  # fmt: skip
        return replace(begun, weights=dict(weights), **zeros)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file, whole or not at all."""
        arrays = {f"{which}.{name}": its for which in MOMENTS
                  for name, its in getattr(self, which).items()}  # fmt: skip
        whole = np.array([self.step, self.batch, self.seed, self.losses], np.int64)
        _save(path, self.shape, self.weights | arrays | {NUMBERS: whole, "rate": self.rate})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Training:
        """Read what `save` wrote; ValueError when the file has no training."""
        path = Path(path)
        shape, found = _load(path)
        if NUMBERS not in found or "rate" not in found:
            raise ValueError(f"{path} has weights alone: a training cannot go on from it")
        whole, rate = found.pop(NUMBERS), found.pop("rate")
        if whole.shape != (4,) or whole.dtype != np.int64 or rate.shape != ():
            raise ValueError(f"{path}: the numbers of its training are of another form")
        parts = {
            which: {
                name.removeprefix(f"{which}."): found.pop(name)
                for name in [*found]
                if name.startswith(f"{which}.")
            }
            for which in MOMENTS
        }
        all_three = (found, *parts.values())
        arrays = [checked(shape, its, str(path)) for its in all_three]
        if any((its < 0).any() for its in arrays[2].values()):
            raise ValueError(f"{path}: a second moment, a mean of squares, is below 0")
        try:
            step, batch, seed, losses = whole.tolist()
            return cls(shape, *arrays, step, batch, seed, rate.item(), losses)
        except ValueError as problem:
            raise ValueError(f"{path}: {problem}") from None


def save(path: str | os.PathLike[str], shape: VAEShape, weights: Weights) -> None:
    """Write weights to an .npz file, whole or not at all."""
    _save(path, shape, checked(shape, weights))


def load(path: str | os.PathLike[str]) -> tuple[VAEShape, Weights]:
    """Read weights from a file of weights or of a training.

    Raises
    ------
    ValueError
        When the file is neither, is cut off, or an array is missing, pickled or does not fit.
    OSError
        When the file cannot be read at all.
    """
    shape, found = _load(Path(path))
    parts = {name: its for name, its in found.items() if name in shape.parameters}
    return shape, checked(shape, parts, str(path))


def trained() -> tuple[VAEShape, Weights]:
    """The weights that come with the course, of 8 x 8 digits; ``tools.train.vae`` made them."""
    return load(data_path("models", "vae.npz"))


def _save(path: str | os.PathLike[str], shape: VAEShape, arrays: Mapping[str, object]) -> None:
    content = io.BytesIO()
    np.savez(content, **{SIZES: np.array(astuple(shape), np.int64)}, **arrays)
    write_whole(Path(path), content.getvalue())


def _load(path: Path) -> tuple[VAEShape, Weights]:
    try:
        found = arrays_in(path)
        return VAEShape(*found.pop(SIZES).tolist()), found
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{path} has no weights of a VAE, or is cut off: name a file that `vae train` or "
            "course_models.vae.weights wrote"
        ) from None
