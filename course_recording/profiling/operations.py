"""Record a GPU's results of small operations on edge values, and compare the simulator's.

``python -m course_recording.profiling.operations record FILE.npz --seed 2`` runs on a machine with
a GPU; ``python -m course_recording.profiling.operations compare FILE.npz`` runs anywhere.

Each case is one kernel, named ``statement|type of a|type of b|type of out``: every thread has one
pair of values. The value of a statement without ``=`` is stored in ``out[i]``. The listed cases go
through all operators and functions. The drawn cases combine more of both with more types; the seed
draws the values, too. A case that the compiler refuses holds the error's type as text.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import linecache
import math
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from course import backend
from course.files import write_whole
from course.measure import recorded

LISTED = (
    "a + b", "a - b", "a * b", "a // b", "a % b", "a / b", "a ** b", "a << b", "a >> b", "a & b",
    "a | b", "a ^ b", "a < b", "a == b", "min(a, b)", "max(a, b)", "~a", "-a", "abs(a)", "not a",
    "a and b", "a or b", "math.fmod(a, b)", "math.pow(a, b)", "math.atan2(a, b)",
    "math.copysign(a, b)", "math.sqrt(a)", "math.log(a)", "math.exp(a)", "math.floor(a)",
    "math.ceil(a)", "math.trunc(a)", "round(a)", "int(a)", "float(a)", "bool(a)", "np.int8(a)",
    "np.uint8(a)", "np.int16(a)", "np.int32(a)", "np.uint32(a)", "np.int64(a)", "np.uint64(a)",
    "np.float32(a)", "math.gamma(a)", "math.lgamma(a)", "math.erf(a)", "math.log2(a)",
    "math.log10(a)", "math.expm1(a)", "math.log1p(a)", "math.tan(a)", "math.asin(a)",
    "math.hypot(a, b)", "math.isnan(a)", "cuda.popc(a)", "cuda.clz(a)", "cuda.ffs(a)",
    "cuda.brev(a)", "divmod(a, b)[0]", "a if a > b else b",
)  # fmt: skip
#: Drawn, not listed: further operators, functions, constants, and statements with their own store.
FURTHER = (
    "a <= b", "a >= b", "a != b", "a > b", "+a", "divmod(a, b)[1]", "pow(a, b)", "pow(a, 3)",
    "a ** 2", "a ** -1", "a ** 3", "a ** 0.5", "2 ** a", "a // 3", "a // -7", "a % 3", "a % -7",
    "7 // a", "7 % a", "1 / a", "a << 3", "a >> 3", "a >> 40", "1 << a", "-5 >> a", "a & 255",
    "a | 1", "a ^ -1", "a + 1", "a - 0.5", "a * 1.5", "min(a, 3)", "max(a, 2.5)", "round(a, 1)",
    "np.uint16(a)", "np.float64(a)", "np.bool_(a)", "math.sin(a)", "math.cos(a)", "math.sinh(a)",
    "math.cosh(a)", "math.tanh(a)", "math.acos(a)", "math.atan(a)", "math.asinh(a)",
    "math.acosh(a)", "math.atanh(a)", "math.fabs(a)", "math.erfc(a)", "math.degrees(a)",
    "math.radians(a)", "math.isinf(a)", "math.isfinite(a)", "math.ldexp(float(a), 3)",
    "math.frexp(a)[0]", "math.frexp(a)[1]", "math.modf(a)[0]", "math.modf(a)[1]",
    "math.remainder(a, b)", "cuda.cbrt(a)", "cuda.fma(a, b, a)", "cuda.selp(a > b, a, b)",
    "int(a) + b", "np.int8(a) + np.int8(b)", "np.uint8(a) * np.uint8(b)", "np.int32(a) >> b",
    "np.uint32(a) << np.uint32(b)", "np.float32(a) * b", "np.float32(a) // np.float32(b)",
    "abs(complex(a, b))", "(complex(a, b) * complex(b, a)).imag", "(complex(a, b) / 3).real",
    "out[i] = b; out[i] += a", "out[i] = b; out[i] -= a", "out[i] = b; out[i] *= a",
    "out[i] = b; out[i] //= a", "out[i] = b; out[i] /= a", "out[i] = b; out[i] %= a",
    "out[i] = b; out[i] **= a", "out[i] = b; out[i] >>= a", "out[i] = b; out[i] <<= a",
    "out[i] = b; out[i] &= a", "out[i] = b; out[i] |= a", "out[i] = b; out[i] ^= a",
    "cuda.atomic.add(out, i, a)", "cuda.atomic.sub(out, i, a)", "cuda.atomic.max(out, i, a)",
    "cuda.atomic.min(out, i, a)", "cuda.atomic.exch(out, i, a)", "cuda.atomic.and_(out, i, a)",
    "cuda.atomic.or_(out, i, a)", "cuda.atomic.xor(out, i, a)", "cuda.atomic.inc(out, i, a)",
    "cuda.atomic.dec(out, i, a)", "cuda.atomic.cas(out, i, 0, a)", "cuda.atomic.nanmax(out, i, a)",
)  # fmt: skip
VALUES = {
    "int64": [0, 1, -1, 7, -7, 63, 64, 65, 2**31, -(2**63), 2**63 - 1],
    "int32": [0, 1, -3, 31, 32, 33, 2**31 - 1, -(2**31)],
    "uint8": [0, 1, 200, 255],
    "int8": [0, 1, -1, 127, -128],
    "uint16": [0, 3, 65535],
    "uint32": [0, 5, 2**32 - 1],
    "uint64": [0, 3, 2**64 - 1],
    "float32": [0.0, -0.0, 1.5, -2.5, 300.7, 1e10, np.inf, -np.inf, np.nan, 3e38],
    "float64": [0.0, -0.0, 0.5, -1.5, 2.5, 300.7, -70000.0, 1e19, 1e300, np.inf, np.nan],
    "bool": [False, True],
}
PAIRS = (
    ("int64", "int64"), ("int32", "int32"), ("int32", "int64"), ("uint8", "uint8"),
    ("uint8", "int64"), ("int8", "int8"), ("uint16", "int32"), ("uint32", "int32"),
    ("uint64", "int64"), ("uint64", "uint64"), ("float32", "float32"), ("float32", "int64"),
    ("float64", "float64"), ("float64", "int32"), ("bool", "bool"), ("int64", "float64"),
)  # fmt: skip
THREADS = 128
#: Largest relative error: libraries' functions differ in the last bits.
TOLERANCE = 2e-6


def listed() -> Iterator[str]:
    """All operators and functions on all pairs of types; a store of each type in each type."""
    for statement in LISTED:
        for pair in PAIRS:
            for out in ("float64", "int64"):
                yield "|".join((statement, *pair, out))
    for stored in VALUES:
        for out in VALUES:
            yield "|".join(("a", stored, stored, out))


def drawn(seed: int, count: int) -> Iterator[str]:
    """Statements on any two types, whose value is stored in any third type."""
    random = np.random.default_rng([seed, count])
    types = tuple(VALUES)
    for _ in range(count):
        statement = str(random.choice(FURTHER if random.random() < 0.75 else LISTED))
        first = str(random.choice(types))
        second = first if random.random() < 0.4 else str(random.choice(types))
        yield "|".join((statement, first, second, str(random.choice(types))))


def values(first: str, second: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values and a few drawn ones of two types."""
    random = np.random.default_rng(seed)

    def some(name: str) -> list[Any]:
        if name == "bool":
            return VALUES[name]
        if name.startswith("float"):
            more = random.normal(0, [1, 100, 1e5]).astype(name)
            return [*VALUES[name], *map(float, more)]
        limits = np.iinfo(name)
        more = random.integers(limits.min, limits.max, 3, dtype=name, endpoint=True)
        return [*VALUES[name], *map(int, more)]

    pairs = list(itertools.product(some(first), some(second)))
    return np.array([a for a, _ in pairs], first), np.array([b for _, b in pairs], second)


