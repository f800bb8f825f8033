"""The command line: python -m course doctor | reconstruct | bench."""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

SILENCE = 2.0  # seconds after Ctrl-C until the user is told what is waited for
TOGETHER = 0.5  # seconds within which one Ctrl-C and the next are one wish
USAGE_ERROR = 2
INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended

RECONSTRUCT_HELP = """\
Rebuild images from their k largest singular values, and tell how good and how small they are.

The folder DIR receives
  NAME_kK.png   each reconstruction
  grid.png      originals and reconstructions side by side
  quality.csv   PSNR, SSIM, mean squared error and compression of each
  report.json   what was asked for, and which files were set aside, with the reason
Compression is how many times fewer numbers the k singular values and vectors have than the image.
Colours become grey. Files that cannot be read are named and left out.

Decoding, SVD, reconstruction and writing go on at the same time, for any number of images: only a
few are in memory. An error or Ctrl-C leaves nothing behind. With --resume it leaves what is done,
and the same command goes on with it; so it does after the process was killed, --resume or not. The
results are those of a run that nothing disturbed. Where images came, went or changed since (by
size or time of change), those that are the same are kept, new and changed ones are done, and those
that are gone are left out. Other options, such as another --k, are refused.
"""
BENCH_HELP = """\
Check and time the course's kernels on the GPU in this machine, beside CuPy and PyTorch.

Each SUBJECT becomes a file GPU-SUBJECT.csv, written as soon as the subject is done; activation,
cluster, cnn, norm and reduce have charts beside it, as PNG. Only right results are timed: compared
with float64, on random inputs. Figures above the GPU's measured roofs are refused. Without a GPU
nothing is timed: what is recorded is shown.
"""
RECONSTRUCT_EXAMPLES = """\
examples:
  python -m course reconstruct data/images --k 50 --out results
  python -m course reconstruct holiday.jpg scans/ --k 5 20 80 --size 512 --fit crop --out results
  python -m course reconstruct archive/ --k 50 --out results --resume
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str):
        """Print the message and end with status 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: error: {message} (--help shows what is possible)\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(prog="python -m course", description="Tools of the GPU course.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    doctor = commands.add_parser(
        "doctor",
        help="what works on this machine, what does not, and what to do about it",
        description="Report versions, driver and GPUs: what works, what does not, what to do.",
    )
    doctor.set_defaults(run=run_doctor)

    reconstruct = commands.add_parser(
        "reconstruct",
        help="rebuild images from their singular value decomposition",
        usage="%(prog)s IMAGES [IMAGES ...] --k K [K ...] --out DIR [options]",
        description=RECONSTRUCT_HELP,
        epilog=RECONSTRUCT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reconstruct.set_defaults(run=run_reconstruct)
    reconstruct.add_argument(
        "images",
        metavar="IMAGES",
        nargs="+",
        type=Path,
        help="JPEG, PNG or TIFF files, or folders that hold some (not in subfolders)",
    )
    reconstruct.add_argument(
        "--k",
        metavar="K",
        nargs="+",
        action="extend",
        required=True,
        type=whole_number,
        help="how many singular values to keep; one or several numbers",
    )
    reconstruct.add_argument(
        "--out", metavar="DIR", required=True, type=folder, help="folder for the results"
    )
    reconstruct.add_argument(
        "--size",
        metavar="N or ROWSxCOLUMNS",
        default=(256, 256),
        type=image_size,
        help="size in pixels that the images are brought to (256x256)",
    )
    reconstruct.add_argument(
        "--fit",
        choices=("stretch", "crop"),
        default="stretch",
        help="show the whole image, stretched to the size (stretch, the usual), or cut out its "
        "middle in the right proportions (crop)",
    )
    reconstruct.add_argument(
        "--engine",
        choices=("auto", "gpu", "simulator", "numpy"),
        default="auto",
        help="what computes: the GPU, the course's simulator of a GPU, or NumPy; auto, the usual, "
        "is the GPU where there is one, else NumPy",
    )
    reconstruct.add_argument(
        "--svd",
        choices=("cpu", "gpu", "auto"),
        default="cpu",
        help="what factorises: the CPU, the usual, in float64; the GPU, in float32; auto is the "
        "GPU where there is one",
    )
    reconstruct.add_argument(
        "--resume",
        action="store_true",
        help="go on with the unfinished run in DIR, begun with the same options, and keep what it "
        "has of images that are the same; where there is none, begin. Progress is kept when the "
        "run is stopped, and images with NaN are set aside, where otherwise they end the run",
    )
    reconstruct.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        help="threads that decode, factorise and write (one for each core)",
    )
    reconstruct.add_argument(
        "--batch",
        metavar="N",
        type=positive,
        help="images that the GPU rebuilds together at most (32, fewer large ones)",
    )

    reconstruct.add_argument(
        "--gpus",
        metavar="N",
        type=positive,
        help="share the images among so many GPUs, a process each (needs the extra cluster); the "
        "results are the same. It pays where one GPU, not the CPU, is what the others wait for",
    )

    bench = commands.add_parser(
        "bench",
        help="time the course's kernels on your GPU; without one show what is recorded",
        description=BENCH_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bench.set_defaults(run=run_bench, stopped="files that were written before are whole")
    bench.add_argument(
        "subjects", metavar="SUBJECT", nargs="*", help="what to measure; without it everything"
    )
    bench.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder for the files (COURSE_MEASUREMENTS, else ~/.course/measurements)",
    )
    bench.add_argument("--list", action="store_true", help="say which subjects there are, and end")
    return parser


