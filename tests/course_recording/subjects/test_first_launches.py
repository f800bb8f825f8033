"""The bench of the first launches times a right kernel, in the four launches of lesson 00."""

import numpy as np
import pytest

from course_recording.frame import WrongResult
from course_recording.subjects import first_launches
from tests.course_recording.untimed import Untimed


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(first_launches, "SIZE", 37)
    return Untimed()


def test_the_bench_times_a_right_kernel(bench):
    first_launches.run(bench)
    launches = ("1, 1", "1, 32", "1, 256", "256, 256")
    assert bench.measured() == [("glow", launch, "37x37", "float32") for launch in launches]
    assert {row.metric for row in bench.rows} == {f"{8 * 37 * 37} bytes"}


def test_a_wrong_result_is_refused(bench, monkeypatch):
    monkeypatch.setattr(np, "sqrt", np.cbrt)
    with pytest.raises(WrongResult):
        first_launches.run(bench)
