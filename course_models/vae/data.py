"""Images of digits as bytes: written to and read from one binary file, or found on this machine.

>>> images, labels = read(path)                  # uint8 (n, pixels), uint8 (n,)
>>> write(path, images, labels)
>>> images, labels, source = find()              # MNIST's where it is, else the course's 8 x 8

The file holds the number of images, int32, lowest byte first; their pixels, a byte each, image
after image; a byte for each label. The file's length says how many pixels an image has.
"""

from __future__ import annotations

import os
import struct
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course.files import write_whole
from course_models import digits as shipped
from course_models.digits import PARTS, BadDigits, mnist_bytes

COUNT = struct.Struct("<i")
VARIABLE = "COURSE_MNIST"  # environment variable: MNIST's folder
#: Where Colab keeps MNIST's first 20,000 images: a line for each, its label, then its pixels.
COLAB = Path("/content/sample_data/mnist_train_small.csv")


class Digits(NamedTuple):
    """Images and their labels.

    Attributes
    ----------
    images : ndarray, shape (n, pixels), uint8
        From 0 (paper) to 255 (ink).
    labels : ndarray, shape (n,), uint8
    source : str
        Where the images are from, to be shown to the reader.
    """

    images: np.ndarray
    labels: np.ndarray
    source: str


def write(path: str | os.PathLike[str], images: np.ndarray, labels: np.ndarray) -> None:
    """Write images and labels to a binary file, whole or not at all.

    Parameters
    ----------
    images : ndarray, shape (n, pixels) or (n, rows, columns), uint8
    labels : ndarray, shape (n,), whole numbers from 0 to 255

    Raises
    ------
    ValueError
        When they are of other types or shapes, or not of one length.
    OSError
        When the file cannot be written.
    """
    images, labels = np.asarray(images), np.asarray(labels)
    if images.dtype != np.uint8 or images.ndim not in (2, 3) or 0 in images.shape:
        raise ValueError(
            f"images are {images.dtype} of the shape {images.shape}; they must be uint8, (n, "
            "pixels) or (n, rows, columns), none of them 0"
        )
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels are {labels.dtype} of the shape {labels.shape}; they must be whole numbers, "
            f"one for each of the {len(images):,} images"
        )
    if labels.min() < 0 or labels.max() > 255:
        raise ValueError(f"labels are from {labels.min()} to {labels.max()}; a byte holds 0 to 255")
    parts = COUNT.pack(len(images)), images.tobytes(), labels.astype(np.uint8).tobytes()
    write_whole(Path(path), b"".join(parts))


def read(path: str | os.PathLike[str], pixels: int | None = None) -> Digits:
    """Read a binary file of images.

    Parameters
    ----------
    pixels : int, optional
        Pixels of an image; without it the file's length says how many.

    Raises
    ------
    BadDigits
        When the file is not of this form; the message says where it ends, and where it should.
    OSError
        When the file cannot be read at all.
    """
    path = Path(path)
    content = path.read_bytes()
    if len(content) < COUNT.size:
        raise BadDigits(
            f"{path.name} ends at byte {len(content)}: the first {COUNT.size} say how many images "
            "there are"
        )
    (count,) = COUNT.unpack_from(content)
    if count < 1:
        raise BadDigits(f"{path.name} says at byte 0 that it has {count:,} images; at least 1 is")
    each, over = divmod(len(content) - COUNT.size, count)
    wanted = each - 1 if pixels is None else pixels
    end = COUNT.size + count * (wanted + 1)
    if over or wanted != each - 1 or wanted < 1:
        right = f"it should end at byte {end:,}, with {wanted} pixels an image"
        if pixels is None:
            right = f"after byte {COUNT.size} come that many pixels and a label for each image"
        raise BadDigits(
            f"{path.name} ends at byte {len(content):,} and says at byte 0 that it has {count:,} "
            f"images: {right}"
        )
    split = COUNT.size + count * wanted
    images = np.frombuffer(content, np.uint8, count * wanted, COUNT.size).reshape(count, wanted)
    return Digits(images, np.frombuffer(content, np.uint8, count, split), path.name)


