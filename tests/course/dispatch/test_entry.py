"""The way in of all front doors: arrays of any library, plans, streams, graphs, refusals."""

import contextlib
import ctypes
import gc
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.backend import cuda
from course.dispatch import array_facts as libraries
from course.dispatch import entry as doors
from course.dispatch import graphs, plans
from course.dispatch import prepared as launches
from course.dispatch import slots as layout
from course.kernels import reduce, transpose
from course.kernels.activation import activation, activation_gradient
from course.kernels.norm import first_steps as norm_steps
from course.kernels.norm import layer_norm, layer_norm_backward
from course.kernels.reconstruct.ladder import reconstruct
from course.kernels.softmax import softmax, softmax_backward
from course.kernels.steps import Launch
from course.kernels.svd import rank_k, svd
from warpsim.host import libcuda

on_gpu = pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")


def library(name):
    """A library that works here, or skip."""
    if name in ("numpy", "numba"):
        return np
    module = pytest.importorskip(name.split()[0])
    if name in ("cupy", "torch") and backend.gpu() is None:
        pytest.skip("needs a GPU")
    return module


MAKE = {
    "numpy": lambda values: values.copy(),
    "numba": lambda values: cuda.to_device(values),
    "cupy": lambda values: library("cupy").asarray(values),
    "torch": lambda values: library("torch").from_numpy(values.copy()).cuda(),
    "torch host": lambda values: library("torch host").from_numpy(values.copy()),
}


def to_numpy(array):
    for name in ("copy_to_host", "get"):
        if hasattr(array, name):
            return getattr(array, name)()
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def factors(rows=33, columns=40, r=30):
    return random(rows, r, seed=1), np.abs(random(r, seed=2)), random(r, columns, seed=3)


def exact_norm(x, gamma=1.0, beta=0.0):
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def exact_softmax(x):
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


X, G, B = random(9, 52), random(52, seed=4), random(52, seed=5)

#: Every front door: its arrays, and how it is called.
DOORS = {
    "layer_norm": ((X, G, B), layer_norm),
    "layer_norm_backward": ((X, X[::-1].copy(), G), layer_norm_backward),
    "softmax": ((X,), softmax),
    "softmax_backward": ((X, X), softmax_backward),
    "activation": ((X,), activation),
    "activation_gradient": ((X, X), activation_gradient),
    "reduction": ((X,), reduce.reduction),
    "reconstruct": (factors(), lambda *a: reconstruct(*a, 7)),
    "reconstruct, tensor cores": (factors(64, 64), lambda *a: reconstruct(*a, 16, method="naive")),
    "transpose": ((X,), transpose.transpose),
    "svd": ((random(12, 10),), svd),
    "rank_k": ((random(2, 40, 36),), lambda a: rank_k(a, 3)),
}
LONG = {"svd", "rank_k"}  # without a GPU


def several(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("kind", ["numba", "cupy", "torch", "torch host"])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in DOORS]
)
def test_every_front_door_takes_every_librarys_arrays_and_hands_back_its_own(kind, name):
    arrays, call = DOORS[name]
    given = [MAKE[kind](array) for array in arrays]
    expected = several(call(*arrays))
    for _ in range(2):  # the plan is made, and used
        found = several(call(*given))
        for one, wanted in zip(found, expected, strict=True):
            assert np.array_equal(to_numpy(one), wanted)
            if name != "reduction" or kind not in ("numba",):
                assert type(one).__module__.split(".")[0] == type(given[0]).__module__.split(".")[0]
                if hasattr(one, "device") and kind.startswith("torch"):
                    assert one.device == given[0].device


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
    monkeypatch.setattr(doors, "MOST_PLANS", 3)
    door = doors.EntryPoint("softmax", ("x",), *_parts(), options=("method",))
    for columns in range(1, 9):
        x = random(2, columns)
        assert np.allclose(door.call((x,), ("registers",)), exact_softmax(x), atol=1e-6)
    assert len(door.plans) <= 3


def _parts():
    from course.kernels.softmax import forward

    return forward._result, forward._launches


# --- what is refused ------------------------------------------------------------------------------


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
    ],
)
def test_what_does_not_fit_gets_one_sentence(call, kind, words):
    with pytest.raises(kind, match=words) as raised:
        call()
    problem = raised.value
    assert (
        problem.__context__ is None or problem.__suppress_context__
    )  # no traceback of ours before


