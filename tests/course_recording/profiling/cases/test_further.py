"""The further kernels of `course_recording.profiling.cases.further`: right, and a GPU's results."""

import numpy as np
import pytest

from course import backend
from course_recording.profiling.cases.further import CASES
from warpsim import cuda as host
from warpsim import trace

#: Whose results depend on which thread comes first: in some order, or not to be compared.
IN_SOME_ORDER = {"compacted", "compacted_by_warps"}
BY_CHANCE = {"last_seen", "claimed", "round_robin", "old_values"}
ids = [case.name for case in CASES]


def traced(case):
    """The report of a case, and its arguments afterwards."""
    given = case.arguments(host.to_device)
    return trace(case.kernel, case.grid, case.block, *given, gpu="H200"), given


def test_there_are_a_hundred_and_each_is_another():
    assert len(CASES) >= 100 and len(set(ids)) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_right_program_has_no_error(case):
    report, _ = traced(case)
    assert [finding for finding in report.findings if finding.is_error] == []


@pytest.mark.skipif(backend.gpu() is None, reason="there is no GPU")
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_gpu_computes_the_same(case):
    if case.name in BY_CHANCE:
        pytest.skip("the result depends on which thread comes first")
    _, simulated = traced(case)
    given = case.arguments(backend.cuda.to_device)
    case.kernel[case.grid, case.block](*given)
    for theirs, ours in zip(given, simulated, strict=True):
        if not hasattr(theirs, "copy_to_host") or not theirs.is_c_contiguous():
            continue
        theirs, ours = theirs.copy_to_host(), ours.copy_to_host()
        if case.name in IN_SOME_ORDER:
            theirs, ours = np.sort(theirs), np.sort(ours)
        for one in ours.dtype.names or ():
            assert np.allclose(theirs[one], ours[one], rtol=1e-5)
        if ours.dtype.kind in "fc":  # sums in another order, products and sums in one rounding
            assert np.allclose(theirs, ours, rtol=1e-5, atol=1e-5, equal_nan=True)
        elif ours.dtype.names is None:
            assert theirs.tolist() == ours.tolist()
