"""Lesson 06's ladder: its table and roofs, the compiled facts, and what the lesson says of them.

The lesson's words on what each step gained are about figures that are measured anew from time to
time: the claims stand here, so that new figures which contradict the words show.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from course import backend, trace
from course.checks.exercises import find_exercise
from course.compiler.facts import compiled
from course.kernels.reconstruct import register_tiles
from course.kernels.reconstruct.ladder import LADDER
from course.measure.recorded import recorded
from course_lessons.lesson06 import ladder
from tests.course.compiled_samples import needs_compiler, needs_hopper
from tools.compile import ladder as compile_ladder

LOOPS = {
    "plain": ("mov.u32 %r1, 0;", "$L1:", "ld.shared.f32 %f1, [%rd1];", "fma.rn.f32 %f2, %f1;",
              "@%p1 bra $L1;", "ret;"),
    "unrolled": ("bar.sync 0;", *("ld.shared.f32 %f1, [%rd1];", "fma.rn.f32 %f2, %f1;") * 4,
                 "bar.sync 0;", "fma.rn.f32 %f2, %f1;"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "counts"), [("plain", (3, 1, 1)), ("unrolled", (8, 4, 4))])
def test_the_inner_loop_is_the_piece_with_the_most_products(name, counts):
    loop = ladder.inner_loop("\n".join(f"\t{line}" for line in LOOPS[name]))
    assert (loop.instructions, loop.products, loop.reads) == counts
    assert loop.per_product == counts[0] / counts[1]


def test_the_main_loop_goes_on_behind_its_barrier():
    text = "\n".join(("mov.u32 %r1, 0;", *LOOPS["plain"][1:4], "bar.sync 0;", *LOOPS["plain"][3:]))
    assert ladder.main_loop(text) == ladder.InnerLoop(5, 2, 1)
    with pytest.raises(ValueError, match="no loop"):
        ladder.main_loop("\n".join(LOOPS["unrolled"]))


def test_code_without_products_has_no_inner_loop():
    with pytest.raises(ValueError, match="no product"):
        ladder.inner_loop("ret;")


@needs_compiler
def test_the_readers_last_rung_has_the_registers_and_the_loop_that_the_lesson_says():
    exercise = find_exercise("last-rung")
    found = compiled(exercise.model(), tuple(exercise.arguments(0).values()), target="sm_90")
    assert found.registers <= 128 and found.spills == 0
    assert ladder.main_loop(found.ptx) == ladder.OWN_LOOP


@needs_hopper
def test_the_recorded_compiled_facts_are_what_the_compilers_say():
    recorded = compile_ladder.FILE.read_text(encoding="utf-8").splitlines()
    now = compile_ladder.text().splitlines()
    if recorded[0] != now[0]:
        pytest.skip(f"recorded with {recorded[0]}, here is {now[0]}")
    assert recorded == now, "run python -m tools.compile.ladder"


def test_every_step_has_compiled_facts():
    for name in set(LADDER) - {"library"}:
        assert ladder.facts(name).registers > 0
    assert ladder.facts("warp tiles", "sm_75").target == "sm_75"
    with pytest.raises(KeyError, match="no compiled facts of 'asynchronous' for sm_75"):
        ladder.facts("asynchronous", "sm_75")


def test_the_table_shows_the_recorded_figures():
    text = str(ladder.Table(["tiled", "wide", "no such step"]))
    wide = ladder.recorded("wide")
    row = next(line for line in text.splitlines() if line.startswith("wide"))
    assert float(re.search(r"([\d.]+) ms", row)[1]) == pytest.approx(wide.median, rel=0.002)
    assert f"{100 * ladder.recorded('cupy').median / wide.median:.1f}%" in row
    assert re.search(r"no such step +not recorded", text)
    *_, expression, product = text.splitlines()
    assert expression.startswith("CuPy") and "100.0%" in expression
    assert product.startswith("cuBLAS alone")


def test_the_last_rung_is_shown_on_the_card_that_it_was_recorded_on(monkeypatch):
    wide = ladder.recorded("wide")

    def figure(gpu, variant, median, metric="time"):
        shape, operations = "4096x4096x1024", 2 * 4096 * 4096 * 1024
        what = {"gpu": gpu, "variant": variant, "median": median, "metric": metric}
        return replace(wide, **what, shape=shape, operations=operations)

    h200, h100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
    known = [figure(h200, "cupy", 0.7), figure(h100, "cupy", 0.8), figure(h100, "yours", 1.0),
             figure(h100, "yours", 126, "registers")]  # fmt: skip

    def find(subject, variant, shape, metric="time", gpu=""):
        wanted = variant, shape, metric
        return [its for its in known
                if gpu in its.gpu and (its.variant, its.shape, its.metric) == wanted]  # fmt: skip

    monkeypatch.setattr(ladder, "find", find)
    assert ladder.card_of("yours") == "H100"
    text = str(ladder.Table(["yours"], ladder.card_of("yours")))
    assert h100 in text and re.search(r"yours .*34\.4 +80\.0% +126$", text, re.MULTILINE)
    known.append(figure(h200, "yours", 0.9))
    assert ladder.card_of("yours") == "H200"
    assert re.search(r"yours .*77\.8%", str(ladder.Table(["yours"])))
    assert ladder.card_of("nobody's") == "H200"


def test_the_roofs_follow_from_the_peak():
    peak = ladder.shared_roof(0.1)
    assert ladder.shared_roof(2) == peak / 8
    assert ladder.issue_roof(1) == peak
    assert ladder.issue_roof(4) == peak / 4
    turing = ladder.shared_roof(0.1, "T4")  # 64 float32 units: two products a clock
    assert ladder.shared_roof(2, "T4") == turing / 4
    assert ladder.issue_roof(2, "T4") == turing
    assert ladder.issue_roof(4, "T4") == turing / 2


def test_without_a_gpu_nothing_is_timed():
    if backend.gpu() is not None:
        pytest.skip("there is a GPU")
    assert "no GPU here, so no time" in ladder.measure("wide")
    assert "tensor_float16" in ladder.measure("tensor cores")


# --- what lesson 06 says -------------------------------------------------------------------------


def test_tiled_stands_close_under_the_roof_of_shared_memory():
    share = ladder.recorded("tiled").teraflops / ladder.shared_roof(2)
    assert 0.8 < share <= 1
    assert 0.12 < ladder.of_peer(ladder.recorded("tiled")) < 0.2  # "a sixth of cuBLAS"


def test_the_square_seems_to_stand_at_its_roof_and_wide_is_far_below():
    assert 0.9 < ladder.recorded("square").teraflops / ladder.shared_roof(0.75) < 1.05
    square = ladder.recorded("square").teraflops  # above a roof that counts the source: 0.75
    counted = ladder.counter("square", "shared load wavefronts") * 32 / np.prod(ladder.SHAPE)
    assert counted == pytest.approx(0.5, abs=0.01)
    assert ladder.shared_roof(0.75) < square < ladder.shared_roof(counted)
    wide = ladder.recorded("wide").teraflops
    assert wide < 0.7 * ladder.issue_roof(ladder.instructions("wide"))


def test_the_column_gains_less_than_its_roof():
    assert ladder.faster("column", than="tiled") < 0.9 * 2 / 1.125
    loops = [ladder.facts(name).loop.per_product for name in ("tiled", "column")]
    assert loops[0] < loops[1]
    whole = [ladder.instructions(name) for name in ("tiled", "column")]
    assert [round(each, 2) for each in whole] == [6.29, 4.33]  # turned round; "one in six"
    around = [(each - loop) * n for each, loop, n in zip(whole, loops, (16, 64), strict=True)]
    assert 0.8 < around[1] / around[0] < 1.25  # "about as long in both"
    assert 0.28 < 1 - whole[1] / whole[0] < 0.36  # "fell by a third only"


def test_both_roofs_rise_with_the_column_and_it_reaches_three_quarters_of_each():
    tiled, column = (
        (ladder.shared_roof(reads), ladder.issue_roof(ladder.instructions(name)))
        for name, reads in (("tiled", 2), ("column", 1.125))
    )
    assert tiled[0] < 0.85 * tiled[1] and column[0] == pytest.approx(column[1], rel=0.05)
    assert column[0] / tiled[0] == pytest.approx(1.78, abs=0.005)
    assert column[1] / tiled[1] == pytest.approx(1.45, abs=0.005)
    assert ladder.faster("column", than="tiled") == pytest.approx(1.46, abs=0.005)
    for roof in column:
        assert 0.7 < ladder.recorded("column").teraflops / roof < 0.78


def test_what_was_not_counted_is_said():
    with pytest.raises(ValueError, match="no recorded 'instructions' of 'asynchronous' on an H200"):
        ladder.instructions("asynchronous")


def test_each_roof_is_above_what_was_recorded():
    for name in ("tiled", "column", "square", "wide", "buffered", "asynchronous", "warp tiles"):
        figure = ladder.recorded(name)
        assert figure.teraflops < ladder.issue_roof(ladder.facts(name).loop.per_product)
        if name != "asynchronous":  # of which no counters were recorded
            assert ladder.instructions(name) > ladder.facts(name).loop.per_product
            assert figure.teraflops < ladder.issue_roof(ladder.instructions(name))


def test_double_buffers_gain_nothing_and_asynchronous_copies_lose():
    assert 0.85 < ladder.faster("buffered", than="wide") < 1.03
    assert ladder.faster("asynchronous", than="buffered") < 1
    assert ladder.facts("wide").occupancy().blocks == 2


def test_double_buffers_hide_waiting_and_cost_a_tenth_more_instructions():
    wide, buffered = (
        [ladder.counter(step, f"stall {name}") for name in ("long_scoreboard", "barrier")]
        for step in ("wide", "buffered")
    )
    assert round(wide[0], 2) == 1.16 and round(buffered[0], 2) == 0.56
    assert buffered[1] < wide[1]
    more = ladder.instructions("buffered") / ladder.instructions("wide")
    assert round(more, 2) == 1.10
    assert ladder.counter("wide", "issue slots") == pytest.approx(68.9, abs=0.1)


def test_warp_tiles_stand_beside_cublas():
    assert ladder.faster("wide", than="square") > 1.2
    assert ladder.of_peer(ladder.recorded("warp tiles")) > 0.95


# --- what lesson 17 says -------------------------------------------------------------------------


def test_tensor_cores_go_past_cublas_and_are_more_accurate():
    assert ladder.of_peer(ladder.recorded("tensor cores")) > 1.2
    errors = [ladder.recorded(name, "error").median for name in ("tensor cores", "cupy")]
    assert errors[0] < errors[1] < 1e-6


def test_warpgroups_are_three_times_as_fast_as_cublas_and_more_accurate():
    assert ladder.of_peer(ladder.recorded("warpgroups")) > 3
    errors = [ladder.recorded(name, "error").median for name in ("warpgroups", "cupy")]
    assert errors[0] < errors[1] < 1e-6
    for shape in ("8192x8192x2048", "4096x4096x1024"):  # and as called, with arrays of CuPy
        found = recorded("reconstruct", metric="time", shape=shape, gpu="H200")
        ms = {figure.variant: figure.median for figure in found}
        assert ms["cupy"] > 3 * ms["as called"]


def test_two_halves_lose_at_most_the_last_bit_of_a_float32():
    every = 1 + np.arange(2**23, dtype=np.float32) / np.float32(2**23)
    upper = every.astype(np.float16)
    lower = (every - upper.astype(np.float32)).astype(np.float16)
    off = (every.astype(np.float64) - upper - lower) * 2**23
    assert len(np.unique(every)) == 2**23 and np.abs(off).max() == 1
    assert 0.5 < np.mean(off == 0) < 1  # "often all"


def test_the_readers_last_rung_is_ready_to_be_recorded():
    rng = np.random.default_rng(0)
    u, vt = rng.random((130, 16), np.float32), rng.random((16, 140), np.float32)
    s, out = rng.random(16, np.float32), np.zeros((130, 140), np.float32)
    ladder.own_rung(*out.shape)(u, s, vt, 16, out)
    np.testing.assert_allclose(out, (u * s) @ vt, rtol=1e-5)


def test_the_limits_are_those_of_the_packages_kernels():
    for name, kernel, k in (
        ("square-tile", register_tiles.reconstruct_square, 16),
        ("wide-tile", register_tiles.wide_tiles(True), 16),
    ):
        exercise = find_exercise(name)
        case = next(case for case in exercise.cases if case.measured)
        arguments = case.arguments(np.random.default_rng(0))
        assert arguments["k"] == k
        report = trace(kernel, case.grid, case.block, *arguments.values())
        reads = [limit for limit in exercise.limits if limit.figure == "lanes"]
        assert reads
        for limit in reads:
            found = report.total(limit.space, limit.operation).lanes / arguments["out"].size
            assert limit.at_most / 2 <= found <= limit.at_most * (1 + 1e-9)