def test_more_that_does_not_fit():
    u, s, vt = factors()
    for call, kind, words in (
        (lambda: layer_norm(X, eps=None), TypeError, "eps is NoneType: give a number"),
        (lambda: layer_norm(X, activation=["gelu"]), ValueError, "no activation"),
        (lambda: activation(X, X), ValueError, "no function"),
        (lambda: softmax(cuda.to_device(X.astype(">f4"))), TypeError, "x holds >f4"),
    ):
        with pytest.raises(kind, match=words):
            call()
    assert reconstruct(u, s, vt[:, :0], 3).shape == (33, 0)


def test_some_factors_may_be_on_the_gpu():
    u, s, vt = factors()
    found = reconstruct(cuda.to_device(u), s, cuda.to_device(vt), 7)
    assert np.allclose(found.copy_to_host(), (u[:, :7] * s[:7]) @ vt[:7], atol=1e-4)


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
    monkeypatch.setitem(libraries.READERS, type(x), lambda array: (facts, 0))
    with pytest.raises(ValueError, match="x lies on a GPU, and the course does not use one here"):
        softmax(x)


def test_several_threads_may_factorise_at_once():
    matrices = [random(6, 5, seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for a, (u, s, vt) in zip(matrices, pool.map(svd, matrices), strict=True):
            assert np.allclose((u * s) @ vt, a, atol=1e-5)


def test_a_read_only_out_is_refused():
    out = np.zeros_like(X)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only: give memory that can be written"):
        softmax(X, out=out)
    read_only = X.copy()
    read_only.flags.writeable = False
    assert np.allclose(softmax(read_only), exact_softmax(X), atol=1e-6)


def test_an_option_that_compares_equal_is_checked_again():
    assert reconstruct(*factors(), 1).shape == (33, 40)
    with pytest.raises(ValueError, match="k is 0"):
        reconstruct(*factors(), 0)


def test_tensors_that_require_gradients_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X.copy()).requires_grad_()
    with pytest.raises(ValueError, match=r"x requires a gradient, .* or give x.detach\(\)"):
        layer_norm(x)
    with torch.no_grad():
        assert np.allclose(layer_norm(x).numpy(), exact_norm(X), atol=2e-5)


def test_libraries_of_the_array_api_get_their_own_arrays_back():
    class Space:
        @staticmethod
        def from_dlpack(array):
            return Other(np.from_dlpack(array))

    class Other:  # as JAX's and others', on the host
        def __init__(self, values):
            self.values = values

        def __array_namespace__(self):
            return Space

        def __dlpack__(self, **given):
            return self.values.__dlpack__(**given)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    found = layer_norm(Other(X.copy()))
    assert isinstance(found, Other) and np.allclose(found.values, exact_norm(X), atol=2e-5)
    out = Other(np.zeros_like(X))
    if np.from_dlpack(out.values).flags.writeable:  # NumPy before 2.2 takes over to read alone
        assert softmax(Other(X.copy()), out=out) is out
        assert np.allclose(out.values, exact_softmax(X), atol=1e-6)
    else:
        with pytest.raises(ValueError, match="out is read-only"):
            softmax(Other(X.copy()), out=out)


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4), "f4"), np.zeros((3, 4), "f4").T, np.zeros((6, 8), "f4")[:, :4],
        np.zeros((6, 8), "f4")[::2], np.zeros((1, 5), "f2"), np.zeros((0, 5), "f4"),
        np.zeros((2, 3, 4), "f4")[:, :, 1:], np.zeros(7, "i4")[::3],
    ],
)  # fmt: skip
def test_a_layout_is_typed_and_ordered_as_numbas_device_arrays(array):
    there = layout.ArraySlot(3, array.shape, array.strides, array.dtype, beyond=8)
    assert there.is_c_contiguous() == array.flags.c_contiguous
    assert there.is_f_contiguous() == array.flags.f_contiguous
    assert (there.size, there.ndim, there.nbytes) == (array.size, array.ndim, array.nbytes)
    address = there.__cuda_array_interface__["data"][0]
    assert address % 16 == 8 and address >= 1 << 56  # no address of memory
    if array.flags.c_contiguous:
        assert there.reshape(array.size).strides == array.reshape(-1).strides
    else:
        with pytest.raises(ValueError, match="is not"):
            there.reshape(array.size + 1)


