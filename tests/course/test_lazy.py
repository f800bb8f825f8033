"""Packages of kernels and networks give what lessons take as their own attributes."""

import importlib

import pytest

FACES = {
    "course.kernels.norm": ("LADDER", "Form", "layer_norm", "layer_norm_backward", "prepared"),
    "course.kernels.softmax": ("LADDER", "softmax", "softmax_backward"),
    "course.kernels.reconstruct": (
        "LADDER",
        "reconstruct",
        "reconstruct_naive",
        "reconstruct_tiled",
    ),
    "course.kernels.svd": ("LADDER", "Solver", "rank_k", "svd"),
    "course_lessons.lesson13.digits": ("Network", "Weights", "accuracy", "held_out"),
    "course_models.spectral": ("Autoencoder", "FusedConfig", "Weights", "spectra"),
}


@pytest.mark.parametrize("name", FACES)
def test_a_package_has_all_that_it_names_and_its_functions(name):
    package = importlib.import_module(name)
    assert set(FACES[name]) <= set(package.__all__)
    assert all(hasattr(package, word) for word in package.__all__)
