"""Digits as bytes: the binary file, MNIST's where it is, the course's where it is not."""

import gzip
import struct
import warnings

import numpy as np
import pytest

from course_models.digits import PARTS, BadDigits
from course_models.vae import data


@pytest.fixture
def some():
    rng = np.random.default_rng(3)
    return rng.integers(0, 256, (5, 4, 4), np.uint8), np.array([0, 9, 3, 255, 1])


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def test_what_is_written_is_read(tmp_path, some):
    images, labels = some
    data.write(tmp_path / "some.bin", images, labels)
    content = (tmp_path / "some.bin").read_bytes()
    assert content == struct.pack("<i", 5) + images.tobytes() + bytes([0, 9, 3, 255, 1])
    found = data.read(tmp_path / "some.bin")
    assert np.array_equal(found.images, images.reshape(5, 16))
    assert found.labels.tolist() == labels.tolist() and found.source == "some.bin"
    assert np.array_equal(data.read(tmp_path / "some.bin", pixels=16).images, found.images)


@pytest.mark.parametrize(
    "content, pixels, words",
    [
        (b"\1\0", None, "ends at byte 2: the first 4 say"),
        (struct.pack("<i", 0), None, "says at byte 0 that it has 0 images"),
        (struct.pack("<i", -3) + b"abc", None, "it has -3 images"),
        (struct.pack("<i", 3) + bytes(31), None, "ends at byte 35 .* 3 images: after byte 4"),
        (struct.pack("<i", 3) + bytes(30), 16, "ends at byte 34 .* should end at byte 55"),
        (struct.pack("<i", 3) + bytes(3), None, "ends at byte 7"),
        (struct.pack(">i", 3) + bytes(30), None, "it has 50,331,648 images"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_byte(tmp_path, content, pixels, words):
    (tmp_path / "bad.bin").write_bytes(content)
    with pytest.raises(BadDigits, match=f"bad.bin.*{words}"):
        data.read(tmp_path / "bad.bin", pixels)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda x, y: (x.astype(float), y), "images are float64"),
        (lambda x, y: (x[:0], y[:0]), r"images are uint8 of the shape \(0, 4, 4\)"),
        (lambda x, y: (x, y[:-1]), "one for each of the 5 images"),
        (lambda x, y: (x, y / 1), "labels are float64"),
        (lambda x, y: (x, y - 1), "labels are from -1 to 254"),
    ],
)
def test_what_the_file_cannot_hold_is_refused_and_nothing_written(tmp_path, some, change, words):
    with pytest.raises(ValueError, match=words):
        data.write(tmp_path / "some.bin", *change(*some))
    assert list(tmp_path.iterdir()) == []


def test_the_courses_digits_are_there():
    found = data.digits()
    assert found.images.shape == (1797, 64) and found.images.dtype == np.uint8
    assert found.images.max() == 255 and sorted(set(found.labels.tolist())) == [*range(10)]


def test_the_best_digits_are_found(tmp_path, some, monkeypatch):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "COLAB", tmp_path / "mnist_train_small.csv")
    assert data.find().images.shape == (1797, 64)
    data.COLAB.write_text("7," + ",".join(["0"] * 783 + ["255"]) + "\n3" + ",1" * 784 + "\n")
    found = data.find()
    assert found.images.shape == (2, 784) and found.labels.tolist() == [7, 3]
    assert found.images[0, -1] == 255 and found.source == "mnist_train_small.csv"
    folder = tmp_path / "mnist"
    folder.mkdir()
    images = np.arange(2 * 784).reshape(2, 28, 28).astype(np.uint8)
    for name, array in zip(PARTS["train"], (images, np.array([4, 5], np.uint8)), strict=True):
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
    monkeypatch.setenv(data.VARIABLE, str(folder))
    found = data.find()
    assert np.array_equal(found.images, images.reshape(2, -1)) and found.labels.tolist() == [4, 5]
    data.write(tmp_path / "own.bin", *some)
    assert len(data.find(tmp_path / "own.bin").images) == 5  # what is named comes first


@pytest.mark.parametrize(
    "text, words",
    [
        ("7,300\n", "line 1: numbers from 7 to 300"),
        ("1,2,3\n1,2,-1\n", "line 2: numbers from -1 to 2"),
        ("7\n8\n", "2 lines of 1 numbers"),
        ("label,pixel\n1,2\n", "no table of whole numbers"),
        ("1,2,3\n1,2\n", "no table of whole numbers"),
        ("\n", "0 lines"),
    ],
)
def test_a_table_of_other_things_is_refused(tmp_path, text, words):
    (tmp_path / "some.csv").write_text(text)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(BadDigits, match=f"some.csv.*{words}"),
    ):
        data.find(tmp_path / "some.csv")


def test_a_table_of_a_spreadsheet_is_read(tmp_path):
    (tmp_path / "SOME.CSV").write_text("\ufeff7,1,2\r\n3,4,5\r\n", encoding="utf-8")
    assert data.find(tmp_path / "SOME.CSV").images.tolist() == [[1, 2], [4, 5]]


def test_a_part_of_mnist_without_images_is_refused(tmp_path):
    for name, axes in zip(PARTS["t10k"], ((0, 28, 28), (0,)), strict=True):
        (tmp_path / name).write_bytes(idx(np.zeros(axes, np.uint8)))
    with pytest.raises(BadDigits, match="t10k-images-idx3-ubyte has no image"):
        data.find(tmp_path, held_out=True)


def test_a_place_with_nothing_says_what_could_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="^COURSE_MNIST: there is nothing at"):
        data.find()
    with pytest.raises(FileNotFoundError, match="nothing at .*train-images-idx3-ubyte"):
        data.find(tmp_path / "gone")


def test_enlarged_digits_lie_in_a_frame_and_are_the_same_again():
    images = data.enlarged(300, seed=2)
    assert images.shape == (300, 784) and images.dtype == np.uint8
    square = images.reshape(-1, 28, 28)
    assert not square[:, :2].any() and not square[:, :, -2:].any()
    assert (square.max(axis=(1, 2)) > 200).all() and 0.1 < (images > 127).mean() < 0.3
    assert np.array_equal(images, data.enlarged(300, seed=2))
    assert not np.array_equal(images, data.enlarged(300, seed=3))
    with pytest.raises(ValueError, match="side is 11"):
        data.enlarged(1, side=11)
