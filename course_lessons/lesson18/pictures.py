"""Drawings of lesson 18: patches, the network, sums, attention, memory, recorded parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from course.plots.style import FONT_SIZE, SMALL, TINY, Pen, Picture, in_plain_numbers, style
from course_models.vit.shape import ViTShape
from warpsim.draw.palette import (
    BLUE,
    FAINT,
    GREEN,
    GRID,
    INK,
    ORANGE,
    PALETTE,
    PURPLE,
    SKY,
    VERMILLION,
    pale,
)


def _pixels(pen: Pen, x: float, y: float, side: float, values: np.ndarray) -> None:
    """Grey boxes, dark where the value is 1."""
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            grey = str(round(float(1 - 0.85 * value), 2))
            pen.box(x + column * side, y + row * side, side, side, grey, GRID, 0.4)


# --- patches --------------------------------------------------------------------------------------


def patches(image: np.ndarray, patch: int = 2, shown: Sequence[int] = (0, 1, 6, 15)) -> Picture:
    """Draw an image (side, side), its patches, and which row each of some patches becomes."""
    side, across = 0.24, image.shape[1] // patch
    pen = Pen(7.2, 2.75)
    left, top = 0.35, 0.5
    pen.text(left + image.shape[1] * side / 2, 0.2, "an image in patches", weight="bold")
    _pixels(pen, left, top, side, image)
    for number in range(across * (image.shape[0] // patch)):
        y, x = number // across * patch, number % across * patch
        place = left + x * side, top + y * side, patch * side, patch * side
        chosen = number in shown
        colour = PALETTE[shown.index(number) % len(PALETTE)] if chosen else FAINT
        pen.box(*place, "none", colour, 2.2 if chosen else 0.8)
    pen.text(5.3, 0.2, "each patch is a row of the matrix", weight="bold")
    for line, number in enumerate(shown):
        y, x = number // across * patch, number % across * patch
        values = image[y : y + patch, x : x + patch].reshape(1, -1)
        place = top + 0.1 + 0.5 * line
        _pixels(pen, 4.9, place, side, values)
        colour = PALETTE[line % len(PALETTE)]
        pen.box(4.9, place, side * values.size, side, "none", colour, 2.2)
        pen.text(4.75, place + side / 2, f"row {number}", ha="right", size=SMALL, color=colour)
    words = "in a row: the patch's first line of pixels, then the next; then the next channel"
    pen.text(0.35, 2.6, words, ha="left", size=TINY, color=FAINT)
    return pen.picture.described(
        f"An image of {image.shape[0]} × {image.shape[1]} pixels, cut into patches of {patch} × "
        f"{patch}. Patches are counted along the lines; each becomes a row of {patch * patch} "
        f"numbers, its own pixels line by line; rows {', '.join(map(str, shown))} are shown."
    )


# --- the network ----------------------------------------------------------------------------------


def network(shape: ViTShape) -> Picture:
    """Draw what becomes of an image, and what is in a block; with the sizes of matrices."""
    pen = Pen(7.5, 2.75)
    rows, pixels = shape.tokens - 1, shape.channels * shape.patch**2
    whole = (
        ("image", f"{shape.image} × {shape.image}", SKY),
        ("patches", f"{rows} × {pixels}", SKY),
        ("tokens", f"{shape.tokens} × {shape.width}", GREEN),
        (f"{shape.depth} blocks", f"{shape.tokens} × {shape.width}", PURPLE),
        ("class token", f"1 × {shape.width}", GREEN),
        ("scores", f"1 × {shape.classes}", ORANGE),
    )
    step = 1.24
    for place, (name, size, colour) in enumerate(whole):
        x = 0.12 + place * step
        pen.tint(x, 0.2, 0.98, 0.56, colour)
        pen.text(x + 0.49, 0.37, name, weight="bold", size=SMALL)
        pen.text(x + 0.49, 0.6, size, size=TINY)
        if place:
            pen.arrow((x - step + 1.0, 0.48), (x - 0.03, 0.48))
    inside = (("norm", SKY), ("q, k, v", BLUE), ("attention", VERMILLION), ("proj, +", BLUE),
              ("norm", SKY), ("fc1, GELU", BLUE), ("fc2, +", BLUE))  # fmt: skip
    pen.text(0.12, 1.2, "a block:", ha="left", weight="bold", size=SMALL)
    step, wide, y = 1.06, 0.86, 1.72
    for place, (name, colour) in enumerate(inside):
        x = 0.12 + place * step
        pen.tint(x, y, wide, 0.4, colour)
        pen.text(x + wide / 2, y + 0.2, name, size=SMALL)
        if place:
            pen.arrow((x - step + wide, y + 0.2), (x - 0.02, y + 0.2), head=8)
    for start, end in ((0, 3), (4, 6)):
        a, b = 0.06 + start * step, 0.12 + end * step + wide / 2
        look = {"color": FAINT, "linewidth": 1.3}
        pen.axes.plot([a, a, b], [y + 0.2, y - 0.22, y - 0.22], **look)
        pen.arrow((b, y - 0.22), (b, y), color=FAINT, head=8)
    words = "grey: what goes in is added to what comes out; attention alone looks at other tokens"
    pen.text(0.12, 2.5, words, ha="left", size=TINY, color=FAINT)
    return pen.picture.described(
        "From left to right: "
        + ", ".join(f"{name} ({size})" for name, size, _ in whole)
        + ". A block: norm, the product that gives q, k and v, attention, a product that is added "
        "to what came in; then norm, a product with GELU, a product that is added again."
    )


# --- sums in halves -------------------------------------------------------------------------------


def running_sums(counts: np.ndarray, sums: Mapping[str, np.ndarray]) -> Picture:
    """Draw sums of ones by how many were added, a line for each type."""
    picture = Picture(6.4, 2.7)
    axes = picture.add_axes((0.12, 0.19, 0.7, 0.72))
    for (name, values), colour in zip(sums.items(), (VERMILLION, BLUE), strict=False):
        axes.plot(counts, values, color=colour, linewidth=2)
        axes.text(counts[-1] * 1.02, values[-1], name, color=colour, va="center")
    axes.set(xlabel="ones that were added", ylabel="the sum", xlim=(0, counts[-1]), ylim=0)
    style(axes)
    said = "; ".join(f"{name} ends at {its[-1]:,.0f}" for name, its in sums.items())
    return picture.described(f"Sums of up to {counts[-1]:,} ones: {said}.")


# --- attention ------------------------------------------------------------------------------------


def shares(image: np.ndarray, heads: Sequence[np.ndarray], names: Sequence[str]) -> Picture:
    """Draw an image, and for each head how much of its patches one token takes."""
    side, top = 0.2, 0.5
    wide = 8 * side
    pen = Pen(0.4 + (1 + len(heads)) * (wide + 0.55), top + wide + 0.3)
    for number, (values, name) in enumerate(zip((image, *heads), ("image", *names), strict=True)):
        x = 0.35 + number * (wide + 0.55)
        each = side if number == 0 else wide / len(values)
        pen.text(x + wide / 2, 0.22, name, weight="bold", size=SMALL)
        _pixels(pen, x, top, each, values / values.max())
    where = [divmod(int(one.argmax()), len(one)) for one in heads]
    told = "; ".join(f"{name}: most in line {y}, place {x}" for name, (y, x) in
                     zip(names, where, strict=True))  # fmt: skip
    return pen.picture.described(
        f"A digit, and the shares of its {heads[0].size} patches, dark where large. {told}."
    )


def tiles(tokens: int, keys: int) -> Picture:
    """Draw one query's scores in tiles of keys, and what is kept from tile to tile."""
    count, step = -(-tokens // keys), 2.62
    wide = 1.6 / keys
    pen = Pen(0.3 + step * count, 2.3)
    pen.text(0.25, 0.22, "one query: scores with all keys, a tile at a time", ha="left",
             weight="bold")  # fmt: skip
    for number in range(count):
        x, first = 0.25 + number * step, number * keys
        inside = min(keys, tokens - first)
        for n in range(inside):
            pen.tint(x + n * wide, 0.5, wide, wide, SKY, edge=GRID, text=str(first + n), size=TINY)
        pen.arrow((x + 0.8, 0.55 + wide), (x + 0.8, 1.22))
        pen.tint(x, 1.25, 1.6, 0.6, ORANGE, text="largest, total,\nsums of values", size=SMALL)
        if number:
            pen.arrow((x - step + 1.62, 1.55), (x - 0.03, 1.55))
            pen.text(x - (step - 1.6) / 2, 1.4, "× exp(old − new)", size=TINY - 1)
    pen.text(0.25, 2.12, "what is kept has the size of one token; no score is kept", ha="left",
             size=TINY, color=FAINT)  # fmt: skip
    return pen.picture.described(
        f"A query's {tokens} scores in {count} tiles of up to {keys} keys. After each tile three "
        "things are kept: the largest score, the total of weights, and the sums of values by "
        "weights. Before the next tile is added they are multiplied by exp(old largest - new)."
    )


# --- two ways to read memory ----------------------------------------------------------------------


def readings(rows: int = 2, columns: int = 3) -> Picture:
    """Draw numbers in memory, read as a matrix by rows, and by columns as its transpose."""
    side, numbers = 0.42, range(rows * columns)
    pen = Pen(7.0, 2.7)

    def cell(x: float, y: float, number: int) -> None:
        pen.tint(x, y, side, side, PALETTE[number // columns], edge=GRID, text=str(number))

    pen.text(0.25, 0.2, "in memory", ha="left", weight="bold")
    for n in numbers:
        cell(0.25 + n * side, 0.4, n)
    pen.text(0.25, 1.12, f"by rows: D, {rows} × {columns}", ha="left", weight="bold")
    pen.text(3.4, 1.12, f"by columns: D', {columns} × {rows}", ha="left", weight="bold")
    for n in numbers:
        row, column = divmod(n, columns)
        cell(0.25 + column * side, 1.3 + row * side, n)
        cell(3.4 + row * side, 1.3 + column * side - 0.02, n)
    return pen.picture.described(
        f"The numbers 0 to {rows * columns - 1} side by side in memory. Read by rows they are a "
        f"matrix D of {rows} × {columns}; read by columns, the same bytes are its transpose, "
        f"{columns} × {rows}."
    )


# --- buffers --------------------------------------------------------------------------------------


def arena(
    lives: Mapping[str, tuple[int, int]], sizes: Mapping[str, int], offsets: Mapping[str, int]
) -> Picture:
    """Draw buffers as boxes: steps along x, where each lies in memory along y."""
    steps = 1 + max(last for _, last in lives.values())
    most = max(offsets[name] + sizes[name] for name in lives)
    wide, high = 6.3 / steps, 2.0 / most
    pen = Pen(7.2, 2.75)
    for number, (name, (first, last)) in enumerate(lives.items()):
        x, y = 0.6 + first * wide, 0.35 + offsets[name] * high
        pen.tint(x, y, (last - first + 1) * wide - 0.03, sizes[name] * high,
                 PALETTE[number % len(PALETTE)], edge=INK, line=0.6)  # fmt: skip
        pen.text(x + (last - first + 1) * wide / 2, y + sizes[name] * high / 2, name, size=TINY)
    for step in range(steps):
        pen.text(0.6 + (step + 0.5) * wide, 2.5, str(step), size=TINY, color=FAINT)
    pen.text(0.3, 0.4, "0", size=TINY, color=FAINT)
    pen.text(0.3, 2.3, f"{most:,}", size=TINY, color=FAINT)
    pen.text(0.6, 2.65, "step", ha="left", size=TINY, color=FAINT)
    pen.text(0.12, 0.18, "bytes", ha="left", size=TINY, color=FAINT)
    told = "; ".join(f"{name} from {offsets[name]:,}, in steps {a} to {b}"
                     for name, (a, b) in lives.items())  # fmt: skip
    return pen.picture.described(f"{len(lives)} buffers in {most:,} bytes: {told}.")


# --- recorded -------------------------------------------------------------------------------------


def parts(times: Mapping[str, Mapping[str, float]], title: str) -> Picture:
    """Draw microseconds of each part, a bar for ours and one for the peer."""
    names, ways = list(times), list(next(iter(times.values())))
    high = 0.42 * len(names)
    picture = Picture(7.2, high + 0.95)
    axes = picture.add_axes((0.2, 0.5 / (high + 0.95), 0.72, high / (high + 0.95)))
    longest = max(max(its.values()) for its in times.values())
    for row, name in enumerate(names):
        for place, (way, colour) in enumerate(zip(ways, (VERMILLION, SKY), strict=False)):
            value, y = times[name][way], row + 0.4 * place - 0.2
            axes.barh(y, value, 0.38, color=pale(colour), edgecolor=colour)
            text = f"{value:.3g} {way}" if row == 0 else f"{value:.3g}"
            axes.text(value + longest * 0.01, y, text, va="center", fontsize=SMALL, color=INK)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="µs", xlim=(0, longest * 1.16))
    axes.set_title(title, loc="left", fontsize=FONT_SIZE)
    in_plain_numbers(axes.xaxis)
    style(axes, "x")
    told = "; ".join(
        f"{name}: " + ", ".join(f"{way} {value:.3g}" for way, value in its.items())
        for name, its in times.items()
    )
    return picture.described(f"{title}, microseconds. {told}.")
