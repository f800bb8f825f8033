"""The command `reconstruct`: its options, its progress, what it prints at the end."""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from course.images import LARGEST
from course.stopping import MODULE, called, stoppable

if TYPE_CHECKING:
    from course_app.pipeline.results import Report
    from course_app.pipeline.scheduler import Scheduler

SET_ASIDE = 3  # the status of --strict

HELP = """\
Rebuild images from their k largest singular values, and tell how good and how small they are.

The folder DIR receives
  NAME_kK.png   each reconstruction
  grid.png      originals and reconstructions side by side
  quality.csv   PSNR, SSIM, mean squared error and compression of each
  report.json   what was asked for, and which files were set aside, with the reason
Compression is how many times fewer numbers the k singular values and vectors have than the image.
Colours become grey; colour profiles (ICC) are left alone. Files that cannot be read are named and
left out; what else lies in a folder, results of earlier runs too, is counted by kind at the end.
The mean PSNR is that of images with less than 100 dB; beside it stands how many had more, as they
were rebuilt exactly but for rounding.

A process a core decodes, factorises, rebuilds and writes, for any number of images: only so many
are in memory as have room there, 2 GiB at most. Where there is a GPU, and images enough to be worth
its start, it resizes, factorises, rebuilds and judges. An image over which a process dies by its
own fault, as over one of a decoder, is set aside.

Memory, cores and files are those that a container, Slurm or ulimit lets the program have. Where
they do not suffice fewer processes go on, and what was hit is done again at the end, one at a time.
An image for which they do not suffice even so is named by an error; all others are done and kept.

A run that ends early, by an error, by Ctrl-C or killed, leaves what is done in a hidden folder in
DIR, and the same command with --resume goes on with it. The results are those of a run that nothing
disturbed. Where images came, went or changed since (by size or time of change), those that are the
same are kept, new and changed ones are done, and those that are gone are left out. Other options,
such as another --k, are refused. With --discard an error or Ctrl-C leaves nothing behind.

Results of two runs are never mixed. Where DIR holds those of other images or options, or files of
the same names, the run is refused; with --replace all of the other run's are removed, once these
are ready. The same run may be made again.

quality.csv is UTF-8; its column source has each image's path, byte for byte (Python reads it with
newline="" and errors="surrogateescape"). A path that begins with = + - @ has ./ before it, so that
no spreadsheet computes it, and the results of such a name begin with _. In names of results ?
stands for what cannot be printed.
"""
#: Options that `reconstruct_images` has by the same name.
HANDED_ON = ("size", "fit", "engine", "resume", "workers", "batch", "gpus", "svd", "recursive",
             "discard", "replace", "largest")  # fmt: skip
EXAMPLES = """\
examples:
  python -m course reconstruct data/images --k 50 --out results
  python -m course reconstruct holiday.jpg scans/ --k 5 20 80 --size 512 --fit crop --out results
  python -m course reconstruct archive/ --k 50 --out results --resume
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the images and the options."""
    parser.usage = "%(prog)s IMAGES [IMAGES ...] --k K [K ...] --out DIR [options]"
    parser.epilog = EXAMPLES.replace(MODULE, called())
    parser.add_argument(
        "images",
        metavar="IMAGES",
        nargs="+",
        type=path,
        help="JPEG, PNG, TIFF, GIF, WebP or BMP files (the first page or frame of several), or "
        "folders that hold some",
    )
    parser.add_argument(
        "--recursive",
        action="store_true",
        help="look into subfolders, too (not into hidden ones, nor through links to folders); "
        "results of summer/beach.jpg are called summer__beach_kK.png",
    )
    parser.add_argument(
        "--k",
        metavar="K",
        nargs="+",
        action="extend",
        required=True,
        type=whole_number,
        help="how many singular values to keep; one or several numbers",
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, type=path, help="folder for the results"
    )
    parser.add_argument(
        "--size",
        metavar="N or ROWSxCOLUMNS",
        default=(256, 256),
        type=image_size,
        help="size in pixels that the images are brought to (256x256)",
    )
    parser.add_argument(
        "--fit",
        choices=("stretch", "crop"),
        default="stretch",
        help="show the whole image, stretched to the size (stretch, the usual), or cut out its "
        "middle in the right proportions (crop)",
    )
    parser.add_argument(
        "--largest",
        metavar="MPIXEL",
        default=LARGEST,
        type=positive,
        help=f"set larger images aside before they are decoded, in millions of pixels ({LARGEST})",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "gpu", "simulator", "numpy"),
        default="auto",
        help="what rebuilds: the GPU, the course's simulator of a GPU, or NumPy; auto, the usual, "
        "is the GPU where there is one and the images are enough to be worth its start, else NumPy",
    )
    parser.add_argument(
        "--svd",
        choices=("cpu", "gpu", "auto"),
        default="auto",
        help="what factorises: the CPU, in float64; the GPU, in float32; auto, the usual, is the "
        "GPU if it rebuilds",
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--resume",
        action="store_true",
        help="go on with the unfinished run in DIR, begun with the same options, and keep what it "
        "has of images that are the same; where there is none, begin",
    )
    end.add_argument(
        "--discard",
        action="store_true",
        help="leave nothing behind when the run is stopped or fails; usually what is done is kept",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="remove the results of another run (other images or options) that DIR holds, once "
        "these are ready; without it such a folder is refused",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help=f"end with status {SET_ASIDE} when images were set aside or folders could not be "
        "read; the results of the others are there, and without --strict the status is 0",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="show no progress: no bar on a terminal, no line every 30 seconds elsewhere",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object at the end, with counts, rate, means, what was set aside and "
        "why; all else goes to standard error",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        help="processes that do the CPU's work, at most (one for each core)",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=positive,
        help="images that a GPU rebuilds together at most (128, fewer large ones)",
    )
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=positive,
        help="share the work among so many GPUs, or fewer where the images are not worth the start "
        "of all; the results are the same. It pays where one GPU, not the CPU, is what the others "
        "wait for",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="share the images among the workers of a Dask cluster that is there already, such as "
        "tcp://10.0.0.1:8786 (needs the extra cluster); they must see the same folders by the same "
        "names. The results are the same",
    )


