"""A right kernel stands beside the package's and the least; what is not solved says so."""

import math

import numpy as np
import pytest
from numba import float32

from course import backend, beside, check, cuda, trace
from course.checks import beside as room
from course.checks import exercises, progress
from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case, KernelExercise


def arguments(n):
    return lambda rng: {
        "x": rng.random(n, dtype=np.float32),
        "out": np.empty(n, np.float32),
    }


@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


@cuda.jit
def doubled_by_a_product(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * float32(2)


@cuda.jit
def doubled_wrongly(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@cuda.jit
def unsolved(x, out):
    pass


RIVALS = Rivals(
    package=lambda x, out: [Launch(doubled_by_a_product, math.ceil(x.size / 64), 64, (x, out))],
    operations=lambda x, out: x.size,
    timed=Case("4,096 numbers", arguments(4096), block=64),
    recorded={"package": {"subject": "norm", "kernel": "layer norm + gelu", "variant": "warp",
                          "shape": "4096x1024"}},
)  # fmt: skip


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    exercises.exercises()
    made = KernelExercise(
        name="double", lesson=6, title="Double", outputs=("out",), reference=lambda x: 2 * x,
        cases=[Case("100 numbers", arguments(100), block=64)], rivals=RIVALS,
    )  # fmt: skip
    monkeypatch.setitem(exercises._exercises, "double", made)
    monkeypatch.setattr(progress, "_records", {})


def test_counts_of_both_and_the_least():
    check("double", doubled)
    table = beside("double", doubled)
    assert table.counts["launches"] == {"yours": 1, "package": 1, "least": 1}
    assert table.counts["bytes touched, each once"] == {"yours": 800, "package": 800, "least": 800}
    assert table.counts["sectors of global loads"] == {"yours": 26, "package": 13}  # x twice
    assert table.counts["float32 operations"]["least"] == 100
    assert "bank conflicts" not in table.counts  # none has any
    text = str(table)
    assert "double: 100 numbers" in text and "package" in text
    assert max(map(len, text.split("\n"))) <= 80


@pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU times are measured")
def test_without_a_gpu_recorded_times_stand_there_and_yours_has_none():
    (row,) = beside("double", doubled).times.values()
    assert set(row) == {"package", "least"}
    assert row["package"] > row["least"] > 0
    assert "No GPU is here, so yours has no time" in str(beside("double", doubled))


@pytest.mark.parametrize("kernel", [unsolved, doubled_wrongly])
def test_what_is_not_solved_is_not_traced(kernel):
    check("double", kernel)
    table = beside("double", kernel)
    assert not table.counts and not table.times
    assert "solve the exercise first" in str(table)


def test_a_kernel_that_was_changed_since_its_check_is_judged_again():
    check("double", doubled)
    assert "solve the exercise first" in str(beside("double", doubled_wrongly))


def test_on_a_gpu_each_program_has_its_time_and_one_that_fails_hides_no_other(monkeypatch):
    def timed(call, *given, name, **_):
        if name == "PyTorch":
            raise ImportError("no torch here")
        return type("Timing", (), {"median": {"yours": 0.5, "package": 0.25}[name]})

    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA H200")
    monkeypatch.setattr(room, "is_gpu_kernel", lambda kernel: True)
    monkeypatch.setattr(room, "benchmark", timed)
    monkeypatch.setattr(room, "_torch_call", lambda *_: (None, ()))
    exercise = exercises.find_exercise("double")
    rivals = Rivals(package=RIVALS.package, torch=lambda torch, x: 2 * x)
    case = exercise.cases[0]
    rows, note = room._times(exercise, rivals, doubled, case)
    assert {name: rows["measured here"][name] for name in ("yours", "package")} == {
        "yours": 500.0, "package": 250.0,
    }  # fmt: skip
    assert rows["measured here"]["least"] > 0
    assert note == "PyTorch is not installed here."


def test_an_exercise_without_rivals_is_refused():
    with pytest.raises(ValueError, match="nothing is known to stand beside"):
        beside("fill-index", doubled)


WITH_RIVALS = {
    name: exercise
    for name, exercise in exercises.exercises().items()
    if getattr(exercise, "rivals", None) is not None
}


def test_exercises_of_five_lessons_have_rivals():
    assert {exercise.lesson for exercise in WITH_RIVALS.values()} >= {6, 10, 13, 14, 16}


@pytest.mark.parametrize("name", WITH_RIVALS)
def test_a_rival_of_a_lesson_is_recorded_once(name):
    for who, wanted in WITH_RIVALS[name].rivals.recorded.items():
        assert len(room.recorded(gpu=room.RECORDED_ON, **wanted)) == 1, who


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "name", [name for name, its in WITH_RIVALS.items() if its.rivals.package is not None]
)
def test_the_package_s_launches_do_the_work_of_the_exercise(name):
    exercise = WITH_RIVALS[name]
    case = exercise.rivals.traced or room._measured(exercise)
    arguments = room._arguments(exercise, case)
    expected = exercises.call_with_named(exercise.reference, arguments)
    if not isinstance(expected, dict):
        expected = {(exercise.outputs + exercise.updated)[0]: expected}
    launches = exercise.rivals.package(**arguments)
    for launch in launches:
        trace(launch.kernel, launch.grid, launch.block, *launch.arguments,
              dynamic_shared=launch.shared, gpu="H200")  # fmt: skip
    last = [its for its in launches[-1].arguments if isinstance(its, np.ndarray)]
    found = {
        name: arguments[name]
        for name in expected
        if any(np.shares_memory(arguments[name], array) for array in last)
    }
    if not found:  # the package's autoencoder has results of its own, and keeps its code
        (found["y"],) = [its for its in last[1:] if its.shape == expected["y"].shape]
    for name, result in found.items():
        np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-4)


#: PyTorch draws noise of its own.
RANDOM = {"sample-code"}


@pytest.mark.parametrize(
    "name",
    [name for name, its in WITH_RIVALS.items() if its.rivals.torch and name not in RANDOM],
)
def test_pytorch_does_the_work_of_the_exercise(name):
    torch = pytest.importorskip("torch")
    exercise = WITH_RIVALS[name]
    arguments = room._arguments(exercise, exercise.cases[0])
    expected = exercises.call_with_named(exercise.reference, arguments)
    expected = list(expected.values()) if isinstance(expected, dict) else [expected]
    inputs = {
        key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for key, value in arguments.items()
        if key not in exercise.outputs
    }
    found = exercise.rivals.torch(torch, **inputs)
    for result, right in zip(found if isinstance(found, tuple) else (found,), expected):
        wanted = np.asarray(right).reshape(result.shape)
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-4)
