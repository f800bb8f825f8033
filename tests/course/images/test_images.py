"""Images of every kind come in as grey float32; quality figures are right."""

import math
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from course.files import data_path
from course.images import images
from course.images.reading import ImageError, UnreadableImage, load_folder, load_image


def grey_ramp(rows=12, columns=20):
    """Levels 0..255, rising from left to right."""
    return np.tile(np.linspace(0, 255, columns).round().astype(np.uint8), (rows, 1))


# --- images that come with the course -----------------------------------------------------------


def test_head_mri_is_matplotlibs_big_endian_image():
    image = images.head_mri()
    assert image.shape == (256, 256)
    assert image.dtype == np.float32
    assert (image.min(), image.max()) == (0, 1)
    # read with the wrong byte order, 215 would be 55040 and neighbours would differ wildly
    assert np.abs(np.diff(image, axis=1)).mean() < 0.05


@pytest.mark.parametrize("shape", [(256, 256), (1, 1), (101, 37), (64, 400)])
def test_phantom_has_any_size_and_only_the_published_levels(shape):
    image = images.phantom(*shape)
    assert image.shape == shape
    assert image.dtype == np.float32
    levels = np.array([0, 0.1, 0.2, 0.3, 0.4, 1])
    assert np.abs(image[..., None] - levels).min(axis=-1).max() < 1e-6


def test_phantom_equals_scikit_images():
    from skimage.data import shepp_logan_phantom

    difference = np.abs(images.phantom(400) - shepp_logan_phantom())
    assert difference.mean() < 0.01  # theirs has smooth edges
    assert np.median(difference) < 1e-3


@pytest.mark.parametrize("size", [0, -3, 2.5, "big", None])
def test_phantom_refuses_what_is_no_size(size):
    with pytest.raises(ImageError, match="size"):
        images.phantom(size)


@pytest.mark.parametrize("name", images.photographs())
def test_photographs_are_small_files_and_real_pictures(name):
    assert data_path("images", images.PHOTOGRAPHS[name]).stat().st_size < 200_000
    image = images.photograph(name)
    assert image.dtype == np.float32
    assert 0 <= image.min() < 0.1
    assert 0.7 < image.max() <= 1
    assert images.photograph(name, 256).shape == (256, 256)


def test_every_image_file_has_its_source_and_licence():
    text = data_path("README.md").read_text(encoding="utf-8")
    for file in data_path("images").iterdir():
        line = next(line for line in text.splitlines() if f"`{file.name}`" in line)
        assert "CC0" in line


def test_unknown_photograph_names_those_that_exist():
    with pytest.raises(ImageError, match="camera, coffee, chelsea"):
        images.photograph("lena")


# --- modes (others: test_inputs_drawn.py) -------------------------------------------------------


def test_transparent_palette_is_drawn_over_the_background(tmp_path):
    picture = Image.new("P", (4, 4), 0)
    picture.putpalette([0, 0, 0, 255, 255, 255])
    picture.save(tmp_path / "clear.png", transparency=0)
    assert np.all(load_image(tmp_path / "clear.png") == 1)
    assert np.all(load_image(tmp_path / "clear.png", background=0.25) == 0.25)


def test_phone_jpeg_with_a_preview_is_one_image(tmp_path):
    large, small = (Image.fromarray(grey_ramp(n, n)) for n in (32, 8))
    large.save(tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=[small])
    with Image.open(tmp_path / "phone.jpg") as picture:
        assert picture.n_frames == 2
    assert load_image(tmp_path / "phone.jpg").shape == (32, 32)


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_of_an_animation_the_first_frame_is_taken(tmp_path, suffix):
    frames = [Image.new("L", (8, 8), level) for level in (50, 200, 100)]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:], duration=9)
    with Image.open(tmp_path / f"a.{suffix}") as picture:
        assert picture.n_frames == 3
    assert np.abs(load_image(tmp_path / f"a.{suffix}") - 50 / 255).max() < 0.02


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (3, 2000), (256, 256), (255, 257), (700, 5)])
@pytest.mark.parametrize("fit", ["stretch", "crop"])
def test_any_size_becomes_the_size_wanted(tmp_path, rng, shape, fit):
    Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / "a.png")
    loaded = load_folder(tmp_path, (40, 24), fit=fit)
    assert loaded.images.shape == (1, 40, 24)
    assert loaded.images.dtype == np.float32
    assert 0 <= loaded.images.min() <= loaded.images.max() <= 1


