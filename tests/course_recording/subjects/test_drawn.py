"""What `bench drawn` draws, and how it sums up."""

import csv
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from course_recording.subjects import drawn

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("least", "most"), [(1, 3), (1, 16384), (16, 100_000), (8, 1024)])
def test_sides_are_within_their_bounds_and_half_are_multiples_of_8(seed, least, most):
    rng = np.random.default_rng(seed)
    sides = np.array([drawn.side(rng, least, most) for _ in range(2000)])
    assert sides.min() >= least and sides.max() <= most
    if most >= 1024:
        assert 0.48 < np.mean(sides % 8 == 0) < 0.62
        assert np.mean(sides % 2) > 0.25
        assert np.mean(np.log(sides) < math.log(least * most) / 2) == pytest.approx(0.5, abs=0.06)


class Bench:
    """Keeps what is said and the figures."""

    def __init__(self):
        self.said, self.figures = [], {}
        self.say = self.said.append

    def figure(self, kernel, variant, shape, dtype, metric, unit, value):
        self.figures[metric] = shape, value


def test_mean_and_worst_are_of_all_ratios():
    bench = Bench()
    drawn._summed_up(bench, "sum", "time", [(2.0, "8"), (0.5, "9"), (8.0, "10")])
    assert bench.figures["geometric mean, time"] == ("all", pytest.approx(2.0))
    assert bench.figures["worst, time"] == ("9", 0.5)
    drawn._summed_up(bench, "max", "time", [])
    assert len(bench.said) == 1


def test_what_is_handed_over_is_listed_and_counts_nowhere(monkeypatch):
    bench, nothing = Bench(), lambda *_: None
    problems = [drawn.Drawn(n, "", None, {}, None, 0, handed=n == "8") for n in "789"]
    bench.seed, bench.parts = 1, list
    bench.peer = lambda _: SimpleNamespace(
        manual_seed=nothing,
        cuda=SimpleNamespace(empty_cache=nothing),
        _dynamo=SimpleNamespace(config=bench),
    )
    monkeypatch.setattr(drawn, "FUNCTIONS", {"svd": lambda *_: problems})
    monkeypatch.setattr(drawn, "_measured", lambda *its: {"time": 0.5 if its[2].handed else 2.0})
    drawn.run(bench)
    assert bench.figures == {
        "handed over": ("8", 0.5), "geometric mean, time": ("all", pytest.approx(2.0)),
        "worst, time": ("7", 2.0),
    }  # fmt: skip


class Clock:
    """Calls say themselves how long they take [ms]."""

    def wall(self, call):
        return call()

    def launch_cost(self, calls, *how):
        return next(calls)()

    def samples(self, calls, count, cost, seconds):
        return [next(calls)()], True

    def queued(self, calls, head_start):
        return calls[0](), False


@pytest.mark.parametrize(("part", "called"), [(1.0, True), (9.0, False)])
def test_a_peer_whose_part_takes_too_long_is_not_called(monkeypatch, part, called):
    monkeypatch.setattr(drawn.event_clock, "clock", Clock)
    bench, calls = Bench(), []
    bench.row, bench.failures = (lambda *about: None), []
    problem = drawn.Drawn(
        "8x8", "float32", lambda: 2.0,
        {"slow": lambda: calls.append(1) or 6.0, "near": lambda: 4.0},
        lambda found: 0.0, 1.0, {"slow": (lambda: part, 5)},
    )  # fmt: skip
    ratios = drawn._measured(bench, "svd", problem)
    assert bool(calls) == called and ratios["time"] == 2
    assert (bench.said == ["  svd 8x8 float32: without slow, about 45 ms"]) != called


@pytest.mark.parametrize(("taken", "rounds"), [(0.5, 21), (9.0, 5), (70.0, 3)])
def test_long_calls_that_wait_are_timed_less_often_and_slow_peers_once(monkeypatch, taken, rounds):
    monkeypatch.setattr(drawn.event_clock, "clock", Clock)
    bench, rows = Bench(), {}
    bench.row = lambda _, each, shape, dtype, timing, metric: rows.update({(each, metric): timing})
    peers = {"near": lambda: taken, "slow": lambda: 6 * taken}
    problem = drawn.Drawn("8", "", lambda: taken, peers, lambda found: 0.0, 1.0, waits=True)
    assert drawn._measured(bench, "svd", problem) == {"time": 1, "whole call": 1}
    for metric in ("time", "whole call"):
        found = {each: rows[each, metric] for each in ("ours", "near", "slow")}
        assert [timing.n for timing in found.values()] == [rounds, rounds, 1]
        assert found["slow"].median == 6 * taken


def test_the_page_of_functions_says_what_is_recorded():
    page = (ROOT / "site/functions.md").read_text(encoding="utf-8")
    with (ROOT / "data/measurements/h200-drawn.csv").open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if line[0] != "#")
        ratios = {
            (row["kernel"], row["metric"]): row for row in rows if row["variant"] == drawn.BEST
        }
    said = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("|") and line.count("|") == 7
    ][2:]
    assert [row[0] for row in said] == [*dict.fromkeys(kernel for kernel, _ in ratios)]
    for name, _, *figures in said:
        found = []
        for metric in ("time", "whole call"):
            mean, worst = (
                ratios[name, f"{what}, {metric}"] for what in ("geometric mean", "worst")
            )
            shape = f", {worst['shape']}" if metric == "time" else ""
            found += [f"{float(mean['median']):.2f}", f"{float(worst['median']):.2f}{shape}"]
        assert figures == found, name