def digits(held_out: bool | None = None) -> Digits:
    """The 1,797 images of 8 x 8 pixels that come with the course.

    With `held_out` only every fifth, which ``course_lessons.lesson13.digits`` holds out; with False
    only the others.
    """
    parts = {None: shipped.every, False: shipped.training, True: shipped.held_out}
    x, labels = parts[held_out]()
    images = np.rint(x * 255).astype(np.uint8).reshape(len(x), -1)
    return Digits(images, labels.astype(np.uint8), "the course's digits, 8 x 8")


def find(place: str | os.PathLike[str] | None = None, held_out: bool | None = None) -> Digits:
    """The best digits that are here.

    Parameters
    ----------
    place : path, optional
        A folder of MNIST's IDX files, a CSV of Colab's form, or a binary file. Without it the
        place in the variable COURSE_MNIST, else Colab's own file, else `digits`.
    held_out : bool, optional
        Take MNIST's test part, or of `digits` those that no training sees; else those to train on.
        A file is taken whole.

    Raises
    ------
    FileNotFoundError
        When there is nothing at the place, or a file of MNIST is missing in the folder.
    BadDigits
        When the file is none of these.
    """
    said = f"{VARIABLE}: " if not place and os.environ.get(VARIABLE) else ""
    place = place or os.environ.get(VARIABLE) or (COLAB if COLAB.is_file() else None)
    if place is None:
        return digits(held_out)
    place = Path(place)
    if place.is_dir():
        images, labels = mnist_bytes(place, "t10k" if held_out else "train")
        return Digits(images.reshape(len(images), -1), labels, f"MNIST in {place}")
    if not place.exists():
        raise FileNotFoundError(
            f"{said}there is nothing at {place}: name a folder with {PARTS['train'][0]}, a .csv, "
            "or a file that course_models.vae.data.write made"
        )
    return _of_table(place) if place.suffix.lower() == ".csv" else read(place)


def _of_table(path: Path) -> Digits:
    """Images of a CSV without a title line: label, then pixels."""
    try:
        with warnings.catch_warnings(action="ignore"):  # a file without lines is refused below
            table = np.loadtxt(path, np.int64, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except ValueError as problem:
        raise BadDigits(f"{path.name} is no table of whole numbers: {problem}") from None
    if table.shape[1] < 2 or not len(table):
        raise BadDigits(
            f"{path.name} has {len(table):,} lines of {table.shape[1]} numbers; a line has a label "
            "and the pixels of an image"
        )
    wrong = np.flatnonzero(((table < 0) | (table > 255)).any(axis=1))
    if len(wrong):
        raise BadDigits(
            f"{path.name}, line {wrong[0] + 1}: numbers from {table[wrong[0]].min()} to "
            f"{table[wrong[0]].max()}; pixels and labels are 0 to 255"
        )
    table = table.astype(np.uint8)
    return Digits(np.ascontiguousarray(table[:, 1:]), table[:, 0].copy(), path.name)


def enlarged(count: int, seed: int = 0, side: int = 28) -> np.ndarray:
    """The course's digits enlarged and shifted, of MNIST's size: to measure speed.

    A training learns nothing from them that the small images would not teach.

    Parameters
    ----------
    count : int
    seed : int
    side : int
        Rows and columns of an image, at least 12; the digit takes 8 fewer of each.

    Returns
    -------
    ndarray, shape (count, side * side), uint8
    """
    if side < 12:
        raise ValueError(f"side is {side}; it must be at least 12")
    rng, inner = np.random.default_rng(seed), side - 8
    small = digits().images.reshape(-1, shipped.SIDE, shipped.SIDE) / np.float32(255)
    at = np.clip((np.arange(inner) + 0.5) * shipped.SIDE / inner - 0.5, 0, shipped.SIDE - 1)
    low = np.minimum(at.astype(int), shipped.SIDE - 2)
    weights = np.zeros((inner, shipped.SIDE), np.float32)  # for bilinear interpolation
    weights[np.arange(inner), low] = low + 1 - at
    weights[np.arange(inner), low + 1] = at - low
    large = np.rint(255 * np.clip(weights @ small @ weights.T, 0, 1)).astype(np.uint8)
    which, (down, right) = rng.integers(0, len(large), count), rng.integers(2, 7, (2, count))
    out = np.zeros((count, side, side), np.uint8)
    for row in range(2, 7):
        for column in range(2, 7):
            these = np.flatnonzero((down == row) & (right == column))
            out[these, row : row + inner, column : column + inner] = large[which[these]]
    return out.reshape(count, side * side)
