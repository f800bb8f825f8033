"""How fast the simulator is, beside Numba's own and as it was, on the machine in front of you.

Usage: python -m tools.simulator.bench [--quick | --against COMMIT [NAME ...] | --growth [--write]]

Without an option: usual launches with a bound for each, and Numba's simulator, which runs in a
process of its own, as it replaces ``numba.cuda``; medians after a first run, which translates the
kernel. ``--against`` times the same launches with the simulator of another commit, two processes
alternately, and gives ratios. ``--growth`` measures how the time grows with threads, with
statements that run and with lines of source; ``--write`` keeps that in data/measurements, from
where the table in warpsim/README.md is taken. Ratios and growth are in process time, so that other
programs on the machine matter less. None of it says anything about a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from course.files import table_text, write_whole
from tools.simulator import kernels
from tools.simulator.kernels import Case, add, layer_norm, naive, of_lines, product, tiled

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data/measurements"
COLUMNS = "curve", "variant", "threads", "statements", "lines", "unit", "median", "q1", "q3", "n"
ROUNDS = 11
PASSES = 50  # of naive's loop where threads grow
SIDES = 16, 32, 64, 128, 256, 512, 1024  # of its image
STATEMENTS = 1, 3, 10, 30, 100, 300, 1000  # passes, where they grow
LINES = 10, 30, 100, 300, 1000
IDLE = 2**21, 2**26, 2**31  # threads, of which so many have work:
AT_WORK = 2**20
WAYS = "plain", "traced"
FIRST = "first launch"  # of a process


# ---------------------------------------------------------------------- usual launches, bounds
def seconds(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """First call and median of the others."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[0], statistics.median(times[1:])


def numba_seconds(size: int, k: int) -> float:
    """The naive kernel in Numba's simulator, in a process of its own."""
    command = [sys.executable, "-m", "tools.simulator.bench", "--numba", str(size), str(k)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    found = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, cwd=ROOT
    )
    return float(found.stdout)


def host() -> str:
    """The machine and what runs on it."""
    return (
        f"{cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )


def cpu() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"model name\s*: (.+)", text)
    return found[1].strip() if found else platform.processor() or platform.machine()


def usual(quick: bool) -> int:
    """Measure and print; the exit status says whether all bounds were kept."""
    rng = np.random.default_rng(1)
    x, y, out = (rng.random(256, dtype=np.float32) for _ in range(3))
    inputs = rng.random((256, 768), dtype=np.float32)
    norm = Case(layer_norm, 256, 32, lambda: (inputs, np.zeros_like(inputs)))
    rows: list[tuple[str, Callable[[], object], float, int]] = [
        ("add, 256 elements", Case(add, 1, 256, lambda: (x, y, out)).plain(), 200e-6, 200),
        ("naive 64x64, k = 50", product(naive, 64, 50).plain(), 0.02, 20),
        ("naive 256x256, k = 50", product(naive, 256, 50).plain(), 0.03, 10),
        ("naive 256x256, k = 50, traced", product(naive, 256, 50).traced(), 0.05, 5),
        ("tiled 256x256, k = 64", product(tiled, 256, 64).plain(), 0.05, 5),
        ("tiled 256x256, k = 64, traced", product(tiled, 256, 64).traced(), 0.1, 5),
        ("LayerNorm by shuffles, 256x768", norm.plain(), 0.02, 5),
        ("naive 2048x2048, k = 10", product(naive, 2048, 10).plain(), 1.0, 2),
        ("naive 2048x2048, k = 10, traced", product(naive, 2048, 10).traced(), 2.0, 1),
        ("naive 1024x1024, k = 64", product(naive, 1024, 64).plain(), 1.5, 1 if quick else 3),
    ]
    print(host())
    print(f"{'':34}{'first':>12}{'median':>12}{'bound':>12}")
    kept = True
    medians = {}
    for name, run, bound, repeats in rows:
        first, median = seconds(run, repeats)
        medians[name] = median
        kept &= median <= bound
        mark = "" if median <= bound else "  over the bound"
        print(f"{name:34}{first * 1e3:10.2f}ms{median * 1e3:10.3f}ms{bound * 1e3:10.2f}ms{mark}")
    theirs = numba_seconds(64, 50)
    ratio = theirs / medians["naive 64x64, k = 50"]
    kept &= ratio >= 300
    print(
        f"Numba's simulator, naive 64x64, k = 50: {theirs * 1e3:.0f} ms, {ratio:.0f} times as long"
    )
    return 0 if kept else 1


