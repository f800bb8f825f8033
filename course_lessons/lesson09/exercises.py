"""Exercises of lesson 09: many images in a launch, the slowest stage, workers, order."""

import inspect
import queue
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from course.checks.answers import looks_like_a_stub, plain_function
from course.checks.exercises import Case, FunctionExercise, Limit
from course.checks.verdicts import brief
from course_lessons.cases import OF_LAYERS, extent, fixed, kept, normal, rebuilt, sides, table
from course_lessons.edits import LessonKernel
from course_lessons.lesson03.judges import judge_pair
from course_lessons.lesson09.judges import judge_remaining, judge_saved
from course_lessons.lesson09.killed_writes import kill_everywhere
from course_lessons.lesson09.watching import call_watched
from warpsim.core.words import count

# --- many images in one launch --------------------------------------------------------------------


def _stack(images, rows, columns, values, k, block=(16, 16, 1), measured=False):
    """Stacks of factors with more singular values than are used."""

    def arguments(rng):
        falling = np.sort(rng.random((images, values), dtype=np.float32) + np.float32(0.5))
        return {
            "u": normal(images, rows, values, sized=True)(rng),
            "s": np.ascontiguousarray(falling[:, ::-1]),
            "vt": rng.standard_normal((images, values, columns), dtype=np.float32),
            "k": k,
            "out": np.empty((images, rows, columns), np.float32),
        }

    plural = "s" * (images != 1)
    name = f"{images} image{plural} of {rows} x {columns}, k = {k}"
    return Case(name, arguments, block=block, measured=measured)


def _drawn_stack(rng):
    blocks = (16, 16, 1), (8, 4, 2), (32, 2, 4), (3, 5, 7)
    images, (_, *size) = extent(rng, 1, 9, 70), sides(rng, 1, 20, 40)
    return _stack(images, *size, *kept(rng, 16), blocks[rng.integers(4)])


_ONE_EACH = "For each of the k layers a pixel needs one number of u, one of s and one of vt."

LessonKernel.declare(
    name="rebuild-many",
    lesson=9,
    title="Many images in one launch",
    outputs=("out",),
    reference=rebuilt,
    cases=[
        _stack(3, 16, 16, 6, 4),
        _stack(3, 7, 5, 3, 3, block=(8, 4, 2)),
        _stack(4, 32, 64, 8, 8, block=(32, 8, 1), measured=True),
    ],
    drawer=_drawn_stack,
    tolerance=OF_LAYERS,
    forbidden={"float64", "uncoalesced", "same-value-race"},
    limits=[
        Limit("global", "store", "lanes", "element", 1, "Store each pixel once, at the end."),
        Limit("global", "load", "lanes", "element", 24, _ONE_EACH),
    ],
    hints={
        "out-of-bounds": "Three guards: image < out.shape[0], row < out.shape[1], "
        "col < out.shape[2]. A block may hold more images than are left, too.",
        "unwritten-output": "Which image does a thread belong to? The third number of "
        "cuda.grid(3), and each must be stored.",
        "wrong-result": "Every array has the image in front: u[image, row, i], s[image, i], "
        "vt[image, i, col], out[image, row, col].",
        "uncoalesced": "col, row, image = cuda.grid(3): x, the first, walks along the columns, "
        "so that neighbouring threads take neighbouring pixels.",
        "float64": "Start the sum with float32(0): 0.0 is float64.",
        "race": "Two threads write one pixel. Is the image an index of out?",
        "typing": "The arrays have three axes, s has two: u[image, row, i], s[image, i].",
    },
)

# --- the slowest stage ----------------------------------------------------------------------------


def _slowest(stages):
    """The stage with the lowest rate, and the rate."""
    rates = {name: 1000 * workers / ms for name, (ms, workers) in stages.items()}
    name = min(rates, key=rates.get)
    return name, rates[name]


