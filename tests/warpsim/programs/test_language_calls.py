"""Calls as Numba takes them: named arguments, operator's functions, ufuncs, float16, lambdas."""

from __future__ import annotations

import cmath
import math
import operator

import numpy as np
import pytest
from numba import float32, njit, types
from numba.core.errors import TypingError

from tests.texts import body_of
from warpsim import cuda, trace
from warpsim.code.emit import OPERATIONS
from warpsim.code.programs import program_of
from warpsim.core import fp16
from warpsim.core.operators import NAMESPACE
from warpsim.front.cuda_names import FUNCTIONS
from warpsim.front.names import Unsupported
from warpsim.run.launch import run_kernel
from warpsim.run.state import geometry
from warpsim.run.threads import Threads

RNG = np.random.default_rng(5)


# ---------------------------------------------------------------------- device functions
@cuda.jit(device=True)
def scaled(x, factor=2.0, offset=None):
    if offset is None:
        return x * factor
    return x * factor + offset


def test_a_function_has_its_name_beside_others_and_beside_variables():
    @cuda.jit
    def sqrt(a, b, out):
        if a < 0:
            return
        log = math.log(b)
        out[0], out[1], out[2], out[3] = math.sqrt(a), math.sqrt(b), math.sqrt(a), log
        out[4], out[5] = cmath.sqrt(-4.0).imag, math.sqrt(b)

    a, b, out = np.float32(2), 3.0, np.zeros(6)
    sqrt[1, 1](a, b, out)
    halves = np.sqrt(a), math.sqrt(b), np.sqrt(a), math.log(b)
    assert list(out) == [*halves, 2, math.sqrt(b)]


def test_named_arguments_and_defaults_of_device_functions():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i, 0] = scaled(x[i])
        out[i, 1] = scaled(x[i], 3)
        out[i, 2] = scaled(offset=i, x=x[i])
        out[i, 3] = scaled(x[i], offset=1, factor=x[i])

    x, out = RNG.random(5), np.zeros((5, 4))
    kernel[1, 5](x, out)
    wanted = np.stack([2 * x, 3 * x, 2 * x + np.arange(5), x * x + 1], axis=1)
    np.testing.assert_allclose(out, wanted)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("scaled(x[0], y=1)", "unexpected keyword argument 'y'"),
        ("scaled(factor=1)", "missing a required argument: 'x'"),
        ("scaled(x[0], x=1)", "multiple values for argument 'x'"),
    ],
)
def test_a_call_that_does_not_fit_says_so(call, words):
    kernel = cuda.jit(body_of("x", f"x[0] = {call}", scaled=scaled))
    with pytest.raises(TypingError, match=words) as caught:
        kernel[1, 1](np.ones(1))
    assert "line 2 of f" in str(caught.value)


# ---------------------------------------------------------------------- operator
@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "name",
    "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift iadd isub "
    "lt le gt ge eq ne getitem neg pos invert not_".split(),
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_functions_of_operator_are_the_operators(name, dtype):
    function = getattr(operator, name)
    if dtype is np.float32 and name in "and_ or_ xor lshift rshift invert".split():
        pytest.skip("floats have no such operator")
    one, item = name in ("neg", "pos", "invert", "not_"), name == "getitem"

    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        if one:
            out[i] = function(x[i])
        elif item:
            out[i] = function(x, i)
        else:
            out[i] = function(x[i], y[i])

    x = RNG.integers(1, 9, 12).astype(dtype)
    y = RNG.integers(1, 5, 12).astype(dtype)
    out = np.zeros(12)
    kernel[1, 12](x, y, out)
    compiled = njit(lambda *values: function(*values))
    arguments = [(a,) if one else (a, b) for a, b in zip(x, y, strict=True)]
    wanted = x if item else np.array([compiled(*given) for given in arguments])
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


# ---------------------------------------------------------------------- ufuncs
SCALARS = "sin cos log tanh arctan2 hypot divide fmax minimum equal logical_and"


