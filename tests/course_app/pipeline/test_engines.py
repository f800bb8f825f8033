"""Stacks of images on a GPU, here the simulator: the same bits in any company, CPUs beside it."""

import importlib
import os
import signal
import sys
import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course import backend
from course.dispatch import ahead
from course.images import images, reading
from course.images.reading import ImageError
from course.kernels.reconstruct.ladder import LADDER, ImageProblem
from course.kernels.steps import Launch
from course_app.kernels.resize import MOST
from course_app.pipeline import capacity, engines, pipeline, quality, scheduler, stages
from course_app.pipeline.engines import OnGpu, choose_svd
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.shared_buffers import MOST_SHRUNK, Layout, SharedBuffers, goes_as_it_is
from course_app.pipeline.workers import Hand, Workers
from tests.course_app.pipeline_parts import Cuda, contents, in_time, rows_of, some_images
from tests.course_app.worker_parts import FAULTY, SIMULATED, SLOWLY, customized
from warpsim.host import gpus

pytestmark = [
    pytest.mark.usefixtures("quick_grid"),
    pytest.mark.skipif(backend.gpu() is not None, reason="the simulator is the GPU here"),
]
SHAPE = 20, 28


@pytest.fixture
def stack():
    rng = np.random.default_rng(4)
    return rng.random((5, *SHAPE), dtype=np.float32)


def factors_of(stack, k=7):
    return [np.stack(parts) for parts in zip(*(stages.factorise(image, k) for image in stack))]


def judged(on_gpu, stack, factors=(), wanted=()):
    """Scan lines, and what was found."""
    lines = np.full((len(on_gpu.ranks), len(stack), SHAPE[0], 1 + SHAPE[1]), 77, np.uint8)
    return lines, on_gpu(stack, factors, lines, wanted)


def parts(lines, found, place):
    """All that is known of one image."""
    return lines[:, place], found.mse[:, place], found.ssim[:, place]


# --- a stack --------------------------------------------------------------------------------------


@pytest.mark.parametrize("svd", ["cpu", "gpu"])
def test_measures_lines_and_pictures_are_those_of_the_cpu(stack, svd):
    factors = factors_of(stack) if svd == "cpu" else ()
    lines, found = judged(OnGpu(SHAPE, [3, 7], 8, svd), stack, factors, wanted=(1, 4))
    assert sorted(found.pictures) == [1, 4]
    for place, image in enumerate(stack):
        expected = [images.reconstruct(*images.svd(image), k) for k in (3, 7)]
        for number, its in enumerate(quality.quality_of(image, expected)):
            assert found.mse[number, place] == pytest.approx(its.mse, rel=1e-4)
            assert found.ssim[number, place] == pytest.approx(its.ssim, abs=1e-5)
            apart = lines[number, place] != its.lines
            assert apart.mean() < 0.02  # a pixel at a half is rounded either way
            if place in found.pictures:
                ours = found.pictures[place][1 + number]
                assert np.abs(ours - expected[number]).max() < 2e-6


@pytest.mark.parametrize("svd", ["cpu", "gpu"])
def test_an_image_has_the_same_bits_in_any_stack(stack, svd):
    factors = factors_of(stack) if svd == "cpu" else ()
    together = judged(OnGpu(SHAPE, [3, 7], 5, svd), stack, factors)
    larger = OnGpu(SHAPE, [3, 7], 7, svd)
    for place in (1, 4):
        one = slice(place, place + 1)
        alone = judged(larger, stack[one], [part[one] for part in factors])
        for ours, its in zip(parts(*alone, 0), parts(*together, place), strict=True):
            assert np.array_equal(ours, its)