def folder(text: str) -> Path:
    """Return the folder of an --out; an empty name, of a variable that is not set, is none."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text)


def whole_number(text: str) -> int:
    """Return the number of a --k; argparse shows the error's text."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number; images come before --k, as in: photos --k 10 50"
        ) from None


def positive(text: str) -> int:
    """Return a number of at least 1; argparse shows the error's text."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def image_size(text: str) -> tuple[int, int]:
    """Return (rows, columns) from "256" or "480x640"; argparse shows the error's text."""
    parts = text.lower().split("x")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size; give a number such as 256, or rows and columns such as 480x640"
        )
    return numbers[0], numbers[-1]


def run_doctor(arguments: argparse.Namespace) -> None:
    """Print what the doctor finds."""
    from course.diagnosis.report import doctor

    print(doctor())


def run_reconstruct(arguments: argparse.Namespace) -> None:
    """Rebuild the images, print a summary."""
    from tqdm import tqdm

    from course.images.reading import printable
    from course.pipeline.journal import is_at_work, unfinished
    from course.pipeline.pipeline import reconstruct_images

    if arguments.engine != "numpy" or arguments.svd != "cpu":
        from course import backend

        backend.gpu()  # the slow imports, while Ctrl-C ends at once

    bar = None

    def progress(files: list[Path]) -> Iterable[Path]:
        nonlocal bar
        # disable=None: no bar where standard error is a file or a pipe
        bar = tqdm(files, unit="image", file=sys.stderr, disable=None, leave=False)
        return bar

    left = [] if arguments.resume else unfinished(arguments.out)
    if left and not any(map(is_at_work, left)):
        print(
            f"an unfinished run lies in {str(arguments.out)!r}: --resume goes on with it; this run "
            "begins again, and removes it at its end",
            file=sys.stderr,
        )
    with stoppable(), workers_for(arguments) as group:
        try:
            report = reconstruct_images(
                arguments.images,
                arguments.k,
                arguments.out,
                size=arguments.size,
                fit=arguments.fit,
                engine=arguments.engine,
                progress=progress,
                resume=arguments.resume,
                workers=arguments.workers,
                batch=arguments.batch,
                tell=lambda words: print(words, file=sys.stderr, flush=True),
                group=group,
                svd=arguments.svd,
            )
        finally:
            if bar is not None:
                bar.close()

    arguments.stopped = f"all results are in {str(report.out)!r}"
    for file, reason in report.skipped:
        print(f"skipped {printable(file)!r}: {reason}", file=sys.stderr)
    ranks = sorted({quality.k for quality in report.qualities})
    count = len({quality.name for quality in report.qualities})
    before = f", {report.kept} of the files in an earlier run" if report.kept else ""
    print(f"{count} image{'' if count == 1 else 's'} rebuilt by {report.engine}{before}")
    print(f"{'k':>6}  {'PSNR [dB]':>9}  {'SSIM':>6}  compression" + (count > 1) * "   (means)")
    for k in ranks:
        lines = [quality for quality in report.qualities if quality.k == k]
        psnr_db = fmean(line.psnr_db for line in lines)
        ssim = fmean(line.ssim for line in lines)
        print(f"{k:>6}  {psnr_db:>9.1f}  {ssim:>6.3f}  {lines[0].compression:>10.3g}×")
    files = f"{len(report.qualities)} image{'' if len(report.qualities) == 1 else 's'}"
    print(f"results in {str(report.out)!r}: grid.png, quality.csv, {files}")


