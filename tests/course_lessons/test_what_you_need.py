"""What a lesson says that it needs follows from the names and terms that its core uses.

A name belongs to the lesson that explains it. A core that uses it links to that lesson below *What
you need*, with the section where that is a deepening one.
"""

import re

import pytest

from tools.notebooks import cells as cutting
from tools.notebooks import sections
from tools.site.lessons import _needed

HEADING = "## What you need"
#: Names and terms, by the lesson that explains them.
EXPLAINED = {
    "01": r"cuda\.atomic|atomics?",
    "03": r"roofs?|rooflines?|recorded_roofs|bound_of|benchmark\(",
    "04": r"sectors?|coalesced|uncoalesced",
    "05": r"syncthreads|shared\.array|bank conflicts?",
    "06": r"warp tiles",
    "07": r"stall reasons?|achieved occupancy",
    "08": r"(CUDA )?graphs?|cuda\.stream|pinned",
    "10": r"shfl\w*|shuffles?|warp_sum|online softmax",
    "13": r"LayerNorm|layer_norm",
    "15": r"gradient_gap|quotient|custom_op|autograd",
    "17": r"tensor cores?|mma_f16",
}
#: Terms that a lesson explains anew, or mentions in a sentence that needs no more of it.
ANEW = {
    "09": {"04"},  # sectors of two loads, told there
    "11": {"03", "08"},  # roofs are read in the deepening; graphs as a second cure, with a link
    "12": {"01", "06"},  # names of kernels in a table
    "17": {"15"},  # a quotient of numbers
    "19": {"06", "10", "13", "17"},  # figures of other lessons, each with its link
}
#: Deepening sections of earlier lessons on which a core stands.
SECTIONS = {"13": ("Lesson 10", "its sections 6 and 7"), "14": ("sections 13 and 16",)}

PATHS = {cutting.name(path)[:2]: path for path in cutting.paths()}


def core_and_needs(path):
    """A lesson's core as one text, and what stands below *What you need*."""
    cells = cutting.read(path)
    deep = [cell for part in sections.sections(cells) if part.kind != "core" for cell in part.cells]
    text = "\n".join(cell.source for cell in cells if cell not in deep)
    before, _, rest = text.partition(HEADING)
    needs, _, rest = rest.partition("\n## ")
    return before + rest.partition("## What to read next")[0], needs


def missing(number, core, needs):
    """Lessons that a core uses the terms of, and does not say that it needs; with the terms."""
    said = {*_needed(needs), *ANEW.get(number, ())}
    found = {}
    for lesson, pattern in EXPLAINED.items():
        if lesson < number and lesson not in said:
            terms = {hit[0] for hit in re.finditer(rf"\b(?:{pattern})", core)}
            if terms:
                found[lesson] = terms
    return found


@pytest.mark.parametrize("number", PATHS)
def test_a_core_says_which_lessons_it_needs(number):
    assert not missing(number, *core_and_needs(PATHS[number]))


@pytest.mark.parametrize("number", SECTIONS)
def test_a_core_on_deepening_sections_names_them(number):
    needs = " ".join(core_and_needs(PATHS[number])[1].split())
    plain = re.sub(r"\]\([^)]*\)|\[", "", needs)
    assert all(words in plain for words in SECTIONS[number]), plain


def test_a_need_that_is_not_said_is_found():
    core, needs = "A CUDA graph on tensor cores, with shuffles.", "[lesson 08](08_streams.ipynb)"
    assert missing("18", core, needs) == {"10": {"shuffles"}, "17": {"tensor cores"}}
    assert missing("16", core, needs) == {"10": {"shuffles"}}
    assert missing("10", core, needs) == {}
