"""Warp specialisation: a product by TMA, mbarriers, wgmma; right, and with faults planted in it."""

import importlib.util
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba import int32

from tests.warpsim.ptx import role_kernels
from warpsim import cuda, trace
from warpsim.ptx import TensorMap, commit_stores, fence_async, tma_store, wait_stores
from warpsim.run.warp_scheduler import WarpScheduler

TEXT = Path(role_kernels.__file__).read_text()


def run(kernel, steps=5, tiles=2, launch=trace, rows=50):
    """The report and the largest error of a product of 50 x 64 steps x 64 tiles."""
    random = np.random.default_rng(0)
    a = random.standard_normal((rows, 64 * steps)).astype(np.float16)
    b = random.standard_normal((64 * tiles, 64 * steps)).astype(np.float16)
    out = cuda.to_device(np.full((rows, 64 * tiles), np.nan, np.float16))
    maps = [TensorMap(x, 64, 64) for x in (cuda.to_device(a), cuda.to_device(b), out)]
    shared = role_kernels.SHARED
    if launch is trace:
        report = trace(kernel, 1, 256, *maps, steps, tiles, dynamic_shared=shared, gpu="H200")
    else:
        report = kernel[1, 256, 0, shared](*maps, steps, tiles)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    return report, np.abs(out.copy_to_host() - right).max() / np.abs(right).max()