def test_an_image_that_does_not_converge_goes_to_the_cpu(stack, monkeypatch):
    from course.kernels import svd

    class Fails:
        def __init__(self, *_):
            pass

        def __call__(self, *_):
            raise svd.NotConverged

    by_cpu = judged(OnGpu(SHAPE, [3, 7], 8, "cpu"), stack, factors_of(stack))
    monkeypatch.setattr(svd, "Solver", Fails)
    on_gpu = judged(OnGpu(SHAPE, [3, 7], 8, "gpu"), stack)
    for place in range(len(stack)):
        for ours, its in zip(parts(*on_gpu, place), parts(*by_cpu, place), strict=True):
            assert np.array_equal(ours, its)


def scarce(monkeypatch, most, error=None):
    """A GPU with memory for so many images."""
    real, asked = engines._Memory.__init__, []

    def begin(self, size, ranks, batch, svd):
        asked.append(batch)
        if batch > most:
            raise error or Cuda.CudaAPIError(2, "Call to cuMemAlloc results in OUT_OF_MEMORY")
        real(self, size, ranks, batch, svd)

    monkeypatch.setattr(engines._Memory, "__init__", begin)
    return asked


@pytest.mark.parametrize(
    ("error", "svd"),
    [
        (None, "cpu"),
        (MemoryError("planted"), "cpu"),
        pytest.param(None, "gpu", marks=pytest.mark.slow),
    ],
)
def test_without_memory_for_a_stack_it_is_halved(stack, monkeypatch, error, svd):
    factors = factors_of(stack) if svd == "cpu" else ()
    expected = judged(OnGpu(SHAPE, [3, 7], 5, svd), stack, factors, wanted=range(5))
    asked = scarce(monkeypatch, 2, error)
    on_gpu = OnGpu(SHAPE, [3, 7], 5, svd)
    for _ in range(2):  # the second time it is known
        found = judged(on_gpu, stack, factors, wanted=range(5))
        for place in range(len(stack)):
            for ours, its in zip(parts(*found, place), parts(*expected, place), strict=True):
                assert np.array_equal(ours, its)
            pictures = found[1].pictures[place], expected[1].pictures[place]
            assert np.array_equal(*map(np.stack, pictures))
    assert asked == [5, 2]


def test_cublas_whose_sums_may_depend_on_the_length_of_a_stack_rebuilds_none(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    monkeypatch.setattr("course.heuristics.reconstruct.gpu", lambda: "H200")
    monkeypatch.setattr(backend, "gpu", lambda: "H200")
    monkeypatch.setattr("course.kernels.gemm.library.cublas", object)
    assert LADDER.choose("auto", ImageProblem.of_shape(384, 421, 171, 64))[0] == "library"
    assert engines._method(384, 421, 171) == ("warp per tile", True)


def test_memory_that_ends_in_the_middle_of_a_stack_is_halved_too(stack, monkeypatch):
    factors = factors_of(stack)
    expected = judged(OnGpu(SHAPE, [3, 7], 5, "cpu"), stack, factors, wanted=[0, 4])
    real, left = engines.rebuild_there, [1]

    def fails_once(*arguments):
        left[0] -= 1
        if left[0] == -1:  # at the second k of the whole stack
            raise MemoryError("planted")
        real(*arguments)

    monkeypatch.setattr(engines, "rebuild_there", fails_once)
    found = judged(OnGpu(SHAPE, [3, 7], 5, "cpu"), stack, factors, wanted=[0, 4])
    for place in range(len(stack)):
        for ours, its in zip(parts(*found, place), parts(*expected, place), strict=True):
            assert np.array_equal(ours, its)
    for place in (0, 4):
        ours, its = (of[1].pictures[place] for of in (found, expected))
        assert len(ours) == len(its) == 3 and np.array_equal(np.stack(ours), np.stack(its))


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 2])
def test_images_of_other_sizes_are_resized_to_this_one(stack, most):
    """8-bit levels of any size beside images that have the right one."""
    rng = np.random.default_rng(1)
    layout = Layout(1, 5, SHAPE, 2)
    buffers = SharedBuffers(layout)
    given = [stack[0], *(rng.integers(0, 256, its, np.uint8) for its in ((9, 90), (40, 56), SHAPE))]
    given.append(stack[4])
    right = [reading.resized_to(levels, SHAPE, "stretch") for levels in given]
    for place, levels in enumerate(given):
        assert levels.dtype == np.float32 or goes_as_it_is(levels, SHAPE)
        buffers.store(0, place, levels)
    on_gpu = OnGpu(SHAPE, [3, 7], most, "gpu")
    found = on_gpu(buffers.images[0], (), buffers.lines[0], (1, 4), buffers.sizes[0])
    _, expected = judged(OnGpu(SHAPE, [3, 7], 5, "gpu"), np.stack(right))
    for place in (1, 4):
        assert np.abs(found.pictures[place][0] - right[place]).max() < 1e-6
    assert np.allclose(found.mse, expected.mse, rtol=1e-4, atol=1e-12)
    assert np.allclose(found.ssim, expected.ssim, atol=1e-5)
    assert np.array_equal(found.mse[:, [0, 4]], expected.mse[:, [0, 4]])