@pytest.mark.drawn(10)
@pytest.mark.parametrize("name", SCALARS.split())
@pytest.mark.parametrize(
    "dtypes",
    [
        ("f4", "f4"),
        ("u1", "f4"),
        *(pytest.param(pair, marks=pytest.mark.slow) for pair in (("i4", "f8"), ("i8", "f8"))),
    ],
)
def test_ufuncs_with_an_output_array_are_numbas(name, dtypes):
    function = getattr(np, name)
    two = function.nin == 2

    def body(x, y, out):
        if two:
            function(x, y, out)
        else:
            function(x, out)

    x = RNG.integers(1, 9, (4, 3)).astype(dtypes[0])
    y = RNG.integers(1, 4, 3).astype(dtypes[0])
    found, wanted = np.zeros((4, 3), dtypes[1]), np.zeros((4, 3), dtypes[1])
    cuda.jit(body)[1, 1](x, y, found)
    njit(body)(x, y, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_ufunc_of_numbers_fills_its_output_and_counts_its_stores():
    @cuda.jit
    def kernel(x, out):
        np.maximum(cuda.threadIdx.x, x[0], out[cuda.threadIdx.x])

    out = np.zeros((4, 6))
    report = trace(kernel, 1, 4, np.ones(1), out)
    np.testing.assert_array_equal(out, np.repeat(np.array([[1.0], [1], [2], [3]]), 6, axis=1))
    assert report.total("global", "store").bytes == out.nbytes


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("np.sqrt(x[0])", "np.sqrt is not available .* use math.sqrt"),
        ("np.add(x[0], 1)", r"use \+"),
        ("np.abs(x[0])", "use abs"),
        ("np.spacing(x[0])", "write it out"),
    ],
)
def test_ufuncs_that_numba_has_no_code_for_are_refused(call, words):
    with pytest.raises(TypingError, match=words):
        cuda.jit(body_of("x", f"x[0] = {call}", np=np))[1, 1](np.ones(1))


def test_the_ufuncs_of_kernels_are_those_of_numba_cuda():
    ufuncs = pytest.importorskip("numba.cuda.ufuncs")
    from warpsim.front.calls import UFUNCS

    for function in {value for value in vars(np).values() if isinstance(value, np.ufunc)}:
        try:
            known = bool(ufuncs.get_ufunc_info(function))
        except KeyError:
            known = False
        assert known is (function.__name__ in UFUNCS), function


