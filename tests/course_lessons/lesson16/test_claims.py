"""What lesson 16 says in words about recorded figures is true of the files that it shows."""

import numpy as np
import pytest

from course import cuda, known_gpu, recorded_roofs
from course.kernels.gemm import float32 as matmul
from course.measure.recorded import recorded as find
from course_lessons.lesson16 import pictures
from course_lessons.lesson16.layered import METHODS, LayeredTrainer
from course_models.vae import data
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training
from tests.pictures import assert_drawn

STEPS = 468


def epoch(name, dtype="float32"):
    """A recorded epoch; exactly one figure fits, or the lesson's look-up is ambiguous."""
    (found,) = find("vae", kernel="epoch", variant=name, dtype=dtype, metric="time", gpu="H200")
    return found


def epochs():
    rows = find("vae", kernel="epoch", gpu="H200")
    return {its.variant: its.median for its in rows if its.dtype == "float32"}


def peers():
    return {name: time for name, time in epochs().items() if name.startswith("torch")}


def worst(name, dtype="float32"):
    (found,) = find("vae", variant=name, dtype=dtype, metric="worst gradient", gpu="H200")
    return found.median


# --- section 12 -----------------------------------------------------------------------------------


def test_the_full_size_is_what_the_text_says():
    assert VAEShape().count == 869_184
    assert epoch("fused, 3xTF32").shape == f"{STEPS}x128" and 60_000 // 128 == STEPS
    assert known_gpu("H200").multiprocessors == 132


@pytest.mark.parametrize(("method", "launches"), [("naive", 49), ("optimised", 42)])
def test_a_layered_step_has_so_many_launches(method, launches):
    assert method in METHODS
    trainer = LayeredTrainer(Training.begun(VAEShape()), data.enlarged(128), method)
    assert len(trainer.launches) == launches


def test_fused_is_the_fastest_and_compiled_in_a_graph_is_pytorchs_best():
    times = epochs()
    assert min(times, key=times.get) == "fused, 3xTF32"
    assert min(peers(), key=peers().get) == "torch compiled, graph"
    assert min(peers().values()) > 1.6 * 1.6 * times["fused, 3xTF32"]  # no guess of 1 is near


def test_each_of_the_courses_ways_is_faster_than_the_one_before():
    times = epochs()
    assert times["naive"] > 2 * times["optimised"] > 4 * times["fused, float32"]
    assert times["fused, float32"] > times["fused, 3xTF32"]


def test_a_search_chose_worse_and_half_a_minute_of_compiling_is_worth_it_after_some_epochs():
    (searched,) = find("vae_autotune", dtype="float32")
    assert searched.median > 1.2 * min(peers().values())
    found = find("vae", kernel="epoch", metric="first", gpu="H200")
    first = {its.variant: its.median / 1e3 for its in found}
    assert 25 < first["fused, 3xTF32, compiled anew"] < 40  # "Half a minute"
    assert first["fused, 3xTF32, kept"] < 1
    eager = first["torch eager"] + 10 * epochs()["torch eager"] / 1e3
    assert eager < first["fused, 3xTF32, compiled anew"]  # "a few epochs, and once"


def test_three_products_in_tf32_are_as_exact_as_float32_and_one_is_not():
    assert worst("fused, 3xTF32") < 3 * worst("torch")
    assert worst("fused, float32") < 3 * worst("torch")
    assert worst("fused, TF32", "tfloat32") > 1000 * worst("torch")


def test_neither_operations_nor_bytes_bind_an_epoch():
    measured, roofs = epoch("fused, 3xTF32"), recorded_roofs("H200")
    by_operations = 3 * measured.operations / roofs.rates["tensor_float32"] * 1e-9
    by_bytes = STEPS * 6 * 4 * VAEShape().count / roofs.l2_bandwidth * 1e-6
    assert measured.median > 3 * max(by_operations, by_bytes)
    assert 3 * 4 * VAEShape().count < known_gpu("H200").l2_bytes  # they fit into L2


def test_all_ways_of_an_epoch_are_drawn():
    picture = pictures.epochs(epochs())
    assert_drawn(picture, "fused, 3xTF32", "PyTorch compiled, graph")


# --- section 5 ------------------------------------------------------------------------------------


def test_padding_brings_nothing_where_no_bank_was_in_conflict():
    both = [
        find("vae_micro", kernel="matmul nn", variant=name, shape="4096x4096x4096", metric="time")
        for name in ("tiled", "padded")
    ]
    tiled, padded = (rows[0].teraflops for rows in both)
    assert 0.9 < padded / tiled < 1.05


# --- section 13 -----------------------------------------------------------------------------------


def test_adam_is_above_the_roof_of_an_a100_and_not_above_its_own():
    figures = find("vae_micro", metric=None, gpu="H200")
    adam = pictures.some_points(figures)["adam"].gigabytes_per_second
    right, wrong = pictures.roofs_in(figures), known_gpu("A100")
    assert 0.85 < adam / right.bandwidth < 1.03
    assert adam > 1.3 * wrong.bandwidth  # a guess of 90% is refused
    assert wrong.ridge() < right.ridge()


def timed(kernel, variant, shape):
    """GB/s, and milliseconds, of one kernel; in a graph where it was so short."""
    for metric in ("time", "time in a graph"):
        found = find("vae_micro", kernel=kernel, variant=variant, shape=shape, metric=metric)
        if found:
            return found[0].bytes / found[0].median * 1e-6, found[0].median
    raise LookupError(f"{kernel}, {variant}, {shape}")


def test_most_kernels_reach_the_memorys_roof_and_the_two_that_the_text_names_do_not():
    figures = find("vae_micro", metric=None, gpu="H200")
    bandwidth = pictures.roofs_in(figures).bandwidth
    reach = {
        name: its.gigabytes_per_second / bandwidth
        for name, its in pictures.fastest(figures).items()
    }
    far = {name for name, share in reach.items() if share < 0.85}
    assert far == {"sample", "bias gradient"}


def test_a_biass_gradient_has_32_blocks_for_1024_columns_and_was_made_for_small_batches():
    grad = cuda.device_array((2, 1024), np.float32)
    (launch,) = matmul.sum_launches(grad, cuda.device_array(1024, np.float32))
    grid = getattr(launch, "griddim", None) or launch.grid
    assert np.prod(grid) == 32
    _, ours = timed("bias gradient", "warps", "128x784")
    _, peers = timed("bias gradient", "torch", "128x784")
    assert ours < peers


def test_products_stand_right_of_the_ridge():
    figures = find("vae_micro", metric=None, gpu="H200")
    ridge = pictures.roofs_in(figures).ridge("tensor_float32")
    for its in figures:
        if (its.kernel, its.shape, its.metric) == ("matmul nn", pictures.LARGEST, "time"):
            assert its.operations / its.bytes > 4 * ridge


def test_points_of_other_kernels_lie_between_and_below():
    figures = find("vae_micro", metric=None, gpu="H200")
    points = pictures.some_points(figures)
    assert list(points) == ["leaky relu", "adam", "bce", "vectorised product"]
    right = pictures.roofs_in(figures)
    for its in points.values():
        reach = its.operations / its.bytes * right.highest_bandwidth * 1e-3
        assert its.teraflops < 1.03 * min(right.rates["float32"], reach)
    picture = pictures.two_roofs(points, right, known_gpu("A100"))
    assert_drawn(picture, "vectorised product")
