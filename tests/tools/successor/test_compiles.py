"""The table of what numba-cuda-mlir compiles: its form, and how it is made."""

import csv

from tools.successor import compiles as successor


def test_every_kernel_of_the_list_is_in_the_table_and_refusals_have_their_reason():
    lines = successor.FILE.read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split("=", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert head["versions"].startswith("numba-cuda-mlir ")
    assert tuple(rows[0]) == successor.COLUMNS
    assert [row["target"] for row in rows] == list(successor.TARGETS.values())
    counts = [(int(row["kernels"]), int(row["compiled"])) for row in rows]
    assert all(kernels >= compiled > 0 for kernels, compiled in counts)
    assert any(kernels > compiled for kernels, compiled in counts) == ("refused" in head)


def test_without_the_package_the_script_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(successor.successor, "is_chosen", lambda: False)
    assert successor.main(["records"]) == 2
    assert "numba-cuda-mlir[cu13]" in capsys.readouterr().err


def test_what_is_recorded_is_not_compiled_again_and_counted_once(monkeypatch, capsys, tmp_path):
    """Two files of parts, a kernel refused: the table counts each kernel."""
    monkeypatch.setattr(successor.successor, "is_chosen", lambda: True)
    monkeypatch.setattr(successor.successor, "is_installed", lambda name: True)
    monkeypatch.setattr(successor.importlib.metadata, "version", lambda name: "1")
    cases = [("one", "sm_75", "A"), ("one", "sm_90a", "A"), ("two", "sm_90a", "B")]
    monkeypatch.setattr(successor, "wanted", lambda: cases)
    attempted, written = [], []
    monkeypatch.setattr(successor, "write_whole", lambda path, text: written.append(text))

    def attempt(case, target):
        attempted.append((case, target))
        return "no rows of views" if case == "B" else ""

    monkeypatch.setattr(successor, "attempt", attempt)
    files = [tmp_path / name for name in "ab"]
    for part, status in ((0, 1), (1, 0), (0, 1)):
        assert successor.main([str(files[part]), "--part", f"{part}/2"]) == status
    assert attempted == [("A", "sm_75"), ("B", "sm_90a"), ("A", "sm_90a")] and not written
    assert successor.main([*map(str, files)]) == 1
    assert len(attempted) == 3
    assert written[0].splitlines()[-2:] == ["sm_75,1,1", "sm_90a,2,1"]
    assert "# refused=two sm_90a: no rows of views" in written[0]