def test_an_image_that_is_too_large_for_its_place_or_the_kernel_is_resized_before():
    assert MOST_SHRUNK == MOST
    for shape, goes in {(40, 56): 1, (40, 57): 0, (80, 28): 1, (81, 1): 0, (2, 113): 0}.items():
        assert goes_as_it_is(np.zeros(shape, np.uint8), SHAPE) == bool(goes)
    assert not goes_as_it_is(np.zeros(SHAPE, np.float32), SHAPE)


def test_without_memory_for_one_image_it_is_said(stack, monkeypatch):
    scarce(monkeypatch, 0)
    with pytest.raises(MemoryError, match="rebuild one image of 20x28; choose a smaller size"):
        judged(OnGpu(SHAPE, [3, 7], 5, "gpu"), stack)


def test_another_error_of_the_gpu_is_not_taken_for_scarce_memory(stack, monkeypatch):
    scarce(monkeypatch, 0, Cuda.CudaAPIError(700, "CUDA_ERROR_ILLEGAL_ADDRESS"))
    with pytest.raises(Cuda.CudaAPIError, match="ILLEGAL"):
        judged(OnGpu(SHAPE, [3, 7], 5, "gpu"), stack)


def test_what_is_no_number_is_refused(stack):
    factors = factors_of(stack)
    factors[1][2, 0] = np.nan
    with pytest.raises(ImageError, match="the reconstruction holds NaN or infinite"):
        judged(OnGpu(SHAPE, [3, 7], 5, "cpu"), stack, factors)


def test_who_factorises(monkeypatch):
    assert choose_svd("cpu", "gpu", 5000, 5000) == "cpu"
    assert choose_svd("auto", "numpy", 256, 256) == "cpu"
    there = SimpleNamespace(devices=[], error=None)
    monkeypatch.setattr(engines, "read_driver", lambda: there)
    with pytest.raises(ImageError, match="no usable GPU.*sees no CUDA device.*--svd cpu"):
        choose_svd("gpu", "numpy", 256, 256)
    there.devices.append("a GPU")
    assert choose_svd("auto", "gpu", 256, 1024) == "gpu"
    assert choose_svd("auto", "gpu", 256, 1025) == "cpu"
    with pytest.raises(ImageError, match="1025x256.*up to 1024"):
        choose_svd("gpu", "gpu", 1025, 256)
    with pytest.raises(ImageError, match="--svd gpu and --engine numpy contradict each other"):
        choose_svd("gpu", "numpy", 256, 256)
    with pytest.raises(ImageError, match="svd is 'tpu'; allowed are cpu, gpu, auto"):
        choose_svd("tpu", "gpu", 8, 8)


# --- the whole pipeline ---------------------------------------------------------------------------

