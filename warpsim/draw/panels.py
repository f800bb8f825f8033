"""Pictures of single requests: the lanes of a warp against sectors or banks.

One language for both: coloured is what the lanes want, hatched is what goes along for nothing.
All measures are inches, downwards from the picture's upper left corner.
"""

import numpy as np
from matplotlib.collections import LineCollection

from warpsim.core.words import count as counted
from warpsim.draw import style
from warpsim.draw.palette import BLUE, FAINT, GREEN, INK, ORANGE, PAPER, PURPLE, VERMILLION, pale
from warpsim.draw.style import FONT_SIZE, SMALL, Picture, listed, shortened
from warpsim.watch.counts import BANKS, SECTOR, Count, Counters, Sample

WIDTH, LEFT, RIGHT = 7.0, 0.62, 0.1
BOX = (WIDTH - LEFT - RIGHT) / 32  # a lane or a bank
LETTER = 0.62 * SMALL / 72  # about the width of a letter
CYCLE = (BLUE, ORANGE, GREEN, PURPLE)  # of neighbouring sectors
UNUSED, HATCH, IDLE = "#F4F4F4", "#B0B0B0", "#E4E4E4"
THIN = 0.03  # the least width at which a colour is seen
FEWEST = "the fewest possible"
MOST_PANELS = 6
MOST_LARGE = 3  # panels with all labels


# ---------------------------------------------------------------------- words
def title_of(sample: Sample, kernel: str, longest: int = 200) -> str:
    """Such as ``u[row, i]: load, 16 sectors for 32 lanes (2 would do)``."""
    lanes = counted(len(sample.lanes), "lane")
    place = "" if sample.site.function == kernel else f" [in {sample.site.function}]"
    code = sample.site.code.removeprefix("cuda.")
    text = f"{place}: " if code.startswith("atomic.") else f"{place}: {sample.op}, "
    lanes_of_one = max(sample.wanted.values())
    if sample.space == "shared" and sample.op == "atomic":
        text += f"{counted(len(sample.wanted), 'address')} for {lanes}"
    else:
        unit = "sector" if sample.space == "global" else "wavefront"
        best = f"{sample.ideal:,} would do" if sample.amount > sample.ideal else FEWEST
        text += f"{counted(sample.amount, unit)} for {lanes} ({best})"
    if sample.op == "atomic" and lanes_of_one > 1:
        text = text.replace(f" ({FEWEST})", "")
        text += f"; up to {lanes_of_one} at one address"
    return shortened(code, max(12, longest - len(text))) + text


def subtitle_of(sample: Sample, count: Count) -> str:
    """Whose request it is, and how it compares with the others."""
    dimensions = max(i for i in range(3) if i == 0 or sample.block_shape[i] > 1) + 1
    used = max(dimensions, max((i + 1 for i in range(3) if sample.block[i]), default=1))
    block = ", ".join(str(i) for i in sample.block[:used])
    text = f"line {sample.site.line} · block ({block}), warp {sample.warp}"
    if sample.space == "shared" and sample.op == "atomic":
        return f"{text} · the first of {counted(count.requests, 'request')}"
    total = count.sectors if sample.space == "global" else count.wavefronts
    if count.requests == 1:
        return f"{text} · the only request"
    if total == count.requests * sample.amount:
        every = "both" if count.requests == 2 else f"all {count.requests:,}"
        return f"{text} · {every} requests need as many"
    return (
        f"{text} · the first of the worst; {total / count.requests:.1f} is the mean of "
        f"{count.requests:,} requests"
    )


# ---------------------------------------------------------------------- drawing
class Pen(style.Pen):
    """A pen for small words, on a sheet as wide as all pictures of a trace."""

    def __init__(self, height: float):
        super().__init__(WIDTH, height, size=SMALL, line=0.7)
        self.picture.flat_colours = 40

    def hatched(self, x, y, width, height) -> None:
        self.box(x, y, width, height, UNUSED, HATCH, 0, hatch="/////").set_gid("unused")


