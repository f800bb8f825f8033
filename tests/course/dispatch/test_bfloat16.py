"""bfloat16 through the front doors: arrays of each library that has it, one rounding of results."""

import math

import numpy as np
import pytest

from course import backend, kernel_cache, trace
from course.backend import cuda
from course.compiler.facts import compiled
from course.dispatch import array_facts as libraries
from course.dispatch import slots as layout
from course.kernels import activation as activations
from course.kernels.activation import activation, activation_gradient
from course.kernels.arrays import BFLOAT16, WORDS
from course.kernels.norm import LADDER, Variant, layer_norm, layer_norm_backward
from course.kernels.norm import registers as norm_registers
from course.kernels.reduce import reduction
from course.kernels.softmax import softmax, softmax_backward
from tests.course.compiled_samples import needs_compiler
from tests.course.test_kernel_cache import compiled as dispatcher_of
from warpsim.core.number_types import bfloat16, rounded, widened

ROUNDING = 2.0**-8  # of 8 bits, half of the last place, at most


def random(*shape, seed=0):
    """Numbers that a bfloat16 holds, as float32."""
    return widened(rounded(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)))


def bits(values):
    """float32 that a bfloat16 holds, as NumPy's array of bfloat16."""
    return np.asarray(rounded(values)).view(BFLOAT16)


