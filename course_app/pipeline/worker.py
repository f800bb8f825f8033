"""A process that works on images for another: what it reads, what it answers, how it ends.

Its parent (`course_app.pipeline.workers`) starts it, sends a `Job`, then one `Work` after the
other, each answered before the next is sent. Linear algebra has one thread: there is a process for
each core. It ends with its parent: at once on Linux, elsewhere when nobody sends more.
"""

import ctypes
import os
import pickle
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from course_app.pipeline import stages, threads
from course_app.pipeline.engines import OnGpu, gpus_cuda
from course_app.pipeline.shared_buffers import SharedBuffers
from course_app.pipeline.stages import Clock, Job, Shown, Task

LENGTH = struct.Struct("<Q")
BEHIND = 5  # nice(2) of the CPU's processes, so that those that feed a GPU run first
PARENT_DEATH_SIGNAL = 1  # prctl(2), PR_SET_PDEATHSIG
FIRST_TO_END = "500"  # of 1000, proc(5): out of memory, the system kills this one, not its parent


@dataclass(frozen=True)
class Work:
    """A chunk of images, and what to do with them.

    Attributes
    ----------
    kind : {"whole", "fill", "compute", "save"}
        A function of `course_app.pipeline.stages`.
    items : list of (int, Task)
        Slots in the buffer, and images.
    buffer : int
    good : tuple of int
        Images that are known to be good, the first ones: the grid may show them.
    """

    kind: str
    items: list[tuple[int, Task]]
    buffer: int = 0
    good: tuple[int, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What came of a chunk.

    Attributes
    ----------
    found : list
        For each image what the function of `course_app.pipeline.stages` returns.
    seconds : dict of str to float
        What each stage took.
    error : BaseException or None
        What stopped the chunk; an image that is merely set aside is no error.
    """

    found: list[Any] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    error: BaseException | None = None


def done(
    job: Job, work: Work, buffers: SharedBuffers | None, on_gpu: OnGpu | None = None
) -> Answer:
    """Do a chunk, in this process."""
    clock, shown = Clock(), Shown(work.good)
    try:
        if work.kind == "whole":
            found = [stages.whole(job, task, shown, clock) for _, task in work.items]
        elif work.kind == "compute":
            found = stages.compute(job, work.items, buffers, work.buffer, clock, on_gpu, shown)
        else:
            do = {"fill": stages.fill, "save": stages.save_buffer}[work.kind]
            found = do(job, work.items, buffers, work.buffer, clock)
    except Exception as error:  # its parent raises it
        return Answer(error=error, seconds=dict(clock.seconds))
    return Answer(found, dict(clock.seconds))


# --- between the processes ------------------------------------------------------------------------


def send(file: BinaryIO, what: Any) -> None:
    """Write an object and its length."""
    content = pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)
    file.write(LENGTH.pack(len(content)) + content)
    file.flush()


def receive(file: BinaryIO) -> Any:
    """Read an object; EOFError where the other process has ended."""
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return pickle.loads(_exactly(file, length))


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise EOFError("the other process has ended")
    return content


def _sendable(answer: Answer) -> Answer:
    """An answer that can travel: an exception that cannot is told in words."""
    try:
        pickle.loads(pickle.dumps(answer.error))
        return answer
    except Exception:
        told = RuntimeError(f"{type(answer.error).__name__}: {answer.error}")
        return Answer(answer.found, answer.seconds, told)


def main(words: list[str]) -> None:
    """Work until nobody sends more."""
    for name in ("SIGINT", "SIGHUP"):  # for the parent, which ends this process
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a decoder prints must not get among the answers
    try:
        end_with_parent(int(words[1]))
        with threads.kept(), threads.one_thread():
            serve(incoming, outgoing, int(words[0]), *map(int, words[2:]))
    except (EOFError, BrokenPipeError):
        return


def end_with_parent(parent: int) -> None:
    """End with the parent: at its death, at once if it is dead, before it if memory runs out."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(FIRST_TO_END)
    if os.name == "posix" and os.getppid() != parent:
        raise EOFError("the parent has ended")


def _compile(on_gpu: OnGpu, descriptor: int) -> None:
    """Compile in one of the processes that work for GPUs; the others wait for it."""
    import fcntl  # not on Windows, where there are none

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        on_gpu.compile()
    except BlockingIOError:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)


def serve(incoming: BinaryIO, outgoing: BinaryIO, descriptor: int, gpu: int | None = None) -> None:
    """Receive a job and its buffers, make a GPU ready if there is one, then answer each `Work`."""
    on_gpu = problem = None
    if gpu is not None:
        try:
            gpus_cuda().select_device(gpu)
        except Exception as error:  # its parent raises it
            problem = error
    job, layout = receive(incoming)
    buffers = SharedBuffers(layout, descriptor) if layout else None
    if gpu is None and job.engine == "gpu" and hasattr(os, "nice"):
        os.nice(BEHIND)
    if gpu is not None:
        on_gpu = OnGpu(job.size, job.ranks, layout.batch, job.svd)
        try:
            if problem is None:
                _compile(on_gpu, descriptor)
        except Exception as error:
            problem = error
    send(outgoing, _sendable(Answer(error=problem)))  # it is ready
    while True:
        send(outgoing, _sendable(done(job, receive(incoming), buffers, on_gpu)))
