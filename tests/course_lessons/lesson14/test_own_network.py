"""The network of lesson 14's last exercise is the autoencoder that the lesson is about."""

import numpy as np
import pytest

from course import beside
from course_lessons.edits import solution
from course_lessons.lesson14.own_network import STORES, arguments_of, layers_of, rebuilt
from course_models import spectral


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


@pytest.mark.slow
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