class Panel:
    """One request, drawn large with all its labels or compact without them.

    A kind of memory says ``lane_colours()``, ``targets()``, ``caption()``, ``draw_memory(pen, y)``
    and ``measure(sample, compact)``, which sets ``memory_height``.
    """

    def __init__(self, sample: Sample, count: Count, kernel: str, compact: bool):
        self.sample, self.count, self.kernel, self.compact = sample, count, kernel, compact
        self.lane_height = 0.1 if compact else 0.2
        self.fan = 0.22 if compact else 0.5
        self.head = 0.24 if compact else 0.48
        rows = {(sample.warp * 32 + int(lane)) // sample.block_shape[0] for lane in sample.lanes}
        self.several_rows = not compact and len(rows) > 1
        self.head += 0.2 * self.several_rows
        self.measure(sample, compact)

    @property
    def height(self) -> float:
        body = self.head + self.lane_height + self.fan + self.memory_height
        return body + (0.16 if self.compact else 0.5)

    def draw(self, pen: Pen, top: float) -> None:
        size = SMALL if self.compact else FONT_SIZE
        start = LEFT if self.compact else 0.1
        longest = int((WIDTH - start - 0.05) / (0.68 * size / 72))  # bold letters
        prefix = f"line {self.sample.site.line}  " if self.compact else ""
        title = prefix + title_of(self.sample, self.kernel, longest - len(prefix))
        pen.text(start, top + 0.12, title, size=size, ha="left", weight="bold")
        if not self.compact:
            pen.text(0.1, top + 0.31, subtitle_of(self.sample, self.count), color=FAINT, ha="left")
        if self.several_rows:
            self._draw_rows_of_threads(pen, top + self.head)
        colours = self.lane_colours()
        y = top + self.head
        for lane in range(32):
            colour = colours.get(lane)
            face, ink = (pale(colour, 0.5), INK) if colour else (IDLE, FAINT)
            look = {"text": "" if self.compact else str(lane), "color": ink}
            box = pen.box(LEFT + lane * BOX, y, BOX, self.lane_height, face, **look)
            box.set_gid(f"lane {lane}" if colour else f"idle {lane}")
        pen.text(LEFT - 0.06, y + self.lane_height / 2, "lane", ha="right")
        y += self.lane_height
        ends, of_line = [], []
        for lane, target in self.targets().items():
            ends.append(((LEFT + (lane + 0.5) * BOX, y), (target, y + self.fan)))
            of_line.append(colours[lane])
        pen.axes.add_collection(LineCollection(ends, colors=of_line, linewidths=0.9, alpha=0.85))
        self.draw_memory(pen, y + self.fan)
        if not self.compact:
            y += self.fan + self.memory_height + 0.15
            pen.text(LEFT, y, self.caption(), color=FAINT, ha="left")

    def _draw_rows_of_threads(self, pen: Pen, y: float) -> None:
        """Which lanes share a threadIdx.y, in blocks of two or three dimensions."""
        across, down, _ = self.sample.block_shape
        parts: dict[int, list[int]] = {}
        for lane in self.sample.lanes:
            parts.setdefault((self.sample.warp * 32 + lane) // across, []).append(lane)
        long = len(parts) <= 4
        for row, lanes in parts.items():
            start, stop = LEFT + lanes[0] * BOX, LEFT + (lanes[-1] + 1) * BOX
            pen.axes.plot((start + 0.03, stop - 0.03), (y - 0.05, y - 0.05), color=INK, lw=1)
            name = f"threadIdx.y = {row % down}" if long else f"y = {row % down}"
            if len(name) * LETTER < stop - start:
                pen.text((start + stop) / 2, y - 0.14, name)


class SectorPanel(Panel):
    """Lanes against the sectors of global memory that they touch."""

    def measure(self, sample: Sample, compact: bool) -> None:
        self.sectors = sample.sectors
        numbers = list(self.sectors)
        apart = np.diff(numbers) > 1
        gap = 0.22 if apart.sum() <= 7 else 0.05
        width = (32 * BOX - apart.sum() * gap) / len(numbers)
        self.sector_width = min(width, max(1, SECTOR // sample.pitch) * BOX)
        steps = np.cumsum([0, *(self.sector_width + gap * apart)])
        start = LEFT + (32 * BOX - steps[-1] - self.sector_width) / 2
        self.left = dict(zip(numbers, start + steps, strict=True))  # of each sector
        self.breaks = (start + steps)[1:][apart & (gap > 0.1)] - gap / 2  # where dots stand
        self.colour = {number: CYCLE[i % len(CYCLE)] for i, number in enumerate(numbers)}
        wanted = {n: min(sample.elements[lanes]) for n, lanes in self.sectors.items()}
        self.first = {n: int(e) * sample.pitch + sample.address for n, e in wanted.items()}
        self.labels = {n: sample.element_name(int(element)) for n, element in wanted.items()}
        longest = max(map(len, self.labels.values())) * LETTER
        self.upright = longest > self.sector_width
        self.bytes_too = len(numbers) <= 8 and self.sector_width > 10 * LETTER
        self.strip = 0.14 if compact else 0.26
        labels = longest + 0.08 if self.upright else 0.2 + 0.17 * self.bytes_too
        self.memory_height = self.strip + (0 if compact else labels)

    def lane_colours(self) -> dict[int, str]:
        return {lane: self.colour[n] for n, lanes in self.sectors.items() for lane in lanes}

    def _place(self, byte: int) -> float:
        return self.left[byte // SECTOR] + byte % SECTOR / SECTOR * self.sector_width

    def targets(self) -> dict[int, float]:
        half = min(self.sample.size, SECTOR) / SECTOR * self.sector_width / 2
        places = {lane: int(self.sample.bytes[lane]) for lane in self.sample.lanes}
        return {lane: self._place(byte) + half for lane, byte in places.items()}

    def draw_memory(self, pen: Pen, y: float) -> None:
        sample, width = self.sample, self.sector_width
        edge = 0.6 if max(sample.size, sample.pitch) / SECTOR * width > 0.06 else 0
        for number, x in self.left.items():
            pen.hatched(x, y, width, self.strip)
            frame = pen.box(x, y, width, self.strip, "none", INK, 0.9, zorder=3)
            frame.set_gid(f"sector {number}")
        for found, lanes_of_one in sorted(sample.wanted.items()):
            byte = found * sample.pitch + sample.address
            wide = max(min(sample.size, SECTOR - byte % SECTOR) / SECTOR * width, THIN)
            x, face = self._place(byte), self.colour[byte // SECTOR]
            box = pen.box(x, y, wide, self.strip, face, PAPER, edge, zorder=2 if edge else 4)
            box.set_gid(f"element {found}")
            crowded = not self.compact and sample.op == "atomic" and lanes_of_one > 1
            if crowded and wide >= 2 * LETTER:
                middle = x + wide / 2, y + self.strip / 2
                pen.text(*middle, str(lanes_of_one), color=PAPER, weight="bold")
        for x in self.breaks:
            pen.text(x, y + self.strip / 2, "…")
        for number, x in () if self.compact else self.left.items():
            label = self.labels[number]
            if self.upright:
                pen.text(x + width / 2, y + self.strip + 0.05, label, va="top", rotation=90)
                continue
            start = min(self._place(self.first[number]), x + width - len(label) * LETTER)
            pen.text(max(start, x), y + self.strip + 0.1, label, ha="left")
            if self.bytes_too:
                byte = f"byte {number * SECTOR:,}"
                pen.text(x, y + self.strip + 0.26, byte, color=FAINT, ha="left")
        pen.text(LEFT - 0.06, y + self.strip / 2, shortened(sample.site.array, 8), ha="right")

    def caption(self) -> str:
        wanted = "written" if self.sample.op == "store" else "wanted"
        used, moved = len(self.sample.wanted) * self.sample.size, len(self.sectors) * SECTOR
        text = f"frame: a sector · coloured: {wanted}, {used:,} bytes"
        if moved > used:
            text += f" · hatched: moved for nothing, {moved - used:,} bytes"
        if self.sample.op == "atomic" and max(self.sample.wanted.values()) > 1:
            text += " · figure: lanes in a queue"
        return text


class BankPanel(Panel):
    """Lanes against the banks of shared memory; a row is a wavefront."""

    def measure(self, sample: Sample, compact: bool) -> None:
        self.stacks = sample.stacks
        self.heights = [max(map(len, banks.values())) for banks in self.stacks]
        self.rows = sum(self.heights)
        self.row = min(0.13, 0.7 / self.rows) if compact else (0.2 if self.rows <= 8 else 0.14)
        self.bank_height = 0 if compact else 0.2
        self.memory_height = self.bank_height + self.rows * self.row

    def _words(self):
        """Each word with its bank, row and lanes; the row within its group, and in all."""
        start = 0
        for banks, height in zip(self.stacks, self.heights, strict=True):
            for bank, words in banks.items():
                for place, word in enumerate(sorted(words)):
                    yield bank, word, place, start + place, words[word]
            start += height

    def _late(self, place: int, lanes: list[int]) -> bool:
        return place > 0 or (self.sample.op == "atomic" and len(lanes) > 1)

    def lane_colours(self) -> dict[int, str]:
        late = dict.fromkeys(self.sample.lanes, False)
        for _, _, place, _, lanes in self._words():
            for lane in lanes:
                late[lane] |= self._late(place, lanes)
        return {lane: VERMILLION if is_late else BLUE for lane, is_late in late.items()}

    def targets(self) -> dict[int, float]:
        wide = max(1, self.sample.size // 4)
        words = {lane: int(self.sample.bytes[lane]) // 4 for lane in self.sample.lanes}
        return {lane: LEFT + (word % BANKS + wide / 2) * BOX for lane, word in words.items()}

    def draw_memory(self, pen: Pen, y: float) -> None:
        if not self.compact:
            for bank in range(BANKS):
                pen.box(LEFT + bank * BOX, y, BOX, self.bank_height, text=str(bank))
            pen.text(LEFT - 0.06, y + self.bank_height / 2, "bank", ha="right")
            y += self.bank_height
        pen.hatched(LEFT, y, 32 * BOX, self.rows * self.row)
        for bank, word, place, row, lanes in self._words():
            colour = VERMILLION if self._late(place, lanes) else BLUE
            several = len(lanes) > 1
            face, look = pale(colour, 0.5), {}
            if several:
                face, look = colour, {"color": PAPER, "weight": "bold"}
            x, top = LEFT + bank * BOX, y + row * self.row
            pen.box(x, top, BOX, self.row, face).set_gid(f"word {word} in wavefront {row}")
            if not self.compact:
                text = len(lanes) if several else lanes[0]
                pen.text(x + BOX / 2, top + self.row / 2, text, **look)
        pen.box(LEFT, y, 32 * BOX, self.rows * self.row, "none", INK, 0.9)
        name = shortened(self.sample.site.array, 8)
        few = self.compact or self.rows < 3
        pen.text(LEFT - 0.06, y + (self.rows if few else 1) * self.row / 2, name, ha="right")
        if not few:
            pen.text(LEFT - 0.06, y + (self.rows - 0.5) * self.row, f"row {self.rows}", ha="right")

    def caption(self) -> str:
        if self.sample.op == "atomic":
            return "black: number of a lane · white: so many lanes on one word, one after the other"
        text = "row: a wavefront, one pass over the banks · box: a 4-byte word, for lane n"
        if any(len(lanes) > 1 for *_, lanes in self._words()):
            text += " or n lanes (white)"
        return text + " · orange: extra" * (self.rows > len(self.stacks))


PANELS = {"global": SectorPanel, "shared": BankPanel}


# ---------------------------------------------------------------------- which are drawn
def waste(count: Count) -> tuple[float, float]:
    """What an access moves beyond the ideal, and in all, in passes of 128 bytes."""
    excess = (count.sectors - count.ideal_sectors) / 4 + count.conflicts
    return excess, count.sectors / 4 + count.wavefronts


def chosen(counters: Counters, kernel: str, line: int | None) -> list[Sample]:
    """The examples to draw: those of a line in their order, or all, the worst first."""
    samples = counters.samples
    if line is None:
        if not samples:
            raise ValueError(f"{kernel} touches neither global nor shared memory: nothing to show")
        order = sorted(samples, key=lambda k: (k[0].function, k[0].line, k[0].code, *k[1:]))
        order.sort(key=lambda key: waste(counters.accesses[key]), reverse=True)
        return [samples[key] for key in order]
    found = [samples[key] for key in samples if key[0].line == line]
    if found:
        return found
    places = sorted({(s.function != kernel, s.function, s.line, s.code) for s, _, _ in samples})
    lines = "".join(
        f"\n  {number}: {code}" + (f"  [in {function}]" if foreign else "")
        for foreign, function, number, code in places
    )
    only_local = any(s.line == line and space == "local" for s, space, _ in counters.accesses)
    reason = "only a local array, which lives in registers" if only_local else "no memory"
    raise ValueError(
        f"line {line!r} of {kernel} touches {reason}; lines count from def as 1. "
        f"Lines that touch global or shared memory:{lines or ' none'}"
    )


def requests_picture(counters: Counters, kernel: str, line: int | None) -> Picture:
    """The picture of :meth:`warpsim.draw.report.Report.show`."""
    samples = chosen(counters, kernel, line)
    shown = samples[:MOST_PANELS]
    compact = len(samples) > (1 if line is None else MOST_LARGE)
    panels = [
        PANELS[one.space](one, counters.accesses[one.site, one.space, one.op], kernel, compact)
        for one in shown
    ]
    head = 0.3 * (line is None and len(samples) > 1 or len(samples) > len(shown))
    pen = Pen(0.06 + head + sum(panel.height for panel in panels))
    if head:
        which = f"{len(shown)} of {len(samples)}" if len(shown) < len(samples) else str(len(shown))
        order = "the most wasteful first" if line is None else f"of line {line}"
        pen.text(0.1, 0.18, f"{kernel}: {which} accesses, {order}", FONT_SIZE + 1, ha="left")
    y = 0.06 + head
    for panel in panels:
        panel.draw(pen, y)
        y += panel.height
    more = f"; {len(samples) - len(shown)} more accesses" if len(samples) > len(shown) else ""
    words = listed(
        f"line {one.site.line}, a {one.op} of {one.site.code}, "
        + counted(one.amount, "sector" if one.space == "global" else "wavefront")
        for one in shown
    )
    return pen.picture.described(f"{kernel}, what the lanes of a warp touch: {words}{more}.")
