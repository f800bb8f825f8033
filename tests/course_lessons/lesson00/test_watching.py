"""What a launch does is counted, kept beside the launches before it, and what is none is told."""

import math

import numpy as np
import pytest

from course import backend, images
from course.backend import cuda
from course_lessons.lesson00 import watch, watching
from tests.pictures import picture_texts

PHOTO = np.linspace(0, 1, 169 * 255, dtype=np.float32).reshape(169, 255)


@cuda.jit
def glow(photo, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = math.sqrt(photo[i])


@cuda.jit
def without_end(photo, out):
    out[cuda.grid(1)] = photo[cuda.grid(1)]


@pytest.fixture(autouse=True)
def nothing_tried():
    watching._of.clear()
    watching._tried.clear()


@pytest.mark.parametrize(
    ("launch", "requests", "sectors", "steps"),
    [
        ((1, 1), 2 * 84 * 128, 2 * 84 * 128, 84 * 128),
        ((1, 32), 84 * 128 // 16, 84 * 128 // 4, 84 * 4),
        ((1, 256), 84 * 128 // 16, 84 * 128 // 4, 42),
        ((256, 256), 84 * 128 // 16, 84 * 128 // 4, 1),
    ],
)
def test_requests_sectors_and_steps_are_counted(launch, requests, sectors, steps):
    watched = watch(glow, launch, PHOTO)
    found = watched.launches[launch]
    assert (found.requests, found.sectors, found.steps) == (requests, sectors, steps)
    assert watched.image == pytest.approx(np.sqrt(watching._small(PHOTO)))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(8))
def test_a_warp_makes_32_times_fewer_requests_for_any_photograph(seed):
    rng = np.random.default_rng(seed)
    photo = rng.random((2 * rng.integers(40, 128) + 1, 2 * rng.integers(40, 128) + 1), np.float32)
    few, many = watch(glow, (1, 1), photo).requests, watch(glow, (1, 32), photo).requests
    assert few == 32 * many


def test_launches_stand_below_each_other_until_kernel_or_photograph_change():
    for launch in ((1, 1), (1, 32), (1, 1)):
        watched = watch(glow, launch, PHOTO)
    assert list(watched.launches) == [(1, 1), (1, 32)]
    assert {"1, 1", "1, 32", "21,504", "672"} <= set(picture_texts(watched.picture()))
    words = " ".join(repr(watched).split())
    assert "1, 32; requests 672; sectors 2,688; steps 336." in words
    assert words == watched._repr_png_()[1]["alt"] and words.endswith(".")
    assert list(watch(glow, (1, 32), PHOTO[:, ::-1]).launches) == [(1, 32)]


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (32, "LAUNCH is 32: give blocks and threads"),
        ((1,), "give blocks"),
        ((1, 2, 3), "give blocks"),
        ("1, 32", "give blocks"),
        ((1.5, 32), "give blocks"),
        ((True, 32), "give blocks"),
        ((0, 32), "at least one block of one thread"),
        ((1, -1), "at least one block of one thread"),
        ((1, 1025), "a block has at most 1,024 threads"),
        ((10**6, 1024), "1,024,000,000 threads"),
        ([1, 32], "give blocks"),
    ],
)
def test_what_is_no_launch_is_told_in_a_sentence(launch, words):
    watched = watch(glow, launch, PHOTO)
    assert words in " ".join(repr(watched).split()) and watched._repr_png_() is None


def test_a_kernel_that_goes_past_the_edge_is_told():
    assert "out-of-bounds" in repr(watch(without_end, (256, 256), PHOTO))


def test_on_a_gpu_a_large_photograph_is_timed(monkeypatch):
    monkeypatch.setattr(watching, "_time", lambda kernel, launch, photo: 2.9 / launch[1])
    watch(glow, (1, 1), PHOTO)
    watched = watch(glow, (1, 32), PHOTO)
    assert [row[-1] for row in watched.rows] == ["ms", "2.9", "0.0906"]
    assert "ms on 1024 × 1024" in watched.picture().alternative


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
def test_more_threads_are_faster_on_a_gpu():
    photo = images.mine("chelsea")
    watch(glow, (1, 1), photo)
    times = watch(glow, (256, 256), photo).launches
    assert times[1, 1].ms > 30 * times[256, 256].ms
