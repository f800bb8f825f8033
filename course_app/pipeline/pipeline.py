"""Many images: rebuild each from its SVD, measure the quality, write everything or nothing.

`reconstruct_images` checks the request, has processes and GPUs work through the files
(`course_app.pipeline.scheduler`), keeps a journal of what is done (`course_app.pipeline.journal`),
and writes table, grid and report (`course_app.pipeline.results`).
"""

import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from numbers import Integral
from pathlib import Path
from typing import Any

from course import __version__
from course.files import alone_in
from course.images import LARGEST, images
from course.images.images import ImageError
from course.images.reading import FITS, checked_size
from course_app.pipeline import capacity, journal, results, resuming, stages, threads
from course_app.pipeline.engines import ENGINES, NoGpu, choose_engine, choose_svd
from course_app.pipeline.inputs import Inputs, gathered
from course_app.pipeline.journal import Done, Journal
from course_app.pipeline.results import GRID_FILE, GRID_RANKS, REPORT_FILE, TABLE_FILE, Report
from course_app.pipeline.results import write_table as _write_table
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.workers import Workers

SMALLEST_SIDE = 7  # SSIM compares windows of 7x7 pixels


@dataclass(frozen=True)
class _Plan:
    """A request, checked."""

    files: list[Path]
    names: list[str]
    ranks: list[int]
    size: tuple[int, int]
    settings: dict[str, Any]
    inputs: Inputs


