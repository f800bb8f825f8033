"""Exercises of lesson 03: a launch timed rightly, rates, bounds, occupancy, crossings."""

import numpy as np

from course.checks import Case, FunctionExercise, register
from course.exercises.lesson03_judges import (
    judge_block,
    judge_factors,
    judge_figures,
    judge_pair,
    judge_time,
)
from course.exercises.lesson03_mistakes import (
    CROSSING_MISTAKEN,
    LEAST_MISTAKEN,
    RATES_MISTAKEN,
    crossing,
    least,
    rates,
)
from course.toy_gpu import ToyGPU

# --- time a launch ------------------------------------------------------------------------------


def _toy(name, **facts):
    """A case: a toy's three functions; the judge finds the toy behind them."""

    def arguments(rng):
        toy = ToyGPU(**facts)
        return {"launch": toy.launch, "synchronize": toy.synchronize, "clock": toy.clock}

    return Case(name, arguments)


register(
    FunctionExercise(
        name="time-a-launch",
        lesson=3,
        title="Time a launch",
        judge=judge_time,
        cases=[
            _toy("a kernel of 2 ms", work=2.0),
            _toy("a kernel of 30 ms, the GPU is busy at the start", work=30.0, queued=500.0),
            _toy("a kernel of 0.3 ms, compiled in 2 s", work=0.3, launch=0.01, compiling=2000.0),
        ],
        hints={
            "raised": "launch(), synchronize() and clock() take no arguments; clock() gives "
            "seconds. statistics.median takes a list.",
        },
    )
)

# --- copy what is needed ------------------------------------------------------------------------


def _factors(rows, columns, k, order="C"):
    least = min(rows, columns)

    def arguments(rng):
        u = np.asarray(rng.standard_normal((rows, least)), order=order)
        s = np.sort(rng.random(least))[::-1].copy()
        return {"u": u, "s": s, "vt": rng.standard_normal((least, columns)), "k": k}

    kind = "" if order == "C" else ", u column by column in memory"
    return Case(f"{rows} x {columns}, k = {k}{kind}", arguments)


register(
    FunctionExercise(
        name="needed-factors",
        lesson=3,
        title="Copy what is needed",
        judge=judge_factors,
        cases=[
            _factors(8, 8, 3),
            _factors(13, 37, 5),
            _factors(29, 11, 11),
            _factors(16, 23, 4, order="F"),
            _factors(5, 3, 1),
        ],
        hints={
            "raised": "np.ascontiguousarray(part, dtype=np.float32) makes an array of that type "
            "whose elements lie side by side.",
        },
    )
)

# --- rates --------------------------------------------------------------------------------------


register(
    FunctionExercise(
        name="effective-rates",
        lesson=3,
        title="Effective bandwidth and intensity",
        judge=judge_pair(("GB/s", "operations a byte"), rates, RATES_MISTAKEN),
        cases=[
            Case(
                f"{rows} x {columns}, k = {k}, {milliseconds} ms",
                lambda rng, a=(rows, columns, k, milliseconds): dict(
                    zip(("rows", "columns", "k", "milliseconds"), a, strict=True)
                ),
            )
            for rows, columns, k, milliseconds in (
                (2048, 2048, 256, 2.0),
                (1000, 700, 50, 0.5),
                (64, 64, 1, 0.003),
                (8, 6, 4, 0.002),
            )
        ],
        hints={
            "wrong-result": "Bytes: k columns of u, k numbers of s, k rows of vt, and the image, 4 "
            "bytes each. GB/s are bytes / seconds / 10⁹. Operations: two for each pixel and layer.",
        },
    )
)

# --- the least time -----------------------------------------------------------------------------


register(
    FunctionExercise(
        name="least-time",
        lesson=3,
        title="The least time of a kernel",
        judge=judge_pair(
            ("ms", "what binds"), least, LEAST_MISTAKEN, words=("memory", "arithmetic")
        ),
        cases=[
            Case(
                f"{name} on {gpu}",
                lambda rng, a=(count, operations, bandwidth, rate): dict(
                    zip(("bytes", "operations", "bandwidth", "rate"), a, strict=True)
                ),
            )
            for name, count, operations, gpu, bandwidth, rate in (
                ("an image", 20_972_544, 2_147_483_648, "a T4", 320.0, 8.1),
                ("a copy", 536_870_912, 0, "an H200", 4220.0, 59.7),
                ("a sum of squares", 4_000_000, 2_000_000, "a T4", 320.0, 8.1),
                ("a softmax", 134_217_728, 167_772_160, "a T4", 320.0, 8.1),
                ("a large product", 805_306_368, 1_099_511_627_776, "an H200", 4220.0, 59.7),
            )
        ],
        hints={
            "wrong-result": "Bytes take bytes / (bandwidth · 10⁹) seconds, operations take "
            "operations / (rate · 10¹²) seconds. Both go on at the same time, so the longer one "
            'counts. Return (milliseconds, "memory" or "arithmetic").',
            "raised": "A copy has 0 operations, so divide by nothing but the bandwidth and the "
            "rate.",
        },
    )
)

