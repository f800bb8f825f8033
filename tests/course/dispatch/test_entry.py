"""Entry points: which plan serves a call, and what is refused."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from course import backend
from course.backend import cuda
from course.dispatch import array_facts, entry
from course.kernels import reduce, transpose
from course.kernels.activation import activation
from course.kernels.norm import layer_norm, layer_norm_backward
from course.kernels.reconstruct.ladder import reconstruct
from course.kernels.softmax import softmax, softmax_backward
from tests.course.dispatch.arrays import (
    MAKE,
    G,
    X,
    exact_norm,
    exact_softmax,
    factors,
    on_gpu,
    random,
    softmax_parts,
    to_numpy,
)
from tests.course.dispatch.noted_launches import fake_entry, words_of
from tests.threads import at_once


@pytest.mark.parametrize("kind", ["numpy", "numba", "cupy", "torch", "torch host"])
def test_results_are_written_where_out_says(kind):
    x, out = MAKE[kind](X), MAKE[kind](np.zeros_like(X))
    assert layer_norm(x, out=out) is out
    assert np.allclose(to_numpy(out), exact_norm(X), atol=2e-5)
    assert softmax(x, out=x) is x  # in place
    assert np.allclose(to_numpy(x), exact_softmax(X), atol=1e-6)
    u, s, vt = map(MAKE[kind], factors())
    image = MAKE[kind](np.zeros((33, 40), np.float32))
    assert reconstruct(u, s, vt, 7, out=image) is image
    u, s, vt = factors()
    assert np.allclose(to_numpy(image), (u[:, :7] * s[:7]) @ vt[:7], atol=1e-4)


@pytest.mark.parametrize("kind", ["numba", "cupy", "torch"])
def test_a_plan_serves_arrays_that_look_alike_and_no_others(kind):
    make = MAKE[kind]
    for rows in (X, 3 * X, random(9, 51), random(9, 52, seed=8), random(2, 3, 52)):
        assert np.allclose(to_numpy(softmax(make(rows))), exact_softmax(rows), atol=1e-6)
    wide = make(random(9, 80))
    for start in (0, 1, 4, 2):  # slices of wider rows, that begin anywhere
        part = wide[:, start : start + 52]
        assert np.allclose(
            to_numpy(softmax(part)), exact_softmax(to_numpy(wide)[:, start : start + 52]), atol=1e-6
        )
    for half in (X.astype(np.float16), random(9, 52).astype(np.float16)):
        assert np.allclose(to_numpy(softmax(make(half))), exact_softmax(half), atol=1e-3)
    for gamma in (None, make(G), None):
        wanted = exact_norm(X, 1.0 if gamma is None else G)
        assert np.allclose(to_numpy(layer_norm(make(X), gamma)), wanted, atol=2e-5)
    for method in ("one pass", "registers"):
        assert np.allclose(to_numpy(layer_norm(make(X), method=method)), exact_norm(X), atol=2e-4)


def test_plans_are_bounded(monkeypatch):
    monkeypatch.setattr(entry, "MOST_PLANS", 3)
    point = entry.EntryPoint("softmax", ("x",), *softmax_parts(), options=("method",))
    for columns in range(1, 9):
        x = random(2, columns)
        assert np.allclose(point.call((x,), ("registers",)), exact_softmax(x), atol=1e-6)
    assert len(point.plans) <= 3


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: layer_norm([1.0]), TypeError, "x is list: give an array of NumPy, CuPy, PyTorch"),
        (lambda: layer_norm(X, out=X.T.copy()), ValueError, r"out is float32 of shape \(52, 9\)"),
        (lambda: layer_norm(X, out="here"), TypeError, "out is str: give an array"),
        (lambda: layer_norm(None, G), TypeError, "x is None: give an array of NumPy"),
        (lambda: softmax_backward(X, None), TypeError, "y is None: give an array"),
        (lambda: layer_norm(X, method=["auto"]), ValueError, "no method ..auto..: choose"),
        (lambda: layer_norm(X, stream="x"), TypeError, "stream is str: give a stream"),
        (lambda: softmax(cuda.to_device(X)[:, ::2]), ValueError, r"strides \(208, 8\) bytes"),
        (lambda: activation(cuda.to_device(X)[:, 3:]), ValueError, "copy it to C order"),
        (lambda: transpose.transpose(X[0]), ValueError, r"must be \(rows, columns\)"),
        (lambda: reduce.reduction(np.float32(3)), TypeError, "x is float32: give an array"),
        (lambda: layer_norm(X, eps=None), TypeError, "eps is NoneType: give a number"),
        (lambda: layer_norm(X, activation=["gelu"]), ValueError, "no activation"),
        (lambda: activation(X, X), ValueError, "no function"),
        (lambda: softmax(cuda.to_device(X.astype(">f4"))), TypeError, "x holds >f4"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(call, kind, words):
    with pytest.raises(kind, match=words) as raised:
        call()
    problem = raised.value
    assert (
        problem.__context__ is None or problem.__suppress_context__
    )  # no traceback of ours before


def test_some_factors_may_be_on_the_gpu():
    u, s, vt = factors()
    found = reconstruct(cuda.to_device(u), s, cuda.to_device(vt), 7)
    assert np.allclose(found.copy_to_host(), (u[:, :7] * s[:7]) @ vt[:7], atol=1e-4)
    assert reconstruct(u, s, vt[:, :0], 3).shape == (33, 0)


def test_an_out_that_names_a_stream():
    class Named:
        def __init__(self, values):
            self.there = cuda.to_device(values)

        @property
        def __cuda_array_interface__(self):
            return self.there.__cuda_array_interface__ | {"stream": 1}

    out = Named(np.zeros_like(X))
    assert softmax(Named(X), out=out) is out
    assert np.allclose(out.there.copy_to_host(), exact_softmax(X), atol=1e-6)
    assert reduce.reduction(Named(X), "max") == X.max()


def test_arrays_of_a_gpu_are_refused_where_the_course_simulates(monkeypatch):
    if backend.gpu() is not None:
        pytest.skip("there is a GPU")
    x = cuda.to_device(X)
    facts = ("numba", X.shape, X.strides, "<f4", 0, False, 0)
    monkeypatch.setitem(array_facts.READERS, type(x), lambda array: (facts, 0))
    with pytest.raises(ValueError, match="x lies on a GPU, and the course does not use one here"):
        softmax(x)


def test_an_option_that_compares_equal_is_checked_again():
    assert reconstruct(*factors(), 1).shape == (33, 40)
    with pytest.raises(ValueError, match="k is 0"):
        reconstruct(*factors(), 0)


def test_what_looks_as_the_latest_is_launched_again_by_each_thread_with_words_of_its_own(noted):
    point, places, results = fake_entry(), [], []
    base = cuda.to_device(random(4, 52))
    xs = [cuda.to_device(X), cuda.to_device(2 * X), base, base[1:, 1:], cuda.to_device(3 * X)]

    def calls():
        for x in [*xs, *xs[::-1], xs[0], xs[0]]:
            result = point.call((x,), (np.float32(1.5),))
            results.append(result)  # so that no address comes twice
            words = words_of(noted.launched[-1][2], 19)
            ends = [array.__cuda_array_interface__["data"][0] for array in (x, result)]
            assert [words[4], words[14]] == ends and words[5:7] == list(x.shape)
            places.append((threading.get_ident(), noted.launched[-1][2]))

    calls()
    at_once(calls)
    assert len(places) == 24
    last = {who: [place for one, place in places if one == who][-1] for who, _ in places}
    assert len(last) == len(set(last.values())) == 2  # each thread's own
    point.call((xs[0],), (np.float32(2),))
    assert words_of(noted.launched[-1][2], 19)[9] == int(np.float32(2).view(np.uint32))
    with pytest.warns(RuntimeWarning, match="through Numba"), pytest.raises(TypeError):
        point.call((xs[0],), (np.ones(3),))


def test_an_array_is_read_once_a_call(noted, monkeypatch):
    reader, read = array_facts.READERS[type(cuda.to_device(X))], []
    monkeypatch.setitem(
        array_facts.READERS, type(cuda.to_device(X)), lambda array: read.append(1) or reader(array)
    )
    x = cuda.to_device(X)
    for point in (fake_entry(), fake_entry(memory=True)):
        for _ in range(3):
            point.call((x,), (np.float32(1),))
        read.clear()
        point.call((x,), (np.float32(1),))
        assert len(read) == 1


def test_options_are_compared_as_they_are_kept():
    x = cuda.to_device(np.full((2, 8), 3, np.float32))
    for _ in range(3):
        assert np.isnan(layer_norm(x, eps=np.float16(0)).copy_to_host()).all()
    assert (layer_norm(x, eps=1e-8).copy_to_host() == 0).all()
    with pytest.raises(TypeError, match="eps is ndarray: give a number"):
        layer_norm(x, eps=np.ones(2))


@on_gpu
@pytest.mark.gpu
def test_threads_do_not_mix_their_addresses():
    torch = pytest.importorskip("torch")
    inputs = [torch.full((64, 768), float(n), device="cuda") for n in range(8)]
    rows = [torch.randn(64, 768, device="cuda") for _ in range(8)]
    wanted = [torch.nn.functional.layer_norm(row, (768,)) for row in rows]
    wrong = []

    def work(n):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(300):
                if not bool((activation(inputs[n], "relu") == inputs[n]).all()):
                    wrong.append(n)
                if reduce.reduction(inputs[n]).item() != n * 64 * 768:
                    wrong.append(("sum", n))
                grads = layer_norm_backward(rows[n], rows[n])[2]
                if not torch.allclose(grads, rows[n].sum(0), atol=1e-3):
                    wrong.append(("backward", n))
            if not torch.allclose(layer_norm(rows[n]), wanted[n], atol=1e-4):
                wrong.append(("norm", n))

    torch.cuda.synchronize()
    at_once(*(lambda n=n: work(n) for n in range(8)))
    assert wrong == []


def test_what_prepares_a_plan_holds_nothing_of_its_caller():
    def leaves_a_cycle():
        kept = [sys._getframe()]  # as exceptions of Numba's compiler are
        return len(kept)

    def held(call):
        array = np.zeros(1)
        assert call(leaves_a_cycle) == 1
        return weakref.ref(array)

    gc.disable()
    try:
        assert held(lambda work: work())() is not None
        assert held(entry.apart)() is None
    finally:
        gc.enable()
