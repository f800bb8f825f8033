"""Lesson 16's toys find the races that rules of sets find, its judge and pictures say it."""

import numpy as np
import pytest

from course import cuda, trace
from course.measure.recorded import Figure
from course.measure.roofline import known_gpu
from course_lessons.lesson16 import pictures
from course_lessons.lesson16.counting import bytes_of_fused, bytes_of_layered
from course_lessons.lesson16.judges import judge_launches
from course_lessons.lesson16.toy_generator import next_bits, next_normal, states_of
from course_lessons.lesson16.toy_launches import STEP, Work, clash, fewest, findings, races
from course_models.vae import data, reference
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training, trained
from tests.pictures import assert_drawn, picture_texts
from tools.train import vae as train_vae
from warpsim import cuda as simulated
from warpsim.run import random

# --- what the lesson says of the shipped network --------------------------------------------------


def test_half_way_between_codes_is_nearer_to_a_digit_than_half_way_between_pixels():
    _, weights = trained()
    x = data.digits(held_out=True).images / 255
    real = data.digits(held_out=False).images / 255
    code, _, _ = reference.encode(weights, x)
    logits, _ = reference.decode(weights, (code[:100] + code[100:200]) / 2)
    pixels, codes = (
        np.linalg.norm(images[:, None] - real[None], axis=2).min(axis=1)
        for images in ((x[:100] + x[100:200]) / 2, reference.sigmoid(logits))
    )
    assert codes.mean() < 0.9 * pixels.mean()
    assert (codes < pixels).mean() > 0.75


def test_a_6_turns_into_a_3_by_way_of_an_8():
    _, weights = trained()
    unseen, known = data.digits(held_out=True), data.digits(held_out=False)
    x = unseen.images / 255
    code, _, _ = reference.encode(weights, x)
    first, last = (int(np.flatnonzero(unseen.labels == digit)[2]) for digit in (6, 3))
    logits, _ = reference.decode(weights, np.linspace(code[first], code[last], 9))
    far = np.linalg.norm(reference.sigmoid(logits)[:, None] - known.images[None] / 255, axis=2)
    shown = known.labels[far.argmin(axis=1)]
    assert (shown[0], shown[4], shown[-1]) == (6, 8, 3)


def test_it_was_trained_for_as_many_epochs_as_the_text_says():
    assert len(train_vae.RATES) * train_vae.EPOCHS == 900
    assert trained()[0] == train_vae.SHAPE == VAEShape(64, 128, 8)


# --- launches -------------------------------------------------------------------------------------


