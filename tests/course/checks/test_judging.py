"""Names, strictness, real GPUs, declarations: what surrounds a verdict."""

from dataclasses import replace

import numpy as np
import pytest

from course import backend
from course.checks import check, exercises, progress
from course.checks.exercises import KernelExercise, Limit, Tolerance, UnknownExercise
from course.checks.verdicts import VerdictError, brief
from tests.course.checks import sample_exercises
from tests.course.checks.sample_exercises import ADD, ALL, HISTOGRAM, MEAN, SQUARE, failed, samples  # noqa: F401
from warpsim import cuda

# --- frame and names


def test_unknown_name_lists_close_ones():
    with pytest.raises(UnknownExercise, match="sample-square"):
        check("sampel-square", None)


def test_swapped_name_and_answer_are_explained():
    def square(out, x):
        pass

    with pytest.raises(UnknownExercise, match="name comes first"):
        check(square, "sample-square")


def test_strict_mode_raises_what_is_not_passed(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")

    def error(a, b):
        pass

    with pytest.raises(VerdictError, match="not started"):
        check("sample-error", error)
    assert check(
        "sample-error", lambda a, b: (np.mean((a - b) ** 2), np.sqrt(np.mean((a - b) ** 2)))
    )


def test_arguments_are_the_same_on_every_call():
    for exercise in ALL:
        for number in range(len(exercise.cases)):
            first, second = exercise.arguments(number), exercise.arguments(number)
            for name in first:
                if name != "out":
                    assert np.array_equal(first[name], second[name])


def test_verdict_names_no_path_and_no_address():
    @cuda.jit
    def square(out, x):
        out[cuda.grid(1)] = x[0]

    text = str(check("sample-square", square))
    assert ".py" not in text
    assert " at 0x" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outputs": ("result",)}, "must name arguments"),
        ({"outputs": ()}, "must name arguments"),
        ({"forbidden": {"slow"}}, "forbidden knows"),
        ({"hints": {"wrong": "Look again."}}, "hints are for"),
        ({"cases": []}, "no cases"),
        ({"reference": None}, "needs a reference"),
    ],
)
def test_bad_declarations_are_refused(change, words):
    options = {
        "name": "bad",
        "lesson": 99,
        "title": "",
        "outputs": ("out",),
        "reference": lambda x: x,
        "cases": SQUARE.cases,
    }
    with pytest.raises(ValueError, match=words):
        KernelExercise(**{**options, **change})


def test_limit_of_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match="sectors"):
        Limit("global", "load", "speed", per="request", at_most=1)


def test_tolerance_grows_with_the_magnitude_given():
    tolerance = Tolerance(2, "two roundings", magnitude=lambda x: abs(x))
    x = np.array([1.0, 100.0], np.float32)
    allowed = tolerance.allowed({"x": x}, np.zeros(2), np.dtype(np.float32))
    assert np.allclose(allowed, 2 * np.finfo(np.float32).eps * x)
    assert tolerance.allowed({"x": x}, np.zeros(2), np.dtype(np.int32)) == 0


def test_names_of_samples_stay_apart():
    assert {ADD.name, HISTOGRAM.name, MEAN.name, SQUARE.name} == set(exercises.exercises())


