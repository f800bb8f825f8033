"""Pictures: right content, one palette, shown once, readable on any page."""

import io
import subprocess
import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from course import plots
from course.plots import style
from warpsim.draw import palette


def pixels(picture, dpi=100):
    with Image.open(io.BytesIO(picture.png(dpi))) as image:
        return np.asarray(image.convert("RGB"))


def luminance(colour):
    """Relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_name_of_the_face_is_a_chart_and_no_module():
    for name in plots.__all__:
        assert callable(getattr(plots, name)), name


def test_text_and_lines_stand_out_from_the_paper():
    for ink in (palette.INK, palette.FAINT):
        assert contrast(ink, palette.PAPER) >= 4.5
    for colour in palette.PALETTE:
        assert contrast(colour, palette.PAPER) >= 2


def test_palette_is_told_apart_without_red_or_green_cones():
    # Viénot, Brettel and Mollon (1999), linear RGB: protanope and deuteranope
    protan = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    deutan = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    linear = np.array([to_rgb(colour) for colour in palette.PALETTE]) ** 2.2
    for simulation in (protan, deutan):
        seen = np.clip(linear @ simulation.T, 0, 1) ** (1 / 2.2)
        apart = np.abs(seen[:, None] - seen[None]).sum(axis=-1)
        assert apart[~np.eye(len(seen), dtype=bool)].min() > 0.12


def test_grid_shows_black_as_zero_and_white_as_one():
    dark, bright = np.full((8, 8), 0.25), np.full((8, 8), 0.75)
    picture = plots.image_grid([dark, bright, bright], ["a", "b", "c"], columns=2)
    shown = [axes.images[0] for axes in picture.axes]
    assert [image.get_clim() for image in shown] == [(0, 1)] * 3
    drawn = pixels(picture)
    for level in (64, 191):
        assert (np.abs(drawn.astype(int) - level).max(axis=-1) <= 1).mean() > 0.1
    assert len(picture.axes) == 3


def test_grid_is_opaque_paper_for_dark_and_light_pages():
    with Image.open(io.BytesIO(plots.image_grid([np.zeros((4, 4))]).png())) as image:
        edges = np.asarray(image.convert("RGBA"))[[0, -1], 20:-20]
    assert np.all(edges == 255)


def test_names_of_files_are_no_formulas():
    picture = plots.image_grid(
        [np.zeros((4, 4))], ["cost$ in $\\frac"], row_names=["$\\bad{$"], footnote="$\\worse{$"
    )
    assert len(picture.png()) > 100
    curve = plots.quality_curve([1, 2], {"$\\bad{$": [1, 2]}, {"$\\bad{$": [0, 1]})
    assert len(curve.png()) > 100


def test_wide_and_tall_images_fit():
    for shape in ((3, 2000), (2000, 3), (1, 1)):
        width, height = plots.image_grid([np.zeros(shape)] * 2).get_size_inches()
        assert 1 < width < 10
        assert 0.3 < height < 10


@pytest.mark.parametrize(
    ("images", "more", "message"),
    [
        ([], {}, "one or more matrices"),
        ([np.ones(3)], {}, "one or more matrices"),
        ([np.ones((2, 2))], {"titles": ["a", "b"]}, "2 titles for 1 images"),
        ([np.ones((2, 2))] * 2, {"columns": 1, "row_names": ["a"]}, "1 row names for 2 rows"),
    ],
)
def test_grid_refuses_what_does_not_fit(images, more, message):
    with pytest.raises(ValueError, match=message):
        plots.image_grid(images, **more)


def test_curves_hold_the_values_given():
    picture = plots.quality_curve([1, 5, 9], [10.0, 20.0, np.inf], [0.1, 0.5, 1.0], (20, 30))
    upper, lower = picture.axes[:2]
    assert upper.lines[0].get_ydata()[:2].tolist() == [10, 20]
    assert np.isnan(upper.lines[0].get_ydata()[2])  # an infinite PSNR is no point
    assert lower.lines[0].get_ydata().tolist() == [0.1, 0.5, 1.0]
    assert "dB" in upper.get_ylabel()


def test_compression_axis_agrees_with_the_formula():
    from course.images.images import compression

    ranks = [5, 50, 100, 200]
    picture = plots.quality_curve(ranks, [1, 2, 3, 4], [0, 0.2, 0.3, 1], (256, 256))
    top = next(axes for axes in picture.axes if "compression" in axes.get_xlabel())
    labels = [float(label.get_text().rstrip("×")) for label in top.get_xticklabels()]
    assert 1 in labels
    for position, ratio in zip(top.get_xticks(), labels, strict=True):
        assert ratio == pytest.approx(compression(256, 256, 1) / position)
    assert top.get_xlim() == picture.axes[0].get_xlim()


def test_curves_of_several_images_differ_in_more_than_colour():
    names = [f"image {n}" for n in range(7)]
    values = {name: [n, n + 1] for n, name in enumerate(names)}
    lines = plots.quality_curve([1, 2], values, values).axes[0].lines
    assert len({line.get_marker() for line in lines}) == 7
    assert len({line.get_color() for line in lines}) == 7


def test_curves_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="3 values, 2 ranks"):
        plots.quality_curve([1, 2], [1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="PSNR is of"):
        plots.quality_curve([1], {"a": [1]}, {"b": [1]})


def test_numbers_below_curves_do_not_touch():
    for sizes in ([1 << 10, 1 << 14, 1 << 26, 1 << 28], list(range(1, 40)), [64, 128, 256]):
        picture = plots.curves({"one": (sizes, [1.0] * len(sizes))}, "bytes", "µs")
        picture.canvas.draw()
        boxes = [label.get_window_extent() for label in picture.axes[0].get_xticklabels()]
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
        assert len(boxes) > 1


def test_same_picture_is_the_same_bytes():
    first, second = (plots.image_grid([np.eye(9)], ["a"]).png() for _ in range(2))
    assert first == second
    assert matplotlib.__version__.encode() not in first


def test_notebook_shows_a_picture_once_and_no_figure_stays_open():
    program = """
