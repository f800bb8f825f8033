"""Attention, simulated: every step against float64, views, what is refused, NaN."""

import numpy as np
import pytest

from course import backend, cuda
from course.door.bfloat import BFLOAT16
from course.kernels.attention import METHODS, attention
from warpsim.front.bfloat import rounded, widened
from warpsim.host import gpus

#: Half of the last place: of float16's 11 bits, of bfloat16's 8.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    """The GPU that has all instructions."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is None:
        backend.simulate("H200")


def stored(values, element):
    if element == "float16":
        return np.asarray(values, np.float16)
    return np.asarray(rounded(np.asarray(values, np.float32))).view(BFLOAT16)


def numbers(array):
    array = array.copy_to_host() if hasattr(array, "copy_to_host") else array
    return (widened(array.view(np.uint16)) if array.dtype == BFLOAT16 else array).astype(float)


def given(batch, tokens, heads, size, element="float16", seed=3):
    """One product (batch, tokens, 3, heads, size), with scores that are far from even."""
    rng = np.random.default_rng(seed)
    return stored(2 * rng.standard_normal((batch, tokens, 3, heads, size)), element)


def exact(qkv, scale=None):
    """The output in float64, and what the weights' rounding may be multiplied by."""
    q, k, v = (numbers(qkv)[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    parts = (weights @ v, weights @ np.abs(v))
    return [y.transpose(0, 2, 1, 3).reshape(*qkv.shape[:2], -1) for y in parts]


def views(qkv):
    there = cuda.to_device(qkv)
    return there[:, :, 0], there[:, :, 1], there[:, :, 2]


def near(found, qkv, element, scale=None):
    """Rounded once, and each weight rounded once."""
    wanted, sums = exact(qkv, scale)
    return np.abs(numbers(found) - wanted) <= ROUNDING[element] * (np.abs(wanted) + 2 * sums) + 1e-6


@pytest.mark.parametrize("element", ROUNDING)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "shape", [(2, 37, 2, 64), (1, 130, 1, 64), (1, 1, 3, 64), (1, 19, 2, 32), (1, 70, 1, 128)]
)
def test_every_step_is_float64s(method, shape, element):
    qkv = given(*shape, element)
    if method == "wgmma" and shape[3] != 64:
        with pytest.raises(ValueError, match="takes heads of 64, not of"):
            attention(*views(qkv), method=method)
        return
    found = attention(*views(qkv), method=method)
    assert found.shape == (*shape[:2], shape[2] * shape[3])
    assert near(found, qkv, element).all()
