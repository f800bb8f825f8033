"""Arrays of each library, and what functions make of them in float64."""

import numpy as np
import pytest

from course import backend
from course.backend import cuda

on_gpu = pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")


def library(name):
    """A library that works here, or skip."""
    if name in ("numpy", "numba"):
        return np
    module = pytest.importorskip(name.split()[0])
    if name in ("cupy", "torch") and backend.gpu() is None:
        pytest.skip("needs a GPU")
    return module


MAKE = {
    "numpy": lambda values: values.copy(),
    "numba": lambda values: cuda.to_device(values),
    "cupy": lambda values: library("cupy").asarray(values),
    "torch": lambda values: library("torch").from_numpy(values.copy()).cuda(),
    "torch host": lambda values: library("torch host").from_numpy(values.copy()),
}


def to_numpy(array):
    for name in ("copy_to_host", "get"):
        if hasattr(array, name):
            return getattr(array, name)()
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def factors(rows=33, columns=40, r=30):
    return random(rows, r, seed=1), np.abs(random(r, seed=2)), random(r, columns, seed=3)


def exact_norm(x, gamma=1.0, beta=0.0):
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def exact_softmax(x):
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


X, G, B = random(9, 52), random(52, seed=4), random(52, seed=5)


def softmax_parts():
    from course.kernels.softmax import forward

    return forward._result, forward._launches
