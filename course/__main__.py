"""The command line: course, or python -m course, and one of the commands below."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from course.stopping import INTERRUPTED, UsageError, at_once, called, let_interrupt

USAGE_ERROR = 2
#: The commands: a module with ``HELP``, ``add_options(parser)`` and ``run(arguments)``, which is
#: imported when its command is chosen, and what the list of commands says.
COMMANDS = {
    "doctor": (
        "course.diagnosis.report",
        "what works on this machine, what does not, and what to do about it",
    ),
    "lessons": (
        "course_lessons.copies",
        "bring the course's notebooks to a folder; a file that you changed stays yours",
    ),
    "reconstruct": (
        "course_app.commands.reconstruct",
        "rebuild images from their singular value decomposition",
    ),
    "vae": (
        "course_app.commands.vae",
        "train a variational autoencoder on digits, rebuild them, draw new ones",
    ),
    "bench": (
        "course_recording.command",
        "time the course's kernels on your GPU; without one show what is recorded",
    ),
    "run": (
        "warpsim.program",
        "run your own Numba-CUDA program on the simulator, and look for its mistakes",
    ),
}
INTERRUPTIBLE = ("bench", "run")  # Ctrl-C raises KeyboardInterrupt, as in any program


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str):
        """Print the message and end with status 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: error: {message} (--help shows what is possible)\n")


def make_parser(words: Sequence[str] = ()) -> Parser:
    """Return the parser of all commands; the one that `words` begin with has its options."""
    parser = Parser(prog=called(), description="Tools of the GPU course.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, what) in COMMANDS.items():
        command = commands.add_parser(
            name, help=what, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in words[:1]:
            chosen = import_module(module)
            command.description = chosen.HELP
            command.set_defaults(run=chosen.run)
            chosen.add_options(command)
    return parser


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
        ("course_app.commands.vae", "Refused"), ("warpsim.program", "BadUsage"),
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
    words = sys.argv[1:] if words is None else words
    arguments = make_parser(words).parse_args(words)
    if words[0] in INTERRUPTIBLE:
        let_interrupt()
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