# ---------------------------------------------------------------------- process time
def process_times(run: Callable[[], object], samples: int) -> list[float]:
    """Process time of a call, in ms, so often, after one that is not counted; 20 ms at least."""
    run()
    start = time.process_time()
    run()
    repeats = max(1, min(100, int(0.02 / max(time.process_time() - start, 1e-5))))
    return [of_calls(run, repeats) for _ in range(samples)]


def of_calls(run: Callable[[], object], repeats: int) -> float:
    """Process time of one of so many calls, in ms."""
    start = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - start) / repeats * 1e3


def spread(times: list[float]) -> tuple[float, float, float]:
    """Median and quartiles."""
    q1, _, q3 = statistics.quantiles(times, n=4, method="inclusive")
    return statistics.median(times), q1, q3


# ---------------------------------------------------------------------- against another commit
def launches() -> dict[str, Callable[[], Callable[[], object]]]:
    """Launches that are compared, by name: what makes each."""
    cases = {"naive": product(naive, 256, 50), "tiled": product(tiled, 256, 64)}
    cases |= kernels.of_users()
    return {f"{name}, {how}": getattr(case, how) for name, case in cases.items() for how in WAYS}


def work() -> None:
    """Be one of two processes: time what the other end of the pipe asks for."""
    made = {}
    for line in sys.stdin:
        name, repeats = line.strip().rsplit(":", 1)
        if name not in made:
            made[name] = launches()[name]()
        print(of_calls(made[name], int(repeats)), flush=True)


def first_launch() -> None:
    """The first launch of a process, of a kernel of ten lines."""
    kernel, x = kernels.cuda.jit(of_lines(7)), np.ones(256, np.float32)
    print(of_calls(lambda: kernel[1, 256](x, x), 1))


