"""Lanczos's filter on the GPU, here the simulator, held to Pillow's."""

import numpy as np
import pytest
from PIL import Image

from course.backend import cuda
from course_app.kernels.resize import MOST, resized

NEAR = 1e-6


def by_pillow(levels, rows, columns):
    image = Image.fromarray(levels.astype(np.float32) / 255)
    if levels.shape != (rows, columns):
        image = image.resize((columns, rows), Image.Resampling.LANCZOS)
    return np.clip(np.asarray(image), 0, 1)


def stacked(images, most=None):
    """Images one behind the other, and their sizes."""
    most = most or max(image.size for image in images)
    pixels = np.full((len(images), most), 77, np.uint8)
    for place, image in zip(pixels, images, strict=True):
        place[: image.size] = image.ravel()
    return pixels, np.array([image.shape for image in images], np.int32)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("size", [(16, 16), (7, 33), (40, 9)])
def test_levels_are_pillows(size):
    rows, columns = size
    shapes = [
        (1, 1), size, (rows, columns + 3), (rows - 1, columns), (MOST * rows, MOST * columns),
        (2 * rows + 1, columns // 2), (3, MOST * columns), (MOST * rows, 2),
    ]  # fmt: skip
    images = [noise(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    images += [np.full((9, 9), 255, np.uint8), np.zeros((19, 31), np.uint8)]
    images.append((noise(24, 19) > 128).astype(np.uint8) * 255)  # the filter overshoots
    found = resized(*stacked(images), *size)
    assert found.shape == (len(images), *size) and found.dtype == np.float32
    for one, image in zip(found, images, strict=True):
        assert np.abs(one - by_pillow(image, *size)).max() < NEAR
    assert found.min() == 0 and found.max() == 1


def test_of_its_own_size_an_image_comes_out_to_the_bit():
    image = noise(12, 20)
    (found,) = resized(*stacked([image], most=300), 12, 20)
    assert np.array_equal(found, image.astype(np.float32) / 255)


def test_an_image_is_the_same_in_any_company():
    images = [noise(11, 30, seed=1), noise(20, 20, seed=2), noise(9, 9, seed=3)]
    together = resized(*stacked(images), 10, 14)
    for one, image in zip(together, images, strict=True):
        assert np.array_equal(one, resized(*stacked([image], most=1000), 10, 14)[0])


def test_of_an_image_without_rows_the_result_is_left_as_it_is():
    pixels, sizes = stacked([noise(9, 9), noise(12, 5)])
    sizes[0] = 0
    out = cuda.to_device(np.full((2, 8, 8), 0.25, np.float32))
    resized(*map(cuda.to_device, (pixels, sizes)), 8, 8, out=out)
    out = out.copy_to_host()
    assert (out[0] == 0.25).all() and np.abs(out[1] - by_pillow(noise(12, 5), 8, 8)).max() < NEAR


def test_what_does_not_fit_is_refused():
    pixels, sizes = stacked([noise(9, 9)])
    with pytest.raises(TypeError, match="pixels are float32"):
        resized(pixels.astype(np.float32), sizes, 8, 8)
    with pytest.raises(TypeError, match=r"sizes are int64 .* must be int32, \(1, 2\)"):
        resized(pixels, sizes.astype(np.int64), 8, 8)
    with pytest.raises(TypeError, match=r"sizes are int32 of the shape \(1, 1\)"):
        resized(pixels, sizes[:, :1].copy(), 8, 8)
    with pytest.raises(ValueError, match="the size is 0x8"):
        resized(pixels, sizes, 0, 8)
