"""What programs may compare: the errors and warnings of Numba-CUDA, with its words and classes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import float32, int32, types
from numba.core.errors import NumbaWarning, TypingError

from warpsim import KernelError, cuda, trace
from warpsim.front.numba_typing import dtype_of
from warpsim.run.launch import taken_by


class OwnError(Exception):
    pass


def one(kernel, *arguments, threads=1):
    kernel[1, threads](*arguments)


# ---------------------------------------------------------------------- under debug=True
def test_an_exception_keeps_its_class_and_tells_where_it_was_raised():
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        if x == 1:
            raise OwnError
        if x == 2:
            raise OwnError("too large", 7)
        assert x != 3, "three"

    one(kernel, 0)
    place = r"In function 'kernel', file .*test_errors_like_numba\.py, line %d, tid=\[0, 0, 0\] "
    line = kernel.py_func.__code__.co_firstlineno
    with pytest.raises(OwnError, match=place % (line + 3) + r"ctaid=\[0, 0, 0\]$"):
        one(kernel, 1)
    with pytest.raises(OwnError, match=place % (line + 5) + r"ctaid=\[0, 0, 0\]: too large") as e:
        one(kernel, 2)
    assert e.value.args[1:] == (7,)
    with pytest.raises(AssertionError, match=place % (line + 6) + r"ctaid=\[0, 0, 0\]: three"):
        one(kernel, 3)


@pytest.mark.parametrize("divide", [lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a % b])
def test_a_division_by_zero_is_an_error_in_the_thread_that_does_it(divide):
    function = cuda.jit(device=True)(divide)

    def body(x, out):
        i = cuda.grid(1)
        if x[i] != 0:
            out[i] = out[i] / x[i]
        if i == 3:
            out[i] = out[i] / x[i]
        out[i] = function(out[i], 2)

    x = np.array([1.0, 0, 2, 0])
    with pytest.raises(ZeroDivisionError, match=r"tid=\[3, 0, 0\] .*division by zero"):
        one(cuda.jit(debug=True, opt=False)(body), x, np.ones(4), threads=4)
    out = np.ones(4)
    one(cuda.jit(body), x, out, threads=4)
    one(cuda.jit(debug=True, opt=False, fastmath=True)(body), x, out, threads=4)
    one(cuda.jit(debug=True, opt=False)(body), np.ones(4), out, threads=4)


def test_an_index_outside_a_tuple_is_an_index_error():
    def body(x):
        x.shape[-cuda.threadIdx.x]

    with pytest.raises(IndexError, match="tuple index out of range"):
        one(cuda.jit(debug=True, opt=False)(body), np.ones(3), threads=3)
    with pytest.raises(KernelError, match="element -2 of a tuple of 1"):
        one(cuda.jit(body), np.ones(3), threads=3)


# ---------------------------------------------------------------------- words
@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ("n", "int64"),
        ("(1, n)", "Tuple(Literal[int](1), int64)"),
        ("(n, n)", "UniTuple(int64 x 2)"),
        ("x[0]", "float32"),
        ("[5, 6]", "list(int64)<iv=[5, 6]>"),
    ],
)
def test_a_shape_that_is_no_constant_is_named_by_its_type(shape, shown, tmp_path):
    from tests.texts import body_of

    body = f"s = cuda.shared.array({shape}, float32)\nx[0] = s[0]"
    kernel = cuda.jit(body_of("x, n", body, float32=float32))
    words = f">>> array(shape={shown}, dtype=class(float32))"
    found = "No implementation of function Function(<function shared.array"
    with pytest.raises(TypingError, match=re.escape(words)) as error:
        one(kernel, np.ones(3, np.float32), 4)
    assert found in str(error.value) and "must be a compile-time constant" in str(error.value)


def test_a_type_that_no_array_has_names_the_variable():
    def body(x):
        wrong = cuda.local.array(4, dtype=np.dtype("O"))
        x[0] = wrong[0]

    with pytest.raises(TypingError, match="Cannot infer the type of variable 'wrong'"):
        one(cuda.jit(body), np.ones(1))


def test_an_error_in_a_device_function_names_who_called_it():
    @cuda.jit(device=True)
    def inner(x):
        return floor(x)  # noqa: F821

    @cuda.jit
    def kernel(x):
        x[0] = inner(x[0])

    with pytest.raises(TypingError) as error:
        one(kernel, np.ones(1))
    text = str(error.value)
    assert "NameError: name 'floor' is not defined" in text and "line 2 of inner" in text
    assert "resolving callee type: type(CUDADispatcher(inner))" in text
    assert "line 2 of kernel" in text


def test_a_method_of_a_class_is_an_unknown_attribute():
    @cuda.jit
    def kernel(x):
        x[0] = float.fromhex("1")

    with pytest.raises(TypingError, match="Unknown attribute 'fromhex' of type class"):
        one(kernel, np.ones(1))


def test_a_launch_that_fits_two_signatures_is_ambiguous():
    @cuda.jit(["(float64[::1], float32, float64)", "(float64[::1], float64, float32)"])
    def kernel(x, a, b):
        x[0] = a + b

    with pytest.raises(TypeError, match="Ambiguous overloading for <function .*kernel"):
        one(kernel, np.ones(1), 1.0, 2.0)
    x = np.ones(1)
    one(kernel, x, np.float32(1), 2.0)
    assert x[0] == 3


def test_a_launch_takes_the_signature_that_numbas_dispatcher_takes():
    """200 drawn choices among three signatures of two numbers; seed 48."""
    rules = pytest.importorskip("numba.cuda.typeconv.rules").default_type_manager
    names = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
    kinds, random = [getattr(types, name) for name in names], np.random.default_rng(48)
    taken = 0
    for _ in range(200):
        given, *signatures = (tuple(random.choice(kinds[:end], 2)) for end in (8, 11, 11, 11))
        signatures = [*dict.fromkeys(signatures)]
        try:
            wanted = rules.select_overload(given, signatures, True, False)
        except TypeError:  # it fits two
            continue
        kernel = cuda.jit(signatures)(lambda a, b: None)
        values = tuple(dtype_of(kind).type(1) for kind in given)
        assert tuple(taken_by(kernel, values).types) == signatures[wanted], (given, signatures)
        taken += 1
    assert taken > 100


def test_more_values_than_printf_takes_print_the_format(capsys):
    @cuda.jit
    def kernel(x):
        print(
            x[0], 1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
            23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
        )  # fmt: skip

    with pytest.warns(NumbaWarning, match="cannot print more than 32 items"):
        one(kernel, np.arange(3))
    assert capsys.readouterr().out == "%lld %f " + " ".join(["%lld"] * 31) + "\n"


# ---------------------------------------------------------------------- variables never set
@cuda.jit
def sometimes_set(x, n):
    if n > 0:
        c = 5
        x[0] = c
    else:
        c += 1
        x[0] = c


def test_a_variable_that_only_another_way_sets_is_zero_and_found():
    x = np.ones(1, np.int32)
    one(sometimes_set, x, 1)
    assert x[0] == 5
    one(sometimes_set, x, 0)
    assert x[0] == 1
    report = trace(sometimes_set, 1, 1, x, 0)
    assert "uninitialised-read" in {finding.kind for finding in report.findings}
    kinds = {finding.kind for finding in trace(sometimes_set, 1, 1, x, 1).findings}
    assert "uninitialised-read" not in kinds


def test_numba_warns_of_it_where_it_is_asked_to(monkeypatch):
    config = pytest.importorskip("numba.cuda.core.config")
    monkeypatch.setattr(config, "ALWAYS_WARN_UNINIT_VAR", 1, raising=False)
    kernel = cuda.jit(lambda x, n: None)

    def body(x, n):
        if n > 0:
            c = 5
        else:
            x[0] = c
        x[0] = c

    kernel = cuda.jit(body)
    with pytest.warns(NumbaWarning, match="Detected uninitialized variable c"):
        one(kernel, np.ones(1, np.int32), 1)


def test_a_variable_that_no_way_sets_before_is_refused():
    @cuda.jit
    def kernel(x):
        total += x[0]  # noqa: F821, F841

    with pytest.raises(TypingError, match="variable 'total' is used before it is set"):
        one(kernel, np.ones(1, np.int32))


def test_a_vectorised_function_says_what_numba_says():
    with pytest.warns(RuntimeWarning, match="nopython kwarg for cuda target is redundant"):
        cuda.vectorize([float32(float32)], nopython=True)(lambda a: a)

    @cuda.guvectorize([(int32, int32[:], int32[:])], "(),(n)->(n)")
    def scale(a, b, out):
        for i in range(b.size):
            out[i] = a * b[i]

    b = np.arange(4, dtype=np.int32)
    assert (scale(np.array(2), b) == 2 * b).all()  # an array of the host is converted
    with pytest.raises(TypeError, match=r"does not support \.astype\(\)"):
        scale(cuda.to_device(np.array(2)), b)
