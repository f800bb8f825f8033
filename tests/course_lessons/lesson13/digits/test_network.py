"""The digit network: its data, weights, layers, training, bench and charts."""

import contextlib
import dataclasses
import gzip
import io
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course import backend, cuda, trace
from course.measure import event_clock
from course.measure.recorded import Figure
from course.measure.roofline import Roofs
from course.measure.timing import timing_of
from course_lessons.lesson13 import batch_charts
from course_lessons.lesson13.digits import network as cnn
from course_lessons.lesson13.digits import one_kernel
from course_lessons.lesson13.digits.network import Network, accuracy, reference
from course_lessons.lesson13.digits.weights import ACTIVATIONS, Weights, multiplications, shapes
from course_models import digits
from course_recording import launch_costs, peers
from course_recording.frame import Bench
from course_recording.peers.torch import numba_activation, torch_network, triton_activation
from course_recording.subjects import cnn as subject
from tests.pictures import assert_described
from tools.train import cnn as train_cnn

METHODS = ("fused", "naive", "whole")

LIMIT = 1e-6  # relative Frobenius error, of float32 against float64
SIMULATED = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


@pytest.fixture(scope="module")
def some():
    """Held-out digits."""
    return digits.held_out()


def assert_near(scores, expected):
    assert scores.dtype == np.float32 and scores.shape == expected.shape
    assert np.linalg.norm(scores - expected) <= LIMIT * np.linalg.norm(expected)


# --- the images ----------------------------------------------------------------------------------


def test_every_fifth_image_is_held_out_and_no_image_is_in_both(some):
    (x, labels), (test, truth) = digits.training(), some
    assert x.shape == (1437, 1, 8, 8) and test.shape == (360, 1, 8, 8)
    for images, its in ((x, labels), (test, truth)):
        assert images.dtype == np.float32 and images.flags.c_contiguous
        assert images.min() == 0 and images.max() == 1 and len(images) == len(its)
        assert set(its) == set(range(10))
    known = {image.tobytes() for image in x}
    assert not any(image.tobytes() in known for image in test)


def test_the_images_are_those_of_scikit_learn(some):
    sklearn = pytest.importorskip("sklearn.datasets")
    bunch = sklearn.load_digits()
    assert np.array_equal(bunch.images[::5], 16 * some[0][:, 0])
    assert np.array_equal(bunch.target[::5], some[1])


def idx(array, kind=8):
    """The bytes of an IDX file."""
    head = bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A folder with MNIST's files of seven images of noise, some packed."""
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (7, 28, 28), np.uint8)
    labels = np.array([0, 9, 3, 3, 7, 1, 2], np.uint8)
    for part, pack in (("train", False), ("t10k", True)):
        for name, array in zip(digits.PARTS[part], (images, labels), strict=True):
            content = idx(array)
            path = tmp_path / (name + ".gz" * pack)
            path.write_bytes(gzip.compress(content) if pack else content)
    return tmp_path


def test_mnist_is_read_from_idx_files_packed_or_not(folder):
    x, labels = digits.mnist(folder, "train")
    again, same = digits.mnist(folder, "t10k")
    assert x.shape == (7, 1, 28, 28) and x.dtype == np.float32 and labels.dtype == np.int64
    assert np.array_equal(x, again) and np.array_equal(labels, same)
    assert list(labels) == [0, 9, 3, 3, 7, 1, 2]
    content = (folder / "train-images-idx3-ubyte").read_bytes()[16:]
    assert np.array_equal(np.round(255 * x).astype(np.uint8).tobytes(), content)
    packed = folder / "t10k-labels-idx1-ubyte.gz"  # the content says whether it is packed
    packed.rename(folder / "t10k-labels-idx1-ubyte")
    assert np.array_equal(digits.mnist(folder, "t10k")[1], labels)


