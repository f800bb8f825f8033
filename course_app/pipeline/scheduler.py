"""Schedules the images of a job: who does what next, what waits, what has to be done again.

Without a GPU each process takes some images and does everything with them (`stages.whole`):

    files ── processes: decode, factorise, rebuild, judge, save ── done

With a GPU the processes do what comes before and after it, and images wait in shared buffers:

    files ── processes: decode ── ▤▤▤ ── GPU: factorise, rebuild, judge ── ▤▤▤ ── processes: save

There are as many buffers as memory holds. A process that could take new images and finds no buffer
free waits: however many files there are, only so many images are in memory. Images that wait to be
saved come first. While the GPU is made ready, which takes a second or two, processes decode.

If a process dies over some images, or the machine runs short of memory or open files, these images
are done again after all others. Then one process with all memory for itself does one image
at a time; after a shortage fewer processes go on until then. An image that crashes its process
again is set aside. A second shortage over an image is an error, raised when all others are done.

A GPU has processes of its own, so that its launches wait for no other work; with enough cores for
several, one copies while another one's kernels run. For each process a thread of this one waits.
Who iterates over a `Scheduler` gets the images that are done.
"""

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from course.images.shortage import FEWER, is_shortage
from course_app.pipeline.engines import OnGpu, gpus_cuda, kept_values
from course_app.pipeline.journal import Done
from course_app.pipeline.shared_buffers import Layout, SharedBuffers
from course_app.pipeline.stages import Job, Shown, Task
from course_app.pipeline.worker import Answer, Work, done
from course_app.pipeline.workers import Ended, Hand, Workers

CHUNK = 4  # images that a process takes at once
GPU_CHUNK = 16  # where a GPU computes: the processes' own work on an image is short
LARGE = 512 * 512  # pixels: of larger images a process takes one at once
MOST_ENDED = 2  # processes that may die over one stack of a GPU
ALONE = ", with no other at work"
MOST_IN_A_ROW = 3  # shortages of the last process in a row, after which the run stops

Item = tuple[int, Task]  # slot in a buffer
Compute = Callable[[Work], Answer]


@dataclass
class _Filling:
    """A buffer whose images are being read: chunks that are in flight, images that are there."""

    chunks: int
    good: list[Item]


