"""How many threads share a row of softmax."""

import pytest

from course.heuristics import softmax as heuristics


@pytest.mark.parametrize(("access", "size"), heuristics.TUNED)
def test_every_length_has_a_config_that_holds_it(rng, access, size):
    for columns in range(1, heuristics.LONGEST[access == "aligned"] + 1):
        rows, of = int(2 ** rng.uniform(0, 18)), int(rng.choice([40, 132]))  # multiprocessors
        config = heuristics.config_for(columns, access, size, rows, of)
        threads, held = config.row_threads, columns + (3 if access == "shifted" else 0)
        assert held <= threads * config.accesses * heuristics.VECTOR
        assert threads * config.rows in range(32, 1025, 32)
        assert config.accesses <= (12 if threads < 1024 else 8)
        few = heuristics.WARP_COLUMNS < columns and rows * columns * size <= heuristics.QUEUED_BYTES
        if few and threads <= 64 and heuristics.beside(threads, columns, access, rows, of):
            assert rows <= config.rows * of
