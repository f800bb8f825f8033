"""Kernels of a few lines, numbers for them, and the one error of a trace."""

import numpy as np
import pytest
from numba import float32

from course import trace
from tests.texts import body_of
from warpsim import KernelError, cuda, ptx


def numbers(*shape, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        most = np.iinfo(dtype)
        return random.integers(most.min, most.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def errors(report):
    return [finding for finding in report.findings if finding.is_error]


def only(report, kind, line=None, words=()):
    """The one error of a report."""
    (finding,) = errors(report)
    assert finding.kind == kind
    assert line is None or finding.line == line
    for part in words:
        assert part in finding.message
    return finding


def written(body, parameters="x"):
    """A kernel of these lines, which may call all instructions."""
    instructions = {name: getattr(ptx, name) for name in ptx.__all__}
    return cuda.jit(body_of(parameters, body, float32=float32, **instructions))


def bad(kernel, *arguments, block=32):
    """The error of a trace, which a plain launch raises, too; what was stored in the trace."""
    copies = [np.copy(argument) for argument in arguments]
    with pytest.raises(KernelError) as raised:
        kernel[1, block](*copies)
    for copy, argument in zip(copies, arguments, strict=True):
        np.testing.assert_array_equal(copy, argument)
    report = trace(kernel, 1, block, *arguments)
    finding = only(report, raised.value.finding.kind)
    assert finding == raised.value.finding
    assert "negative-index" not in {one.kind for one in report.findings}
    return finding
