"""How everything that is printed is broken into lines."""

import numpy as np
import pytest

from warpsim import cuda, trace
from warpsim.core.words import ORPHAN, WIDTH, wrapped

LONG = "a barrier that some threads of a block do not reach stops all the others " * 3


def test_no_line_is_too_long_and_no_word_is_lost():
    lines = wrapped(LONG, "  ").splitlines()
    assert max(map(len, lines)) <= WIDTH == 80
    assert " ".join(lines).split() == LONG.split()
    assert lines[0].startswith("  a") and lines[1].startswith("    ")


@pytest.mark.parametrize("text", ["", "short", "  kept  as   it is", "one\n\n  two"])
def test_what_fits_stays_as_it_is(text):
    assert wrapped(text) == text


def test_each_line_keeps_its_own_beginning():
    lines = wrapped(f"head\n    {LONG}", hanging="").splitlines()
    assert lines[0] == "head"
    assert {len(line) - len(line.lstrip()) for line in lines[1:]} == {4}


def test_what_is_wrapped_stays_as_it_is():
    assert wrapped(wrapped(LONG, "  ")) == wrapped(LONG, "  ")


@pytest.mark.parametrize(
    "whole",
    ["`if i < x.size:`", "(12, 0, 0)", "k = 256", "32 x 16", "35.2 µs", "67 TFLOP/s", "✗ 8"],
)
def test_code_indices_and_units_are_not_broken(whole):
    for before in range(50, 80):
        text = wrapped(f"{'x' * before} {whole} and then some more words for a second line")
        assert whole in text


def test_a_word_too_long_for_a_line_stays_whole():
    word = "https://" + "a" * 90
    assert word in wrapped(f"see {word} there").splitlines()[1]


def test_no_word_is_left_alone_on_the_last_line():
    for words in range(10, 20):
        lines = wrapped(" ".join(["words"] * words)).splitlines()
        assert len(lines) == 1 or len(lines[-1].strip()) >= ORPHAN


def test_findings_and_reports_fit():
    @cuda.jit
    def past_the_end(out, x):
        i = cuda.grid(1)
        out[i] = x[i] * 2.0

    report = trace(past_the_end, 3, 32, np.zeros(70, np.float32), np.ones(70, np.float32))
    for text in (str(report), *map(str, report.findings)):
        assert max(map(len, text.splitlines())) <= WIDTH
    finding = report.findings[0]
    assert " ".join(str(finding).split()).endswith(finding.sentence)
