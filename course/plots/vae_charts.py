"""Charts of a VAE: its loss, digits and what it makes of them, its code. Ink is dark, paper white.

Images are (n, pixels) as the network has them: from 0, paper, to 1, ink; of a square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from course.plots.image_charts import image_grid
from course.plots.style import FONT_SIZE, SMALL, Picture, listed, style
from warpsim.draw.palette import BLUE, FAINT, INK, PALETTE, PAPER, SKY

WIDTH, CELL = 7.2, 0.68  # of a picture, and of a digit in it [inch]
COLUMNS = 10
MOST_POINTS = 900  # of a plane: more hide each other


def squares(images: np.ndarray) -> list[np.ndarray]:
    """Rows of pixels as square images; ValueError where their number is no square."""
    images = np.asarray(images)
    side = math.isqrt(images.shape[-1])
    if images.ndim != 2 or side * side != images.shape[1] or not images.size:
        raise ValueError(
            f"images have the shape {images.shape}; pictures are drawn of (n, pixels) with a "
            "square number of pixels, such as 64 or 784"
        )
    return list(1 - np.clip(images, 0, 1).reshape(-1, side, side))


def loss_curve(losses: Sequence[float], steps_of_an_epoch: int) -> Picture:
    """Draw the loss of each step, BCE + KL of an image [nats], and each epoch's mean."""
    losses = np.asarray(losses, np.float64)
    if not losses.size:
        raise ValueError("there is no loss to draw: no step was done")
    picture = Picture(WIDTH, 3.0)
    axes = picture.add_axes((0.09, 0.16, 0.72, 0.77))
    steps = np.arange(losses.size)
    axes.plot((steps + 0.5) / steps_of_an_epoch, losses, color=SKY, linewidth=0.8)
    epochs = np.unique(steps // steps_of_an_epoch)
    means = [losses[steps // steps_of_an_epoch == epoch].mean() for epoch in epochs]
    look = "o-" if len(epochs) > 2 else "o"  # a line through two means says nothing
    axes.plot(epochs + 0.5, means, look, color=BLUE, markersize=3 if len(epochs) < 40 else 0)
    axes.set(xlabel="epoch", ylabel="BCE + KL of an image [nats]")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=losses.min() * 0.97, top=min(losses.max(), 2.2 * means[-1]) * 1.03)
    axes.text(1.01, means[-1], f"mean of an epoch:\n{means[-1]:.4g} at the end",
              color=BLUE, transform=axes.get_yaxis_transform(), fontsize=SMALL)  # fmt: skip
    style(axes)
    return picture.described(
        f"The loss of {losses.size:,} steps, BCE + KL of an image: the mean of an epoch goes from "
        f"{means[0]:.4g} to {means[-1]:.4g} nats in {len(epochs):,} epoch{'s' * (len(epochs) > 1)}."
    )


def rebuilt_digits(images: np.ndarray, rebuilt: np.ndarray) -> Picture:
    """Show digits, and below each what came back from its code, ten in a row."""
    pairs, shown = (squares(images), squares(rebuilt)), []
    wide = min(len(images), COLUMNS)
    for first in range(0, len(images), wide):
        for its in pairs:
            row = its[first : first + wide]
            shown += row + [np.ones_like(its[0])] * (wide - len(row))
    names = ["given", "rebuilt"] * (len(shown) // wide // 2)
    picture = image_grid(shown, columns=wide, row_names=names, cell=CELL)
    error = np.mean([(one - other) ** 2 for one, other in zip(*pairs, strict=True)])
    return picture.described(
        f"{len(images)} digits, and below each what the network rebuilds from its code; the root "
        f"mean squared difference is {math.sqrt(error):.2f} of the way from paper to ink."
    )


def digit_grid(images: np.ndarray, columns: int = COLUMNS, footnote: str | None = None) -> Picture:
    """Show digits side by side, such as samples."""
    found = squares(images)
    picture = image_grid(found, columns=min(columns, len(found)), cell=CELL, footnote=footnote)
    return picture.described(
        f"{len(found)} images that a network made from codes, in rows of {columns}."
    )


def digit_walk(images: np.ndarray, start: str, end: str) -> Picture:
    """Show what codes on a straight line become, from one digit's code to another's."""
    found = squares(images)
    between = [f"{100 * n / (len(found) - 1):.3g}%" for n in range(1, len(found) - 1)]
    picture = image_grid(found, [start, *between, end], columns=len(found), cell=CELL)
    return picture.described(
        f"{len(found)} digits on the straight line between two codes: {start} turns into {end}, "
        "step by step."
    )


def on_a_plane(codes: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Codes (n, latent) as points (n, 2), of more elements by principal components; the axes."""
    if codes.ndim != 2 or codes.shape[1] < 2 or len(codes) < 2:
        raise ValueError(f"codes have the shape {codes.shape}; a plane needs two of two numbers")
    if codes.shape[1] == 2:
        return codes, ["first number of the code", "second number of the code"]
    centred = np.asarray(codes, np.float64) - codes.mean(axis=0)
    _, sizes, ways = np.linalg.svd(centred, full_matrices=False)
    shares = sizes**2 / ((sizes**2).sum() or 1)  # where all codes are one, there is none
    names = [f"principal component {n + 1} ({shares[n]:.0%} of the variance)" for n in range(2)]
    return centred @ ways[:2].T, names


def code_plane(codes: np.ndarray, labels: np.ndarray) -> Picture:
    """Draw images, at most 900, as their labels where their codes lie (n, latent): the means.

    In a circle the mean of each label. Of more than two numbers it is the plane on which the codes
    lie farthest apart.
    """
    points, names = on_a_plane(np.asarray(codes))
    labels, kinds = np.asarray(labels), np.unique(labels)
    picture = Picture(WIDTH, 6.0)
    axes = picture.add_axes((0.1, 0.09, 0.87, 0.88))
    for number, kind in enumerate(kinds):
        colour, its = PALETTE[number % len(PALETTE)], labels == kind
        look = {"linestyle": "none", "marker": f"${kind}$", "color": colour, "markersize": 5}
        axes.plot(*points[:MOST_POINTS][its[:MOST_POINTS]].T, **look)
        frame = {"boxstyle": "circle", "facecolor": PAPER, "edgecolor": colour, "linewidth": 2}
        look = {"ha": "center", "va": "center", "fontsize": FONT_SIZE + 3, "fontweight": "bold"}
        axes.text(*points[its].mean(axis=0), str(kind), color=INK, bbox=frame, zorder=5, **look)
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_aspect("equal", adjustable="datalim")
    style(axes, "none")
    return picture.described(
        f"{min(len(points), MOST_POINTS):,} images on a plane of the code, each drawn as its "
        f"label, across the {names[0]}, up the {names[1]}: images of one digit lie together. "
        f"Labels: {listed(map(str, kinds), 12)}."
    )