SIZE = 16, 12
COUNT = 13


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """The simulator is taken for a GPU, or two of them."""
    customized(tmp_path, monkeypatch, SIMULATED)
    two = SimpleNamespace(gpus=[nullcontext(), nullcontext()])
    monkeypatch.setattr(scheduler, "gpus_cuda", lambda: two)
    monkeypatch.setattr(pipeline, "choose_engine", lambda *_: ("gpu", "the GPU"))
    monkeypatch.setattr(pipeline, "choose_svd", lambda svd, *_: "gpu" if svd == "auto" else svd)


def rebuild(folder, out, ranks=(3, 9), **options):
    given = {"size": SIZE, "batch": 4} | options
    return in_time(lambda: pipeline.reconstruct_images([folder], ranks, out, **given))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("svd", ["cpu", "gpu"])
def test_results_are_those_of_the_cpu(folder, tmp_path, monkeypatch, simulated, svd):
    ours = rebuild(folder, tmp_path / "gpu", svd=svd)
    assert ours.engine == "the GPU" + ", SVDs, too" * (svd == "gpu")
    monkeypatch.undo()
    expected = rebuild(folder, tmp_path / "cpu", engine="numpy", svd="cpu")
    assert ours.skipped == expected.skipped and len(ours.skipped) == 1
    for our, its in zip(ours.qualities, expected.qualities, strict=True):
        assert (our.name, our.k, our.file) == (its.name, its.k, its.file)
        assert our.psnr_db == pytest.approx(its.psnr_db, abs=0.01) or its.psnr_db > 90
        assert our.ssim == pytest.approx(its.ssim, abs=1e-5)
        pixels = [
            np.asarray(Image.open(of.out / q.file), int) for of, q in ((ours, our), (expected, its))
        ]
        assert np.abs(pixels[0] - pixels[1]).max() <= 1


@pytest.mark.parametrize("svd", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)])
def test_bytes_do_not_depend_on_stacks_and_memory(folder, tmp_path, simulated, monkeypatch, svd):
    rebuild(folder, tmp_path / "whole", svd=svd)
    whole = contents(tmp_path / "whole")
    for batch in (1, 5, 32):
        rebuild(folder, tmp_path / f"{batch}", svd=svd, batch=batch)
        assert contents(tmp_path / f"{batch}") == whole
    scarce(monkeypatch, 1)
    rebuild(folder, tmp_path / "scarce", svd=svd, batch=8)
    assert contents(tmp_path / "scarce") == whole


@pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc")
@pytest.mark.parametrize(
    ("svd", "workers"),
    [("cpu", 3), *(pytest.param(*its, marks=pytest.mark.slow) for its in (("cpu", 1), ("gpu", 2)))],
)
def test_bytes_do_not_depend_on_processes(folder, tmp_path, simulated, begun, svd, workers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "WORTH_PROCESSES", 1e9)
        rebuild(folder, tmp_path / "whole", svd=svd)
    assert not begun
    lines = []
    rebuild(folder, tmp_path / "out", svd=svd, workers=workers, watch=lines.append)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(begun) == workers and lines[0].seconds["gpu"] > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc")