def test_files_that_are_no_idx_files_are_refused_with_the_reason(tmp_path):
    path, good = tmp_path / "x-ubyte", idx(np.zeros((2, 3), np.uint8))
    packed = gzip.compress(good)
    for content, words in (
        (b"", "is no IDX file: it begins with nothing"),
        (b"\x89PNG\r\n", "is no IDX file: it begins with 89 50 4e 47"),
        (idx(np.zeros(3, np.uint8), kind=0x0D), "type 0x0d; read are unsigned bytes, 0x08"),
        (bytes((0, 0, 8, 0)), "has 0 axes; at least 1 is expected"),
        (good[:9], "is cut off: it ends before the lengths of its 2 axes"),
        (good[:-1], "is cut off: 2 x 3 numbers are 6 bytes, and 5 follow"),
        (good + b"\0", "is too long: 2 x 3 numbers are 6 bytes, and more follow"),
        (packed[:-9], "is packed by gzip and cannot be unpacked"),
        (packed[:12] + b"\xff\xff" + packed[14:], "is packed by gzip and cannot be unpacked"),
    ):
        path.write_bytes(content)
        with pytest.raises(digits.BadDigits, match=words) as caught:
            digits.read_idx(path)
        assert str(caught.value).startswith("x-ubyte ")
    path.write_bytes(good)
    with pytest.raises(digits.BadDigits, match="has 2 axes; 3 are expected"):
        digits.read_idx(path, axes=3)
    assert digits.read_idx(path).shape == (2, 3)


def test_files_that_do_not_fit_together_are_refused(folder):
    images, labels = (folder / name for name in digits.PARTS["train"])
    with pytest.raises(ValueError, match="no part 'test': choose train, t10k"):
        digits.mnist(folder, "test")
    whole = labels.read_bytes()
    for array, words in (
        (np.zeros(6, np.uint8), "has 7 images and train-labels-idx1-ubyte 6 labels"),
        (np.full(7, 10, np.uint8), "has the label 10; digits are 0 to 9"),
        (np.zeros((7, 1), np.uint8), "has 2 axes; 1 are expected"),
    ):
        labels.write_bytes(idx(array))
        with pytest.raises(digits.BadDigits, match=words):
            digits.mnist(folder)
    labels.write_bytes(whole)
    images.write_bytes(idx(np.zeros((7, 8, 8), np.uint8)))
    with pytest.raises(digits.BadDigits, match="images of 8 x 8 pixels; MNIST's are 28 x 28"):
        digits.mnist(folder)
    images.unlink()
    with pytest.raises(FileNotFoundError, match="neither train-images-idx3-ubyte nor .*gz in"):
        digits.mnist(folder)


# --- right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation",
    [pytest.param(name, marks=pytest.mark.slow if name != "silu" else ()) for name in ACTIVATIONS],
)
def test_the_shipped_networks_read_at_least_97_percent_of_the_held_out_digits(activation, some):
    x, labels = some
    weights = Weights.trained(activation)
    assert weights.activation == activation and weights.side == 8
    expected = reference(x, weights)
    assert accuracy(expected, labels) >= 0.97
    scores = Network(weights)(x)
    assert_near(scores, expected)
    assert accuracy(scores, labels) == accuracy(expected, labels)


def test_the_documentation_states_the_accuracies(some):
    text = " ".join((digits.data_path("README.md")).read_text(encoding="utf-8").split())
    for activation in ACTIVATIONS:
        right = accuracy(reference(some[0], Weights.trained(activation)), some[1])
        assert f"{batch_charts.TITLES[activation].split()[0]} {right:.1%}" in text


@pytest.mark.drawn(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [1, 7, 33])
def test_every_method_agrees_with_float64_for_any_batch(method, batch, some):
    x, out = np.ascontiguousarray(some[0][:batch]), np.full((batch, 10), np.nan, np.float32)
    for activation in ACTIVATIONS:
        weights = Weights.random(batch, activation)
        assert Network(weights)(x, method=method, out=out) is out
        assert_near(out, reference(x, weights))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("side", [4, 12, 28])
def test_weights_for_other_sizes_make_a_network_for_other_images(method, side):
    weights = Weights.random(2, "silu", side)
    x = np.random.default_rng(1).random((3, 1, side, side), np.float32)
    assert weights.side == side
    assert_near(Network(weights)(x, method=method), reference(x, weights))


