"""What is handed to cuBLAS: which products, decided once a plan, and what they are."""

from types import SimpleNamespace

import numpy as np
import pytest

from course import gpu
from course.heuristics import gemm_library
from course.kernels.gemm import half, library
from tests.course.kernels.gemm.factors import Product
from tests.course.kernels.gemm.test_thin import drawn

pytestmark = pytest.mark.usefixtures("h200")


@pytest.fixture
def handed(monkeypatch):
    """All that can be is handed over; the sizes by which it was decided."""
    asked = []
    monkeypatch.setattr(gemm_library, "is_faster", lambda p, *_: asked.append(p) or True)
    monkeypatch.setattr(half, "backend", SimpleNamespace(gpu=lambda: "a GPU"))
    return asked


def product(rng, seed, method="auto", activation="", **more):
    """A drawn product by `gemm`, which is right."""
    its = Product(*drawn(rng, (90, 80), 300), seed=seed, **more)
    a, b, bias, residual, out = its.arrays
    half.gemm(a, b, its.problem.layout, bias, activation, residual, out, method)
    its.check([])
    return its


@pytest.mark.drawn(8)
@pytest.mark.parametrize("seed", range(6))
def test_drawn_products(blas, handed, seed):
    rng = np.random.default_rng(seed)
    more = {"biased": seed % 2 > 0, "added": ("", "residual", "in place")[seed % 3]}
    its = product(rng, seed, **more)
    assert [p[:4] for p in handed] == [its.problem[:4]]
    product(rng, seed, "library", **more)
    assert len(handed) == 1
    if gpu() is None:
        assert len(blas.asked) == 2 and blas.asked[0] == its.problem[1:4]


def test_kernels_do_it_without_cublas_and_where_they_are_faster(blas, handed, monkeypatch):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(library, "cublas", lambda: None)
    its = product(rng, 1)
    a, b = its.arrays[:2]
    with pytest.raises(ValueError, match="'library' of gemm needs a GPU, and CuPy or PyTorch"):
        half.gemm(a, b, its.problem.layout, method="library")
    monkeypatch.setattr(gemm_library, "is_faster", lambda *_: False)
    product(rng, 2)
    assert len(handed) == 1 and not blas.asked


def test_matrices_without_elements_and_statuses_are_refused_in_words(blas, monkeypatch):
    empty = np.ones((3, 0), np.float16)
    with pytest.raises(ValueError, match="'library' of gemm takes matrices that have elements"):
        half.gemm(empty, empty.T, method="library")
    monkeypatch.setattr(blas, "cublasGemmEx", lambda *_: 14, raising=False)
    if gpu() is None:
        with pytest.raises(RuntimeError, match="cuBLAS does not multiply: its status is 14"):
            half.gemm(*(np.ones((3, 3), np.float16),) * 2, method="library")


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="cuBLAS takes a GPU")
@pytest.mark.drawn(12)
@pytest.mark.parametrize("activation", ["", "gelu", "gelu tanh"])
def test_streams_and_graphs_on_a_gpu(rng, activation):
    torch = pytest.importorskip("torch")
    rows, columns, depth, layout, element = drawn(rng, (700, 700), 9000)
    sides = ((rows, depth), (depth, columns))
    kind = {"device": "cuda", "dtype": getattr(torch, element)}
    a, b = (
        torch.randn(side[::-1] if transposed else side, **kind)
        for side, transposed in zip(sides, half.LAYOUTS[layout], strict=True)
    )
    bias, residual = torch.randn(columns, **kind), torch.randn(rows, columns, **kind)

    def found(**more):
        return half.gemm(a, b, layout, bias, activation, residual, method="library", **more)

    there = half.gemm(a, b, layout, bias, activation, residual, method="plain")
    alone = found()
    error = (alone.double() - there.double()).norm() / there.double().norm()
    assert error < {"float16": 1e-3, "bfloat16": 8e-3}[element]
    streams = [torch.cuda.Stream() for _ in range(3)]
    several = [found(stream=stream) for _ in range(9) for stream in streams]
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    assert all(torch.equal(one, alone) for one in several)
    with torch.cuda.graph(graph):
        captured = found()
    a.mul_(-1)
    graph.replay()
    assert torch.equal(captured, found()) and not torch.equal(captured, alone)
