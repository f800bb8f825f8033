"""Pictures of a profile: a timeline with named phases, bars of utilisation, where warps wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.patches import Patch

from course.plots.style import TINY, Pen, Picture, listed, style, swatches
from course_lessons.lesson07 import profile
from course_lessons.lesson07.profile import Event
from warpsim.draw.palette import BLUE, GREEN, GRID, INK, ORANGE, PAPER, PURPLE, SKY, VERMILLION

WIDTH = 7.6  # [inch]
ROWS = ("CPU: phases", "CPU: calls", "GPU: copies in", "GPU: kernels", "GPU: copies out")
COLOURS = {
    "load factors": GRID, "copy in": BLUE, "launch kernel": VERMILLION, "copy out": GREEN,
    "start up": PURPLE, "GPU: copies in": BLUE, "GPU: kernels": ORANGE, "GPU: copies out": GREEN,
    "CPU: calls": VERMILLION,
}  # fmt: skip
LETTER = 0.0125  # width of a letter, as a share of the axis
SHORTEST = 0.012  # what is shorter has no name


def timeline_picture(
    events: Iterable[Event], title: str = "", marks: dict[str, float] | None = None
) -> Picture:
    """Draw a timeline: a row for the CPU's phases and calls, a row for each part of the GPU.

    Parameters
    ----------
    events : iterable of Event
        Of one run; the axis begins with the first of them. Whole images are not drawn, their
        phases are.
    title : str
    marks : dict of str to float, optional
        Names of vertical lines and where they are, in ms from the start of the first event.
    """
    drawn = [event for event in events if not event.name.startswith("image")]
    if not drawn:
        raise ValueError("no events to draw: give those of a run, such as timeline('first', 2)")
    zero = min(event.start for event in drawn)
    last = max(event.end for event in drawn) - zero
    rows = [row for row in ROWS if any(event.row == row for event in drawn)]
    picture = Picture(WIDTH, 0.98 + 0.42 * len(rows))
    height = picture.get_figheight()
    axes = picture.add_axes((0.155, 0.46 / height, 0.825, 0.42 * len(rows) / height))
    for event in drawn:
        if event.row not in rows:
            continue
        y, x = len(rows) - 1 - rows.index(event.row), event.start - zero
        colour = COLOURS.get(event.name, COLOURS.get(event.row, GRID))
        width = max(event.milliseconds, last * 0.0015)
        edge = PAPER if width > last * SHORTEST / 2 else colour  # a white one would hide the mark
        Pen.on(axes).box(x, y - 0.33, width, 0.66, colour, edge, 0.5)
        _name(axes, event, x, y, last)
    for name, place in (marks or {}).items():
        axes.axvline(place, color=INK, linewidth=1.0, linestyle=":")
        above = {"ha": "center", "annotation_clip": False}
        axes.annotate(name, (place, len(rows) - 0.42), fontsize=TINY, **above)
    axes.set(xlim=(0, last * 1.005), ylim=(-0.5, len(rows) - 0.5), xlabel="time [ms]")
    axes.set_yticks(range(len(rows))[::-1], rows)
    style(axes, "x")
    picture.text(0.155, 1 - 0.22 / height, title)
    return picture.described(
        f"{title or 'A timeline'}: {last:,.4g} ms, with rows for {listed(rows)}; in it "
        f"{listed(dict.fromkeys(event.name for event in drawn), most=6)}."
    )


def _name(axes, event: Event, x: float, y: float, last: float) -> None:
    """Write a phase's name, or a length on the GPU, into its box; above it, where it is narrow."""
    if event.row == "CPU: calls" or event.milliseconds < last * SHORTEST:
        return
    gpu = event.row.startswith("GPU")
    text = f"{event.milliseconds:.2g} ms" if gpu else event.name
    fits = event.milliseconds > last * LETTER * len(text)
    dark = COLOURS.get(event.name, COLOURS.get(event.row)) in (BLUE, GREEN, VERMILLION)
    middle = x + event.milliseconds / 2
    if fits:
        Pen.on(axes).text(middle, y, text, TINY, PAPER if dark else INK)
    else:
        Pen.on(axes).text(middle, y + 0.33, text, TINY - 1, va="bottom")


# ---------------------------------------------------------------------- counters
BARS = {
    "SM throughput": BLUE, "memory throughput": ORANGE, "DRAM throughput": VERMILLION,
    "achieved occupancy": GRID,
}  # fmt: skip


