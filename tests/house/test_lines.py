"""No package has more lines than it may, and what must shrink does."""

from collections import Counter

import pytest

from tests.house import lines
from tests.house.lines import Budget
from tests.house.places import PACKAGES


def test_every_package_keeps_to_its_budget():
    there = lines.counted()
    assert lines.complaints(there) == []
    assert lines.BUDGETS.keys() == {*PACKAGES, "tests"} == there.keys()


def test_all_of_a_packages_files_count(tmp_path):
    for name, text in {
        "course/files.py": "a\nb\n", "course/instructions.py": "a\n",
        "course_lessons/x.py": "a\n" * 3,
        "tests/course/test_files.py": "a\n" * 4, "course/data.csv": "a\n", "work/mine.py": "a\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert lines.counted(tmp_path) == {"course": 3, "course_lessons": 3, "tests": 4}


@pytest.mark.parametrize(
    ("count", "budget", "said"),
    [
        (110, Budget(100, 10), ""),
        (111, Budget(100, 10), "a has 111 lines; 110 are the most"),
        (2000, Budget(100, 10, 2000), ""),
        (2001, Budget(100, 10, 2000), "a has 2,001 lines; 2,000 are the most"),
        (1499, Budget(100, 10, 2000), "a has 1,499 lines: lower its ceiling"),
        (110, Budget(100, 10, 2000), "a keeps to its budget: take its ceiling away"),
    ],
)
def test_what_is_over_or_may_be_lowered_is_said(count, budget, said):
    assert lines.complaints(Counter(a=count), {"a": budget}) == ([said] if said else [])


def test_the_table_is_printed(capsys):
    lines.main()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["budget", "ceiling"]
    assert [row.split()[0] for row in rows if "wrong:" not in row] == list(lines.BUDGETS)
