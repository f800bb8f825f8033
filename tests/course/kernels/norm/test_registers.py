"""LayerNorm with rows in registers: every config, and what L2 is asked to keep."""

import dataclasses
import functools

import numpy as np
import pytest

from course import gpu, trace
from course.kernels.norm.backward_registers import backward_config
from course.kernels.norm.first_steps import NormProblem, RowConfig, Variant
from course.kernels.norm.ladder import LADDER
from course.kernels.norm.registers import (
    ELEMENTS,
    FEW,
    ROW_THREADS,
    block_config,
    row_config,
    rows_in_registers,
    several_config,
    short_config,
)
from tests.course.kernels.contract import checked
from tests.course.kernels.norm.test_long_rows import inputs
from warpsim.host import gpus

#: Lengths at which one shape ends and the next begins, and the longest.
LENGTHS = (
    4, 8, 9, 64, 255, 256, 257, 260, 384, 385, 388, 768, 1020, 4096, 4099, 8192, 8196, 16_388,
    16_389, 32_768, 32_769, 65_535, 65_536,
)  # fmt: skip


def best(columns, aligned=True):
    """The step that "auto" takes for rows of float32."""
    return LADDER.best(NormProblem(FEW, columns, aligned=aligned, limits=(64 * 1024, False)))


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


def test_the_chosen_shapes_hold_their_rows_and_fit_a_multiprocessor():
    row_config_16 = functools.partial(row_config, kind="float16")
    for choose, most in ((row_config, 16_384), (row_config_16, 16_384), (backward_config, 4096)):
        for aligned in (True, False):
            for columns in (*range(1, 260), 768, 1024, 4093, most):
                if columns <= most:
                    shape = choose(columns, aligned)
                    assert shape.longest >= columns
                    assert shape.threads * shape.max_registers <= 65_536
    assert all(short_config(columns).longest >= columns for columns in range(1, 1025))


def test_shapes_that_were_measured():
    """On an H200; who changes one measures again."""
    few, every = 32, 255  # registers
    for columns, sizes in {
        768: (96, 1, 8, few), 1024: (128, 1, 8, few), 2048: (256, 1, 8, few),
        4096: (512, 1, 8, few), 5000: (320, 1, 16, every), 8192: (512, 1, 16, every),
        12_288: (512, 1, 24, every),
    }.items():  # fmt: skip
        assert best(columns) == "registers" and row_config(columns) == RowConfig(*sizes)
    for columns in (257, 384):
        assert best(columns) == best(columns, False) == "several rows"
        assert short_config(columns) == RowConfig(32, 4, 12)
    assert best(385) == "registers"
    for columns in (4097, 4099, 4224):
        assert row_config(columns, aligned=False) == RowConfig(352, 1, 12, 64)


def test_a_few_rows_take_more_threads_and_their_factors_ahead():
    """On an H200; who changes one measures again."""
    assert several_config(5, 115, False, "bfloat16") == RowConfig(32, 2, 4, ahead=True)
    assert several_config(FEW, 192, True, "float32") == short_config(192)
    assert block_config(24, 937, False, "float16") == RowConfig(128, 1, 8, ahead=True)
    for columns in (*range(1, 1025), 8193, 16_384, 16_385, ROW_THREADS[-1] * ELEMENTS[True][-1]):
        assert block_config(1, columns, True, "float32").longest >= columns
        if columns <= 1024:
            assert several_config(1, columns, True, "float32").longest >= columns


def test_registers_load_16_bytes_a_lane(rng):
    x, gamma, beta = inputs(rng, 4, 768)
    kernel, blocks, threads, _ = LADDER["registers"].launch(*x.shape, Variant())
    report = trace(kernel, blocks, threads, x, gamma, beta, np.float32(1e-5), np.empty_like(x))
    load = report.total("global", "load")
    assert load.sectors == 16 * load.requests
