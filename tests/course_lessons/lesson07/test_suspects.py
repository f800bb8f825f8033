"""The unseen kernels of lesson 07: each has the one fault that its counters show, and no other."""

import numpy as np
import pytest

from course_lessons.lesson07 import suspects
from warpsim import trace

FINDINGS = {
    "bank conflicts": {"bank-conflict"},
    "uncoalesced": {"uncoalesced"},
    "float64": {"float64"},
    "too few blocks": set(),
    "nothing": set(),
}


@pytest.mark.parametrize("letter", suspects.LETTERS)
def test_a_suspect_has_its_fault_alone(letter):
    kernel, _, block, fault = suspects._SUSPECTS[letter]
    x = np.zeros((64, 64), np.float32)
    grid = (2, 2) if fault == "bank conflicts" else (2, 8)
    grid, block = (1, 64) if fault == "too few blocks" else (grid, block)
    found = {finding.kind for finding in trace(kernel, grid, block, x, x.copy()).findings}
    assert found == FINDINGS[fault]


def test_each_word_is_the_truth_of_one_and_only_the_truth_is_accepted():
    truths = {letter: found[3] for letter, found in suspects._SUSPECTS.items()}
    assert sorted(truths.values()) == sorted(suspects.CHOICES)
    assert suspects.judge(truths) is None
    for letter in suspects.LETTERS:
        for word in set(suspects.CHOICES) - {truths[letter]}:
            said = suspects.judge(truths | {letter: word})
            assert said.startswith(f"{letter} is not ")


def test_a_source_is_shown_for_what_is_named_rightly_only():
    shown = suspects.revealed({"A": "float64", "B": "float64"})
    assert shown.startswith("B, float64: 262,144 multiplications are float64")
    assert "_scaled_by_a_literal" in shown and "_tile_turned" not in shown
    assert suspects.revealed(None) == "None is named rightly yet."


def test_the_table_fits_a_page_and_has_the_hardware_s_names():
    lines = suspects.table().split("\n")
    assert max(map(len, lines)) <= 80
    assert "  l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in lines
