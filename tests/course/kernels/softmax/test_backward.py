"""What is special about the softmax's gradient: long rows, wide accesses, registers."""

import numpy as np
import pytest

from course import gpu, trace
from course.backend import cuda
from course.compiler.facts import compiled
from course.kernels.arrays import address_of
from course.kernels.softmax import backward as back
from course.kernels.softmax.forward import SHIFTED, RowProblem
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.contract import Laid, checked, typed, watched


@pytest.mark.parametrize("shape", [(1, 8192), (1, 8193), (1, 16_384), (1, 16_385), (2, 65_536)])
def test_gradients_of_long_rows(rng, shape):
    dy, y = rng.normal(0, 1, shape).astype(np.float32), rng.random(shape, dtype=np.float32)
    checked("softmax_backward", dy=dy, y=y / y.sum(-1, keepdims=True))


def test_whole_rows_are_read_and_written_in_wide_accesses(rng):
    dy, y = rng.normal(0, 1, (2, 4, 1024)).astype(np.float32)
    config = back.config_for(1024)
    kernel = back.backward_in_registers("float32", config, "aligned")
    grid = 4 // config.rows, (config.row_threads, config.rows)
    report = trace(kernel, *grid, dy, y, np.empty_like(dy))
    assert report.total("global", "load").requests == 2 * dy.nbytes / 512
    assert report.total("global", "store").requests == dy.nbytes / 512


def between(values, dtype, width, begin):
    """Rows on the device from a column on, of rows of NaN."""
    memory = np.full((len(values), width), np.nan, np.float32)
    inside = slice(None), slice(begin, begin + values.shape[1])
    memory[inside] = values
    base = cuda.to_device(typed(memory, dtype))
    return Laid(base[inside], base, inside)


def long_rows_that_begin_anywhere(rng, dtype, rows, together):
    """Check a drawn call; return how the arrays' rows are accessed."""
    columns = int(rng.integers(SHIFTED - 9, back.LONGEST[False] + 1))
    begins = rng.integers(0, 3, 3) * 4 if together else rng.integers(0, 9, 3)
    widths = columns + 9 + (rng.integers(0, 9) if together else rng.integers(0, 9, 3)) + [0, 0, 4]
    y = rng.dirichlet(np.full(columns, 0.3), rows)
    given = rng.normal(0, 1, y.shape), y, np.full(y.shape, np.nan)
    dy, y, dx = laid = [
        between(*one) for one in zip(given, [dtype] * 3, widths, begins, strict=True)
    ]
    dx = (laid[0], laid[1], dx)[rng.integers(3)]
    arrays = [one.array for one in (*laid[:2], dx)]
    places = [[(address_of(its) + row * its.strides[0]) // its.dtype.itemsize % 4
               for row in range(rows)] for its in arrays]  # fmt: skip
    alike = columns > SHIFTED and places[0][0] == 0 and places[0] == places[1] == places[2]
    access = "shifted" if alike else "single"
    if columns % 4 == 0 and not np.any(places):
        access = "aligned"
    told = f"{dtype} {rows}x{columns} from {begins} of {widths}, dx {laid.index(dx)}, {access}"
    assert RowProblem.of(*arrays).access == access, told
    before = [its.copy_to_host() for its in arrays[:2]]
    with watched() as found:
        back.softmax_backward(*arrays[:2], out=arrays[2], method="registers")
    checked("softmax_backward", found=arrays[2], **dict(zip(("dy", "y"), before, strict=True)))
    assert not any(one.touched() for one in laid) and not found.errors, told
    return access


@pytest.mark.parametrize(("dtype", "seed"), [("float32", 0), ("float16", 1), ("bfloat16", 3)])
def test_long_rows_that_begin_anywhere(dtype, seed):
    rng = np.random.default_rng(seed)
    for together in (True, False, True, False):
        access = long_rows_that_begin_anywhere(rng, dtype, 3, together)
        assert access == ("shifted" if together else "single")  # by these seeds


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="many rows take a GPU")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_many_long_rows_that_begin_anywhere_on_a_gpu(rng, dtype):
    for rows in rng.integers(2, 600, 30):
        long_rows_that_begin_anywhere(rng, dtype, int(rows), rows % 3 > 0)


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("access", ["aligned", "shifted", "single"])
def test_the_longest_rows_in_registers_leave_a_block_that_can_be_launched(access, target):
    config = back.config_for(back.LONGEST[access == "aligned"], access)
    kernel = back.backward_in_registers("float32", config, access)
    facts = compiled(kernel, f"void({', '.join(['float32[:, :]'] * 3)})", target)
    assert facts.registers * config.row_threads <= 65_536
    assert facts.local_bytes == facts.spills == 0