def test_processes_that_end_before_and_after_the_gpu_cost_nothing_but_a_fatal_image(
    folder, tmp_path, simulated, monkeypatch, begun
):
    """One is killed as stacks are filled, one as they are written; a decoder ends its own."""
    rebuild(folder, tmp_path / "whole", svd="cpu")
    whole = contents(tmp_path / "whole")
    customized(tmp_path, monkeypatch, SIMULATED + SLOWLY + FAULTY)
    (folder / "image05 fatal.png").write_bytes((folder / "image05.png").read_bytes())
    begun.clear()
    real, calls = Scheduler._compute, iter(range(99))

    def kill(hand):
        with suppress(ProcessLookupError):  # the fatal image may have ended it just now
            os.kill(hand.pid, signal.SIGKILL)

    def compute(its, *rest):
        first = next(calls) == 0  # once for both GPUs: no image is to end two processes
        if first:
            kill(its.workers.hands[0])
        real(its, *rest)
        if first:
            kill(its.workers.hands[1])

    monkeypatch.setattr(Scheduler, "_compute", compute)
    report = rebuild(folder, tmp_path / "out", workers=3, svd="cpu")
    assert [os.path.basename(file) for file, _ in report.skipped] == [
        "image02.png", "image05 fatal.png",
    ]  # fmt: skip
    found = contents(tmp_path / "out")
    assert all(found[name] == its for name, its in whole.items() if name != "report.json")
    assert len(rows_of(tmp_path / "out")) == 2 * (COUNT - 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_works_for_a_gpu_and_ends_is_replaced_once(
    folder, tmp_path, simulated, begun, monkeypatch, times
):
    rebuild(folder, tmp_path / "whole", svd="cpu", workers=2)
    real, left, used = Hand._exchange, [times], []

    def asked(its, work):
        if work is not None and work.kind == "compute":
            used.append(its.pid)
            if left[0]:
                left[0] -= 1
                os.kill(its.pid, signal.SIGKILL)
        return real(its, work)

    monkeypatch.setattr(Hand, "_exchange", asked)
    if times == 2:
        with pytest.raises(ChildProcessError, match="for a GPU was ended by signal 9 .* twice"):
            rebuild(folder, tmp_path / "out", svd="cpu", workers=2)
        return
    rebuild(folder, tmp_path / "out", svd="cpu", workers=2)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(set(used)) == 2 and os.getpid() not in used


@pytest.mark.slow
def test_where_a_gpu_has_no_process_this_one_feeds_it(
    folder, tmp_path, simulated, begun, monkeypatch
):
    """As a worker of a Dask cluster does, which keeps its GPU ready from part to part."""
    rebuild(folder, tmp_path / "whole", svd="cpu", workers=2)
    monkeypatch.setattr(Workers, "add_gpus", lambda *_: None)
    real, here = stages.compute, []
    monkeypatch.setattr(stages, "compute", lambda *given: here.append(given[3]) or real(*given))
    rebuild(folder, tmp_path / "out", svd="cpu", workers=2)
    assert here and contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_only_so_many_images_are_in_memory(tmp_path, simulated, begun, monkeypatch):
    """Two buffers of four slots, and one image in each process: the others are not read yet."""
    folder = some_images(tmp_path / "in", 60, side=8)
    monkeypatch.setattr(capacity, "MOST_SHARED", 1)
    lines, most, lock = [], [], threading.Lock()
    real = Scheduler._open_buffer

    def open_buffer(its, buffer):
        real(its, buffer)
        with lock:
            most.append(buffer)

    monkeypatch.setattr(Scheduler, "_open_buffer", open_buffer)
    rebuild(folder, tmp_path / "out", [2], size=8, workers=2, svd="cpu", watch=lines.append)
    assert len(most) == 15 and set(most) == {0, 1}
    assert (lines[0].buffers.layout.count, lines[0].buffers.layout.batch) == (2, 4)


def test_an_error_of_the_gpu_ends_all_in_order(folder, tmp_path, simulated, begun, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Scheduler, "_compute", fails)
    with pytest.raises(ZeroDivisionError, match="planted"):
        rebuild(folder, tmp_path / "out", workers=2)
    assert len(begun) == 2 and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_gpus_have_the_results_of_one(folder, tmp_path, simulated, begun, monkeypatch):
    rebuild(folder, tmp_path / "one", workers=2, svd="cpu")
    fed, both, lock, real = set(), threading.Barrier(2), threading.Lock(), Scheduler._compute

    def compute(its, *rest):
        if threading.get_ident() not in fed:
            fed.add(threading.get_ident())
            if capacity.WORTH_ONE_MORE < 1:
                both.wait(60)
        with lock:  # the simulator runs one kernel at a time
            real(its, *rest)

    monkeypatch.setattr(Scheduler, "_compute", compute)
    told = []
    rebuild(folder, tmp_path / "alone", workers=2, svd="cpu", gpus=2, batch=20, tell=told.append)
    assert len(fed) == 1 and told == ["1 of 2 GPUs: so few images are not worth the start of more"]
    fed.clear()
    monkeypatch.setattr(capacity, "WORTH_ONE_MORE", 1e-9)
    rebuild(folder, tmp_path / "two", workers=2, svd="cpu", gpus=2, batch=1, tell=told.append)
    assert len(fed) == 2 and len(told) == 1
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@pytest.mark.slow
def test_several_processes_share_a_gpu(folder, tmp_path, simulated, begun, monkeypatch):
    """Its stacks go to all of them, and the results are those of one."""
    rebuild(folder, tmp_path / "one", workers=2, svd="cpu")
    monkeypatch.setattr(capacity, "feeders_for", lambda gpus: 3)
    seen, all_three, real = set(), threading.Barrier(3), Scheduler._there

    def there(its, hand, work):
        if hand not in seen:
            seen.add(hand)
            all_three.wait(60)
        return real(its, hand, work)

    monkeypatch.setattr(Scheduler, "_there", there)
    lines = []
    rebuild(folder, tmp_path / "three", workers=2, svd="cpu", batch=1, watch=lines.append)
    assert len(seen) == 3 and {hand.gpu for hand in seen} == {0}
    assert lines[0].feeders == 3
    assert contents(tmp_path / "three") == contents(tmp_path / "one")


# --- a GPU that cannot be used after all ----------------------------------------------------------


@pytest.fixture
def broken(monkeypatch):
    """A driver that names a GPU on which nothing runs."""
    driver = SimpleNamespace(devices=[SimpleNamespace(name="a GPU")], error=None)
    monkeypatch.setattr(engines, "read_driver", lambda: driver)
    monkeypatch.setattr(capacity, "WORTH_A_GPU", 0)


@pytest.mark.parametrize("workers", [None, 2])
def test_where_the_gpu_cannot_be_used_numpy_computes_and_it_is_said(
    folder, tmp_path, broken, request, workers
):
    if workers:
        request.getfixturevalue("begun")
    told = []
    report = rebuild(folder, tmp_path / "out", workers=workers, tell=told.append)
    assert len(told) == 1 and told[0].startswith("no GPU can be used (")
    assert told[0].endswith("): NumPy computes") and report.engine == "NumPy on the CPU"
    rebuild(folder, tmp_path / "cpu", engine="numpy")
    assert contents(tmp_path / "out") == contents(tmp_path / "cpu")


@pytest.mark.parametrize("asked", [{"engine": "gpu"}, {"svd": "gpu"}, {"gpus": 1}])
def test_who_asked_for_the_gpu_is_told_that_it_cannot_be_used(folder, tmp_path, broken, asked):
    with pytest.raises(ImageError, match="no usable GPU .*; use the engine auto, simulator or"):
        rebuild(folder, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("svd", ["cpu", "gpu"])
def test_what_a_stack_launches_is_compiled_before(stack, svd, monkeypatch):
    importlib.import_module("course.kernels.svd")  # which keeps the other `compile_ahead`
    launched, on = [], Launch.on
    monkeypatch.setattr(Launch, "on", lambda its, *by: launched.append(its.kernel) or on(its, *by))
    monkeypatch.setattr(
        ahead, "compile_ahead", lambda its: launched.extend(one.kernel for one in its())
    )
    on_gpu = OnGpu(SHAPE, [3, 7], 8, svd)
    on_gpu.compile()
    before, launched[:] = {*launched}, []
    sizes = np.array([SHAPE] * len(stack), np.int32) * (svd == "gpu")
    lines = np.empty((2, len(stack), SHAPE[0], 1 + SHAPE[1]), np.uint8)
    on_gpu(stack, factors_of(stack) if svd == "cpu" else (), lines, (), sizes)
    assert launched and {*launched} <= before