def test_workspaces_are_arrays_but_in_a_plan():
    room = layout.workspace((2, 3), np.float32, zeros=True)
    assert not room.copy_to_host().any()
    with layout.planning(5) as found:
        first, second = layout.workspace(4, "f4"), layout.workspace((2, 2), "u4", zeros=True)
    assert [first.slot, second.slot] == [5, 6]
    assert [(one.nbytes, one.zeros) for one in found] == [(16, False), (16, True)]


def test_facts_say_what_arrays_are():
    about, _ = libraries.reader_of(X)(X)
    seen = libraries.ArrayFacts(about)
    assert (seen.shape, seen.strides, seen.dtype, seen.device) == (X.shape, X.strides, X.dtype, -1)
    assert libraries.reader_of(SimpleNamespace(shape=(3,))) is None


# --- packed, with a driver that only notes what it is given ---------------------------------------


class NotingDriver:
    """Takes what `course.dispatch.prepared` calls, and keeps the words of each launch."""

    def __init__(self):
        self.launched, self.capturing, self.ordered = [], False, []

    def cuLaunchKernelEx(self, how, kernel, what, nothing):
        configuration = launches.Configuration.from_address(how.value)
        self.launched.append((kernel.value, configuration.stream or 0, what.value))
        return 0


class FakeKernel:
    """What a kernel of numba.cuda looks like from outside; its configuration is always the same."""

    griddim, blockdim, sharedmem = (3, 1, 1), (64, 1, 1), 0
    cooperative = debug = False
    extensions, __name__ = (), "fake"

    def __init__(self):
        self.dispatcher = self._codelibrary = self

    def __getitem__(self, how):
        self.how = how
        return self

    def typeof_pyval(self, value):
        from numba import typeof

        return typeof(value)

    def compile(self, kinds):
        self.argument_types = kinds
        return self

    def get_cufunc(self):
        return SimpleNamespace(handle=SimpleNamespace(value=77))


@pytest.fixture
def noted(monkeypatch):
    """A driver that notes, and device arrays of a GPU 0 that look like Numba's."""
    driver = NotingDriver()
    monkeypatch.setattr(libcuda, "library", lambda: driver)
    monkeypatch.setattr(launches, "are_many", lambda: False)
    monkeypatch.setattr(graphs, "is_captured", lambda stream: driver.capturing)
    monkeypatch.setattr(launches, "zero", lambda *given: driver.ordered.append(given))
    monkeypatch.setattr(graphs, "keep_with_graph", lambda *given: driver.ordered.append(given))
    monkeypatch.setattr(backend.cuda, "gpus", [contextlib.nullcontext()], raising=False)
    monkeypatch.setattr(doors.backend, "gpu", lambda: "a GPU")

    def look(array):
        address = array.__cuda_array_interface__["data"][0]
        return ("numba", array.shape, array.strides, array.dtype.char, 0, False), address

    monkeypatch.setitem(libraries.READERS, type(cuda.to_device(X)), look)
    return driver


def words_of(address, count):
    pointers = (ctypes.c_void_p * count).from_address(address)
    return [ctypes.c_int64.from_address(pointer).value for pointer in pointers]


def fake_door(**given):
    def result(x, factor):
        return x.shape, np.float32

    def listed(x, out, factor):
        room = layout.workspace((2, 3), np.float32, zeros=True) if given else None
        return [Launch(FakeKernel(), 3, 64, (x, factor, *([room] if given else []), out))]

    return doors.EntryPoint("fake", ("x",), result, listed, options=("factor",))


def test_a_launchs_words_are_those_of_numbas_convention(noted):
    door, x = fake_door(), cuda.to_device(X)
    out = door.call((x,), (np.float32(1.5),))
    assert door.launched_by(x) == "prepared"
    ((kernel, stream, what),) = noted.launched
    begin, end = (array.__cuda_array_interface__["data"][0] for array in (x, out))
    assert (kernel, stream) == (77, 0)
    assert words_of(what, 19) == [
        0, 0, X.size, 4, begin, 9, 52, 208, 4,
        int(np.float32(1.5).view(np.uint32)),
        0, 0, X.size, 4, end, 9, 52, 208, 4,
    ]  # fmt: skip
    more = cuda.to_device(2 * X)
    door.call((more,), (np.float32(1.5),), out=x, stream=5)
    door.call((more,), (np.float32(1.5),))
    assert [stream for _, stream, _ in noted.launched] == [0, 5, 0]
    assert len(door.plans) == 2  # with out, and without


