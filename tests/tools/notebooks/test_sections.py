"""Core and deepening: badges, minutes by the rule, a core that runs alone; links."""

import re

import pytest

from tests.tools.little_course import LESSON, make
from tools.notebooks import cells, lessons, links, sections
from tools.publish import tracks

DEEP = """\
# %% [markdown]
# ## 2 Cubes
#
# <kbd>deepening</kbd> 5 minutes
#
# Three factors.

# %%
predict("cube of 3", 27, exact=True)

# %%
def cube(x):
    return x * x * x


predict.answer("cube of 3", cube(3), how="computed")

"""
SECTION = """\
# %% [markdown]
# ## 3 More
#
# <kbd>core</kbd> 5 minutes
#
# More of it.

# %%
print(1)

"""
CLOSING = "# %% [markdown]\n# ## What you should be able to say now\n"
BADGE = "# <kbd>core</kbd> 10 minutes\n"
TOP = "# Core: all sections, 10 minutes."
BOTH = "# Core: sections 1 and 3, 15 minutes. Deepening: section 2, 5 minutes."


@pytest.fixture
def lesson(tmp_path):
    return make(tmp_path) / "course_lessons/lesson00/sample.py"


def with_deepening(cell="print(1)"):
    text = LESSON.replace(CLOSING, DEEP + SECTION.replace("print(1)", cell) + CLOSING)
    return text.replace(TOP, BOTH)


def found_in(lesson, text):
    lesson.write_text(text)
    return [problem.removeprefix("lesson00/sample.py: ") for problem in lessons.problems(lesson)]


# --- badges and the line at the top --------------------------------------------------------------


def test_a_lesson_with_core_and_deepening_keeps_the_format(lesson):
    assert found_in(lesson, with_deepening()) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (BADGE, "", "section 1: its heading is followed by a badge"),
        (BADGE, "# <kbd>kernel</kbd> 10 minutes\n", "like `<kbd>core</kbd> 10 minutes`"),
        ("# ## 1 Squares\n#\n", "# ## 1 Squares\n", "badge on a line of its own"),
        (BADGE, "# <kbd>core</kbd> 20 minutes\n", "section 1: 20 minutes, 10 by the rule"),
        (BADGE, "# <kbd>core</kbd> 12 minutes\n", "section 1: 12 minutes, 10 by the rule"),
        (BADGE, "# <kbd>core</kbd> 0 minutes\n", "section 1: 0 minutes"),
        (TOP, "", "has the line: Core: all sections, 10 minutes."),
        (TOP, "# Core: all sections, 15 minutes.", "has the line: Core: all sections, 10"),
        (BADGE, "# <kbd>deepening</kbd> 10 minutes\n", "no section is core"),
        (
            "# About 5 minutes.",
            "# About 1 hour.",
            "'About 1 hour', and its sections' badges are 10",
        ),
    ],
)
def test_a_badge_or_a_top_line_that_is_amiss_is_named(lesson, old, new, says):
    assert old in LESSON
    found = found_in(lesson, LESSON.replace(old, new, 1))
    assert any(says in problem for problem in found), found


def test_a_core_of_too_many_cells_or_minutes_and_a_long_lesson_are_refused(lesson):
    some = "".join(f"# %%\nprint({number})\n\n" for number in range(60))
    found = found_in(lesson, sections.written(LESSON.replace(CLOSING, some + CLOSING)))
    assert found == ["the core has 73 cells with opening and closing, 70 at most"]
    guesses = "".join(f'# %%\npredict("{number}", 1, exact=True)\n\n' for number in range(45))
    found = found_in(lesson, sections.written(LESSON.replace(CLOSING, guesses + CLOSING)))
    assert found == ["the core takes 130 minutes, 120 at most"]
    deep = with_deepening().replace(SECTION, some * 3 + SECTION)
    found = found_in(lesson, sections.written(deep))
    assert found == ["the lesson has 198 cells, 150 at most"]


def test_deepening_cells_are_none_of_the_core(lesson):
    read = cells.parse(with_deepening())
    assert sections.core_cells(read) == 2 + len(read) - 3
    assert sections.core_minutes(read) == 15
    assert [(part.number, part.kind) for part in sections.sections(read)] == [
        (1, "core"),
        (2, "deepening"),
        (3, "core"),
    ]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([2], "section 2"),
        ([2, 3], "sections 2 and 3"),
        ([1, 2, 3, 4, 5, 7], "sections 1 to 5 and 7"),
        ([1, 3, 5, 6, 7], "sections 1, 3 and 5 to 7"),
    ],
)
def test_sections_are_listed_in_words(numbers, said):
    parts = [
        sections.Section(number, (), "core" if number in numbers else "deepening", 10)
        for number in range(1, 9)
    ]
    assert sections.top_line(parts).startswith(f"Core: {said}, {10 * len(numbers)} minutes.")


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (45, "About 45 minutes"),
        (65, "About 1 hour"),
        (95, "About 90 minutes"),
        (130, "About 2 hours"),
        (140, "About 2 and a half hours"),
        (230, "About 4 hours"),
    ],
)
def test_a_whole_time_is_said_as_the_readme_reads_it(minutes, said):
    assert sections.about(minutes) == said
    assert sections.ABOUT.fullmatch(said)


