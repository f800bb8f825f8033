"""Both compilers beside each other: what is asked of them; recorded times, and what README says."""

import os
import statistics
import time
from pathlib import Path

import pytest

from course import backend
from course.files import data_path, table_of
from tools.successor import times

README = Path(__file__).resolve().parents[3] / "warpsim" / "README.md"


def test_the_readme_says_what_was_measured():
    _, rows = table_of(data_path("measurements", "h200-successor.csv"))
    text = " ".join(README.read_text(encoding="utf-8").split())
    assert tuple(rows[0]) == times.COLUMNS
    ratios = {f"{row['family']}, {row['step']}": float(row["ratio"]) for row in rows}
    slowest = min(ratios, key=ratios.get)
    assert f"On an H200 {len(rows)} steps of the course's ladders ran by both" in text
    assert f"{sum(float(row['difference']) == 0 for row in rows)} results are the same" in text
    mean = statistics.geometric_mean(float(row["ratio"]) for row in rows)
    least = f"the least is {ratios[slowest]:.2f}, of {slowest}"
    assert f"is {mean:.2f} in geometric mean; {least}" in text


@pytest.mark.skipif(backend.gpu() is not None, reason="says why there is no GPU")
def test_without_a_gpu_it_says_why_and_writes_nothing(tmp_path, capsys):
    assert times.main([str(tmp_path / "table.csv"), "softmax"]) == 1
    assert backend.why() in capsys.readouterr().err and not list(tmp_path.iterdir())


def chosen() -> str:
    return backend.successor.compiler()


def not_taken() -> None:
    raise ValueError("the method x takes none")


def test_a_process_that_is_silent_or_dies_ends_and_the_next_question_starts_another():
    its = times.Process("mlir", 60)
    assert its.ask(chosen) == ("numba-cuda-mlir", "")
    first = its.running
    assert its.ask(not_taken) == (None, "ValueError: the method x takes none")
    assert its.running is first
    for question, given in ((time.sleep, 60), (os._exit, 3)):
        its.patience = 1
        assert its.ask(question, given) == (None, "it is silent, or has died")
        assert its.running is None
        its.patience = 60
        assert its.ask(chosen) == ("numba-cuda-mlir", "")
    assert its.ask(int, "one")[1].startswith("ValueError: invalid literal")
    assert its.running is None


def test_a_row_compares_results_and_says_medians_and_the_least_of_the_host():
    results = [{"sums": [7], "some": [1.0, -4.0]}, {"sums": [8], "some": [1.0, -4.5]}]
    assert times.difference(results[0], results[0] | {"some": []}) == 0
    rounds = [[(3.0, 9.0), (1.0, 7.0), (2.0, 8.0)], [(4.0, 5.0), (4.0, 6.0), (5.0, 7.0)]]
    row = dict(zip(times.COLUMNS, times.row_of(("gemm", 1, "tma"), results, rounds), strict=True))
    assert row == {
        "family": "gemm", "what": "((12608 768 'float16') (2304 768 'float16') 'nt')",
        "step": "tma", "difference": "1.2e-01", "numba_us": "2.00", "successor_us": "4.00",
        "ratio": "0.500", "numba_host_us": "7.0", "successor_host_us": "5.0",
    }  # fmt: skip


@pytest.mark.parametrize("family", times.FAMILIES)
def test_every_family_has_a_ladder(family):
    assert len(times.steps(family)) > 1 and "auto" not in times.steps(family)