def test_pytorch_agrees_with_the_reference(some):
    torch = pytest.importorskip("torch")
    for activation in ACTIVATIONS:
        weights = Weights.trained(activation)
        network = torch_network(torch, weights, device="cpu")
        assert_near(network(torch.from_numpy(some[0])).numpy(), reference(some[0], weights))
        doubled = torch_network(torch, weights, lambda x: 0 * x, device="cpu")
        assert np.array_equal(doubled(torch.zeros(1, 1, 8, 8)).numpy()[0], weights.out_bias)


class Tensor:
    """What an activation needs of a tensor; the simulator's memory, whole or as if in pieces."""

    def __init__(self, memory, whole=True):
        self.memory, self.whole = memory, whole
        self.__cuda_array_interface__ = memory.__cuda_array_interface__

    def contiguous(self):
        return Tensor(self.memory)

    def view(self, size):
        assert self.whole and size == -1
        return Tensor(self.memory.reshape(self.memory.size))


@SIMULATED
@pytest.mark.parametrize("pointer", [0, 7])
@pytest.mark.parametrize("shape", [(3, 16, 8, 8), (5, 7)])
def test_activations_take_tensors_where_they_lie_on_pytorchs_stream(pointer, shape):
    stream, streams = SimpleNamespace(cuda_stream=pointer), []
    torch = SimpleNamespace(
        empty_like=lambda x: Tensor(cuda.device_array(x.memory.shape, np.float32)),
        cuda=SimpleNamespace(current_stream=lambda: streams.append(stream) or stream),
    )

    def silu(x, out):
        assert x.whole
        out.memory[:] = cnn.silu(x.memory.copy_to_host())

    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    for name in ACTIVATIONS:
        given, expected = Tensor(cuda.to_device(x), whole=False), cnn.FUNCTIONS[name](x)
        found = [numba_activation(torch, name)(given)]
        if name == "silu":
            found.append(triton_activation(torch, SimpleNamespace(silu=silu), name)(given))
        for y in found:
            result = y.memory.copy_to_host()
            assert result.shape == shape
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert len(streams) == len(ACTIVATIONS)
    assert np.array_equal(given.memory.copy_to_host(), x)


def test_the_activation_belongs_to_the_weights(some):
    """Other weights each; with another activation a network loses, or is another one at least."""
    x, labels = some
    weights = {name: Weights.trained(name) for name in ACTIVATIONS}
    swapped = dataclasses.replace(weights["relu"], activation="silu")
    kept = accuracy(reference(x, weights["relu"]), labels)
    assert accuracy(reference(x, swapped), labels) < kept - 0.01
    assert not np.array_equal(weights["gelu"].first_weight, weights["silu"].first_weight)


def test_nine_launches_move_several_times_the_bytes_of_four_and_one_moves_each_byte_once(some):
    network = Network(Weights.trained("gelu"))
    x = cuda.to_device(np.ascontiguousarray(some[0][:16]))
    scores = cuda.device_array((16, 10), np.float32)
    moved = {}
    for method, count in (("fused", 4), ("naive", 9), ("whole", 1)):
        steps = network.program(method).steps(x, scores)
        assert len(steps) == count
        moved[method] = 0
        for _, kernel, how, arguments in steps:
            report = trace(kernel, *how, *arguments)
            kinds = {finding.kind for finding in report.findings}
            assert not {"race", "out-of-bounds", "uninitialised-read", "float64"} & kinds
            moved[method] += report.unique_bytes
        assert_near(scores.copy_to_host(), reference(some[0][:16], network.weights))
    assert moved["naive"] > 4 * moved["fused"]
    padding = 4 * 32  # a number for each row of the second layer's weights
    weights = sum(array.nbytes for array in network.weights.as_dict().values())
    assert moved["whole"] == weights + padding + 16 * 4 * (64 + 10) < moved["fused"]


