"""The grid: the first originals and their reconstructions side by side, as one grey picture.

Drawn by Pillow alone: a plotting library takes seconds, for which everything else has to wait.
"""

import importlib.util
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from course import files
from course.images.reading import printable
from course.pipeline.results import GRID_RANKS, TABLE_FILE, Quality, evenly

SIDE = 300  # pixels: cells are at most so wide and high, and widened until a caption fits
NARROWEST = 200
MARGIN, LINE, LETTERS = 12, 19, 15  # pixels
PAPER, INK = 255, 40


def write_grid(
    qualities: list[Quality], ranks: list[int], shown: list[list[np.ndarray]], path: Path
) -> None:
    """Draw originals and reconstructions side by side.

    Parameters
    ----------
    qualities : list of Quality
        Of all images, in order.
    ranks : list of int
        All values of k; up to 6 of them are shown.
    shown : list of list of ndarray
        Of each of the first images the original, then its reconstruction for each k shown.
    path : Path
    """
    shown_ranks = evenly(ranks, GRID_RANKS)
    images_of_all = [qualities[i : i + len(ranks)] for i in range(0, len(qualities), len(ranks))]
    left_out = [
        f"{count:,} more {one if count == 1 else several}"
        for count, one, several in (
            (len(images_of_all) - len(shown), "image", "images"),
            (len(ranks) - len(shown_ranks), "value of k", "values of k"),
        )
        if count
    ]
    note = f"{' and '.join(left_out)} in {TABLE_FILE}" if left_out else ""
    pictures = [[_picture(cell) for cell in cells] for cells in shown]
    width = max([NARROWEST, *(its.width for row in pictures for its in row)])
    height = max([1, *(its.height for row in pictures for its in row)])
    row_height = LINE + height + 2 * LINE + MARGIN
    size = (
        MARGIN + (1 + len(shown_ranks)) * (width + MARGIN),
        MARGIN + len(pictures) * row_height + (LINE if note else 0),
    )
    page = Image.new("L", size, PAPER)
    pen, font = ImageDraw.Draw(page), _font()
    for number, (row, lines) in enumerate(zip(pictures, images_of_all, strict=False)):
        top = MARGIN + number * row_height
        pen.text((MARGIN, top), printable(lines[0].name), INK, font)
        captions = ["original"] + [
            f"k = {line.k}: {_smaller(line.compression)}\n"
            f"{line.psnr_db:.1f} dB, SSIM {line.ssim:.3f}"
            for line in lines
            if line.k in shown_ranks
        ]
        for column, (picture, caption) in enumerate(zip(row, captions, strict=True)):
            left = MARGIN + column * (width + MARGIN)
            page.paste(picture, (left, top + LINE))
            pen.multiline_text(
                (left, top + LINE + picture.height + 2), caption, INK, font, spacing=2
            )
    if note:
        pen.text((MARGIN, size[1] - LINE - MARGIN // 2), note, INK, font)
    content = io.BytesIO()
    page.save(content, "png", compress_level=1)
    files.write_whole(path, content.getvalue())


def _picture(cell: np.ndarray) -> Image.Image:
    """A cell in 8 bits; small ones with each pixel several times as large."""
    picture = Image.fromarray(np.rint(255 * np.clip(cell, 0, 1)).astype(np.uint8))
    longest = max(picture.size)
    scale = SIDE // longest if longest <= SIDE else SIDE / longest
    size = tuple(max(1, round(side * scale)) for side in picture.size)
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    return picture if size == picture.size else picture.resize(size, how)


def _font() -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """Letters of many scripts, which Matplotlib brings; it need not be imported for them."""
    found = importlib.util.find_spec("matplotlib")
    if found is not None and found.origin:
        letters = Path(found.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"
        try:
            return ImageFont.truetype(str(letters), LETTERS)
        except OSError:
            pass
    return ImageFont.load_default(LETTERS)


def _smaller(compression: float) -> str:
    if compression < 1:
        return f"{1 / compression:.3g}× larger"
    return f"{compression:.3g}× smaller"