def path(text: str) -> Path:
    """Return a path that was given; an empty name, of a variable that is not set, is none."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; a dot is the current folder")
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


def run(arguments: argparse.Namespace) -> int:
    """Rebuild the images, print a summary; the status to end with."""
    from course.images.folders import told
    from course.images.reading import printable
    from course_app.pipeline.pipeline import reconstruct_images
    from course_app.pipeline.progress import Watch

    seen = Watch(sys.stderr)
    with stoppable(), workers_for(arguments) as scheduler:
        start = time.perf_counter()
        report = reconstruct_images(
            arguments.images,
            arguments.k,
            arguments.out,
            progress=iter if arguments.quiet else seen,
            watch=seen.watch,
            tell=lambda words: print(words, file=sys.stderr, flush=True),
            scheduler=scheduler,
            **{name: getattr(arguments, name) for name in HANDED_ON},
        )
        seconds = time.perf_counter() - start

    arguments.stopped = f"all results are in {str(report.out)!r}"
    for file, reason in (*report.skipped, *report.unreadable):
        print(f"skipped {printable(file)!r}: {reason}", file=sys.stderr)
    if report.passed_over:
        print(f"passed over: {printable(told(report.passed_over))}", file=sys.stderr)
    summary(report, sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(json.dumps(for_machines(report, seconds, seen.scheduler)))
    return SET_ASIDE if arguments.strict and (report.skipped or report.unreadable) else 0


def summary(report: "Report", file: TextIO) -> None:
    """Print what was rebuilt, for people."""
    from course_app.pipeline import results

    count = len({quality.name for quality in report.qualities})
    before = f", {report.kept} of the files in an earlier run" if report.kept else ""
    lines = [f"{count} image{'' if count == 1 else 's'} rebuilt by {report.engine}{before}"]
    lines += [f"{'k':>6}  {'PSNR [dB]':>9}  {'SSIM':>6}  compression" + (count > 1) * "   (means)"]
    for its in results.means(report.qualities):
        psnr_db = math.inf if its.psnr_db is None else its.psnr_db
        exact = its.exact if count > 1 and its.psnr_db is not None else 0
        lines.append(
            f"{its.k:>6}  {psnr_db:>9.1f}  {its.ssim:>6.3f}  {its.compression:>10.3g}×"
            + (f"   PSNR: {exact} exact, left out" if exact else "")
        )
    files = f"{len(report.qualities)} image{'' if len(report.qualities) == 1 else 's'}"
    lines += [f"results in {str(report.out)!r}: grid.png, quality.csv, {files}"]
    print(*lines, sep="\n", file=file)


def for_machines(report: "Report", seconds: float, scheduler: "Scheduler | None") -> dict[str, Any]:
    """What --json prints: numbers, names and reasons, all of which JSON can hold."""
    from course_app.pipeline import results

    rebuilt = len({quality.name for quality in report.qualities})
    images = rebuilt + len(report.skipped)
    return {
        "images": images,
        "rebuilt": rebuilt,
        "kept": report.kept,
        "set_aside": [{"file": file, "reason": reason} for file, reason in report.skipped],
        "unreadable": [{"folder": name, "reason": reason} for name, reason in report.unreadable],
        "passed_over": dict(report.passed_over),
        "engine": report.engine,
        "seconds": seconds,
        "images_per_second": (images - report.kept) / seconds if seconds else None,
        "processes": len(scheduler.workers) if scheduler and scheduler.workers else 0,
        "seconds_of_stages": dict(scheduler.seconds) if scheduler else {},
        "means": [asdict(its) for its in results.means(report.qualities)],
        "out": str(report.out),
    }


@contextmanager
def workers_for(arguments: argparse.Namespace) -> Iterator[Any]:
    """Give the workers of --scheduler, or None; what they cannot do becomes an ImageError."""
    if arguments.scheduler is None:
        yield None
        return
    from course.images.reading import ImageError

    if arguments.gpus is not None:
        raise ImageError(
            "--scheduler and --gpus contradict each other: each worker has its own GPU"
        )
    try:
        from course_app.cluster.existing import joined
        from course_app.cluster.group import BatchError, ClusterError
        from course_app.cluster.image_files import GroupScheduler

        with joined(arguments.scheduler) as group:
            yield GroupScheduler(group)
    except (BatchError, ClusterError, ImportError) as error:
        raise ImageError(str(error)) from error
