"""What is special about the softmax's gradient: long rows, wide accesses, registers."""

import numpy as np
import pytest

from course import trace
from course.compiler.facts import compiled
from course.heuristics.softmax import BACKWARD_LONGEST, backward_config_for
from course.kernels.softmax import backward as back
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.contract import checked


@pytest.mark.parametrize("shape", [(1, 8192), (1, 8193), (1, 16_384), (1, 16_385), (2, 65_536)])
def test_gradients_of_long_rows(rng, shape):
    dy, y = rng.normal(0, 1, shape).astype(np.float32), rng.random(shape, dtype=np.float32)
    checked("softmax_backward", dy=dy, y=y / y.sum(-1, keepdims=True))


def test_whole_rows_are_read_and_written_in_wide_accesses(rng):
    dy, y = rng.normal(0, 1, (2, 4, 1024)).astype(np.float32)
    config = backward_config_for(1024)
    kernel = back.backward_in_registers("float32", config, "aligned")
    grid = 4 // config.rows, (config.row_threads, config.rows)
    report = trace(kernel, *grid, dy, y, np.empty_like(dy))
    assert report.total("global", "load").requests == 2 * dy.nbytes / 512
    assert report.total("global", "store").requests == dy.nbytes / 512


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("access", ["aligned", "shifted", "single"])
def test_the_longest_rows_in_registers_leave_a_block_that_can_be_launched(access, target):
    config = backward_config_for(BACKWARD_LONGEST[access == "aligned"], access)
    kernel = back.backward_in_registers("float32", config, access)
    facts = compiled(kernel, f"void({', '.join(['float32[:, :]'] * 3)})", target)
    assert facts.registers * config.row_threads <= 65_536
    assert facts.local_bytes == facts.spills == 0
