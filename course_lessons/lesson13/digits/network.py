"""A network that reads handwritten digits, of the course's own kernels.

Twice: a 3 x 3 convolution, the activation, the largest of each 2 x 2 pixels, 1 -> 16 -> 32
channels; then Linear to 64, the activation, and Linear to ten scores, one a digit; the highest says
which digit it is. The activation is the one that the weights were trained with: ReLU, GELU (with
erf) or SiLU (Swish).

>>> x, labels = held_out()                                    # digits that no training has seen
>>> weights = Weights.trained("silu")
>>> accuracy(reference(x, weights), labels)                   # NumPy, float64
>>> scores = Network(weights)(x)                              # four kernels
>>> accuracy(scores, labels)                                  # the same
>>> scores = Network(weights)(x, method="naive")              # nine
>>> scores = Network(weights)(x, method="whole")              # one

Each activation with the network that was trained with it, and what was measured of them:

>>> {name: accuracy(Network(Weights.trained(name))(x), labels) for name in ACTIVATIONS}
>>> plots.speedup_by_batch(recorded("cnn", metric="latency", gpu="H200"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import workspace
from course.kernels.activation import function_of
from course.kernels.arrays import Array, checked_float32, in_order
from course.kernels.gemm.gemv import LADDER as LINEAR
from course.kernels.steps import Ladder, Launch, Step, configured, require_choice
from course_lessons.lesson13.digits.convolution import LADDER as CONVOLUTION
from course_lessons.lesson13.digits.one_kernel import THREADS, packed, whole, whole_refusal
from course_lessons.lesson13.digits.weights import FIRST, HIDDEN, SECOND, Weights
from course_models.common import erf, gelu
from course_models.digits import CLASSES

__all__ = ["Network", "Program", "Weights", "accuracy", "erf", "reference"]


# --- the reference -------------------------------------------------------------------------------


def relu(x: np.ndarray) -> np.ndarray:
    """The larger of x and 0."""
    return np.maximum(x, 0)


def silu(x: np.ndarray) -> np.ndarray:
    """X times its sigmoid."""
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


FUNCTIONS = {"relu": relu, "gelu": gelu, "silu": silu}


def convolution(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The 3 x 3 convolution of x (n, c, rows, columns), zeros around it: the sum of nine products.

    As in PyTorch it is the correlation: the weights are not turned round.
    """
    rows, columns = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((len(x), len(weight), rows, columns)) + bias[:, None, None]
    for row in range(3):
        for column in range(3):
            part = padded[:, :, row : row + rows, column : column + columns]
            y += np.einsum("ncrs,oc->nors", part, weight[:, :, row, column], optimize=True)
    return y


