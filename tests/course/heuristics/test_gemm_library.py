"""Which products are handed to cuBLAS: few of those that the bench draws."""

import numpy as np
import pytest

from course.heuristics import gemm, gemm_library
from course_recording.subjects import drawn


@pytest.mark.parametrize("finished", [False, True])
def test_at_most_one_in_ten_drawn_products_is_handed_over(finished):
    rng, handed, count = np.random.default_rng(12), [], 0
    while count < 300:
        m, n, k = (drawn.side(rng, *its) for its in ((1, 16384), (1, 16384), (16, 100_000)))
        if 2 * (m * k + k * n + m * n) > drawn.MOST_BYTES or 2 * m * n * k > drawn.MOST_OPERATIONS:
            continue
        count, layout = count + 1, str(rng.choice(["nn", "nt", "tn"]))
        pitches = m if layout == "tn" else k, k if layout == "nt" else n, n
        sizes = gemm.Sizes(layout, m, n, k, 132, tuple(its % 8 == 0 for its in pitches))
        plan = gemm.plan_for(sizes, ("thin", "partial", "stored")[: 2 + all(sizes.aligned)])
        if gemm_library.is_faster(sizes, plan, finished):
            handed.append((sizes, plan.time))
    print(f"of {count} products {len(handed)} are handed over:", *handed, sep="\n")
    assert len(handed) <= count // 10
