"""Drawn programs are refused here where numba-cuda refuses them, and only there.

`python -m tests.warpsim.drawn_programs` and `drawn_host` draw thousands.
"""

from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda", minversion="0.30", reason="older ones refuse other things")

from tests.warpsim.drawn_host import differences
from tests.warpsim.drawn_programs import Author, difference, known


def compare(seeds):
    """No program may be taken by one and refused by the other."""
    for seed in seeds:
        program = Author(seed, doubt=0.03).program()
        found = difference(program)
        assert found is None or known(found), f"seed {seed!r}: {found}\n{program}"


@pytest.mark.parametrize("seed", ["first"])
def test_drawn_kernels_are_refused_as_numba_refuses_them(seed):
    compare(f"{seed}-{number}" for number in range(12))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["second", "third"])
def test_many_drawn_kernels_are_refused_as_numba_refuses_them(seed):
    compare(f"{seed}-{number}" for number in range(100))


@pytest.mark.parametrize("seed", ["first"])
def test_drawn_host_programs_have_numbas_outcomes(seed):
    assert list(differences(seed, 150)) == []
