"""Images of handwritten digits: 1,797 that come with the course.

>>> x, labels = training()                     # four of five images, (1437, 1, 8, 8)
>>> x, labels = held_out()                     # every fifth, that no training sees

Images are float32 from 0 (paper) to 1 (ink), in the layout that convolutions take: (image, channel,
row, column). They are 8 x 8 pixels and are those of scikit-learn, which need not be installed.
Source and licence: ``data/README.md``. `course.models.digits.mnist` reads MNIST's, where you have
them.
"""

from __future__ import annotations

import numpy as np

from course.files import data_path

CLASSES = 10
SIDE, DEEPEST = 8, 16  # pixels of a side, and the number of the darkest, of the course's images
EVERY = 5  # of so many images one is held out


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

    The same 13 people wrote these and the images to train on: what is known of them is how well
    a network reads digits of people that it has read before.
    """
    images, labels = every()
    return images[::EVERY].copy(), labels[::EVERY].copy()


def every() -> tuple[np.ndarray, np.ndarray]:
    """All images that come with the course, x (1797, 1, 8, 8), and their labels (1797,)."""
    with np.load(data_path("digits", "digits.npz"), allow_pickle=False) as file:
        return network_input(file["images"], DEEPEST), file["labels"].astype(np.int64)


def network_input(images: np.ndarray, deepest: int) -> np.ndarray:
    """Images (n, rows, columns) of whole numbers up to `deepest`, as a network takes them."""
    return (images.astype(np.float32) / np.float32(deepest))[:, None]
