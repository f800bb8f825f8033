"""The light, the questions and the recorded bars of the first core."""

from dataclasses import replace

import numpy as np
import pytest

from course.backend import cuda
from course.measure.recorded import Figure, recorded
from course_lessons.lesson00 import bars, light, looking_back
from course_lessons.lesson00.questions import QUESTIONS


@cuda.jit
def lit(out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = light(row, column, out)


@pytest.mark.parametrize("shape", [(7, 31), (31, 7), (1, 1)])
def test_the_light_is_in_the_middle_and_dim_at_the_edge(shape):
    out = np.zeros(shape, np.float32)
    lit[(2, 2), (16, 16)](out)
    assert out[shape[0] // 2, shape[1] // 2] == pytest.approx(1)
    assert out.min() >= np.float32(0.1) and out == pytest.approx(out[::-1, ::-1], abs=1e-6)
    assert shape == (1, 1) or out[0, 0] == np.float32(0.1)


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_has_one_right_choice_and_a_word_for_each_other(name):
    question = QUESTIONS[name]
    for letter, (text, why) in question.choices.items():
        chosen = dict.fromkeys(QUESTIONS, "?") | {name: letter}
        said = " ".join(repr(looking_back(**chosen)).split())
        right = letter == question.right
        assert f"{'✓' if right else '✗'} {name}" in said and text in said
        assert why[1:] in said
        assert said.count("○") == 2


@pytest.mark.parametrize("written", ["B", " b ", "b.", "(b)", "b:"])
def test_a_letter_may_be_written_in_any_way(written):
    assert "✓ pixel" in repr(looking_back(pixel=written, guard="?", thousands="?"))


@pytest.mark.parametrize("written", ["?", "", "d", "cuda.grid", 2, None, ..., "ab"])
def test_what_is_no_letter_gets_the_question(written):
    said = repr(looking_back(pixel=written, guard="c", thousands="a"))
    assert said.startswith("○ pixel. Who tells a thread its pixel? a: the launch, b: cuda.grid")


# --- bars ----------------------------------------------------------------------------------------


def times_in(picture):
    return [bar.get_width() for bar in picture.axes[0].patches]


def test_the_last_picture_shows_what_is_recorded_from_zero():
    picture = bars.course_picture()
    *others, slowest = sorted(times_in(picture))
    assert slowest == pytest.approx(2.42, rel=0.01)
    assert others[1:] == pytest.approx([0.293, 2.01], rel=0.01)
    assert picture.axes[0].get_xlim()[0] == 0 and picture.axes[0].get_xscale() == "linear"
    assert f"{slowest / others[0]:.0f} times faster" in picture.alternative


@pytest.mark.parametrize(
    ("variants", "ms"), [(["warp tiles"], 0.05), (["warp tiles", "yours"], 0.1)]
)
def test_the_last_bar_is_the_readers_rung_once_it_is_recorded(monkeypatch, variants, ms):
    times = {"warp tiles": 0.05, "yours": 0.1}

    def found(subject, variant, **which):
        if subject != "reconstruct":
            return recorded(subject, variant=variant, **which)
        figure = recorded("reconstruct", variant="warp tiles", **which)[0]
        return [replace(figure, median=times[variant])] if variant in variants else []

    monkeypatch.setattr(bars, "recorded", found)
    assert min(times_in(bars.course_picture())) == ms


def test_before_first_launches_are_recorded_a_copy_stands_there(monkeypatch):
    def without(subject, **which):
        return [] if subject == "first_launches" else recorded(subject, **which)

    monkeypatch.setattr(bars, "recorded", without)
    picture = bars.first_launches_picture()
    assert "134 MB copied, by threads on each SM: 32 threads 2.9 ms" in picture.alternative
    assert max(times_in(picture)) == pytest.approx(2.9, rel=0.01)


def test_once_first_launches_are_recorded_they_stand_there(monkeypatch):
    def figure(launch, ms, gpu):
        return Figure("glow", launch, "1024x1024", "float32", "time", "ms", ms, ms, ms, 9, gpu=gpu)

    found = [figure("1, 1", 800, "NVIDIA H200"), figure("256, 256", 0.01, "NVIDIA H200")]
    monkeypatch.setattr(bars, "recorded", lambda *_, **__: [*found, figure("1, 1", 9, "Tesla T4")])
    picture = bars.first_launches_picture()
    for words in ("LAUNCH = 1, 1 800 ms", "LAUNCH = 256, 256 0.01 ms"):
        assert words in picture.alternative
    assert sorted(times_in(picture)) == [0.01, 800] and "H200" in picture.alternative
