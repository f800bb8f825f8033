"""Exercises of lesson 08: queues, streams, a pinned buffer, laws, graphs, an honest notebook."""

import math

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register
from course.exercises.lesson08_judges import Shelf, judge_packing, judge_queue, judge_stale
from course.overlap import serial_fraction

# --- fill the queues ----------------------------------------------------------------------------

register(
    FunctionExercise(
        name="fill-the-queues",
        lesson=8,
        title="Fill the queues so that engines overlap",
        judge=judge_queue,
        cases=[
            Case(
                f"{images} images, {streams} stream{'s' * (streams != 1)}",
                lambda rng, i=images, s=streams: {"images": i, "streams": s},
            )
            for images, streams in ((6, 3), (7, 2), (5, 1), (11, 4), (2, 5))
        ],
        hints={
            "raised": "Start with an empty list, and append((step, image, stream)) for each image "
            "and each step.",
        },
    )
)

# --- how many streams are enough ----------------------------------------------------------------

_TIMES = (  # in an order in which the first that fails tells the mistake
    (7.0, 7.0, 7.0),
    (1.5, 2.0, 1.75),
    (1.0, 1.5, 2.0),
    (0.0, 2.0, 2.0),
    (0.25, 0.5, 2.0),
    (0.25, 7.0, 0.5),
    (3.0, 0.0, 0.0),
    (4.0, 0.5, 4.0),
)


def _enough(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out))


register(
    FunctionExercise(
        name="enough-streams",
        lesson=8,
        title="How many streams are enough?",
        reference=_enough,
        cases=[
            Case(
                f"{times[0]:g}, {times[1]:g} and {times[2]:g} ms",
                lambda rng, t=times: dict(zip(("copy_in", "kernel", "copy_out"), t, strict=True)),
            )
            for times in _TIMES
        ],
        hints={
            "wrong-result": "An image keeps its stream busy for copy_in + kernel + copy_out. In "
            "that time the busiest engine could do how many images? So many streams must be under "
            "way, rounded up.",
            "wrong-shape": "Return one whole number.",
        },
        mistakes={
            "you round to the nearest number; 2.25 streams are 3": (
                lambda copy_in, kernel, copy_out: round(
                    (copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out)
                )
            ),
            "you round down; 2.625 streams are 3": (
                lambda copy_in, kernel, copy_out: (
                    (copy_in + kernel + copy_out) // max(copy_in, kernel, copy_out)
                )
            ),
            "you do not round up to a whole stream": lambda copy_in, kernel, copy_out: (
                (copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out)
            ),
            "you count the engines that have something to do": (
                lambda copy_in, kernel, copy_out: sum(t > 0 for t in (copy_in, kernel, copy_out))
            ),
            "you take one stream for each engine, whatever the times": (
                lambda copy_in, kernel, copy_out: 3
            ),
            "you compare the busiest engine with the two others: its own time belongs to the "
            "image's, too": lambda copy_in, kernel, copy_out: math.ceil(
                (copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out) - 1
            ),
            "you divide by the kernel's time; it need not be the longest": (
                lambda copy_in, kernel, copy_out: (
                    math.ceil((copy_in + kernel + copy_out) / kernel) if kernel else 1
                )
            ),
            "you divide by the copy out's time; it need not be the longest": (
                lambda copy_in, kernel, copy_out: (
                    math.ceil((copy_in + kernel + copy_out) / copy_out) if copy_out else 1
                )
            ),
            "you divide by the shortest time, not by that of the busiest engine": (
                lambda copy_in, kernel, copy_out: math.ceil(
                    (copy_in + kernel + copy_out)
                    / min(time for time in (copy_in, kernel, copy_out) if time)
                )
            ),
            "you take the average of the three times": lambda copy_in, kernel, copy_out: math.ceil(
                (copy_in + kernel + copy_out) / 3
            ),
            "you take one stream more than needed": (
                lambda copy_in, kernel, copy_out: _enough(copy_in, kernel, copy_out) + 1
            ),
        },
    )
)

