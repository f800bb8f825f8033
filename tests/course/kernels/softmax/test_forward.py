"""What is special about softmax: long rows, the largest numbers, sectors, registers."""

import numpy as np
import pytest

from course import trace
from course.compiler.facts import compiled
from course.heuristics import softmax as heuristics
from course.kernels.softmax import forward, softmax
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.contract import checked, in_float64, typed


@pytest.mark.parametrize("shape", [(1, 16_385), (1, 32_768), (1, 32_771), (2, 65_536)])
def test_softmax_of_long_rows(rng, shape):
    checked("softmax", x=rng.normal(0, 3, shape).astype(np.float32))


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize("method", forward.LADDER)
def test_softmax_treats_nan_infinity_and_the_largest_numbers_as_pytorch_does(method):
    most = np.finfo(np.float32).max
    for columns in (5, 1029, 5000):
        x, late = np.zeros((8, columns), np.float32), columns * 4 // 5  # in another block
        x[0, -1], x[1, 2], x[2, :], x[3, 1:] = np.nan, np.inf, -np.inf, -np.inf
        x[4, :], x[5, late], x[6, :], x[7, 4] = -most, most, most, 80
        y = softmax(x, method=method)
        assert np.isnan(y[:3]).all()
        assert np.array_equal(y[3], np.eye(1, columns)[0])
        assert np.allclose(y[[4, 6]], 1 / columns, rtol=1e-6)
        assert np.array_equal(y[5], np.eye(1, columns, late)[0])
        checked("softmax", method, x=x[7:])


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize(("columns", "dtype"), [(16_669, "float32"), (70_264, "float16")])
def test_rows_that_no_block_holds_are_read_once(rng, columns, dtype):
    checked("softmax", "clusters", x=rng.normal(0, 3, (2, columns)).astype(dtype))


@pytest.mark.usefixtures("h200")
def test_auto_takes_clusters_for_long_rows_and_for_few_that_are_not_short():
    def best(rows, columns, aligned=True):
        return forward.LADDER.best(heuristics.RowProblem(rows, columns, "float32", aligned))

    assert best(2, 22_864) == best(3, 16_669, False) == best(2469, 74_248) == "clusters"
    assert best(6325, 21_456) == best(1, 8920) == "registers"
    assert best(1, 300_000) == "online"


def test_a_sum_of_bfloat16_is_float32():
    y = softmax(typed(np.ones((1, 5000)), "bfloat16"))  # a sum of its own stays at 256
    assert (in_float64(y) == in_float64(typed(np.full(5000, 1 / 5000), "bfloat16"))).all()


def test_registers_reads_whole_rows_in_whole_sectors(rng):
    x, config = rng.normal(0, 3, (4, 1536)).astype(np.float32), heuristics.config_for(1536)
    kernel = forward.registers("float32", config, "aligned")
    grid = 4 // config.rows, (config.row_threads, config.rows)
    report = trace(kernel, *grid, x, np.empty_like(x))
    assert report.total("global", "load").sectors == x.nbytes / 32
    assert report.total("global", "store").sectors == x.nbytes / 32


@needs_compiler
@pytest.mark.parametrize("access", ["aligned", "shifted", "single"])
def test_the_longest_rows_in_registers_leave_a_block_that_can_be_launched(access):
    longest = heuristics.LONGEST[access == "aligned"]
    kernel = forward.registers("float32", heuristics.config_for(longest, access), access)
    facts = compiled(kernel, "void(float32[:, :], float32[:, :])", "sm_90")
    assert facts.registers * heuristics.config_for(longest, access).row_threads <= 65_536
    assert facts.local_bytes == facts.spills == 0


@needs_compiler
@pytest.mark.parametrize("columns", [16_640, 40_960, 74_248])
def test_three_blocks_of_a_cluster_are_on_a_multiprocessor_where_few_registers_do(columns):
    config = heuristics.cluster_config(columns, "aligned")
    kernel = forward.registers("float16", config, "aligned", config.unguarded(columns, "aligned"))
    facts = compiled(kernel, "void(float16[:, ::1], float16[:, ::1])", "sm_90")
    assert config.accesses == forward.THIN_ACCESSES and facts.registers <= forward.THIN
    assert facts.local_bytes == facts.spills == 0


@needs_compiler
@pytest.mark.parametrize(("access", "threads"), [("aligned", 32), ("single", 32), ("single", 64)])
def test_eight_launches_of_few_rows_have_registers(rng, access, threads):
    columns = int(rng.integers(161, 384)) * 4 - (access == "single")
    config = heuristics.SoftmaxConfig(threads, 4, -(-columns // (4 * threads)))
    kernel = forward.registers("float16", config, access, config.unguarded(columns, access))
    facts = compiled(kernel, "void(float16[:, ::1], float16[:, ::1])", "sm_90")
    blocks = 132 * min(65_536 // (256 * -(-facts.registers // 8) * 8), 8)  # of eight warps
    assert not heuristics.beside(threads, columns, access, blocks * 32 // threads + 1)


@needs_compiler
def test_a_power_is_one_instruction():
    types, config = "void(float32[:, :], float32[:, :])", heuristics.config_for(1000)
    for kernel in (forward.registers("float32", config, "aligned"),
                   forward.online("float32", 256, True)):  # fmt: skip
        assert "ex2.approx.ftz" in (ptx := compiled(kernel, types, "sm_90").ptx)
        assert "ex2.approx.f32" not in ptx
