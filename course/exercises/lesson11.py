"""Exercises of lesson 11: bytes of a plan, a steady sum, the last batch, two laws, batch sizes."""

import math

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register
from course.exercises.lesson11_judges import deal_anew, judge_steady
from course.exercises.lesson11_mistakes import (
    LAST_BATCH,
    NETWORK_BYTES,
    TWO_LAWS,
    bytes_of,
    laws,
    until,
)

# --- bytes of a plan ------------------------------------------------------------------------------

_PLANS = (
    ("one batch is sent", "send", 10, 10, 1000, 8, 1),
    ("ten batches are sent", "send", 100, 10, 1000, 64, 1),
    ("sent in each of 3 passes", "send", 100, 10, 1000, 64, 3),
    ("kept for 3 passes", "keep", 100, 10, 1000, 64, 3),
    ("made there for 3 passes", "make", 100, 10, 1000, 64, 3),
    ("made there, the last batch is shorter", "make", 1003, 25, 102600, 8, 1),
    ("made there, images come back", "make", 1003, 100, 102600, 262144, 2),
    ("kept, digests come back", "keep", 1003, 100, 102600, 8, 7),
)

register(
    FunctionExercise(
        name="network-bytes",
        lesson=11,
        title="Bytes over the network",
        reference=bytes_of,
        cases=[
            Case(
                name,
                lambda rng, v=values: dict(
                    zip(("plan", "images", "batch", "factors", "back", "passes"), v, strict=True)
                ),
            )
            for name, *values in _PLANS
        ],
        hints={
            "wrong-result": "There: factors for each image, in each pass (send) or once (keep), or "
            "64 bytes for each batch, once (make). Back: `back` for each image in each pass.",
            "wrong-shape": "Return one number: the bytes there and back together.",
            "raised": "`plan` is one of the texts 'send', 'keep' and 'make'; the rest are numbers.",
        },
        mistakes=NETWORK_BYTES,
    )
)

# --- a steady sum ---------------------------------------------------------------------------------


def _arrivals(name, sums):
    """Sums of so many batches, as one worker delivers them."""

    def arguments(rng):
        return {"arrivals": [(n, 0, np.float32(value)) for n, value in enumerate(sums(rng))]}

    return Case(name, arguments)


def _many_sizes(count):
    return lambda rng: rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-3, 3, count)


def _opposites(rng):
    """Some with their opposite, some twice: neither an order by size nor a set is enough."""
    pairs, single = (10.0 ** rng.uniform(0, 0.8, 40) for _ in range(2))
    single *= rng.choice([-1, 1], 40)
    return rng.permutation([*pairs, *-pairs, *single, *single[:5]])


def _cancelling(rng):
    """Where an addition in float64 rounds as well."""
    large = 2.0**60 * (1 + rng.random(6).astype(np.float32))
    return rng.permutation([*large, *-large, *rng.standard_normal(11)])


register(
    FunctionExercise(
        name="steady-sum",
        lesson=11,
        title="A sum that does not depend on the workers",
        judge=judge_steady,
        caller=deal_anew,
        cases=[
            _arrivals("three batches", lambda rng: [2.5, 4.75, -1.5]),
            _arrivals("one batch", lambda rng: [1.5]),
            _arrivals("97 batches of all sizes", _many_sizes(97)),
            _arrivals("29 batches", lambda rng: rng.random(29)),
            _arrivals("some with their opposite, some twice", _opposites),
            _arrivals("large ones that cancel", _cancelling),
        ],
        hints={
            "wrong-result": "Bring the sums into an order that is always the same, that of the "
            "batches' numbers, and add them one after the other.",
            "raised": "arrivals is a list of triples: for number, worker, value in sorted(arrivals)"
            ". (arrivals.sort() returns None, and changes the list that you were given.)",
            "input-modified": "arrivals.sort() changes the list that you were given; "
            "sorted(arrivals) makes a new one.",
        },
    )
)

# --- the last batch -------------------------------------------------------------------------------


_BATCHES = (
    ("one worker", (2.5, 3.5, 1.0, 3.25), 1),
    ("equal batches", (2.0,) * 12, 3),
    ("seven for three", (2.0, 2.0, 2.25, 2.125, 2.75, 2.0625, 2.0), 3),
    ("long and short in turns", (4.0, 0.5, 0.75, 4.0, 4.0, 0.5, 4.25, 0.5, 3.0), 2),
    ("long ones first", (7.0, 6.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.5, 1.0, 1.0), 3),
    ("a long one in the middle", (1.0, 1.25, 1.0, 1.0, 6.5, 1.0, 1.0, 1.0, 1.5), 3),
    ("a long one at the end", (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.25), 4),
    ("more workers than batches", (1.5, 2.5), 5),
)

register(
    FunctionExercise(
        name="last-batch",
        lesson=11,
        title="When the last batch is done",
        reference=until,
        cases=[
            Case(name, lambda rng, m=times, w=workers: {"milliseconds": [*m], "workers": w})
            for name, times, workers in _BATCHES
        ],
        tolerance=Tolerance(64, "a dozen sums", magnitude=lambda milliseconds: sum(milliseconds)),
        hints={
            "wrong-result": "A list with the time at which each worker is free, at first 0 for "
            "all. Each batch, in its order, goes to the smallest of them, which grows by it. The "
            "largest of them, at the end, is the answer.",
            "endless-loop": "`for time in milliseconds` ends by itself; in a `while` the place in "
            "the list must grow.",
            "raised": "free = [0.0] * workers; free.index(min(free)) is a worker that is free "
            "first.",
            "input-modified": "Go through the list with `for time in milliseconds`; leave it as "
            "it is.",
            "wrong-shape": "Return one number: when the last batch is done [ms].",
        },
        mistakes=LAST_BATCH,
    )
)