def utilisation(
    steps: Sequence[str] | None = None, metrics: Sequence[str] | None = None
) -> Picture:
    """Draw recorded percentages of each step of the ladder as bars beside each other.

    Parameters
    ----------
    steps : sequence of str, optional
        Without it all that were recorded.
    metrics : sequence of str, optional
        Up to five of `course_lessons.lesson07.profile.METRICS`; without it speed of light and
        occupancy.
    """
    steps = list(steps or profile.steps())
    metrics = list(metrics or BARS)
    palette = [BARS.get(metric, colour) for metric, colour in zip(
        metrics, (BLUE, ORANGE, GREEN, VERMILLION, PURPLE), strict=False)]  # fmt: skip
    picture = Picture(WIDTH, 2.9)
    axes = picture.add_axes((0.07, 0.24, 0.92, 0.7))
    width = 0.8 / len(metrics)
    for place, (metric, colour) in enumerate(zip(metrics, palette, strict=True)):
        values = [profile.counter(step, metric) for step in steps]
        places = [n - 0.4 + width * (place + 0.5) for n in range(len(steps))]
        axes.bar(places, values, width * 0.92, color=colour)
        for x, value in zip(places, values, strict=True):
            text = f"{value:.0f}" if value >= 1 else f"{value:.1g}"
            axes.text(x, value + 1.5, text, ha="center", fontsize=TINY - 1.2)
    axes.set(ylim=(0, 108), ylabel="%", xlim=(-0.55, len(steps) - 0.45))
    axes.set_xticks(range(len(steps)), steps)
    style(axes, "y")
    place = {"loc": "lower center", "bbox_to_anchor": (0.53, -0.02)}
    handles = swatches(dict(zip(metrics, palette, strict=True)))
    picture.legend(handles=handles, ncols=len(metrics), **place)
    return picture.described(
        f"Bars in percent, recorded, for the steps {listed(steps, 12)}: {listed(metrics)}. "
        f"{steps[-1]} has {profile.counter(steps[-1], metrics[0]):.0f}% of {metrics[0]}."
    )


#: States that are drawn apart, in this order, with colour and hatching; the others together.
STATES = {
    "selected": (GREEN, ""), "not_selected": (GREEN, "////"), "long_scoreboard": (VERMILLION, ""),
    "lg_throttle": (VERMILLION, "////"), "short_scoreboard": (ORANGE, ""),
    "mio_throttle": (ORANGE, "////"), "math_pipe_throttle": (BLUE, ""),
    "dispatch_stall": (BLUE, "////"), "barrier": (PURPLE, ""), "wait": (SKY, ""),
}  # fmt: skip


def stall_bars(steps: Sequence[str] | None = None) -> Picture:
    """Draw, for each step, in which state its warps were: shares of the time, stacked.

    At the right stands how many cycles passed between two instructions of a warp.
    """
    steps = list(steps or profile.steps())
    picture = Picture(WIDTH, 1.75 + 0.27 * len(steps))
    height = picture.get_figheight()
    axes = picture.add_axes((0.125, 1.55 / height, 0.77, 0.27 * len(steps) / height))
    for place, step in enumerate(steps):
        y, found = len(steps) - 1 - place, profile.stalls(step)
        total, left = sum(found.values()), 0.0
        shares = {reason: found.get(reason, 0) / total * 100 for reason in STATES}
        shares["others"] = 100 - sum(shares.values())
        for reason, share in shares.items():
            colour, hatch = STATES.get(reason, (GRID, ""))
            axes.barh(y, share, 0.76, left=left, color=colour, hatch=hatch, edgecolor=PAPER,
                      linewidth=0.4)  # fmt: skip
            if share >= 6:
                behind = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.75}
                Pen.on(axes).text(left + share / 2, y, f"{share:.0f}", TINY, bbox=behind)
            left += share
        axes.text(101, y, f"{total:.1f} cycles", va="center", fontsize=TINY)
    axes.set(xlim=(0, 100), ylim=(-0.5, len(steps) - 0.5), xlabel="share of a warp's time [%]")
    axes.set_yticks(range(len(steps))[::-1], steps)
    style(axes, "none")
    names = {reason: f"{reason}: {profile.STALLS[reason]}" for reason in STATES}
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=PAPER, label=names[reason])
        for reason, (colour, hatch) in STATES.items()
    ]
    handles.append(Patch(facecolor=GRID, label="others"))
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, -0.01), "labelspacing": 0.25}
    picture.legend(handles=handles, ncols=2, fontsize=TINY, handlelength=1.6, **place)
    return picture.described(
        "In which state warps were, in percent of their time, and cycles between two instructions: "
        + listed((f"{step} {sum(profile.stalls(step).values()):.1f}" for step in steps), 12)
        + "."
    )


def predicted_bars(steps: Sequence[str] | None = None) -> Picture:
    """Draw passes through L1 and shared memory for a product: predicted, and counted."""
    steps = list(steps or profile.steps())
    picture = Picture(WIDTH, 2.5)
    axes = picture.add_axes((0.08, 0.25, 0.91, 0.66))
    pairs = [
        (
            profile.wavefronts(step),
            profile.counter(step, "L1 wavefronts") / 100 * profile.clocks_taken(step),
        )
        for step in steps
    ]
    for place, (name, colour) in enumerate((("predicted from the trace", SKY), ("counted", BLUE))):
        places = [n - 0.2 + 0.4 * place for n in range(len(steps))]
        axes.bar(places, [pair[place] for pair in pairs], 0.36, color=colour, label=name)
        for x, pair in zip(places, pairs, strict=True):
            axes.text(x, pair[place] * 1.08, f"{pair[place]:.3g}", ha="center", fontsize=TINY - 0.8)
    axes.set(yscale="log", ylim=(0.1, 60), ylabel="passes for a product")
    axes.set_yticks((0.1, 1, 10), ("0.1", "1", "10"))
    axes.set_xticks(range(len(steps)), steps)
    style(axes, "y")
    picture.legend(loc="lower center", ncols=2, bbox_to_anchor=(0.53, -0.02))
    return picture.described(
        "Passes through L1 and shared memory for a product, predicted and counted: "
        + listed(
            (
                f"{step} {pair[0]:.3g} and {pair[1]:.3g}"
                for step, pair in zip(steps, pairs, strict=True)
            ),
            12,
        )
        + "."
    )
