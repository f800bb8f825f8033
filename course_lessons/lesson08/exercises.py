"""Exercises of lesson 08: queues, streams, a pinned buffer, laws, graphs, an honest notebook."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Tolerance
from course_lessons.cases import extent, fixed, table, turn
from course_lessons.lesson08.judges import Shelf, judge_packing, judge_queue, judge_stale, printed
from course_lessons.lesson08.overlap import serial_fraction
from warpsim.core.words import count

# --- fill the queues ----------------------------------------------------------------------------


def _images(images, streams):
    name = f"{count(images, 'image')}, {count(streams, 'stream')}"
    return fixed(name, images=images, streams=streams)


FunctionExercise.declare(
    name="fill-the-queues",
    lesson=8,
    title="Fill the queues so that engines overlap",
    judge=judge_queue,
    cases=[_images(6, 3), _images(7, 2), _images(2, 5)],
    drawer=lambda rng: [
        _images(extent(rng, 8, 70), extent(rng, 6, 9)),
        _images(extent(rng, 2, 70), 1),
        _images(1, extent(rng, 1, 9)),
    ][turn(rng)],
    candidates=1,
    drawn=9,
    hints={
        "raised": "Start with an empty list, and append((step, image, stream)) for each image "
        "and each step."
    },
)

# --- how many streams are enough ----------------------------------------------------------------


def _times(rng):
    """Sums of powers of two, whose sums are exact; some 0, some alike, or nearly so."""
    times = rng.integers(0, 6, 3) + rng.choice([0, 2.0**-9], 3)
    times[rng.integers(3)] += 1
    copy_in, kernel, copy_out = (times * 2.0 ** rng.integers(-9, 7)).tolist()
    name = f"{copy_in:g}, {kernel:g} and {copy_out:g} ms"
    return fixed(name, copy_in=copy_in, kernel=kernel, copy_out=copy_out)


FunctionExercise.declare(
    name="enough-streams",
    lesson=8,
    title="How many streams are enough?",
    reference=lambda **times: math.ceil(sum(times.values()) / max(times.values())),
    cases=table(
        "copy_in kernel copy_out",
        ("all three 7 ms", 7.0, 7.0, 7.0),
        ("1, 1.5 and 2 ms", 1.0, 1.5, 2.0),
        ("0.25, 7 and 0.5 ms", 0.25, 7.0, 0.5),
        ("3 ms of copies in alone", 3.0, 0.0, 0.0),
    ),
    drawer=_times,
    drawn=30,
    hints={
        "wrong-result": "An image keeps its stream busy for copy_in + kernel + copy_out. In "
        "that time the busiest engine could do how many images? So many streams must be under "
        "way, rounded up.",
        "wrong-shape": "Return one whole number.",
    },
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


def _drawn_packing(rng):
    rows, columns = extent(rng, 1, 90), extent(rng, 9, 90)
    least = min(rows, columns)
    k = int([least, 1, rng.integers(1, least + 1)][turn(rng)])
    return _packing(rows, columns, k, rng.choice([np.float32, np.float64]))


FunctionExercise.declare(
    name="pack-factors",
    lesson=8,
    title="Pack what is needed into one pinned buffer",
    judge=judge_packing,
    cases=[
        _packing(6, 6, 2),
        _packing(13, 37, 5),
        _packing(8, 12, 3, np.float64),
    ],
    drawer=_drawn_packing,
    drawn=12,
    hints={
        "raised": "u[:, :k].ravel() are its numbers row by row, rows · k of them. A slice of "
        "the buffer has as many: buffer[start : start + rows * k] = ...",
        "input-modified": "Write into the buffer that take() gives, not into the factors.",
    },
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


def _runs(rng):
    """Amdahl's law, disturbed: some are slower than with one worker."""
    more = rng.choice(np.arange(2, 129), extent(rng, 1, 9), replace=False)
    workers = np.array([1, *more])
    serial = rng.choice([0.01, 0.2, 0.9])
    times = rng.uniform(0.1, 900) * (serial + (1 - serial) / workers)
    times *= rng.uniform(0.7, 1.4, len(workers))
    name = count(len(more), "speed-up")
    return fixed(name, workers=workers.tolist(), milliseconds=times.tolist())