_MACHINES = {
    "a laptop": {"decode": (2.0, 1), "factorise": (12.0, 2), "rebuild": (9.0, 1),
                 "write": (4.0, 1)},
    "16 cores and a GPU": {"decode": (2.0, 2), "factorise": (12.0, 12), "rebuild": (0.02, 1),
                           "write": (3.0, 2)},
    "a GPU that rebuilds image by image": {"decode": (0.5, 8), "factorise": (1.0, 16),
                                           "rebuild": (0.4, 1), "write": (1.5, 8)},
}  # fmt: skip


def _stages(rng):
    names = rng.permutation(["decode", "factorise", "rebuild", "write"])[: rng.integers(1, 5)]
    times = (10 ** (rng.uniform(-5, 2) + rng.uniform(0, 1.5, len(names)))).tolist()
    stages = {
        str(name): (time, extent(rng, 1, 70)) for name, time in zip(names, times, strict=True)
    }
    return fixed(count(len(names), "stage"), stages=stages)


FunctionExercise.declare(
    name="slowest-stage",
    lesson=9,
    title="The slowest stage",
    judge=judge_pair(
        ("stage", "images/s"),
        _slowest,
        words=("decode", "factorise", "rebuild", "write"),
    ),
    cases=[fixed(name, stages=stages) for name, stages in _MACHINES.items()],
    drawer=_stages,
    drawn=8,
    hints={
        "wrong-result": "A stage with n workers finishes n images in its milliseconds: 1000 * "
        "workers / milliseconds a second. The lowest of these rates is the pipeline's.",
        "raised": "for name, (milliseconds, workers) in stages.items(): ...",
    },
)

# --- a file that is whole or not there ------------------------------------------------------------


def _to_write(size, name="0007.png"):
    return Case(f"{size:,} bytes", lambda rng: {"path": Path(name), "data": rng.bytes(size)})


def _both_ways(answer, arguments):
    """Killed at every step with no older file there, then with one."""
    outcomes = tuple(
        kill_everywhere(answer, (*arguments, old)) for old in (None, b"an older image")
    )
    untouched = all(not outcome.kills for outcome in outcomes)
    return None if untouched and looks_like_a_stub(plain_function(answer)) else outcomes


FunctionExercise.declare(
    name="save-whole",
    lesson=9,
    title="A file that is whole or not there",
    judge=judge_saved,
    caller=_both_ways,
    cases=[_to_write(65)],
    drawer=lambda rng: _to_write(extent(rng, 2, 50_000), rng.choice(["x", "my cat.tar.gz"])),
    drawn=2,
    hints={
        "wrong-result": "1. Write everything to a second name in the same folder, such as "
        'path.with_name(path.name + ".part"). 2. Close it. 3. os.replace(second, path): one '
        "step for the file system.",
        "raised": "path is a pathlib.Path, data are bytes: open with 'wb', or use write_bytes.",
    },
)

# --- what is left to do ---------------------------------------------------------------------------


_TWELVE = [str(number) for number in range(1, 13)]