def result(cuda: Any, name: str, seed: int) -> np.ndarray:
    """The result of one case with `cuda`, which is numba.cuda or the simulator."""
    statement, first, second, out_type = name.rsplit("|", 3)
    x, y = values(first, second, seed)
    stores = "out[" in statement or "(out" in statement
    lines = [
        "def kernel(x, y, out):",
        "    i = cuda.grid(1)",
        "    if i < out.size:",
        "        a = x[i]",
        "        b = y[i]",
        f"        {statement if stores else f'out[i] = {statement}'}",
    ]
    source, file = "\n".join(lines) + "\n", f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"math": math, "np": np, "cuda": cuda}
    exec(compile(source, file, "exec"), space)
    out = np.zeros(len(x), out_type)
    try:
        cuda.jit(space["kernel"])[-(-len(x) // THREADS), THREADS](x, y, out)
        cuda.synchronize()
    except Exception as error:
        return np.array(f"refused: {type(error).__name__}")
    return out


def _recorded(part: tuple[list[str], int, float]) -> dict[str, np.ndarray]:
    from numba import cuda

    names, seed, until = part
    warnings.simplefilter("ignore")
    found = {}
    for name in names:
        if time.monotonic() > until:
            break
        found[name] = result(cuda, name, seed)
    return found


def record(path: Path, seed: int, count: int, processes: int, seconds: float) -> None:
    """Write this machine's results; cases for which there is no time left are left out."""
    names = list(dict.fromkeys([*listed(), *drawn(seed, count)]))
    gpu = backend.gpu()
    if gpu is None:
        raise SystemExit("record needs a GPU that numba.cuda can use; compare needs none")
    command = (
        f"python -m course_recording.profiling.operations record --seed {seed} --drawn {count}"
    )
    about = {"seed": seed, "drawn": count, **recorded.header(gpu, None, command)}
    until = time.monotonic() + seconds
    parts = [(names[start::processes], seed, until) for start in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        found = {name: each for part in pool.map(_recorded, parts) for name, each in part.items()}
    write_whole(path, packed(found, about))
    refused = sum(each.ndim == 0 for each in found.values())
    print(f"{path}: {len(found):,} of {len(names):,} cases on {gpu}, {refused:,} refused")


def packed(found: dict[str, np.ndarray], about: dict[str, Any]) -> bytes:
    """A file of cases: their names, and for each type of out the results one after the other."""
    results: dict[str, list[np.ndarray]] = {}
    for name, each in found.items():
        results.setdefault("refused" if not each.ndim else name.rpartition("|")[2], []).append(each)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        about=np.array(json.dumps(about)),
        names=np.array(list(found)),
        sizes=np.array([each.size if each.ndim else 0 for each in found.values()]),
        **{f"of_{key}": np.hstack(each) for key, each in results.items()},
    )
    return content.getvalue()


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The cases of a file, and the facts on which they depend: seed, GPU, versions."""
    with np.load(path, allow_pickle=False) as file:
        results = {key: file[key] for key in file.files}
    begins: Counter = Counter()
    found = {}
    for name, size in zip(results["names"].tolist(), results["sizes"].tolist()):
        key = name.rpartition("|")[2] if size else "refused"
        part = results[f"of_{key}"][begins[key] : begins[key] + max(1, size)]
        begins[key] += max(1, size)
        found[name] = part if size else part[0]
    return found, json.loads(str(results["about"]))


def compare(path: Path, part: int = 1) -> tuple[Counter, list[str]]:
    """Compare every ``part``-th case of a file with the simulator, and count the outcomes.

    Returns
    -------
    Counter
        Cases that are the same, near (relative error of at most 2e-6), different, refused by the
        compiler only, refused by the simulator only.
    list of str
        A line for each case that is neither the same nor near.
    """
    from warpsim import cuda

    counts: Counter = Counter()
    lines = []
    cases, about = read(path)
    seed = about["seed"]
    for name, expected in itertools.islice(cases.items(), 0, None, part):
        found = result(cuda, name, seed)
        outcome = judged(expected, found)
        counts[outcome] += 1
        if outcome == "different":
            _, first, second, _ = name.rsplit("|", 3)
            x, y = values(first, second, seed)
            at = int(np.flatnonzero(~_close(expected, found))[0])
            lines.append(f"{name}: a = {x[at]}, b = {y[at]}: GPU {expected[at]}, here {found[at]}")
        elif outcome not in ("same", "near"):
            lines.append(f"{name}: {outcome}: {expected if found.ndim else found}")
    return counts, lines


def judged(expected: np.ndarray, found: np.ndarray) -> str:
    """The outcome of comparing the simulator's result of a case with the GPU's."""
    if not expected.ndim or not found.ndim:
        if expected.ndim == found.ndim:
            return "same"
        return "refused here only" if expected.ndim else "refused by the compiler only"
    if np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f"):
        return "same"
    return "near" if _close(expected, found).all() else "different"


def _close(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    if expected.dtype.kind != "f":
        return expected == found
    return np.isclose(expected, found, rtol=TOLERANCE, atol=0, equal_nan=True)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_record = commands.add_parser("record", help="write what this machine's GPU computes")
    of_record.add_argument("file", type=Path)
    of_record.add_argument("--seed", type=int, default=1)
    of_record.add_argument("--drawn", type=int, default=1500, help="cases beside the listed ones")
    of_record.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    of_record.add_argument("--seconds", type=float, default=240, help="time for all cases")
    of_compare = commands.add_parser("compare", help="hold the simulator to a file")
    of_compare.add_argument("file", type=Path)
    of_compare.add_argument("--list", type=int, default=40, help="the most lines that are shown")
    options = parser.parse_args(arguments)
    if options.command == "record":
        record(options.file, options.seed, options.drawn, options.processes, options.seconds)
        return 0
    warnings.simplefilter("ignore")
    counts, lines = compare(options.file)
    print(", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common()))
    print("\n".join(lines[: options.list]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
