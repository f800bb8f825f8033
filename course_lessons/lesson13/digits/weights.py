"""The digit network's weights: shapes, activation, file.

A network has been trained with one activation function, and its weights carry that function's name:
with another one they would be another, untrained network. `Weights.trained` has a set for each.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from course.files import data_path
from course.kernels.steps import require_choice
from course_models.common import StoredWeights
from course_models.digits import CLASSES, SIDE

FIRST, SECOND, HIDDEN = 16, 32, 64  # channels of the two convolutions, hidden numbers
ACTIVATIONS = ("relu", "gelu", "silu")
LEAST_SIDE = 4  # halved twice, one pixel is left


def shapes(side: int = SIDE) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights for images of side x side pixels; `side` is a multiple of 4."""
    features = SECOND * (side // 4) ** 2
    return {
        "first_weight": (FIRST, 1, 3, 3),
        "first_bias": (FIRST,),
        "second_weight": (SECOND, FIRST, 3, 3),
        "second_bias": (SECOND,),
        "hidden_weight": (HIDDEN, features),
        "hidden_bias": (HIDDEN,),
        "out_weight": (CLASSES, HIDDEN),
        "out_bias": (CLASSES,),
    }


NAMES = tuple(shapes())


def multiplications(batch: int, side: int = SIDE) -> int:
    """Products that a batch needs in convolutions and Linear: each is one multiply-add."""
    convolutions = side**2 * 9 * FIRST + (side // 2) ** 2 * 9 * FIRST * SECOND
    return batch * (convolutions + SECOND * (side // 4) ** 2 * HIDDEN + HIDDEN * CLASSES)


@dataclasses.dataclass(frozen=True)
class Weights(StoredWeights):
    """Weights of the digit network, float32, and the activation that they were trained with.

    A convolution's weight is (outputs, inputs, 3, 3), a Linear's (outputs, inputs), as in PyTorch.
    How many inputs the hidden layer has says how large the images are.

    Attributes
    ----------
    activation : str
        One of `ACTIVATIONS`.

    Raises
    ------
    ValueError
        For another shape or type, numbers that are not finite, or an unknown activation.
    """

    TEXTS: ClassVar[tuple[str, ...]] = ("activation",)

    activation: str
    first_weight: np.ndarray
    first_bias: np.ndarray
    second_weight: np.ndarray
    second_bias: np.ndarray
    hidden_weight: np.ndarray
    hidden_bias: np.ndarray
    out_weight: np.ndarray
    out_bias: np.ndarray

    def __post_init__(self):
        require_choice(self.activation, "activation", ACTIVATIONS)
        self.check(shapes(self._possible_side()))

    def _possible_side(self) -> int:
        """The side of the images for which the hidden layer is made; 8 where it is for none."""
        inputs = (getattr(self.hidden_weight, "shape", ()) or (0,))[-1]
        side = LEAST_SIDE * round((inputs / SECOND) ** 0.5)
        return side if side and shapes(side)["hidden_weight"][1] == inputs else SIDE

    @property
    def side(self) -> int:
        """Pixels of a side of the images: 8 for the course's digits, 28 for MNIST's."""
        return self._possible_side()

    @classmethod
    def random(cls, seed: int, activation: str = "relu", side: int = SIDE) -> Weights:
        """Weights from a seed: what training starts with.

        Normal numbers, variance 2 / inputs; biases are 0. Source: He, Zhang, Ren, Sun, "Delving
        deep into rectifiers", arXiv:1502.01852.
        """
        if side < LEAST_SIDE or side % 4:
            raise ValueError(f"side is {side}; it must be a multiple of 4: it is halved twice")
        rng, made = np.random.default_rng(seed), {}
        for name, shape in shapes(side).items():
            values = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
            made[name] = (values if name.endswith("weight") else 0 * values).astype(np.float32)
        return cls(activation, **made)

    @classmethod
    def trained(cls, activation: str = "relu") -> Weights:
        """The weights that come with the course; ``python -m tools.train.cnn`` makes them."""
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"no network was trained with {activation!r}: choose {', '.join(ACTIVATIONS)}"
            )
        return cls.load(data_path("models", f"digits_{activation}.npz"))
