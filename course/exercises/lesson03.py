"""Exercises of lesson 03: a launch timed rightly, rates, bounds, occupancy, crossings."""

import numpy as np

from course.checks import Case, FunctionExercise, register
from course.exercises.lesson03_judges import (
    judge_block,
    judge_factors,
    judge_figures,
    judge_pair,
    judge_time,
    total_times,
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


def _rates(rows, columns, k, milliseconds, itemsize=4, left_out=0, steps=2.0):
    """Effective bandwidth [GB/s] and intensity of a reconstruction."""
    moved = itemsize * (rows * k + k + k * columns + rows * columns - left_out)
    return moved / milliseconds * 1e-6, steps * rows * columns * k / moved


_RATES_MISTAKEN = {
    "the image that is written is left out": lambda rows, columns, k, milliseconds: _rates(
        rows, columns, k, milliseconds, left_out=rows * columns
    ),
    "you count numbers, not bytes: a float32 has 4 bytes": (
        lambda rows, columns, k, milliseconds: _rates(rows, columns, k, milliseconds, itemsize=1)
    ),
    "you count 8 bytes a number, as for float64": (
        lambda rows, columns, k, milliseconds: _rates(rows, columns, k, milliseconds, itemsize=8)
    ),
    "the time is in ms, you took it as seconds": lambda rows, columns, k, milliseconds: _rates(
        rows, columns, k, milliseconds * 1000
    ),
    "the bandwidth is in bytes a second, not in GB/s": (
        lambda rows, columns, k, milliseconds: _rates(rows, columns, k, milliseconds * 1e-9)
    ),
    "the bandwidth is in GiB, of 2³⁰ bytes; GB are 10⁹": (
        lambda rows, columns, k, milliseconds: _rates(rows, columns, k, milliseconds * 2**30 / 1e9)
    ),
    "you count one operation for each pixel and layer; a multiplication and an addition "
    "are two": lambda rows, columns, k, milliseconds: _rates(
        rows, columns, k, milliseconds, steps=1.0
    ),
    "every load of every thread is counted, as if nothing were read twice; effective "
    "bytes count each element once": lambda rows, columns, k, milliseconds: (
        4 * (3 * rows * columns * k + rows * columns) / milliseconds * 1e-6,
        2 * rows * columns * k / (4 * (3 * rows * columns * k + rows * columns)),
    ),
}

register(
    FunctionExercise(
        name="effective-rates",
        lesson=3,
        title="Effective bandwidth and intensity",
        judge=judge_pair(("GB/s", "operations a byte"), _rates, _RATES_MISTAKEN),
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
            )
        ],
        hints={
            "wrong-result": "Bytes: k columns of u, k numbers of s, k rows of vt, and the image, 4 "
            "bytes each. GB/s are bytes / seconds / 10⁹. Operations: two for each pixel and layer.",
        },
    )
)

# --- the least time -----------------------------------------------------------------------------


def _least(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth * 1e-6, operations / rate * 1e-9
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


_LEAST_MISTAKEN = {
    "the names have changed places: what takes longer is what binds": (
        lambda bytes, operations, bandwidth, rate: (
            _least(bytes, operations, bandwidth, rate)[0],
            "memory" if operations / rate * 1e-9 > bytes / bandwidth * 1e-6 else "arithmetic",
        )
    ),
    "you add the two times, but they overlap": lambda bytes, operations, bandwidth, rate: (
        bytes / bandwidth * 1e-6 + operations / rate * 1e-9,
        _least(bytes, operations, bandwidth, rate)[1],
    ),
    "you take the shorter of the two times": lambda bytes, operations, bandwidth, rate: (
        min(bytes / bandwidth * 1e-6, operations / rate * 1e-9),
        _least(bytes, operations, bandwidth, rate)[1],
    ),
    "you return seconds": lambda bytes, operations, bandwidth, rate: (
        _least(bytes, operations, bandwidth, rate)[0] * 1e-3,
        _least(bytes, operations, bandwidth, rate)[1],
    ),
    "you look at the memory only": lambda bytes, operations, bandwidth, rate: (
        bytes / bandwidth * 1e-6,
        "memory",
    ),
    "TFLOP/s are taken for GFLOP/s": lambda bytes, operations, bandwidth, rate: _least(
        bytes, operations, bandwidth, rate * 1e-3
    ),
}

register(
    FunctionExercise(
        name="least-time",
        lesson=3,
        title="The least time of a kernel",
        judge=judge_pair(("ms", "what binds"), _least, _LEAST_MISTAKEN),
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
                ("a large product", 805_306_368, 1_099_511_627_776, "an H200", 4220.0, 59.7),
            )
        ],
        hints={
            "wrong-result": "Bytes take bytes / (bandwidth · 10⁹) seconds, operations take "
            "operations / (rate · 10¹²) seconds. Both go on at the same time, so the longer one "
            'counts. Return (milliseconds, "memory" or "arithmetic").',
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
            ("fast copy", 536_870_912, 0, 0.0614),
            ("matmul", 805_306_368, 1_099_511_627_776, 21.4),
            ("my matmul", 805_306_368, 1_099_511_627_776, 12.0),
            ("reconstruct", 20_972_544, 2_147_483_648, 2.01),
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
            "in figures:`.",
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
            for registers, shared in ((46, 0), (70, 0), (40, 150), (128, 0), (72, 48), (255, 8))
        ],
        hints={
            "raised": 'occupancy("T4", block, registers, shared_bytes) takes the bytes of a whole '
            "block: `shared * block`. A block that cannot start has 0 warps; sizes go up to 1,024.",
        },
    )
)

