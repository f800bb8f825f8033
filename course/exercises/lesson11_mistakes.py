"""What typical wrong answers of lesson 11 come to, and the right counts that they stray from."""

import math

from course.overlap import amdahl, gustafson
from course.toy_cluster import run

RECIPE = 64  # bytes for a batch


def bytes_of(plan, images, batch, factors, back, passes):
    """Count the bytes there and back."""
    there = {
        "send": passes * images * factors,
        "keep": images * factors,
        "make": RECIPE * math.ceil(images / batch),
    }
    return there[plan] + passes * images * back


#: What you get when ... -> what that comes to.
NETWORK_BYTES = {
    "the results are missing: they travel, too": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, images, batch, factors, 0, passes
        )
    ),
    "the results of one pass only are counted; each pass gives results": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, 0, passes) + images * back
        )
    ),
    "only the results are counted; something goes there, too, a recipe at least": (
        lambda plan, images, batch, factors, back, passes: passes * images * back
    ),
    "everything is counted in one pass only": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, images, batch, factors, back, 1
        )
    ),
    'what is kept is counted in each pass; \'keep\' sends it once. (`plan == "send" or "keep"` '
    "is always true: write `plan == ...` twice)": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            "send" if plan == "keep" else plan, images, batch, factors, back, passes
        )
    ),
    "this plan is counted as 'keep', with the factors once": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            "keep", images, batch, factors, back, passes
        )
    ),
    "what is made there is counted as nothing; a recipe travels for each batch": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, back, passes)
            - (RECIPE * math.ceil(images / batch) if plan == "make" else 0)
        )
    ),
    "the last, shorter batch has no recipe: round up": (
        lambda plan, images, batch, factors, back, passes: (
            RECIPE * (images // batch) + passes * images * back
            if plan == "make"
            else bytes_of(plan, images, batch, factors, back, passes)
        )
    ),
    "the number of batches is below 0: -(-images // batch) needs its brackets": (
        lambda plan, images, batch, factors, back, passes: (
            RECIPE * -images // batch + passes * images * back
            if plan == "make"
            else bytes_of(plan, images, batch, factors, back, passes)
        )
    ),
    "the last, shorter batch has a part of a recipe: round up": (
        lambda plan, images, batch, factors, back, passes: (
            RECIPE * images / batch + passes * images * back
            if plan == "make"
            else bytes_of(plan, images, batch, factors, back, passes)
        )
    ),
    "a recipe is counted for each image; there is one for each batch": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, images, 1, factors, back, passes
        )
    ),
    "one recipe is counted for all batches; each has its own": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, images, images, factors, back, passes
        )
    ),
    "recipes are sent in each pass: what was made is still there": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, back, passes)
            + (RECIPE * (passes - 1) * math.ceil(images / batch) if plan == "make" else 0)
        )
    ),
    "you count one batch, not all of them": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, batch, batch, factors, back, passes
        )
    ),
    "`factors` and `back` are bytes already: do not multiply by 4 once more": (
        lambda plan, images, batch, factors, back, passes: (
            4 * bytes_of(plan, images, batch, factors, back, passes)
            - (3 * RECIPE * math.ceil(images / batch) if plan == "make" else 0)
        )
    ),
    "`factors` and `back` are those of an image: times the images of a batch, times the "
    "batches": lambda plan, images, batch, factors, back, passes: bytes_of(
        plan, math.ceil(images / batch), 1, factors, back, passes
    ),
    "the last, shorter batch is counted as a full one": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            plan, batch * math.ceil(images / batch), batch, factors, back, passes
        )
    ),
    "images // batch + 1 counts one batch too many where nothing is left over": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, back, passes)
            + (RECIPE * (images // batch + 1 - math.ceil(images / batch))) * (plan == "make")
        )
    ),
    "the factors travel beside their recipes; a recipe replaces them": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, back, passes)
            + images * factors * (plan == "make")
        )
    ),
    "a recipe is counted for each image, in each pass; there is one for each batch": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, 1, factors, back, passes)
            + RECIPE * (passes - 1) * images * (plan == "make")
        )
    ),
    "recipes are counted by the images of a batch; asked is how many batches there are": (
        lambda plan, images, batch, factors, back, passes: (
            RECIPE * batch + passes * images * back
            if plan == "make"
            else bytes_of(plan, images, batch, factors, back, passes)
        )
    ),
    "passes are counted twice: what is sent in all passes is not multiplied once more": (
        lambda plan, images, batch, factors, back, passes: (
            passes * bytes_of(plan, images, batch, factors, back, passes)
            - (passes - 1) * passes * images * back
        )
    ),
    "`factors` are those of an image, not of a batch: times the images": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, math.ceil(images / batch), 1, factors, 0, passes)
            + passes * images * back
        )
    ),
    "`back` is the result of an image, not of a batch: times the images": (
        lambda plan, images, batch, factors, back, passes: (
            bytes_of(plan, images, batch, factors, 0, passes)
            + passes * math.ceil(images / batch) * back
        )
    ),
    "this plan is counted as 'make'. After `if`, the next one needs `elif`": (
        lambda plan, images, batch, factors, back, passes: bytes_of(
            "make", images, batch, factors, back, passes
        )
    ),
    "you return bits, or multiply by 8 for digests: all is given in bytes": (
        lambda plan, images, batch, factors, back, passes: (
            8 * bytes_of(plan, images, batch, factors, back, passes)
        )
    ),
    "you return megabytes": lambda plan, images, batch, factors, back, passes: (
        bytes_of(plan, images, batch, factors, back, passes) / 1e6
    ),
}

