"""Drawings that explain: the factors of an image, who does what, which pixels a warp touches.

They are drawn with the palette and the fonts of `course.plots`.
"""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from course.plots import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GRID,
    INK,
    ORANGE,
    PALETTE,
    VERMILLION,
    Picture,
)

WARP = 32  # threads
SECTOR = 8  # float32 values of 32 bytes


# --- the decomposition --------------------------------------------------------------------------


def factors(image: np.ndarray, u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> Picture:
    """Show an image beside its factors; what belongs to the first k singular values is marked.

    Parameters
    ----------
    image : ndarray, shape (rows, columns)
        Grey levels.
    u, s, vt : ndarray, shapes (rows, r), (r,), (r, columns)
        Blue values of `u` and `vt` are negative, red ones positive.
    k : int
        How many are marked, 1 to r.
    """
    picture = Picture(8.4, 2.6)
    few_colours = colormaps["RdBu_r"].resampled(5)  # the matrices look like noise: small files
    side, top, bottom = 0.205, 0.78, 0.1
    panels = []
    for left in (0.01, 0.265, 0.52, 0.775):
        axes = picture.add_axes((left, bottom, side, top - bottom))
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=GRID)
        panels.append(axes)
    panels[0].imshow(image, cmap="gray", vmin=0, vmax=1)
    for axes, matrix in ((panels[1], u), (panels[3], vt)):
        limit = 2.5 * float(np.std(matrix))
        axes.imshow(matrix, cmap=few_colours, vmin=-limit, vmax=limit, interpolation="nearest")
    size = len(s)
    panels[2].imshow(np.full((size, size), np.nan), cmap="gray")
    panels[2].plot([-0.5, size - 0.5], [-0.5, size - 0.5], color=FAINT, linewidth=1.2)
    panels[2].plot([-0.5, k - 0.5], [-0.5, k - 0.5], color=VERMILLION, linewidth=3.5)
    marks = ((panels[1], k, len(u)), (panels[2], k, k), (panels[3], vt.shape[1], k))
    for axes, width, height in marks:
        box = Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=VERMILLION, linewidth=2)
        box.set_clip_on(False)
        axes.add_patch(box)
    titles = (
        f"image\n{image.shape[0]} × {image.shape[1]}",
        f"U, its first {k} columns\n{len(u)} × {k}",
        f"s, on the diagonal\n{k} numbers",
        f"Vᵀ, its first {k} rows\n{k} × {vt.shape[1]}",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=FONT_SIZE, color=INK, parse_math=False)
    for left, sign in ((0.24, "≈"), (0.495, "·"), (0.75, "·")):
        middle = (top + bottom) / 2
        picture.text(left, middle, sign, fontsize=18, ha="center", va="center", color=INK)
    return picture


# --- who does what ------------------------------------------------------------------------------


def host_and_device(size: int = 256, k: int = 50) -> Picture:
    """Draw the way of an image through CPU and GPU, with the bytes that cross between them.

    Parameters
    ----------
    size : int
        The image has size x size float32 pixels.
    k : int
        Singular values that are kept.
    """
    down = 4 * k * (2 * size + 1)
    up = 4 * size * size
    picture = Picture(8.4, 2.9)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(0, 34))
    axes.axis("off")
    for bottom, name, color in ((20, "CPU, its memory", BLUE), (1, "GPU, its memory", ORANGE)):
        lane = Rectangle((1, bottom), 98, 13, facecolor=color, alpha=0.1, edgecolor="none")
        axes.add_patch(lane)
        axes.text(2, bottom + 10.6, name, fontsize=FONT_SIZE, fontweight="bold", color=INK)
    boxes = (
        (3, 22, 15, "read the image\none file"),
        (23, 22, 17, "SVD\na library's work"),
        (80, 22, 17, "PSNR, SSIM,\npicture"),
        (44, 3, 30, f"kernel: {size * size:,} threads,\none pixel each"),
    )
    for left, bottom, width, text in boxes:
        _box(axes, left, bottom, width, text)
    for start, end, text, place in (
        ((18, 26), (23, 26), "", (0, 0)),
        ((36, 22), (47, 11), f"to_device: u, s, vt\n{down:,} bytes", (22, 17)),
        ((71, 11), (84, 22), f"copy_to_host: image\n{up:,} bytes", (81.5, 17)),
    ):
        _arrow(axes, start, end)
        axes.text(*place, text, fontsize=FONT_SIZE, color=INK, va="center")
    return picture


def _box(axes: Axes, left: float, bottom: float, width: float, text: str) -> None:
    shape = FancyBboxPatch(
        (left, bottom),
        width,
        8,
        boxstyle="round,pad=0,rounding_size=1",
        facecolor="white",
        edgecolor=FAINT,
        linewidth=1.2,
    )
    axes.add_patch(shape)
    middle = (left + width / 2, bottom + 4)
    axes.text(*middle, text, ha="center", va="center", fontsize=FONT_SIZE, color=INK)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    arrow = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=12, color=INK, linewidth=1.3, shrinkA=0
    )
    axes.add_patch(arrow)


# --- which pixels a warp touches ----------------------------------------------------------------


def warp_on_image(block: tuple[int, int] = (16, 16), size: int = 16) -> Picture:
    """Show the pixels of a block's first warp when x walks along columns, and down rows.

    Each numbered square is a thread of the warp; a red frame is a sector that it touches: 32
    bytes, eight float32 pixels of one row.

    Parameters
    ----------
    block : (threads in x, threads in y)
    size : int
        The drawn corner of the image is size x size pixels; a multiple of 8.
    """
    picture = Picture(8.4, 4.2)
    for left, x_walks in ((0.04, "rows"), (0.54, "columns")):
        axes = picture.add_axes((left, 0.04, 0.42, 0.84))
        sectors = set()
        for lane in range(WARP):
            y, x = divmod(lane, block[0])
            row, col = (x, y) if x_walks == "rows" else (y, x)
            sectors.add((row, col // SECTOR))
            axes.add_patch(Rectangle((col, row), 1, 1, facecolor=PALETTE[4], edgecolor="white"))
            axes.text(
                col + 0.5, row + 0.56, str(lane), ha="center", va="center", fontsize=7, color=INK
            )
        for row, sector in sectors:
            frame = Rectangle(
                (sector * SECTOR, row), SECTOR, 1, fill=False, edgecolor=VERMILLION, linewidth=1.4
            )
            axes.add_patch(frame)
        axes.set(
            xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal", xticks=[], yticks=[]
        )
        code = "row, col = cuda.grid(2)" if x_walks == "rows" else "col, row = cuda.grid(2)"
        axes.set_title(
            f"x walks {'down the rows' if x_walks == 'rows' else 'along the columns'}\n"
            f"{code}: {len(sectors)} sectors a store",
            fontsize=FONT_SIZE,
            color=INK,
        )
        for spine in axes.spines.values():
            spine.set(color=GRID)
    return picture
