"""Dates and durations in kernels, as NumPy computes with them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import from_dtype
from numba.core.errors import TypingError

from warpsim import cuda, trace

DAYS = np.arange("2020-01-01", "2020-02-01", dtype="datetime64[D]")
HOURS = DAYS.astype("datetime64[h]") + np.arange(31).astype("timedelta64[h]")
date, duration = from_dtype(DAYS.dtype), from_dtype(np.dtype("timedelta64[D]"))


@cuda.jit
def between(days, hours, since, spans, sums, shares, later):
    i = cuda.grid(1)
    kept = cuda.shared.array(32, days.dtype)
    if i < days.size:
        kept[i] = days[i]
        span = hours[i] - days[i]
        if i > 3:
            span = span * 2
        spans[i] = span
        sums[i] = days[i] + span
        shares[i] = span / (hours[1] - days[1])
        later[i] = kept[i] > since


def test_dates_are_subtracted_added_divided_and_compared():
    spans, sums = np.zeros(31, "timedelta64[h]"), np.zeros(31, "datetime64[h]")
    shares, later = np.zeros(31), np.zeros(31, bool)
    between[1, 32](DAYS, HOURS, DAYS[3], spans, sums, shares, later)
    expected = (HOURS - DAYS) * np.where(np.arange(31) > 3, 2, 1)
    assert (spans == expected).all() and (sums == DAYS + expected).all()
    assert (shares == expected / np.timedelta64(1, "h")).all() and (later == (DAYS > DAYS[3])).all()
    report = trace(between, 1, 32, DAYS, HOURS, DAYS[3], spans, sums, shares, later)
    assert {finding.kind for finding in report.findings} <= {"float64"}
    assert report.total("shared", "store").bytes == 31 * 8


def test_not_a_time_stays_one():
    @cuda.jit
    def kernel(x, out, same):
        i = cuda.grid(1)
        out[i] = x[i] - x[0]
        same[i] = x[i] == x[i]

    x = np.array(["2020-01-01", "NaT"], "datetime64[s]")
    out, same = np.zeros(2, "timedelta64[s]"), np.ones(2, bool)
    kernel[1, 2](x, out, same)
    assert out[0] == np.timedelta64(0, "s") and np.isnat(out[1]) and list(same) == [True, False]


def test_ufuncs_of_dates_have_the_result_of_the_function():
    @cuda.vectorize([(date, date)])
    def span(start, end):
        return end - start

    @cuda.guvectorize([(date, date, duration[:])], "(),()->()")
    def spans(start, end, out):
        out[0] = end - start

    expected = DAYS[::-1] - DAYS
    for function in (span, spans):
        found = function(DAYS, DAYS[::-1].copy())
        assert found.dtype == expected.dtype and (found == expected).all()


def test_what_is_no_date_is_not_stored_as_one():
    @cuda.jit
    def kernel(x):
        x[0] = 3

    with pytest.raises(TypingError, match="Cannot cast"):
        kernel[1, 1](DAYS.copy())