def reconstruct_images(
    inputs: Sequence[str | Path],
    ranks: Iterable[int],
    out: str | Path,
    *,
    size: tuple[int, int] | int = (256, 256),
    fit: str = "stretch",
    engine: str = "auto",
    progress: Callable[[list[Path]], Iterable[Path]] = iter,
    resume: bool = False,
    workers: int | None = None,
    batch: int | None = None,
    tell: Callable[[str], Any] = lambda words: None,
    scheduler: Any = None,
    gpus: int | None = None,
    svd: str = "auto",
    recursive: bool = False,
    discard: bool = False,
    replace: bool = False,
    largest: float = LARGEST,
    watch: Callable[[Scheduler], Any] = lambda scheduler: None,
) -> Report:
    """Rebuild images from their k largest singular values and write the results to a folder.

    The folder gets a PNG for each image and k, and a grid of originals and reconstructions
    (grid.png). A table (quality.csv) and a report of images that were set aside (report.json) lie
    beside them. All is first written to a hidden folder there, and moved when all is done. After an
    error or an interruption the hidden folder has what is needed to go on, or, with `discard`, is
    removed. The results have the order of the files, whichever image is ready first.

    Parameters
    ----------
    inputs : sequence of str or Path
        Image files, and folders of images.
    ranks : iterable of int
        The values of k, each from 1 to the smaller side of `size`.
    out : str or Path
        Folder for the results, made when it is not there.
    size, fit
        Size in pixels to which the images are scaled, and how, as for `images.load_image`.
    engine : {"auto", "gpu", "simulator", "numpy"}
        What rebuilds: "auto" takes the GPU where there is one and the images are enough to be
        worth its start, else NumPy.
    progress : callable
        Wraps the list of files that are worked through, as tqdm does; a step for each that is done.
    resume : bool
        Go on with an unfinished run in `out`, one that was interrupted or killed; where there is
        none, begin. Images that are the same, by path, size and time of change, are not done again;
        new and changed ones are done, those that are gone are left out.
    workers : int, optional
        At most so many processes for the CPU's work; without it one for each core. Little work
        gets fewer, or only this process. The results are the same.
    batch : int, optional
        The longest stack of images that a GPU rebuilds together. The results are the same.
    tell : callable
        Takes a sentence that the user should read before the work begins.
    scheduler : callable, optional
        Distributes the files, such as `course_app.cluster.image_files.GroupScheduler`, whose
        workers share them. ``scheduler(job, todo, batch, good)`` gives what is done; its length is
        the number of its workers. The results are the same.
    gpus : int, optional
        How many GPUs of this machine share the work, instead of one; fewer where the work is not
        worth the start of all. The results are the same.
    svd : {"cpu", "gpu", "auto"}
        What factorises: the CPU, in float64, or the GPU, in float32, which differs in the last of
        seven digits; "auto" is the GPU if it rebuilds and the images are not too large.
    recursive : bool
        Look into subfolders, too. A result's name begins with theirs, joined by two underscores.
    discard : bool
        After an error or an interruption leave nothing behind. Not together with `resume`.
    replace : bool
        Remove all results of another run from `out` in favour of this run's. Without it a folder
        with another run's results, or with files of the same names, is refused.
    largest : float
        Megapixels; larger images are set aside before they are decoded.
    watch : callable
        Called with the `Scheduler` that works on the images here, unless `scheduler` does.

    Returns
    -------
    Report

    Raises
    ------
    ImageError
        When a size, rank, engine or image cannot be used, or an unfinished run was begun with
        other settings; the message says what to change.
    OSError
        When a file or folder is missing or cannot be written.
    MemoryError
        When there is not enough memory for a single image.
    """
    if resume and discard:
        raise ImageError("resume and discard contradict each other: one keeps what the other drops")
    if os.fspath(out) == "":
        raise ImageError("the name of the folder for results is empty; a dot is the current one")
    size, ranks = _checked(ranks, size, fit)
    _count("workers", workers), _count("batch", batch), _count("gpus", gpus)
    found = gathered(inputs, out, recursive)
    work = capacity.cpu_seconds(*size, len(found.files))
    some = capacity.gpus_for(gpus or 1, work)
    count = capacity.processes_for(workers, *size, "gpu" if svd == "gpu" else "cpu")
    asked_svd, out = svd, Path(out)
    before = resuming.chosen(out) if resume and out.is_dir() else None
    if before and engine == "auto":  # a resumed run keeps its engine, however few images are left
        engine = before[0] if before[0] in ENGINES else engine
        svd = before[1] if svd == "auto" else svd
    elif engine == "auto" and svd != "gpu" and not gpus:
        if work / capacity.cores() < capacity.WORTH_A_GPU:
            engine = "small"
    with ExitStack() as stack:
        processes = None
        if scheduler is None and len(found.files) > 1 and work > capacity.WORTH_PROCESSES:
            # they begin to start while this process looks for a GPU
            count = min(count, len(found.files), max(2, round(work / capacity.WORTH_A_PROCESS)))
            processes, each = stack.enter_context(Workers()), capacity.feeders_for(some)
            if os.name == "posix" and (engine == "gpu" or svd == "gpu" or gpus):
                # start before the driver has told how many GPUs there are, which takes 0.2 s
                processes.add_gpus(some, each)
            processes.add(count)
        kind, engine_name = choose_engine(engine, gpus)
        if gpus and some < gpus:
            tell(f"{some} of {gpus} GPUs: so few images are not worth the start of more")
        svd = choose_svd(svd, kind, *size)
        if processes and kind == "gpu" and os.name != "posix":
            processes.close()  # they cannot inherit the unnamed shared file: this one does it all
            processes = None
        if processes and kind == "gpu" and not processes.gpus:
            processes.add_gpus(some, each)
        engine_name += ", SVDs, too" if svd == "gpu" else ""
        settings = {
            "k": ranks, "size": [*size], "fit": fit, "engine": kind, "course": __version__,
        } | ({"svd": svd} if svd == "gpu" else {}) | (
            {"largest": largest} if largest != LARGEST else {}
        )  # fmt: skip
        plan = _Plan(found.files, found.names, ranks, size, settings, found)
        job = stages.Job(
            size, fit, ranks, results.evenly(ranks, GRID_RANKS), out, kind, svd, largest
        )
        how = _How(
            batch or capacity.batch_for(*size, ranks), some, processes, scheduler, progress, watch,
        )  # fmt: skip
        try:
            return _reconstruct(plan, job, how, out, engine_name, resume, discard, replace, tell)
        except NoGpu as error:
            if engine != "auto" or asked_svd == "gpu" or gpus:
                raise
            why = error.why
    tell(f"no GPU can be used ({why}): NumPy computes")
    return reconstruct_images(
        inputs, ranks, out, size=size, fit=fit, engine="numpy", progress=progress, resume=resume,
        workers=workers, batch=batch, tell=tell, scheduler=scheduler, recursive=recursive,
        discard=discard, replace=replace, largest=largest, watch=watch,
    )  # fmt: skip