def test_lanczos_overshoot_is_clipped(tmp_path):
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, 32:] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    picture = Image.fromarray((stripes / 255).astype(np.float32))
    assert np.asarray(picture.resize((50, 50), Image.Resampling.LANCZOS)).max() > 1.01
    image = load_image(tmp_path / "a.png", 50)
    assert (image.min(), image.max()) == (0, 1)


def test_crop_keeps_proportions_and_stretch_keeps_the_edges(tmp_path):
    wide = np.full((20, 60), 128, np.uint8)
    wide[:, :20] = 0
    wide[:, 40:] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert np.allclose(load_image(tmp_path / "a.png", 20, fit="crop"), 128 / 255, atol=0.01)
    stretched = load_image(tmp_path / "a.png", 20)
    assert (stretched[0, 0], stretched[0, -1]) == (0, 1)


@pytest.mark.parametrize("size", [(0, 5), (5,), (1.5, 2), "256", -1])
def test_wrong_sizes_are_refused(tmp_path, size):
    Image.fromarray(grey_ramp()).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="size is"):
        load_folder(tmp_path, size)


def test_wrong_fit_is_refused(tmp_path):
    Image.fromarray(grey_ramp()).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="'stretch' and 'crop'"):
        load_folder(tmp_path, fit="zoom")


# --- files that cannot be used ------------------------------------------------------------------


