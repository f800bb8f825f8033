"""The tool that compares two lists of test ids."""

import pytest

from tools import compare_ids as tool

BEFORE = """\
tests/course/test_dots.py::test_a
tests/course/test_dots.py::test_b[1-x=y]
tests/course/test_dots.py::test_b[2-x=y]
tests/course/test_linear.py::test_a

4 tests collected in 0.01s
"""


@pytest.fixture
def compared(tmp_path, capsys):
    def compare(after, *renamed):
        files = tmp_path / "before", tmp_path / "after"
        for file, text in zip(files, (BEFORE, after), strict=True):
            file.write_text(text)
        words = [word for pair in renamed for word in ("--renamed", pair)]
        return tool.main([*map(str, files), *words]), capsys.readouterr().out.splitlines()

    return compare


def test_what_was_only_renamed_neither_went_nor_came(compared):
    after = BEFORE.replace("test_dots", "gemm/test_gemv").replace("test_b", "test_c")
    renamed = "test_dots.py=gemm/test_gemv.py", "::test_b=::test_c"
    assert compared(after, *renamed) == (0, ["4 tests before, 4 after: 0 went, 0 came"])


def test_what_went_and_came_is_named_by_function(compared):
    status, said = compared(BEFORE.replace("::test_b", "::test_c"))
    assert status == 1 and said == [
        "went tests/course/test_dots.py::test_b (2)", "came tests/course/test_dots.py::test_c (2)",
        "4 tests before, 4 after: 2 went, 2 came",
    ]  # fmt: skip


def test_of_two_that_get_one_name_one_went(compared):
    after = BEFORE.replace("tests/course/test_linear.py::test_a\n", "")
    status, said = compared(after, "test_linear=test_dots")
    assert status == 1 and said[0] == "went tests/course/test_dots.py::test_a (1)"
    with pytest.raises(SystemExit):
        compared(BEFORE, "test_linear")
