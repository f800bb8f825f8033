"""Exercises of lesson 09: many images in a launch, the slowest stage, what is left to do."""

from pathlib import Path

import numpy as np

from course.answers import looks_like_a_stub, plain_function
from course.checks import Case, FunctionExercise, KernelExercise, Limit, Tolerance, register
from course.exercises.lesson03_judges import judge_pair
from course.exercises.lesson09_judges import judge_remaining, judge_saved
from course.killed_writes import kill_everywhere

# --- many images in one launch --------------------------------------------------------------------


def _stack(images, rows, columns, values, k, block=(16, 16, 1), measured=False):
    """Stacks of factors with more singular values than are used."""

    def arguments(rng):
        falling = np.sort(rng.random((images, values), dtype=np.float32) + np.float32(0.5))
        return {
            "u": rng.standard_normal((images, rows, values), dtype=np.float32),
            "s": np.ascontiguousarray(falling[:, ::-1]),
            "vt": rng.standard_normal((images, values, columns), dtype=np.float32),
            "k": k,
            "out": np.empty((images, rows, columns), np.float32),
        }

    plural = "s" * (images != 1)
    name = f"{images} image{plural} of {rows} x {columns}, k = {k}"
    return Case(name, arguments, block=block, measured=measured)


def _layers(u, s, vt, k):
    return (u[..., :k] * s[:, None, :k]) @ vt[:, :k]


def _only_the_first(u, s, vt, k):
    right = _layers(u, s, vt, k)
    right[1:] = 0
    return right