# --- the rule ------------------------------------------------------------------------------------


def test_minutes_follow_from_words_cells_predictions_and_exercises():
    text = cells.Cell("markdown", "word " * 600, (), 1)
    code = cells.Cell("code", "print(1)", (), 2)
    guess = cells.Cell("code", 'predict("a", 1, exact=True)', (), 3)
    solution = (
        "    ### BEGIN SOLUTION\n    a = 1\n    # a comment\n    b = 2\n    ### END SOLUTION\n"
    )
    kernel = cells.Cell("code", f"@cuda.jit\ndef f(x):\n{solution}", ("exercise",), 4)
    function = cells.Cell("code", f"def f(x):\n{solution}", ("exercise",), 5)
    verdict = cells.Cell("code", 'check("f", f)', ("check",), 6)
    assert sections.section_minutes((text,)) == 5
    assert sections.section_minutes((text,) * 4) == 20
    assert sections.section_minutes((code,) * 30) == 20
    assert sections.section_minutes((guess,) * 15) == 40
    assert sections.section_minutes((kernel, verdict) * 5) == 35
    assert sections.section_minutes((function, verdict) * 5) == 40
    assert sections.section_minutes((code,)) == 5


def test_the_rule_fits_the_minutes_that_a_reviewer_took():
    words, code, guesses, kernels, functions, lines = 3990, 54, 6, 3, 4, 28  # lesson 02, as it was
    minutes = (
        words / sections.WORDS_A_MINUTE
        + code * sections.MINUTES_A_CELL
        + guesses * sections.MINUTES_A_PREDICTION
        + kernels * sections.MINUTES_AN_EXERCISE["kernel"]
        + functions * sections.MINUTES_AN_EXERCISE["function"]
        + lines * sections.MINUTES_A_LINE
    )
    assert 135 <= minutes <= 150 + 5


def test_written_has_the_rules_minutes_everywhere(lesson):
    amiss = with_deepening().replace("</kbd> 10", "</kbd> 45").replace(BOTH, "# Core: 7 minutes.")
    right = sections.written(amiss)
    assert found_in(lesson, right) == []
    assert sections.written(right) == right
    assert "# About 20 minutes.\n#\n" + BOTH in right


# --- the core runs alone -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("print(cube(2))", "the core uses `cube`, which deepening section 2 defines"),
        ("sixth = [cube(x) ** 2 for x in range(3)]", "uses `cube`"),
        ("def sixth(x):\n    return cube(x) ** 2", "uses `cube`"),
        ("cube = cube(3)", "uses `cube`"),
        ('predict.answer("cube of 3", 27)', "answers 'cube of 3', asked in deepening section 2"),
        ("cube = 3\nprint(cube)", None),
        ("[cube for cube in range(3)]", None),
        ("def sixth(cube):\n    return cube**2", None),
        ("for cube in range(3):\n    print(cube)", None),
        ("print(square(3))", None),
    ],
)
def test_the_core_uses_nothing_that_only_a_deepening_section_defines(lesson, cell, says):
    found = found_in(lesson, with_deepening(cell))
    assert found == [] if says is None else says in found[0]


def test_a_name_that_a_deepening_section_changes_is_not_the_cores_any_more(lesson):
    text = with_deepening("print(square(3))").replace("def cube", "square = None\n\n\ndef cube")
    assert "uses `square`, which deepening section 2 defines" in found_in(lesson, text)[0]


def test_what_a_loop_left_behind_is_used_by_no_other_cell(lesson):
    text = with_deepening("for turn in range(3):\n    print(turn)\n\n# %%\nprint(turn + 1)")
    assert "`turn` is what a loop of the code cell" in found_in(lesson, text)[0]
    alone = with_deepening("for turn in range(3):\n    print(turn)\nprint(turn)")
    assert found_in(lesson, alone) == []


def test_a_later_deepening_section_may_use_an_earlier_one(lesson):
    text = with_deepening("print(cube(3))").replace("core</kbd> 5", "deepening</kbd> 5")
    assert found_in(lesson, sections.written(text)) == []


