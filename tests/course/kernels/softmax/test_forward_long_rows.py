"""Long rows that begin anywhere, of softmax and its gradient: drawn, in place and beside NaN."""

import numpy as np
import pytest

from course import gpu
from course.backend import cuda
from course.heuristics import softmax as heuristics
from course.kernels.arrays import address_of
from course.kernels.softmax import softmax, softmax_backward
from course.kernels.softmax.forward import problem_of
from tests.course.kernels.contract import Laid, checked, typed, watched

ARRAYS = {softmax: ("x",), softmax_backward: ("dy", "y")}


def between(values, dtype, width, begin):
    """Rows on the device from a column on, of rows of NaN."""
    memory = np.full((len(values), width), np.nan, np.float32)
    inside = slice(None), slice(begin, begin + values.shape[1])
    memory[inside] = values
    base = cuda.to_device(typed(memory, dtype))
    return Laid(base[inside], base, inside)


def drawn(rng, call, dtype, rows, together):
    """Check a call; return how its arrays' rows are accessed, alike more often than not if so."""
    names, forward32 = ARRAYS[call], call is softmax and dtype == "float32"
    since = heuristics.SHIFTED_FLOAT32 if forward32 else heuristics.SHIFTED
    columns = int(rng.integers(since - 9, heuristics.BACKWARD_LONGEST[False] + 1))
    count, y = len(names) + 1, rng.dirichlet(np.full(columns, 0.3), rows)
    begins = rng.integers(0, 3, count) * 4 if together else rng.integers(0, 9, count)
    widths = columns + rng.integers(9, 18, None if together else count) + [0, 4, 0][:count]
    given = {"x": rng.normal(0, 3, y.shape), "dy": rng.normal(0, 1, y.shape), "y": y}
    values = *(given[name] for name in names), np.full(y.shape, np.nan)
    laid = [between(*one) for one in zip(values, [dtype] * count, widths, begins, strict=True)]
    *inputs, out = (one.array for one in (*laid[:-1], laid[rng.integers(count)]))
    places = [[(address_of(its) + row * its.strides[0]) // its.dtype.itemsize % 4
               for row in range(rows)] for its in (*inputs, out)]  # fmt: skip
    alike = places[0][0] == 0 and all(one == places[0] for one in places)
    shifted = alike and heuristics.prefers_shifted(rows, columns, forward32)
    aligned = columns % 4 == 0 and not np.any(places)
    access = "aligned" if aligned else "shifted" if shifted else "single"
    told = f"{dtype} {rows}x{columns} from {begins} of {widths}, in place {out in inputs}: {access}"
    assert problem_of(*inputs, out).access == access, told
    exact = dict(zip(names, (its.copy_to_host() for its in inputs), strict=True))
    with watched() as found:
        call(*inputs, out=out, method="registers")
    checked(call.ladder.function, found=out, **exact)
    assert not any(one.touched() for one in laid) and not found.errors, told
    if gpu() is None:
        assert (found.requests < count * rows * columns / 45) == (access != "single"), told
    return access


@pytest.mark.parametrize("call", ARRAYS)
@pytest.mark.parametrize(("dtype", "seed"), [("float32", 0), ("float16", 6), ("bfloat16", 8)])
def test_rows_that_begin_anywhere(call, dtype, seed, monkeypatch):
    rng, found = np.random.default_rng(seed), set()
    monkeypatch.setattr(heuristics, "SHIFTED_ROWS", 3)
    while not found >= {"shifted", "single"}:
        found |= {drawn(rng, call, dtype, 3, together) for together in (True, False, True, False)}


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="many rows take a GPU")
@pytest.mark.parametrize("call", ARRAYS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_many_rows_that_begin_anywhere_on_a_gpu(rng, call, dtype, monkeypatch):
    monkeypatch.setattr(heuristics, "SHIFTED_ROWS", 2)
    for rows in rng.integers(2, 600, 30):
        drawn(rng, call, dtype, int(rows), rows % 3 > 0)
