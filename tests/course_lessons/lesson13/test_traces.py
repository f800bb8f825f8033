"""What lesson 13's table says of the steps of the ladder is what the trace counts."""

import numpy as np
import pytest

from course_lessons.lesson13 import traces

ROWS = np.random.default_rng(5).standard_normal((32, 1024), dtype=np.float32)
GAMMA, BETA = np.ones(1024, np.float32), np.zeros(1024, np.float32)


@pytest.mark.parametrize(
    ("name", "read", "sectors"),
    [("naive", 3, 32), ("tree", 3, 4), ("warp", 2, 4), ("registers", 1, 16)],
)
def test_readings_and_sectors_of_a_step(name, read, sectors):
    found = traces.of_norm(name, ROWS, GAMMA, BETA)
    assert found.transfers == read + 1  # and one store
    assert found.sectors == sectors
    assert (found.wavefronts > 0) == (name in ("tree", "registers"))


def test_gelu_fused_behind_moves_no_more():
    alone, fused = (traces.of_norm("block", ROWS, GAMMA, BETA, then) for then in (None, "gelu"))
    assert fused == alone
