"""The network of lesson 14's last exercise is the autoencoder that the lesson is about."""

import numpy as np
import pytest

from course import beside, check
from course_lessons.edits import edits, solution
from course_lessons.lesson14.own_network import SLIPS, STORES, arguments_of, layers_of, rebuilt
from course_models import spectral

#: The slips of the exercise as a student makes them: edits of the lesson's solution.
EDITS = edits(r"""
    the frames are not normalised
        p * scale, q * scale -> a, b
    the mean of a frame is not subtracted
        a - mean, b - mean -> a, b
    the encoder's bias is missing
        encode_bias[lane], encode_bias[lane + 32] -> float32(0), float32(0)
    the encoder's weights are turned: they are (inputs, outputs), encode[k, lane]
        encode[k, lane]\n -> encode[lane, k]\n
        encode[k, lane + 32] -> encode[lane + 32, k]
    the encoder's GELU is missing
        gelu(p), gelu(q) -> p, q
    the encoder's GELU comes before its Linear: first the sum, then GELU
        p * scale, q * scale -> gelu(p * scale), gelu(q * scale)
        = gelu(p), gelu(q) -> = p, q
    the code has the share of one frame only: it is the sum of five
        for frame in range(5):\n            number -> for frame in range(1):\n            number
    the code is not normalised
        number -= over_warp(number) / float32(32) -> pass
        number /= math.sqrt(over_warp(number * number) / float32(32) + float32(1e-5)) -> pass
    the code's LayerNorm does not subtract the mean
        number -= over_warp(number) / float32(32) -> pass
    the code's LayerNorm divides by 64: a code has 32 numbers
        over_warp(number) / float32(32) -> over_warp(number) / float32(64)
        over_warp(number * number) / float32(32) -> over_warp(number * number) / float32(64)
    the code's LayerNorm comes after its Linear: first LayerNorm, then Linear, then GELU
        number -= over_warp(number) / float32(32) -> pass
        number /= math.sqrt(over_warp(number * number) / float32(32) + float32(1e-5)) -> pass
        codes[lane] = gelu(total)
        -> total -= over_warp(total) / float32(32)\n        codes[lane] = gelu(total)
        gelu(total)
        -> gelu(total / math.sqrt(over_warp(total * total) / float32(32) + float32(1e-5)))
    the code's Linear is missing
        = gelu(total) -> = gelu(codes[lane])
    the code's bias is missing
        total = middle_bias[lane] -> total = float32(0)
    the code's GELU is missing
        gelu(total) -> total
    the code's GELU comes before its Linear
        codes[lane] = number -> codes[lane] = gelu(number)
        gelu(total) -> total
    every frame is rebuilt with the basis of the first: its columns begin at 64 * warp
        from_code[k, column] -> from_code[k, lane]
        from_code[k, column + 32] -> from_code[k, lane + 32]
    the decoder is missing: after the basis comes a Linear
        y[row, column], y[row, column + 32] = p, q
        -> p, q = y[row, column], y[row, column + 32] = frames[column], frames[column + 32]
    the decoder's bias is missing
        decode_bias[lane], decode_bias[lane + 32] -> float32(0), float32(0)
    there is a GELU after the decoder, where the network has none
        = p, q\n    square -> = gelu(p), gelu(q)\n    square
    the differences are not squared
        (p - a) * (p - a) + (q - b) * (q - b) -> (p - a) + (q - b)
    the absolute differences are summed, not the squares
        (p - a) * (p - a) + (q - b) * (q - b) -> abs(p - a) + abs(q - b)
    of a lane's two columns only the first counts for the error
        + (q - b) * (q - b) ->
    the error is the sum of the squares: divide by 320
        total / float32(320) -> total
    the error is divided by 64: a spectrum has 320 numbers
        float32(320) -> float32(64)
    the error has the root of the mean; it is the mean itself
        total / float32(320) -> math.sqrt(total / float32(320))
    the error is that of one frame alone
        range(5):\n            total += squares -> range(1):\n            total += squares
    the error compares with the normalised frame: it is the spectrum itself that is rebuilt
        (p - a) * (p - a) + (q - b) * (q - b)
        -> (p - (a - mean) * scale)**2 + (q - (b - mean) * scale)**2
""")
QUICK = ("the code's GELU is missing", "the differences are not squared")


@pytest.mark.parametrize("weights", [spectral.Weights.trained(), spectral.Weights.random(3)])
def test_the_exercise_s_network_is_the_reference(weights):
    x = spectral.spectra(5, seed=4)
    wide = {name: array.astype(np.float64) for name, array in layers_of(weights).items()}
    found = rebuilt(x.astype(np.float64), **wide)
    y, errors = spectral.reference(x, weights)
    np.testing.assert_allclose(found["y"], y, atol=2e-6)  # weights are rounded once more
    np.testing.assert_allclose(found["errors"], errors, rtol=1e-5)


def test_what_the_kernel_takes_and_how_much_a_block_stores():
    arguments = arguments_of(spectral.spectra(2, seed=1), spectral.Weights.trained())
    assert all(array.dtype == np.float32 for array in arguments.values())
    assert all(array.flags.c_contiguous for array in arguments.values())
    results = (arguments[name] for name in ("code", "y", "errors"))
    assert sum(array.size for array in results) == 2 * STORES


def test_each_slip_is_an_edit():
    assert list(EDITS) == list(SLIPS)


@pytest.mark.parametrize(
    "sentence",
    [pytest.param(said, marks=() if said in QUICK else pytest.mark.slow) for said in EDITS],
)
def test_a_slip_in_the_solution_is_refused_and_named(sentence):
    verdict = check("one-kernel", EDITS[sentence].answer("one-kernel"))
    assert (verdict.status, verdict.kind) == ("failed", "wrong-result"), verdict
    assert sentence in " ".join(str(verdict).split()), verdict


def test_what_the_lesson_says_of_yours_beside_the_package_s():
    for batch, spectra_of_a_block in ((32, 1), (4096, 32)):
        shape = spectral.config_for(batch, 132, 227 * 1024, (9, 0))
        assert shape.tile * shape.groups == spectra_of_a_block
    found = solution("one-kernel")
    counts = beside("one-kernel", found.define(found.source, "beside")).counts
    touched, sectors, wavefronts = (
        counts[what]
        for what in (
            "bytes touched, each once", "sectors of global loads", "wavefronts of shared memory"
        )
    )  # fmt: skip
    basis_and_code = 32 * 320 * 4 + 32 * 32 * 4
    padding = 32 * 4 * 4  # of the package's basis
    assert touched["yours"] - basis_and_code == touched["package"] - padding
    assert sectors["yours"] > 3 * sectors["package"]
    assert wavefronts["package"] > 1.5 * wavefronts["yours"]