# --- pack the factors ---------------------------------------------------------------------------


def _packing(rows, columns, k, dtype=np.float32):
    least = min(rows, columns)

    def arguments(rng):
        return {
            "u": rng.standard_normal((rows, least)).astype(dtype),
            "s": np.sort(rng.random(least))[::-1].astype(dtype),
            "vt": rng.standard_normal((least, columns)).astype(dtype),
            "k": k,
            "take": Shelf().take,
        }

    kind = "" if dtype is np.float32 else f", {np.dtype(dtype)}"
    return Case(f"{rows} x {columns}, k = {k}{kind}", arguments)


register(
    FunctionExercise(
        name="pack-factors",
        lesson=8,
        title="Pack what is needed into one pinned buffer",
        judge=judge_packing,
        cases=[
            _packing(6, 6, 2),
            _packing(13, 37, 5),
            _packing(29, 11, 11),
            _packing(17, 23, 1),
            _packing(8, 12, 3, np.float64),
        ],
        hints={
            "raised": "u[:, :k].ravel() are its numbers row by row, rows · k of them. A slice of "
            "the buffer has as many: buffer[start : start + rows * k] = ...",
            "input-modified": "Write into the buffer that take() gives, not into the factors.",
        },
    )
)

# --- the serial fraction ------------------------------------------------------------------------


def _fractions(workers, milliseconds):
    first = milliseconds[0]
    return np.array(
        [
            serial_fraction(first / time, count)
            for count, time in zip(workers[1:], milliseconds[1:], strict=True)
        ]
    )


def _fractions_of(rule):
    """What someone gets who has another rule for a speed-up with so many workers."""

    def wrong(workers, milliseconds):
        pairs = zip(workers[1:], milliseconds[1:], strict=True)
        return np.array([rule(milliseconds[0] / time, count) for count, time in pairs])

    return wrong


def _fractions_from_the_one_before(workers, milliseconds):
    """The fractions where each time is compared with the one before it."""
    steps = zip(workers[1:], milliseconds, milliseconds[1:], strict=False)
    return np.array([serial_fraction(before / time, count) for count, before, time in steps])


def _rounded(digits):
    """The fractions, rounded."""
    return lambda workers, milliseconds: np.round(_fractions(workers, milliseconds), digits)


