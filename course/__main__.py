"""The command line: course, or python -m course, and one of the commands below."""

import argparse
import os
import signal
import sys

from course import __version__
from course.models.vae import command as vae
from course.pipeline import command as reconstructing
from course.pipeline.stopping import INTERRUPTED, at_once, called
from warpsim import program

USAGE_ERROR = 2

BENCH_HELP = """\
Check and time the course's kernels on the GPU in this machine, beside CuPy and PyTorch.

Each SUBJECT becomes a file GPU-SUBJECT.csv, written as soon as the subject is done; activation,
attention, cluster, cnn, norm, reduce, vae_micro and vit have charts beside it, as PNG. Only right
results are timed: compared with float64, on random inputs. Figures above the GPU's measured roofs
are refused. Without a GPU nothing is timed: what is recorded is shown.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str):
        """Print the message and end with status 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: error: {message} (--help shows what is possible)\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(prog=called(), description="Tools of the GPU course.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    doctor = commands.add_parser(
        "doctor",
        help="what works on this machine, what does not, and what to do about it",
        description="Report versions, driver and GPUs: what works, what does not, what to do.",
    )
    doctor.set_defaults(run=run_doctor)

    lessons = commands.add_parser(
        "lessons",
        help="bring the course's notebooks to a folder; a file that you changed stays yours",
        description="Copy the notebooks of this version to DIR. What you changed there is never "
        "written over; a copy that you did not change becomes the lesson of this version.",
    )
    lessons.set_defaults(run=run_lessons)
    where = "where you work; made if need be"
    lessons.add_argument("folder", metavar="DIR", type=reconstructing.path, help=where)
    lessons.add_argument(
        "--new", metavar="NN", help="put lesson NN, as it is in this version, beside yours"
    )

    reconstructing.add(commands)
    vae.add(commands)

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
        "--outdir",
        metavar="DIR",
        type=reconstructing.path,
        help="folder for the files (COURSE_MEASUREMENTS, else ~/.course/measurements)",
    )
    bench.add_argument(
        "--parts", metavar="PART", nargs="+", default=(),
        help="measure these parts of one SUBJECT alone; the other rows of its file stay",
    )  # fmt: skip
    bench.add_argument("--list", action="store_true", help="say which subjects there are, and end")

    running = commands.add_parser(
        "run",
        help="run your own Numba-CUDA program on the simulator, and look for its mistakes",
        description=program.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    program.add_options(running)
    running.set_defaults(run=run_program)
    return parser


def run_doctor(arguments: argparse.Namespace) -> None:
    """Print what the doctor finds."""
    from course.diagnosis.report import doctor

    print(doctor())


def run_lessons(arguments: argparse.Namespace) -> None:
    """Copy the lessons' notebooks, and say how to open them."""
    from importlib.util import find_spec

    from course.diagnosis.probes import pip
    from course_lessons.copies import Copies, notebooks

    folder = arguments.folder
    work = Copies(folder, notebooks(), str(folder), f"{called()} lessons {folder}")
    if arguments.new is not None:
        try:
            print("\n".join(work.put_beside(arguments.new)))
        except ValueError as error:
            raise UsageError(str(error)) from error
        return
    for line in work.fill():
        print(line)
    print(
        f"{folder}: {len(work.originals)} lessons, as in version {__version__} or as you have them"
    )
    install = "" if find_spec("jupyterlab") else f"{pip('jupyterlab')}, then "
    print(f"Open them: {install}jupyter lab {folder}")


def run_bench(arguments: argparse.Namespace) -> int:
    """Measure, or show what is recorded; status 1 when a program was wrong or failed."""
    from course import backend
    from course.files import alone_in
    from course.measure.own_figures import beside, own_folder
    from course.measure.recorded import subject_of
    from course_recording import frame as bench

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
    if arguments.parts and len(chosen) != 1:
        raise UsageError(f"--parts are those of one subject, and {len(chosen)} are named")
    if backend.gpu() is None:
        print(f"There is no GPU to measure here ({backend.why()}). This is what is recorded:")
        for subject in chosen:
            print(f"\n{bench.recorded_text(subject)}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    let_interrupt()
    folder = arguments.out or own_folder()
    with alone_in(folder):
        files, failures = bench.measure_subjects(
            chosen, folder, parts=list(dict.fromkeys(arguments.parts))
        )
    for path in files:
        text = beside(subject_of(path), path.parent)
        print(f"\n{path.stem} beside what is recorded [ms]:\n{text}" if text else "")
    print(f"{len(files)} file{'' if len(files) == 1 else 's'} written")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def run_program(arguments: argparse.Namespace) -> int:
    """Run somebody's program on the simulator; the status is the program's."""
    let_interrupt()
    return program.run(arguments)


def let_interrupt() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class UsageError(ValueError):
    """What was asked for does not exist; the message says what does."""


def notes(error: BaseException) -> str:
    """What was added to an exception, such as what is kept."""
    return "; ".join(getattr(error, "__notes__", ()))


def with_notes(problem: str, error: BaseException) -> str:
    """A problem in words, and what was added to the exception."""
    return f"{problem}; {notes(error)}" if notes(error) else problem


def sentence(error: Exception) -> str:
    """What an error says; of one that the system reports the file and the reason, no number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{str(error.filename)!r}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def is_told(error: Exception) -> bool:
    """Whether an error's message is for the user; what was raised has been imported already."""
    known = (
        ("course.files", "FolderInUse"), ("course.images.reading", "ImageError"),
        ("course.measure.recorded", "BadMeasurements"),
        ("course.models.vae.jobs", "Refused"), ("warpsim.program", "BadUsage"),
    )  # fmt: skip
    there = (getattr(sys.modules.get(module), name, UsageError) for module, name in known)
    return isinstance(error, (OSError, UsageError, *there))


def main(words: list[str] | None = None) -> int:
    """Run a command and return its exit status; what the user can repair is one line and 2."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed it, as >&- does
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that lacks a sign shows its code
            stream.reconfigure(errors="backslashreplace")
    arguments = make_parser().parse_args(words)
    try:
        status = arguments.run(arguments) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read what is printed has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError) as error:
        if not is_told(error):
            raise
        problem = with_notes(" ".join(sentence(error).split()), error)
        print(f"{called()}: error: {problem}", file=sys.stderr)
        return USAGE_ERROR
    except MemoryError as error:
        why = f" ({' '.join(str(error).split())})" if str(error) else ""
        less = getattr(arguments, "less", "choose a smaller --size, or fewer --workers")
        problem = f"out of memory{why}; {less}"
        print(f"{called()}: error: {with_notes(problem, error)}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as error:
        kept = notes(error) or getattr(arguments, "stopped", "nothing was written")
        print(f"{called()}: stopped; {kept}", file=sys.stderr)
        return INTERRUPTED


def script() -> int:
    """The whole program, as `python -m course` and the console script `course` run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, at_once)
    return main()


if __name__ == "__main__":
    sys.exit(script())
