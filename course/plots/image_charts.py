"""Charts of images and of what is kept of them: grids, quality by rank, singular values."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from course.plots.style import FONT_SIZE, SMALL, Picture, framed, listed, series, shortened, style
from warpsim.draw.palette import FAINT

HIGHEST_PSNR = 70  # [dB]; at about 59 dB the error is that of rounding to 8 bits: beyond any screen


def image_grid(
    images: Sequence[np.ndarray],
    titles: Sequence[str] | None = None,
    *,
    columns: int | None = None,
    row_names: Sequence[str] | None = None,
    footnote: str | None = None,
    cell: float = 2.0,
) -> Picture:
    """Show grey images side by side, row by row, all from black = 0 to white = 1.

    Parameters
    ----------
    images : sequence of ndarray, shape (rows, columns)
        Grey levels; what lies outside [0, 1] is shown as black or white.
    titles : sequence of str, optional
        A title of one or two lines above each image.
    columns : int, optional
        Images in a row; without it at most 4.
    row_names : sequence of str, optional
        A name on the left of each row.
    footnote : str, optional
        One line below the grid.
    cell : float
        Width of an image [inch].

    Raises
    ------
    ValueError
        When there is no image, one is not two-dimensional, or the numbers of titles or names do
        not fit.
    """
    images = [np.asarray(image) for image in images]
    if not images or any(image.ndim != 2 or image.size == 0 for image in images):
        shapes = [image.shape for image in images]
        raise ValueError(f"images must be one or more matrices of grey levels; given {shapes}")
    columns = columns or min(len(images), 4)
    rows = math.ceil(len(images) / columns)
    if titles is not None and len(titles) != len(images):
        raise ValueError(f"there are {len(titles)} titles for {len(images)} images")
    if row_names is not None and len(row_names) != rows:
        raise ValueError(f"there are {len(row_names)} row names for {rows} rows")

    line = FONT_SIZE * 1.35 / 72  # height of a line of text [inch]
    gap = 0.12
    title_lines = max((title.count("\n") + 1 for title in titles), default=0) if titles else 0
    above = title_lines * line + gap
    tallest = max(image.shape[0] / image.shape[1] for image in images)
    height = cell * min(max(tallest, 0.25), 2.5)
    left = gap + (1.5 * line if row_names else 0)
    below = gap + (1.6 * line if footnote else 0)
    picture = Picture(left + columns * (cell + gap), gap / 2 + rows * (above + height) + below)
    total_width, total_height = picture.get_size_inches()
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        x = left + column * (cell + gap)
        y = total_height - gap / 2 - (row + 1) * (above + height)
        box = (x / total_width, y / total_height, cell / total_width, height / total_height)
        axes = picture.add_axes(box)
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        framed(axes)
        if titles:
            axes.set_title(titles[index], pad=4)
        if row_names and column == 0:
            name = shortened(row_names[row], int(height * 72 / FONT_SIZE * 1.35))
            place = (left - 0.4 * line) / total_width, (y + height / 2) / total_height
            look = {"rotation": 90, "ha": "right", "va": "center", "fontweight": "bold"}
            picture.text(*place, name, **look)
    if footnote:
        place = left / total_width, 0.6 * line / total_height
        picture.text(*place, footnote, fontsize=SMALL, color=FAINT)
    return picture.described(
        f"{len(images)} grey image{'s' * (len(images) != 1)} of {_sizes(images)} pixels"
        + (f": {listed(dict.fromkeys(titles), 12)}" if titles else "")
        + (f"; rows: {listed(row_names)}" if row_names else "")
        + (f". {footnote}" if footnote else ".")
    )


def _sizes(images: Sequence[np.ndarray]) -> str:
    """The sizes of images in words, each once."""
    return listed(dict.fromkeys(f"{rows} × {columns}" for rows, columns in map(np.shape, images)))


def quality_curve(
    ranks: Sequence[int],
    psnr_db: Sequence[float] | Mapping[str, Sequence[float]],
    ssim: Sequence[float] | Mapping[str, Sequence[float]],
    size: tuple[int, int] | None = None,
) -> Picture:
    """Plot the quality of reconstructions against k: PSNR above, SSIM below.

    Where PSNR leaves the plot at 70 dB, no screen shows a difference any more.

    Parameters
    ----------
    ranks : sequence of int
        The values of k.
    psnr_db, ssim : sequence of float, or mapping of an image's name to one
        Quality at each k; a mapping gives a line for each image.
    size : (rows, columns), optional
        Size of the images. With it an axis on top tells how many times fewer numbers the factors
        hold than the image, and a line stands where they hold equally many.

    Raises
    ------
    ValueError
        When a curve is not as long as `ranks`, or the two mappings have different names.
    """
    curves = [_named(psnr_db), _named(ssim)]
    if list(curves[0]) != list(curves[1]):
        raise ValueError(f"PSNR is of {list(curves[0])}, but SSIM of {list(curves[1])}")
    for curve in curves:
        for name, values in curve.items():
            if len(values) != len(ranks):
                raise ValueError(f"{name or 'the curve'}: {len(values)} values, {len(ranks)} ranks")

    picture = Picture(6.4, 4.8)
    upper, lower = picture.subplots(2, 1, sharex=True)
    picture.subplots_adjust(
        left=0.1, right=0.97, top=0.87 if size else 0.96, bottom=0.1, hspace=0.1
    )
    for axes, curve, label in zip((upper, lower), curves, ("PSNR [dB]", "SSIM"), strict=True):
        for index, (name, values) in enumerate(curve.items()):
            finite = [value if math.isfinite(value) else math.nan for value in values]
            look = series(index) | {"markersize": 4.5, "linewidth": 1.6}
            axes.plot(ranks, finite, label=name, **look)
        axes.set_ylabel(label)
        style(axes)
    lower.set_xlabel("k, singular values kept")
    lower.set_ylim(top=1.02)
    if upper.get_ylim()[1] > HIGHEST_PSNR:
        upper.set_ylim(top=HIGHEST_PSNR)
    if len(curves[0]) > 1 or next(iter(curves[0])):
        lower.legend(loc="lower right")
    if size is not None:
        _compression_axis(upper, lower, size)
    upper.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    return picture.described(
        f"PSNR and SSIM rising with k from {min(ranks)} to {max(ranks)}: "
        + listed(
            f"{name or 'the image'}, {values[0]:.3g} to {values[-1]:.3g} dB"
            for name, values in curves[0].items()
        )
        + "."
    )


def _compression_axis(upper: Axes, lower: Axes, size: tuple[int, int]) -> None:
    rows, columns = size
    break_even = rows * columns / (rows + columns + 1)  # k at which the factors are as large
    low, high = upper.get_xlim()
    top = upper.twiny()
    top.set_xlim(low, high)
    ticks, last = [], -math.inf
    for ratio in (20, 10, 5, 3, 2, 1.5, 1, 0.75, 0.5):
        if low < break_even / ratio < high and break_even / ratio - last >= 0.07 * (high - low):
            last = break_even / ratio
            ticks.append(ratio)
    top.set_xticks([break_even / ratio for ratio in ticks], [f"{ratio:g}×" for ratio in ticks])
    top.xaxis.set_minor_formatter(NullFormatter())
    top.set_xlabel("compression: numbers in the image / numbers in the factors")
    for side, spine in top.spines.items():
        spine.set_visible(side == "top")
        spine.set_color(FAINT)
    if low < break_even < high:
        for axes in (upper, lower):
            axes.axvline(break_even, color=FAINT, linestyle="--", linewidth=1.2)


def _named(curves: Sequence[float] | Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    return dict(curves) if isinstance(curves, Mapping) else {"": curves}


def singular_values(curves: Mapping[str, Sequence[float]], keep: int | None = None) -> Picture:
    """Plot singular values against their number, on a logarithmic axis.

    Parameters
    ----------
    curves : mapping of an image's name to its singular values, largest first
        Values below 1e-4 of the first are rounding noise and stay out of the plot.
    keep : int, optional
        A line is drawn behind this many.
    """
    picture = Picture(6.4, 3.2)
    axes = picture.subplots()
    picture.subplots_adjust(left=0.11, right=0.97, top=0.95, bottom=0.15)
    for index, (name, values) in enumerate(curves.items()):
        relative = np.asarray(values, dtype=np.float64) / values[0]
        shown = np.where(relative > 1e-4, relative, math.nan)
        numbers = np.arange(1, len(shown) + 1)
        every = max(len(shown) // 12, 1)
        look = series(index) | {"markersize": 4.5, "markevery": every}
        axes.plot(numbers, shown, label=name, **look)
    axes.set_yscale("log")
    axes.set(xlabel="number of the singular value", ylabel="singular value / the first")
    style(axes)
    if keep is not None:
        axes.axvline(keep, color=FAINT, linestyle="--", linewidth=1.2)
        axes.text(keep + 3, 0.6, f"k = {keep}", color=FAINT)
    axes.legend(loc="upper right")
    return picture.described(
        "Singular values falling with their number: "
        + listed(
            f"{name}, the 10th is {values[min(9, len(values) - 1)] / values[0]:.1g} of the first"
            for name, values in curves.items()
        )
        + "."
    )
