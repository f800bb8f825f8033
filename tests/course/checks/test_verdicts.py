"""Verdicts, predictions and progress as HTML: well formed, all escaped, no style that leaks."""

import re
from html.parser import HTMLParser

import pytest

from course.checks import progress, verdicts
from course.checks.predictions import Predictor
from course.checks.verdicts import Failure, Verdict, failed

EVIL = '<script>alert("x")</script> & <b> $a$'


class Page(HTMLParser):
    """Reads HTML; `open` names the elements that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.attributes = [], set(), "", set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def page(shown):
    """Read what a notebook shows; hold what goes for every box."""
    read = Page(shown._repr_html_())
    assert not read.open
    assert read.tags <= {"div", "b", "code", "span"}, "no style element, no script"
    assert read.attributes <= {"style"}
    return read


def words_of(text):
    return re.sub(r"\s+", "", str(text).replace("`", ""))


VERDICTS = [
    Verdict("add-one", "passed", "passed", "Right in 5 cases."),
    Verdict("add-one", "not started", "not-started", "Write your code where the stub says `pass`."),
    failed("add-one", Failure("race", f"{EVIL} `x[i]`", 3, "out[i] = `x` < 3", hint="Wait."), {}),
]


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.kind)
def test_a_verdicts_page_has_the_words_of_its_text(verdict):
    assert words_of(page(verdict).words) == words_of(verdict)


def test_nothing_of_a_learner_is_markup():
    text = VERDICTS[-1]._repr_html_()
    assert "<script" not in text and "&lt;script" in text
    assert "<code>x[i]</code>" in text and "<b>Hint:</b> Wait." in text
    assert "$a$" not in re.sub("<code>.*?</code>", "", text), "no formula begins there"


def test_colours_tell_passed_from_failed_and_not_started():
    passed, not_started, wrong = (verdict._repr_html_() for verdict in VERDICTS)
    for sign, text in (("✓", passed), ("○", not_started), ("✗", wrong)):
        assert f"border-left: 4px solid rgb({verdicts.COLOURS[sign]})" in text


def test_predictions_show_the_words_of_their_text():
    predict = Predictor()
    shown = [
        predict("<sectors> & more", 4, exact=True),
        predict.answer("<sectors> & more", 8, how="counted"),
        predict("never guessed", ..., within=2),
        predict.answer("never guessed", 8, "ms"),
        predict("<sectors> & more", "<b>", exact=True),
    ]
    for each in shown:
        assert words_of(page(each).words) == words_of(each)
    signs = "·✗○○○"
    for sign, each in zip(signs, shown, strict=True):
        assert f"solid rgb({verdicts.COLOURS[sign]})" in each._repr_html_()


def test_progress_has_a_bar():
    rows = [
        progress.Row(1, "a-name", EVIL, "passed", "passed", "00"),
        progress.Row(2, "another", "Title", "failed", "race", "00"),
        progress.Row(2, "third", "Title", "not started", "not-started", ""),
    ]
    shown = progress.Progress(tuple(rows), ("A note.",))
    assert words_of(page(shown).words) == words_of(shown)
    assert "width: 33%" in shown._repr_html_()
    assert "width: 100%" in progress.Progress(tuple(rows[:1]))._repr_html_()
    assert "width" not in page(progress.Progress(())).words


def test_a_bar_is_filled_as_far_as_something_is_done():
    assert "width: 0%" in verdicts.bar(0, 7) and "width: 100%" in verdicts.bar(7, 7)
    assert "width: 0%" in verdicts.bar(0, 0)
