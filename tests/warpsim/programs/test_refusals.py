"""Drawn programs are refused here where numba-cuda refuses them, and only there.

`python -m tests.warpsim.programs.drawn_programs` and `drawn_host` draw thousands.
"""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("numba_cuda", minversion="0.30", reason="older ones refuse other things")

from tests.warpsim.programs.drawn_host import differences
from tests.warpsim.programs.drawn_programs import (
    FIRST,
    Author,
    Program,
    arguments,
    difference,
    known,
)


def compare(seeds):
    """No program may be taken by one and refused by the other."""
    for seed in seeds:
        program = Author(seed, doubt=0.03).program()
        found = difference(program)
        assert found is None or known(found, program), f"seed {seed!r}: {found}\n{program}"


@pytest.mark.parametrize("seed", ["first"])
def test_drawn_kernels_are_refused_as_numba_refuses_them(seed):
    compare(f"{seed}-{number}" for number in range(12))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["second", "third"])
def test_many_drawn_kernels_are_refused_as_numba_refuses_them(seed):
    compare(f"{seed}-{number}" for number in range(100))


#: Bodies of kernels that a draw once found taken by one and refused by the other.
FOUND = """
if y < True <= 0.5: w2 = a + 'x'
if x and 0.5 == G_TUPLE: w2 = a + 'x'
if not G_TUPLE: w2 = a + 'x'
w2 = 0; w2 = 2.5; w3 = a + 'x' if w2 > 3 else 1
if d1(n) and 0: w2 = a + 'x'
if b[0] or G_BOOL: pass
w1 = x and 0 and a
l[0] = (G_BOOL or True) or c[0] < iv
while G_BOOL: k[0] = 1
assert fv == 2**40 != n; w2 = a + 'x'
if (lambda: 1) is None: w2 = a + 'x'
if x is None: w2 = a + 'x'
w1 = math.sqrt(a); w2 = (lambda p: p)(t)
iv = [n, x]
iv = [n, x]; w2 = iv[0]
w1 = 1 < x is None
w1 = np is None
w1 = (a, 1) == (n,)
w1 = (n, 1) == None
w1 = cuda.grid(Colour.RED.value)
w1 = cuda.grid(ndim=b.ndim)
w1 = b.shape[b.ndim]
w1 = b.shape[G_TUPLE[1]]
w1 = b.shape[G_BOOL]
w1 = G_MIXED[1:b.ndim]
w1 = cuda.local.array(G_TUPLE[b.ndim:], float32)
w1 = isinstance(G_POINT, int)
w1 = 1 < k[n] + 2 < x; w2 = max(*G_TUPLE)
cuda.atomic.add(e, (), 1)
a[:] = G_MIXED
w1, w2 = e
w1 = a.view('f4')
if h[0]: pass
w1 = not h[0]
l[0] = h[0]
if not G_BOOL: iv, *w1 = 1, 2
if not G_BOOL: del iv
def w1(p): return p + fv
def w1(p): return w1
if 3 in G_MIXED: pass
if not 3 in G_MIXED: pass
if not 3 not in G_MIXED: w2 = a + 'x'
w1 = 3 in G_MIXED
if 't' in G_TEXT or 3 in G_ARRAY: pass
if 3 in (1, 2.5): pass
np.finfo(np.float32)
w1: int = np.finfo(np.float32)
w1: int = float32
print(G_POINT)
print((1, G_POINT))
w1 = G_TUPLE + G_POINT
w1 = G_POINT + ()
tv += (n,)
if not G_BOOL: fv = 1; k[0] = 2
"""


def program_of(body: str) -> Program:
    """A kernel of one line, with what the draws put before it."""
    first = [line for name, line in FIRST.items() if name in re.findall(r"\w+", body)]
    lines = "".join(f"    {line}\n" for line in [*first, body])
    device = "@cuda.jit(device=True)\ndef d1(p):\n    return p\n"
    return Program(f"{device}def kernel():\n{lines}", arguments(random.Random(body)))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("body", FOUND.strip().splitlines())
def test_what_a_draw_found_is_refused_as_numba_refuses_it(body):
    program = program_of(body)
    assert difference(program) is None, program


@pytest.mark.parametrize("body", ["lv[math.floor(iv)] = y", "fv *= b[0]", "tv[0] = n"])
def test_only_beside_an_inlined_function_numba_leaves_out_what_nobody_reads(body):
    """The README names this difference, which is known only where Numba says so."""
    inlined = program_of(f"{body}; w1 = (lambda p: p)(t)")
    assert known(difference(inlined), inlined)
    assert difference(program_of(body)) is None
    assert not known(("only here refused", "a reason"), program_of("w1 = (lambda p: p)(t)"))


@pytest.mark.parametrize("seed", ["first"])
def test_drawn_host_programs_have_numbas_outcomes(seed):
    assert list(differences(seed, 150)) == []
