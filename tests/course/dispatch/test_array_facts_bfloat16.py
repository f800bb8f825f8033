"""What is special about arrays of bfloat16: DLPack alone, what is refused, kernels on disk."""

import numpy as np
import pytest

from course import backend, kernel_cache
from course.backend import cuda
from course.compiler.facts import compiled
from course.dispatch import array_facts as libraries
from course.dispatch import slots
from course.heuristics.norm import short_config
from course.kernels.activation import activation
from course.kernels.arrays import BFLOAT16, NUMBA_TYPES
from course.kernels.gemm.half import gemm
from course.kernels.norm import Variant, layer_norm
from course.kernels.norm import registers as norm_registers
from course.kernels.softmax import softmax, softmax_backward
from tests.course.compiled_samples import needs_compiler
from tests.course.dispatch.arrays import exact_softmax
from tests.course.kernels.contract import in_float64
from tests.course.test_kernel_cache import compiled as dispatcher_of
from warpsim.core.number_types import bfloat16, rounded, widened

ROUNDING = 2.0**-8  # of 8 bits, half of the last place, at most


def random(*shape, seed=0):
    """Numbers that a bfloat16 holds, as float32."""
    return widened(rounded(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)))


def bits(values):
    """float32 that a bfloat16 holds, as NumPy's array of bfloat16."""
    return np.asarray(rounded(values)).view(BFLOAT16)


class OnlyDlpack:
    """What speaks DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **given):
        return self.tensor.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


# --- what is right, in float64 --------------------------------------------------------------------


X, G = random(9, 52), random(52, seed=4)


def is_near(found, wanted):
    """Whether each element is right but for its one rounding, and float32's in the sums."""
    wanted = np.asarray(wanted)
    return (np.abs(found - wanted) <= ROUNDING * np.abs(wanted) + 1e-5 * np.abs(wanted).max()).all()


# --- what is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_speaks_dlpack_alone_is_taken(device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and backend.gpu() is None:
        pytest.skip("needs a GPU")
    given = OnlyDlpack(torch.from_numpy(np.array(X)).to(device, torch.bfloat16))
    for _ in range(2):  # the plan is made, and used
        assert is_near(in_float64(softmax(given)), exact_softmax(X))


# --- what is refused ------------------------------------------------------------------------------


def test_bits_that_are_not_called_bfloat16_are_refused():
    integers = bits(X).view(np.uint16)
    with pytest.raises(TypeError, match=r"x holds uint16; .* x.view\(ml_dtypes.bfloat16\)$"):
        softmax(integers)
    with pytest.raises(TypeError, match=r"bits of bfloat16 are x.view\(BFLOAT16\), of course"):
        activation(cuda.to_device(integers))
    tensors = libraries.library("torch on host")
    assert tensors.as_bfloat16("x") == "x.view(torch.bfloat16)"
    assert tensors.convert("x", "float16", BFLOAT16) == "x.to(torch.float16)"


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: layer_norm(bits(X), G.astype(np.float16)),
            TypeError,
            "^gamma holds float16, x bfloat16: of types of 16 bits take one, "
            r"gamma.astype\(ml_dtypes.bfloat16\)$",
        ),
        (
            lambda: layer_norm(X.astype(np.float16), None, bits(G)),
            TypeError,
            r"^beta holds bfloat16, x float16: .* beta.view\(ml_dtypes.bfloat16\).astype\('float16",
        ),
        (
            lambda: gemm(X.astype(np.float16), X.astype(np.float16), "nt", bits(X[0, :9])),
            TypeError,
            "^bias holds bfloat16; it must hold float16: convert it, "
            r"bias.view\(ml_dtypes.bfloat16\).astype\('float16'\)$",
        ),
        (
            lambda: softmax_backward(bits(X), X),
            ValueError,
            r"^y is float32 of shape \(9, 52\); it must be bfloat16 of shape \(9, 52\)$",
        ),
    ],
)
def test_mixtures_get_one_sentence(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


# --- what is compiled -----------------------------------------------------------------------------


def test_a_slot_is_an_array_of_the_type_and_kernels_of_it_are_kept():
    there = slots.ArraySlot(0, (3, 4), (8, 2), BFLOAT16)
    assert there.numba_type() == bfloat16[:, ::1] and there.nbytes == 24

    def kernel(x):
        x[0] = bfloat16(x[1])

    with_it = kernel_cache.key_of(dispatcher_of(kernel), there.numba_type(), "sm_90")
    assert with_it != kernel_cache.key_of(dispatcher_of(kernel), "f4", "sm_90")
    assert bfloat16 is NUMBA_TYPES["bfloat16"]


@needs_compiler
def test_registers_hold_words_that_are_loaded_four_at_a_time_and_one_instruction_rounds():
    array, form = bfloat16[:, ::1], Variant("bfloat16", True, 2, gamma=False, beta=False)
    signature = (array, bfloat16[::1], bfloat16[::1], NUMBA_TYPES["float32"], array)
    kernel = norm_registers.rows_in_registers(short_config(256), form)
    for target, rounds in (("sm_75", 0), ("sm_90", 8)):
        facts = compiled(kernel, signature, target)
        assert facts.load_widths["global"] == {"v4.b16": 2} == facts.store_widths["global"]
        assert facts.ptx.count("cvt.rn.bf16.f32") == rounds
        assert not facts.spills and not facts.local_bytes and not facts.float64_lines