@dataclass(frozen=True)
class _How:
    """How `reconstruct_images` works through the images, and whom it tells of progress."""

    batch: int
    gpus: int
    workers: Workers | None
    scheduler: Any
    progress: Callable[[list[Path]], Iterable[Path]]
    watch: Callable[[Scheduler], Any]


def _reconstruct(
    plan: _Plan, job: stages.Job, how: _How, out: Path, engine_name: str,
    resume: bool, discard: bool, replace: bool, tell: Callable[[str], Any],
) -> Report:  # fmt: skip
    """Begin or go on, work through the files, write what is left."""
    begun = journal.identity(plan.settings, plan.files, plan.names)
    with _progress_in(out, begun, plan, resume, discard, tell) as kept:
        if isinstance(kept, Report):
            return _with(kept, plan.inputs)
        already = len(kept.done)
        if not kept.moving:
            results_of = (name for names in journal.outputs(begun) for name in names)
            resuming.check(out, results_of, journal.fingerprint(begun), replace)
            if job.svd == "cpu":
                at_once = len(how.workers) if how.workers else 1
                words = capacity.long_svds(*plan.size, len(plan.files) - already, at_once)
                if words:
                    tell(words)
            job = dataclasses.replace(job, folder=kept.folder)
            _work_through(plan, journal.outputs(begun), job, kept, how)
            if how.scheduler is not None:
                engine_name += f", shared by {len(how.scheduler)} workers"
        report = results.gathered(
            [*zip(plan.files, plan.names)], plan.ranks, plan.size, kept.done, engine_name, out
        )
        report = _with(dataclasses.replace(report, kept=already), plan.inputs)
        if not report.qualities:
            raise ImageError(results.nothing_readable(report.skipped))
        _write_results(plan, report, kept, journal.fingerprint(begun))
        names = [line.file for line in report.qualities]
        try:
            resuming.move(kept, [*names, *results.SUMMARIES], out)
        except OSError as error:
            raise stages.cannot_write(out, error) from error
    return report


def _with(report: Report, inputs: Inputs) -> Report:
    """A report that says, too, what was not looked at."""
    return dataclasses.replace(report, passed_over=inputs.passed_over, unreadable=inputs.unreadable)


def _count(name: str, given: int | None) -> None:
    whole = isinstance(given, Integral) and not isinstance(given, bool)
    if given is not None and not (whole and given >= 1):
        raise ImageError(f"{name} is {given!r}; it must be at least 1, a whole number")


def _checked(
    ranks: Iterable[int], size: tuple[int, int] | int, fit: str
) -> tuple[tuple[int, int], list[int]]:
    """The size, and the values of k in order, each once; ImageError where they cannot be."""
    rows, columns = size = checked_size(size)
    if min(size) < SMALLEST_SIDE:
        raise ImageError(
            f"size is {rows}x{columns}; SSIM needs at least {SMALLEST_SIDE}x{SMALLEST_SIDE} pixels"
        )
    needed, there = capacity.svd_bytes(rows, columns), capacity.memory()
    if needed > there:
        raise ImageError(
            f"size is {rows}x{columns}: the SVD of one image needs about {needed / 2**30:,.0f} GiB "
            f"of memory and this program may have {there / 2**30:,.1f}; choose a smaller size"
        )
    if fit not in FITS:
        raise ImageError(f"fit is {fit!r}; allowed are {' and '.join(map(repr, FITS))}")
    ranks = sorted({images.checked_rank(k, rows, columns) for k in ranks})
    if not ranks:
        raise ImageError("no k was given; give at least one, such as 50")
    return size, ranks


