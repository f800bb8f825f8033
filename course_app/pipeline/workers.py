"""The processes that work on images, as their parent sees them: it starts and restarts them.

Python executes one thread at a time, and decoding, resizing and compressing images hold its lock
for much of their time: 16 threads did not keep 16 cores busy. Processes share only what they are
given, so a decoder that crashes ends one of these processes, and costs an image. Where the machine
has too little memory for all of them, there are fewer.

A process is a Python of its own (`course_app.pipeline.worker`), not a copy of this one: nothing
that this one holds open or has begun, a GPU, threads, a notebook's kernel, gets into it.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading

from course.images.shortage import is_shortage
from course_app.pipeline.shared_buffers import Layout, SharedFile
from course_app.pipeline.stages import Job
from course_app.pipeline.worker import Answer, Work, receive, send

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: Not ``-m``: the module would be `__main__`, and the types that it sends unknown here.
PROGRAM = "import sys; from course_app.pipeline.worker import main; main(sys.argv[1:])"
#: For a process that feeds a GPU: the driver creates the context while Python imports.
WITH_GPU = "from course.driver import begin_context; begin_context({gpu}); " + PROGRAM
MOST_STARTS = 3  # of a process that ends before its first answer
#: Signals by which a program's own fault ends it; any other comes from outside, such as the signal
#: of a system that runs out of memory.
FAULTS = {
    getattr(signal, name, None) for name in ("SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP")
}


class Ended(Exception):
    """A process ended over a chunk; the message says how.

    Attributes
    ----------
    from_outside : bool
        Whether something else than the work ended it.
    """

    def __init__(self, how: str, status: int = 0):
        super().__init__(how)
        self.from_outside = status < 0 and -status not in FAULTS


class Workers:
    """Processes, which begin to start at once.

    Parameters
    ----------
    count : int
        How many processes for the CPU's work.

    Attributes
    ----------
    hands : list of Hand
    gpus : list of Hand
        Those that work for GPUs, one or several for each.
    """

    def __init__(self, count: int = 0):
        self.shared = SharedFile()
        self.hands: list[Hand] = []
        self.gpus: list[Hand] = []
        self.add(count)

    def add(self, count: int) -> None:
        """Start `count` more processes for the CPU's work, or as many as the system allows."""
        for _ in range(count):
            try:
                self.hands.append(Hand(self.shared.descriptor))
            except OSError as error:
                if not is_shortage(error):
                    raise
                return

    def add_gpus(self, count: int, each: int = 1) -> None:
        """Start `each` processes for each of `count` GPUs; they begin to make their GPU ready.

        While one process copies, the kernels of another one run.
        """
        self.gpus += [
            Hand(self.shared.descriptor, gpu) for _ in range(each) for gpu in range(count)
        ]

    def __len__(self) -> int:
        return len(self.hands)

    def stop(self) -> None:
        """Begin to end all processes, whatever they do."""
        for hand in (*self.hands, *self.gpus):
            hand.stop()

    def close(self) -> None:
        """End all processes; one that feeds a GPU takes 0.2 s to end."""
        self.stop()
        for hand in (*self.hands, *self.gpus):
            hand.close()
        self.shared.close()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *what: object) -> None:
        self.close()


class Hand:
    """One process, and the one that replaces it when it ends.

    Parameters
    ----------
    descriptor : int
        Of the memory that all share.
    gpu : int, optional
        The GPU that it works for.
    """

    def __init__(self, descriptor: int, gpu: int | None = None):
        self.descriptor, self.gpu = descriptor, gpu
        self.begun: tuple[Job, Layout | None] | None = None
        self._closed, self._lock = False, threading.Lock()
        self._ready = False  # it has said so
        self._process = self._started()

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, job: Job, layout: Layout | None) -> None:
        """Send the job and the layout of the buffers, which hold for all work that follows."""
        self.begun = job, layout
        self._brief()

    def do(self, work: Work) -> Answer:
        """Have a chunk done.

        Raises
        ------
        Ended
            When the process ended over it. Another one has been started.
        OSError
            When no other one can be started, or processes end before they can do anything.
        """
        for _ in range(MOST_STARTS):
            if self._ready and self._process.poll() is not None:  # it ended while it was idle
                self._exchange(None)
            if not self._ready:
                told = self._exchange(None)
                if not isinstance(told, Answer):
                    continue
                if told.error is not None:
                    return told
                self._ready = True
            found = self._exchange(work)
            if isinstance(found, Answer):
                return found
            raise Ended(how_it_ended(found), found)
        raise ChildProcessError(
            f"{MOST_STARTS} processes in turn ended before they did anything; the last one "
            f"{how_it_ended(told)}"
        )

    def _exchange(self, work: Work | None) -> Answer | int:
        """The answer to a chunk, or to being started (None); if the process died, its status."""
        try:
            if work is not None:
                send(self._process.stdin, work)
            return receive(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            status = self._wait()
        with self._lock:
            if self._closed:
                raise Ended("was stopped")
            self._ready = False
            self._process = self._started()
        self._brief()
        return status

    def stop(self) -> None:
        """Begin to end the process."""
        with self._lock:
            self._closed = True
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        self.stop()
        self._wait()

    def _brief(self) -> None:
        try:
            send(self._process.stdin, self.begun)
        except OSError:  # it has ended: the first chunk will find that
            pass

    def _started(self) -> subprocess.Popen:
        with_course = [path for path in sys.path if path]
        environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
        environment["PYTHONPATH"] = os.pathsep.join(with_course)
        numbers = [self.descriptor, os.getpid(), *([] if self.gpu is None else [self.gpu])]
        program = PROGRAM if self.gpu is None else WITH_GPU.format(gpu=self.gpu)
        command = [sys.executable, "-P", "-c", program, *map(str, numbers)]
        inherited = {"pass_fds": (self.descriptor,)} if os.name == "posix" else {}
        # Ctrl-C is for this process, which ends the others
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            start_new_session=True, **inherited,
        )  # fmt: skip

    def _wait(self) -> int:
        process = self._process
        process.kill()
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except OSError:  # what was not sent yet cannot be sent any more
                pass
        return process.wait()


def how_it_ended(status: int) -> str:
    """A process's status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    more = ": memory may have run out" if -status == getattr(signal, "SIGKILL", None) else ""
    return f"was ended by signal {-status} ({name}){more}"
