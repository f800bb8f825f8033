"""The simulator counts what a GPU's own counters count.

`data/measurements/h200-counters.csv` has the counters of an H200, read with Nsight Compute, and
`h200-further_counters.csv` those of further kernels; the files `...-explained.csv` list each figure
that differs, with the instruction that explains it.
"""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from course.files import data_path
from course_recording.profiling import counter_agreement, hardware_counters, nsight
from course_recording.profiling.cases.accesses import COUNTERS, Case
from warpsim import cuda, trace
from warpsim.watch import counts

FILES = [data_path("measurements", f"h200-{name}.csv") for name in ("counters", "further_counters")]
READ = {path: hardware_counters.read(path) for path in FILES}
RECORDED = {case: its for _, recorded in READ.values() for case, its in recorded.items()}
EXPLAINED = {
    place: what
    for path in FILES
    for place, what in counter_agreement.explanations(
        counter_agreement.explained_path(path)
    ).items()
}
BY_NAME = {case.name: case for path in FILES for case in counter_agreement.cases_of(path)}
README = Path(__file__).resolve().parents[3] / "course_recording" / "profiling" / "README.md"


@functools.cache
def simulated(name: str) -> dict[str, int]:
    return counter_agreement.simulated(BY_NAME[name])


def differences(name: str) -> dict[str, tuple[int, int]]:
    ours, theirs = simulated(name), counter_agreement.measured(RECORDED[name])
    pairs = {
        counter: (theirs.get(counter, 0), ours.get(counter, 0)) for counter in {*ours, *theirs}
    }
    return {counter: pair for counter, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BY_NAME)
def test_the_simulator_counts_what_the_gpu_counted(name):
    found = differences(name)
    expected = {counter: what for (case, counter), what in EXPLAINED.items() if case == name}
    assert set(found) == set(expected), f"measured and simulated: {found}"
    # where the compiler does something else than the source, the source's count is held, too
    assert {counter: pair[1] for counter, pair in found.items()} == {
        counter: what[0] for counter, what in expected.items()
    }


def test_every_recorded_case_is_there_and_the_other_way_round():
    for path, (_, recorded) in READ.items():
        cases = counter_agreement.cases_of(path)
        assert set(recorded) == {case.name for case in cases}
        assert len(recorded) == len(cases) >= 100
    assert len(RECORDED) == sum(len(recorded) for _, recorded in READ.values())
    assert {case for case, _ in EXPLAINED} <= set(BY_NAME)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_most_figures_are_equal_and_the_readme_says_how_many(path):
    names = READ[path][1]
    total = sum(
        len({*simulated(name), *counter_agreement.measured(RECORDED[name])}) for name in names
    )
    unequal = sum(len(differences(name)) for name in names)
    assert unequal <= total * 0.01
    line = (
        f"{len(names)} cases, {total:,} figures, {total - unequal:,} equal "
        f"({1 - unequal / total:.1%})"
    )
    assert line in " ".join(README.read_text(encoding="utf-8").split())


def test_the_readme_has_every_explanation():
    text = README.read_text(encoding="utf-8")
    for _, reason in EXPLAINED.values():
        instruction = re.match(r"(?:@!P0 )?[A-Z]+(?:\.[A-Z0-9]+)*", reason.removeprefix("no "))
        assert instruction, f"starts with the instruction: {reason}"
        assert instruction.group() in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_header_says_what_was_measured_with_what(path):
    header = READ[path][0]
    for key in ("gpu", "driver", "cuda", "ncu", "numba-cuda", "numba", "numpy", "date", "course"):
        assert header[key]
    assert {counter: header[counter] for counter in COUNTERS} == COUNTERS


@pytest.mark.parametrize(("kind", "sectors"), [("c8", 8), ("c16", 16)])
def test_a_complex_number_is_two_accesses_and_no_fault_of_its_neighbours(kind, sectors):
    @cuda.jit
    def copy(out, x):
        out[cuda.threadIdx.x] = x[cuda.threadIdx.x]

    report = trace(copy, 1, 32, np.zeros(32, kind), np.ones(32, kind))
    for op in ("load", "store"):
        total = report.total("global", op)
        assert (total.requests, total.sectors, total.ideal_sectors) == (2, 2 * sectors, 2 * sectors)
        assert total.bytes == 32 * np.dtype(kind).itemsize
    assert not [f for f in report.findings if f.kind == "uncoalesced"]


