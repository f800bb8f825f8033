"""How sure a median is."""

import math
from collections.abc import Sequence


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Where the median of all possible samples lies, by order statistics.

    Each sample falls below that median with probability 1/2, whatever the distribution. So how many
    do is binomial, and the median lies between the j-th smallest and the j-th largest sample with a
    probability that can be counted; j is the largest for which it is at least `confidence`. The
    samples must be independent of each other.
    Source: Hoefler and Belli, Scientific benchmarking of parallel computing systems, 2015, rule 5.

    Returns
    -------
    (float, float)
        NaN where even the shortest and the longest sample are too near: below 6 samples for 95%.
    """
    n, j, outside = len(samples), 0, 0.0
    while j < n // 2:
        outside += 2 * math.comb(n, j) * 0.5**n  # fewer than j + 1 on one side, or on the other
        if outside > 1 - confidence:
            break
        j += 1
    if not j:
        return math.nan, math.nan
    ordered = sorted(samples)
    return float(ordered[j - 1]), float(ordered[n - j])