def pooling(x: np.ndarray) -> np.ndarray:
    """The largest of each 2 x 2 pixels; NaN where one is NaN."""
    n, c, rows, columns = x.shape
    return x.reshape(n, c, rows // 2, 2, columns // 2, 2).max((3, 5))


def reference(x: np.ndarray, weights: Weights) -> np.ndarray:
    """The ten scores of each image in float64, layer after layer.

    Parameters
    ----------
    x : ndarray, shape (batch, 1, side, side)
    weights : Weights

    Returns
    -------
    ndarray, shape (batch, 10), float64
    """
    w = {name: array.astype(np.float64) for name, array in weights.as_dict().items()}
    f, x = FUNCTIONS[weights.activation], np.asarray(x, np.float64)
    x = pooling(f(convolution(x, w["first_weight"], w["first_bias"])))
    x = pooling(f(convolution(x, w["second_weight"], w["second_bias"])))
    h = f(x.reshape(len(x), -1) @ w["hidden_weight"].T + w["hidden_bias"])
    return h @ w["out_weight"].T + w["out_bias"]


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """The share of images whose highest score is that of their label; NaN is never right.

    Raises
    ------
    ValueError
        When there are no images, or not as many labels as rows of scores.
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not labels.size:
        raise ValueError(
            f"scores and labels have the shapes {scores.shape} and {labels.shape}; they must be "
            "(images, classes) and (images,), of at least one image"
        )
    right = (scores.argmax(1) == labels) & ~np.isnan(scores).any(1)
    return float(right.mean())


# --- on the GPU ----------------------------------------------------------------------------------
class DigitsProblem(NamedTuple):
    """What decides between the ways: how many images, and their side."""

    batch: int
    side: int

    @classmethod
    def of(cls, x: Array, scores: Array) -> DigitsProblem:
        """That of images."""
        return cls(x.shape[0], x.shape[-1])


class Program:
    """The network's launches, prepared: called with (x, scores) on the GPU.

    The first call for a pair of arrays allocates what lies between the layers and configures the
    launches; further calls only launch. Nothing is waited for.

    Parameters
    ----------
    network : Network
    method : str
        Of the network's `ladder.names`.
    stream : optional
        Where to launch.

    Raises
    ------
    ValueError
        For another method.
    """

    def __init__(self, network: Network, method: str = "auto", stream: Any = 0):
        require_choice(method, "method", network.ladder.names)
        self.network, self.method, self.stream = network, method, stream
        self._for: tuple[Any, Any] | None = None
        self._launches: list[tuple] = []

    def steps(self, x: Any, scores: Any) -> list[tuple[str, Callable, tuple, tuple]]:
        """Each launch: its name, kernel, (grid, block), arguments; what `course.trace` takes."""
        launches = self.network.ladder.launches(x, scores, method=self.method)
        return [
            (its.kernel.__name__, its.kernel, (its.grid, its.block), its.arguments)
            for its in launches
        ]

    def __call__(self, x: Any, scores: Any) -> None:
        """Launch all; x (batch, 1, side, side), scores (batch, 10), of numba.cuda."""
        if self._for is None or self._for[0] is not x or self._for[1] is not scores:
            launches = self.network.ladder.launches(x, scores, method=self.method)
            self._launches = configured(launches, self.stream)
            self._for = x, scores
        for launch, arguments in self._launches:
            launch(*arguments)


def _memory(*shape: int) -> Any:
    return workspace(shape, "float32")


class Network:
    """The network with its weights on the GPU (or the simulated one).

    Parameters
    ----------
    weights : Weights
        They say which activation is computed.
    """

    def __init__(self, weights: Weights):
        if not isinstance(weights, Weights):
            raise TypeError(f"weights is {type(weights).__name__}: give Weights.trained('silu')")
        self.weights = weights
        self.there = {name: cuda.to_device(array) for name, array in weights.as_dict().items()}
        self.packed = cuda.to_device(packed(weights))
        self.device = cuda.get_current_device().id
        steps = {
            "fused": self._layers("fused", "warp"),
            "naive": self._layers("naive", "naive"),
            "whole": Step(self._whole, lambda p: whole_refusal(p.side)),
        }
        self.ladder = Ladder("a network", DigitsProblem.of, steps, best=lambda p: "fused")
        self._entry = EntryPoint(
            "a network", ("x",), self._result, self._launches, options=("method",)
        )

    def _whole(self, p: DigitsProblem, x: Array, scores: Array) -> list[Launch]:
        kernel = whole(function_of(self.weights.activation), p.side)
        arguments = x.reshape(p.batch, p.side**2), self.packed, scores
        return [Launch(kernel, p.batch, THREADS, arguments)]

    def _layers(self, convolve: str, multiply: str) -> Step:
        """A step of both layers' ladders."""
        activation = self.weights.activation

        def layer(ladder: Ladder, name: str, x: Array, out: Array, **how: Any) -> list[Launch]:
            weights = self.there[f"{name}_weight"], self.there[f"{name}_bias"]
            return ladder.launches(x, *weights, out, **how)

        def launches(p: DigitsProblem, x: Array, scores: Array) -> list[Launch]:
            first = _memory(p.batch, FIRST, p.side // 2, p.side // 2)
            second = _memory(p.batch, SECOND, p.side // 4, p.side // 4)
            hidden, numbers = _memory(p.batch, HIDDEN), SECOND * (p.side // 4) ** 2
            how = {"activation": activation, "method": convolve}
            return [
                *layer(CONVOLUTION, "first", x, first, **how),
                *layer(CONVOLUTION, "second", first, second, **how),
                *layer(LINEAR, "hidden", second.reshape(p.batch, numbers), hidden,
                       activation=activation, method=multiply),
                *layer(LINEAR, "out", hidden, scores, activation=None, method=multiply),
            ]  # fmt: skip

        return Step(launches)

    def program(self, method: str = "auto", stream: Any = 0) -> Program:
        """What computes batches again and again, ready to be called with (x, scores)."""
        return Program(self, method, stream)

    def _result(self, x: ArrayFacts, method: str) -> Result:
        require_choice(method, "method", self.ladder.names)
        x.must_be_beside("x", "the weights", self.device)
        side = self.weights.side
        checked_float32(x, "x", 4, f"(batch, 1, {side}, {side})")
        if x.shape[1:] != (1, side, side):
            raise ValueError(
                f"x has the shape {x.shape}; these weights are for images of shape "
                f"(batch, 1, {side}, {side})"
            )
        return (x.shape[0], CLASSES), np.float32

    def _launches(self, x: Array, out: Array, method: str) -> list[Launch]:
        return self.ladder.launches(in_order(x, "x"), in_order(out, "out"), method=method)

    def __call__(
        self, x: Array, method: str = "auto", out: Array | None = None, stream: Stream = None
    ) -> Array:
        """Ten scores for each image; `scores.argmax(1)` are the digits.

        Parameters
        ----------
        x : array, shape (batch, 1, side, side), float32
            Of NumPy, CuPy, PyTorch or numba.cuda, in C order; from 0 (paper) to 1 (ink). An image
            with NaN has scores of NaN, and touches no other.
        method : str
            Of `ladder.names`: four fused kernels, which "auto" takes, nine naive ones, or one for
            the whole network.
        out : array, optional
            Where to write.
        stream : stream, optional
            Of CuPy, PyTorch or numba.cuda, or its handle; without it the one that x's
            library is at.

        Returns
        -------
        array, shape (batch, 10), float32
            `out`, if it is given; else of x's kind. For a batch of 0 it is empty.

        Raises
        ------
        TypeError
            For no array, or elements that are not float32.
        ValueError
            For another shape or strides, a method that does not exist, or images that are too large
            for "whole".
        """
        return self._entry.call((x,), (method,), out, stream)
