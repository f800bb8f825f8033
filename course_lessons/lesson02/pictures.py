"""Drawings of lesson 02: the factors of an image, its way to the GPU, what a warp touches."""

import numpy as np
from matplotlib import colormaps

from course.plots.style import Pen, Picture, framed
from warpsim.draw.palette import BLUE, FAINT, ORANGE, PAPER, SKY, VERMILLION

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
    panels = [
        framed(picture.add_axes((left, bottom, side, top - bottom)))
        for left in (0.01, 0.265, 0.52, 0.775)
    ]
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
        box = Pen.on(axes).box(-0.5, -0.5, width, height, "none", VERMILLION, 2)
        box.set_clip_on(False)
    titles = (
        f"image\n{image.shape[0]} × {image.shape[1]}",
        f"U, its first {k} columns\n{len(u)} × {k}",
        f"s, on the diagonal\n{k} numbers",
        f"Vᵀ, its first {k} rows\n{k} × {vt.shape[1]}",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
    for left, sign in ((0.24, "≈"), (0.495, "·"), (0.75, "·")):
        picture.text(left, (top + bottom) / 2, sign, fontsize=18, ha="center", va="center")
    return picture.described(
        f"An image of {image.shape[0]} × {image.shape[1]} pixels is about U times s times V "
        f"transposed. Framed: the first {k} columns of U, the first {k} of {size} numbers on the "
        f"diagonal of s, the first {k} rows of V transposed."
    )


# --- who does what ------------------------------------------------------------------------------


def way_of_an_image(size: int = 256, k: int = 50) -> Picture:
    """Draw the way of an image through CPU and GPU, with the bytes that cross between them.

    Parameters
    ----------
    size : int
        The image has size x size float32 pixels.
    k : int
        Singular values that are kept.
    """
    down, up = 4 * k * (2 * size + 1), 4 * size * size
    pen = Pen(8.4, 2.9, (0, 100), (0, 34))
    for y, name, color in ((20, "CPU, its memory", BLUE), (1, "GPU, its memory", ORANGE)):
        pen.box(1, y, 98, 13, color, "none", alpha=0.1)
        pen.text(2, y + 10.6, name, ha="left", va="baseline", weight="bold")
    pen.rounded(3, 22, 15, 8, "read the image\none file")
    pen.rounded(23, 22, 17, 8, "SVD\na library's work")
    pen.rounded(80, 22, 17, 8, "picture,\nits error")
    pen.rounded(44, 3, 30, 8, f"kernel: {size * size:,} threads,\none pixel each")
    for start, end in (((18, 26), (23, 26)), ((36, 22), (47, 11)), ((71, 11), (84, 22))):
        pen.arrow(start, end, head=12, shrinkB=2)
    pen.text(22, 17, f"to_device: u, s, vt\n{down:,} bytes", ha="left")
    pen.text(81.5, 17, f"copy_to_host: image\n{up:,} bytes", ha="left")
    return pen.picture.described(
        f"The way of an image: on the CPU it is read and its SVD taken; {down:,} bytes of u, s "
        f"and vt go to the GPU, whose kernel has {size * size:,} threads, one for each pixel; "
        f"{up:,} bytes of image come back, for a picture and its error."
    )


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
    picture, counts = Picture(8.4, 4.2), []
    for left, x_walks, title in (
        (0.04, "rows", "x walks down the rows\nrow, col = cuda.grid(2)"),
        (0.54, "columns", "x walks along the columns\ncol, row = cuda.grid(2)"),
    ):
        axes = framed(picture.add_axes((left, 0.04, 0.42, 0.84)))
        pen, sectors = Pen.on(axes), set()
        for lane in range(WARP):
            y, x = divmod(lane, block[0])
            row, col = (x, y) if x_walks == "rows" else (y, x)
            sectors.add((row, col // SECTOR))
            pen.box(col, row, 1, 1, SKY, PAPER, 1)
            pen.text(col + 0.5, row + 0.56, str(lane), 7)
        for row, sector in sectors:
            pen.box(sector * SECTOR, row, SECTOR, 1, "none", VERMILLION, 1.4)
        axes.set(xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal")
        axes.set_title(f"{title}: {len(sectors)} sectors a store")
        counts.append(len(sectors))
    return picture.described(
        f"Which pixels of an image the {WARP} threads of a warp touch, with the sectors around "
        f"them: {counts[0]} sectors where x walks down the rows, {counts[1]} where it walks along "
        "the columns."
    )