def make_awkward(folder):
    """Fill a folder with files that cannot be used; return the reason expected of each."""
    frames = [Image.new("L", (8, 8), level) for level in (0, 100, 200)]
    frames[0].save(folder / "apng.png", save_all=True, append_images=frames[1:])
    frames[0].save(folder / "ppm.png", format="PPM")
    noise = np.random.default_rng(1).integers(0, 256, (64, 64), dtype=np.uint8)
    for name in ("whole.jpg", "whole.png", "whole.tif"):
        Image.fromarray(noise).save(folder / name)
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        (folder / f"cut-{name}").write_bytes(data[: len(data) // 2])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_text("not an image")
    (folder / "header.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    not_finite = np.ones((4, 4), np.float32)
    not_finite[1, 2] = np.nan
    Image.fromarray(not_finite).save(folder / "nan.tif")
    return {
        "apng.png": "animated (3 frames)",
        "ppm.png": "not a JPEG, PNG, TIFF, GIF, WebP or BMP image",
        "cut-whole.jpg": "truncated",
        "cut-whole.png": "ends early",
        "cut-whole.tif": "",
        "empty.png": "empty (0 bytes)",
        "text.png": "broken, or not a JPEG, PNG, TIFF, GIF",
        "header.png": "",
        "nan.tif": "NaN",
    }


def test_unusable_files_are_named_with_a_reason_and_the_others_are_loaded(tmp_path):
    expected = make_awkward(tmp_path)
    Image.fromarray(grey_ramp()).save(tmp_path / "GOOD.PNG")
    Image.fromarray(grey_ramp()).save(tmp_path / "good.Jpeg")
    (tmp_path / "notes.txt").write_text("no image, not looked at")
    (tmp_path / "folder.png").mkdir()
    Image.fromarray(grey_ramp()).save(tmp_path / "._GOOD.png")  # what macOS leaves on USB sticks
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_folder(tmp_path, 16)
    assert loaded.names == ["GOOD.PNG", "good.Jpeg"]
    assert len(loaded) == len(loaded.images) == 2
    reasons = dict(loaded.skipped)
    assert reasons.keys() == expected.keys()
    for name, part in expected.items():
        assert part in reasons[name]
        assert "\n" not in reasons[name]
    assert repr(loaded).startswith("2 images of 16x16\n  skipped apng.png: is animated")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="this user may read every file"
)
def test_file_without_permission_is_skipped(tmp_path):
    Image.fromarray(grey_ramp()).save(tmp_path / "secret.png")
    Image.fromarray(grey_ramp()).save(tmp_path / "open.png")
    (tmp_path / "secret.png").chmod(0)
    loaded = load_folder(tmp_path, 8)
    assert loaded.names == ["open.png"]
    assert "ermission denied" in loaded.skipped[0][1]


def test_unreadable_file_is_skipped_whoever_runs_this(tmp_path, monkeypatch):
    Image.fromarray(grey_ramp()).save(tmp_path / "secret.png")

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", "secret.png")

    monkeypatch.setattr(Path, "open", refuse)
    loaded = load_folder(tmp_path, 8)
    assert loaded.skipped == [("secret.png", "cannot be read: Permission denied")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    assert load_folder(tmp_path).skipped == [("pipe.png", "is not a regular file")]


def test_dangling_link_is_skipped(tmp_path):
    try:
        (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    except OSError:
        pytest.skip("this system makes no links")
    assert "No such file" in load_folder(tmp_path).skipped[0][1]


def test_empty_folder_says_what_was_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\*\.jpg, \*\.jpeg, \*\.png.*it is empty"):
        load_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileNotFoundError, match="none of its 1 entries"):
        load_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load_folder(tmp_path / "missing")
    with pytest.raises(NotADirectoryError, match="is a file"):
        load_folder(tmp_path / "notes.txt")


def test_folder_of_only_broken_files_gives_no_image_but_all_reasons(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    loaded = load_folder(tmp_path, (5, 6))
    assert loaded.images.shape == (0, 5, 6)
    assert loaded.skipped == [("a.png", "is empty (0 bytes)")]


def test_random_damage_never_escapes_as_another_exception(tmp_path, rng):
    picture = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
    outcomes = set()
    for suffix in ("png", "jpg", "tif"):
        path = tmp_path / f"a.{suffix}"
        picture.save(path)
        whole = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(60):
            damaged = whole.copy()
            damaged[rng.integers(0, len(whole), 12)] = rng.integers(0, 256, 12)
            path.write_bytes(damaged.tobytes())
            try:
                image = load_image(path, 16)
                outcomes.add("read")
                assert np.isfinite(image).all()
            except UnreadableImage:
                outcomes.add("refused")
        shutil.copy(path, tmp_path / f"last.{suffix}")
    assert outcomes == {"read", "refused"}


# --- factors and quality ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (31, 8), (64, 64)])
def test_all_singular_values_give_the_image_back(rng, shape):
    image = rng.random(shape)
    u, s, vt = images.svd(image)
    rank = min(shape)
    assert (u.shape, s.shape, vt.shape) == ((shape[0], rank), (rank,), (rank, shape[1]))
    assert {u.dtype, s.dtype, vt.dtype} == {np.dtype(np.float32)}
    assert np.all(np.diff(s) <= 0)
    # float32 factors: each of the rank products is off by a few parts in 2**24
    assert np.abs(images.reconstruct(u, s, vt, rank) - image).max() < 1e-6 * max(rank, 4)


def test_mean_squared_error_is_that_of_the_values_left_out(rng):
    image = rng.random((40, 30))
    u, s, vt = images.svd(image)
    for k in (1, 10, 29):
        left_out = np.sum(s[k:].astype(np.float64) ** 2) / image.size
        assert images.mse(image, images.reconstruct(u, s, vt, k)) == pytest.approx(left_out, 1e-4)


@pytest.mark.parametrize("k", [0, -1, 9, 2.0, "3", None])
def test_rank_out_of_range_is_refused_with_the_range(k):
    factors = images.svd(np.eye(8))
    with pytest.raises(ImageError, match="from 1 to 8"):
        images.reconstruct(*factors, k)


@pytest.mark.parametrize(
    "image", [np.ones(4), np.ones((2, 2, 3)), np.ones((0, 3)), [[1, np.nan]], [[np.inf, 0]]]
)
def test_svd_refuses_what_is_no_image(image):
    with pytest.raises(ImageError):
        images.svd(image)


def test_compression_counts_numbers():
    assert images.compression(256, 256, 50) == pytest.approx(65536 / (50 * 513))
    assert images.compression(256, 256, 128) < 1  # more numbers than the image itself
    with pytest.raises(ImageError):
        images.compression(256, 256, 257)


def test_psnr_of_known_errors():
    image = np.full((9, 9), 0.5)
    assert images.psnr(image, image) == math.inf
    assert images.psnr(image, image + 0.1) == pytest.approx(20)
    assert images.psnr(image, image + 0.01) == pytest.approx(40)


def test_ssim_is_one_for_equal_images_and_lower_for_noise(rng):
    image = images.head_mri()
    assert images.ssim(image, image) == 1
    little, much = (
        images.ssim(image, image + rng.normal(0, noise, image.shape)) for noise in (0.02, 0.2)
    )
    assert 1 > little > much > 0
    with pytest.raises(ImageError, match="7x7"):
        images.ssim(np.ones((6, 9)), np.ones((6, 9)))


@pytest.mark.parametrize("measure", [images.mse, images.psnr, images.ssim])
def test_quality_refuses_what_cannot_be_compared(measure):
    image = np.ones((8, 8))
    with pytest.raises(ImageError, match=r"\(8, 8\) and \(8, 9\)"):
        measure(image, np.ones((8, 9)))
    with pytest.raises(ImageError, match="second image to compare holds NaN"):
        measure(image, image * np.nan)
    with pytest.raises(ImageError, match="empty"):
        measure(np.ones((0, 8)), np.ones((0, 8)))