FunctionExercise.declare(
    name="serial-fractions",
    lesson=8,
    title="The serial fraction from measured times",
    reference=_fractions,
    cases=table(
        "workers milliseconds",
        ("a tenth is serial", [1, 2, 4, 8], [100.0, 55.0, 32.5, 21.25]),
        ("nothing is serial", [1, 3, 10], [30.0, 10.0, 3.0]),
        ("a slow-down", [1, 2], [36.8, 44.0]),
    ),
    drawer=_runs,
    drawn=12,
    tolerance=Tolerance(
        64,
        "a few divisions and a subtraction, each of which rounds",
        magnitude=lambda milliseconds: 1 + max(milliseconds) / milliseconds[0],
    ),
    hints={
        "wrong-result": "speedup = milliseconds[0] / milliseconds[i], and then (1 / speedup - 1"
        " / workers[i]) / (1 - 1 / workers[i]), for each i from 1 on.",
        "wrong-shape": "One fraction for each number of workers but the first.",
        "raised": "With one worker the formula divides by 0: begin at the second.",
    },
)

# --- when a graph pays --------------------------------------------------------------------------


def pays(kernels, launch, capture, replay, node):
    """The first number of runs with which a graph has cost less than launches; 0 for never."""
    saved = kernels * launch - (replay + kernels * node)
    return math.floor(capture / saved) + 1 if saved > 0 else 0


def _graph(rng):
    """Costs whose sums are exact; equal after whole runs, hardly paid, or never, in some."""
    kernels, runs = extent(rng, 1, 300), extent(rng, 1, 9000) - 1
    launch, node = rng.integers(8, 80) / 4, rng.choice([0, 0.25, 1.75])
    least = kernels * (launch - node)  # that a replay may cost and save nothing
    saved = rng.choice([rng.integers(-4, 5) / 4, 2.0**-14, least / 64, least / 2, least * 15 / 16])
    replay = least - saved
    capture = abs(saved) * (runs + rng.choice([0, 2.0**-11, 1 - 2.0**-11]))
    given = dict(zip("launch capture replay node".split(), (launch, capture, replay, node)))
    given = {name: float(value) for name, value in given.items()}
    return fixed(count(kernels, "kernel"), kernels=kernels, **given)


FunctionExercise.declare(
    name="graph-pays",
    lesson=8,
    title="From how many runs on does a graph pay?",
    reference=pays,
    cases=table(
        "kernels launch capture replay node",
        ("32 kernels", 32, 11.5, 90000.0, 40.0, 1.5),
        ("a replay costs as much", 4, 5.0, 300.0, 18.0, 0.5),
        ("equal at 10 runs", 20, 5.0, 800.0, 10.0, 0.5),
    ),
    drawer=_graph,
    drawn=30,
    hints={
        "wrong-result": "Launches cost runs · kernels · launch. The graph costs capture, once, "
        "and runs · (replay + kernels · node). The first whole number of runs with which the "
        "second is less; 0 if a replay costs as much as the launches.",
        "wrong-shape": "Return one whole number.",
        "raised": "Does a division by what a run saves meet a 0? Then the graph never pays.",
    },
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


def _cells(rng):
    """Cells that count and print; saved is that, or of another order, but for some letters."""
    kinds = [
        "b += {0}\nprint('b =', b)",
        "print(b, '=' * 70, {0})",
        "b = {0}",
        "c = b\nprint('c is', c, {0})",
    ]
    sources = ["print([name for name in globals() if len(name) == 1])", "b = c = 3"]
    sources += [kind.format(rng.integers(2, 9)) for kind in rng.choice(kinds, extent(rng, 1, 20))]
    n = len(sources)
    order = [range(n), [0, 1, *rng.integers(2, n, 2 * n)]][rng.integers(2)]
    texts, names = [""] * n, {}
    for place in order:
        texts[place] = printed(sources[place], names)
    for place in rng.integers(n, size=rng.integers(n)):
        text = texts[place]
        others = ["1" + text, text[1:], text[:-2] + text[-1:], text[:-1], text.swapcase()]
        others.append(text.replace(" ", ""))
        texts[place] = others[rng.integers(len(others))]
    return fixed(count(n, "cell"), cells=[*zip(sources, texts, strict=True)])


FunctionExercise.declare(
    name="stale-outputs",
    lesson=8,
    title="Find the outputs that do not come from the code",
    judge=judge_stale,
    cases=table(
        "cells",
        ("code that was changed later", _ORIGINAL),
        ("a cell that was run three times", _OTHER_ORDER),
    ),
    drawer=_cells,
    drawn=30,
    hints={
        "raised": "cells is a list of pairs: for place, (source, saved) in enumerate(cells). "
        "names = {} comes before the loop, so that the cells share it."
    },
)