def test_wrong_on_purpose_shows_the_verdict_and_notes_nothing(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")

    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        out[i] = x[i] * x[i]

    verdict = check("sample-square", square, wrong_on_purpose=True)
    assert verdict.kind == "out-of-bounds"
    assert progress._records == {}


# --- with a real GPU


@pytest.fixture
def pretended_gpu(monkeypatch):
    """A machine whose GPU is the simulator; returns what a launch there really runs."""
    from course.checks import kernels

    launched = []

    class Kernel(type(sample_exercises.square)):
        """Simulated as `square`, but launched as `on_gpu`."""

        on_gpu = sample_exercises.square

        def __getitem__(self, configuration):
            launched.append(configuration)
            return self.on_gpu[configuration]

    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    monkeypatch.setattr(kernels, "is_gpu_kernel", lambda answer: isinstance(answer, Kernel))
    monkeypatch.setattr(kernels.importlib, "import_module", lambda name: cuda)
    kernel = Kernel(sample_exercises.square.py_func, False, False)
    kernel.launched = launched
    return kernel


def test_clean_kernel_is_launched_on_the_gpu_in_every_case_and_the_text_stays(pretended_gpu):
    verdict = check("sample-square", pretended_gpu)
    assert verdict.status == "passed", verdict
    launches = [configuration[:2] for configuration in pretended_gpu.launched]
    assert launches == [(1, 8), (1, 128), (8, 128), (1, 128), (4, 32)]
    assert str(verdict) == str(check("sample-square", sample_exercises.square))


def test_a_gpu_without_the_simulated_ones_instructions_launches_nothing(pretended_gpu):
    from course.checks.kernels import judge_kernel

    for name, launches in (("A100", 0), ("T4", len(SQUARE.cases))):
        pretended_gpu.launched.clear()
        assert judge_kernel(replace(SQUARE, gpu=name), pretended_gpu)
        assert len(pretended_gpu.launched) == launches


def test_other_result_on_the_gpu_is_its_own_kind(pretended_gpu):
    @cuda.jit
    def other(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + x[i]

    pretended_gpu.on_gpu = other
    failed(check("sample-square", pretended_gpu), "gpu-result", "Right when simulated", "out[0] is")


def test_failing_launch_on_the_gpu_is_told(pretended_gpu):
    class Broken:
        def __getitem__(self, configuration):
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    pretended_gpu.on_gpu = Broken()
    failed(check("sample-square", pretended_gpu), "gpu-result", "CUDA_ERROR_ILLEGAL_ADDRESS")


def test_kernel_that_is_wrong_in_the_simulation_never_reaches_the_gpu(pretended_gpu):
    def square(out, x):
        i = cuda.grid(1)
        out[i] = x[i] * x[i]

    pretended_gpu.py_func = square
    failed(check("sample-square", pretended_gpu), "out-of-bounds")
    assert pretended_gpu.launched == []


def test_function_that_launches_kernels_of_numba_cuda_has_a_simulated_twin():
    numba_cuda = pytest.importorskip("numba.cuda")
    from course.checks.simulating import simulated_twin

    @numba_cuda.jit(device=True)
    def twice(value):
        return value + value

    @numba_cuda.jit
    def double(x):
        i = numba_cuda.grid(1)
        if i < x.size:
            x[i] = twice(x[i])

    def run(x):
        on_device = numba_cuda.to_device(x)
        double[1, 32](on_device)
        return on_device.copy_to_host()

    assert simulated_twin(run)(np.arange(4, dtype=np.float32)).tolist() == [0, 2, 4, 6]
    assert simulated_twin(lambda x: np.sum(x)) is None


def test_bad_kernel_inside_a_function_is_caught_by_its_twin_before_the_gpu(monkeypatch):
    numba_cuda = pytest.importorskip("numba.cuda")
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")

    failed(
        check("sample-error", sample_exercises.writes_far(numba_cuda)), "out-of-bounds", "out[100]"
    )


def test_endless_kernel_inside_a_function_never_reaches_the_gpu(monkeypatch):
    numba_cuda = pytest.importorskip("numba.cuda")
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    called = []

    @numba_cuda.jit
    def forever(out):
        i = numba_cuda.grid(1)
        while i < out.size:
            out[i] = 1

    def error(a, b):
        called.append(numba_cuda.__name__)
        out = np.zeros(3, np.float32)
        forever[1, 1](out)
        return out

    failed(check("sample-error", error), "endless-loop", "does not end")
    assert called == ["warpsim.cuda"]


def test_a_value_that_goes_on_ends_in_dots():
    assert brief({"a": 1}) == "{'a': 1}"
    assert brief({"a": 1, "b": 2}, longest=10) == "{'a': 1, …"