def test_one_kernel_reads_shared_memory_without_conflicts_and_refuses_large_images(some):
    network = Network(Weights.trained("relu"))
    x, scores = cuda.to_device(some[0][:3].copy()), cuda.device_array((3, 10), np.float32)
    ((_, kernel, how, arguments),) = network.program("whole").steps(x, scores)
    report = trace(kernel, *how, *arguments)
    assert report.total("shared", "load").conflicts == 0
    assert report.total("global", "store").bytes == 4 * scores.size
    assert report.operations["float32"] > 2 * multiplications(3)
    large, weights = np.ones((2, 1, 32, 32), np.float32), Weights.random(1, "relu", 32)
    with pytest.raises(ValueError, match=r"needs 5\d,\d+ bytes for 32 x 32 pixels.*'fused'"):
        Network(weights)(large, method="whole")
    assert_near(Network(weights)(large), reference(large, weights))


def test_packed_weights_have_the_second_layers_rows_padded():
    weights = Weights.random(6)
    flat, at = one_kernel.packed(weights), one_kernel.SECOND_WEIGHT
    rows = flat[at : one_kernel.SECOND_BIAS].reshape(32, 145)
    assert np.array_equal(rows[:, :144], weights.second_weight.reshape(32, 144))
    rest = np.concatenate([weights.hidden_weight.ravel(), weights.hidden_bias])
    assert np.array_equal(flat[one_kernel.STAGED :][: rest.size], rest)
    assert flat.dtype == np.float32 and np.array_equal(flat[-10:], weights.out_bias)


def test_a_program_is_prepared_once_for_its_arrays(some):
    network = Network(Weights.trained("relu"))
    program = network.program()
    x, scores = cuda.to_device(some[0][:33]), cuda.device_array((33, 10), np.float32)
    program(x, scores)
    prepared = program._launches
    program(x, scores)
    assert program._launches is prepared
    other = cuda.to_device(np.ascontiguousarray(some[0][:5]))
    few = cuda.device_array((5, 10), np.float32)
    program(other, few)
    assert_near(few.copy_to_host(), reference(some[0][:5], network.weights))


def test_nan_stays_in_its_image(some):
    x = some[0][:6].copy()
    x[2, 0, 3, 4] = np.nan
    sound = np.array([0, 1, 3, 4, 5])
    for method in METHODS:
        for activation in ACTIVATIONS:
            weights = Weights.trained(activation)
            scores = Network(weights)(x, method=method)
            assert np.isnan(scores[2]).all()
            assert_near(scores[sound], reference(x[sound], weights))


# --- the front door ------------------------------------------------------------------------------


def test_arrays_on_the_gpu_stay_there_and_a_batch_of_none_is_empty(some):
    network = Network(Weights.trained("silu"))
    x = some[0][:40]
    scores = network(cuda.to_device(x))
    assert not isinstance(scores, np.ndarray)
    assert_near(scores.copy_to_host(), reference(x, network.weights))
    assert network(x[:0]).shape == (0, 10)
    assert np.array_equal(network(x[::-2]), network(x[::-2].copy()))


def test_what_is_no_batch_of_images_is_refused(some):
    network, x = Network(Weights.trained("relu")), some[0][:2]
    for given, kind, words in (
        (x.tolist(), TypeError, "x is list: give an array"),
        (x.astype(np.float64), TypeError, "x holds float64"),
        (x.astype(np.uint8), TypeError, "x holds uint8"),
        (x[:, 0], ValueError, r"x has the shape \(2, 8, 8\); it must be \(batch, 1, 8, 8\)"),
        (x[:, :, :, :7], ValueError, r"these weights are for images of shape \(batch, 1, 8, 8\)"),
        (np.zeros((2, 1, 28, 28), np.float32), ValueError, r"x has the shape \(2, 1, 28, 28\)"),
    ):
        with pytest.raises(kind, match=words):
            network(given)
    with pytest.raises(ValueError, match="no method 'layers': choose auto, fused, naive, whole"):
        network(x, method="layers")
    with pytest.raises(
        ValueError,
        match=r"out is float32 of shape \(3, 10\); it must be float32 of shape \(2, 10\)",
    ):
        network(x, out=np.zeros((3, 10), np.float32))
    with pytest.raises(TypeError, match="weights is dict: give Weights"):
        Network(network.weights.as_dict())


