"""Plans: streams, workspaces, graphs."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from course.backend import cuda, gpu
from course.dispatch import array_facts, entry, graphs, plans, prepared, slots
from course.heuristics import gemm_library
from course.kernels import reduce
from course.kernels.activation import activation
from course.kernels.gemm import half
from course.kernels.norm import first_steps as norm_steps
from course.kernels.norm import layer_norm, layer_norm_backward
from course.kernels.softmax import softmax
from course.kernels.steps import Launch
from tests.course.dispatch.arrays import MAKE, X, exact_norm, on_gpu, random
from tests.course.dispatch.noted_launches import FakeKernel, fake_entry, words_of
from tests.course.kernels.contract import in_float64, typed
from warpsim.host import libcuda


def test_a_workspace_that_is_lent_is_held_until_all_is_launched(noted, monkeypatch):
    class Memory:
        __cuda_array_interface__ = {"data": (4096, False)}

    numba, made, alive = array_facts.library("numba"), [], []

    def maker(shape, dtype, device):
        if dtype != np.uint8:
            return lambda: cuda.device_array(shape, dtype)
        return lambda: made.append(weakref.ref(memory := Memory())) or memory

    monkeypatch.setattr(numba, "lends", True, raising=False)
    monkeypatch.setattr(numba, "maker", maker, raising=False)
    monkeypatch.setattr(numba, "is_captured_by_others", lambda address: False, raising=False)
    launched = noted.cuLaunchKernelEx
    monkeypatch.setattr(
        noted, "cuLaunchKernelEx", lambda *how: alive.append(made[-1]()) or launched(*how)
    )

    def listed(x, out):
        memory = slots.workspace((2, 3), np.float32)
        first, second = (x, memory), (memory, out)
        return [Launch(FakeKernel(), 3, 64, given) for given in (first, second)]

    point = entry.EntryPoint("fake", ("x",), lambda x: (x.shape, np.float32), listed)
    point.call((cuda.to_device(X),))
    assert len(alive) == 2 and None not in alive
    assert words_of(noted.launched[-1][2], 9)[4] == 4096


class OfAnother:
    """A stream of GPU 1, of a library that says so, or of which the driver is asked."""

    def __init__(self, **said):
        self.__dict__.update(said)


@pytest.mark.parametrize(
    "stream",
    [
        OfAnother(cuda_stream=0, device_index=1),  # PyTorch's default stream there
        OfAnother(cuda_stream=9, device_index=1),
        OfAnother(ptr=9, device_id=1),
        OfAnother(ptr=9, device_id=-1),
        OfAnother(handle=SimpleNamespace(value=9)),
        9,
    ],
)
def test_a_stream_of_another_gpu_is_refused_before_the_driver_sees_it(noted, monkeypatch, stream):
    contexts = {"cuStreamGetCtx": 11, "cuCtxGetCurrent": 10}

    def answer(what, *arguments):
        arguments[-1]._obj.value = contexts[what]

    monkeypatch.setattr(libcuda, "call", answer)
    monkeypatch.setattr(prepared, "are_many", lambda: True)
    monkeypatch.setattr(prepared, "is_current", lambda device: True)
    point, x = fake_entry(), cuda.to_device(X)
    with pytest.raises(
        ValueError, match="^stream is one of another GPU, and the arrays lie on GPU 0"
    ):
        point.call((x,), (1.0,), None, stream)
    assert not noted.launched
    contexts["cuStreamGetCtx"] = 10
    for own in (OfAnother(cuda_stream=9, device_index=0), OfAnother(ptr=9, device_id=-1), 9, 0, 2):
        point.call((x,), (1.0,), None, own)
    assert len(noted.launched) == 5


def test_each_stream_and_each_graph_has_a_workspace_of_its_own(noted):
    point, x, out = fake_entry(memory=True), cuda.to_device(X), cuda.to_device(X)

    def memory(stream):
        point.call((x,), (np.float32(1),), out=out, stream=stream)
        return words_of(noted.launched[-1][2], 15)[14]

    first, second = memory(1), memory(2)
    assert first != second and (memory(1), memory(2)) == (first, second)
    assert len(noted.ordered) == 2  # zeros, once for each
    noted.capturing = True
    captured = memory(1), memory(1)
    assert len({first, second, *captured}) == 4
    noted.capturing = False
    assert memory(1) == first
    for stream in range(3, 4 + plans.MOST_STREAMS):
        memory(stream)
    zeroed = len(noted.ordered)
    memory(stream)
    assert len(noted.ordered) == zeroed
    memory(2)  # the oldest went
    assert len(noted.ordered) == zeroed + 1


@pytest.mark.skipif(gpu() is not None, reason="NumPy reads the host's memory")
@pytest.mark.usefixtures("h200")
def test_what_a_library_does_is_prepared_once_a_plan_as_launches_are(noted, blas, monkeypatch):
    asked = []
    monkeypatch.setattr(gemm_library, "is_faster", lambda p, *_: asked.append(p) or True)
    x = typed(random(24, 40), "float16")
    right, x = in_float64(x) @ in_float64(x).T, cuda.to_device(x)
    for stream in (None, 5, None, None):
        found = half.gemm(x, x, "nt", stream=stream)
        np.testing.assert_allclose(in_float64(found), right, rtol=1e-3, atol=1e-3)
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(lambda _: half.gemm(x, x, "nt"), range(6)):
            np.testing.assert_allclose(in_float64(found), right, rtol=1e-3, atol=1e-3)
    assert len(asked) == 1 and blas.asked == 10 * [(24, 24, 40)]
    assert {stream for stream, _ in blas.where} == {0, 5} and not noted.launched


@on_gpu
@pytest.mark.gpu
def test_a_call_does_not_wait_for_the_gpu():
    import time

    from course.measure.event_clock import clock

    for kind in ("numba", "cupy", "torch"):
        x = MAKE[kind](X)
        out = MAKE[kind](np.zeros_like(X))
        softmax(x, out=out)
        clock().keep_busy(1)
        cuda.synchronize()
        clock().keep_busy(300)
        start = time.perf_counter()
        softmax(x, out=out)
        assert time.perf_counter() - start < 0.1
        cuda.synchronize()


@on_gpu
@pytest.mark.gpu
def test_calls_go_to_the_callers_stream():
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.zeros(2048, 2048, device="cuda")
        for _ in range(20):  # each result is the next input: only order makes them right
            x = activation(x + 1.0, "relu")
        found = x.sum().item()
    assert found == 20 * 2048 * 2048
    with cupy.cuda.Stream(non_blocking=True):
        x = cupy.zeros((2048, 2048), "f4")
        for _ in range(20):
            x = activation(x + cupy.float32(1), "relu")
        assert float(x.sum()) == 20 * 2048 * 2048
    ptr = side.cuda_stream
    x = torch.full((512, 512), 3.0, device="cuda")
    torch.cuda.synchronize()
    for stream in (side, ptr, cuda.external_stream(ptr), cupy.cuda.ExternalStream(ptr)):
        y = activation(x, "relu", stream=stream)
        side.synchronize()
        assert bool((y == 3).all())


@on_gpu
@pytest.mark.gpu
def test_arrays_of_two_libraries_are_ordered_by_events():
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    from course.measure.event_clock import clock

    with cupy.cuda.Stream(non_blocking=True) as stream:
        gamma = cupy.zeros(768, "f4")
        x = torch.randn(64, 768, device="cuda")
        torch.cuda.synchronize()
        layer_norm(x, gamma)  # the plan
        stream.synchronize()
        slow = cupy.random.rand(6000, 6000, dtype=cupy.float32)
        for _ in range(5):
            slow = slow @ slow * cupy.float32(1e-4)
        gamma += cupy.minimum(slow[0, :768] * 0, 0) + cupy.float32(2)
        y = layer_norm(x, gamma)
    wanted = exact_norm(x.cpu().numpy(), 2.0)
    assert np.allclose(y.cpu().numpy(), wanted, atol=1e-4)
    clock()


@on_gpu
@pytest.mark.gpu
def test_graphs_of_pytorch_have_workspaces_of_their_own():
    torch = pytest.importorskip("torch")
    given = [torch.randn(512, 1024, device="cuda") for _ in range(2)]
    sums = [layer_norm_backward(x, x)[2].clone() for x in given]  # plans are made
    totals = [reduce.reduction(x).item() for x in given]
    captured, results = [], []
    for x in given:  # captured one after the other, on the stream that PyTorch captures on
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                found = layer_norm_backward(x, x)[2], reduce.reduction(x)
        captured.append(graph)
        results.append(found)
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(50):  # side by side
        for graph, stream in zip(captured, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for (of_beta, total), wanted, number in zip(results, sums, totals, strict=True):
        assert torch.allclose(of_beta, wanted, rtol=1e-5, atol=1e-3)
        assert total.item() == number


@on_gpu
@pytest.mark.gpu
def test_graphs_of_cupy_keep_their_workspaces():
    cupy = pytest.importorskip("cupy")
    given = [cupy.random.rand(512, 1024, dtype=cupy.float32) for _ in range(2)]
    outs = [cupy.zeros(1, "f4") for _ in range(2)]
    for x, out in zip(given, outs, strict=True):
        reduce.reduction(x, out=out)
    wanted = [float(out[0]) for out in outs]
    before, held = set(graphs._kept), []
    for x, out in zip(given, outs, strict=True):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            reduce.reduction(x, out=out)
            held.append((stream.end_capture(), stream))
    new = set(graphs._kept) - before
    assert len(new) == 2
    gc.collect()
    for _ in range(30):
        for graph, stream in held:
            graph.launch(stream)
    cupy.cuda.Device().synchronize()
    assert [float(out[0]) for out in outs] == wanted
    del graph
    held.clear()
    gc.collect()
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        reduce.reduction(given[0], out=outs[0])
        again = stream.end_capture()
    assert not new & set(graphs._kept) and again is not None


@on_gpu
@pytest.mark.gpu
def test_results_and_workspaces_are_all_that_is_allocated():
    torch = pytest.importorskip("torch")
    x, out = torch.randn(512, 1024, device="cuda"), torch.zeros(512, 1024, device="cuda")
    layer_norm(x, out=out)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        layer_norm(x, out=out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_constants_are_of_the_gpu_that_is_current():
    assert norm_steps.or_constant(None, 1, 4).copy_to_host().tolist() == [1, 1, 1, 1]