def test_what_a_launch_says_is_configured_once_a_plan(noted):
    kernel, asked = FakeKernel(), []

    def listed(x, out, factor):
        asked.append(factor)
        return [Launch(kernel, 3, 64, (x, factor, out), 256)]

    door = doors.EntryPoint(
        "fake", ("x",), lambda x, _: (x.shape, x.dtype), listed, options=("factor",)
    )
    x = cuda.to_device(X)
    for _ in range(3):
        door.call((x,), (np.float32(1.5),))
    assert asked == [np.float32(1.5)] and kernel.how == (3, 64, 0, 256)
    assert door.launched_by(x) == "prepared" and len(noted.launched) == 3


def test_what_looks_as_the_latest_is_launched_again_by_each_thread_with_words_of_its_own(noted):
    door, places, results = fake_door(), [], []
    base = cuda.to_device(random(4, 52))
    xs = [cuda.to_device(X), cuda.to_device(2 * X), base, base[1:, 1:], cuda.to_device(3 * X)]

    def calls():
        for x in [*xs, *xs[::-1], xs[0], xs[0]]:
            result = door.call((x,), (np.float32(1.5),))
            results.append(result)  # so that no address comes twice
            words = words_of(noted.launched[-1][2], 19)
            ends = [array.__cuda_array_interface__["data"][0] for array in (x, result)]
            assert [words[4], words[14]] == ends and words[5:7] == list(x.shape)
            places.append((threading.get_ident(), noted.launched[-1][2]))

    calls()
    thread = threading.Thread(target=calls)
    thread.start()
    thread.join()
    assert len(places) == 24
    last = {who: [place for one, place in places if one == who][-1] for who, _ in places}
    assert len(last) == len(set(last.values())) == 2  # each thread's own
    door.call((xs[0],), (np.float32(2),))
    assert words_of(noted.launched[-1][2], 19)[9] == int(np.float32(2).view(np.uint32))
    with pytest.warns(RuntimeWarning, match="through Numba"), pytest.raises(TypeError):
        door.call((xs[0],), (np.ones(3),))


def test_an_array_is_read_once_a_call(noted, monkeypatch):
    reader, read = libraries.READERS[type(cuda.to_device(X))], []
    monkeypatch.setitem(
        libraries.READERS, type(cuda.to_device(X)), lambda array: read.append(1) or reader(array)
    )
    x = cuda.to_device(X)
    for door in (fake_door(), fake_door(room=True)):
        for _ in range(3):
            door.call((x,), (np.float32(1),))
        read.clear()
        door.call((x,), (np.float32(1),))
        assert len(read) == 1


def test_a_workspace_that_is_lent_is_held_until_all_is_launched(noted, monkeypatch):
    class Room:
        __cuda_array_interface__ = {"data": (4096, False)}

    numba, made, alive = libraries.library("numba"), [], []

    def maker(shape, dtype, device):
        if dtype != np.uint8:
            return lambda: cuda.device_array(shape, dtype)
        return lambda: made.append(weakref.ref(room := Room())) or room

    monkeypatch.setattr(numba, "lends", True, raising=False)
    monkeypatch.setattr(numba, "maker", maker, raising=False)
    monkeypatch.setattr(numba, "is_captured_by_others", lambda address: False, raising=False)
    launched = noted.cuLaunchKernelEx
    monkeypatch.setattr(
        noted, "cuLaunchKernelEx", lambda *how: alive.append(made[-1]()) or launched(*how)
    )

    def listed(x, out):
        room = layout.workspace((2, 3), np.float32)
        first, second = (x, room), (room, out)
        return [Launch(FakeKernel(), 3, 64, given) for given in (first, second)]

    door = doors.EntryPoint("fake", ("x",), lambda x: (x.shape, np.float32), listed)
    door.call((cuda.to_device(X),))
    assert len(alive) == 2 and None not in alive
    assert words_of(noted.launched[-1][2], 9)[4] == 4096


def test_options_are_compared_as_they_are_kept():
    x = cuda.to_device(np.full((2, 8), 3, np.float32))
    for _ in range(3):
        assert np.isnan(layer_norm(x, eps=np.float16(0)).copy_to_host()).all()
    assert (layer_norm(x, eps=1e-8).copy_to_host() == 0).all()
    with pytest.raises(TypeError, match="eps is ndarray: give a number"):
        layer_norm(x, eps=np.ones(2))


