"""Images of handwritten digits: 1,797 that come with the course, and MNIST's where you have them.

>>> x, labels = training()                     # four of five images, (1437, 1, 8, 8)
>>> x, labels = held_out()                     # every fifth, that no training sees
>>> x, labels = mnist("folder", "t10k")        # (10000, 1, 28, 28), from IDX files

Images are float32 from 0 (paper) to 1 (ink), in the layout that convolutions take: (image, channel,
row, column). The course's images have 8 x 8 pixels and are those of scikit-learn, which need not
be installed. Source and licence: ``data/README.md``.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from course.files import data_path
from course.old_names import elsewhere

__getattr__ = elsewhere(__name__)  # names that moved to the network's module

CLASSES = 10
SIDE, DEEPEST = 8, 16  # of the course's images: pixels of a side; value of the darkest pixel
EVERY = 5  # one of so many images is held out


def training() -> tuple[np.ndarray, np.ndarray]:
    """The images to train on and their labels.

    Returns
    -------
    x : ndarray, shape (1437, 1, 8, 8), float32
    labels : ndarray, shape (1437,), int64
    """
    images, labels = every()
    kept = np.arange(len(labels)) % EVERY != 0
    return images[kept], labels[kept]


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """Every fifth image, that no training sees, and its label: x (360, 1, 8, 8), labels (360,).

    The same 13 people wrote these and the images to train on. So a score on them says how well
    a network reads digits of people whose writing it was trained on.
    """
    images, labels = every()
    return images[::EVERY].copy(), labels[::EVERY].copy()


def every() -> tuple[np.ndarray, np.ndarray]:
    """All images that come with the course, x (1797, 1, 8, 8), and their labels (1797,)."""
    with np.load(data_path("digits", "digits.npz"), allow_pickle=False) as file:
        return network_input(file["images"], DEEPEST), file["labels"].astype(np.int64)


def network_input(images: np.ndarray, deepest: int) -> np.ndarray:
    """Images (n, rows, columns) of integers up to `deepest`, scaled to a network's input."""
    return (images.astype(np.float32) / np.float32(deepest))[:, None]


# --- MNIST ----------------------------------------------------------------------------------------

MNIST_SIDE = 28

#: MNIST's parts: the files of images and of labels; either may also end in .gz.
PARTS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "t10k": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
BYTES = 8  # IDX's code for unsigned bytes
GZIP = b"\x1f\x8b"  # what a gzip file begins with
MOST_PACKED = 100  # how many times a gzip file's length its content may have; MNIST's has 5
LEAST_PACKED = 1 << 20  # bytes that the content may have in any case


class BadDigits(ValueError):
    """A file of digits that cannot be used; the message names the file and what is wrong."""


def mnist(folder: str | os.PathLike[str], part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of MNIST, from the IDX files that you have.

    Parameters
    ----------
    folder : path
        Where the files of `PARTS` lie, unpacked or as .gz.
    part : {"train", "t10k"}

    Returns
    -------
    x : ndarray, shape (n, 1, 28, 28), float32
    labels : ndarray, shape (n,), int64

    Raises
    ------
    FileNotFoundError
        When a file is not there; the message says which.
    BadDigits
        When a file is no IDX file, is cut off, has other content, or the two do not fit together.
    ValueError
        For another part.
    """
    images, labels = mnist_bytes(folder, part)
    return network_input(images, 255), labels.astype(np.int64)


def mnist_bytes(
    folder: str | os.PathLike[str], part: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of MNIST as bytes: (n, 28, 28) from 0 to 255 and (n,), both uint8."""
    if part not in PARTS:
        raise ValueError(f"MNIST has no part {part!r}: choose {', '.join(PARTS)}")
    of_images, of_labels = (_found(Path(folder), name) for name in PARTS[part])
    images, labels = read_idx(of_images, axes=3), read_idx(of_labels, axes=1)
    count, *side = images.shape
    if not count:
        raise BadDigits(f"{of_images.name} has no image")
    if side != [MNIST_SIDE, MNIST_SIDE]:
        raise BadDigits(
            f"{of_images.name} has images of {side[0]} x {side[1]} pixels; MNIST's are "
            f"{MNIST_SIDE} x {MNIST_SIDE}"
        )
    if count != len(labels):
        raise BadDigits(
            f"{of_images.name} has {count:,} images and {of_labels.name} {len(labels):,} labels: "
            "they are not of one part"
        )
    if labels.max() >= CLASSES:
        raise BadDigits(f"{of_labels.name} has the label {labels.max()}; digits are 0 to 9")
    return images, labels


def _found(folder: Path, name: str) -> Path:
    """The file of this name, unpacked or not."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"there is neither {name} nor {name}.gz in {folder}: put MNIST's IDX files there"
    )


def read_idx(path: str | os.PathLike[str], axes: int | None = None) -> np.ndarray:
    """Read an IDX file of bytes, unpacked or packed by gzip, whatever its name says.

    The file begins with two zeros, a code of the type (8: unsigned bytes) and the number of axes.
    The length of each axis follows, four bytes, the highest first; then the values. At most one
    byte more than these lengths say is unpacked. Source: Y. LeCun, C. Cortes and C. Burges, "The
    MNIST database of handwritten digits", file formats.

    Parameters
    ----------
    path : path
    axes : int, optional
        How many axes the file must have: 3 for images, 1 for labels.

    Returns
    -------
    ndarray of uint8

    Raises
    ------
    BadDigits
        When the file is no IDX file, is cut off or too long, or cannot be unpacked.
    OSError
        When the file cannot be read at all.
    """
    name, size = Path(path).name, os.path.getsize(path)
    with open(path, "rb") as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        try:
            content = gzip.GzipFile(fileobj=file) if packed else file
            shape = _lengths(content, name, axes)
            wanted = math.prod(shape)
            most = max(MOST_PACKED * size, LEAST_PACKED) if packed else size
            if packed and wanted > most:
                raise BadDigits(
                    f"{name} would be {wanted:,} bytes unpacked: no digits are packed so"
                )
            found = content.read(min(wanted, most) + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            raise BadDigits(
                f"{name} is packed by gzip and cannot be unpacked: {problem}; is it cut off?"
            ) from None
    if len(found) != wanted:
        cut = len(found) < wanted
        raise BadDigits(
            f"{name} is {'cut off' if cut else 'too long'}: {' x '.join(map(str, shape))} numbers "
            f"are {wanted:,} bytes, and {f'{len(found):,}' if cut else 'more'} follow"
        )
    return np.frombuffer(found, np.uint8).reshape(shape)


def _lengths(content: Any, name: str, axes: int | None) -> tuple[int, ...]:
    """Read the length of each axis from an IDX file's beginning."""
    start = content.read(4)
    if len(start) < 4 or start[:2] != b"\0\0":
        start = start.hex(" ") or "nothing"
        raise BadDigits(f"{name} is no IDX file: it begins with {start}, not with 00 00 and a type")
    kind, count = start[2], start[3]
    if kind != BYTES:
        raise BadDigits(
            f"{name} holds numbers of IDX's type 0x{kind:02x}; read are unsigned bytes, "
            f"0x{BYTES:02x}"
        )
    if count == 0 or (axes is not None and count != axes):
        raise BadDigits(
            f"{name} has {count} axes; {'at least 1 is' if axes is None else f'{axes} are'} "
            "expected: images have 3, labels 1"
        )
    lengths = content.read(4 * count)
    if len(lengths) < 4 * count:
        raise BadDigits(f"{name} is cut off: it ends before the lengths of its {count} axes")
    return struct.unpack(f">{count}I", lengths)
