"""The table of what numba-cuda-mlir compiles: its form; kinds of refusal, constructs."""

import csv
import sys

import pytest

from tools import compile_all
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


@pytest.mark.parametrize("target", compile_all.TARGETS)
def test_with_and_without_intrinsics_are_all_kernels(target):
    _, rows = recorded()
    of = {row["construct"]: row for row in rows if row["target"] == target}
    with_them, without = of["the course's intrinsics"], of["no intrinsics"]
    for column in successor.COLUMNS[2:]:
        assert int(of["all"][column]) == int(with_them[column]) + int(without[column])
    assert with_them["compiled"] == "0"


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
    monkeypatch.setitem(sys.modules, "numba_cuda_mlir.cuda", None)
    assert successor.main([]) == 2
    assert "numba-cuda-mlir[cu13]" in capsys.readouterr().err