def test_accuracy_counts_nan_as_wrong_and_refuses_nothing():
    scores = np.array([[1, 2, 0], [3, 1, 0], [np.nan, 0, 1], [0, np.nan, 9]])
    assert accuracy(scores, np.array([1, 0, 0, 2])) == 0.5
    with pytest.raises(ValueError, match="at least one image"):
        accuracy(scores[:0], np.array([]))
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(3,\)"):
        accuracy(scores, np.zeros(3))


# --- weights -------------------------------------------------------------------------------------


def test_weights_are_saved_and_loaded_as_they_are(tmp_path):
    weights = Weights.random(4, "gelu", 28)
    weights.save(tmp_path / "w.npz")
    again = Weights.load(tmp_path / "w.npz")
    assert again.activation == "gelu" and again.side == 28
    for name, array in weights.as_dict().items():
        assert np.array_equal(getattr(again, name), array)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    weights = Weights.random(4)
    for change, words in (
        ({"activation": "tanh"}, "no activation 'tanh': choose relu, gelu, silu"),
        ({"first_weight": weights.first_weight[0]}, r"first_weight is \(1, 3, 3\); it must be"),
        ({"hidden_weight": weights.hidden_weight[:, :100]}, r"hidden_weight is \(64, 100\); it m"),
        ({"hidden_weight": np.float32(1)}, r"hidden_weight is \(\); it must be a NumPy array"),
        ({"hidden_weight": weights.hidden_weight[:, :0]}, r"hidden_weight is \(64, 0\)"),
        ({"out_bias": weights.out_bias.tolist()}, r"out_bias is list; it must be a NumPy array"),
        ({"out_bias": weights.out_bias.astype(np.float64)}, "out_bias is float64"),
        ({"second_bias": weights.second_bias + np.inf}, "second_bias has numbers that are not"),
    ):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(weights, **change)
    with pytest.raises(ValueError, match="side is 10; it must be a multiple of 4"):
        Weights.random(1, side=10)
    with pytest.raises(ValueError, match="no network was trained with 'elu': choose relu"):
        Weights.trained("elu")
    path, arrays = tmp_path / "w.npz", weights.as_dict()
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="lacks, or has beside the weights: activation"):
        Weights.load(path)
    np.savez(path, activation="relu", **arrays | {"out_bias": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Weights.load(path)
    weights.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"w\.npz is no \.npz file, or cut off"):
        Weights.load(path)


def test_products_are_those_of_the_layers():
    found = shapes(8)
    each = 64 * np.prod(found["first_weight"]) + 16 * np.prod(found["second_weight"])
    each += np.prod(found["hidden_weight"]) + np.prod(found["out_weight"])
    assert multiplications(3) == 3 * each


# --- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_the_training_are_those_of_differences(activation, some):
    x, labels = some[0][:5].astype(np.float64), some[1][:5]
    rng, step = np.random.default_rng(2), 1e-5
    w = {
        name: array.astype(np.float64) + 0.05 * rng.standard_normal(array.shape)
        for name, array in Weights.random(3, activation).as_dict().items()
    }
    loss, gradients = train_cnn.loss_and_gradients(x, labels, w, activation)
    assert loss == pytest.approx(2.3, abs=1.5)
    for name, array in w.items():
        place = tuple(int(rng.integers(size)) for size in array.shape)
        losses = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * step
            losses.append(train_cnn.loss_and_gradients(x, labels, w | {name: moved}, activation)[0])
        slope = (losses[0] - losses[1]) / (2 * step)
        assert gradients[name][place] == pytest.approx(slope, rel=1e-4, abs=1e-8), name


def test_training_is_the_same_each_time_and_reads_better(some):
    x, labels = digits.training()
    one, other = (train_cnn.train(x, labels, "silu", steps=40) for _ in range(2))
    for name, array in one.as_dict().items():
        assert np.array_equal(array, getattr(other, name))
    before = accuracy(reference(some[0], Weights.random(train_cnn.SEED, "silu")), some[1])
    assert before < 0.3 < 0.6 < accuracy(reference(some[0], one), some[1])


def test_images_are_moved_by_a_pixel_at_most(some):
    moved = train_cnn.moved(some[0][:50], np.random.default_rng(1))
    assert moved.shape == (50, 1, 8, 8) and moved.dtype == np.float32
    padded = np.pad(some[0][:50], ((0, 0), (0, 0), (1, 1), (1, 1)))
    for before, after in zip(padded, moved, strict=True):
        windows = [before[:, r : r + 8, c : c + 8] for r in range(3) for c in range(3)]
        assert any(np.array_equal(after, window) for window in windows)


def test_the_tool_trains_on_mnist_where_it_is_and_asks_for_a_file(folder, tmp_path, capsys):
    file = tmp_path / "new" / "mine.npz"
    words = ["silu", "--mnist", str(folder), "--out", str(file), "--steps", "2"]
    train_cnn.main(words)
    assert "of 7 held-out digits right" in capsys.readouterr().out
    weights = Weights.load(file)
    assert weights.side == 28 and weights.activation == "silu"
    for wrong, text in (
        (["elu"], "no activation 'elu'"),
        (["--out", str(file)], "name one activation"),
        (words[:3], "--mnist needs --out"),
    ):
        with pytest.raises(SystemExit):
            train_cnn.main(wrong)
        assert text in capsys.readouterr().err


# --- the bench -----------------------------------------------------------------------------------


class Untimed(Bench):
    """A bench that checks each program, and whose times are all one."""

    def __init__(self):
        roofs = Roofs("none", 1000.0, {"float32": 10.0}, 1, measured=True)
        super().__init__("cnn", roofs, say=lambda _: None)
        self.work = {}

    def variant(self, kernel, variant, call, args, *, expected, shape, out=None, **work):
        error = self.check(call, args, expected, out=out, limit=work["limit"])
        self.figure(kernel, variant, shape, "float32", "error", "relative", error)
        self.work[kernel, variant, shape] = work
        return timing_of([2.0] * 5)

    def peer(self, name):
        return None


def of_few_digits(monkeypatch, batch):
    """One batch size, and no more digits to read: the test below reads all of them."""
    images, labels = subject.held_out()
    monkeypatch.setattr(subject, "held_out", lambda: (images[:batch], labels[:batch]))
    monkeypatch.setattr(subject, "BATCHES", (batch,))
    monkeypatch.setattr(subject, "LATENCIES", 5)


@pytest.mark.slow
@SIMULATED
def test_the_bench_checks_and_counts_each_of_its_programs(monkeypatch):
    monkeypatch.setattr(subject, "BATCHES", (5,))
    clock = SimpleNamespace(wall=lambda call: (call(), 0.25)[1])
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    monkeypatch.setattr(subject, "LATENCIES", 5)
    bench = Untimed()
    subject.run(bench)
    names = {(row.kernel, row.variant, row.shape) for row in bench.rows}
    sizes = ("5", "360")
    assert names == {(f"digits {a}", way, b) for a in ACTIVATIONS for way in METHODS for b in sizes}
    right = [row for row in bench.rows if row.metric == "accuracy"]
    assert len(right) == 9 and min(row.median for row in right) >= 0.97 and not bench.failures
    for work in bench.work.values():
        assert work["warm"] and work["registers"] is False
    its = bench.work["digits relu", "fused", "5"]
    assert its["operations"] == {"float32": 2 * multiplications(5)}
    numbers = sum(array.size for array in Weights.trained().as_dict().values())
    assert its["bytes"] == 4 * (numbers + 5 * 64 + 5 * 10)
    found = {row.metric: row for row in bench.rows if row.key[:3] == ("digits silu", "naive", "5")}
    assert set(found) == {"error", "first call", "latency", "efficiency"}
    assert found["latency"].median == found["first call"].median == 0.25
    least = 1e3 * 2 * multiplications(5) / 10e12  # [ms]; every time is 2 ms
    assert found["efficiency"].median == pytest.approx(least / 2)
    assert subject.CHARTS == batch_charts.__name__
    assert set(batch_charts.charts(bench.rows)) == {"latency", "efficiency"}  # PyTorch is not here


@pytest.mark.slow
@SIMULATED
def test_pytorchs_programs_run_with_three_activations_compiled_and_in_graphs(monkeypatch):
    """With a PyTorch of a few lines: what is called, what is left out, what is drawn."""

    def network(torch, weights, activation=None):
        assert activation in (None, "Numba", "Triton")
        return lambda x: reference(x, weights).astype(np.float32)

    def captured(torch, program, args):
        if program.__name__ == "compiled":
            raise RuntimeError("operation not permitted when stream is capturing")
        scores = cuda.device_array((len(args[0]), 10), np.float32)

        def replay():
            scores[:] = program(*args)

        return replay, scores

    def compiled(bench, function, *args):
        def compiled(x):
            return function(x)

        return compiled

    reset = []
    torch = SimpleNamespace(
        from_numpy=lambda x: SimpleNamespace(cuda=lambda: x), no_grad=contextlib.nullcontext,
        backends=SimpleNamespace(cudnn=SimpleNamespace()),
        _dynamo=SimpleNamespace(reset=lambda: reset.append(1)),
    )  # fmt: skip
    bench = Untimed()
    monkeypatch.setattr(bench, "peer", lambda name: torch if name == "torch" else None)
    of_few_digits(monkeypatch, 3)
    monkeypatch.setattr(subject, "torch_network", network)
    monkeypatch.setattr(subject, "numba_activation", lambda torch, name: "Numba")
    monkeypatch.setattr(subject, "triton_activation", lambda torch, triton, name: "Triton")
    monkeypatch.setattr(peers, "triton_programs", lambda bench: SimpleNamespace())
    monkeypatch.setattr(peers, "torch_compiled", compiled)
    monkeypatch.setattr(launch_costs, "captured_by_torch", captured)
    clock = SimpleNamespace(wall=lambda call: (call(), 0.25)[1])
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    subject.run(bench)
    drawn = {*batch_charts.PROGRAMS} | {f"{name}, graph" for name in batch_charts.PROGRAMS}
    drawn -= {f"{method}, graph" for method in METHODS}  # no CuPy
    drawn -= {"torch.compile, graph"}  # not captured
    assert {row.variant for row in bench.rows} == drawn
    assert len(reset) == 3 and torch.backends.cudnn.benchmark
    assert not any("PyTorch's digits" in note for note in bench.notes)
    assert [note for note in bench.notes if "torch.compile, graph left out" in note]
    assert set(batch_charts.charts(bench.rows)) == set(batch_charts.CHARTS)


@pytest.mark.slow
@SIMULATED
def test_a_broken_pytorch_stops_nothing_else(monkeypatch):
    bench = Untimed()
    monkeypatch.setattr(bench, "peer", lambda name: SimpleNamespace() if name == "torch" else None)
    of_few_digits(monkeypatch, 2)
    clock = SimpleNamespace(wall=lambda call: (call(), 0.25)[1])
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    subject.run(bench)
    assert len([note for note in bench.notes if note.startswith("PyTorch's digits")]) == 3
    assert {row.variant for row in bench.rows} == set(METHODS)


@SIMULATED
def test_a_wrong_network_has_no_figures(monkeypatch):
    monkeypatch.setattr(subject, "reference", lambda x, weights: 1.01 * reference(x, weights))
    clock = SimpleNamespace(wall=lambda call: (call(), 0.25)[1])
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    with pytest.raises(ValueError, match="relative Frobenius error is 0.0"):
        subject.run(Untimed())


# --- charts --------------------------------------------------------------------------------------


def figures(programs=tuple(batch_charts.PROGRAMS), activations=ACTIVATIONS):
    """Figures of programs, made up: the n-th takes n + 1 times 10 µs."""
    rows = []
    for activation in activations:
        for place, program in enumerate(programs):
            for name, part in ((program, 1.0), (program + batch_charts.GRAPH, 0.5)):
                for batch in (16, 32, 64, 128):
                    about = f"digits {activation}", name, str(batch), "float32"
                    time, share = 0.01 * (place + 1) * part, 0.001 * batch / (place + 1)
                    rows.append(Figure(*about, "latency", "ms", time, time, time, 9))
                    share = (share,) * 3
                    rows.append(Figure(*about, "efficiency", "of the roofs", *share, 1))
    return rows


@pytest.mark.slow
def test_charts_have_a_panel_an_activation_and_way_and_a_line_a_program():
    for draw in batch_charts.CHARTS.values():
        picture = draw(figures())
        assert [axes.get_title("left") for axes in picture.axes] == [
            f"{activation}, {way}"
            for way in ("launched one by one", "in a CUDA graph")
            for activation in ("ReLU", "GELU", "SiLU (Swish)")
        ]
        for place, axes in enumerate(picture.axes):
            assert axes.get_xlabel() == ("images in a batch" if place > 2 else "")
            drawn = [line for line in axes.lines if len(line.get_xdata()) == 4]
            assert len(drawn) == len(batch_charts.PROGRAMS)
        png = assert_described(picture)
        assert [text.get_text() for text in picture.texts] == [""]  # no GPU: made up
        with Image.open(io.BytesIO(png)) as image:
            assert image.size == (820, 553)
    (said,) = draw([dataclasses.replace(row, gpu="NVIDIA H200") for row in figures()]).texts
    assert said.get_text() == "NVIDIA H200"


def test_charts_show_what_was_measured():
    rows = figures()
    _, gelu, *_ = batch_charts.latency_by_batch(rows).axes
    first = next(line for line in gelu.lines if len(line.get_xdata()))
    assert list(first.get_xdata()) == [16, 32, 64, 128]
    assert list(first.get_ydata()) == pytest.approx([10] * 4)  # µs
    panels = batch_charts.speedup_by_batch(rows).axes
    ours, ours_in_a_graph = (panels[place].lines[0].get_ydata() for place in (0, 3))
    # a graph against PyTorch in a graph, so that each pays for as many launches
    assert list(ours) == pytest.approx([4] * 4) and list(ours_in_a_graph) == pytest.approx([4] * 4)
    share = batch_charts.efficiency_by_batch(rows).axes[2].lines[0].get_ydata()
    assert list(share) == pytest.approx([1.6, 3.2, 6.4, 12.8])  # percent


def test_without_pytorch_there_is_no_speed_up_and_the_others_are_drawn():
    rows = figures(("fused",), ("silu",))
    with pytest.raises(ValueError, match="no latency of 'torch'"):
        batch_charts.speedup_by_batch(rows)
    plain = [row for row in figures() if row.variant != "torch, graph"]
    panels = batch_charts.speedup_by_batch(plain).axes
    shown = [line for axes in panels for line in axes.lines]
    assert len(panels) == 3  # none in graphs
    assert sum(len(line.get_xdata()) == 4 for line in shown) == 3 * len(batch_charts.PROGRAMS)
    picture = batch_charts.latency_by_batch(rows)
    assert len(picture.axes) == 2
    words = [text.get_text() for text in picture.legends[0].get_texts()]
    assert words == ["ours, four kernels"]
    with pytest.raises(ValueError, match="no figures of a network's programs"):
        batch_charts.efficiency_by_batch([])


def test_the_networks_functions_are_those_of_the_course():
    x = np.linspace(-9, 9, 101)
    for name, function in cnn.FUNCTIONS.items():
        value, slope = train_cnn.activated(x, name)
        np.testing.assert_allclose(value, function(x), rtol=1e-12, atol=1e-15)
        if name != "relu":
            rise = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
            np.testing.assert_allclose(slope, rise, rtol=1e-5, atol=1e-7)
