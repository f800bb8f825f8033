"""The words of a launch, and launches where they cannot be prepared."""

import warnings

import numpy as np
import pytest

from course.backend import cuda
from course.dispatch import entry, prepared
from course.kernels.softmax import softmax
from course.kernels.steps import Launch
from tests.course.dispatch import arrays
from tests.course.dispatch.noted_launches import FakeKernel, fake_entry, words_of
from tests.threads import at_once


def test_a_launchs_words_are_those_of_numbas_convention(noted):
    point, x = fake_entry(), cuda.to_device(arrays.X)
    out = point.call((x,), (np.float32(1.5),))
    assert point.launched_by(x) == "prepared"
    ((kernel, stream, what),) = noted.launched
    begin, end = (array.__cuda_array_interface__["data"][0] for array in (x, out))
    assert (kernel, stream) == (77, 0)
    assert words_of(what, 19) == [
        0, 0, arrays.X.size, 4, begin, 9, 52, 208, 4,
        int(np.float32(1.5).view(np.uint32)),
        0, 0, arrays.X.size, 4, end, 9, 52, 208, 4,
    ]  # fmt: skip
    more = cuda.to_device(2 * arrays.X)
    point.call((more,), (np.float32(1.5),), out=x, stream=5)
    point.call((more,), (np.float32(1.5),))
    assert [stream for _, stream, _ in noted.launched] == [0, 5, 0]
    assert len(point.plans) == 2  # with out, and without


def test_what_a_launch_says_is_configured_once_a_plan(noted):
    kernel, asked = FakeKernel(), []

    def listed(x, out, factor):
        asked.append(factor)
        return [Launch(kernel, 3, 64, (x, factor, out), 256)]

    point = entry.EntryPoint(
        "fake", ("x",), lambda x, _: (x.shape, x.dtype), listed, options=("factor",)
    )
    x = cuda.to_device(arrays.X)
    for _ in range(3):
        point.call((x,), (np.float32(1.5),))
    assert asked == [np.float32(1.5)] and noted.shape == (3, 1, 1, 64, 1, 1, 256)
    assert point.launched_by(x) == "prepared" and len(noted.launched) == 3


def test_a_slice_begins_where_it_begins(noted):
    point = fake_entry()
    wide = cuda.to_device(arrays.random(9, 80))
    part = wide[:, 3:55]
    point.call((part,), (np.float32(1),), out=cuda.to_device(arrays.X))
    words = words_of(noted.launched[-1][2], 9)
    assert words[4] == wide.__cuda_array_interface__["data"][0] + 12
    assert words[5:] == [9, 52, 320, 4]


@arrays.on_gpu
@pytest.mark.gpu
def test_launches_are_prepared_on_this_machine():
    from course.kernels.softmax import forward

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        x = cuda.to_device(arrays.X)
        softmax(x)
        assert forward._ENTRY.launched_by(x) == "prepared"


@arrays.on_gpu
@pytest.mark.gpu
@pytest.mark.skipif(prepared.successor.is_chosen(), reason="the successor launches nothing itself")
def test_where_numbas_insides_are_others_numba_launches(monkeypatch):
    class Refusing:
        def __init__(self, *args):
            raise prepared.CannotPrepare("no handle")

    monkeypatch.setattr(prepared, "PreparedLaunch", Refusing)
    point = entry.EntryPoint("softmax", ("x",), *arrays.softmax_parts(), options=("method",))
    for kind in ("numba", "cupy", "torch"):
        x = arrays.MAKE[kind](arrays.X)
        with pytest.warns(RuntimeWarning, match="launches go through Numba"):
            found = point.call((x,), ("registers",))
        assert np.allclose(arrays.to_numpy(found), arrays.exact_softmax(arrays.X), atol=1e-6)
        assert point.launched_by(x) == "Numba"


@arrays.on_gpu
@pytest.mark.gpu
def test_a_thread_that_has_not_touched_the_gpu_can_call():
    torch = pytest.importorskip("torch")
    x, out = torch.randn(64, 768, device="cuda"), torch.zeros(64, 768, device="cuda")
    softmax(x, out=out)
    torch.cuda.synchronize()
    out.zero_()
    at_once(lambda: softmax(x, out=out))
    torch.cuda.synchronize()
    assert torch.allclose(out, torch.softmax(x, 1), atol=1e-6)
