"""The table of what numba-cuda-mlir compiles: its form, and how it is made."""

from course.files import table_of
from tools.successor import compiles as successor


def test_every_kernel_of_the_list_is_in_the_table_and_refusals_have_their_reason():
    head, rows = table_of(successor.FILE)
    assert head["versions"].startswith("numba-cuda-mlir ")
    assert tuple(rows[0]) == successor.COLUMNS
    assert [row["target"] for row in rows] == list(successor.TARGETS.values())
    counts = [(int(row["kernels"]), int(row["compiled"])) for row in rows]
    assert all(kernels >= compiled > 0 for kernels, compiled in counts)
    assert any(kernels > compiled for kernels, compiled in counts) == ("refused" in head)


def test_without_the_package_the_script_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(successor.successor, "is_chosen", lambda: False)
    assert successor.main() == 2
    assert "numba-cuda-mlir[cu13]" in capsys.readouterr().err


def test_the_table_counts_each_kernel_and_says_why_one_is_refused(monkeypatch):
    monkeypatch.setattr(successor.importlib.metadata, "version", lambda name: "1")
    cases = [("one", "sm_75", "A"), ("one", "sm_90a", "A"), ("two", "sm_90a", "B")]
    monkeypatch.setattr(successor, "wanted", lambda: cases)
    lines = successor.table(["", "", "no rows of views"]).splitlines()
    assert lines[0].startswith("# versions=numba-cuda-mlir 1, ")
    assert "# refused=two sm_90a: no rows of views" in lines
    assert lines[-2:] == ["sm_75,1,1", "sm_90a,2,1"]


def test_what_fails_is_a_refusal_with_its_reason_and_so_is_no_code(monkeypatch):
    case = next(one for one in successor.compile_all.kernels() if "transpose" in one.name)
    monkeypatch.setattr(successor, "wanted", lambda: [(case.name, "sm_75", case)])

    def refuses(*given, **options):
        raise ValueError("no fences")

    for compiled, answer in (
        (lambda *given, **options: {"cubin": b""}, "no error and no machine code"),
        (lambda *given, **options: {"cubin": b"ELF"}, ""),
        (refuses, "ValueError: no fences None"),
    ):
        monkeypatch.setattr(successor.successor, "compiled", compiled)
        assert successor.attempt(0) == answer