@pytest.mark.parametrize(("steps", "tiles"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_a_right_kernel_is_right_and_has_no_finding(steps, tiles):
    report, error = run(role_kernels.product, steps, tiles)
    assert not report.findings
    assert error < 1e-3
    assert report.operations["tensor"] == 2 * 64**3 * steps * tiles
    rows = 50 * steps * tiles + 64 * steps * tiles  # of 128 bytes; what is outside is not read
    assert report.total("global", "load").sectors == 4 * rows


@pytest.fixture
def in_any_order(monkeypatch):
    """Warps run in another order, by a seed."""
    schedule, random = WarpScheduler._schedule, np.random.default_rng(0)

    def shuffled(scheduler):
        scheduler.warps = [scheduler.warps[n] for n in random.permutation(len(scheduler.warps))]
        return schedule(scheduler)

    monkeypatch.setattr(WarpScheduler, "_schedule", shuffled)


def test_the_order_of_warps_does_not_matter(in_any_order):
    for _ in range(10):
        report, error = run(role_kernels.product, 5, 2)
        assert not report.findings
        assert error < 1e-3


def planted(tmp_path, name, faults):
    """The kernel with lines replaced: (old, new), or (old, new, which of several)."""
    lines = TEXT.splitlines()
    for old, new, *which in faults:
        places = [n for n, line in enumerate(lines) if line.strip().startswith(old)]
        place = places[which[0] if which else 0]
        lines[place] = lines[place].replace(old, new)
    path = tmp_path / f"{name}.py"
    path.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.product


#: Name: what is replaced, the kind of finding, what the line it names says.
FAULTS = {
    "parity_of_who_copies": (
        [("mbarrier_wait(empty, stage, parity ^ 1)", "mbarrier_wait(empty, stage, parity)")],
        "deadlock", "mbarrier_wait(empty"),
    "parity_of_who_multiplies": (
        [("mbarrier_wait(full, stage, parity)", "mbarrier_wait(full, stage, parity ^ 1)")],
        "uninitialised-read", "wgmma_nt"),
    "parity_never_turns": (
        [("stage, parity = int32(0), int32(parity ^ 1)", "stage = int32(0)")],
        "race", "tma_load"),
    "parity_turns_too_soon": (
        [("if stage == STAGES:", "if True:", 1)], "deadlock", "mbarrier_wait"),
    "no_wait_for_full": (
        [("mbarrier_wait(full, stage, parity)", "pass")], "race", "wgmma_nt"),
    "no_wait_for_empty": (
        [("mbarrier_wait(empty, stage, parity ^ 1)", "pass")], "race", "tma_load"),
    "other_stage_waited_for": (
        [("mbarrier_wait(full, stage, parity)", "mbarrier_wait(full, 0, parity)")],
        "race", "wgmma_nt"),
    "too_many_bytes_expected": (
        [("mbarrier_expect(full, stage, 4 * TILE)", "mbarrier_expect(full, stage, 5 * TILE)")],
        "deadlock", "mbarrier_wait(full"),
    "too_few_bytes_expected": (
        [("mbarrier_expect(full, stage, 4 * TILE)", "mbarrier_expect(full, stage, 2 * TILE)")],
        "race", "wgmma_nt"),
    "no_bytes_expected": (
        [("mbarrier_expect(full, stage, 4 * TILE)", "mbarrier_arrive(full, stage)")],
        "race", "wgmma_nt"),
    "one_copy_forgotten": (
        [("tma_load(held, at + TILE, b", "pass  # ")], "deadlock", "mbarrier_wait(full"),
    "copies_to_one_place": (
        [("tma_load(held, at + TILE, b", "tma_load(held, at, b")], "race", "tma_load(held, at, b"),
    "arrives_at_the_wrong_barrier": (
        [("tma_load(held, at, a, (0, 64 * step), full, stage)",
          "tma_load(held, at, a, (0, 64 * step), full, 0)")], "deadlock", "mbarrier_wait"),
    "too_few_arrivals_counted": (
        [("mbarrier_init(empty, s, 4)", "mbarrier_init(empty, s, 1)")], "race", "tma_load"),
    "too_many_arrivals_counted": (
        [("mbarrier_init(empty, s, 4)", "mbarrier_init(empty, s, 128)")],
        "deadlock", "mbarrier_wait(empty"),
    "all_lanes_arrive": (
        [("if lane == 0 and last >= 0:", "if last >= 0:")],
        "barrier-divergence", "mbarrier_arrive"),
    "last_stage_never_freed": (
        [("mbarrier_arrive(empty, last)", "pass", 1)], "deadlock", "mbarrier_wait(empty"),
    "freed_before_it_was_read": (
        [("wgmma_wait(1)", "wgmma_wait(2)")], "race", "tma_load"),
    "freed_as_soon_as_the_product_has_begun": (
        [("if lane == 0 and last >= 0:", "if lane == 0:"),
         ("mbarrier_arrive(empty, last)", "mbarrier_arrive(empty, stage)"),
         ("mbarrier_arrive(empty, last)", "pass")], "race", "tma_load"),
    "sums_read_under_way": (
        [("sums = wgmma_sums(sums)", "pass")], "race", "unpack"),
    "no_fence_before_the_store": (
        [("fence_async()", "pass")], "race", "tma_store"),
    "no_barrier_before_the_store": (
        [("named_barrier(1, 128)", "pass", 1)], "race", "tma_store"),
    "results_overwritten_while_they_are_stored": (
        [("wait_stores(0)", "pass")], "race", "stmatrix4"),
    "no_barrier_after_the_wait_for_the_store": (
        [("named_barrier(1, 128)", "pass")], "race", "stmatrix4"),
    "block_ends_during_a_store": (
        [("wait_stores(0)", "pass", 1)], "race", "tma_store"),
    "no_fence_after_the_barriers_are_made": (
        [("fence_mbarriers()", "pass")], "race", "tma_load"),
    "a_fence_before_the_barriers_are_made": (
        [("fence_mbarriers()", "pass"),
         ("if t == 0:", "if t == 0:\n        fence_mbarriers()")], "race", "tma_load"),
    "no_barrier_after_the_barriers_are_made": (
        [("cuda.syncthreads()", "pass")], "race", "mbarrier_wait(full"),
    "barrier_that_nobody_made": (
        [("mbarrier_init(empty, s, 4)", "pass")], "uninitialised-read", "mbarrier_wait(empty"),
    "named_barrier_for_too_many": (
        [("named_barrier(1, 128)", "named_barrier(1, 160)")], "deadlock", "named_barrier"),
    "syncthreads_in_a_role": (
        [("named_barrier(1, 128)", "cuda.syncthreads()", 1)], "deadlock", "syncthreads"),
    "every_thread_copies": (
        [("if t == 0:", "if t < 32:", 1)], "race", "tma_load"),
    "tile_at_no_multiple_of_1024": (
        [("mine = int32(2 * STAGES * TILE)", "mine = int32(2 * STAGES * TILE - 64)")],
        "misaligned", "tma_store"),
    "another_product_in_one_warp": (
        [("at = int32(2 * stage * TILE)", "at = int32(2 * (stage if warp else 0) * TILE)", 1)],
        "barrier-divergence", "wgmma_nt"),
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, tmp_path):
    faults, kind, code = FAULTS[name]
    kernel = planted(tmp_path, name, faults)
    begun = time.process_time()
    report, _ = run(kernel)
    assert time.process_time() - begun < 20
    found = [finding for finding in report.findings if finding.kind == kind]
    assert found, report
    numbers = {finding.line for finding in found}
    if kind == "deadlock":  # the message names the lines of all that wait
        numbers |= {int(n) for n in re.findall(r"in line (\d+)", found[0].message)}
    assert any(code in report.source.splitlines()[number - 1] for number in numbers), report


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_in_any_order(name, tmp_path, in_any_order):
    kernel = planted(tmp_path, f"shuffled_{name}", FAULTS[name][0])
    assert any(finding.is_error for finding in run(kernel)[0].findings)


def test_a_deadlock_says_what_is_missing(tmp_path):
    faults, _, _ = FAULTS["too_many_bytes_expected"]
    (finding,) = run(planted(tmp_path, "told", faults))[0].findings
    assert "16,384 bytes of copies, where 20,480 bytes were announced" in finding.message
    assert "warp" in finding.message
    assert finding.is_error


@pytest.mark.parametrize("column", [0, 63, 64, 127])
def test_a_box_and_plain_stores_of_one_array_race_where_they_overlap(column):
    @cuda.jit
    def both(boxes, out, column):
        tile = cuda.shared.array(64 * 64, np.float16, alignment=1024)
        t = cuda.threadIdx.x
        for n in range(64):
            tile[t + 64 * n] = np.float16(1)
        fence_async()
        cuda.syncthreads()
        if t == 0:
            tma_store(boxes, (0, 0), tile, int32(0))
            commit_stores()
            wait_stores(0)
        out[t, column] = np.float16(2)

    out = cuda.to_device(np.zeros((64, 128), np.float16))
    report = trace(both, 1, 64, TensorMap(out, 64, 64), out, column, gpu="H200")
    assert any(finding.kind == "race" for finding in report.findings) == (column < 64)