# --- the last batch -------------------------------------------------------------------------------


def until(milliseconds, workers):
    """When the last batch is done, by the toy."""
    return run(milliseconds, workers).milliseconds


def _in_turns(milliseconds, workers):
    return max(sum(milliseconds[worker::workers]) for worker in range(workers))


def _beforehand(milliseconds, workers):
    return run(milliseconds, workers, beforehand=True).milliseconds


def _last_ones(milliseconds, workers):
    """The end of the batch that was given out last; another one may end later."""
    return run(milliseconds, workers).work[-1].end


def _in_rounds(milliseconds, workers):
    """All workers wait for the slowest one before the next batches are given out."""
    starts = range(0, len(milliseconds), workers)
    return sum(max(milliseconds[start : start + workers]) for start in starts)


def _replacing(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] = time
    return max(free)


def _without_the_rest(milliseconds, workers):
    each = len(milliseconds) // workers
    return max(sum(milliseconds[w * each : (w + 1) * each]) for w in range(workers))


def _last_of_sorted(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free.sort()
        free[0] += time
    return free[-1]


def _ends(milliseconds, workers):
    """When each worker is free at the end."""
    ends = [0.0] * workers
    for one in run(milliseconds, workers).work:
        ends[one.worker] = max(ends[one.worker], one.end)
    return ends


LAST_BATCH = {
    "you divide the work evenly, sum / workers. That is a bound: a batch cannot be cut": (
        lambda milliseconds, workers: sum(milliseconds) / workers
    ),
    "you take the larger of two bounds, sum / workers and the longest batch": (
        lambda milliseconds, workers: max(sum(milliseconds) / workers, *milliseconds)
    ),
    "all batches are done one after the other: each goes to the `min` of the list, and the `max` "
    "of it is the answer. (In `[[]] * workers` all lists are the same one)": (
        lambda milliseconds: sum(milliseconds)
    ),
    "you return 0: a place in the list, or the list stays as it was. Write `free[worker] += time`; "
    "a number that you took out of a list is no longer a part of it": lambda milliseconds: 0.0,
    "you return the last of a sorted list, which was sorted before the last batch came to it: take "
    "the `max`": _last_of_sorted,
    "there is one worker too many": (
        lambda milliseconds, workers: until(milliseconds, workers + 1)
    ),
    "there are always three workers: use `workers`": lambda milliseconds: until(milliseconds, 3),
    "the first batches, one for each worker, are counted twice": (
        lambda milliseconds, workers: until([*milliseconds[:workers], *milliseconds], workers)
    ),
    "the longest batch is taken: its worker may have done others before": (
        lambda milliseconds: max(milliseconds)
    ),
    "batches are dealt in turns, 0, 1, 2, 0, 1, 2: a batch goes to who is free first": (_in_turns),
    "each worker gets a share beforehand: a batch goes to who is free first": _beforehand,
    "the workers wait for each other after each round": _in_rounds,
    "batches are sorted, the longest first: here they come in the order of the list": (
        lambda milliseconds, workers: until(sorted(milliseconds, reverse=True), workers)
    ),
    "batches are sorted, the shortest first: here they come in the order of the list": (
        lambda milliseconds, workers: until(sorted(milliseconds), workers)
    ),
    "the list is gone through from its end": (
        lambda milliseconds, workers: until(milliseconds[::-1], workers)
    ),
    "you return the end of the batch that was given out last; another may end later": (_last_ones),
    "you return when the first worker has nothing left to do; the last one counts": (
        lambda milliseconds, workers: min(_ends(milliseconds, workers))
    ),
    "you return after the first batch: `return` stands in the loop": (
        lambda milliseconds: milliseconds[0]
    ),
    "the last batch replaces what its worker did before: add with `+=`": _replacing,
    "times are cut to whole milliseconds: begin with 0.0, not with 0, in an array": (
        lambda milliseconds, workers: until([int(one) for one in milliseconds], workers)
    ),
    "the batches that len // workers leaves over are forgotten": _without_the_rest,
    "the first batches, one for each worker, are forgotten": (
        lambda milliseconds, workers: until([*milliseconds[workers:], 0.0], workers)
    ),
    "each round takes as long as the first batch": (
        lambda milliseconds, workers: math.ceil(len(milliseconds) / workers) * milliseconds[0]
    ),
    "each round takes as long as the longest batch of all": (
        lambda milliseconds, workers: math.ceil(len(milliseconds) / workers) * max(milliseconds)
    ),
    "each round takes as long as the mean batch": (
        lambda milliseconds, workers: (
            math.ceil(len(milliseconds) / workers) * sum(milliseconds) / len(milliseconds)
        )
    ),
    "you return the start of the batch that was given out last": (
        lambda milliseconds, workers: run(milliseconds, workers).work[-1].start
    ),
}

# --- two laws -------------------------------------------------------------------------------------


def laws(start, working, gathering, workers):
    """Amdahl's speed-up and Gustafson's, from the parts of a run with one worker."""
    serial = _share(start, working, gathering)
    return amdahl(serial, workers), gustafson(serial, workers)


def _share(start, working, gathering):
    return (start + gathering) / (start + working + gathering)


def _amdahl(f, workers):
    """Amdahl's formula, for any number: `amdahl` refuses what is no share."""
    return 1 / (f + (1 - f) / workers)


def _gustafson(f, workers):
    return workers - f * (workers - 1)


def _of(share=_share, first=_amdahl, second=_gustafson):
    """What someone gets who takes another share, or another formula."""

    def wrong(start, working, gathering, workers):
        f = share(start, working, gathering)
        return first(f, workers), second(f, workers)

    return wrong


NEARLY_0 = 1e-300  # where nothing is serial, or there is no start

TWO_LAWS = {
    "the second is the first: with as much work for each worker the serial part stays, and the "
    "work grows": _of(second=_amdahl),
    "the two are swapped: first the same work, then as much work for each. (Or is working "
    "multiplied by the workers in f? It is what one worker did)": _of(
        first=_gustafson, second=_amdahl
    ),
    "gathering is left out: nobody works then, either": _of(
        lambda start, working, gathering: start / (start + working + gathering)
    ),
    "start is left out: nobody works then, either": _of(
        lambda start, working, gathering: gathering / (start + working + gathering)
    ),
    "the serial time is divided by the working time: divide by all of it": _of(
        lambda start, working, gathering: (start + gathering) / working
    ),
    "you took the part that is divided for the one that is not": _of(
        lambda start, working, gathering: working / (start + working + gathering)
    ),
    "you return milliseconds: asked is how many times": (
        lambda start, working, gathering, workers: (
            start + working / workers + gathering,
            start + working + gathering,
        )
    ),
    "the second is `workers`: but one worker that does all of the work has the serial part once, "
    "not as many times": _of(second=lambda f, workers: workers),
    "brackets are missing: (start + gathering) / (start + working + gathering)": _of(
        lambda start, working, gathering: start + gathering / (start + working + gathering)
    ),
    "brackets are missing: start + gathering is divided by all three together": _of(
        lambda start, working, gathering: (
            start + gathering / max(start, NEARLY_0) + working + gathering
        )
    ),
    "brackets are missing in the first: 1 / (f + (1 - f) / workers)": _of(
        first=lambda f, workers: 1 / max(f, NEARLY_0) + (1 - f) / workers
    ),
    "brackets are missing around 1 - f in the first": _of(
        first=lambda f, workers: 1 / (f + 1 - f / workers)
    ),
    "a bracket ends too early in the first: divided by the workers is 1 - f alone": _of(
        first=lambda f, workers: 1 / workers
    ),
    "the serial share is in percent: leave it a fraction, 0.1 for a tenth": _of(
        lambda start, working, gathering: 100 * _share(start, working, gathering)
    ),
    "the first is turned over: the time that is left. The speed-up is 1 / it": _of(
        first=lambda f, workers: f + (1 - f) / workers
    ),
    "a sign or a bracket is wrong in the second: workers - f * (workers - 1)": _of(
        second=lambda f, workers: workers + f * (workers - 1)
    ),
    "a sign or a bracket is missing in the second: workers - f * (workers - 1)": _of(
        second=lambda f, workers: workers - f * workers - 1
    ),
    "a bracket is resolved wrongly in the second: - f * (workers - 1) is - f * workers + f": _of(
        second=lambda f, workers: workers - f * workers + 1
    ),
    "brackets are missing in the second: f * (workers - 1) is taken from the workers": _of(
        second=lambda f, workers: (workers - f) * (workers - 1)
    ),
    "the second is turned over: one worker takes longer than all of them": _of(
        second=lambda f, workers: 1 / _gustafson(f, workers)
    ),
    "the second is divided by the time of the same work. With as much work for each, all of them "
    "take as long as the one did": _of(
        second=lambda f, workers: _gustafson(f, workers) * _amdahl(f, workers)
    ),
    "you rounded: return them as they are": _of(
        first=lambda f, workers: round(_amdahl(f, workers), 1),
        second=lambda f, workers: round(_gustafson(f, workers), 1),
    ),
    "you return efficiencies: do not divide by the workers": _of(
        first=lambda f, workers: _amdahl(f, workers) / workers,
        second=lambda f, workers: _gustafson(f, workers) / workers,
    ),
    "you return percent: asked is how many times": _of(
        first=lambda f, workers: 100 * _amdahl(f, workers),
        second=lambda f, workers: 100 * _gustafson(f, workers),
    ),
    "you return the limits, for endlessly many workers": _of(
        first=lambda f, workers: 1 / max(f, NEARLY_0), second=lambda f, workers: workers
    ),
    "you return the ideal: the serial part counts. (`//` makes a share 0)": _of(
        first=lambda f, workers: workers, second=lambda f, workers: workers
    ),
    "the serial part is forgotten in the second: workers * (1 - serial) lacks it": _of(
        second=lambda f, workers: workers * (1 - f)
    ),
}
