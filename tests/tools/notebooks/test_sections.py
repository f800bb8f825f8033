"""Core and deepening: badges, minutes by the rule, a core that runs alone; links."""

import re

import pytest

from tests.tools.little_course import LESSON, make
from tools.notebooks import cells, lessons, links, minutes, sections
from tools.publish import tracks

DEEP = """\
# %% [markdown]
# ## 2 Cubes
#
# <kbd>deepening</kbd>
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
# <kbd>core</kbd>
#
# More of it.

# %%
print(1)

"""
CLOSING = "# %% [markdown]\n# ## What you should be able to say now\n"
BADGE = "# <kbd>core</kbd>\n"


@pytest.fixture
def lesson(tmp_path):
    return make(tmp_path) / "course_lessons/lesson00/sample.py"


def with_deepening(cell="print(1)"):
    return LESSON.replace(CLOSING, DEEP + SECTION.replace("print(1)", cell) + CLOSING)


def found_in(lesson, text):
    lesson.write_text(text)
    return [problem.removeprefix("lesson00/sample.py: ") for problem in lessons.problems(lesson)]


# --- badges -------------------------------------------------------------------------------------


def test_a_lesson_with_core_and_deepening_keeps_the_format(lesson):
    assert found_in(lesson, with_deepening()) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (BADGE, "", "section 1: its heading is followed by a badge"),
        (BADGE, "# <kbd>kernel</kbd>\n", "`<kbd>core</kbd>` or `<kbd>deepening</kbd>`"),
        ("# ## 1 Squares\n#\n", "# ## 1 Squares\n", "badge on a line of its own"),
        (BADGE, "# <kbd>deepening</kbd>\n", "no section is core"),
    ],
)
def test_a_badge_that_is_amiss_is_named(lesson, old, new, says):
    assert old in LESSON
    found = found_in(lesson, LESSON.replace(old, new, 1))
    assert any(says in problem for problem in found), found


def test_a_core_of_too_many_cells_and_a_long_lesson_are_refused(lesson):
    some = "".join(f"# %%\nprint({number})\n\n" for number in range(60))
    found = found_in(lesson, LESSON.replace(CLOSING, some + CLOSING))
    assert found == ["the core has 73 cells with opening and closing, 70 at most"]
    found = found_in(lesson, with_deepening().replace(SECTION, some * 3 + SECTION))
    assert found == ["the lesson has 198 cells, 150 at most"]


def test_deepening_cells_are_none_of_the_core(lesson):
    read = cells.parse(with_deepening())
    assert sections.core_cells(read) == 2 + len(read) - 3
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
    text = "".join(
        f"# %% [markdown]\n# ## {number} Title\n#\n"
        f"# <kbd>{'core' if number in numbers else 'deepening'}</kbd>\n\n"
        for number in range(1, 9)
    )
    assert sections.top_line(cells.parse(text)).startswith(f"Core: {said}, 5 minutes.")


def test_notebooks_have_the_rules_minutes_and_no_older_ones(lesson):
    older = (
        with_deepening()
        .replace("</kbd>", "</kbd> 45 minutes")
        .replace(
            "# A break is not needed.",
            "# Core: all sections, 7 minutes.\n#\n# A break is not needed.",
        )
    )
    made = [
        [cell.source for cell in sections.with_minutes(cells.parse(text))]
        for text in (older, with_deepening())
    ]
    assert made[0] == made[1]
    said = "\n".join(made[0])
    assert "<kbd>core</kbd> 5–10 min\n" in said and "<kbd>deepening</kbd> 5 min\n" in said
    assert (
        "## How long it takes\n\nCore: sections 1 and 3, 5–10 minutes. Deepening: section 2, "
        "5 minutes. The shorter times are for those who know CUDA.\n\nA break is not needed."
        in said
    )


# --- the rule ------------------------------------------------------------------------------------


def code(source, *tags):
    return cells.Cell("code", source, tags, 1)


def text(source):
    return cells.Cell("markdown", source, (), 1)


def solution_of(lines):
    block = "".join(f"    a{n} = {n}\n" for n in range(lines))
    return f"def f(x):\n    ### BEGIN SOLUTION\n{block}    ### END SOLUTION"


@pytest.mark.parametrize(
    ("cell", "taken"),
    [
        (text("word " * 220), 2),
        (text("<kbd>core</kbd> 15 min\n\n| a | [b](https://x.example) |"), 2 / 110),
        (text("word <details><summary>fold</summary>" + " two" * 20 + "</details>"), 22 / 110),
        (text("```python\na\nb\n```"), 0.2),
        (text("## Questions\n\n1. Why?\n2. How?\n<details>1. So.</details>\n## Next\nword"), 4),
        (text("## Questions\n\n**1.** Why?\n<details>So.</details>"), 2),
        (code("x = 1\n# nothing\ny = 2"), 0.2),
        (code("print(1)"), 0.6),
        (code("x = 1\nx"), 0.7),
        (code("plots.bars([1])"), 1.1),
        (code("report.heat_map()"), 1.1),
        (code('predict("a", 1)\npredict("b", 2)'), 4.2),
        (code('check("f", f)', "check"), 0),
        (code("def f(x):\n    ### BEGIN ORDER\n    x\n    ### END ORDER", "exercise"), 8),
        (code(solution_of(1), "exercise"), 5),
        (code(solution_of(2), "exercise"), 8),
        (code(solution_of(8), "exercise"), 10),
        (code(solution_of(12), "exercise"), 12),
        (code(solution_of(15), "exercise"), 15),
    ],
)
def test_minutes_follow_from_what_is_read_seen_guessed_and_written(cell, taken):
    assert minutes.taken((cell,)) == pytest.approx(taken, abs=0.45)
    assert minutes.taken((cell,) * 2) == 2 * minutes.taken((cell,))


@pytest.mark.parametrize(
    ("time", "said"), [(0, "5"), (7, "5"), (10, "5–10"), (70, "45–70"), (56, "35–55")]
)
def test_minutes_are_said_from_who_knows_cuda_to_who_is_new(time, said):
    assert minutes.span(time) == said


def test_reading_without_an_output_is_found():
    long, short, shows = text("word " * 200), text("word " * 100), code("print(1)")
    assert minutes.silent([short, shows, short, shows]) == []
    [(cell, taken)] = minutes.silent([short, shows, long, code("x = 1"), long, shows, shows])
    assert cell is shows and taken == pytest.approx(400 / 110 + 0.2)
    title = text("# 01 Threads " + "word " * 200)
    assert minutes.silent([title, short, shows]) == [], "a warm-up stands below the title"
    exercise, verdict = code(solution_of(3), "exercise"), code('check("f", f)', "check")
    assert [cell for cell, _ in minutes.silent([long, exercise, short, verdict])] == [verdict]
    assert minutes.silent([shows, long, text("## Questions\n1. Why?"), long, shows]) == []


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


@pytest.mark.parametrize("made", ["[name for name in y]", "{name for name in y}",
                                  "{name: 1 for name in y}", "(name for name in y)"])  # fmt: skip
def test_a_comprehensions_names_are_its_own_in_every_python(made):
    assert sections._names(f"x = {made}") == ({"y"}, {"x"})


def test_a_later_deepening_section_may_use_an_earlier_one(lesson):
    text = with_deepening("print(cube(3))").replace(
        "More\n#\n# <kbd>core", "More\n#\n# <kbd>deepening"
    )
    assert found_in(lesson, text) == []


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
