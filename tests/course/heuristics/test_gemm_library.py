"""Which products are handed to cuBLAS: few of those that the bench draws."""

import numpy as np
import pytest

from course.heuristics import gemm, gemm_library
from course_recording.subjects import drawn


def chosen(layout, m, n, k):
    """Sizes of a product in new arrays, and the best plan of ours."""
    pitches = m if layout == "tn" else k, k if layout == "nt" else n, n
    sizes = gemm.Sizes(layout, m, n, k, 132, tuple(its % 8 == 0 for its in pitches))
    return sizes, gemm.plan_for(sizes, ("thin", "partial", "stored")[: 2 + all(sizes.aligned)])


@pytest.mark.parametrize("finished", [False, True])
def test_at_most_one_in_ten_drawn_products_is_handed_over(finished):
    rng, handed, count = np.random.default_rng(12), [], 0
    while count < 300:
        m, n, k = (drawn.side(rng, *its) for its in ((1, 16384), (1, 16384), (16, 100_000)))
        if 2 * (m * k + k * n + m * n) > drawn.MOST_BYTES or 2 * m * n * k > drawn.MOST_OPERATIONS:
            continue
        count, layout = count + 1, str(rng.choice(["nn", "nt", "tn"]))
        sizes, plan = chosen(layout, m, n, k)
        if gemm_library.is_faster(sizes, plan, finished):
            handed.append((sizes, plan.time))
    print(f"of {count} products {len(handed)} are handed over:", *handed, sep="\n")
    assert len(handed) <= count // 10


#: Times of cuBLAS beside ours' on an H200, in microseconds; and whether cuBLAS is taken.
MEASURED = [
    ("nn", 3247, 272, 85272, True, "233 beside 346"), ("nt", 280, 15368, 8264, True, "112, 147"),
    ("nn", 7272, 608, 2088, True, "31, 43"), ("nn", 15557, 36, 28346, True, "398, 646"),
    ("nt", 31, 2316, 13554, True, "37, 53"), ("nn", 64, 8182, 7360, True, "60, 94"),
    ("nn", 24, 5128, 1264, True, "5.4, 8.7"), ("nn", 72, 5128, 1264, True, "6.0, 8.6"),
    ("nn", 4096, 1001, 4096, False, "281, 60"), ("nt", 511, 8191, 777, False, "59, 26"),
    ("tn", 9000, 9000, 64, False, "329, 78"), ("nn", 16000, 3, 9000, False, "209, 85"),
    ("nt", 1664, 40, 96829, False, "325, 250, with gelu"), ("nn", 3328, 32, 280, False, "3.6, 3.2"),
    ("nt", 440, 6104, 21456, True, "164, 215"), ("nn", 432, 10800, 4392, True, "59, 72"),
    ("tn", 1048, 400, 28751, False, "87, 58"), ("nn", 656, 920, 27912, True, "60, 71"),
    ("tn", 5592, 24, 5455, True, "20, 25"), ("nn", 7464, 24, 23096, True, "95, 118"),
    ("nt", 12608, 2304, 768, False, "82, 75"), ("nt", 12608, 3072, 768, False, "101, 95"),
    ("nt", 704, 1672, 11744, False, "64, 49"), ("nn", 1936, 1072, 5976, False, "52, 46"),
]  # fmt: skip
#: The same with a bias, and GELU where it is named: cuBLAS's sums are finished by another launch.
FINISHED = [
    ("nt", 440, 6104, 21456, True, "172, 216"), ("nt", 784, 5856, 10768, True, "154, 167, GELU"),
    ("nn", 8608, 1032, 7744, True, "226, 244"), ("nn", 3024, 2336, 5528, True, "131, 137, GELU"),
    ("nn", 1936, 1072, 5976, False, "61, 49, GELU"), ("nt", 4048, 2368, 1848, False, "86, 69"),
    ("tn", 7168, 6408, 1984, False, "404, 298, GELU"), ("nn", 432, 10800, 4392, False, "74, 72"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "m", "n", "k", "handed", "times", "finished"),
    [(*its, False) for its in MEASURED] + [(*its, True) for its in FINISHED],
)
def test_what_was_measured_is_handed_to_the_faster(layout, m, n, k, handed, times, finished):
    sizes, plan = chosen(layout, m, n, k)
    assert gemm_library.is_faster(sizes, plan, finished) == handed, (times, plan)
