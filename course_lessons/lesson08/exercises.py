"""Exercises of lesson 08: queues, streams, a pinned buffer, laws, graphs, an honest notebook."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Tolerance
from course_lessons.cases import fixed, table
from course_lessons.edits import edits
from course_lessons.lesson08.judges import Shelf, judge_packing, judge_queue, judge_stale
from course_lessons.lesson08.overlap import serial_fraction
from warpsim.core.words import count

# --- fill the queues ----------------------------------------------------------------------------

FunctionExercise.declare(
    name="fill-the-queues",
    lesson=8,
    title="Fill the queues so that engines overlap",
    judge=judge_queue,
    cases=[
        fixed(f"{images} images, {count(n, 'stream')}", images=images, streams=n)
        for images, n in ((6, 3), (7, 2), (5, 1), (11, 4), (2, 5))
    ],
    hints={
        "raised": "Start with an empty list, and append((step, image, stream)) for each image "
        "and each step."
    },
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

FunctionExercise.declare(
    name="enough-streams",
    lesson=8,
    title="How many streams are enough?",
    reference=lambda **times: math.ceil(sum(times.values()) / max(times.values())),
    cases=table(
        "copy_in kernel copy_out",
        *(("{:g}, {:g} and {:g} ms".format(*times), *times) for times in _TIMES),
    ),
    hints={
        "wrong-result": "An image keeps its stream busy for copy_in + kernel + copy_out. In "
        "that time the busiest engine could do how many images? So many streams must be under "
        "way, rounded up.",
        "wrong-shape": "Return one whole number.",
    },
    mistakes=edits("""
        you round to the nearest number; 2.25 streams are 3
            return round((copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out))
        you round down; 2.625 streams are 3
            return (copy_in + kernel + copy_out) // max(copy_in, kernel, copy_out)
        you do not round up to a whole stream
            return (copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out)
        you count the engines that have something to do
            return (copy_in > 0) + (kernel > 0) + (copy_out > 0)
        you take one stream for each engine, whatever the times
            return 3
        you compare the busiest engine with the two others: its own time belongs to the image's,
        too
            return {} - 1
        you divide by the kernel's time; it need not be the longest
            max(copy_in, kernel, copy_out) -> (kernel or 100)
        you divide by the copy out's time; it need not be the longest
            max(copy_in, kernel, copy_out) -> (copy_out or 100)
        you divide by the shortest time, not by that of the busiest engine
            max(copy_in, kernel, copy_out)
            -> min(time for time in (copy_in, kernel, copy_out) if time)
        you take the average of the three times
            return -int(-(copy_in + kernel + copy_out) // 3)
        you take one stream more than needed
            return {} + 1
    """),
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


FunctionExercise.declare(
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

# --- the serial fraction ------------------------------------------------------------------------


def _fractions(workers, milliseconds):
    first = milliseconds[0]
    return np.array(
        [
            serial_fraction(first / time, count)
            for count, time in zip(workers[1:], milliseconds[1:], strict=True)
        ]
    )


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
        ("the third engine is full", [1, 2, 3, 4, 32], [12.0, 10.1, 9.9, 9.9, 9.8]),
    ),
    tolerance=Tolerance(64, "a few divisions and a subtraction, each of which rounds"),
    hints={
        "wrong-result": "speedup = milliseconds[0] / milliseconds[i], and then (1 / speedup - 1"
        " / workers[i]) / (1 - 1 / workers[i]), for each i from 1 on.",
        "wrong-shape": "One fraction for each number of workers but the first.",
        "raised": "With one worker the formula divides by 0: begin at the second.",
    },
    mistakes=edits("""
        you compare each time with the one before it, not with the first
            milliseconds[0] -> milliseconds[len(found)]
        you count the workers yourself, 1, 2, 3; how many they are stands in `workers`
            first: workers = range(1, len(milliseconds) + 1)
        only 1 / workers is divided; put brackets around 1 / speedup - 1 / workers
            (1 / speedup - 1 / count) -> 1 / speedup - 1 / count
        you cut off what is above 1; that is a slow-down, and worth knowing
            return [min(max(part, 0), 1) for part in {}]
        you round to four digits; return the fractions as they come
            return [round(part, 4) for part in {}]
        you round to three digits; return the fractions as they come
            return [round(part, 3) for part in {}]
        you round to two digits; return the fractions as they come
            return [round(part, 2) for part in {}]
        the speed-up is upside down; it is old time / new time
            1 / speedup -> speedup
        you do not divide by 1 - 1 / workers
            / (1 - 1 / count) ->
        you return the efficiency that is lost, 1 - speed-up / workers
            (1 / speedup - 1 / count) / (1 - 1 / count) -> 1 - speedup / count
        you return the efficiency, speed-up / workers
            (1 / speedup - 1 / count) / (1 - 1 / count) -> speedup / count
        you return the speed-up itself
            (1 / speedup - 1 / count) / (1 - 1 / count) -> speedup
        you return 1 / speed-up
            (1 / speedup - 1 / count) / (1 - 1 / count) -> 1 / speedup
        you return Gustafson's fraction, (workers - speed-up) / (workers - 1)
            (1 / speedup - 1 / count) / (1 - 1 / count) -> (count - speedup) / (count - 1)
        you return the part that is parallel
            return [1 - part for part in {}]
        you return percent
            return [100 * part for part in {}]
    """),
)

# --- when a graph pays --------------------------------------------------------------------------


def pays(kernels, launch, capture, replay, node):
    """The first number of runs with which a graph has cost less than launches; 0 for never."""
    saved = kernels * launch - (replay + kernels * node)
    return math.floor(capture / saved) + 1 if saved > 0 else 0


FunctionExercise.declare(
    name="graph-pays",
    lesson=8,
    title="From how many runs on does a graph pay?",
    reference=pays,
    cases=table(
        "kernels launch capture replay node",
        ("32 kernels", 32, 11.5, 90000.0, 40.0, 1.5),
        ("one kernel", 1, 11.5, 2000.0, 12.0, 0.75),
        ("a replay costs as much", 4, 5.0, 300.0, 18.0, 0.5),
        ("equal at 10 runs", 20, 5.0, 800.0, 10.0, 0.5),
        ("two kernels", 2, 12.0, 500.0, 6.0, 0.5),
        ("cheap to capture", 100, 10.0, 50.0, 10.0, 0.5),
    ),
    hints={
        "wrong-result": "Launches cost runs · kernels · launch. The graph costs capture, once, "
        "and runs · (replay + kernels · node). The first whole number of runs with which the "
        "second is less; 0 if a replay costs as much as the launches.",
        "wrong-shape": "Return one whole number.",
        "raised": "Does a division by what a run saves meet a 0? Then the graph never pays.",
    },
    mistakes=edits(r"""
        with so many runs both cost the same; it must cost less
            int(capture // saved) + 1 -> -int(-capture // saved)
        replay is left out: it costs the host something each time
            replay + ->
        node is left out: each kernel in the graph still costs a little
            + kernels * node ->
        node is counted once, not for each kernel
            kernels * node -> node
        capture is left out: it is paid once, before the first run
            first: capture = 0
        you launch one kernel a run, not `kernels` of them
            first: kernels = 1
        you do not round up: half a run saves nothing
            saved <= 0 -> saved == 0
            int(capture // saved) + 1 -> capture / saved
        you round down, so the graph has not quite paid yet
            return max({} - 1, 0)
        a run with the graph costs nothing; it costs replay and its nodes
            - (replay + kernels * node) ->
        you take one run too many
            return {} + 1
        you divide by what a run saves though it saves nothing; then the graph never pays
            <= 0:\n        return 0 -> == 0:\n        return 1
        you return -1 where the graph never pays; return 0
            return {} or -1
    """),
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

FunctionExercise.declare(
    name="stale-outputs",
    lesson=8,
    title="Find the outputs that do not come from the code",
    judge=judge_stale,
    cases=table(
        "cells",
        ("code that was changed later", _ORIGINAL),
        ("a cell that was run three times", _OTHER_ORDER),
        ("a later cell that was run first", _LATER_CELL_FIRST),
        ("a print that was added", _PRINT_ADDED),
        ("an honest notebook", _HONEST),
    ),
    hints={
        "raised": "cells is a list of pairs: for place, (source, saved) in enumerate(cells). "
        "names = {} comes before the loop, so that the cells share it."
    },
)
