"""Patch embedding, simulated: five ways to the same tokens, and what each of them takes."""

import numpy as np
import pytest

from course import cuda, trace
from course_models.patches import WAYS, PatchEmbedding, gathered

pytestmark = pytest.mark.usefixtures("h200")


def some(width=24, channels=3, patch=4, side=12, n=2, seed=0, order="C"):
    """An embedding, images, and their tokens in float64."""
    rng = np.random.default_rng(seed)
    count = (side // patch) ** 2
    sizes = (width, channels, patch, patch), (width,), (width,), (count + 1, width)
    weight, bias, cls, position = (
        np.asarray(rng.standard_normal(s), np.float16, order=order) for s in sizes
    )
    images = rng.standard_normal((n, channels, side, side)).astype(np.float16)
    exact = np.zeros((n, count + 1, width))
    for p in range(count):  # a convolution, patch by patch
        y, x = (patch * place for place in divmod(p, side // patch))
        patches = images[:, :, y : y + patch, x : x + patch].astype(float)
        exact[:, 1 + p] = np.tensordot(patches, weight.astype(float), ([1, 2, 3], [1, 2, 3]))
        exact[:, 1 + p] += bias
    exact[:, 0] = cls
    exact += position
    return PatchEmbedding(weight, bias, cls, position), images, exact.reshape(-1, width)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "sizes",
    [{}, {"patch": 3, "side": 9, "n": 1}, {"width": 20, "channels": 1, "patch": 2, "side": 2},
     {"patch": 5, "side": 15, "width": 7}, {"patch": 1, "side": 3, "order": "F"}],
)  # fmt: skip
def test_all_ways_give_float64s_tokens(way, sizes):
    embedding, images, exact = some(**sizes)
    found, _ = embedding.embed(images, way, streams=3)
    # a rounding of what each channel adds, one of the table, one of the sum
    bound = 2.0**-11 * (np.abs(exact) + 4 * np.abs(exact).max())
    assert found.dtype == np.float16 and (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("way", WAYS)
def test_images_of_any_strides_and_none_are_taken(way):
    embedding, images, exact = some(n=3)
    found, _ = embedding.embed(np.asfortranarray(images)[::-1], way)
    wanted, _ = embedding.embed(images[::-1].copy(), way)
    assert np.array_equal(found, wanted)
    found, counts = embedding.embed(images[:0], way)
    assert found.shape == (0, 24) and counts.launches == 0


def test_each_way_counts_what_it_does():
    embedding, images, exact = some()
    counts = {way: embedding.embed(images, way, streams=3)[1] for way in WAYS}
    rows, tokens = len(exact) * embedding.depth * 2, exact.size * 2
    done = {way: (its.launches, its.synchronisations) for way, its in counts.items()}
    assert done == {"channels": (6, 6), "sorted": (1, 2), "streams": (3, 3), "kept": (6, 2),
                    "gemm": (2, 2)}  # fmt: skip
    moved = {way: (its.to_gpu, its.to_host) for way, its in counts.items()}
    assert moved == {
        "channels": (images.nbytes, 3 * tokens), "sorted": (rows, tokens),
        "streams": (rows, tokens), "kept": (images.nbytes, tokens), "gemm": (images.nbytes, tokens),
    }  # fmt: skip


def test_a_line_of_sixteen_pixels_is_one_sector():
    embedding, images, _ = some(width=128, patch=16, side=32, n=1)
    rows = cuda.device_array((5, embedding.depth), np.float16)
    (launch,) = gathered(cuda.to_device(images), rows, embedding.table, None, 16, 0, 3)
    report = trace(launch.kernel, launch.grid, launch.block, *launch.arguments)
    load, store = (report.total("global", op) for op in ("load", "store"))
    assert load.sectors == images.nbytes // 32 and store.sectors == rows.nbytes // 32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.astype(np.float32), "hold float32"),
        (lambda x: x[:, :2], r"\(2, 2, 12, 12\); it must be \(n, 3, 12, 12\)"),
        (lambda x: x[:, :, :8], "must be"),
        (lambda x: x.reshape(2, 3, 4, 36), "must be"),  # as many patches, of another picture
        (lambda x: x[0], "must be"),
    ],
)
def test_other_images_are_refused(change, words):
    embedding, images, _ = some()
    with pytest.raises((TypeError, ValueError), match=words):
        embedding.embed(change(images))
    with pytest.raises(ValueError, match="no way 'rows'"):
        embedding.embed(images, "rows")
    with pytest.raises(ValueError, match="no method 'sorted': choose auto, kept, gemm"):
        embedding.launches(*[cuda.to_device(images)] * 4, "sorted")