# --- the crossing -------------------------------------------------------------------------------


def _first(sizes, cpu, gpu):
    return next((n for n, a, b in zip(sizes, cpu, gpu, strict=True) if b < a), 0)


def _crossing(sizes, cpu, gpu, link, start, **changes):
    return _first(sizes, *total_times(sizes, cpu, gpu, link, start, **changes))


_SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]

register(
    FunctionExercise(
        name="crossing",
        lesson=3,
        title="Where the GPU begins to win",
        reference=_crossing,
        cases=[
            Case(
                name,
                lambda rng, a=(cpu, gpu, link, start): {
                    "sizes": [*_SIZES],
                    **dict(zip(("cpu", "gpu", "link", "start"), a, strict=True)),
                },
            )
            for name, cpu, gpu, link, start in (
                ("8 cores and a good kernel, pageable", 300.0, 8000.0, 5.0, 0.1),
                ("16 cores and a slow kernel, pageable", 900.0, 1080.0, 6.0, 0.3),
                ("16 cores and a better kernel, pinned", 900.0, 8000.0, 50.0, 0.2),
                ("one core", 5.0, 1000.0, 50.0, 0.2),
                ("a slow link", 500.0, 50000.0, 1.0, 0.05),
            )
        ],
        hints={
            "wrong-result": "k = n // 8. Operations: 2 n² k. Bytes over the link: 4 (2 n k + k + "
            "n²). GFLOP/s are 10⁹ a second, so operations / (rate · 10⁶) are ms. The GPU's time: "
            "start + copies + kernel. Where the GPU never wins, return 0.",
        },
        mistakes={
            "the copies are left out": lambda sizes, cpu, gpu, link, start: _crossing(
                sizes, cpu, gpu, 1e12, start
            ),
            "the cost of starting is left out": lambda sizes, cpu, gpu, link, start: _crossing(
                sizes, cpu, gpu, link, 0.0
            ),
            "the copy back of the image is left out": lambda sizes, cpu, gpu, link, start: (
                _crossing(sizes, cpu, gpu, link, start, back=False)
            ),
            "only the copy back is counted": lambda sizes, cpu, gpu, link, start: _crossing(
                sizes, cpu, gpu, link, start, there=False
            ),
            "the whole factors are copied, n × n each; k columns and rows are needed": (
                lambda sizes, cpu, gpu, link, start: _crossing(
                    sizes, cpu, gpu, link, start, whole=True
                )
            ),
            "milliseconds and seconds are mixed: start is in ms": (
                lambda sizes, cpu, gpu, link, start: _crossing(sizes, cpu, gpu, link, start * 1e3)
            ),
            "that is the last size at which the CPU wins, not the first of the GPU": (
                lambda sizes, cpu, gpu, link, start: _crossing(sizes, cpu, gpu, link, start) // 2
            ),
            "you compare the rates alone: the first size": lambda sizes, cpu, gpu, link, start: (
                sizes[0]
            ),
            "you return the position in sizes, not the size": (
                lambda sizes, cpu, gpu, link, start: (
                    sizes.index(n) if (n := _crossing(sizes, cpu, gpu, link, start)) else -1
                )
            ),
        },
    )
)
