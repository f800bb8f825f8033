"""Write MISCONCEPTIONS.md: what students believe, what they then write, and what they are told.

``python -m tests.course_lessons.wrong_answers.page`` gathers it from the lessons and from the wrong
answers here. A verdict's kind and words are those that the tests of the wrong answers hold.
"""

from pathlib import Path

from course.checks.exercises import Exercise, exercises
from course.files import write_whole
from tests.course_lessons.wrong_answers import Answer, all_answers
from tools.notebooks import lessons

PAGE = lessons.ROOT / "MISCONCEPTIONS.md"
HEAD = """\
# Misconceptions, lesson by lesson

<!-- generated: python -m tests.course_lessons.wrong_answers.page -->

What students believe, what they write then, and what the check says. Of each exercise's wrong
answers one for each kind of verdict is shown; the tests judge all {wrong:,}, and {right} unusual
right ones. `old` → `new` is the solution with a slip in it. INSTRUCTORS.md says what to do with
this page in class.
"""
HEADING = "## Common misconceptions"
LONGEST = 72  # characters of a slip
#: Verdicts on slips that are Python's, not a GPU's; there is nothing in them to teach.
OF_PYTHON = {
    "typing", "wrong-arguments", "not-a-kernel", "not-a-function", "raised", "wrong-shape",
    "wrong-dtype",
}  # fmt: skip


def page() -> str:
    """Return the text of the whole page."""
    wrong, right = all_answers()
    parts = [HEAD.format(wrong=len(wrong), right=len(right))]
    for path in lessons.paths():
        number, name = lessons.title(lessons.read(path))
        parts.append(f"\n## {number} {name}\n\n{beliefs(path)}\n")
        for exercise in exercises().values():
            if exercise.lesson == int(number):
                parts.append(table(exercise, [a for a in wrong if a.exercise == exercise.name]))
    return "".join(parts)


def beliefs(path: Path) -> str:
    """Return the list of misconceptions that a lesson closes with."""
    texts = [cell.source for cell in lessons.read(path) if cell.kind == "markdown"]
    below = "\n".join(texts).partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    return below[below.index("\n- ") :].strip()


def table(exercise: Exercise, answers: list[Answer]) -> str:
    """Return an exercise's wrong answers, one of each kind."""
    kinds: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.kinds[0] not in OF_PYTHON:
            kinds.setdefault(answer.kinds[0], []).append(answer)
    rows = [f"\n**{exercise.title}** (`{exercise.name}`)\n\n"]
    if kinds:
        rows.append("| slip | verdict | which says |\n|---|---|---|\n")
    for kind, found in kinds.items():
        shown = max(found, key=lambda answer: (len(slip(answer)) <= LONGEST, *_told(answer)))
        said = "; ".join(word.partition("|")[0] for word in shown.words)
        rows.append(f"| {slip(shown)} | {kind} | {_cell(said)} |\n")
    return "".join(rows)


def _told(answer: Answer) -> tuple[int, int]:
    """How much a verdict must say; of two the shorter slip."""
    return sum(map(len, answer.words)), -len(slip(answer))


def slip(answer: Answer) -> str:
    """Return what a student wrote: an edit, another body, or the name of a whole function."""
    if isinstance(answer.edit, dict):
        return _edits(answer.edit.items())
    if isinstance(answer.edit, str):
        return _code(answer.edit)
    return answer.name.replace("_", " ")


def _edits(edits) -> str:
    return ", ".join(f"{_code(old)} → {_code(new) if new else 'nothing'}" for old, new in edits)


def _code(text: str) -> str:
    line = " ⏎ ".join(part.strip() for part in text.strip().split("\n"))
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return f"`{_cell(line)}`" if "`" not in line else _cell(line)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write_whole(PAGE, page())