@pytest.mark.parametrize(
    "dtype",
    ["f4", "u1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("f8", "i4", "c8"))],
)
def test_sums_and_means_of_arrays_are_numbas(dtype):
    def body(x, out):
        out[0] = x.sum()
        out[1] = np.sum(x[1])
        out[2] = x.mean()
        out[3] = np.mean(x[:, 0])

    x = (RNG.random((5, 3)) * 200).astype(dtype)
    found, wanted = np.zeros(4, complex), np.zeros(4, complex)
    report = trace(cuda.jit(body), 1, 1, x, found)
    njit(body)(x, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert report.total("global", "load").bytes == (15 + 3 + 15 + 5) * x.itemsize


def test_a_ufunc_that_would_make_an_array_is_refused():
    makes = cuda.jit(body_of("x, out", "out[0] = np.sin(x)[0]", np=np))
    misfit = cuda.jit(body_of("x, out", "np.sin(x, out)", np=np))
    with pytest.raises(TypingError, match="give it an array for the result"):
        makes[1, 1](np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="could not be broadcast"):
        misfit[1, 1](np.ones(3), np.ones(4))


# ---------------------------------------------------------------------- float16
@pytest.mark.parametrize("name", sorted(fp16.FUNCTIONS))
def test_intrinsics_of_float16_round_once(name):
    count = fp16.DECLARED[f"fp16.{name}"][0]
    listed = ", ".join(f"x{n}[i]" for n in range(count))
    body = f"i = cuda.grid(1)\nout[i] = cuda.fp16.{name}({listed})"
    kernel = cuda.jit(body_of("x0, x1, x2, out", body))
    values = [RNG.uniform(0.25, 4, 64).astype(np.float16) for _ in range(3)]
    special = {
        "hfma": lambda a, b, c: a * b + c, "hneg": np.negative, "hrcp": np.reciprocal,
        "hmax": np.fmax, "hmin": np.fmin, "hadd": np.add, "hsub": np.subtract, "hmul": np.multiply,
        "hdiv": np.divide, "hexp10": lambda x: 10.0**x, "hrsqrt": lambda x: 1 / np.sqrt(x),
        "heq": np.equal, "hne": np.not_equal, "hlt": np.less, "hle": np.less_equal,
        "hgt": np.greater, "hge": np.greater_equal,
    }  # fmt: skip
    function = special.get(name) or getattr(np, name[1:])
    wanted = function(*(value.astype(float) for value in values[:count])).astype(np.float16)
    out = np.zeros(64, np.float16)
    kernel[1, 64](*values, out)
    np.testing.assert_array_equal(out, wanted)


def test_numbers_become_float16_and_complex_ones_are_refused():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = cuda.fp16.hadd(x[i], 1) if cuda.fp16.hlt(x[i], 2.5) else cuda.fp16.hneg(x[i])

    out = np.zeros(4, np.float16)
    kernel[1, 4](np.arange(4.0), out)
    assert out.tolist() == [1, 2, 3, -3]
    report = trace(kernel, 1, 4, np.arange(4.0), out)
    assert report.operations["float16"] == 3
    with pytest.raises(TypingError, match="hlt"):
        kernel[1, 4](np.zeros(4, complex), out)


# ---------------------------------------------------------------------- lambdas, captured arrays
def test_lambdas_are_functions():
    total = cuda.reduce(lambda a, b: a + b)
    largest, product = cuda.Reduce(lambda a, b: max(a, b)), cuda.reduce(lambda a, b: a * b)
    x = RNG.integers(1, 50, 200).astype(float)
    assert total(x) == x.sum() and largest(x) == x.max()
    assert product(x[:9], init=1.0) == x[:9].prod()
    twice = cuda.jit(lambda x: scaled(x, 2), device=True)

    @cuda.jit
    def kernel(x, out):
        out[cuda.grid(1)] = twice(x[cuda.grid(1)])

    out = np.zeros(200)
    kernel[1, 200](x, out)
    np.testing.assert_array_equal(out, 2 * x)


def test_a_lambda_without_source_says_what_to_do():
    made = eval("lambda a, b: a + b")
    with pytest.raises(Unsupported, match="write the kernel in a file or a notebook cell"):
        cuda.reduce(made)(np.ones(4))


TABLE = cuda.to_device(np.arange(6, dtype=np.float32))


def test_device_arrays_from_outside_are_seen_as_they_are_at_the_launch():
    @cuda.jit(device=True)
    def look(i):
        return TABLE[i]

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = look(i) + TABLE.shape[0]
        TABLE[i] = -1

    TABLE.copy_to_device(np.arange(6, dtype=np.float32))
    out = np.zeros(6, np.float32)
    kernel[1, 6](out)
    np.testing.assert_array_equal(out, np.arange(6) + 6)
    np.testing.assert_array_equal(TABLE.copy_to_host(), np.full(6, -1))
    TABLE.copy_to_device(np.full(6, 7, np.float32))
    report = trace(kernel, 1, 6, out)
    np.testing.assert_array_equal(out, np.full(6, 13))
    assert report.total("global", "load").bytes == 6 * 4
    assert not [finding for finding in report.findings if finding.is_error]


def test_a_race_in_a_device_array_from_outside_is_found():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = TABLE[(i + 1) % 6]
        TABLE[i] = i

    report = trace(kernel, 1, 6, np.zeros(6, np.float32))
    assert "race" in {finding.kind for finding in report.findings}


def test_types_of_such_calls_are_numbas():
    @cuda.jit(device=True)
    def mixed(x, n):
        return operator.add(x, n)

    signature = (types.float32, types.int64)
    assert program_of(mixed).typing(signature).result == types.float64
    assert program_of(mixed).typing((float32, float32)).result == float32


# ---------------------------------------------------------------------- numbers
@pytest.mark.parametrize("name", "sin cos log arctan arccosh degrees tanh".split())
@pytest.mark.parametrize("dtype", ["u1", "?", "i2"])
def test_ufuncs_of_small_integers_are_computed_in_numbas_type(name, dtype):
    function = getattr(np, name)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = function(x[i])

    x = np.array([0, 1, 3, 7, 15], dtype)
    out = np.zeros(5)
    kernel[1, 5](x, out)
    compiled = njit(lambda value: function(value))
    np.testing.assert_allclose(out, [compiled(value) for value in x], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "f8"])
def test_divmod_powers_and_extremes_of_tuples(dtype):
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        whole, rest = divmod(x[i], y[i])
        out[i, 0], out[i, 1] = whole, rest
        out[i, 2] = x[i] ** y[i]
        out[i, 3] = min((x[i], 2.5, y[i])) + max(out.shape)

    x, y = np.array([7, 2, 9, 5, 1], dtype), np.array([2, 3, 1, 4, 9], dtype)
    out = np.zeros((5, 4))
    kernel[1, 5](x, y, out)
    power = njit(lambda a, b: a**b)
    np.testing.assert_array_equal(out[:, 0], x // y)
    np.testing.assert_array_equal(out[:, 1], x % y)
    wanted = [power(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(out[:, 2], wanted, rtol=1e-6)
    np.testing.assert_array_equal(out[:, 3], np.minimum(np.minimum(x, y), 2.5) + 5)


def test_negative_powers_of_integers_give_no_internal_error():
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        out[i] = x[i] ** y[i]

    out = np.zeros(4)
    x, y = np.array([2, 1, -1, -1]), np.array([-1, -2, -3, -2])
    kernel[1, 4](x, y, out)
    assert out.tolist() == [0, 1, -1, 1]
    power = njit(lambda a, b: a**b)
    assert [power(a, b) for a, b in zip(x, y, strict=True)] == [0, 1, -1, 1]


def test_print_shows_indices_and_nested_tuples_and_refuses_what_numba_refuses(capsys):
    @cuda.jit
    def kernel(x, t):
        if x[0] > 0:
            print(cuda.threadIdx, cuda.blockDim)
        print("t", t)

    kernel[1, (1, 2)](np.ones(1), (1, ((2, 4), 3.0), (4,)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["(0, 0, 0) (1, 2, 1)", "(0, 1, 0) (1, 2, 1)"]
    assert lines[2] == "t (1, ((2, 4), 3.000000), (4,))"

    @cuda.jit
    def of_complex(z):
        print(z[0])

    with pytest.raises(TypingError, match="print of complex128"):
        of_complex[1, 1](np.ones(1, complex))


def test_lane_programs_may_call_each_function_of_cuda_that_no_operator_does():
    others = NAMESPACE.keys() | {"cbrt"}  # NumPy's
    functions = {name for name in FUNCTIONS if "." not in name} - others
    assert "shfl_sync" in functions
    assert functions <= OPERATIONS.keys()


def test_the_threads_do_what_lane_programs_may_call():
    launch = run_kernel(cuda.jit(lambda x: None), 1, 32, (np.zeros(1),))
    threads = Threads(launch, geometry((1, 1, 1), (32, 1, 1), 0, 1))
    parts = {
        name: threads if part == "T" else getattr(threads, part)
        for name, part in OPERATIONS.items()
    }
    assert not {name for name, part in parts.items() if not hasattr(part, name)}