register(
    FunctionExercise(
        name="serial-fractions",
        lesson=8,
        title="The serial fraction from measured times",
        reference=_fractions,
        cases=[
            Case(
                name,
                lambda rng, w=workers, m=milliseconds: {
                    "workers": [*w],
                    "milliseconds": [*m],
                },
            )
            for name, workers, milliseconds in (
                ("a tenth is serial", (1, 2, 4, 8), (100.0, 55.0, 32.5, 21.25)),
                ("nothing is serial", (1, 3, 10), (30.0, 10.0, 3.0)),
                ("a slow-down", (1, 2), (36.8, 44.0)),
                ("the third engine is full", (1, 2, 3, 4, 32), (12.0, 10.1, 9.9, 9.9, 9.8)),
            )
        ],
        tolerance=Tolerance(64, "a few divisions and a subtraction, each of which rounds"),
        hints={
            "wrong-result": "speedup = milliseconds[0] / milliseconds[i], and then (1 / speedup - 1"
            " / workers[i]) / (1 - 1 / workers[i]), for each i from 1 on.",
            "wrong-shape": "One fraction for each number of workers but the first.",
            "raised": "With one worker the formula divides by 0: begin at the second.",
        },
        mistakes={
            "you compare each time with the one before it, not with the first": (
                _fractions_from_the_one_before
            ),
            "you count the workers yourself, 1, 2, 3; how many they are stands in `workers`": (
                lambda workers, milliseconds: _fractions(
                    range(1, len(milliseconds) + 1), milliseconds
                )
            ),
            "only 1 / workers is divided; put brackets around 1 / speedup - 1 / workers": (
                _fractions_of(lambda speedup, count: 1 / speedup - 1 / count / (1 - 1 / count))
            ),
            "you cut off what is above 1; that is a slow-down, and worth knowing": (
                lambda workers, milliseconds: np.clip(_fractions(workers, milliseconds), 0, 1)
            ),
            "you round to four digits; return the fractions as they come": _rounded(4),
            "you round to three digits; return the fractions as they come": _rounded(3),
            "you round to two digits; return the fractions as they come": _rounded(2),
            "the speed-up is upside down; it is old time / new time": _fractions_of(
                lambda speedup, count: (speedup - 1 / count) / (1 - 1 / count)
            ),
            "you do not divide by 1 - 1 / workers": _fractions_of(
                lambda speedup, count: 1 / speedup - 1 / count
            ),
            "you return the efficiency that is lost, 1 - speed-up / workers": _fractions_of(
                lambda speedup, count: 1 - speedup / count
            ),
            "you return the efficiency, speed-up / workers": _fractions_of(
                lambda speedup, count: speedup / count
            ),
            "you return the speed-up itself": _fractions_of(lambda speedup, count: speedup),
            "you return 1 / speed-up": _fractions_of(lambda speedup, count: 1 / speedup),
            "you return Gustafson's fraction, (workers - speed-up) / (workers - 1)": _fractions_of(
                lambda speedup, count: (count - speedup) / (count - 1)
            ),
            "you return the part that is parallel": _fractions_of(
                lambda speedup, count: 1 - serial_fraction(speedup, count)
            ),
            "you return percent": _fractions_of(
                lambda speedup, count: 100 * serial_fraction(speedup, count)
            ),
        },
    )
)

# --- when a graph pays --------------------------------------------------------------------------


def pays(kernels, launch, capture, replay, node):
    """The first number of runs with which a graph has cost less than launches; 0 for never."""
    saved = kernels * launch - (replay + kernels * node)
    return math.floor(capture / saved) + 1 if saved > 0 else 0


def _quotient(kernels, launch, capture, replay, node):
    """What capturing costs, in savings of a run; negative where a run saves less than nothing."""
    saved = kernels * launch - (replay + kernels * node)
    return capture / saved if saved else 0.0


