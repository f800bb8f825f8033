"""Exercises of lesson 11: bytes of a plan, a steady sum, the last batch, two laws, batch sizes."""

import math

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register
from course.exercises.lesson11_judges import deal_anew, judge_steady
from course.exercises.lesson11_mistakes import LAST_BATCH, NETWORK_BYTES, bytes_of, until
from course.overlap import amdahl, gustafson

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
            _arrivals("three batches", lambda rng: [2.5, 4.0, -1.25]),
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
    ("seven for three", (2.0, 2.0, 2.25, 2.125, 2.75, 2.0, 2.0), 3),
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


def _laws(start, working, gathering, workers, serial=None):
    serial = (start + gathering) / (start + working + gathering) if serial is None else serial
    return amdahl(serial, workers), gustafson(serial, workers)


def _with(change):
    """What someone gets who takes another serial share."""

    def wrong(start, working, gathering, workers):
        return _laws(start, working, gathering, workers, change(start, working, gathering))

    return wrong


def _raw(serial, workers):
    """Both formulas for a share that is none, which the laws themselves refuse."""
    return 1 / (serial + (1 - serial) / workers), workers - serial * (workers - 1)


def _second_unbracketed(start, working, gathering, workers):
    """The second without its brackets."""
    same, as_much_each = _laws(start, working, gathering, workers)
    serial = (start + gathering) / (start + working + gathering)
    return same, as_much_each - serial - 1


def _second_astray(start, working, gathering, workers):
    """The second with 1 - workers in place of workers - 1."""
    same, _ = _laws(start, working, gathering, workers)
    serial = (start + gathering) / (start + working + gathering)
    return same, workers + serial * (workers - 1)


def _first_of_two_terms(start, working, gathering, workers):
    """The first as 1 / f + (1 - f) / workers."""
    serial = (start + gathering) / (start + working + gathering)
    return 1 / max(serial, 1e-300) + (1 - serial) / workers, workers - serial * (workers - 1)


def _first_unbracketed(start, working, gathering, workers):
    """The first with 1 - f / workers."""
    serial = (start + gathering) / (start + working + gathering)
    return 1 / (serial + 1 - serial / workers), workers - serial * (workers - 1)


def _second_of_two_brackets(start, working, gathering, workers):
    """The second as a product."""
    same, _ = _laws(start, working, gathering, workers)
    serial = (start + gathering) / (start + working + gathering)
    return same, (workers - serial) * (workers - 1)


def _second_turned_over(start, working, gathering, workers):
    same, as_much_each = _laws(start, working, gathering, workers)
    return same, 1 / as_much_each


def _second_by_the_first(start, working, gathering, workers):
    """The work of all on one worker, by the same work on all."""
    same, as_much_each = _laws(start, working, gathering, workers)
    return same, as_much_each * same


def _weak_limit(start, working, gathering, workers):
    """Strong scaling twice."""
    strong, _ = _laws(start, working, gathering, workers)
    return strong, strong


register(
    FunctionExercise(
        name="two-laws",
        lesson=11,
        title="Two laws from one run",
        reference=lambda start, working, gathering, workers: _laws(
            start, working, gathering, workers
        ),
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
        mistakes={
            "the second is the first: with as much work for each worker the serial part stays, and "
            "the work grows": _weak_limit,
            "the two are swapped: first the same work, then as much work for each. (Or is working "
            "multiplied by the workers in f? It is what one worker did)": (
                lambda start, working, gathering, workers: _laws(
                    start, working, gathering, workers
                )[::-1]
            ),
            "gathering is left out: nobody works then, either": _with(
                lambda start, working, gathering: start / (start + working + gathering)
            ),
            "start is left out: nobody works then, either": _with(
                lambda start, working, gathering: gathering / (start + working + gathering)
            ),
            "the serial time is divided by the working time: divide by all of it": _with(
                lambda start, working, gathering: min((start + gathering) / working, 1.0)
            ),
            "you took the part that is divided for the one that is not": _with(
                lambda start, working, gathering: working / (start + working + gathering)
            ),
            "you return milliseconds: asked is how many times": (
                lambda start, working, gathering, workers: (
                    start + working / workers + gathering,
                    start + working + gathering,
                )
            ),
            "the second is `workers`: but one worker that does all of the work has the serial part "
            "once, not as many times": (
                lambda start, working, gathering, workers: (
                    _laws(start, working, gathering, workers)[0],
                    float(workers),
                )
            ),
            "brackets are missing: (start + gathering) / (start + working + gathering)": (
                lambda start, working, gathering, workers: _raw(
                    start + gathering / (start + working + gathering), workers
                )
            ),
            "the serial share is in percent: leave it a fraction, 0.1 for a tenth": (
                lambda start, working, gathering, workers: _raw(
                    100 * (start + gathering) / (start + working + gathering), workers
                )
            ),
            "brackets are missing: start + gathering is divided by all three together": (
                lambda start, working, gathering, workers: _raw(
                    start + gathering / max(start, 1e-300) + working + gathering, workers
                )
            ),
            "brackets are missing in the first: 1 / (f + (1 - f) / workers)": _first_of_two_terms,
            "brackets are missing around 1 - f in the first": _first_unbracketed,
            "brackets are missing in the second: f * (workers - 1) is taken from the workers": (
                _second_of_two_brackets
            ),
            "the second is turned over: one worker takes longer than all of them": (
                _second_turned_over
            ),
            "the second is divided by the time of the same work. With as much work for each, all "
            "of them take as long as the one did": _second_by_the_first,
            "you return percent: asked is how many times": (
                lambda start, working, gathering, workers: tuple(
                    100 * law for law in _laws(start, working, gathering, workers)
                )
            ),
            "the first is turned over: the time that is left. The speed-up is 1 / it": (
                lambda start, working, gathering, workers: (
                    1 / _laws(start, working, gathering, workers)[0],
                    _laws(start, working, gathering, workers)[1],
                )
            ),
            "a sign or a bracket is wrong in the second: workers - f * (workers - 1)": (
                _second_astray
            ),
            "a sign or a bracket is missing in the second: workers - f * (workers - 1)": (
                _second_unbracketed
            ),
            "you rounded: return them as they are": (
                lambda start, working, gathering, workers: tuple(
                    round(law, 1) for law in _laws(start, working, gathering, workers)
                )
            ),
            "you return efficiencies: do not divide by the workers": (
                lambda start, working, gathering, workers: tuple(
                    law / workers for law in _laws(start, working, gathering, workers)
                )
            ),
            "you return the limits, for endlessly many workers": (
                lambda start, working, gathering, workers: (
                    (start + working + gathering) / max(start + gathering, 1e-300),
                    float(workers),
                )
            ),
            "you return the ideal: the serial part counts. (`//` makes a share 0)": (
                lambda start, working, gathering, workers: (float(workers), float(workers))
            ),
            "the serial part is forgotten in the second: workers * (1 - serial) lacks it": (
                lambda start, working, gathering, workers: (
                    _laws(start, working, gathering, workers)[0],
                    workers * working / (start + working + gathering),
                )
            ),
        },
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
            "you leave the image's time out": lambda image, cost, share: math.ceil(
                cost * (1 - share) / share
            ),
            "`share` is no percentage: 0.05 are 5%": lambda image, cost, share: math.ceil(
                abs(_images(image, cost, share / 100))
            ),
        },
    )
)
