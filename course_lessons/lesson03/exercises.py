"""Exercises of lesson 03: a launch timed rightly, rates, bounds, occupancy, crossings."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise
from course_lessons.cases import extent, of_values, turn
from course_lessons.lesson03 import judges
from course_lessons.lesson03.toy_gpu import ToyGPU

# --- time a launch ------------------------------------------------------------------------------


def _toy(name, **facts):
    """A case: a toy's three functions; the judge finds the toy behind them."""

    def arguments(rng):
        toy = ToyGPU(**facts)
        return {"launch": toy.launch, "synchronize": toy.synchronize, "clock": toy.clock}

    return Case(name, arguments)


def _some_toy(rng):
    work = 10 ** rng.uniform(-0.5, 2)
    facts = {"launch": work * rng.uniform(0.002, 0.04), "compiling": rng.uniform(0, 2000)}
    queued, turn = rng.uniform(0, 500), int(rng.integers(10))
    return _toy(f"a kernel of {work:.3g} ms", work=work, queued=queued, turn=turn, **facts)


FunctionExercise.declare(
    name="time-a-launch",
    lesson=3,
    title="Time a launch",
    statements=(
        "synchronize()",
        "start = clock()",
        "launch()",
        "synchronize()",
        "times.append(1e3 * (clock() - start))",
    ),
    judge=judges.judge_time,
    cases=[
        _toy("a kernel of 2 ms", work=2.0),
        _toy("a kernel of 30 ms, the GPU is busy at the start", work=30.0, queued=500.0, turn=3),
        _toy(
            "a kernel of 0.3 ms, compiled in 2 s", work=0.3, launch=0.01, compiling=2000.0, turn=7
        ),
    ],
    drawer=_some_toy,
    hints={
        "raised": "`times.append(...)` reads `start`: `start = clock()` stands above it, in the "
        "same round of the loop."
    },
)

# --- the report of a kernel ----------------------------------------------------------------------

_measured = of_values(
    "samples least other", "{least:g} ms at least, {other:g} ms by the other program"
)


def _some_measured(rng):
    median = 10 ** rng.uniform(-2, 2)
    samples = median * (1 + 0.02 * rng.random(extent(rng, 5, 60)))
    samples[:: int(rng.integers(3, 9))] *= rng.uniform(1.5, 9)
    least, other = median * rng.uniform(0.01, 1.3), median * 10 ** rng.uniform(-1, 1.5)
    return _measured(samples.tolist(), float(f"{least:.4g}"), float(f"{other:.4g}"))


FunctionExercise.declare(
    name="report-line",
    lesson=3,
    title="Report your kernel's time",
    reference=lambda samples, least, other: (
        np.median(samples),
        least / np.median(samples),
        other / np.median(samples),
    ),
    cases=[
        _measured([2.01, 2.0, 2.04, 9.6, 2.02], 0.0362, 2.39, name="a kernel far from its bound"),
        _measured([0.21, 0.19, 0.2, 0.22], 0.186, 0.05, name="a kernel near it, a faster rival"),
    ],
    drawer=_some_measured,
    drawn=16,
    hints={
        "wrong-result": "The median is np.median(samples). The share is the least time by the "
        "median, the speed-up is the other program's time by the median. Keep all digits.",
        "wrong-shape": "Return three numbers: `return median, share, times`.",
    },
)

# --- rates --------------------------------------------------------------------------------------


def _rates(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + rows * columns)
    return moved / milliseconds * 1e-6, 2 * rows * columns * k / moved


_report = of_values("rows columns k milliseconds", "{rows} x {columns}, k = {k}, {milliseconds} ms")


def _some_report(rng):
    rows, columns = extent(rng, 1, 100_000), extent(rng, 1, 100_000)
    k = extent(rng, 1, min(rows, columns))
    return _report(rows, columns, k, float(f"{10 ** rng.uniform(-3, 2):.3g}"))


FunctionExercise.declare(
    name="effective-rates",
    lesson=3,
    title="Effective bandwidth and intensity",
    judge=judges.judge_pair(
        ("GB/s", "operations a byte"),
        _rates,
    ),
    cases=[_report(1000, 700, 50, 0.5), _report(8, 6, 4, 0.02)],
    drawer=_some_report,
    drawn=16,
    hints={
        "wrong-result": "Bytes: k columns of u, k numbers of s, k rows of vt, and the image, 4 "
        "bytes each. GB/s are bytes / seconds / 10⁹. Operations: two for each pixel and layer."
    },
)