import sys
from itertools import pairwise
from IPython.core.interactiveshell import InteractiveShell
import numpy as np
from course import plots
shell = InteractiveShell.instance()
picture = plots.image_grid([np.eye(9)])
data, metadata = shell.display_formatter.format(picture)
assert data["image/png"][:4] == b"\\x89PNG", data.keys()
assert data["text/plain"] == picture.alternative == "1 grey image of 9 × 9 pixels.", data
assert metadata["image/png"] == {"alt": "1 grey image of 9 × 9 pixels."}, metadata
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot as plt
assert plt.get_fignums() == []
"""
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_picture_that_nobody_described_is_not_shown():
    picture = plots.Picture(1, 1)
    with pytest.raises(ValueError, match="say what the picture shows"):
        picture._repr_png_()
    assert repr(picture) == "a picture without a description"
    png, about = picture.described("Nothing\n    at all.")._repr_png_()
    assert png == picture.png() and about == {"alt": "Nothing at all."}


@pytest.mark.parametrize("draw", [
    lambda: plots.image_grid([np.eye(9)]),  # grey
    lambda: plots.curves({"a": ([1, 2], [1, 2])}, "x", "y"),
])  # fmt: skip
def test_a_picture_is_a_card_with_round_corners_on_a_dark_page(draw):
    with Image.open(io.BytesIO(draw().png())) as image:
        alpha = np.asarray(image.convert("RGBA"))[..., 3]
    assert {*np.unique(alpha)} == {0, 255}
    assert not alpha[[0, 0, -1, -1], [0, -1, 0, -1]].any()
    assert (alpha == 0).sum() < 100 and alpha[10:-10].all() and alpha[:, 10:-10].all()


def test_many_words_in_a_row_are_listed():
    assert [*map(style.listed, ("a", "ab", "abc"))] == ["a", "a and b", "a, b and c"]
    assert style.listed("abcdef", most=4) == "a, b, c and 3 more"
    assert style.listed(["two\nlines"]) == "two lines" and style.listed([]) == "nothing"
    assert style.listed(["a, 1", "b, 2"]) == "a, 1; b, 2"


def test_save_writes_a_png_of_the_resolution(tmp_path):
    picture = plots.image_grid([np.eye(9)])
    picture.save(tmp_path / "a.png", dpi=50)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert image.width == pytest.approx(picture.get_size_inches()[0] * 50, abs=1)


@pytest.mark.parametrize("longest", [3, 5, 8, 20])
def test_shortened_text_keeps_both_ends(longest):
    text = style.shortened("holiday_in_the_mountains.jpg", longest)
    assert len(text) == longest
    assert text[0] == "h"
    assert text[-1] == "g"
    assert style.shortened("short", 5) == "short"
