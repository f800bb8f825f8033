"""What is special about sums and maxima: every NaN, the same bits, requests, wide loads."""

import numpy as np
import pytest

from course import cuda, trace
from course.compiler.facts import compiled
from course.heuristics.reduce import ALONE
from course.kernels import reduce
from course.kernels.reduce import KINDS, reduction
from tests.course.compiled_samples import needs_compiler


def clean(report):
    """A trace's report, if it has no error finding."""
    assert not [str(finding) for finding in report.findings if finding.is_error]
    return report


@pytest.mark.parametrize("method", reduce.LADDER)
def test_nan_and_infinity_reach_the_result(rng, method):
    for place in (0, 31, 700, 5000):
        x = rng.normal(0, 3, 5001).astype(np.float32)
        x[place] = np.nan
        for kind in KINDS:
            assert np.isnan(reduction(x, kind, method=method))
            assert np.isnan(reduction(np.copysign(x, -1), kind, method=method))
        x[place] = np.inf
        assert reduction(x, "max", method=method) == np.inf
        assert reduction(x, "sum", method=method) == np.inf
    assert reduction(np.full(777, -np.inf, np.float32), "max", method=method) == -np.inf


def test_the_last_block_leaves_its_counter_as_it_was_and_can_be_called_again(rng):
    x = cuda.to_device(rng.normal(0, 3, 50_000).astype(np.float32))
    out = cuda.device_array(1, np.float32)
    (launch,) = reduce.LADDER.launches(x, out, kind="sum")
    launch.on()
    first = out.copy_to_host()[0]
    launch.on()
    assert out.copy_to_host()[0] == first  # bit for bit: always added in the same order


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 31, 127, 4095, 4099, ALONE, ALONE + 1])
def test_up_to_so_many_elements_one_block_combines_all(rng, kind, size):
    x = rng.normal(0, 3, size).astype(np.float32)
    there, out = cuda.to_device(x), cuda.device_array(1, np.float32)
    (launch,) = reduce.LADDER.launches(there, out, kind=kind)
    assert (launch.grid == 1) == (size <= ALONE)
    launch.on()
    exact = x.astype(float).sum() if kind == "sum" else x.max()
    assert abs(out.copy_to_host()[0] - exact) <= 1e-6 * np.abs(x).sum()


def test_shuffles_leave_eight_stores_a_block_in_shared_memory_and_atomics_one_request_a_warp(rng):
    x, warps = rng.normal(0, 3, 1024).astype(np.float32), 1024 // 32
    kind, out = KINDS["sum"], np.zeros(1, np.float32)
    reports = {
        name: clean(trace(make(kind), 4, 256, x, out))
        for name, make in (
            ("atomics", reduce.atomics), ("tree", reduce.tree), ("shuffles", reduce.shuffles)
        )
    }  # fmt: skip
    assert reports["atomics"].total("global", "atomic").requests == warps
    assert reports["tree"].total("global", "atomic").requests == 4
    assert reports["shuffles"].total("global", "atomic").requests == 4
    # the tree stores 8 warps' values a block, then those of 4, 2, and six times of 1 warp
    assert reports["tree"].total("shared", "store").requests == 4 * (8 + 4 + 2 + 6 * 1)
    assert reports["shuffles"].total("shared", "store").requests == 4 * 8


def test_wide_loads_ask_a_quarter_as_often(rng):
    config, kind = reduce.ReductionConfig(threads=64, accesses=2), KINDS["sum"]
    x, out = rng.normal(0, 3, 4 * config.tile).astype(np.float32), np.zeros(1, np.float32)
    requests = []
    for aligned in (True, False):
        report = clean(trace(reduce.several(kind, config, aligned), 4, 64, x, out))
        total = report.total("global", "load")
        requests.append(total.requests)
        assert total.sectors == x.nbytes / 32
    assert requests == [x.size // 128, x.size // 32]


@needs_compiler
def test_wide_loads_of_the_last_block_are_16_bytes_and_its_arrays_in_registers():
    kernel = reduce.last_block(KINDS["sum"], reduce.CONFIGS["sm_90"], True)
    facts = compiled(kernel, "void(float32[::1], float32[::1], uint32[::1], float32[::1])", "sm_90")
    # of whole tiles, and of the one in which x ends
    assert facts.load_widths["global"]["v4.f32"] == 2 * reduce.CONFIGS["sm_90"].accesses
    assert facts.local_bytes == 0