def test_a_slice_begins_where_it_begins(noted):
    door = fake_door()
    wide = cuda.to_device(random(9, 80))
    part = wide[:, 3:55]
    door.call((part,), (np.float32(1),), out=cuda.to_device(X))
    words = words_of(noted.launched[-1][2], 9)
    assert words[4] == wide.__cuda_array_interface__["data"][0] + 12
    assert words[5:] == [9, 52, 320, 4]


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
    monkeypatch.setattr(launches, "are_many", lambda: True)
    monkeypatch.setattr(launches, "is_current", lambda device: True)
    door, x = fake_door(), cuda.to_device(X)
    with pytest.raises(
        ValueError, match="^stream is one of another GPU, and the arrays lie on GPU 0"
    ):
        door.call((x,), (1.0,), None, stream)
    assert not noted.launched
    contexts["cuStreamGetCtx"] = 10
    for own in (OfAnother(cuda_stream=9, device_index=0), OfAnother(ptr=9, device_id=-1), 9, 0, 2):
        door.call((x,), (1.0,), None, own)
    assert len(noted.launched) == 5


def test_each_stream_and_each_graph_has_a_workspace_of_its_own(noted):
    door, x, out = fake_door(room=True), cuda.to_device(X), cuda.to_device(X)

    def room(stream):
        door.call((x,), (np.float32(1),), out=out, stream=stream)
        return words_of(noted.launched[-1][2], 15)[14]

    first, second = room(1), room(2)
    assert first != second and (room(1), room(2)) == (first, second)
    assert len(noted.ordered) == 2  # zeros, once for each
    noted.capturing = True
    captured = room(1), room(1)
    assert len({first, second, *captured}) == 4
    noted.capturing = False
    assert room(1) == first
    for stream in range(3, 4 + plans.MOST_STREAMS):
        room(stream)
    zeroed = len(noted.ordered)
    room(stream)
    assert len(noted.ordered) == zeroed
    room(2)  # the oldest went
    assert len(noted.ordered) == zeroed + 1


# --- on a GPU -------------------------------------------------------------------------------------


@on_gpu
@pytest.mark.gpu
def test_launches_are_packed_on_this_machine():
    from course.kernels.softmax import forward

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        x = cuda.to_device(X)
        softmax(x)
        assert forward._ENTRY.launched_by(x) == "prepared"


@on_gpu
@pytest.mark.gpu
def test_where_numbas_insides_are_others_numba_launches(monkeypatch):
    class Refusing:
        def __init__(self, *args):
            raise launches.CannotPrepare("no handle")

    monkeypatch.setattr(launches, "PreparedLaunch", Refusing)
    door = doors.EntryPoint("softmax", ("x",), *_parts(), options=("method",))
    for kind in ("numba", "cupy", "torch"):
        x = MAKE[kind](X)
        with pytest.warns(RuntimeWarning, match="launches go through Numba"):
            found = door.call((x,), ("registers",))
        assert np.allclose(to_numpy(found), exact_softmax(X), atol=1e-6)
        assert door.launched_by(x) == "Numba"


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
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@on_gpu
@pytest.mark.gpu
def test_a_thread_that_has_not_touched_the_gpu_can_call():
    torch = pytest.importorskip("torch")
    x, out = torch.randn(64, 768, device="cuda"), torch.zeros(64, 768, device="cuda")
    softmax(x, out=out)
    torch.cuda.synchronize()
    out.zero_()
    thread = threading.Thread(target=softmax, args=(x, out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.allclose(out, torch.softmax(x, 1), atol=1e-6)


@on_gpu
@pytest.mark.gpu
def test_graphs_of_pytorch_have_workspaces_of_their_own():
    torch = pytest.importorskip("torch")
    given = [torch.randn(512, 1024, device="cuda") for _ in range(2)]
    sums = [layer_norm_backward(x, x)[2].clone() for x in given]  # plans are made
    totals = [reduce.reduction(x).item() for x in given]
    captured, results = [], []
    for x in given:  # captured in turn, on the stream that PyTorch captures on
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
    assert norm_steps.constant(1, 4).copy_to_host().tolist() == [1, 1, 1, 1]
