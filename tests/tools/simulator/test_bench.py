"""How the simulator is timed: the table in its README is the measured one; growth, ratios."""

import pytest

from course.files import table_of
from tools.simulator import bench

README = (bench.ROOT / "warpsim/README.md").read_text(encoding="utf-8")


def test_the_readme_s_figures_are_those_of_the_file_and_name_the_machine():
    (path,) = bench.FOLDER.glob("*-simulator.csv")
    head, rows = table_of(path)
    assert tuple(rows[0]) == bench.COLUMNS
    for text in (*bench.growth_table(rows), *bench.growth_sentences(rows), path.name):
        assert text in README
    assert f"Python {head['python']}, NumPy {head['numpy']}" in README
    assert head["host"].rpartition(", ")[0] in README
    for row in rows:
        assert 0 < float(row["q1"]) <= float(row["median"]) <= float(row["q3"])
        assert int(row["n"]) >= (3 if row["curve"] == "idle" else 9)


@pytest.mark.parametrize("how", bench.WAYS)
def test_time_grows_with_threads_and_statements_in_proportion_where_there_are_many(how):
    """Twice as much work never takes more than 2.6 times as long: nothing grows faster."""
    (path,) = bench.FOLDER.glob("*-simulator.csv")
    rows = [row for row in table_of(path)[1] if row["variant"] == how]
    for curve in ("threads", "statements", "lines", "idle"):
        its = [
            (int(r[bench.number_of(r)]), float(r["median"])) for r in rows if r["curve"] == curve
        ]
        for (less, before), (more, after) in zip(its, its[1:], strict=False):
            assert after / before < 1.3 * more / less


@pytest.mark.slow
def test_growth_is_measured_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench.kernels, "of_users", dict)
    rows = list(bench.growth(2, sides=(16, 32), statements=(1, 2), lines=(3,), idle=(2**20,)))
    head, kept = table_of(bench.write(rows))
    assert head["host"] and head["numpy"] and head["numba"]
    assert [row["curve"] for row in kept] == ["threads"] * 4 + ["statements"] * 4 + [
        "lines", "lines", "idle", "idle",
    ]  # fmt: skip
    assert {row["variant"] for row in kept} == set(bench.WAYS)
    assert len(bench.growth_table(kept)) == 2 + len(kept) // 2
    plain, traced = bench.growth_sentences(kept)
    assert plain.startswith("- plain: ") and "µs for a statement of 256 threads" in traced


@pytest.mark.slow
def test_launches_are_timed_in_another_process_and_interleaved(capsys):
    worker = bench.started(bench.ROOT, "--work")
    out, _ = worker.communicate("odd-even sort, plain:1\nnaive, traced:2\n")
    assert worker.returncode == 0 and all(0.1 < float(line) < 5e3 for line in out.split())
    assert len(out.split()) == 2
    assert float(bench.started(bench.ROOT, "--first").communicate()[0]) > 0
    order = []
    ways = [lambda: order.append("then") or 8.0, lambda: order.append("now") or 2.0]
    bench.compare("some launch", ways, 4)
    assert order == ["now", "then", "then", "now"] * 2
    assert (
        capsys.readouterr().out.split()
        == "some launch 8.00 (8.00-8.00) 2.00 (2.00-2.00) 0.25".split()
    )


def test_every_launch_has_a_name_of_its_own_and_runs_right():
    assert len(bench.launches()) == 20
    sorts = bench.kernels.of_users()["bitonic sort"]
    (x,) = sorts.make()
    sorts.kernel[sorts.grid, sorts.block](x)
    blocks = x.reshape(-1, 1024)
    assert (blocks[:, 1:] >= blocks[:, :-1]).all()