# --- links ---------------------------------------------------------------------------------------

BUILT = {"00": "00_sample", "04": "04_warps", "05": "05_shared"}


def cell(text):
    return cells.Cell("markdown", text, (), 1)


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("Lesson 04 counts.", "[Lesson 04](04_warps.ipynb) counts."),
        ("see lesson\n04", "see [lesson 04](04_warps.ipynb)"),
        ("lessons 04 and 05", "lessons [04](04_warps.ipynb) and [05](05_shared.ipynb)"),
        ("lessons 04 to 05", "lessons [04](04_warps.ipynb) to [05](05_shared.ipynb)"),
        ("lesson 04, and lesson 04 again", "[lesson 04](04_warps.ipynb), and lesson 04 again"),
        ("lesson 15 is planned, lesson 00 is here", "lesson 15 is planned, lesson 00 is here"),
        ("`lesson 04` is code", "`lesson 04` is code"),
    ],
)
def test_the_first_mention_of_a_lesson_is_a_link(text, linked):
    made = links.linked(text, "00", BUILT)
    assert made == linked
    assert links.problems(cell(made), "00", BUILT) == []
    assert bool(links.problems(cell(text), "00", BUILT)) == (made != text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[lesson 04](04_wraps.ipynb)", "leads nowhere"),
        ("[lesson 15](15_torch.ipynb)", "leads nowhere"),
        ("[lesson 05](04_warps.ipynb)", "does not say which lesson"),
    ],
)
def test_a_link_to_another_lesson_than_it_says_is_refused(text, says):
    assert says in links.problems(cell(text), "00", BUILT)[0]


@pytest.mark.parametrize("start", ["", "#\n", "\n#\n#\n"])
def test_a_missing_link_is_written_and_nothing_else(start):
    text = "# %% [markdown]\n{}# See lesson 01\n# below.\n\n# %%\nprint(1)\n"
    linked = text.format("").replace("lesson 01", "[lesson 01](01_next.ipynb)")
    made = links._with_links(text.format(start), "00", {"01": "01_next"})
    assert cells.parse(made) == cells.parse(linked)


def test_a_long_line_is_broken_between_words_but_not_in_code_or_a_link():
    text = f"{'word ' * 17}then `a = b - c`, of lesson 04\n- one\n- two"
    made = links.linked(text, "00", BUILT)
    assert made.split("\n")[1:] == ["`a = b - c`, of [lesson 04](04_warps.ipynb)", "- one", "- two"]
    assert links.linked(text.replace("`", ""), "00", BUILT).count("\n- ") == 2


def test_a_lessons_links_lead_to_the_lessons_beside_it(lesson):
    other = lesson.parent.parent / "lesson01"
    other.mkdir()
    (other / "next.py").write_text(LESSON.replace("# # 00", "# # 01"))
    found = found_in(lesson, LESSON.replace("# Cubes.", "# Cubes, as in lesson 01."))
    assert len(found) == 1
    assert found[0].endswith("of lesson 01 is a link, [lesson 01](01_next.ipynb)")
    right = LESSON.replace("# Cubes.", "# Cubes, as in [lesson 01](01_next.ipynb).")
    assert found_in(lesson, right) == []


def test_every_lessons_plan_has_its_number():
    numbers = [number for number, _ in lessons.PLAN]
    assert {lessons.name(path)[:2] for path in lessons.paths()} <= set(numbers)
    assert all(re.fullmatch(r"\d\d", number) for number in numbers)


# --- tracks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (("00", "01", "02"), "00 to 02"),
        (("00", "01", "02", "08", "09", "12"), "00 to 02, 08, 09, 12"),
        (("10", "11"), "10, 11"),
    ],
)
def test_a_tracks_lessons_are_listed(numbers, said):
    assert tracks.listed(numbers) == said


@pytest.mark.parametrize(
    ("minutes", "said"), [(10, "½ h"), (30, "½ h"), (60, "1 h"), (215, "3½ h")]
)
def test_a_tracks_time_is_said_in_half_hours(minutes, said):
    assert tracks.hours(minutes) == said


def test_every_tracks_lessons_are_there_in_an_order():
    there = [lessons.name(path)[:2] for path in lessons.paths()]
    for _, numbers in tracks.TRACKS:
        assert set(numbers) <= set(there)
        assert list(numbers[:6]) == sorted(numbers[:6])


def test_a_tracks_hours_are_those_of_its_lessons_badges(lesson):
    lesson.write_text(with_deepening())
    assert "| do all of it | all | ½ h | ½ h |" in tracks.table(lesson.parents[2])
