"""The layers of a VAE: how many numbers go in and out of each, and what its parameters are called.

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
        Of an image.
    hidden : int
        Of the layer after the image, and of the one before it.
    latent : int
        Numbers that an image becomes.
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
        """Numbers out of a layer, and into it, by its name, in the order of the way forward.

        The first half of what comes out of "code" is the mean, the second the log variance.
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
        """All numbers that are learned."""
        return sum(map(math.prod, self.parameters.values()))