# --- two laws -------------------------------------------------------------------------------------

register(
    FunctionExercise(
        name="two-laws",
        lesson=11,
        title="Two laws from one run",
        reference=laws,
        cases=[
            Case(
                name,
                lambda rng, v=values: dict(
                    zip(("start", "working", "gathering", "workers"), v, strict=True)
                ),
            )
            for name, values in (
                ("one worker", (10.0, 75.0, 20.0, 1)),
                ("a tenth is serial", (30.0, 900.0, 70.0, 4)),
                ("start-up only", (25.0, 75.0, 0.0, 2)),
                ("gathering only", (0.0, 300.0, 40.0, 8)),
                ("nothing is serial", (0.0, 12.0, 0.0, 16)),
                ("many workers", (3.0, 500.0, 9.0, 64)),
            )
        ],
        tolerance=Tolerance(64, "a few sums and divisions, each of which rounds"),
        hints={
            "wrong-result": "serial = (start + gathering) / (start + working + gathering); the same"
            " work: 1 / (serial + (1 - serial) / workers); as much work each: workers - serial * "
            "(workers - 1).",
        },
        mistakes=TWO_LAWS,
    )
)

# --- how large a batch must be --------------------------------------------------------------------


def _images(image, cost, share):
    return cost * (1 - share) / (share * image)


def _counted(following):
    """The first number of images that is enough, of those that `following` steps through."""

    def wrong(image, cost, share):
        images = 1
        while cost > share * (cost + images * image):
            images = following(images)
        return images

    return wrong


register(
    FunctionExercise(
        name="batch-size",
        lesson=11,
        title="How large must a batch be?",
        reference=lambda image, cost, share: math.ceil(_images(image, cost, share)),
        cases=[
            Case(name, lambda rng, v=values: dict(zip(("image", "cost", "share"), v, strict=True)))
            for name, values in (
                ("20%", (0.07, 2.3, 0.2)),
                ("5%", (0.07, 2.3, 0.05)),
                ("half of the time", (0.3, 2.0, 0.5)),
                ("exactly half of the time", (0.5, 2.0, 0.5)),
                ("exactly a quarter of it", (0.75, 1.5, 0.25)),
                ("5%, quick images", (0.0003, 1.3, 0.05)),
                ("1%", (0.7, 0.4, 0.01)),
                ("one image is enough", (50.0, 0.5, 0.05)),
                ("20%, slow images", (3.1, 5.0, 0.2)),
            )
        ],
        hints={
            "wrong-result": "A batch of n images takes cost + n * image ms. Which n makes cost / "
            "(cost + n * image) at most `share`? Solve it for n and round up. (If you count: quick "
            "images need many, so give the loop no end, and begin with 1.)",
            "wrong-shape": "Return one whole number.",
            "endless-loop": "Count n up by 1 until cost / (cost + n * image) is at most share. The "
            "cost is paid once for a batch, not for each image.",
        },
        mistakes={
            "you compare the cost with the images' time; `share` is of the whole time, the cost "
            "included": lambda image, cost, share: math.ceil(cost / (share * image)),
            "you round down, or to the nearest number; then the share may be too large": (
                lambda image, cost, share: math.floor(_images(image, cost, share))
            ),
            "you do not round up to a whole image": _images,
            "you return one image more than needed. A cost of exactly the share is at most the "
            "share, too": (lambda image, cost, share: math.ceil(_images(image, cost, share)) + 1),
            "you return the batch's milliseconds, not its images": (
                lambda image, cost, share: cost / share
            ),
            "you return the milliseconds of the images, not their number": (
                lambda image, cost, share: cost * (1 - share) / share
            ),
            "you return 1. If you count up: go on *while* the cost is more than its share. If you "
            "divide: a costlier batch must be larger": lambda image, cost, share: 1,
            "`share` is what the images get: it is what the cost may take": (
                lambda image, cost, share: math.ceil(_images(image, cost, 1 - share))
            ),
            "you divide by 1 - share. That is the images' part: n * image is (1 - share) / share "
            "times the cost": lambda image, cost, share: math.ceil(cost / ((1 - share) * image)),
            "a sign is wrong: cost - share * cost is at most share * n * image": (
                lambda image, cost, share: math.ceil(cost * (1 + share) / (share * image))
            ),
            "you compare the images' time with a share of the cost. It is the cost that may take a "
            "share, of the whole time": lambda image, cost, share: math.ceil(share * cost / image),
            "you double the number in each step: smaller ones that are enough are left out": (
                _counted(lambda images: 2 * images)
            ),
            "you count in steps of 10: smaller numbers that are enough are left out": (
                _counted(lambda images: images + 10)
            ),
            "you leave the share out: that is where cost and images take as long as each other": (
                lambda image, cost, share: math.ceil(cost / image)
            ),
            "you leave the image's time out": lambda image, cost, share: math.ceil(
                cost * (1 - share) / share
            ),
            "`share` is no percentage: 0.05 are 5%": lambda image, cost, share: math.ceil(
                abs(_images(image, cost, share / 100))
            ),
        },
    )
)