def torch_of(values, device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and backend.gpu() is None:
        pytest.skip("needs a GPU")
    return torch.from_numpy(np.array(values)).to(device, torch.bfloat16)


def cupy_of(values):
    cupy = pytest.importorskip("cupy")
    named = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    if backend.gpu() is None:
        pytest.skip("needs a GPU")
    try:
        return cupy.asarray(values).astype(named)
    except (TypeError, ValueError):
        pytest.skip("this CuPy has no bfloat16")


class OnlyDlpack:
    """What speaks DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **given):
        return self.tensor.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


#: How values become an array of a library.
MAKE = {
    "numpy": bits,
    "numba": lambda values: cuda.to_device(bits(values)),
    "ml_dtypes": lambda values: values.astype(pytest.importorskip("ml_dtypes").bfloat16),
    "cupy": cupy_of,
    "torch": lambda values: torch_of(values, "cuda"),
    "torch host": lambda values: torch_of(values, "cpu"),
    "dlpack": lambda values: OnlyDlpack(torch_of(values, "cpu")),
    "dlpack on a GPU": lambda values: OnlyDlpack(torch_of(values, "cuda")),
}


def to_float32(array):
    """What an array of bfloat16 of any library holds."""
    if hasattr(array, "bfloat16"):  # PyTorch
        assert str(array.dtype) == "torch.bfloat16"
        return array.float().cpu().numpy()
    for name in ("copy_to_host", "get"):
        array = getattr(array, name)() if hasattr(array, name) else array
    assert layout.name_of(array.dtype) == "bfloat16"
    return widened(array.view(np.uint16))


def several(result):
    return result if isinstance(result, tuple) else (result,)


# --- what is right, in float64 --------------------------------------------------------------------


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def exact_norm(x, gamma=1.0, beta=0.0):
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def exact_norm_backward(dy, x, gamma):
    hat, dy = exact_norm(x), dy.astype(np.float64)
    scale = 1 / np.sqrt(x.astype(np.float64).var(-1, keepdims=True) + 1e-5)
    g = dy * gamma
    dx = scale * (g - g.mean(-1, keepdims=True) - hat * (g * hat).mean(-1, keepdims=True))
    return dx, (dy * hat).sum(0), dy.sum(0)


def exact_softmax(x):
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def exact_softmax_backward(dy, y):
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    return y * (dy - (dy * y).sum(-1, keepdims=True))


def exact_gelu_gradient(dy, x):
    x = x.astype(np.float64)
    below = (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    return dy * (below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


X, DY, G, B = random(9, 52), random(9, 52, seed=1), random(52, seed=4), random(52, seed=5)
#: Every front door: its arrays, how it is called, and what is right.
DOORS = {
    "layer_norm": ((X, G, B), layer_norm, exact_norm),
    "layer_norm, gelu": (
        (X, G, B),
        lambda *given: layer_norm(*given, activation="gelu"),
        lambda *given: gelu(exact_norm(*given)),
    ),
    "layer_norm_backward": ((DY, X, G), layer_norm_backward, exact_norm_backward),
    "softmax": ((X,), softmax, exact_softmax),
    "softmax_backward": ((DY, X), softmax_backward, exact_softmax_backward),
    "activation": ((X,), activation, lambda x: gelu(x.astype(np.float64))),
    "activation_gradient": ((DY, X), activation_gradient, exact_gelu_gradient),
}


def is_near(found, wanted):
    """Whether each element is right but for its one rounding, and float32's in the sums."""
    wanted = np.asarray(wanted)
    return (np.abs(found - wanted) <= ROUNDING * np.abs(wanted) + 1e-5 * np.abs(wanted).max()).all()


# --- what is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", DOORS)
def test_results_are_of_the_kind_that_is_given_and_right_but_for_a_rounding(kind, name):
    arrays, call, exact = DOORS[name]
    given = [MAKE[kind](array) for array in arrays]
    wanted = several(exact(*arrays))
    for _ in range(2):  # the plan is made, and used
        found = several(call(*given))
        assert len(found) == len(wanted)
        for one, right in zip(found, wanted, strict=True):
            assert is_near(to_float32(one), right)
            if not kind.startswith("dlpack"):  # then of a library that speaks it, too
                assert type(one) is type(given[0]) and one.dtype == given[0].dtype


@pytest.mark.parametrize("kind", ["numpy", "numba", "ml_dtypes", "cupy", "torch", "torch host"])
def test_results_are_written_where_out_says(kind):
    x, out = MAKE[kind](X), MAKE[kind](np.zeros_like(X))
    assert layer_norm(x, out=out) is out and is_near(to_float32(out), exact_norm(X))
    assert softmax(x, out=x) is x and is_near(to_float32(x), exact_softmax(X))
    dy, y = MAKE[kind](DY), MAKE[kind](X)
    assert softmax_backward(dy, y, out=dy) is dy
    assert is_near(to_float32(dy), exact_softmax_backward(DY, X))
    assert activation(y, out=y) is y and is_near(to_float32(y), gelu(X))


@pytest.mark.parametrize("kind", ["numba", "cupy", "torch"])
@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_slices_begin_anywhere(kind, start):
    wide, values = MAKE[kind](random(5, 80)), random(5, 80)[:, start : start + 51]
    part = wide[:, start : start + 51]
    assert is_near(to_float32(softmax(part)), exact_softmax(values))
    assert is_near(to_float32(layer_norm(part)), exact_norm(values))
    flat, row = MAKE[kind](random(80))[start:], random(80)[start:]
    assert is_near(to_float32(activation(flat)), gelu(row))


@pytest.mark.parametrize("method", [name for name in LADDER if name not in ("naive", "squares")])
@pytest.mark.parametrize("columns", [1, 7, 384])
def test_all_steps_of_layer_norm(method, columns):
    if method == "registers and shared memory":
        with pytest.raises(ValueError, match="compute capability|elements are bfloat16, not float"):
            layer_norm(bits(random(3, columns)), method=method)
        return
    if method == "half" and (columns % 8 or cuda.get_current_device().compute_capability < (8, 0)):
        with pytest.raises(ValueError, match="method 'half' of layer_norm"):
            layer_norm(bits(random(3, columns)), method=method)
        return
    x = random(3, columns) + 4  # a mean that costs digits if squares are summed
    x = widened(rounded(x))
    assert is_near(to_float32(layer_norm(bits(x), method=method)), exact_norm(x))


@pytest.mark.parametrize("columns", [1, 7, 1025])
def test_all_steps_of_softmax_and_both_ways_back(columns):
    x, dy = random(2, columns), random(2, columns, seed=2)
    for method in ("three passes", "online", "registers"):
        assert is_near(to_float32(softmax(bits(x), method=method)), exact_softmax(x))
    for method in ("two passes", "registers"):
        found = softmax_backward(bits(dy), bits(x), method=method)
        assert is_near(to_float32(found), exact_softmax_backward(dy, x))
    gamma = random(columns, seed=3)
    for method in ("two kernels", "registers"):
        found = layer_norm_backward(bits(dy), bits(x), bits(gamma), method=method)
        for one, wanted in zip(found, exact_norm_backward(dy, x, gamma), strict=True):
            error = np.abs(to_float32(one) - wanted).max()
            assert error <= ROUNDING * np.abs(wanted).max() + 1e-4  # a row of one number: all zero


def test_sums_are_float32():
    x = bits(np.ones((1, 5000), np.float32))  # a sum in bfloat16 would stay at 256
    assert (to_float32(softmax(x)) == widened(rounded(np.float32(1 / 5000)))).all()
    assert reduction(x) == 5000 and reduction(bits(X), "max") == X.max()


def test_factors_may_be_float32():
    found = layer_norm(bits(X), G, cuda.to_device(B))
    assert is_near(to_float32(found), exact_norm(X, G, B))
    dx, dgamma, dbeta = layer_norm_backward(bits(DY), bits(X), G)
    assert layout.name_of(dx.dtype) == "bfloat16" and dgamma.dtype == dbeta.dtype == np.float32
    assert layer_norm(X, bits(G)).dtype == np.float32


def test_nan_and_infinity():
    x = X.copy()
    x[0, 3], x[1, 4], x[2] = np.nan, np.inf, -np.inf
    for call in (softmax, layer_norm):
        found = to_float32(call(bits(x)))
        assert np.isnan(found[:3]).all() and np.isfinite(found[3:]).all()
    ends = np.float32([np.nan, np.inf, -np.inf, 3.3895314e38, -0.0])
    found = to_float32(activation(bits(ends), "relu"))
    assert np.array_equal(found, np.float32([np.nan, np.inf, 0, 3.3895314e38, 0]), equal_nan=True)
    found = to_float32(activation(bits(ends), "silu"))
    assert np.isnan(found[0]) and found[1] == np.inf and found[2] == 0 and np.signbit(found[2])


# --- what is refused ------------------------------------------------------------------------------


def test_bits_that_are_not_called_bfloat16_are_refused():
    integers = bits(X).view(np.uint16)
    with pytest.raises(TypeError, match=r"x holds uint16; .* x.view\(ml_dtypes.bfloat16\)$"):
        softmax(integers)
    with pytest.raises(TypeError, match=r"bits of bfloat16 are x.view\(BFLOAT16\), of course"):
        activation(cuda.to_device(integers))
    assert libraries.library("torch on host").as_bfloat16("x") == "x.view(torch.bfloat16)"


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: layer_norm(bits(X), G.astype(np.float16)),
            TypeError,
            "^gamma holds float16, x bfloat16: of types of 16 bits take one, gamma.astype",
        ),
        (
            lambda: layer_norm(X.astype(np.float16), None, bits(B)),
            TypeError,
            r"^beta holds bfloat16, x float16: .* beta.astype\('float16'\)$",
        ),
        (
            lambda: softmax_backward(bits(X), X),
            ValueError,
            r"^y is float32 of shape \(9, 52\); it must be bfloat16 of shape \(9, 52\)$",
        ),
        (
            lambda: softmax(bits(X), out=np.zeros_like(X)),
            ValueError,
            r"^out is float32 of shape \(9, 52\); it must be bfloat16 of shape \(9, 52\)$",
        ),
        (
            lambda: activation(X, out=bits(X)),
            ValueError,
            r"^out is bfloat16 of shape \(9, 52\); it must be float32 of shape \(9, 52\)$",
        ),
    ],
)
def test_mixtures_get_one_sentence(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


# --- what is compiled -----------------------------------------------------------------------------


def test_accesses_are_as_wide_as_those_of_float16():
    config = activations.config_for("bfloat16")
    values, totals = random(4 * config.tile), []
    for name, stored in (("bfloat16", bits(values)), ("float16", values.astype(np.float16))):
        kernel = activations.wide(activations.silu, name, config)
        report = trace(kernel, 4, config.threads, stored, np.zeros_like(stored))
        totals.append([report.total("global", op) for op in ("load", "store")])
        assert not report.findings
    for one, half in zip(*totals, strict=True):
        assert (one.requests, one.sectors, one.bytes) == (half.requests, half.sectors, half.bytes)


def test_a_layout_is_an_array_of_the_type_and_kernels_of_it_are_kept():
    there = layout.ArraySlot(0, (3, 4), (8, 2), BFLOAT16)
    assert there.numba_type() == bfloat16[:, ::1] and there.nbytes == 24

    def kernel(x):
        x[0] = bfloat16(x[1])

    with_it = kernel_cache.key_of(dispatcher_of(kernel), there.numba_type(), "sm_90")
    assert with_it != kernel_cache.key_of(dispatcher_of(kernel), "f4", "sm_90")
    assert bfloat16 is WORDS["bfloat16"]


@needs_compiler
def test_registers_hold_words_that_are_loaded_four_at_a_time_and_one_instruction_rounds():
    array, form = bfloat16[:, ::1], Variant("bfloat16", True, 2, gamma=False, beta=False)
    signature = (array, bfloat16[::1], bfloat16[::1], WORDS["float32"], array)
    kernel = norm_registers.rows_in_registers(norm_registers.short_config(256), form)
    for target, rounds in (("sm_75", 0), ("sm_90", 8)):
        facts = compiled(kernel, signature, target)
        assert facts.load_widths["global"] == {"v4.b16": 2} == facts.store_widths["global"]
        assert facts.ptx.count("cvt.rn.bf16.f32") == rounds
        assert not facts.spills and not facts.local_bytes and not facts.float64_lines
