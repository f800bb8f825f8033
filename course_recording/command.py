"""The command `bench`: measures what was named, or shows what is recorded."""

import argparse
import signal
import sys

from course import backend
from course.files import alone_in
from course.measure.own_figures import beside, own_folder
from course.measure.recorded import subject_of
from course.stopping import UsageError
from course_app.commands import reconstruct as reconstructing
from course_recording import frame

HELP = """\
Check and time the course's kernels on the GPU in this machine, beside CuPy and PyTorch.

Each SUBJECT becomes a file GPU-SUBJECT.csv, written as soon as the subject is done; activation,
attention, cluster, cnn, norm, reduce, vae_micro and vit have charts beside it, as PNG. Only right
results are timed: compared with float64, on random inputs. Figures above the GPU's measured roofs
are refused. Without a GPU nothing is timed: what is recorded is shown.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subjects and the options."""
    parser.set_defaults(stopped="files that were written before are whole")
    parser.add_argument(
        "subjects", metavar="SUBJECT", nargs="*", help="what to measure; without it everything"
    )
    parser.add_argument(
        "--out",
        "--outdir",
        metavar="DIR",
        type=reconstructing.path,
        help="folder for the files (COURSE_MEASUREMENTS, else ~/.course/measurements)",
    )
    parser.add_argument(
        "--parts", metavar="PART", nargs="+", default=(),
        help="measure these parts of one SUBJECT alone; the other rows of its file stay",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=frame.SEED, help="of inputs, and of the shapes of `drawn`"
    )
    parser.add_argument("--list", action="store_true", help="say which subjects there are, and end")


def run(arguments: argparse.Namespace) -> int:
    """Measure, or show what is recorded; status 1 when a program was wrong or failed."""
    known = frame.subjects()
    unknown = [subject for subject in arguments.subjects if subject not in known]
    if unknown:
        raise UsageError(f"there is no subject {unknown[0]!r}; there are {', '.join(known)}")
    if arguments.list:
        width = max(map(len, known))
        for subject, what in known.items():
            print(f"{subject:<{width}}  {what}")
        return 0
    chosen = list(dict.fromkeys(arguments.subjects)) or list(known)
    if arguments.parts and len(chosen) != 1:
        raise UsageError(f"--parts are those of one subject, and {len(chosen)} are named")
    if backend.gpu() is None:
        print(f"There is no GPU to measure here ({backend.why()}). This is what is recorded:")
        for subject in chosen:
            print(f"\n{frame.recorded_text(subject)}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    own = arguments.out or own_folder()
    with alone_in(own):
        files, failures = frame.measure_subjects(
            chosen, own, parts=list(dict.fromkeys(arguments.parts)), seed=arguments.seed
        )
    for path in files:
        text = beside(subject_of(path), path.parent)
        print(f"\n{path.stem} beside what is recorded [ms]:\n{text}" if text else "")
    print(f"{len(files)} file{'' if len(files) == 1 else 's'} written")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0