class Scheduler:
    """All images of a job, worked through.

    Parameters
    ----------
    job : Job
    todo : sequence of Task
    workers : Workers, optional
        Processes for the CPU's work; without it this process does it, one image after the other.
    batch : int
        The longest stack on a GPU.
    gpus : int
        How many GPUs, for the engine "gpu".
    good : sequence of int
        Images that are known to be good already.

    Attributes
    ----------
    seconds : Counter
        What each stage took so far, summed over the processes; "gpu" is the GPUs' stage.
    shown : Shown
    error : BaseException or None
        The first error that stopped the work.
    """

    def __init__(
        self, job: Job, todo: Sequence[Task], workers: Workers | None, batch: int, gpus: int = 1,
        good: Sequence[int] = (),
    ):  # fmt: skip
        workers = workers or None  # `Workers` may have no process
        self.job, self.workers, self.batch = job, workers, max(1, min(batch, len(todo)))
        self.seconds: Counter[str] = Counter()
        self.shown = Shown(tuple(good))
        self.error: BaseException | None = None
        self.gpus = gpus if job.engine == "gpu" else 0
        self.feeders = max(1, len(self._feeders()))
        self._todo, self._left = deque(todo), len(todo)
        self._hands = len(workers) if workers else 0  # less those ended to free their memory
        self._again: deque[Task] = deque()  # images to do again, after all others
        self._alone: Task | None = None  # the one of `_again` that is being done
        self._failed: list[tuple[Task, BaseException]] = []
        self._in_a_row = 0
        self._works: deque[Work] = deque()  # chunks that come before new images
        self._filling: dict[int, _Filling] = {}
        self._filled: deque[tuple[int, list[Item]]] = deque()
        self._free: deque[int] = deque()
        self._unused: deque[int] = deque()
        self._saving: dict[int, int] = {}  # buffers, and chunks of them that are being written
        self._computed: dict[int, list[tuple[float, float, float]]] = {}  # images, their measures
        self._stopped = False
        self._lock = threading.RLock()
        # on which threads wait for work: a new chunk wakes as many of them as can take it
        self._for_hands, self._for_gpus = (threading.Condition(self._lock) for _ in range(2))
        self._finished: queue.SimpleQueue[list[Done] | None] = queue.SimpleQueue()
        self.buffers: SharedBuffers | None = None
        chunk = GPU_CHUNK if self.gpus else CHUNK
        chunk = 1 if job.size[0] * job.size[1] > LARGE else chunk
        self._chunk = max(1, min(chunk, len(todo) // (2 * len(workers)))) if workers else 1

    # ------------------------------------------------------------------ all of it
    def __iter__(self) -> Iterator[Done]:
        """Give what is done as it is done, in any order.

        Raises
        ------
        BaseException
            The first error. All work has stopped by then, as when the iteration is closed.
        """
        if not self._left:
            return
        self._allocate_buffers()
        if self.workers is None:
            yield from self._here_alone()
            return
        threads = [
            *(self._thread(self._attend, hand) for hand in self.workers.hands),
            *(self._thread(self._feed, by) for by in self._feeders()),
        ]
        left = self._left  # read it now: the threads count it down
        try:
            for thread in threads:
                thread.start()
            while left:
                try:  # Ctrl-C does not end a wait without a time on every system
                    found = self._finished.get(timeout=0.2)
                except queue.Empty:
                    continue
                if found is None:
                    break
                left -= len(found)
                yield from found
        finally:
            self.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self.error is not None:
            raise self.error

    def stop(self, error: BaseException | None = None) -> None:
        """End all processes and threads; one that feeds a GPU ends after the stack it is at."""
        with self._lock:
            if self._stopped:
                return
            self._stopped, self.error = True, error
            self._wake_all()
        self._finished.put(None)
        if self.workers is not None:
            self.workers.stop()

    def slowest(self) -> str | None:
        """The stage that takes most of the time; None as long as nothing is done."""
        with self._lock:
            seconds = Counter(self.seconds)
        gpu = seconds.pop("gpu", 0.0) / self.feeders
        total = sum(seconds.values())
        if not total:
            return None
        each = total / (len(self.workers) if self.workers else 1)
        return "gpu" if gpu > each else max(seconds, key=seconds.__getitem__)

    def _allocate_buffers(self) -> None:
        if not self.gpus:
            return
        job = self.job
        r = 0 if job.svd == "gpu" else kept_values(max(job.ranks), *job.size)
        if self.workers is None:
            self.buffers = SharedBuffers(Layout(1, self.batch, job.size, len(job.ranks), r))
        else:
            layout = Layout.within_memory(self.batch, job.size, len(job.ranks), r, self._left)
            self.workers.shared.begin(layout)
            self.buffers = SharedBuffers(layout, self.workers.shared.descriptor)
        self._unused = deque(range(self.buffers.layout.count))

    def _thread(self, work: Callable[[object], None], of: object) -> threading.Thread:
        def run() -> None:
            try:
                work(of)
            except BaseException as error:  # whatever it is: the main thread raises it
                self.stop(error)

        return threading.Thread(target=run, name=f"course{work.__name__}", daemon=True)

    def _here_alone(self) -> Iterator[Done]:
        """In this process, one chunk after the other."""
        if self.gpus:
            gpus_cuda()
            compute = self._here()
        left = self._left
        while left:
            if self._filled:
                self._compute(compute, *self._filled.popleft())
            work = self._next(wait=False)
            if work is not None:
                self._take(work, done(self.job, work, self.buffers))
            while not self._finished.empty():
                found = self._finished.get()
                if found is None:  # it was stopped
                    if self.error is not None:
                        raise self.error
                    return
                left -= len(found)
                yield from found

    # ------------------------------------------------------------------ work for processes
    def _attend(self, hand: Hand) -> None:
        """Give one process its work, chunk by chunk."""
        hand.begin(self.job, self.buffers.layout if self.buffers else None)
        while (work := self._next(hand)) is not None:
            try:
                answer = hand.do(work)
            except (Ended, OSError) as error:
                answer = Answer(error=error)
            short = self._take(work, answer)
            with self._lock:
                if short and self._hands > 1 and not self._stopped:
                    return self._end(hand)

    def _end(self, hand: Hand) -> None:
        """Go on without this process, so that the others have its memory."""
        self._hands -= 1
        hand.close()
        self._wake_all()

    def _wake_all(self) -> None:
        self._for_hands.notify_all()
        self._for_gpus.notify_all()

    def _next(self, hand: Hand | None = None, wait: bool = True) -> Work | None:
        """The next chunk, those that wait to be saved first; None when all is done."""
        with self._lock:
            while not self._stopped and self._left:
                if self._works:
                    return replace(self._works.popleft(), good=self.shown.first)
                if self._todo and not self.gpus:
                    items = [
                        (0, self._todo.popleft()) for _ in range(min(self._chunk, len(self._todo)))
                    ]
                    return Work("whole", items, good=self.shown.first)
                if self._todo and (buffer := self._free_buffer()) is not None:
                    self._open_buffer(buffer)
                    continue
                if self._left == len(self._again):  # nobody is at work
                    if hand is not None and self._hands > 1:
                        return self._end(hand)
                    self._alone = self._again.popleft()
                    self._todo.append(self._alone)
                    continue
                if not wait:
                    return None
                self._for_hands.wait()
        return None

    def _free_buffer(self) -> int | None:
        """A buffer that was used before, or for which there is memory."""
        if self._free:
            return self._free.popleft()
        if not self._unused:
            return None
        buffer = self._unused.popleft()
        if self.workers is None or self.workers.shared.reserve(buffer):
            return buffer
        self._unused.clear()
        return None

    def _open_buffer(self, buffer: int) -> None:
        """Cut the next images into chunks, with slots in a buffer."""
        items = [(slot, self._todo.popleft()) for slot in range(min(self.batch, len(self._todo)))]
        chunks = self._chunks(items)
        self._filling[buffer] = _Filling(len(chunks), [])
        self._works.extend(Work("fill", chunk, buffer) for chunk in chunks)
        self._for_hands.notify(len(chunks) - 1)  # the first is for who opens it

    def _chunks(self, items: list[Item]) -> list[list[Item]]:
        return [items[start : start + self._chunk] for start in range(0, len(items), self._chunk)]

    def _take(self, work: Work, answer: Answer) -> bool:
        """Take the answer to a chunk; return whether the machine was short of something."""
        with self._lock:
            self.seconds.update(answer.seconds)
            if answer.error is not None:
                return self._lost(work, answer.error)
            self._in_a_row = 0
            if work.kind == "whole":
                self._finish(answer.found)
            elif work.kind == "fill":
                its = [*zip(work.items, answer.found, strict=True)]
                self._filling[work.buffer].good += [item for item, found in its if found is None]
                self._finish([found for _, found in its if found is not None])
                self._chunk_filled(work.buffer)
            elif work.kind == "compute":
                for (_, task), measures in zip(work.items, answer.found, strict=True):
                    self._computed[task.image] = measures
                    self.shown.add(task.image)
                chunks = self._chunks(work.items)
                self._saving[work.buffer] = len(chunks)
                self._works.extendleft(Work("save", chunk, work.buffer) for chunk in chunks)
                self._for_hands.notify(len(chunks))
            else:
                self._finish(
                    [
                        Done(task.image, self._computed.pop(task.image), sizes)
                        for (_, task), sizes in zip(work.items, answer.found, strict=True)
                    ]
                )
                self._chunk_saved(work.buffer)
            return False

    def _finish(self, found: list[Done]) -> None:
        if not found:
            return
        for one in found:
            if one.reason is None:
                self.shown.add(one.image)
        self._left -= len(found)
        self._finished.put(found)
        if not self._left:
            self._wake_all()
            if self._failed:
                self.stop(_missed(self._failed))

    def _chunk_filled(self, buffer: int) -> None:
        filling = self._filling[buffer]
        filling.chunks -= 1
        if filling.chunks:
            return
        del self._filling[buffer]
        if filling.good:
            self._filled.append((buffer, sorted(filling.good, key=lambda item: item[0])))
            self._for_gpus.notify()
        else:
            self._free.append(buffer)
            self._for_hands.notify()

    def _chunk_saved(self, buffer: int) -> None:
        self._saving[buffer] -= 1
        if not self._saving[buffer]:
            del self._saving[buffer]
            self._free.append(buffer)
            self._for_hands.notify()

    def _lost(self, work: Work, error: BaseException) -> bool:
        """Have a chunk's images done again; return whether the machine was short of something.

        Any error other than a shortage or a process that died stops all work.
        """
        ended = isinstance(error, Ended)
        short = error.from_outside if ended else is_shortage(error, FEWER)
        if not (ended or short):
            self.stop(error)
            return False
        tasks = [task for _, task in work.items]
        for task in tasks:
            self._computed.pop(task.image, None)
        self._in_a_row += short and self._hands < 2
        if tasks[0] is not self._alone:
            self._again.extend(tasks)
        elif short:
            self._left -= 1
            self._failed.append((tasks[0], error))
        else:
            reason = f"cannot be read: a process {error}{ALONE}"
            self._finish([Done(tasks[0].image, [], [], reason)])
        if work.kind == "fill":
            self._chunk_filled(work.buffer)
        elif work.kind == "save":
            self._chunk_saved(work.buffer)
        if self._in_a_row >= MOST_IN_A_ROW or (self._failed and not self._left):
            self.stop(_missed(self._failed or [(tasks[0], error)]))
        self._wake_all()
        return short

    # ------------------------------------------------------------------ work for GPUs
    def _feeders(self) -> Sequence[Hand | int]:
        """What feeds the GPUs: processes of their own; else this process, by the GPUs' indices."""
        if not self.gpus:
            return ()
        return (self.workers.gpus if self.workers else None) or range(self.gpus)

    def _feed(self, by: Hand | int) -> None:
        """Feed a GPU with stacks until all are done."""
        if isinstance(by, Hand):
            by.begin(self.job, self.buffers.layout)
            self._feed_by(partial(self._there, by))
        else:
            with gpus_cuda().gpus[by]:
                self._feed_by(self._here())

    def _feed_by(self, compute: Compute) -> None:
        while (filled := self._next_filled()) is not None:
            self._compute(compute, *filled)

    def _here(self) -> Compute:
        """A function that computes stacks in this process, with its kernels compiled."""
        on_gpu = OnGpu(self.job.size, self.job.ranks, self.batch, self.job.svd)
        on_gpu.compile()
        return lambda work: done(self.job, work, self.buffers, on_gpu)

    def _there(self, hand: Hand, work: Work) -> Answer:
        """Have a process compute a stack; if it dies, have its successor do so."""
        for _ in range(MOST_ENDED):
            try:
                return hand.do(work)
            except Ended as error:
                how = error
        raise ChildProcessError(f"the process that works for a GPU {how}, twice over one stack")

    def _next_filled(self) -> tuple[int, list[Item]] | None:
        with self._lock:
            while not self._stopped and self._left:
                if self._filled:
                    return self._filled.popleft()
                self._for_gpus.wait()
        return None

    def _compute(self, compute: Compute, buffer: int, items: list[Item]) -> None:
        """Have a buffer's images rebuilt and judged; then they wait to be written."""
        work = Work("compute", items, buffer, self.shown.first)
        answer = compute(work)
        if answer.error is not None:
            raise answer.error
        self._take(work, answer)


def _missed(failed: list[tuple[Task, BaseException]]) -> BaseException:
    """The error of images for which the machine does not suffice."""
    task, error = failed[0]
    if isinstance(error, Ended):
        error = ChildProcessError(f"a process {error}")
    elif not isinstance(error, OSError | MemoryError):  # of a library that has its own
        error = MemoryError(str(error))
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    error.add_note(
        f"it worked on {str(task.file)!r}{more}{ALONE}; give the program more of what it lacks, "
        "choose a smaller --size, or leave that out"
    )
    return error
