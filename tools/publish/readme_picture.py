"""The README's picture: how many times as fast as NumPy each step of the course's program is."""

from html import escape
from pathlib import Path

from course.files import write_whole
from course.measure.recorded import recorded

FILE = ".github/times_as_fast.svg"
_ON_ONE_CARD = {"shape": "2048x2048x256", "dtype": "float32", "gpu": "H200"}
#: What a bar is of: its label, and which recorded figure it is.
STEPS = (
    ("NumPy, 16 CPU cores", "measuring", "crossing", "NumPy"),
    ("first kernel (lesson 02)", "measuring", "reconstruct", "reconstruct_naive 16x16"),
    ("lesson 05", "measuring", "reconstruct", "reconstruct_tiled 16x16"),
    ("lesson 06", "reconstruct", "reconstruct", "warp tiles"),
    ("NVIDIA's own library", "reconstruct", "reconstruct", "cuBLAS alone"),
)
# in pixels: so narrow that the words can be read on a phone, too
_WIDTH, _BAR, _GAP, _LEFT, _LONGEST, _TOP = 520, 24, 10, 180, 280, 30


def times_as_fast() -> dict[str, float]:
    """Return for each step NumPy's recorded time over its own."""
    milliseconds = {
        label: recorded(subject, kernel=kernel, variant=variant, **_ON_ONE_CARD)[0].median
        for label, subject, kernel, variant in STEPS
    }
    first = milliseconds[STEPS[0][0]]
    return {label: first / time for label, time in milliseconds.items()}


def words() -> str:
    """Return the picture in words."""
    said = ", ".join(f"{label} {_times(its)}" for label, its in times_as_fast().items())
    return f"Bars: how many times as fast as NumPy, on an NVIDIA H200. {said}."


def _times(ratio: float) -> str:
    return f"{ratio:.2g}×"


def block() -> str:
    """Return the README's line that shows it."""
    return f"![{words()}]({FILE})"


def svg() -> str:
    """Return the picture: bars from zero, of lengths as the ratios."""
    ratios = times_as_fast()
    scale = _LONGEST / max(ratios.values())
    height = len(ratios) * (_BAR + _GAP) + _TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="15" fill="#222222">',
        f"<title>{escape(words())}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20">times as fast as NumPy</text>',
    ]
    for place, (label, ratio) in enumerate(ratios.items()):
        top = _TOP + place * (_BAR + _GAP)
        base, long = top + 17, ratio * scale
        colour = "#0072B2" if 0 < place < len(ratios) - 1 else "#8a8a8a"
        lines += [
            f'<text x="{_LEFT - 8}" y="{base}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{long:.1f}" height="{_BAR}" fill="{colour}"/>',
            f'<text x="{_LEFT + long + 6:.1f}" y="{base}">{_times(ratio)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def write(root: Path) -> None:
    """Write the picture beside the README."""
    (root / FILE).parent.mkdir(exist_ok=True)
    write_whole(root / FILE, svg())
