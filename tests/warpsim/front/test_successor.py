"""Kernels by numba-cuda-mlir's rules: types as its compiler gives them, and results with them."""

import math

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError

from tests.texts import body_of
from tests.warpsim.front.successor_answers import answers, questions
from warpsim import cuda
from warpsim.front import numba_typing, successor
from warpsim.front.cuda_names import FUNCTIONS
from warpsim.numba_names import SUCCESSORS_CUDA

jit = SUCCESSORS_CUDA["jit"]
TOLD = answers()


def ours(name, function, kinds):
    if name.startswith("cuda."):
        return successor.bits_retyped(function, kinds, FUNCTIONS[function][2](*kinds))
    return successor.retyped(function, kinds, numba_typing.resolve(function, kinds))


@pytest.mark.skipif(not numba_typing.has_numba_cuda(), reason="its rules are numba-cuda's, changed")
@pytest.mark.parametrize("name, function", [one[:2] for one in questions()])
def test_a_call_has_the_successors_type_or_is_refused_where_its_code_disagrees(name, function):
    asked = {key[1:]: told for key, told in TOLD.items() if key[0] == name}
    count = (
        2 if name.startswith("math.") and name[5:] in "atan2 copysign fmod hypot pow ldexp" else 0
    )
    asked = {key: told for key, told in asked.items() if not count or len(key) == count}
    different = {}
    for key, told in asked.items():
        kinds = tuple(getattr(types, kind) for kind in key)
        got = ours(name, function, kinds)
        if isinstance(got, str):  # of integers, or of several types
            assert len(set(key)) > 1 or "int" in key[0]
            assert name.startswith(("math.", "cuda.clz", "cuda.brev"))
        elif (got is None) != (told == "-") or (got and str(got[0]) != told):
            different[key] = got and str(got[0]), told
    assert not different


def result(expression, x, out_dtype, decorate=jit):
    """An expression of ``x[i]`` for each element, as the kernel stores it."""
    body = f"i = cuda.grid(1)\nv = {expression}\nout[i] = v"
    out = np.zeros(len(x), out_dtype)
    kernel = decorate(body_of("x, out", body, math=math))
    kernel[1, len(x)](x, out)
    return out


HALF = np.array([0.1, 1000, 60000, -3], np.float16)
UNSIGNED = np.array([0, 1, 5, 2**31, 2**32 - 1], np.uint32)


@pytest.mark.parametrize(
    "expression, x, wanted",
    [
        ("x[i] * x[i]", HALF, HALF.astype(np.float32) ** 2),
        ("x[i] + x[i]", HALF, HALF.astype(np.float32) * 2),
        ("-x[i]", UNSIGNED, (-UNSIGNED.view(np.int32)).astype(np.int64)),
        ("cuda.brev(x[i])", np.array([1, 2], np.int32), [-(2**31), 2**30]),
        ("cuda.popc(x[i])", np.array([-1, 7], np.int8), [8, 3]),
        ("x[i] & 255", np.array([-1, 256], np.int16), [255, 0]),
        ("math.floor(x[i])", np.array([-1.5, 2.5], np.float32), [-2, 2]),
        ("math.sqrt(x[i])", HALF[:2], np.sqrt(HALF[:2])),
    ],
)
def test_results_are_those_of_its_machine_code(expression, x, wanted):
    assert (result(expression, x, np.float64) == np.asarray(wanted, np.float64)).all()


def test_the_rules_hold_where_its_jit_decorates_and_nowhere_else():
    text = "x[i] * x[i] > 65504"
    assert list(result(text, HALF, np.int64)) == [0, 1, 1, 0]
    numbas = result("(x[i] * x[i])", HALF, np.float64, cuda.jit)
    assert np.isinf(numbas[1:3]).all()


def test_the_index_of_a_thread_has_32_bits_in_device_functions_and_functions_inside_too():
    @jit(device=True)
    def index():
        return cuda.grid(1)

    @jit
    def kernel(out):
        def inside():
            return cuda.gridsize(1)

        a, (b, c), d = index(), cuda.grid(2), inside()
        out[a] = b + c + d

    kernel[1, 4](np.zeros(4, np.int64))
    (overload,) = kernel.overloads.values()
    kinds = overload._type_annotation.typemap
    assert [kinds[name] for name in "abcd"] == [types.int32] * 4


@pytest.mark.parametrize("called", ["sqrt(x[i])", "pow(x[i], 2)", "atan2(x[i], 1.0)"])
def test_a_call_of_which_type_and_code_disagree_is_refused_with_what_to_write(called):
    with pytest.raises(TypingError, match=r"numba-cuda-mlir 0\.6\.0, whose code computes another"):
        result(f"math.{called}", np.arange(2, dtype=np.int32), np.float64)


def test_alignas_is_the_alignment_of_a_shared_array_and_options_of_its_compiler_are_taken():
    @jit(chip="sm_90", opt_level=3)
    def kernel(out):
        s = cuda.shared.array(4, types.float32, alignas=12)
        out[0] = s.size

    with pytest.raises(ValueError, match="Alignment must be a power of 2: it is 12"):
        kernel[1, 1](np.zeros(1))