# --- impossible figures -------------------------------------------------------------------------

_REPORTED = {
    "an H200": (
        4220.0,
        59.7,
        [
            ("copy", 536_870_912, 0, 0.138),
            ("better copy", 536_870_912, 0, 0.1235),
            ("fast copy", 536_870_912, 0, 0.0614),
            ("matmul", 805_306_368, 1_099_511_627_776, 21.4),
            ("my matmul", 805_306_368, 1_099_511_627_776, 12.0),
            ("image", 20_972_544, 2_147_483_648, 2.01),
            ("image of 16 layers", 67_633_216, 536_870_912, 0.0195),
            ("fast image", 20_972_544, 2_147_483_648, 0.004),
        ],
    ),
    "a T4": (
        320.0,
        8.1,
        [
            ("transpose", 33_554_432, 0, 0.131),
            ("one image", 20_972_544, 2_147_483_648, 0.21),
            ("a slow image", 20_972_544, 2_147_483_648, 52.9),
            ("gelu", 8_388_608, 10_485_760, 0.0647),
            ("softmax", 134_217_728, 167_772_160, 0.2),
        ],
    ),
    "a T4, all possible": (320.0, 8.1, [("sum", 4_194_304, 1_048_576, 0.0137)]),
}

register(
    FunctionExercise(
        name="impossible-figures",
        lesson=3,
        title="Which figure is impossible?",
        judge=judge_figures,
        cases=[
            Case(
                f"figures of {gpu}",
                lambda rng, f=figures, b=bandwidth, r=rate: {
                    "figures": [*f],
                    "bandwidth": b,
                    "rate": r,
                },
            )
            for gpu, (bandwidth, rate, figures) in _REPORTED.items()
        ],
        hints={
            "raised": "Each of the figures is a tuple: `for name, bytes, operations, milliseconds "
            "in figures:`. And least_time returns two values: the time is `least_time(...)[0]`.",
        },
    )
)

# --- a block that fills the multiprocessor ------------------------------------------------------

register(
    FunctionExercise(
        name="fullest-block",
        lesson=3,
        title="Choose a block by occupancy",
        judge=judge_block,
        cases=[
            Case(
                f"{registers} registers and {shared} bytes of shared memory a thread",
                lambda rng, r=registers, s=shared: {"registers": r, "shared": s},
            )
            for registers, shared in ((44, 0), (70, 0), (40, 150), (24, 200), (32, 100), (255, 8))
        ],
        hints={
            "raised": 'occupancy("H200", block, registers, shared_bytes) takes the bytes of a '
            "whole block: `shared * block`. A block that cannot start has 0 warps; sizes go up to "
            "1,024.",
        },
    )
)

# --- the crossing -------------------------------------------------------------------------------


_DOUBLED = [64 * 2**i for i in range(8)]
_DENSE = [*range(64, 8193, 16)]  # so that nearly every mistake lands elsewhere

register(
    FunctionExercise(
        name="crossing",
        lesson=3,
        title="Where the GPU begins to win",
        reference=crossing,
        cases=[
            Case(
                name,
                lambda rng, a=(cpu, gpu, link, start), s=sizes: {
                    "sizes": [*s],
                    **dict(zip(("cpu", "gpu", "link", "start"), a, strict=True)),
                },
            )
            for name, sizes, cpu, gpu, link, start in (
                ("8 cores, sizes in steps of 16", _DENSE, 300.0, 8000.0, 5.0, 0.35),
                ("16 cores and a slow kernel, pageable", _DOUBLED, 900.0, 1080.0, 6.0, 0.3),
                ("16 cores and a better kernel, pinned", _DOUBLED, 900.0, 8000.0, 50.0, 0.2),
                ("one core", _DOUBLED, 5.0, 1000.0, 50.0, 0.2),
                ("a slow link", _DOUBLED, 500.0, 50000.0, 1.0, 0.05),
            )
        ],
        hints={
            "wrong-result": "k = n // 8. Operations: 2 n² k, and n² is n ** 2. Bytes over the "
            "link: 4 (2 n k + k + n²). GFLOP/s are 10⁹ a second, so operations / (rate · 10⁶) are "
            "ms. The GPU's time: start + copies + kernel. Where the GPU never wins, return 0.",
            "wrong-shape": "Return one number, the first size at which the GPU wins.",
        },
        mistakes=CROSSING_MISTAKEN,
    )
)
