"""The layers of a VAE: each one's inputs and outputs, and the names of its parameters.

x (pixels) -> hidden -> mean, log variance (latent each) -> z -> hidden -> logits (pixels)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from course_models import is_whole


@dataclass(frozen=True)
class VAEShape:
    """A VAE's sizes.

    Attributes
    ----------
    pixels : int
        Pixels of an image.
    hidden : int
        Units of the encoder's and the decoder's hidden layer.
    latent : int
        Numbers of an image's code.
    """

    pixels: int = 784
    hidden: int = 400
    latent: int = 200

    def __post_init__(self) -> None:
        for name in ("pixels", "hidden", "latent"):
            size = getattr(self, name)
            if not is_whole(size) or not 1 <= size < 2**31:
                raise ValueError(
                    f"{name} is {size!r}; it must be a whole number from 1 to 2**31 - 1"
                )
            object.__setattr__(self, name, int(size))  # NumPy's become Python's

    @functools.cached_property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of each layer by its name, in the order of the forward pass.

        The first half of the outputs of "code" is the mean, the second half the log variance.
        """
        return {
            "encode": (self.hidden, self.pixels),
            "code": (2 * self.latent, self.hidden),
            "decode": (self.hidden, self.latent),
            "pixels": (self.pixels, self.hidden),
        }

    @functools.cached_property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter by its name: weights (outputs, inputs), biases (outputs,)."""
        found: dict[str, tuple[int, ...]] = {}
        for name, (outputs, inputs) in self.layers.items():
            found |= {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
        return found

    @property
    def count(self) -> int:
        """How many parameters are learned."""
        return sum(map(math.prod, self.parameters.values()))