def _journal(rng):
    """Names of which some begin as others do; the last line is cut."""
    numbers = rng.permutation(extent(rng, 3, 40)).tolist()
    kinds = "{}", "my {}", "{}.png", "{}.PNG", " {} "
    names = [kinds[number % 5].format(number // 4) for number in numbers]
    done = rng.permutation(names).tolist()
    cut = rng.integers(len(names))
    piece = done[cut][: rng.integers(4)]
    del names[rng.integers(len(names))]
    return fixed(count(len(names), "name"), names=names, journal="\n".join([*done[:cut], piece]))


FunctionExercise.declare(
    name="left-to-do",
    lesson=9,
    title="What is left to do",
    judge=judge_remaining,
    cases=table(
        "names journal",
        ("nothing done yet", ["cat", "dog", "owl"], ""),
        ("two of five", ["cat", "dog", "owl", "fox", "elk"], "dog\ncat\n"),
        ("killed in the middle of a line", ["cat", "dog", "owl"], "cat\ndo"),
        ("the piece of a line is a name", _TWELVE, "3\n12\n1"),
    ),
    drawer=_journal,
    drawn=8,
    hints={
        "wrong-result": "A line counts if it ends in a newline. journal.split('\\n')[:-1] are "
        "the lines that do; what stands behind the last newline was cut off."
    },
)


SECONDS = 2.5  # that an answer may take in a case; right ones take milliseconds
LOOK = 0.01  # seconds between two looks at whether the producer still goes on
STILL = 6  # looks that see no change
MOST_LOOKS = 100  # at a producer that takes fewer than it could
PAUSE = 0.25  # seconds that the producer is late with an item
LAST = 0.03  # seconds that the last item takes: who does not wait for it returns without it

# --- several workers ------------------------------------------------------------------------------


class Workshop:
    """Images to work on, the work, and a record of who did what, and how far the producer ran."""

    def __init__(self, images: int, workers: int, room: int, looks: str = "") -> None:
        self.images, self.workers, self.looks = images, workers, looks
        self.least = min(images, room + workers)  # taken while the first item is worked on
        self.taken, self.lead, self.alone = 0, 0, False
        self.threads: set[int] = set()
        self.lock = threading.Lock()
        self.meeting = threading.Barrier(workers)
        self.calls = 0

    def __iter__(self):
        for number in range(self.images):
            self.taken += 1
            if self.looks == "pause" and number == self.images // 2:
                time.sleep(PAUSE)
            yield number

    def __len__(self) -> int:
        return self.images

    def work(self, item: int) -> int:
        """What is to be done with an item."""
        if item is None:
            raise TypeError("work(None) was called: None is the end marker, no image")
        with self.lock:
            self.calls += 1
            first, early = self.calls == 1, self.calls <= self.workers
            self.threads.add(threading.get_ident())
        if self.looks == "lead" and first:
            self.lead = self._taken_at_last()
        if self.looks == "together" and early:
            try:
                self.meeting.wait(timeout=1.0)
            except threading.BrokenBarrierError:
                self.alone = True
        if item == self.images - 1:
            time.sleep(LAST)
        return item // 2 * 7 + 1

    def _taken_at_last(self) -> int:
        """How many items the producer takes while this one is not finished."""
        seen, still, looks = -1, 0, 0
        while still < STILL or (seen < self.least and looks < MOST_LOOKS):
            time.sleep(LOOK)
            still = still + 1 if self.taken == seen else 0
            seen, looks = self.taken, looks + 1
        return seen


def judge_workers(answer: Any, items: Workshop, work: Any, workers: int, room: int) -> str | None:
    """Judge results of workers, how many worked at a time, and how far the producer ran ahead."""
    shop = items
    if inspect.isgenerator(answer):
        return "Return a list of results; yours has a yield, so it makes them only when asked."
    if isinstance(answer, str | dict) or not hasattr(answer, "__iter__"):
        return f"Return a list of results; got {brief(answer)}."
    results, lost = list(answer), []
    wanted = f"{count(shop.images, 'item')}, {count(workers, 'worker')}, room for {room}"
    more = results.copy()
    for item in range(shop.images):  # two items have one result
        result = item // 2 * 7 + 1
        more.remove(result) if result in more else lost.append(item)
    if lost:
        return (
            f"{wanted}: {count(len(lost), 'result')} missing, the first is that of item "
            f"{lost[0]}. Does each worker go on until it meets None, and do you wait, with "
            "join, until all have ended?"
        )
    if more:
        return f"{wanted}: the list has {count(len(results), 'result')}, some are no image's."
    if shop.calls != shop.images:
        return (
            f"{wanted}: work was called {count(shop.calls, 'time')}, once for each item is right."
        )
    if threading.get_ident() in shop.threads or (shop.alone and len(shop.threads) < workers):
        return (
            f"{wanted}: only {count(len(shop.threads), 'thread')} did the work. Start {workers}, "
            "all before the first item is put."
        )
    if shop.alone:
        return f"{wanted}: the workers wait for each other; no two worked at the same time."
    if len(shop.threads) > workers:
        return f"{wanted}: {len(shop.threads)} threads did the work, not {workers}."
    if shop.lead > room + workers + 1:
        return (
            f"{wanted}: while the first was worked on, {shop.lead} were taken from items. "
            f"At most {room + workers + 1} can be: {room} in the queue, {workers} in work, one in "
            "the producer's hand. Is it Queue(maxsize=room)? Or did you make a list of all items?"
        )
    if shop.looks == "lead" and shop.lead < shop.least:
        return (
            f"{wanted}: while the first was worked on, only {shop.lead} were taken from items, and "
            f"the queue has room for {room} more. Is it Queue(maxsize=room)?"
        )
    return None


def _shop(images, workers, room, looks=""):
    def arguments(rng):
        shop = Workshop(images, workers, room, looks)
        return {"items": shop, "work": shop.work, "workers": workers, "room": room}

    name = f"{count(images, 'item')}, {count(workers, 'worker')}, room for {room}"
    return Case(name + ", one item is late" * (looks == "pause"), arguments)


def _drawn_shop(rng):
    looks, workers = ("lead", 1) if rng.random() < 0.3 else ("together", extent(rng, 2, 9))
    return _shop(extent(rng, 50, 99), workers, extent(rng, 1, 9), looks)


WATCHED = partial(call_watched, seconds=SECONDS)

FunctionExercise.declare(
    name="run-workers",
    lesson=9,
    title="Several workers at one queue",
    judge=judge_workers,
    caller=WATCHED,
    cases=[
        _shop(6, 1, 2),
        _shop(2, 5, 1),
        _shop(20, 4, 4, "together"),
        _shop(40, 1, 3, "lead"),
        _shop(10, 2, 3, "pause"),
    ],
    drawer=_drawn_shop,
    drawn=4,
    hints={
        "deadlock": "Each worker ends at a None of its own: put as many as there are workers, "
        "after the last item. Start the workers first (start, not run; target=worker without "
        "brackets), then put, then join. Compare with `is not None`: 0 is an item.",
        "raised": "Thread(target=worker) takes the function without brackets.",
    },
)

# --- errors travel --------------------------------------------------------------------------------


class Arriving(queue.Queue):
    """A queue into which the next entry comes when somebody waits for it: who looks sees none."""

    def empty(self) -> bool:
        return True

    def qsize(self) -> int:
        return 0


class Bench:
    """Two queues and a work that fails for some images."""

    def __init__(self, images: int, bad: dict[int, Exception]) -> None:
        self.images, self.bad, self.calls = images, bad, 0
        self.late: int | None = None  # the first that was worked on before the last was handed on
        self.waiting = Arriving()
        self.done: queue.Queue = queue.Queue()
        for number in range(images):
            self.waiting.put((number, 10 * number))
        self.waiting.put(None)

    def work(self, image: int) -> int:
        """What is to be done with an image."""
        number = image // 10
        self.calls += 1
        if self.late is None and self.done.qsize() < number:
            self.late = number
        error = self.bad.get(number)
        if error is not None:
            raise error
        return image + 1


def judge_errors(answer: Any, waiting: Any, done: Any, work: Any) -> str | None:
    """Judge what a worker handed on: each image once, as a result or as a reason."""
    bench = work.__self__
    seen: set[int] = set()
    while not done.empty():
        entry = done.get()
        if entry is None:
            return (
                "None was put into done. Other workers may still be at work: who started them "
                "marks the end, once all have ended."
            )
        if not isinstance(entry, tuple) or len(entry) != 3:
            return f"Put triples (number, result, reason) into done; there is {brief(entry)}."
        fault = _fault_of_entry(bench, *entry, seen)
        if fault:
            return fault
        seen.add(entry[0])
    lost = [number for number in range(bench.images) if number not in seen]
    if lost:
        bad = lost[0] in bench.bad
        return (
            f"Image {lost[0]} is lost: nothing of it came into done."
            f"{' It is a bad one: hand on its number and the reason.' * bad}"
            f"{' The queue may be empty for a while; the end is None alone.' * (not seen)}"
        )
    if bench.calls != bench.images:
        return f"work was called {count(bench.calls, 'time')} for {count(bench.images, 'image')}."
    if bench.late is not None:
        return (
            f"Image {bench.late} was worked on before image {bench.late - 1} was in done. Hand on "
            "each as soon as it is ready: who writes them waits, and what you keep needs memory."
        )
    if answer != len(bench.bad) or isinstance(answer, bool):
        return f"Return the number of bad images, {len(bench.bad)}; got {brief(answer, 40)}."
    return None


def _fault_of_entry(
    bench: Bench, number: Any, result: Any, reason: Any, seen: set[int]
) -> str | None:
    if not isinstance(number, int) or not 0 <= number < bench.images:
        return f"{brief((number, result, reason), 80)}: the first is no image's number."
    if number in seen:
        return f"Image {number} came into done twice."
    error = bench.bad.get(number)
    if error is None:
        if reason is not None:
            return f"Image {number} is good, but its reason is {brief(reason)}; it must be None."
        if result != 10 * number + 1:
            return (
                f"The result of image {number} is {brief(result, 40)}, right is {10 * number + 1}."
            )
        return None
    if reason is None or str(error) not in str(reason):
        return (
            f"Image {number} is bad: work raised {type(error).__name__}: {error}. The reason in "
            f"done is {brief(reason)}: take str(error)."
        )
    if result is not None:
        return f"Image {number} is bad, but has the result {brief(result, 40)}, not None."
    return None


def _bench(name, images, bad):
    def arguments(rng):
        bench = Bench(images, bad)
        return {"waiting": bench.waiting, "done": bench.done, "work": bench.work}

    return Case(name, arguments)


def _drawn_bench(rng):
    images, kinds = extent(rng, 4, 30), (OSError, ValueError, MemoryError, ZeroDivisionError)
    bad = rng.choice(images, rng.integers(images + 1), replace=False).tolist()
    errors = {number: kinds[number % 4](f"number {number} is broken") for number in bad}
    return _bench(f"{count(images, 'image')}, {len(bad)} of them bad", images, errors)


FunctionExercise.declare(
    name="errors-travel",
    lesson=9,
    title="Errors travel with the images",
    judge=judge_errors,
    caller=WATCHED,
    cases=[
        _bench("4 good images", 4, {}),
        _bench("one bad image in the middle", 5, {2: ValueError("not an image")}),
        _bench(
            "bad ones of three kinds",
            8,
            {
                0: OSError("the file is gone"),
                3: ValueError("not an image"),
                7: MemoryError("too large"),
            },
        ),
    ],
    drawer=_drawn_bench,
    drawn=8,
    hints={
        "raised": "An exception must not leave the loop: try: ... except Exception as error: "
        "... around the call of work, inside the loop. And look for None before you unpack.",
        "deadlock": "After the last image comes None. Take it out and end: no more will come.",
    },
)

# --- in order -------------------------------------------------------------------------------------


class Arrivals:
    """Results that come in some order, and a record of what was written when."""

    def __init__(self, order: list[int], empty: int | None = None) -> None:
        self.order = order
        self.right = ["" if number == empty else f"image {number}" for number in sorted(order)]
        self.written: list[Any] = []
        self.before: list[int] = []  # how many were written when a result was fetched

    def __iter__(self):
        for number in self.order:
            self.before.append(len(self.written))
            yield number, self.right[number]
        self.before.append(len(self.written))

    def write(self, result: Any) -> None:
        """Write one result."""
        self.written.append(result)


def _in_order(order: list[int], *, once: bool = False) -> tuple[list[int], int, int]:
    """How many can be written after each arrival, and the most that wait, after it and before.

    With `once` it is one at most that is written after an arrival, as with `if` for `while`.
    """
    here: set[int] = set()
    turn, possible, most, before = 0, [0], 0, 0
    for number in order:
        here.add(number)
        before = max(before, len(here))
        while turn in here:
            here.remove(turn)
            turn += 1
            if once:
                break
        possible.append(turn)
        most = max(most, len(here))
    return possible, most, before


def judge_order(answer: Any, pairs: Arrivals, write: Any) -> str | None:
    """Judge the order of writing, that nothing waits longer than it must, and the count."""
    right = pairs.right
    came = f"Results came in the order {', '.join(map(str, pairs.order)) or 'of none'}."
    possible, most, before = _in_order(pairs.order)
    strange = next((one for one in pairs.written if one not in right), None)
    if strange is not None:
        return f"write was called with {brief(strange)}. Give it the result, such as 'image 0'."
    if pairs.written != right:
        numbers = ", ".join(str(right.index(one)) for one in pairs.written) or "nothing"
        return f"{came} Written was: {numbers}.{_why_not_in_order(pairs)}"
    late = next(
        (
            n
            for n, (had, could) in enumerate(zip(pairs.before, possible, strict=False))
            if had < could
        ),
        None,
    )
    if late is not None:
        return (
            f"{came} After {count(late, 'arrival')} {possible[late]} could be written, and "
            f"{pairs.before[late]} were. Write each as soon as its turn comes: what waits needs "
            "memory."
        )
    if answer != most or isinstance(answer, bool):
        also = " That is counted before writing." if answer == before else ""
        return (
            f"{came} At most {most} had to wait at a time, counted after each arrival, when all "
            f"that could be written was; you returned {brief(answer, 40)}.{also}"
        )
    return None


def _why_not_in_order(pairs: Arrivals) -> str:
    if pairs.written == [pairs.right[number] for number in pairs.order]:
        return " That is the order in which they came."
    lost = next((one for one in pairs.right if one not in pairs.written), None)
    if lost == "":
        return (
            f" The result of {pairs.right.index(lost)} is '', which counts as false, as 0 and None "
            "do. Ask whether the number is in the dict."
        )
    if pairs.written and lost == pairs.right[0]:
        return " Number 0 never was: its turn is the first."
    if pairs.written == pairs.right[: _in_order(pairs.order, once=True)[0][-1]]:
        return " One arrival can give several their turn, so it takes a while, not an if."
    return ""


def _arrivals(name, order, empty=None):
    def arguments(rng):
        arrivals = Arrivals(order, empty)
        return {"pairs": arrivals, "write": arrivals.write}

    return Case(name, arguments)


def _drawn_arrivals(rng):
    order = rng.permutation(extent(rng, 1, 20)).tolist()
    if rng.random() < 0.5:  # in order but for one
        order = [*sorted(order[1:]), order[0]]
    return _arrivals(count(len(order), "result"), order[:: rng.choice([-1, 1])], order[0])


FunctionExercise.declare(
    name="write-in-order",
    lesson=9,
    title="Results in order",
    judge=judge_order,
    caller=WATCHED,
    cases=[
        _arrivals("two change places", [1, 0, 2, 3]),
        _arrivals("the first comes last", [1, 2, 3, 4, 0]),
        _arrivals("nothing comes", []),
        _arrivals("the result of 1 is empty", [2, 0, 1, 3], empty=1),
    ],
    drawer=_drawn_arrivals,
    drawn=5,
    hints={
        "wrong-result": "Keep what is early in a dict. After each arrival: while the one whose "
        "turn it is lies there, take it out, write it, and the next one has its turn.",
        "raised": "for number, result in pairs: ... and dict.pop(number) takes one out.",
    },
)
