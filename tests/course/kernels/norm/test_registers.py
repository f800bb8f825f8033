"""LayerNorm with rows in registers: every config, and what L2 is asked to keep."""

import dataclasses

import numpy as np
import pytest

from course import gpu, trace
from course.heuristics.norm import (
    FEW,
    REGISTERS_AND_SHARED,
    NormProblem,
    RowConfig,
    Variant,
    row_config,
)
from course.kernels.norm.ladder import LADDER, layer_norm
from course.kernels.norm.registers import rows_in_registers
from tests.course.kernels.contract import checked
from tests.course.kernels.norm.test_long_rows import inputs
from warpsim.host import gpus

#: Lengths at which one shape ends and the next begins, and the longest.
LENGTHS = (
    4, 8, 9, 64, 255, 256, 257, 260, 384, 385, 388, 768, 1020, 4096, 4099, 8192, 8196, 16_388,
    16_389, 32_768, 32_769, 65_535, 65_536,
)  # fmt: skip


@pytest.mark.drawn(4)
@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize("columns", LENGTHS)
def test_rows_of_every_length(rng, columns):
    x, gamma, beta = inputs(rng, 2, columns)
    checked("layer_norm", x=x, gamma=gamma, beta=beta, activation="gelu")


@pytest.mark.parametrize(
    ("columns", "kept"), [(1024, True), (1023, False), (12_288, True), (12_292, False)]
)
def test_which_rows_l2_is_asked_to_keep(columns, kept):
    form = Variant(aligned=columns % 4 == 0, activation="gelu", keep_in_l2=True)
    shape = row_config(columns, form.aligned)
    full = shape.unguarded(columns, form.aligned)
    wanted = rows_in_registers(shape, dataclasses.replace(form, unguarded=full, keep_in_l2=kept))
    assert LADDER["registers"].launch(FEW, columns, form).kernel is wanted


@pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU")
def test_which_gpus_keep(monkeypatch):
    for name, kind, kept in (
        ("T4", "float32", False), ("H200", "float32", True), ("H200", "float16", False)
    ):  # fmt: skip
        monkeypatch.setattr(gpus, "_chosen", gpus.find(name))
        assert NormProblem(1, 8, kind).variant.keep_in_l2 == kept


@pytest.mark.parametrize(
    "shape", [RowConfig(1, 32, 4), RowConfig(4, 8, 12), RowConfig(32, 2, 4), RowConfig(96)]
)
@pytest.mark.parametrize("aligned", [True, False])
def test_other_shapes_work_too(rng, shape, aligned):
    for columns in {shape.longest, shape.longest - 4 if aligned else shape.longest - 3} - {0}:
        x, gamma, beta = inputs(rng, shape.rows + 1, columns)
        out = np.full_like(x, np.nan)
        form = Variant(aligned=aligned, unguarded=shape.unguarded(columns, aligned))
        kernel = rows_in_registers(shape, form)
        blocks = 2 if shape.rows > 1 else shape.rows + 1
        kernel[blocks, shape.threads](x, gamma, beta, np.float32(1e-5), out)
        checked("layer_norm", found=out, x=x, gamma=gamma, beta=beta)


def test_registers_load_16_bytes_a_lane(rng):
    x, gamma, beta = inputs(rng, 4, 768)
    kernel, blocks, threads, _ = LADDER["registers"].launch(*x.shape, Variant())
    report = trace(kernel, blocks, threads, x, gamma, beta, np.float32(1e-5), np.empty_like(x))
    load = report.total("global", "load")
    assert load.sectors == 16 * load.requests


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize(
    ("columns", "dtype", "activation"),
    [(33_300, "float16", None), (16_389, "float16", "gelu"), (70_004, "float32", None)],
)
def test_rows_that_no_block_holds_are_read_once(rng, columns, dtype, activation):
    x = (rng.normal(0, 1, (2, columns)) + 3).astype(dtype)
    gamma, beta = rng.normal(1, 0.3, (2, columns)).astype(dtype)
    checked("layer_norm", "clusters", x=x, gamma=gamma, beta=beta, activation=activation)


@pytest.mark.usefixtures("h200")
def test_blocks_without_an_element_add_nothing():
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    y = layer_norm(x, method="clusters")
    assert np.abs(y - layer_norm(x, method="naive")).max() < 1e-6


@pytest.mark.usefixtures("h200")
def test_auto_takes_clusters_for_few_rows_and_where_single_elements_are_accessed():
    def best(rows, columns, aligned=True):
        return LADDER.best(NormProblem(rows, columns, "float16", aligned))

    assert best(31, 90_576) == best(384, 93_689, False) == best(1336, 60_088) == "clusters"
    assert best(429, 33_312) == best(2106, 84_368) == "long"  # from L2, and a block at a time
    assert best(31, 30_000) == "registers"


@pytest.mark.usefixtures("h200")
def test_auto_takes_another_step_where_lanes_of_half_idle_or_both_takes_one_launch_more():
    def best(rows, columns, dtype, aligned=True):
        eights = "" if dtype == "float16" else "is for elements of 16 bits"
        return LADDER.best(NormProblem(rows, columns, dtype, aligned, eights=eights))

    assert best(10**5, 96, "float16") == best(10**5, 384 - 8, "float16") == "several rows"
    assert best(10**5, 224, "float16") == best(10**5, 768, "float16") == "half"
    assert best(24, 9631, "float32", False) == "registers"
    assert best(24, 30_001, "float32", False) == "clusters"
    assert best(1000, 9631, "float32", False) == REGISTERS_AND_SHARED