# ---------------------------------------------------------------------- the rule of wide accesses
def test_without_the_rule_of_wide_loads_figures_differ(monkeypatch):
    never = np.zeros(1, bool)
    monkeypatch.setattr(counts, "_alike", lambda elements, active, step: never)
    for name in ("shared load of f8, pairs", "shared access of 16 bytes, crossed pairs"):
        assert counter_agreement.simulated(BY_NAME[name]) != simulated(name)


@pytest.mark.parametrize(("size", "wavefronts"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)], ids=str)
@pytest.mark.parametrize("warps", [1, 3])
def test_neighbouring_elements_take_the_width_s_ideal(size, wavefronts, warps):
    lanes = np.arange(32 * warps, dtype=np.int64)
    mask = counter_agreement.Mask(np.ones(len(lanes), bool), len(lanes), None)
    for loads in (True, False):
        passes, ideal, by_group = counts.wavefronts(lanes, size, size, 0, mask, loads)
        assert (passes, ideal) == (wavefronts * warps, wavefronts * warps)
        assert by_group.sum() == passes


def test_each_warp_is_judged_by_itself():
    lanes = np.concatenate([np.arange(32), np.arange(32) // 2, np.arange(32)])
    mask = counter_agreement.Mask(np.ones(96, bool), 96, None)
    passes, ideal, by_group = counts.wavefronts(lanes, 8, 8, 0, mask, True)
    assert (passes, ideal) == (5, 5)
    assert by_group.reshape(3, 2).sum(1).tolist() == [2, 1, 2]


# ---------------------------------------------------------------------- reading ncu's output
def row_of(case: Case, **changes: str) -> dict[str, str]:
    kernel = hardware_counters.WIDE if case.kernel is None else case.kernel.__name__
    return {
        "ID": "0",
        "Kernel Name": f"profiling::access_kernels::{kernel}[abi:v1]",
        "Grid Size": str(hardware_counters.triple(case.grid)),
        "Block Size": str(hardware_counters.triple(case.block)),
        **dict.fromkeys(COUNTERS.values(), "0"),
        **changes,
    }


def test_rows_are_read_below_the_line_of_units():
    printed = '==PROF== done\n"ID","Kernel Name","a.sum"\n"","","sector"\n"0","copy","1,250"\n'
    rows, units = nsight.rows_of(printed)
    assert rows == [{"ID": "0", "Kernel Name": "copy", "a.sum": "1,250"}]
    assert units["a.sum"] == "sector" and nsight.rows_of("==PROF== done\n") == ([], {})


def test_counters_are_matched_with_their_case():
    case = BY_NAME["copy of f4"]
    row = row_of(case, **{COUNTERS["global_load_sectors"]: "1,250"})
    assert hardware_counters.counters_of(case, row) == {"global_load_sectors": 1250}
    for changes in (
        {"Kernel Name": "gather"},
        {"Grid Size": "(1, 1, 1)"},
        {"Block Size": "(7, 1, 1)"},
    ):
        with pytest.raises(nsight.CountersNotRead, match="copy of f4"):
            hardware_counters.counters_of(case, row_of(case, **changes))
    with pytest.raises(nsight.CountersNotRead, match="t_sectors.*'n/a'"):
        hardware_counters.counters_of(case, row | {COUNTERS["global_load_sectors"]: "n/a"})


def test_the_smallest_of_the_launches_is_written(tmp_path):
    case = BY_NAME["copy of f4"]
    metric = COUNTERS["shared_store_wavefronts"]
    rows = [row_of(case, **{metric: value}) for value in ("482", "480", "481")]
    hardware_counters.write(tmp_path / "counters.csv", rows, {"gpu": "test"}, [case])
    header, figures = hardware_counters.read(tmp_path / "counters.csv")
    assert header["gpu"] == "test"
    assert "1 figures differed" in header["launches"]
    assert figures == {"copy of f4": {"shared_store_wavefronts": 480}}
    with pytest.raises(nsight.CountersNotRead, match="1 cases"):
        hardware_counters.write(tmp_path / "counters.csv", rows[:2], {}, [case])
