"""Which accesses of a traced kernel are drawn, and in what order."""

from warpsim.draw.panels import PANELS, Pen, plural
from warpsim.draw.style import FONT_SIZE, Picture, listed
from warpsim.watch.counts import Count, Counters
from warpsim.watch.samples import Sample

MOST_PANELS = 6
MOST_LARGE = 3  # panels with all labels


def waste(count: Count) -> tuple[float, float]:
    """What an access moves beyond the ideal, and in all, in passes of 128 bytes."""
    excess = (count.sectors - count.ideal_sectors) / 4 + count.conflicts
    return excess, count.sectors / 4 + count.wavefronts


def chosen(counters: Counters, kernel: str, line: int | None) -> list[Sample]:
    """The examples to draw: those of a line in their order, or all, the worst first."""
    samples = counters.samples
    if line is None:
        order = sorted(
            samples, key=lambda key: (key[0].function, key[0].line, key[0].code, *key[1:])
        )
        order.sort(key=lambda key: waste(counters.accesses[key]), reverse=True)
        if not order:
            raise ValueError(f"{kernel} touches neither global nor shared memory: nothing to show")
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


def sentence(sample: Sample) -> str:
    """What a drawn request is, in words."""
    number = plural(sample.amount, "sector" if sample.space == "global" else "wavefront")
    return f"line {sample.site.line}, a {sample.op} of {sample.site.code}, {number}"


def requests_picture(counters: Counters, kernel: str, line: int | None) -> Picture:
    """The picture of :meth:`warpsim.draw.report.Report.show`."""
    samples = chosen(counters, kernel, line)
    shown = samples[:MOST_PANELS]
    compact = len(samples) > (1 if line is None else MOST_LARGE)
    panels = [
        PANELS[one.space](one, counters.accesses[one.site, one.space, one.op], kernel, compact)
        for one in shown
    ]
    head = 0.0
    if line is None and len(samples) > 1 or len(samples) > len(shown):
        head = 0.3
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
    words = listed(map(sentence, shown))
    return pen.picture.described(f"{kernel}, what the lanes of a warp touch: {words}{more}.")