def _work_through(
    plan: _Plan, outputs: list[list[str]], job: stages.Job, kept: Journal, how: _How
) -> None:
    """Do the images that are not done, enter each in the journal."""
    good = [image for image, done in sorted(kept.done.items()) if done.reason is None]
    good = good[: journal.GRID_IMAGES]
    todo = [
        stages.Task(image, file, names)
        for image, (file, names) in enumerate(zip(plan.files, outputs, strict=True))
        if image not in kept.done
    ]
    done_ones: Iterable[Done]
    if how.scheduler is not None and len(plan.files) > 1:
        done_ones = how.scheduler(job, todo, how.batch, good)
    else:
        done_ones = Scheduler(job, todo, how.workers, how.batch, how.gpus, good)
        how.watch(done_ones)
    # An image alone may have all threads of the linear algebra; more images have one each.
    with threads.kept(), threads.one_thread() if len(plan.files) > 1 else nullcontext():
        with closing(iter(done_ones)) as finished:
            for _ in how.progress([task.file for task in todo]):
                done = next(finished)
                try:
                    kept.add(done)
                except OSError as error:
                    raise stages.cannot_write(kept.folder.parent, error) from error
    missing = len(plan.files) - len(kept.done)
    if missing:
        raise ImageError(f"progress(files) gave {missing} files less than it was given")


def _write_results(plan: _Plan, report: Report, kept: Journal, fingerprint: str) -> None:
    """Write grid, table and report to the hidden folder; the last two may have been damaged."""
    try:
        if not kept.moving:  # the pictures for it may be gone, and it is there
            _write_grid(plan, report, kept, kept.folder / GRID_FILE)
        _write_table(report.qualities, kept.folder / TABLE_FILE)
        results.write_report(report, plan.settings, fingerprint, kept.folder / REPORT_FILE)
    except OSError as error:
        raise stages.cannot_write(kept.folder.parent, error) from error


def _write_grid(plan: _Plan, report: Report, kept: Journal, path: Path) -> None:
    good = [image for image in range(len(plan.files)) if kept.done[image].reason is None]
    first = good[: journal.GRID_IMAGES]
    its = plan.size, 1 + len(results.evenly(plan.ranks, GRID_RANKS))
    shown = (stages.kept_cells(kept.folder, image, *its) for image in first)
    there = [*takewhile(lambda cells: cells is not None, shown)]
    results.write_grid(report.qualities, plan.ranks, there, path)


@contextmanager
def _progress_in(
    out: Path,
    begun: dict[str, Any],
    plan: _Plan,
    resume: bool,
    discard: bool,
    tell: Callable[[str], Any],
) -> Iterator[Journal | Report]:
    """Give this run's journal, new or resumed, in a hidden folder that no other process uses.

    At the end all such folders are removed. After an error only this one is removed, if nothing in
    it is of use or the user discards it. Where this very run is finished already, its report is
    given instead.
    """
    kept = report = None
    finished = False
    locked = ExitStack()
    try:
        try:
            locked.enter_context(alone_in(out))
            if resume:
                kept = resuming.resume(out, begun, tell)
                report = None if kept else results.finished(out, journal.fingerprint(begun))
            elif journal.unfinished(out):
                tell(
                    f"an unfinished run lies in {str(out)!r}: --resume goes on with it; this run "
                    "begins again, and removes it at its end"
                )
            if not report:
                kept = kept or journal.begin(out, begun)
        except OSError as error:
            if error.errno is None:  # it says by itself what is in the way
                raise
            raise stages.cannot_write(out, error) from error
        yield report or kept
        if kept:
            kept.remove()
        journal.clear(out)
        finished = True
    except BaseException as error:
        if kept and _worth_keeping(kept, discard):
            error.add_note(
                f"{len(kept.done)} of {len(plan.files)} images are done and kept; the same command "
                "with --resume goes on"
            )
        raise
    finally:
        with _undisturbed(), locked:
            if kept and not finished:
                if _worth_keeping(kept, discard):
                    kept.close()
                else:
                    kept.remove()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Clean up to the end, however often Ctrl-C is pressed meanwhile."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)):
            if number and callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _worth_keeping(kept: Journal, discard: bool) -> bool:
    good = any(done.reason is None for done in kept.done.values())
    return kept.folder.is_dir() and (kept.moving or (good and not discard))