@contextmanager
def workers_for(arguments: argparse.Namespace) -> Iterator[Any]:
    """Give the workers that --gpus asks for, or None; what they cannot do becomes a UsageError."""
    if arguments.gpus is None:
        yield None
        return
    from course.cluster.group import BatchError, ClusterError, cluster

    if arguments.engine not in ("auto", "gpu"):
        raise UsageError(f"--gpus and --engine {arguments.engine} contradict each other")
    try:
        with cluster(arguments.gpus, gpus=True) as group:
            yield group
    except (BatchError, ClusterError, ImportError) as error:
        raise UsageError(str(error)) from error


class Stopping:
    """Handler of signals: interrupt the run; where a large SVD goes on for long, say so."""

    def __init__(self):
        self.last: float | None = None

    def __call__(self, number: int, frame: Any) -> None:
        """Raise KeyboardInterrupt, which a second one soon after does not disturb."""
        now, last = time.monotonic(), self.last
        if last is not None and now - last < TOGETHER:
            return
        self.last = now  # before all else: the next may come meanwhile
        if last is None:
            words = "stopping: the images in work are finished first; Ctrl-C again ends at once"
            told = threading.Timer(SILENCE, print, (words,), {"file": sys.stderr})
            told.daemon = True
            told.start()
        raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[None]:
    """Clean up after Ctrl-C, SIGTERM and a terminal that closes, unless somebody ignores them."""
    stop, before = Stopping(), {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the last is not on Windows
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) in USUAL:
            before[number] = signal.signal(number, stop)
    program = at_once in before.values()
    after = {n: signal.default_int_handler if its is at_once else its for n, its in before.items()}
    try:
        yield
    except KeyboardInterrupt:
        if program:  # it says so and ends: nothing more can be stopped
            after = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        for number, handler in after.items():
            signal.signal(number, handler)


def at_once(number: int, frame: Any) -> None:
    """End while nothing has begun; an exception might be caught by what is being imported."""
    os.write(2, b"python -m course: stopped; nothing was written\n")
    os._exit(INTERRUPTED)


#: Handlers of signals that nobody chose.
USUAL = (signal.SIG_DFL, signal.default_int_handler, at_once)


def run_bench(arguments: argparse.Namespace) -> int:
    """Measure, or show what is recorded; status 1 when a program was wrong or failed."""
    from course import backend
    from course.measure.own_figures import beside, own_folder
    from course.measure.recorded import subject_of
    from recording import frame as bench

    known = bench.subjects()
    unknown = [subject for subject in arguments.subjects if subject not in known]
    if unknown:
        raise UsageError(f"there is no subject {unknown[0]!r}; there are {', '.join(known)}")
    if arguments.list:
        width = max(map(len, known))
        for subject, what in known.items():
            print(f"{subject:<{width}}  {what}")
        return 0
    chosen = list(dict.fromkeys(arguments.subjects)) or list(known)
    if backend.gpu() is None:
        print(f"There is no GPU to measure here ({backend.why()}). This is what is recorded:")
        for subject in chosen:
            print(f"\n{bench.recorded_text(subject)}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGINT) is at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    files, failures = bench.measure_subjects(chosen, arguments.out or own_folder())
    for path in files:
        text = beside(subject_of(path), path.parent)
        print(f"\n{path.stem} beside what is recorded [ms]:\n{text}" if text else "")
    print(f"{len(files)} file{'' if len(files) == 1 else 's'} written")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


class UsageError(ValueError):
    """What was asked for does not exist; the message says what does."""


def notes(error: BaseException) -> str:
    """What was added to an exception, such as what is kept."""
    return "; ".join(getattr(error, "__notes__", ()))


def with_notes(problem: str, error: BaseException) -> str:
    """A problem in words, and what was added to the exception."""
    return f"{problem}; {notes(error)}" if notes(error) else problem


def main(words: list[str] | None = None) -> int:
    """Run a command and return its exit status; what the user can repair is one line and 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that lacks a sign shows its code
            stream.reconfigure(errors="backslashreplace")
    arguments = make_parser().parse_args(words)
    from course.images.reading import ImageError
    from course.measure.recorded import BadMeasurements

    try:
        status = arguments.run(arguments) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read what is printed has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ImageError, OSError, UsageError, BadMeasurements) as error:
        problem = with_notes(" ".join(str(error).split()), error)
        print(f"python -m course: error: {problem}", file=sys.stderr)
        return USAGE_ERROR
    except MemoryError as error:
        why = f" ({' '.join(str(error).split())})" if str(error) else ""
        problem = f"out of memory{why}; choose a smaller --size, or fewer --workers"
        print(f"python -m course: error: {with_notes(problem, error)}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as error:
        kept = notes(error) or getattr(arguments, "stopped", "nothing was written")
        print(f"python -m course: stopped; {kept}", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, at_once)
    sys.exit(main())
