"""What hands matrices to a library, and how work is cut."""

import numpy as np

from course.heuristics import svd as heuristics
from course_recording.subjects.drawn import side


def test_the_rule_is_what_the_docstring_says_and_takes_few():
    rng, handed, drawn = np.random.default_rng(11), [0, 0], 0
    while drawn < 2000:
        batch, m, n = side(rng, 1, 4096), side(rng, 8, 1024), side(rng, 8, 1024)
        if batch * m * n > 30_000_000 or batch * max(m, n) * min(m, n) ** 2 > 1e11:
            continue
        drawn += 1
        few = 2 <= batch <= 24 and 97 <= min(m, n) <= 128
        long = min(m, n) >= 320 and batch * m * n >= 10_000_000
        said = few or long or (batch == 1 and min(m, n) >= 129)
        assert heuristics.is_faster((batch, m, n)) == said
        k = side(rng, 1, min(m, n) // 4)
        for_rank = few or batch == 1
        assert heuristics.is_faster((batch, m, n), k) == for_rank
        sketched = batch == 1 and min(m, n) >= 129 and k + 8 <= min(m, n) * 2 / 7
        assert heuristics.is_sketched((batch, m, n), k) == sketched
        assert batch > 1 or heuristics.is_faster((m, n)) == said
        handed = [handed[0] + said, handed[1] + for_rank]
    print(f"of {drawn} shapes {handed[0]} of svd's and {handed[1]} of rank_k's are handed over")
    assert 0 < max(handed) <= drawn // 10
