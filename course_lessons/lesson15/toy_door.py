"""What a front door looks at: tensors without numbers, and plans that count how many are made."""

from __future__ import annotations

from typing import NamedTuple


class Tensor(NamedTuple):
    """What is to be known of a tensor.

    Attributes
    ----------
    address : int
        Where its first element is.
    shape, strides : tuple of int
        Strides in bytes.
    dtype : str
    device : int
        The number of its GPU.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str = "float32"
    device: int = 0


class Workshop:
    """Makes plans, and remembers them."""

    def __init__(self) -> None:
        self.made: list[Plan] = []

    def __call__(self, x: Tensor) -> Plan:
        self.made.append(Plan(x))
        return self.made[-1]

    def __repr__(self) -> str:
        return "prepare"


class Plan:
    """A launch that was prepared for a tensor, and for all that look like it."""

    def __init__(self, x: Tensor):
        self.x = x

    def __repr__(self) -> str:
        return f"a plan for {self.x}"
