"""Exercises of lesson 12: bytes of a plan, a steady sum, the last batch, two laws, batch sizes."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Tolerance
from course_lessons.cases import extent, fixed, table, turn
from course_lessons.lesson08.overlap import amdahl, gustafson
from course_lessons.lesson12.judges import deal_anew, judge_steady
from course_lessons.lesson12.toy_cluster import play_cluster
from warpsim.core.words import count

# --- bytes of a plan ------------------------------------------------------------------------------


def _bytes(plan, images, batch, factors, back, passes):
    there = {
        "send": passes * images * factors,
        "keep": images * factors,
        "make": 64 * math.ceil(images / batch),
    }
    return there[plan] + passes * images * back


def _plan(rng):
    batch, batches = extent(rng, 1, 300), extent(rng, 1, 40)
    images = batch * batches - int(rng.choice([0, rng.integers(batch)]))
    plan = str(rng.choice(["send", "keep", "make"]))
    most = 5000 if turn(rng) == 1 else 10**7  # where the other plans' bytes do not hide these
    factors, back, passes = extent(rng, 1, most), extent(rng, 1, most), extent(rng, 1, 9)
    given = {"plan": plan, "images": images, "batch": batch}
    return fixed(plan, **given, factors=factors, back=back, passes=passes)


FunctionExercise.declare(
    name="network-bytes",
    lesson=12,
    title="Bytes over the network",
    reference=_bytes,
    cases=table(
        "plan images batch factors back passes",
        ("sent in each of 3 passes", "send", 100, 10, 1000, 64, 3),
        ("kept for 3 passes", "keep", 100, 10, 1000, 64, 3),
        ("made there, the last batch is shorter", "make", 1003, 25, 102600, 8, 1),
    ),
    drawer=_plan,
    candidates=1,
    drawn=20,
    hints={
        "wrong-result": "There: factors for each image, in each pass (send) or once (keep), or "
        "64 bytes for each batch, once (make): if, elif, else. Back: `back` for each image in "
        "each pass.",
        "wrong-shape": "Return one number: the bytes there and back together.",
        "raised": "`plan` is one of the texts 'send', 'keep' and 'make'; the rest are numbers.",
    },
)

# --- a steady sum ---------------------------------------------------------------------------------


def _arrivals(name, sums):
    """Sums of so many batches, as one worker delivers them."""

    def arguments(rng):
        return {"arrivals": [(n, 0, np.float32(value)) for n, value in enumerate(sums(rng))]}

    return Case(name, arguments)


def _opposites(rng):
    """Some with their opposite, some twice: neither an order by size nor a set is enough."""
    pairs, single = (10.0 ** rng.uniform(0, 0.8, 40) for _ in range(2))
    single *= rng.choice([-1, 1], 40)
    return rng.permutation([*pairs, *-pairs, *single, *single[:5]])


def _cancelling(rng):
    """Where an addition in float64 rounds as well."""
    large = 2.0**60 * (1 + rng.random(6).astype(np.float32))
    return rng.permutation([*large, *-large, *rng.standard_normal(11)])


def _drawn_arrivals(rng):
    """Numbers of all sizes, of one size, or one of the above."""
    size, least = extent(rng, 1, 300), rng.choice([-3, 0])

    def many(rng):
        return rng.choice([-1, 1], size) * 10.0 ** rng.uniform(least, 3, size)

    return _arrivals("other batches", [many, many, _opposites, _cancelling][rng.integers(4)])


FunctionExercise.declare(
    name="steady-sum",
    lesson=12,
    title="A sum that does not depend on the workers",
    judge=judge_steady,
    caller=deal_anew,
    cases=[
        _arrivals("three batches", lambda rng: [2.5, 4.75, -1.5]),
        _arrivals("29 batches", lambda rng: rng.random(29)),
        _arrivals("some with their opposite, some twice", _opposites),
        _arrivals("large ones that cancel", _cancelling),
    ],
    drawer=_drawn_arrivals,
    drawn=12,
    hints={
        "wrong-result": "Bring the sums into an order that is always the same, that of the "
        "batches' numbers, and add them one after the other.",
        "raised": "arrivals is a list of triples: for number, worker, value in sorted(arrivals)"
        ". (arrivals.sort() returns None, and changes the list that you were given.)",
        "input-modified": "arrivals.sort() changes the list that you were given; "
        "sorted(arrivals) makes a new one.",
    },
)

# --- the last batch -------------------------------------------------------------------------------


def _queue(rng):
    """Parts of a ms, whose sums are exact, rising, falling, or with a long one somewhere."""
    size, workers = extent(rng, 2, 70), 1 if turn(rng) == 1 else extent(rng, 1, 16)
    size = 1 if turn(rng) == 2 and rng.integers(4) == 0 else size
    times = rng.integers(1, 999, size) / 256
    if rng.random() < 0.3:
        times = np.sort(times)[:: rng.choice([-1, 1])]
    times[rng.choice([0, size // 2, size - 1])] *= rng.choice([1, 16])
    name = f"{count(size, 'time')}, {count(workers, 'worker')}"
    return fixed(name, milliseconds=times.tolist(), workers=workers)


FunctionExercise.declare(
    name="last-batch",
    lesson=12,
    title="When the last batch is done",
    reference=lambda milliseconds, workers: play_cluster(milliseconds, workers).milliseconds,
    cases=table(
        "milliseconds workers",
        ("seven for three", [2.0, 2.0, 2.25, 2.125, 2.75, 2.0625, 2.0], 3),
        ("long and short in turns", [4.0, 0.5, 0.75, 4.0, 4.0, 0.5, 4.25, 0.5, 3.0], 2),
        ("a long one at the end", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.25], 4),
        ("more workers than batches", [1.5, 2.5], 5),
    ),
    drawer=_queue,
    drawn=20,
    tolerance=Tolerance(64, "a dozen sums", magnitude=lambda milliseconds: sum(milliseconds)),
    hints={
        "wrong-result": "A list with the time at which each worker is free, at first 0 for "
        "all. Each batch, in its order, goes to the smallest of them, which grows by it. The "
        "largest of them, at the end, is the answer.",
        "endless-loop": "`for time in milliseconds` ends by itself; in a `while` the place in "
        "the list must grow.",
        "raised": "free = [0.0] * workers; free.index(min(free)) is a worker that is free first.",
        "input-modified": "Go through the list with `for time in milliseconds`; leave it as it is.",
        "wrong-shape": "Return one number: when the last batch is done [ms].",
    },
)


# --- two laws -------------------------------------------------------------------------------------


def _laws(start, working, gathering, workers):
    serial = (start + gathering) / (start + working + gathering)
    return amdahl(serial, workers), gustafson(serial, workers)


def _run(rng):
    start, working, gathering = (10 ** rng.uniform(0, 4, 3)).round(3).tolist()
    workers, none = extent(rng, 1, 1000), int(rng.integers(4))
    given = {"start": start * (none != 0), "working": working, "gathering": gathering * (none != 1)}
    return fixed(count(workers, "worker"), **given, workers=workers)


FunctionExercise.declare(
    name="two-laws",
    lesson=12,
    title="Two laws from one run",
    reference=_laws,
    cases=table(
        "start working gathering workers",
        ("one worker", 10.0, 75.0, 20.0, 1),
        ("a tenth is serial", 30.0, 900.0, 70.0, 4),
        ("nothing is serial", 0.0, 12.0, 0.0, 16),
    ),
    drawer=_run,
    drawn=12,
    tolerance=Tolerance(64, "a few sums and divisions, each of which rounds"),
    hints={
        "wrong-result": "serial = (start + gathering) / (start + working + gathering); the same"
        " work: 1 / (serial + (1 - serial) / workers); as much work each: workers - serial * "
        "(workers - 1)."
    },
)

# --- how large a batch must be --------------------------------------------------------------------


def _batch(rng):
    """A number of images that is whole where the share is half, and all sums exact."""
    images, shares = extent(rng, 1, 3000), (0.5, 10 ** rng.uniform(-3, -0.3), rng.uniform(0.5, 0.9))
    share = float(rng.choice(shares))
    image = 2.0 ** int(rng.integers(-16, 10))
    more = 0 if share == 0.5 else rng.choice([0.03, 0.5, 0.9999])
    cost = float((images - more) * image * share / (1 - share))
    name = f"{100 * share:.3g}% for {count(images, 'image')}"
    return fixed(name, image=image, cost=cost, share=share)


FunctionExercise.declare(
    name="batch-size",
    lesson=12,
    title="How large must a batch be?",
    reference=lambda image, cost, share: math.ceil(cost * (1 - share) / (share * image)),
    cases=table(
        "image cost share",
        ("20%", 0.07, 2.3, 0.2),
        ("5%", 0.07, 2.3, 0.05),
        ("exactly half of the time", 0.5, 2.0, 0.5),
        ("exactly a quarter of it", 0.75, 1.5, 0.25),
        ("5%, quick images", 0.0003, 1.3, 0.05),
        ("one image is enough", 50.0, 0.5, 0.05),
    ),
    drawer=_batch,
    candidates=1,
    drawn=20,
    hints={
        "wrong-result": "A batch of n images takes cost + n * image ms. Which n makes cost / "
        "(cost + n * image) at most `share`? Solve it for n and round up. (If you count: quick "
        "images need many, so give the loop no end, and begin with 1.)",
        "wrong-shape": "Return one whole number.",
        "endless-loop": "Count n up by 1 until cost / (cost + n * image) is at most share. The "
        "cost is paid once for a batch, not for each image.",
    },
)
