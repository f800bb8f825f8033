"""Drawn operations: what threads share against what differs, and against what a GPU computes.

``COURSE_DRAWS=1000 python -m pytest tests/warpsim/ptx/test_drawn.py`` draws more, and takes all
that was recorded.
"""

from __future__ import annotations

import cmath
import csv
import math
import os
from fnmatch import fnmatch

import numpy as np
import pytest

from course.compiler import toolchain
from course.files import data_path
from course_recording.profiling import operations
from tests.course.compiled_samples import needs_compiler
from tests.texts import function_of
from tests.warpsim.ptx import drawn_operations as drawn
from tests.warpsim.ptx.ptx_model import Machine, Unknown
from warpsim.core import libdevice

MORE = int(os.environ.get("COURSE_DRAWS", "0"))
RECORDED = sorted(data_path("measurements").glob("*-operations-*.npz"))
#: Statements and types of which some results differ; the file has the reasons.
with data_path("operations-explained.csv").open() as rows:
    EXPLAINED = [tuple(row.values())[:4] for row in csv.DictReader(rows)]


def draw(seed: int, count: int) -> tuple[list[str], np.ndarray, np.ndarray, str]:
    """Expressions, the values of their operands, and the type of the results."""
    rng = np.random.default_rng(seed)
    first, second = (str(kind) for kind in rng.choice(drawn.TYPES, 2))
    out = str(rng.choice((*drawn.TYPES, "float64", "int64")))
    pool = [*drawn.expressions(drawn.EXACT), *drawn.CASTS]
    if rng.random() < 0.4:
        pool, out = [*drawn.expressions(drawn.CLOSE), *_of_the_library(rng)], "float64"
    x, y = drawn.values(first, rng, 5), drawn.values(second, rng, 5)
    return [str(text) for text in rng.choice(pool, count, replace=False)], x, y, out


def _of_the_library(rng: np.random.Generator) -> list[str]:
    """Some calls of libdevice, with operands of their number."""
    calls = {
        name: (result, operands)
        for name, (_, result, operands) in libdevice.CALLS.items()
        if not hasattr(result, "types") and not hasattr(result, "count")
    }
    chosen = rng.choice(sorted(calls), 8, replace=False)
    return [
        f"cuda.libdevice.{name}({', '.join(['a', 'b', 'a'][: len(calls[name][1])])})"
        for name in chosen
    ]


BYTES = "t# = cuda.local.array(2, np.int8); {}; o[@] = t#[1]"
OF_POWERS = "cuda.libdevice.pow(a, b)", "cuda.libdevice.powf(a, b)", "math.pow(a, b)"


@pytest.mark.parametrize("which", ["left", "right", "both"])
def test_a_shared_exponent_is_no_shortcut_and_a_byte_is_the_lower_half_of_its_register(which):
    """Drawn once: pow(-inf, 0.5), and a slice of bytes that is set to a float."""
    sets = [BYTES.format(one) for one in ("t#[:] = a", "t#[:] = (b, a)", "t#.fill(a)", "t#[1] = a")]
    half, values = np.float32([0.5]), np.float32([-np.inf, -0.0, 300, 3e9, -200.5])
    for texts, out in (([*OF_POWERS, "a ** b"], "float64"), (sets, "int64")):
        lanes = drawn.by_lanes(texts, values, half, out)
        np.testing.assert_equal(drawn.by_shared(texts, values, half, out, which), lanes)
        assert not np.isnan(lanes[:, :4]).any()


@pytest.mark.parametrize("which", ["left", "right", "both"])
@pytest.mark.parametrize("seed", range(MORE or 3))
def test_a_shared_value_computes_as_one_that_differs_by_thread(seed, which):
    texts, x, y, out = draw(seed, 9)
    rng = np.random.default_rng([seed, 1])
    for text in rng.choice(drawn.expressions(drawn.STATEMENTS), 4, replace=False):
        kind = np.dtype(str(rng.choice(drawn.TYPES))).type.__name__
        texts.append(str(text).replace("KIND", kind))
    texts = drawn.accepted(texts, x, y, out)
    if not texts:
        return
    lanes = drawn.by_lanes(texts, x, y, out)
    shared = drawn.by_shared(texts, x, y, out, which)
    for text, one, other in zip(texts, lanes, shared, strict=True):
        wrong = np.argwhere(~drawn.same(other, one, 1e-6))
        assert not len(wrong), (
            f"{text} of {x.dtype} {x[wrong[0][0]]} and {y.dtype} {y[wrong[0][1]]} into {out}: "
            f"{one[tuple(wrong[0])]} by thread, {other[tuple(wrong[0])]} shared"
        )


def explained(line: str) -> bool:
    statement, *kinds = line.split(":")[0].rsplit("|", 3)
    return any(
        statement == known and all(map(fnmatch, kinds, patterns)) and ": GPU " in line
        for known, *patterns in EXPLAINED
    )


def bits(value: np.generic) -> int:
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def ptx_of(text: str, first: np.dtype, second: np.dtype, out: str) -> str:
    """What the compilers make of a kernel of one expression, linked as for a launch."""
    source = f"def f(x, y, o):\n    a = x[0]\n    b = y[0]\n    o[0] = {text}\n"
    names = {"cuda": toolchain.require(), "math": math, "np": np, "cmath": cmath}
    function = function_of(source, f"{text} of {first}", names)
    kinds = tuple(toolchain.type_of(np.zeros(1, kind)) for kind in (first, second, out))
    return toolchain.linked_ptx(toolchain.compile_kernel(function, kinds, "sm_75"), "f", "sm_75")


@needs_compiler
@pytest.mark.parametrize("seed", range(100, 100 + (MORE or 2)))
def test_an_expression_has_the_value_of_its_compiled_code(seed):
    texts, x, y, out = draw(seed, 3)
    for text in texts:
        try:
            machine = Machine(ptx_of(text, x.dtype, y.dtype, out))
        except Exception as error:
            assert not drawn.accepted([text], x, y, out) or "float16" in f"{x.dtype} {y.dtype}", (
                error
            )
            continue
        assert drawn.accepted([text], x, y, out), f"{text} of {x.dtype} and {y.dtype} compiles"
        (found,) = drawn.by_lanes([text], x, y, out)
        for i, j in np.ndindex(found.shape):
            try:
                (raw,) = machine.run([bits(x[i]), bits(y[j])], 1)
            except Unknown:
                break
            if raw is None:  # its thread ends before
                continue
            wanted = np.frombuffer(raw.to_bytes(found.itemsize, "little"), found.dtype)
            assert drawn.same(found[i, j], wanted, 4e-6).all(), (
                f"{text} of {x.dtype} {x[i]} and {y.dtype} {y[j]} into {out}: {wanted[0]} by the "
                f"compiled code, {found[i, j]} here"
            )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_operations_are_those_that_a_gpu_computed(path, part=97):
    counts, lines = operations.compare(path, part)
    rest = [line for line in lines if not explained(line)]
    assert counts["same"] > 20 and not rest, "\n".join(rest)


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_many_operations_are_those_that_a_gpu_computed(path):
    """A fifth of them, or all."""
    test_operations_are_those_that_a_gpu_computed(path, 1 if MORE else 5)
