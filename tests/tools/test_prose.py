"""The lessons' texts: what the linter of prose finds; no lesson has more of it than before."""

import pytest

from tools import prose
from tools.notebooks import cells


def found(text):
    return [each.amiss for each in prose.findings([cells.Cell("markdown", text, (), 1)])]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("word " * 26 + ".", "26 words, 25 at most"),
        ("What you want is less.", "'What … is': name the noun"),
        ("## Title\n\nIt is fast.", "'It' after a heading: name it"),
        ("Neighbours shall be there.", "'shall': say must, or will"),
        ("The **multiprocessor** waits.", "'multiprocessor': say SM; SM (multiprocessor) at first"),
        ("A warp waits 4 clocks.", "'clocks': say cycle"),
        ("Mend it.", "'Mend': say fix"),
        ("The occupancy is low.", "'occupancy': say theoretical occupancy"),
        ("Over the link it takes long.", "'the link': say PCIe, NVLink"),
        ("Each thread's number counts.", '"thread\'s number": say index'),
    ],
)
def test_what_a_reader_stumbles_over_is_found(text, says):
    assert found(text) == [says]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 25 + ".",
        "word " * 20 + ". " + "Word " * 20 + ".",
        "What is it? What do you see?",
        "## Title\n\nThe kernel is fast. It is short.",
        "An SM (multiprocessor) has `clocks`, and theoretical occupancy.",
        "The clock rate, a link to a page.",
        "| a table | shall | be left |",
        "```python\nclocks = 1\n```",
        "- " + "word " * 20 + "\n- " + "word " * 20,
    ],
)
def test_the_rest_is_let_go(text):
    assert found(text) == []


@pytest.mark.parametrize("path", cells.paths(), ids=cells.name)
def test_no_lesson_has_more_findings_than_before(path):
    most = prose.LEFT.get(cells.name(path)[:2], 0)
    said = prose.findings(cells.read(path))
    assert len(said) <= most, "\n".join(map(str, said))