# --- the least time -----------------------------------------------------------------------------


def _least(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth * 1e-6, operations / rate * 1e-9
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


_kernel = of_values(
    "bytes operations bandwidth rate",
    "{bytes:,} bytes and {operations:,} operations, {bandwidth:g} GB/s and {rate} TFLOP/s",
)


def _some_gpu(rng):
    """Its bandwidth [GB/s] and rate [TFLOP/s]."""
    return round(10 ** rng.uniform(1.3, 4.3), 1), round(10 ** rng.uniform(0, 2.5), 1)


def _some_work(rng, bandwidth, rate):
    """Bytes and operations that take equally long but for a thousandth, or not, or none at all."""
    moved = extent(rng, 20, 2**20 if turn(rng) == 1 else 2**36)
    apart = rng.choice([1.001, 0.999, 4 ** rng.uniform(-1, 1), 0], p=[0.4, 0.4, 0.1, 0.1])
    return moved, int(moved * rate * 1e3 / bandwidth * apart)


def _few_operations(bandwidth, rate):
    """A byte, and operations that take longer: of nanoseconds no whole number."""
    return 1, round((math.ceil(1e3 / bandwidth) + 0.9) * rate)


def _some_kernel(rng):
    gpu = _some_gpu(rng)
    few = turn(rng) == 1 and rng.integers(2)
    return _kernel(*(_few_operations(*gpu) if few else _some_work(rng, *gpu)), *gpu)


FunctionExercise.declare(
    name="least-time",
    lesson=3,
    title="The least time of a kernel",
    judge=judges.judge_pair(
        ("ms", "what binds"),
        _least,
        words=("memory", "arithmetic"),
    ),
    cases=[
        _kernel(20_972_544, 2_147_483_648, 320.0, 8.1, name="an image on a T4"),
        _kernel(536_870_912, 0, 4220.0, 59.7, name="a copy on an H200"),
        _kernel(134_217_728, 167_772_160, 320.0, 8.1, name="a softmax on a T4"),
    ],
    drawer=_some_kernel,
    drawn=16,
    hints={
        "wrong-result": "Bytes take bytes / (bandwidth · 10⁹) seconds, operations take "
        "operations / (rate · 10¹²) seconds. Both go on at the same time, so the longer one "
        'counts. Return (milliseconds, "memory" or "arithmetic").',
        "raised": "A copy has 0 operations, so divide by nothing but the bandwidth and the rate.",
    },
)

# --- impossible figures -------------------------------------------------------------------------

_OF_A_T4 = [("sum", 4_194_304, 1_048_576, 0.0137)]
_OF_AN_H200 = [
    ("copy", 536_870_912, 0, 0.138),
    ("better copy", 536_870_912, 0, 0.1235),
    ("fast copy", 536_870_912, 0, 0.0614),
    ("matmul", 805_306_368, 1_099_511_627_776, 21.4),
    ("my matmul", 805_306_368, 1_099_511_627_776, 12.0),
    ("image", 20_972_544, 2_147_483_648, 2.01),
    ("image of 16 layers", 67_633_216, 536_870_912, 0.0195),
    ("fast image", 20_972_544, 2_147_483_648, 0.004),
]

_figures = of_values(
    "figures bandwidth rate", "figures of a GPU with {bandwidth:g} GB/s and {rate} TFLOP/s"
)


def _some_figures(rng):
    gpu, figures = _some_gpu(rng), []
    for number in range(rng.integers(8, 24)):
        work = _some_work(rng, *gpu)
        milliseconds = _least(*work, *gpu)[0] * np.exp(rng.choice([0.03, 0.5]) * rng.normal())
        name = f"{rng.choice(['', 'My ', ' '])}kernel {number}"
        figures.append((name, *work, float(milliseconds)))
    work = _few_operations(*gpu)
    figures.insert(rng.integers(len(figures)), ("kernel", *work, _least(*work, *gpu)[0] * 0.99))
    return _figures(figures, *gpu)


FunctionExercise.declare(
    name="impossible-figures",
    lesson=3,
    title="Which figure is impossible?",
    judge=judges.judge_figures,
    cases=[
        _figures(_OF_AN_H200, 4220.0, 59.7, name="figures of an H200"),
        _figures(_OF_A_T4, 320.0, 8.1, name="figures of a T4, all possible"),
    ],
    drawer=_some_figures,
    drawn=16,
    hints={
        "wrong-result": "Look at every figure, and return behind the loop. One roof is enough: a "
        "time is impossible below the least for the bytes, or below that for the operations. "
        "GB are 10⁹ bytes.",
        "raised": "Each of the figures is a tuple: `for name, bytes, operations, milliseconds "
        "in figures:`. And least_time returns two values: the time is `least_time(...)[0]`.",
    },
)

# --- a block that fills the multiprocessor ------------------------------------------------------

_of_a_thread = of_values(
    "registers shared", "{registers} registers and {shared} bytes of shared memory a thread"
)


def _some_thread(rng):
    """Shared memory decides which sizes are the fullest, or the registers, or either."""
    few, many, little, much = [(16, 64, 700, 900), (170, 256, 300, 400), (16, 256, 0, 900)][
        turn(rng)
    ]
    return _of_a_thread(int(rng.integers(few, many)), int(rng.integers(little, much)))


FunctionExercise.declare(
    name="fullest-block",
    lesson=3,
    title="Choose a block by occupancy",
    judge=judges.judge_block,
    cases=[_of_a_thread(*asked) for asked in ((44, 0), (70, 0), (24, 200), (32, 113))],
    drawer=_some_thread,
    candidates=1,
    drawn=24,
    hints={
        "raised": 'occupancy("H200", block, registers, shared_bytes) takes the bytes of a '
        "whole block: `shared * block`. A block that cannot start has 0 warps; sizes go up to "
        "1,024."
    },
)

# --- the crossing -------------------------------------------------------------------------------


def _work_of(n):
    """Operations, and bytes that are copied."""
    return 2 * n * n * (n // 8), 4 * ((2 * n + 1) * (n // 8) + n * n)


def _crossing(sizes, cpu, gpu, link, start):
    for n in sizes:
        operations, copied = _work_of(n)
        if start + copied / link * 1e-6 + operations / gpu * 1e-6 < operations / cpu * 1e-6:
            return n
    return 0


_DOUBLED = [64 * 2**i for i in range(8)]
_DENSE = [*range(64, 8193, 16)]  # so that nearly every mistake lands elsewhere

_sizes = of_values(
    "sizes cpu gpu link start",
    "{cpu:g} and {gpu:g} GFLOP/s, copies at {link:g} GB/s, {start:g} ms to start",
)


def _some_sizes(rng):
    """At one size CPU and GPU are equal but for a millionth: what is wrong moves the crossing."""
    n, step = extent(rng, 64, 9000), int(rng.integers(1, 20))
    cpu = round(10 ** rng.uniform(0, 3.5), 1)
    gpu = round(cpu * 10 ** rng.uniform(0.2, 2), 1)
    operations, copied = _work_of(n)
    gained = operations / (cpu * 1e6) - operations / (gpu * 1e6)
    copying = copied / gained * 1e-6 / 10 ** rng.uniform(0, 2.5)
    start = round(gained * (1 - copying if 0.1 < copying < 0.9 else rng.uniform(0.1, 0.9)), 4)
    link = copied / (gained - start) * 1e-6 * (1 + rng.choice([-1e-6, 1e-6]))
    before = min(int(rng.integers(1, 30)), (n - 8) // step)
    after = 1 if turn(rng) == 0 else int(rng.integers(1, 30))  # nothing is behind that size
    sizes = range(n - step * before, n + step * after, step)
    return _sizes([*sizes], cpu, gpu, link, start)


FunctionExercise.declare(
    name="crossing",
    lesson=3,
    title="Where the GPU begins to win",
    reference=_crossing,
    cases=[
        _sizes(_DENSE, 300.0, 8000.0, 5.0, 0.35, name="8 cores, sizes in steps of 16"),
        _sizes(_DOUBLED, 900.0, 1080.0, 6.0, 0.3, name="16 cores and a slow kernel, pageable"),
        _sizes(_DOUBLED[3:], 5.0, 1000.0, 50.0, 0.2, name="one core, sizes from 512"),
    ],
    drawer=_some_sizes,
    drawn=16,
    hints={
        "wrong-result": "k = n // 8. Operations: 2 n² k, and n² is n ** 2. Bytes over the "
        "link: 4 (2 n k + k + n²). GFLOP/s are 10⁹ a second, so operations / (rate · 10⁶) are "
        "ms. The GPU's time: start + copies + kernel. Where the GPU never wins, return 0.",
        "wrong-shape": "Return one number, the first size at which the GPU wins.",
    },
)
