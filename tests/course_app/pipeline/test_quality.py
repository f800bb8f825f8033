"""How good approximations are, by the CPU and the kernel, beside scikit-image; their PNG files."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from course.images import images
from course.images.reading import ImageError
from course_app.kernels import image_quality
from course_app.pipeline import png, quality

CLOSE = 1e-5  # of SSIM: sums over a window and a tile are float32
SIZES = [(7, 7), (7, 40), (8, 31), (38, 33), (97, 13), (64, 64), (33, 71), (256, 256)]


def random(rows, columns):
    return np.random.default_rng((rows, columns)).random((rows, columns), dtype=np.float32)


def photograph(rows, columns):
    return images.photograph("camera", (rows, columns))


def flat(rows, columns):
    return np.full((rows, columns), 0.7, np.float32)


def black_and_white(rows, columns):
    return (random(rows, columns) > 0.5).astype(np.float32)


PICTURES = [random, photograph, images.phantom, flat, black_and_white]


def approximations_of(image):
    """Nearly the same, rebuilt from few values, noisy and out of range, nothing of it, the same."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(image.shape).astype(np.float32)
    rebuilt = images.reconstruct(*images.leading_svd(image, 2), 2)
    return [image + 1e-4 * noise, rebuilt, image + 0.2 * noise, np.zeros_like(image), image]


def checked(image, approximation, mse, ssim, lines):
    """The measures are those of float64, the scan lines those of the rounded pixels."""
    exact = images.mse(image, approximation)
    assert mse == pytest.approx(exact, rel=1e-5, abs=1e-15)
    assert ssim == pytest.approx(images.ssim(image, approximation), abs=CLOSE)
    assert np.array_equal(decoded(lines), rounded(approximation))


def rounded(levels):
    return np.rint(np.clip(levels, 0, 1) * np.float32(255)).astype(np.uint8)


def decoded(lines):
    """What a library reads from a PNG file of these scan lines."""
    with Image.open(io.BytesIO(png.file_of(lines))) as image:
        assert image.format == "PNG" and image.mode == "L"
        return np.asarray(image)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("picture", PICTURES)
def test_on_the_cpu_measures_are_scikit_images_and_lines_the_rounded_pixels(picture, size):
    image = picture(*size)
    approximations = approximations_of(image)
    for approximation, its in zip(
        approximations, quality.quality_of(image, approximations), strict=True
    ):
        checked(image, approximation, its.mse, its.ssim, its.lines)
        assert its.psnr_db == images.psnr_of(its.mse)
    assert math.isinf(its.psnr_db) and its.ssim == 1 and its.mse == 0


def by_kernel(image, approximations):
    stack = np.stack([image] * len(approximations)), np.stack(approximations)
    lines, sums = image_quality.quality_of(*stack)
    return zip(approximations, *image_quality.measures(sums, *image.shape), lines, strict=True)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("picture", PICTURES)
def test_by_the_kernel_measures_are_scikit_images_and_lines_the_rounded_pixels(picture, size):
    image = picture(*size)
    for its in by_kernel(image, approximations_of(image)):
        checked(image, *its)


def test_the_kernel_gives_an_image_the_same_bits_in_any_stack():
    image = random(40, 45)
    stack = np.stack([image, *approximations_of(image)[:2]])
    lines, sums = image_quality.quality_of(stack, stack[::-1].copy())
    for place in range(3):
        alone = image_quality.quality_of(stack[place : place + 1], stack[2 - place][None])
        assert np.array_equal(alone[0][0], lines[place])
        assert np.array_equal(alone[1][0], sums[place])


def test_the_kernel_refuses_what_is_too_small_or_of_two_shapes():
    one = np.zeros((2, 8, 8), np.float32)
    with pytest.raises(ValueError, match=r"images are \(2, 8, 8\) and approximations \(1, 8, 8\)"):
        image_quality.quality_of(one, one[:1])
    with pytest.raises(ValueError, match="images are 6x8; SSIM compares windows of 7x7"):
        image_quality.quality_of(one[:, :6], one[:, :6])
    with pytest.raises(TypeError, match="float32"):
        image_quality.quality_of(one.astype(np.float64), one)


def test_quality_refuses_what_has_none():
    good = np.zeros((9, 9), np.float32)
    for bad in (np.nan, np.inf):
        wrong = good.copy()
        wrong[8, 8] = bad
        with pytest.raises(ImageError, match="holds NaN or infinite"):
            quality.quality_of(good, [wrong])
    for image, other in (good, good[:, :8]), (good[:6, :6], good[:6, :6]):
        with pytest.raises(ImageError, match="at least 7x7"):
            quality.quality_of(image, [other])


# --- PNG ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (64, 37), (3, 1000)])
def test_scan_lines_are_read_as_the_pixels(shape):
    grey = np.random.default_rng(shape).integers(0, 256, shape).astype(np.uint8)
    lines = quality.scan_lines(grey.astype(np.float32) / 255)
    with Image.open(io.BytesIO(png.file_of(lines))) as image:
        image.verify()
    assert np.array_equal(decoded(lines), grey)


def test_levels_are_rounded_half_to_even_and_clipped():
    midpoints = (np.arange(255, dtype=np.float32) + np.float32(0.5)) / np.float32(255)
    levels = np.concatenate([midpoints, [-1, -1e-9, 1 + 1e-6, 7]]).astype(np.float32)
    levels = np.tile(levels, (7, 1))
    assert np.array_equal(decoded(quality.scan_lines(levels)), rounded(levels))
    lines, _ = image_quality.quality_of(levels[None], levels[None])
    assert np.array_equal(decoded(lines[0]), rounded(levels))


@pytest.mark.parametrize("name", images.photographs())
@pytest.mark.parametrize("k", [10, 50])
def test_files_of_photographs_are_no_larger_than_a_librarys_quickest(name, k):
    image = images.photograph(name, 256)
    (its,) = quality.quality_of(image, [images.reconstruct(*images.leading_svd(image, k), k)])
    quickest = io.BytesIO()
    Image.fromarray(decoded(its.lines)).save(quickest, "png", compress_level=1)
    assert len(png.file_of(its.lines)) <= 1.15 * len(quickest.getvalue())
