"""Step 9 without one of its parts is right, and is another program."""

import numpy as np
import pytest

from course.kernels.reconstruct import warp_tiles
from course_recording.subjects import ablation


@pytest.mark.parametrize("name", ablation.WITHOUT)
def test_each_variant_rebuilds_an_image(name):
    rng = np.random.default_rng(0)
    u, s, vt = (rng.random(size, dtype=np.float32) for size in ((160, 20), 20, (20, 136)))
    out = np.full((160, 136), np.nan, np.float32)
    kernel = ablation.without(name)(True)[0]
    kernel[(2, 2), (warp_tiles.THREADS, 1)](u, s, vt, 19, out)
    expected = (u[:, :19].astype(np.float64) * s[:19]) @ vt[:19]
    assert np.abs(out - expected).max() <= 1e-6 * expected.max()


def test_a_part_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setitem(ablation.WITHOUT, "wings", (("flap()", ""),))
    with pytest.raises(ValueError, match=r"without wings: 'flap\(\)' stands 0 times"):
        ablation.without("wings")
