"""What is right in the rates, bounds and crossings of lesson 03, and what comes out by mistake.

A mistake's name completes the sentence "That is what you get when ...".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# --- rates --------------------------------------------------------------------------------------


def _numbers(rows, columns, k):
    """How many numbers are read or written, each once."""
    return rows * k + k + k * columns + rows * columns


def rates(
    rows: int,
    columns: int,
    k: int,
    milliseconds: float,
    numbers: Callable[[int, int, int], int] = _numbers,
    itemsize: int = 4,
    steps: float = 2.0,
) -> tuple[float, float]:
    """Effective bandwidth [GB/s] and intensity of a reconstruction."""
    moved = itemsize * numbers(rows, columns, k)
    return moved / milliseconds * 1e-6, steps * rows * columns * k / moved


def _counting(**changes):
    """The rates of someone who counts otherwise."""
    return lambda rows, columns, k, milliseconds: rates(rows, columns, k, milliseconds, **changes)


def _in_unit(factor):
    """The rates of someone whose bandwidth is so many times the right one."""
    return lambda **case: (rates(**case)[0] * factor, rates(**case)[1])


def _with_intensity(other):
    """The rates of someone who computes the second from something else: bytes, operations, ms."""

    def pair(rows, columns, k, milliseconds):
        moved, operations = 4 * _numbers(rows, columns, k), 2 * rows * columns * k
        return moved / milliseconds * 1e-6, other(moved, operations, milliseconds, k)

    return pair


RATES_MISTAKEN = {
    "the image that is written is left out": _counting(
        numbers=lambda rows, columns, k: rows * k + k + k * columns
    ),
    "the k numbers of s are left out": _counting(
        numbers=lambda rows, columns, k: rows * k + k * columns + rows * columns
    ),
    "s is taken for a matrix of k × k; it has k numbers": _counting(
        numbers=lambda rows, columns, k: rows * k + k * k + k * columns + rows * columns
    ),
    "the image is counted twice; it is only written": _counting(
        numbers=lambda rows, columns, k: _numbers(rows, columns, k) + rows * columns
    ),
    "the image is counted once for each layer; it is written once": _counting(
        numbers=lambda rows, columns, k: rows * k + k + k * columns + rows * columns * k
    ),
    "every load of every thread is counted, as if nothing were read twice; effective "
    "bytes count each element once": _counting(
        numbers=lambda rows, columns, k: 3 * rows * columns * k + rows * columns
    ),
    "the 4 multiplies the first term only: put the sum in brackets": _counting(
        itemsize=1, numbers=lambda rows, columns, k: _numbers(rows, columns, k) + 3 * rows * k
    ),
    "the image is taken for a square one": lambda rows, columns, k, milliseconds: rates(
        rows, rows, k, milliseconds
    ),
    "you count numbers, not bytes: a float32 has 4 bytes": _counting(itemsize=1),
    "you count 8 bytes a number, as for float64, or all bytes twice": _counting(itemsize=8),
    "you count bits; 8 of them are a byte": _counting(itemsize=32),
    "the time is in ms, you took it as seconds": _in_unit(1e-3),
    "the bandwidth is in bytes a second, not in GB/s": _in_unit(1e9),
    "the bandwidth is in GiB, of 2³⁰ bytes; GB are 10⁹": _in_unit(1e9 / 2**30),
    "you multiply by the time; a rate is divided by it": lambda rows, columns, k, milliseconds: (
        4e-12 * _numbers(rows, columns, k) * milliseconds,
        rates(rows, columns, k, milliseconds)[1],
    ),
    "you count one operation for each pixel and layer; a multiplication and an addition "
    "are two": _counting(steps=1.0),
    "you count three operations for each pixel and layer; count two here": _counting(steps=3.0),
    "k is left out of the operations": _with_intensity(
        lambda moved, operations, milliseconds, k: operations / k / moved
    ),
    "you divide the operations by numbers, not by bytes": _with_intensity(
        lambda moved, operations, milliseconds, k: operations / (moved / 4)
    ),
    "the intensity is upside down: operations / bytes": _with_intensity(
        lambda moved, operations, milliseconds, k: moved / operations
    ),
    "the second is GFLOP/s; the intensity has no time in it": _with_intensity(
        lambda moved, operations, milliseconds, k: operations / milliseconds * 1e-6
    ),
}

# --- the least time -----------------------------------------------------------------------------


def least(bytes: int, operations: int, bandwidth: float, rate: float) -> tuple[float, str]:
    """The least time [ms] of bytes at GB/s and operations at TFLOP/s, and what binds."""
    memory, arithmetic = bytes / bandwidth * 1e-6, operations / rate * 1e-9
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


def _least_of(time, name=None):
    """A pair of someone who takes another time of the two [ms], or another name."""

    def pair(bytes, operations, bandwidth, rate):
        memory, arithmetic = bytes / bandwidth * 1e-6, operations / rate * 1e-9
        return time(memory, arithmetic), name or least(bytes, operations, bandwidth, rate)[1]

    return pair


def _least_with(operations=1.0, bandwidth=1.0, rate=1.0):
    """A pair of someone whose operations, bandwidth or rate are so many times too large."""
    return lambda **case: least(
        case["bytes"],
        case["operations"] * operations,
        case["bandwidth"] * bandwidth,
        case["rate"] * rate,
    )


LEAST_MISTAKEN = {
    "the name is that of the shorter time: what takes longer is what binds": lambda **case: (
        least(**case)[0],
        "memory" if least(**case)[1] == "arithmetic" else "arithmetic",
    ),
    "you add the two times, but they overlap": _least_of(
        lambda memory, arithmetic: memory + arithmetic
    ),
    "you take the shorter of the two times": _least_of(min),
    "you return seconds, or one of the two times is in seconds": _least_of(
        lambda memory, arithmetic: max(memory, arithmetic) * 1e-3
    ),
    "you look at the memory only, or take the shorter of the two times": _least_of(
        lambda memory, arithmetic: memory, "memory"
    ),
    "you look at the arithmetic only, or take the shorter of the two times": _least_of(
        lambda memory, arithmetic: arithmetic, "arithmetic"
    ),
    "you return µs, or TFLOP/s are taken for GFLOP/s": _least_with(bandwidth=1e-3, rate=1e-3),
    "TFLOP/s are taken for GFLOP/s": _least_with(rate=1e-3),
    "the bandwidth is taken for GiB/s, of 2³⁰ bytes; GB are 10⁹": _least_with(
        bandwidth=2**30 / 1e9
    ),
    "each operation is counted twice; they are counted already": _least_with(operations=2),
}

# --- the crossing -------------------------------------------------------------------------------


def total_times(
    sizes: Any,
    cpu: float,
    gpu: float,
    link: float,
    start: float,
    *,
    there: bool = True,
    back: bool = True,
    whole: bool = False,
    itemsize: int = 4,
    steps: int = 2,
    layers: Callable[[int], int] = lambda n: n // 8,
    overlap: bool = False,
) -> tuple[list[float], list[float]]:
    """Times [ms] of images of n × n pixels, k = n // 8, on the CPU and on the GPU with copies."""
    by_cpu, by_gpu = [], []
    for n in sizes:
        k = layers(n)
        operations = steps * n * n * k
        factors = 2 * n * n + n if whole else 2 * n * k + k
        copies = itemsize * (there * factors + back * n * n) / link * 1e-6
        kernel = operations / gpu * 1e-6
        by_cpu.append(operations / cpu * 1e-6)
        by_gpu.append(start + (max(copies, kernel) if overlap else copies + kernel))
    return by_cpu, by_gpu