register(
    KernelExercise(
        name="rebuild-many",
        lesson=9,
        title="Many images in one launch",
        outputs=("out",),
        reference=lambda u, s, vt, k: _layers(u, s, vt, k),
        cases=[
            _stack(1, 16, 16, 4, 4),
            _stack(3, 16, 16, 6, 4),
            _stack(5, 13, 37, 9, 7),
            _stack(3, 7, 5, 3, 3, block=(8, 4, 2)),
            _stack(2, 1, 1, 2, 1),
            _stack(4, 32, 64, 8, 8, block=(32, 8, 1), measured=True),
        ],
        tolerance=Tolerance(
            16,
            "two products and a sum for each of up to 8 singular values",
            magnitude=lambda u, s, vt, k: _layers(np.abs(u), s, np.abs(vt), k),
        ),
        forbidden={"float64", "negative-index", "uncoalesced"},
        limits=[
            Limit("global", "store", "lanes", "element", 1, "Store each pixel once, at the end."),
            Limit(
                "global",
                "load",
                "lanes",
                "element",
                24,
                "For each of the k layers a pixel needs one number of u, one of s and one of vt.",
            ),
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
        mistakes={
            "every image is made from the factors of the first": lambda u, s, vt, k: np.repeat(
                _layers(u, s, vt, k)[:1], len(u), axis=0
            ),
            "every image takes the s of the first: s[0, i] instead of s[image, i]": (
                lambda u, s, vt, k: _layers(u, np.repeat(s[:1], len(s), axis=0), vt, k)
            ),
            "every image takes the u of the first": lambda u, s, vt, k: _layers(
                np.repeat(u[:1], len(u), axis=0), s, vt, k
            ),
            "every image takes the vt of the first": lambda u, s, vt, k: _layers(
                u, s, np.repeat(vt[:1], len(vt), axis=0), k
            ),
            "all singular values are used, not the first k": lambda u, s, vt, k: _layers(
                u, s, vt, s.shape[1]
            ),
            "s is left out": lambda u, s, vt, k: _layers(u, np.ones_like(s), vt, k),
            "the sum goes on from one image to the next": lambda u, s, vt, k: np.cumsum(
                _layers(u, s, vt, k), axis=0
            ),
        },
    )
)

# --- the slowest stage ----------------------------------------------------------------------------


def _slowest(stages, rate=lambda milliseconds, workers: 1000 * workers / milliseconds):
    """The stage with the lowest rate, and the rate."""
    rates = {name: rate(*both) for name, both in stages.items()}
    name = min(rates, key=rates.get)
    return name, rates[name]


def _all_after_each_other(stages):
    milliseconds = sum(one / workers for one, workers in stages.values())
    return _slowest(stages)[0], 1000 / milliseconds


_MACHINES = {
    "a laptop": {"decode": (2.0, 1), "factorise": (12.0, 2), "rebuild": (9.0, 1),
                 "write": (4.0, 1)},
    "16 cores and a GPU": {"decode": (2.0, 2), "factorise": (12.0, 12), "rebuild": (0.02, 1),
                           "write": (3.0, 2)},
    "a slow disk": {"decode": (2.0, 8), "factorise": (12.0, 24), "rebuild": (0.02, 1),
                    "write": (30.0, 4)},
    "a GPU that rebuilds image by image": {"decode": (0.5, 8), "factorise": (1.0, 16),
                                           "rebuild": (0.4, 1), "write": (1.5, 8)},
}  # fmt: skip

register(
    FunctionExercise(
        name="slowest-stage",
        lesson=9,
        title="The slowest stage",
        judge=judge_pair(
            ("stage", "images/s"),
            _slowest,
            {
                "the workers of a stage are left out": lambda stages: _slowest(
                    stages, lambda milliseconds, workers: 1000 / milliseconds
                ),
                "the stage with the longest time for an image is taken, whatever its workers": (
                    lambda stages: (
                        (name := max(stages, key=lambda stage: stages[stage][0])),
                        1000 * stages[name][1] / stages[name][0],
                    )
                ),
                "the fastest stage is taken": lambda stages: _slowest(
                    {
                        max(stages, key=lambda stage: stages[stage][1] / stages[stage][0]): (
                            stages[max(stages, key=lambda s: stages[s][1] / stages[s][0])]
                        )
                    }
                ),
                "the times of all stages are added: then they work one after the other": (
                    _all_after_each_other
                ),
                "more workers are taken to make a stage slower: milliseconds * workers": (
                    lambda stages: _slowest(
                        stages, lambda milliseconds, workers: 1000 / (milliseconds * workers)
                    )
                ),
                "the rates of all stages are added": lambda stages: (
                    _slowest(stages)[0],
                    sum(1000 * workers / one for one, workers in stages.values()),
                ),
            },
            words=("decode", "factorise", "rebuild", "write"),
        ),
        cases=[
            Case(name, lambda rng, stages=stages: {"stages": dict(stages)})
            for name, stages in _MACHINES.items()
        ],
        hints={
            "wrong-result": "A stage with n workers finishes n images in its milliseconds: 1000 * "
            "workers / milliseconds a second. The lowest of these rates is the pipeline's.",
            "raised": "for name, (milliseconds, workers) in stages.items(): ...",
        },
    )
)

# --- a file that is whole or not there ------------------------------------------------------------


def _to_write(name, size):
    return Case(name, lambda rng: {"path": Path("0007.png"), "data": rng.bytes(size)})


def _both_ways(answer, arguments):
    """Killed at every step with no older file there, then with one."""
    outcomes = tuple(
        kill_everywhere(answer, (*arguments, old)) for old in (None, b"an older image")
    )
    untouched = all(not outcome.kills for outcome in outcomes)
    return None if untouched and looks_like_a_stub(plain_function(answer)) else outcomes


register(
    FunctionExercise(
        name="save-whole",
        lesson=9,
        title="A file that is whole or not there",
        judge=judge_saved,
        caller=_both_ways,
        cases=[_to_write("65 bytes", 65), _to_write("20,000 bytes", 20_000)],
        hints={
            "wrong-result": "1. Write everything to a second name in the same folder, such as "
            'path.with_name(path.name + ".part"). 2. Close it. 3. os.replace(second, path): one '
            "step for the file system.",
            "raised": "path is a pathlib.Path, data are bytes: open with 'wb', or use write_bytes.",
        },
    )
)

# --- what is left to do ---------------------------------------------------------------------------


def _interrupted(name, names, journal):
    return Case(name, lambda rng: {"names": list(names), "journal": journal})


_TWELVE = [str(number) for number in range(1, 13)]

register(
    FunctionExercise(
        name="left-to-do",
        lesson=9,
        title="What is left to do",
        judge=judge_remaining,
        cases=[
            _interrupted("nothing done yet", ["cat", "dog", "owl"], ""),
            _interrupted("two of five", ["cat", "dog", "owl", "fox", "elk"], "dog\ncat\n"),
            _interrupted("killed in the middle of a line", ["cat", "dog", "owl"], "cat\ndo"),
            _interrupted("the piece of a line is a name", _TWELVE, "3\n12\n1"),
            _interrupted("names with a blank", ["my cat", "my dog", "owl"], "my dog\nowl\n"),
            _interrupted("all done", ["cat", "dog"], "cat\ndog\n"),
            _interrupted("a name that is no longer there", ["dog", "owl"], "cat\nowl\n"),
        ],
        hints={
            "wrong-result": "A line counts if it ends in a newline. journal.split('\\n')[:-1] are "
            "the lines that do; what stands behind the last newline was cut off.",
        },
    )
)
