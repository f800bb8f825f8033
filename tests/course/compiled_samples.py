"""Kernels that are compiled in several tests, and the mark of tests that need the compilers."""

import numpy as np
import pytest
from numba import float32

import course
from course import successor
from course.compiler import toolchain
from course.compiler.facts import CompilerMissing
from warpsim import cuda

try:
    toolchain.require()
    MISSING = ""
except CompilerMissing as error:
    MISSING = str(error).partition(":")[0] + " (extra compile)"

OLD = ""
if not MISSING:
    try:
        toolchain.check_supported("sm_90a")
    except ValueError as error:
        OLD = str(error)

_skipped = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def needs_compiler(test):
    """Mark a test that NVIDIA's compilers take part in: ``pytest -m compiler`` runs these alone."""
    return pytest.mark.compiler(_skipped(test))


def needs_hopper(test):
    """Mark a test of wgmma: before numba-cuda 0.30 nothing compiles for sm_90a."""
    return needs_compiler(pytest.mark.skipif(bool(OLD), reason=OLD)(test))


def needs_numba_cuda(test):
    """Mark a test of what numba-cuda does and its successor does otherwise."""
    other = pytest.mark.skipif(successor.is_chosen(), reason="numba-cuda-mlir compiles here")
    return needs_compiler(other(test))


VECTOR = np.zeros(64, np.float32)
MATRIX = np.zeros((8, 8), np.float32)
FACTORS = (MATRIX, VECTOR, MATRIX, 4, MATRIX)

SCALE = float32(3)


@cuda.jit(device=True)
def scaled(value):
    return value * SCALE


@cuda.jit(device=True)
def bent(value):
    # the line below this one is the third from def
    return scaled(value) / 1.7


@cuda.jit
def bend_each(x, out):
    i = course.cuda.grid(1)
    if i < x.size:
        out[i] = bent(x[i])


def juggle(x, out):
    i = cuda.grid(1)
    values = cuda.local.array(40, float32)
    for j in range(40):
        values[j] = x[j * i]
    total = float32(0)
    for j in range(40):
        total += values[(j * i) % 40]
    out[i] = total
