"""Cases of `reconstruct`, drawn.

`tests.course_app.pipeline.drawn_pipeline` draws them and says what is right.
"""

import sys

import pytest

from tests.course_app.pipeline import drawn_pipeline

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups, pipes, links")
DRAWS = {"faults": 6, "damage": 8, "groups": 8, "folders": 4}  # of each, and slow ones


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind, count in DRAWS.items() for seed in range(count)]
)
def test_what_is_drawn_ends_as_it_should(kind, seed, tmp_path):
    getattr(drawn_pipeline, kind)(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWS)
def test_a_hundred_more(kind, tmp_path):
    for seed in range(1000, 1100):
        place = tmp_path / str(seed)  # the failure's message has it
        place.mkdir()
        getattr(drawn_pipeline, kind)(seed, place)
