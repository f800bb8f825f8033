"""The table of what numba-cuda-mlir compiles: its form; kinds of refusal, constructs."""

import csv
import json
from types import SimpleNamespace

import pytest

from tools.successor import compiles as successor


def recorded() -> tuple[dict[str, str], list[dict[str, str]]]:
    """The file's header and its rows."""
    lines = successor.FILE.read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split("=", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return head, rows


def test_every_kernel_of_the_table_compiles_or_is_refused_for_a_reason_with_a_name():
    head, rows = recorded()
    assert head["versions"].startswith("numba-cuda-mlir ")
    assert tuple(rows[0]) == successor.COLUMNS
    places = [(row["construct"], row["target"]) for row in rows]
    assert len(set(places)) == len(places)
    assert {construct for construct, _ in places} <= set(successor.CONSTRUCTS)
    for row in rows:
        kinds = [int(row[kind]) for kind in successor.REFUSALS]
        assert int(row["kernels"]) == int(row["compiled"]) + sum(kinds) > 0
        assert row["other"] == "0"


@pytest.mark.parametrize("target", range(2))
def test_with_and_without_intrinsics_are_all_kernels(target):
    _, rows = recorded()
    target = sorted({row["target"] for row in rows})[target]
    of = {row["construct"]: row for row in rows if row["target"] == target}
    with_them, without = of["the course's intrinsics"], of["no intrinsics"]
    for column in successor.COLUMNS[2:]:
        assert int(of["all"][column]) == int(with_them[column]) + int(without[column])


def test_each_kind_of_refusal_is_told_by_the_error_that_the_file_quotes():
    head, rows = recorded()
    counted = {kind for row in rows for kind in successor.REFUSALS if row[kind] != "0"}
    assert counted == head.keys() & successor.REFUSALS.keys()
    for kind in counted:
        assert successor.refusal(head[kind])[0] == kind
    assert successor.refusal("no such error") == ("other", "")


def test_an_internal_errors_kind_is_in_its_context():
    try:
        try:
            raise RuntimeError("std::bad_cast")
        except RuntimeError:
            raise ValueError("This line has triggered a compiler bug") from None
    except ValueError as error:
        assert successor.refusal(error) == ("large_constant", "std::bad_cast")


def test_constructs_are_told_by_whole_names():
    used = {"shared", "syncthreads_count", "atomically", "<intrinsic>"}
    expected = ["all", "shared memory", "barriers", "the course's intrinsics"]
    assert successor.constructs(used) == expected
    assert successor.constructs({"threadfence_block"}) == ["all", "fences", "no intrinsics"]


def test_without_the_package_the_script_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(successor.successor, "is_chosen", lambda: False)
    assert successor.main(["records"]) == 2
    assert "numba-cuda-mlir[cu13]" in capsys.readouterr().err


def test_what_is_recorded_is_not_compiled_again_and_counted_once(monkeypatch, capsys, tmp_path):
    """Two files of parts, a kernel refused: the table counts each kernel by its constructs."""
    monkeypatch.setattr(successor.successor, "is_chosen", lambda: True)
    monkeypatch.setattr(successor.successor, "is_installed", lambda name: True)
    monkeypatch.setattr(successor.importlib.metadata, "version", lambda name: "1")
    cases = [("one", "sm_75", "A"), ("one", "sm_90a", "A"), ("two", "sm_90a", "B")]
    monkeypatch.setattr(successor, "wanted", lambda families: cases)
    ends = {"A": ("compiled", ""), "B": ("view", "'memref.collapse_shape' op expected")}
    attempted = []

    def attempt(case, target):
        attempted.append((case, target))
        kind, said = ends[case]
        return {"constructs": ["all", "math"], "kind": kind, "said": said, "seconds": 1}

    monkeypatch.setattr(successor, "attempt", attempt)
    files = [tmp_path / name for name in "ab"]
    for _ in range(2):
        for part, file in enumerate(files):
            assert successor.main([str(file), "--part", f"{part}/2"]) == 0
    assert attempted == [("A", "sm_75"), ("B", "sm_90a"), ("A", "sm_90a")]
    assert [json.loads(line)["name"] for line in files[0].read_text().splitlines()] == [
        "one",
        "two",
    ]
    monkeypatch.setattr(successor, "write_whole", lambda path, text: written.append(text))
    written = []
    assert successor.main([*map(str, files), "--table"]) == 0
    rows = [line for line in written[0].splitlines() if line.startswith(("all,", "math,"))]
    assert [row.split(",")[1:4] for row in rows] == [["sm_75", "1", "1"], ["sm_90a", "2", "1"]] * 2
    assert "# view='memref.collapse_shape' op expected, first of two" in written[0]
    successor.main([str(files[0]), "--table"])
    assert len(written) == 1 and "1 not compiled yet" in capsys.readouterr().err


def test_a_kernels_constructs_are_those_of_its_device_functions_too(monkeypatch):
    """The simulator's softmax backward shares its rows' sums in a device function."""
    from course.kernels.softmax import backward

    monkeypatch.setattr(successor.successor, "numba_cuda", lambda: SimpleNamespace(jit=_plain))
    cases = {name: case for name, _, case in successor.wanted(("softmax",))}
    used = successor.Used(cases["softmax.backward.softmax_backward_two_passes"].kernel.py_func).used
    assert backward and {"shared memory", "device functions"} <= set(successor.constructs(used))


def _plain(**options):
    return lambda function: function