register(
    FunctionExercise(
        name="graph-pays",
        lesson=8,
        title="From how many runs on does a graph pay?",
        reference=pays,
        cases=[
            Case(
                name,
                lambda rng, v=values: dict(
                    zip(("kernels", "launch", "capture", "replay", "node"), v, strict=True)
                ),
            )
            for name, values in (
                ("32 kernels", (32, 11.5, 90000.0, 40.0, 1.5)),
                ("one kernel", (1, 11.5, 2000.0, 12.0, 0.75)),
                ("a replay costs as much", (4, 5.0, 300.0, 18.0, 0.5)),
                ("equal at 10 runs", (20, 5.0, 800.0, 10.0, 0.5)),
                ("two kernels", (2, 12.0, 500.0, 6.0, 0.5)),
                ("cheap to capture", (100, 10.0, 50.0, 10.0, 0.5)),
            )
        ],
        hints={
            "wrong-result": "Launches cost runs · kernels · launch. The graph costs capture, once, "
            "and runs · (replay + kernels · node). The first whole number of runs with which the "
            "second is less; 0 if a replay costs as much as the launches.",
            "wrong-shape": "Return one whole number.",
            "raised": "Does a division by what a run saves meet a 0? Then the graph never pays.",
        },
        mistakes={
            "with so many runs both cost the same; it must cost less": (
                lambda kernels, launch, capture, replay, node: math.ceil(
                    max(_quotient(kernels, launch, capture, replay, node), 0)
                )
            ),
            "replay is left out: it costs the host something each time": (
                lambda kernels, launch, capture, replay, node: pays(
                    kernels, launch, capture, 0, node
                )
            ),
            "node is left out: each kernel in the graph still costs a little": (
                lambda kernels, launch, capture, replay, node: pays(
                    kernels, launch, capture, replay, 0
                )
            ),
            "node is counted once, not for each kernel": (
                lambda kernels, launch, capture, replay, node: pays(
                    kernels, launch, capture, replay + node - kernels * node, node
                )
            ),
            "capture is left out: it is paid once, before the first run": (
                lambda kernels, launch, capture, replay, node: pays(
                    kernels, launch, 0, replay, node
                )
            ),
            "you launch one kernel a run, not `kernels` of them": (
                lambda kernels, launch, capture, replay, node: pays(
                    1, launch, capture, replay, node
                )
            ),
            "you do not round up: half a run saves nothing": (
                lambda kernels, launch, capture, replay, node: _quotient(
                    kernels, launch, capture, replay, node
                )
            ),
            "you round down, so the graph has not quite paid yet": (
                lambda kernels, launch, capture, replay, node: max(
                    pays(kernels, launch, capture, replay, node) - 1, 0
                )
            ),
            "a run with the graph costs nothing; it costs replay and its nodes": (
                lambda kernels, launch, capture, replay, node: pays(kernels, launch, capture, 0, 0)
            ),
            "you take one run too many": lambda kernels, launch, capture, replay, node: (
                pays(kernels, launch, capture, replay, node) + 1
            ),
            "you divide by what a run saves though it saves nothing; then the graph never pays": (
                lambda kernels, launch, capture, replay, node: (
                    math.floor(_quotient(kernels, launch, capture, replay, node)) + 1
                )
            ),
            "you return -1 where the graph never pays; return 0": (
                lambda kernels, launch, capture, replay, node: (
                    pays(kernels, launch, capture, replay, node) or -1
                )
            ),
        },
    )
)

# --- outputs that are stale ---------------------------------------------------------------------

_ORIGINAL = [
    ("images, size = 32, 2048", ""),
    ("print(images, 'images of', size)", "10 images of 1024\n"),
    ("print('k =', 128)", "k = 128\n"),
]
_OTHER_ORDER = [
    ("count = 0", ""),
    ("count += 1\nprint(count)", "3\n"),
    ("print(count * 2)", "6\n"),
    ("print('done')", "done\n"),
]
_HONEST = [
    ("n = 3", ""),
    ("print('square' in globals(), 'rate' in globals())", "False False\n"),
    ("square = n ** 2\nprint(square)", "9\n"),
]
_LATER_CELL_FIRST = [
    ("rate = 55.0", ""),
    ("print(536.9 // rate)", "26.0\n"),
    ("rate = 20.0", ""),
    ("print(rate)", "20.0\n"),
]

_PRINT_ADDED = [
    ("size, ways = 2048, 12\nprint(size)", ""),
    ("print('2 streams')", "2 streams\n"),
    ("print(ways, 'ways')", "2 ways\n"),
    ("print(size * 2)", "4096\n"),
]

register(
    FunctionExercise(
        name="stale-outputs",
        lesson=8,
        title="Find the outputs that do not come from the code",
        judge=judge_stale,
        cases=[
            Case(name, lambda rng, c=cells: {"cells": [*c]})
            for name, cells in (
                ("code that was changed later", _ORIGINAL),
                ("a cell that was run three times", _OTHER_ORDER),
                ("a later cell that was run first", _LATER_CELL_FIRST),
                ("a print that was added", _PRINT_ADDED),
                ("an honest notebook", _HONEST),
            )
        ],
        hints={
            "raised": "cells is a list of pairs: for place, (source, saved) in enumerate(cells). "
            "names = {} comes before the loop, so that the cells share it.",
        },
    )
)