def started(tree: Path, mode: str) -> subprocess.Popen:
    """This file in a process whose simulator is that of another folder."""
    path = os.pathsep.join((str(tree), str(ROOT)))
    return subprocess.Popen(
        [sys.executable, __file__, mode], cwd=tree, env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def against(commit: str, rounds: int, only: list[str]) -> int:
    """Print, for each launch, the times of another commit's simulator, of this one, and ratios."""
    wanted = [n for n in (*launches(), FIRST) if not only or any(part in n for part in only)]
    command = ["git", "-C", str(ROOT), "archive", commit, "warpsim"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        trees = Path(folder), ROOT
        print(f"{host()}; process time, medians (quartiles) of {rounds} rounds")
        print(f"{'':24}{commit[:12]:>24} ms{'here':>24} ms   ratio")

        def ask(worker: subprocess.Popen, name: str, repeats: int) -> float:
            print(f"{name}:{repeats}", file=worker.stdin, flush=True)
            return float(worker.stdout.readline())

        def first(tree: Path) -> float:
            return float(started(tree, "--first").communicate()[0])

        workers = [started(tree, "--work") for tree in trees]
        try:
            for name in wanted:
                if name == FIRST:
                    compare(name, [lambda tree=tree: first(tree) for tree in trees], rounds)
                    continue
                ones = [[ask(worker, name, 1) for _ in range(3)][-1] for worker in workers]
                repeats = max(1, min(50, int(50 / max(ones))))
                compare(
                    name, [lambda w=w, n=name, r=repeats: ask(w, n, r) for w in workers], rounds
                )
        finally:
            for worker in workers:
                worker.stdin.close()
                worker.wait()
    return 0


def compare(name: str, ways: list[Callable[[], float]], rounds: int) -> None:
    """Take both in rounds, each first as often as second, and print a line."""
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append(ways[which]())
    (then, *of_then), (now, *of_now) = map(spread, times)
    shown = ("{:.2f} ({:.2f}-{:.2f})".format(*all_) for all_ in ((then, *of_then), (now, *of_now)))
    print("{:24}{:>27}{:>27}{:8.2f}".format(name, *shown, now / then), flush=True)


# ---------------------------------------------------------------------- growth
def growth(samples: int, sides=SIDES, statements=STATEMENTS, lines=LINES, idle=IDLE) -> Iterator:
    """Rows of the file: how the time of a launch grows, that of a first one, and some kernels'."""

    def both(curve: str, case: Case, count: int, *numbers: int | str) -> Iterator[tuple]:
        for how in WAYS:
            times = process_times(getattr(case, how)(), count)
            yield curve, how, *numbers, "ms", *spread(times), count

    for side in sides:
        yield from both("threads", product(naive, side, PASSES), samples, side * side, PASSES, "")
    for count in statements:
        yield from both("statements", product(naive, 256, count), samples, 65_536, count, "")
    x = np.ones(32, np.float32)
    for count in lines:
        for how in WAYS:
            cases = [
                Case(kernels.cuda.jit(of_lines(count)), 1, 32, lambda: (x, x))
                for _ in range(samples + 1)
            ]
            times = [of_calls(getattr(case, how)(), 1) for case in cases]
            yield "lines", how, 32, "", count, "ms", *spread(times[1:]), samples
    y = np.ones(AT_WORK, np.float32)
    for threads in idle:
        case = Case(add, threads // 256, 256, lambda: (y, y, np.empty_like(y)))
        yield from both("idle", case, min(samples, 3), threads, "", "")
    for name, case in kernels.of_users().items():
        threads = int(np.prod(case.grid) * np.prod(case.block))
        yield from both(name, case, samples, threads, "", "")


def file_name() -> str:
    """Name of the file of this machine's figures."""
    words = re.sub(r"[^a-z0-9]+", " ", cpu().lower()).split()
    return "".join(words[:3]) + "-simulator.csv"


def write(rows: list[tuple]) -> Path:
    """Keep the rows in data/measurements."""
    from importlib.metadata import version

    header = {
        "host": f"{cpu()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "numba-cuda")},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "times": "process time of a launch; of a first launch where lines of source grow",
        "command": "python -m tools.simulator.bench --growth --write",
    }
    shown = [[f"{v:.5g}" if isinstance(v, float) else v for v in row] for row in rows]
    path = FOLDER / file_name()
    write_whole(path, table_text(path.name, header, COLUMNS, shown, ValueError))
    return path


def growth_table(rows: list[dict[str, str]]) -> list[str]:
    """The rows as a table: what grows, and the time of a launch, plain and traced."""
    out = ["| what grows | how many | plain, ms | traced, ms |", "|---|---:|---:|---:|"]
    titles = {
        "threads": f"threads, {PASSES} statements each",
        "statements": "statements of each of 65,536 threads",
        "lines": "lines of source, first launch",
        "idle": f"threads, of which {AT_WORK:,} add two numbers",
    }
    of = {(row["curve"], row["variant"], row[number_of(row)]): row["median"] for row in rows}
    last = ""
    for curve, how, number in of:
        if how == "traced":
            continue
        ms = [float(of[curve, way, number]) for way in WAYS]
        times = [f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in ms]
        title = titles.get(curve, f"threads: {curve}") if curve != last else ""
        out.append("| {} | {:,} | {} | {} |".format(title, int(number), *times))
        last = curve
    return out


def number_of(row: dict[str, str]) -> str:
    """The column of what grows along a row's curve."""
    return row["curve"] if row["curve"] in row else "threads"


def growth_sentences(rows: list[dict[str, str]]) -> list[str]:
    """What the ends of the curves say: constants, and the price of a million lane-statements."""
    out = []
    for how in WAYS:
        its = [row for row in rows if row["variant"] == how]
        times = {(row["curve"], int(row[number_of(row)])): float(row["median"]) for row in its}
        threads = sorted(number for curve, number in times if curve == "threads")
        few, many = (times["threads", number] / PASSES for number in (threads[0], threads[-1]))
        lines = max(number for curve, number in times if curve == "lines")
        out.append(
            f"- {how}: {few * 1e3:.2g} µs for a statement of {threads[0]} threads, "
            f"{many / threads[-1] * 1e6:.2g} ms for one of a million; "
            f"{times['lines', lines] / lines:.2g} ms for a line of source, once"
        )
    return out


def grow(keep: bool) -> int:
    """Measure the growth, print it, and keep it if wanted."""
    print(host())
    rows = list(growth(ROUNDS))
    given = [dict(zip(COLUMNS, map(str, row), strict=True)) for row in rows]
    print("\n".join([*growth_table(given), "", *growth_sentences(given)]))
    if keep:
        print(f"kept in {write(rows).relative_to(ROOT)}; take the table into warpsim/README.md")
    return 0


def main(arguments: list[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of the largest case")
    parser.add_argument("--against", metavar="COMMIT", help="ratios to another commit's simulator")
    parser.add_argument("names", nargs="*", help="parts of the names of launches to compare")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each process (default: 11)")
    parser.add_argument("--growth", action="store_true", help="how the time grows")
    parser.add_argument("--write", action="store_true", help="keep the growth")
    given = parser.parse_args(arguments)
    if given.against:
        return against(given.against, given.rounds, given.names)
    return grow(given.write) if given.growth else usual(given.quick)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of small launches and of arrays that are copied
    if "--numba" in sys.argv:
        print(seconds(product(naive, int(sys.argv[-2]), int(sys.argv[-1])).plain(), 1)[1])
    elif "--work" in sys.argv:
        work()
    elif "--first" in sys.argv:
        first_launch()
    else:
        sys.exit(main(sys.argv[1:]))
