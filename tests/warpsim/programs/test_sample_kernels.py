"""Whole kernels: the simulator against Numba's own simulator, and against a real GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.warpsim import the_course
from tests.warpsim.programs import sample_kernels
from warpsim import cuda as simulated
from warpsim import trace

HERE = Path(__file__).parent


def agree(found: dict, wanted: dict) -> None:
    assert wanted
    for name, values in wanted.items():
        exact = values.dtype.kind in "biu"
        scale = 1 if exact else max(1.0, float(np.abs(values).max()))
        tolerance = 0 if exact else 4e-6 * scale  # float32, sums of up to 64 terms
        np.testing.assert_allclose(found[name], values, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def ours():
    return sample_kernels.outputs(sample_kernels.build(simulated))


@pytest.mark.slow
def test_samples_agree_with_numbas_simulator(ours, tmp_path):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    file = tmp_path / "numba.npz"
    command = [sys.executable, "sample_kernels.py", str(file), "simulator"]
    subprocess.run(command, cwd=HERE, env=environment, check=True, timeout=300)
    agree(ours, dict(np.load(file)))


@pytest.mark.skipif(the_course.gpu() is None, reason="needs a GPU")
def test_samples_agree_with_the_gpu(ours):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(ours, sample_kernels.outputs(sample_kernels.build(the_course.cuda)))


@pytest.mark.parametrize("name", sample_kernels.build(simulated))
def test_correct_kernels_have_no_error_finding(name, ours):
    samples = sample_kernels.build(simulated)
    sample = samples[name]
    arguments = sample.arguments(np.random.default_rng(list(samples).index(name)))
    report = trace(
        sample.kernel, sample.grid, sample.block, *arguments, dynamic_shared=sample.shared
    )
    assert not [finding for finding in report.findings if finding.is_error]
    for position, value in enumerate(arguments):
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, ours[f"{name} {position}"])