def some_works(rng, count=4, arrays="abcd"):
    """Operations that read and write a few arrays at random."""
    return [
        Work(
            f"work {n}",
            tuple(its for its in arrays if rng.random() < 0.4),
            tuple(its for its in arrays if rng.random() < 0.3),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_simulators_races_are_those_that_the_rule_of_sets_gives(seed):
    works = some_works(np.random.default_rng(seed))
    raced = any(clash(one, other) for n, one in enumerate(works) for other in works[:n])
    assert any("race" in finding.kind for finding in findings(works)) == raced
    assert bool(races(works)) == raced


@pytest.mark.parametrize("seed", range(6))
def test_no_launch_of_the_fewest_has_a_race_and_one_launch_less_would(seed):
    works = some_works(np.random.default_rng(seed), count=6)
    numbers = fewest(works)
    for number in set(numbers):
        assert races([w for w, n in zip(works, numbers, strict=True) if n == number]) == []
    for n, work in enumerate(works):
        before = [numbers[m] for m in range(n) if clash(works[m], work)]
        assert numbers[n] == max(before, default=0) + 1


def test_a_vaes_step_is_nine_launches_and_weights_change_beside_the_way_back():
    numbers = dict(zip((work.name for work in STEP), fewest(STEP), strict=True))
    assert len(STEP) == 12 and max(numbers.values()) == 9
    assert numbers["update W4"] == numbers["d_code"] == numbers["d_g"] + 1
    assert numbers["update W3"] == numbers["d_h"]


@pytest.mark.parametrize("weight", ["W4", "W3", "W2"])
def test_the_judge_names_who_would_get_the_new_weight(weight):
    """Each weight's update, put where its last reader is, and before it."""
    works, numbers = list(STEP), fewest(STEP)
    place = [work.name for work in works].index(f"update {weight}")
    last = max(n for n, w in zip(numbers, works, strict=True)
               if weight in w.reads and weight not in w.writes)  # fmt: skip
    for early, words in ((last, "A race"), (last - 1, "before its last reader|written|writes")):
        moved = [*numbers]
        moved[place] = early
        answer = [
            [w.name for w, n in zip(works, moved, strict=True) if n == number]
            for number in range(1, 10)
        ]
        said = judge_launches(answer, works)
        assert any(word in said for word in words.split("|")), said


# --- bytes ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_launches_touch_less_than_half_of_the_bytes_of_many():
    begun = Training.begun(VAEShape(64, 128, 8), batch=32, seed=1)
    images = data.digits(held_out=False).images
    many, two = bytes_of_layered(begun, images), bytes_of_fused(begun, images)
    assert (len(many), len(two)) == (42, 2)
    assert 2.1 < sum(many) / sum(two) < 2.4
    assert sum(two) > 4 * 4 * begun.shape.count  # weights and moments, and the new weights


# --- a generator with a state ---------------------------------------------------------------------


def test_the_generator_with_a_state_draws_the_bits_of_numbas():
    @cuda.jit
    def ours(states, out):
        for n in range(out.shape[1]):
            out[cuda.grid(1), n] = next_bits(states, cuda.grid(1))

    states, found = states_of(8), np.zeros((8, 5), np.uint64)
    theirs = states.view([("s0", np.uint64), ("s1", np.uint64)]).reshape(8).copy()
    trace(ours, 1, 8, states, found)

    @simulated.jit
    def numbas(states, out):
        for n in range(out.shape[1]):
            out[simulated.grid(1), n] = random.xoroshiro128p_next(states, simulated.grid(1))

    right = np.zeros_like(found)
    numbas[1, 8](theirs, right)
    assert np.array_equal(found, right)


def test_its_numbers_are_normal():
    @cuda.jit
    def draw(states, out):
        for n in range(out.shape[1]):
            out[cuda.grid(1), n] = next_normal(states, cuda.grid(1))

    found = np.zeros((256, 40), np.float32)
    report = trace(draw, 2, 128, states_of(256), found)
    assert report.operations["float64"] == 0
    assert abs(found.mean()) < 0.04 and abs(found.std() - 1) < 0.04


# --- pictures -------------------------------------------------------------------------------------


def test_a_network_is_drawn_with_the_numbers_of_its_layers():
    picture = pictures.network(VAEShape(64, 128, 8))
    assert_drawn(picture)
    assert {"64", "128", "16", "8"} <= set(picture_texts(picture))


def test_launches_are_drawn_in_their_order():
    picture = pictures.launches(STEP, fewest(STEP))
    assert_drawn(picture)
    assert {work.name for work in STEP} <= set(picture_texts(picture))
    assert "9: update W2, update W1" in picture.alternative


def test_epochs_are_drawn_from_the_longest_to_the_shortest():
    picture = pictures.epochs({"fused": 12.0, "torch eager": 1234.0, "naive": 300.0})
    assert_drawn(picture)
    assert "PyTorch eager" in picture_texts(picture) and "1,234" in picture_texts(picture)


def test_digits_stand_in_two_rows_with_their_names():
    images = data.digits(held_out=True).images[:6] / 255
    picture = pictures.in_two_rows(images, 1 - images, ["yours", "shipped"])
    assert_drawn(picture)
    assert {"yours", "shipped"} <= set(picture_texts(picture))
    assert "6 images: above yours, below shipped" in picture.alternative


def test_the_same_points_are_drawn_below_two_roofs():
    point = Figure("adam", "wide", "1000", "float32", "time", "ms", 1.0, 1.0, 1.0, 9, 4e9, 2e9)
    picture = pictures.two_roofs({"adam": point}, known_gpu("H200"), known_gpu("A100"))
    assert_drawn(picture)
    assert "adam" in picture_texts(picture) and "dashed" in picture.alternative
