"""``python -m warpsim program.py``: somebody's Numba-CUDA program, as it is, on the simulator."""

import argparse
import builtins
import errno
import math
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from warpsim.core.own_files import write_json
from warpsim.host import gpus

WRONG, LIMIT, INTERRUPTED = 1, 124, 130
MIB = 1 << 20
HERE = str(Path(__file__).parent) + os.sep
#: Numba's lock, which the simulator holds while it prepares a kernel.
LOCK = os.path.join("numba", "core", "compiler_lock.py")

HELP = """\
Run a Python program on a simulated GPU. In it, and in all that it imports, numba.cuda is the
simulator; the program itself stays as it is. Options stand before the program, and what follows
it is the program's own.

The status is the program's own; 1 where an exception ended it or --trace found an error, 2 for a
wrong command line, 124 where it ran into a limit, 130 after Ctrl-C.
"""


class BadUsage(ValueError):
    """A command line that cannot be run; the message says why."""


def positive(text: str) -> float:
    """A number above zero."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run, the program and its arguments."""
    parser.add_argument("--gpu", metavar="NAME", help=f"the GPU: {', '.join(gpus.GPUS)} (Tesla T4)")
    add = parser.add_argument
    text = "look at every launch for mistakes and waste; what was found stands at the end"
    add("--trace", action="store_true", help=f"{text}, on stderr, each finding once")
    text = "print all findings, not only the first; implies --trace"
    add("--all", action="store_true", help=text)
    text = "write the findings to FILE; implies --trace"
    add("--json", metavar="FILE", type=Path, help=text)
    add("--seconds", metavar="N", type=positive, help="end the program after N seconds")
    text = "most memory that the program may take, in MiB beside Python and the simulator"
    add("--memory", metavar="MB", type=positive, help=f"{text}; Linux alone")
    add("program", metavar="PROGRAM", help="a file of Python")
    text = "the program's own arguments"
    add("arguments", metavar="...", nargs=argparse.REMAINDER, help=text).required = False


def run(options: argparse.Namespace) -> int:
    """Run a program as `add_options` describes it, and return the exit status.

    Raises
    ------
    BadUsage
        For a program, a GPU, a file or a limit that cannot be had; the program has not begun.
    """
    path = Path(options.program)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadUsage(f"{options.program!r}: {error.strerror}") from None
    try:
        gpus.simulate(options.gpu) if options.gpu else gpus.current()
    except ValueError as error:
        raise BadUsage(str(error)) from None
    target: Path | None = options.json
    wanted = options.trace or options.all or target is not None
    if target is not None:
        _check(target)
    with collecting(wanted) as collected:

        def finish(status: int) -> int:
            status = _told(collected, status, options.all)
            if target is not None:
                write_json(target, collected.as_json(), 2)
            return status

        with _limited_memory(options.memory), ExitStack() as stack:
            if options.seconds:
                timer = threading.Timer(options.seconds, _end, (options.seconds, finish))
                timer.daemon = True
                timer.start()
                stack.callback(timer.cancel)
            status = _status(path, text, options)
        return finish(status)


# ---------------------------------------------------------------------- the program
def _status(path: Path, text: bytes, options: argparse.Namespace) -> int:
    """The status with which a program ends, its exception printed."""
    from warpsim.watch.findings import KernelError

    try:
        with _main_module(path, [options.program, *options.arguments]) as module:
            code = compile(text, module.__file__, "exec", dont_inherit=True)
            exec(code, module.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return WRONG
    except BaseException as error:
        _flush()
        print("".join(_without_ours(error).format()), end="", file=sys.stderr)
        if isinstance(error, KernelError) and error.place:  # its words count from the def
            print("warpsim: that line is {}:{}".format(*error.place), file=sys.stderr)
        if options.memory and isinstance(error, MemoryError):
            print(f"warpsim: the program ran into --memory {options.memory:g}", file=sys.stderr)
            return LIMIT
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else WRONG
    return 0


@contextmanager
def _main_module(path: Path, words: list[str]) -> Iterator[ModuleType]:
    """What a program finds as Python starts it: ``__main__``, sys.argv, sys.path, numba.cuda."""
    from warpsim.code import kept
    from warpsim.redirect import redirected

    kept.begin()
    module = ModuleType("__main__")
    module.__file__ = str(path.absolute())
    module.__builtins__ = builtins
    before = sys.modules["__main__"], sys.argv, sys.path
    sys.modules["__main__"], sys.argv = module, words
    sys.path = [str(path.resolve().parent), *sys.path[0 if sys.flags.safe_path else 1 :]]
    try:
        with redirected():
            yield module
    finally:
        sys.modules["__main__"], sys.argv, sys.path = before


def _without_ours(error: BaseException) -> traceback.TracebackException:
    """A traceback, and those of its causes, without the runner's and the simulator's frames."""
    whole = traceback.TracebackException.from_exception(error)
    rest, seen = [whole], set()
    while rest:
        one = rest.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        theirs = [frame for frame in one.stack if not frame.filename.endswith(LOCK)]
        theirs = [f for f in theirs if not f.filename.startswith((HERE, "<lane program"))]
        one.stack = traceback.StackSummary.from_list(theirs)
        rest += [one.__cause__, one.__context__]
    return whole


# ---------------------------------------------------------------------- findings
@contextmanager
def collecting(wanted: bool) -> Iterator[Any]:
    """Look at all launches, where that is wanted; gives what is `Collected`, or None."""
    if not wanted:
        yield None
        return
    from warpsim.run.kernel import onlookers
    from warpsim.run.program_findings import Collected

    collected = Collected()
    onlookers.append(collected.look)
    try:
        yield collected
    finally:
        onlookers.remove(collected.look)


def _flush() -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()


def _check(target: Path) -> None:
    """Refuse a file that cannot be written, before the program has begun."""
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise BadUsage(f"{str(target)!r}: {error.strerror}") from None


def _told(collected: Any, status: int, whole: bool) -> int:
    """Say what was found; the status that follows."""
    if collected is None:
        return status
    _flush()
    text = collected.text(*("", None) if whole else ("--all prints them",))
    print(f"warpsim: {text}", file=sys.stderr, flush=True)
    return WRONG if collected.any_error and status != LIMIT else status


# ---------------------------------------------------------------------- limits
def _end(seconds: float, finish: Callable[[int], int]) -> None:
    """End the process from another thread: the program may be deep in a kernel."""
    try:
        finish(LIMIT)
        print(f"warpsim: the program was ended after --seconds {seconds:g}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(LIMIT)


@contextmanager
def _limited_memory(limit: float | None) -> Iterator[None]:
    if limit is None:
        yield
        return
    from warpsim.front.numba_typing import load_rules

    try:
        import resource

        load_rules()  # Numba's typing rules are the simulator's memory, not the program's
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * resource.getpagesize() + int(limit * MIB)
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    except (ImportError, OSError, ValueError):
        raise BadUsage("--memory: this system keeps no such limit; leave it out") from None
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