def _first(sizes, cpu, gpu):
    return next((n for n, a, b in zip(sizes, cpu, gpu, strict=True) if b < a), 0)


def crossing(sizes: Any, cpu: float, gpu: float, link: float, start: float, **changes: Any) -> int:
    """The first size at which the GPU with copies beats the CPU, 0 if there is none."""
    return _first(sizes, *total_times(sizes, cpu, gpu, link, start, **changes))


def _crossing_with(cpu=1.0, gpu=1.0, link=1.0, start=1.0, **changes):
    """The crossing of someone whose rates or start are so many times too large."""
    return lambda **case: crossing(
        case["sizes"],
        case["cpu"] * cpu,
        case["gpu"] * gpu,
        case["link"] * link,
        case["start"] * start,
        **changes,
    )


def _last(**case):
    """The last size at which the GPU wins."""
    by_cpu, by_gpu = total_times(**case)
    wins = [n for n, a, b in zip(case["sizes"], by_cpu, by_gpu, strict=True) if b < a]
    return wins[-1] if wins else 0


def _before(**case):
    """The size before the crossing."""
    place = _place(**case)
    return case["sizes"][place - 1] if place > 0 else 0


def _place(**case):
    """The crossing's place in the sizes, -1 where there is none."""
    found = crossing(**case)
    return case["sizes"].index(found) if found else -1


CROSSING_MISTAKEN = {
    "the copies are left out": _crossing_with(link=1e12),
    "the cost of starting is left out, or divided by 1000: it is in ms": _crossing_with(start=1e-3),
    "the copy back of the image is left out": _crossing_with(back=False),
    "only the copy back is counted": _crossing_with(there=False),
    "the whole factors are copied, n × n each; k columns and rows are needed": (
        _crossing_with(whole=True)
    ),
    "you count numbers, not bytes: a float32 has 4 bytes": _crossing_with(itemsize=1),
    "you count 8 bytes a number, as for float64, or all bytes twice": _crossing_with(itemsize=8),
    "you count one operation for each pixel and layer; they are two": _crossing_with(steps=1),
    "k is taken for n; it is n // 8": _crossing_with(layers=lambda n: n),
    "copies and kernel go on at the same time; here one follows the other": (
        _crossing_with(overlap=True)
    ),
    "the cost of starting is counted twice": _crossing_with(start=2.0),
    "GB and GFLOP are taken for 2³⁰; they are 10⁹": _crossing_with(start=2**30 / 1e9),
    "you return the last size at which the GPU wins, not the first": _last,
    "milliseconds and seconds are mixed: start is in ms": _crossing_with(start=1e3),
    "you return the last size at which the CPU still wins": _before,
    "you compare the rates alone, or turn the comparison round: the first size": (
        lambda sizes, cpu, gpu, link, start: sizes[0]
    ),
    "you return the position in sizes, not the size, or -1 for none": _place,
    "the loop ends at the first size: `return 0` stands behind it, not in it. Or the "
    "GPU's time comes out far too long": lambda sizes, cpu, gpu, link, start: 0,
}
