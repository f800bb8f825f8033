"""Kill the pipeline at random moments, go on with --resume, compare with an undisturbed run.

    python -m tools.kill_test                 20 moments, 400 images
    python -m tools.kill_test --kills 3 --images 40 --seed 7

An undisturbed run of ``python -m course reconstruct`` comes first; its results are the measure.
Then for each moment a run is begun in an empty folder, killed with SIGKILL after a random part of
the time that the undisturbed one took from its journal's first line to its results, begun again
with --resume, in every third case killed once more, and then left to end. Every file, byte for
byte, must be that of the undisturbed run, no other may be there, and of the images that were
entered as done none may be rebuilt again.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from course import __version__
from course_app.pipeline import png
from course_app.pipeline.capacity import cores
from course_app.pipeline.journal import FILE, PREFIX
from course_app.pipeline.quality import scan_lines
from course_app.pipeline.results import REPORT_FILE

ROOT = Path(__file__).resolve().parents[1]
SIDE = 128  # pixels: of 400 images that is work enough for several processes


@dataclass(frozen=True)
class Trial:
    """One run that was killed, and what came of it.

    Attributes
    ----------
    moments : list of float
        Seconds from the journal's first line until it was killed, for each time that it was.
    done : list of int
        Images that were done at each of those moments.
    ended : bool
        Whether the last of those runs had written all results by then.
    repeated : int
        Images that were done and were rebuilt all the same: must be 0.
    wrong : list of str
        Files that are missing, too many or different: must be empty.
    """

    moments: list[float]
    done: list[int]
    ended: bool
    repeated: int
    wrong: list[str]

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.repeated

    def __str__(self) -> str:
        times = ", ".join(f"{moment:.2f} s" for moment in self.moments)
        done = ", ".join(map(str, self.done)) + ", all in place" * self.ended
        problems = [f"{self.repeated} rebuilt again"] * bool(self.repeated) + self.wrong[:5]
        return f"killed after {times}; images done: {done}; " + (
            "; ".join(problems) or "same bytes"
        )


def make_images(folder: Path, count: int, seed: int) -> None:
    """Write PNG files of random waves, every tenth of them broken."""
    rng = np.random.default_rng(seed)
    down, across = np.mgrid[0 : 1 : SIDE * 1j, 0 : 1 : SIDE * 1j]
    for number in range(count):
        a, b, c, d = rng.uniform(1, 12, 4)
        picture = np.sin(a * down + b * across**2) * np.cos(c * across * down + d) / 2 + 0.5
        content = png.file_of(scan_lines(picture.astype(np.float32)))
        (folder / f"wave{number:04}.png").write_bytes(content[: 60 if number % 10 == 7 else None])


def command(folder: Path, out: Path, *more: str) -> list[str]:
    """The command that is killed."""
    words = ["reconstruct", str(folder), "--k", "5", "20", "--size", str(SIDE), "--out", str(out)]
    return [sys.executable, "-m", "course", *words, "--engine", "numpy", *more]


def environment() -> dict[str, str]:
    """The environment of the command: this course, whatever the current folder."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path}


def digests(out: Path) -> dict[str, str]:
    """The content of every file below a folder, hidden ones included, by name."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file()
    }


def started(folder: Path, out: Path, *more: str) -> subprocess.Popen:
    """The command, at work: its journal is there, or it has ended."""
    process = subprocess.Popen(
        command(folder, out, *more), env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in out.glob(f"{PREFIX}*/{FILE}")}
    while process.poll() is None:
        there = out.glob(f"{PREFIX}*/{FILE}")
        with suppress(FileNotFoundError):
            if any(path.stat().st_mtime_ns != before.get(path) for path in there):
                break
        time.sleep(0.002)
    return process


def undisturbed(folder: Path, out: Path) -> float:
    """Run to the end; the seconds from the journal's first line until the results are there."""
    process, start = started(folder, out), time.monotonic()
    while process.poll() is None and not (out / REPORT_FILE).is_file():
        time.sleep(0.002)
    seconds = time.monotonic() - start
    if process.wait():
        raise RuntimeError(f"the undisturbed run ended with status {process.returncode}")
    return seconds


def entered(out: Path) -> dict[str, int]:
    """The files of the images that are done, as the journal or the report says: times of change."""
    found: dict[str, int] = {}
    if (out / REPORT_FILE).is_file():
        found = {path.name: path.stat().st_mtime_ns for path in out.glob("*_k*.png")}
    for journal in out.glob(f"{PREFIX}*/{FILE}"):
        lines = journal.read_bytes().split(b"\n")[:-1]
        names = [Path(path).stem for path, *_ in json.loads(lines[0])["files"]] if lines else []
        for image, _, _, reason, *_ in (
            line for line in map(json.loads, lines[1:]) if line != "moving"
        ):
            for k in (5, 20) if reason is None else ():
                name = f"{names[image]}_k{k}.png"
                for place in (journal.parent / name, out / name):
                    if place.is_file():
                        found[name] = place.stat().st_mtime_ns
    return found


def trial(
    folder: Path, out: Path, expected: dict[str, str], moments: list[float], resume_first: bool
) -> Trial:
    """Kill at each of the moments, then run to the end; compare."""
    done, before = [], {}
    for start, moment in enumerate(moments):
        more = ["--resume"] if start or resume_first else []
        process = started(folder, out, *more)
        time.sleep(moment)
        process.kill()
        process.wait()
        before |= entered(out)
        done.append(len(before) // 2)
    ended = (out / REPORT_FILE).is_file()
    last = subprocess.run(
        command(folder, out, "--resume"), env=environment(), capture_output=True, text=True
    )
    found = digests(out)
    wrong = [f"status {last.returncode}: {last.stderr}"] if last.returncode else []
    wrong += [f"{name} missing" for name in sorted(expected.keys() - found.keys())]
    wrong += [f"{name} too many" for name in sorted(found.keys() - expected.keys())]
    wrong += [f"{name} differs" for name in sorted(found) if found[name] != expected.get(name)]
    wrong += [f"{path.name} left" for path in out.glob(f"{PREFIX}*")]
    repeated = [n for n, t in before.items() if (out / n).stat().st_mtime_ns != t]
    return Trial(moments, done, ended, len({name.rpartition("_")[0] for name in repeated}), wrong)


def kill_test(kills: int, images: int, seed: int, say=print) -> list[Trial]:
    """Run all trials; see the module's text."""
    chance = random.Random(seed)
    trials = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "images")
        folder.mkdir()
        make_images(folder, images, seed)
        seconds = undisturbed(folder, Path(place, "whole"))
        expected = digests(Path(place, "whole"))
        say(
            f"{images} images, {len(expected)} files, seed {seed}; undisturbed {seconds:.2f} s, "
            "from the journal to the report"
        )
        for number in range(kills):
            moments = [chance.uniform(0, 1) * seconds]
            if number % 3 == 2:
                moments.append(chance.uniform(0, 0.8) * seconds)
            out = Path(place, f"killed{number}")
            its = trial(folder, out, expected, moments, resume_first=number % 2 == 0)
            trials.append(its)
            say(f"{number + 1:>3}  {its}")
    return trials


def main() -> int:
    """Run the command line; status 1 where a trial failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2025)
    given = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    print(
        f"python -m tools.kill_test, {today}, course {__version__}, {cores()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    trials = kill_test(given.kills, given.images, given.seed)
    failed = sum(not its.passed for its in trials)
    print(f"{len(trials) - failed} of {len(trials)} ended as the undisturbed run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
