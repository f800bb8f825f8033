"""Going on with a run that was stopped or killed: what is the same is kept, the rest is done.

With the very same images the run is taken up where it was. Where images came, went or changed, a
new run with a hidden folder of its own goes on. Results of unchanged images are moved there, one by
one: whenever the process dies, an image's results are with the one run or with the other. The rest
stays with the old run until all is done, so that an image that comes back has its results. Runs
with other settings are never mixed.

A folder has the results of one run alone. A run that finds another's results in its folder is
refused, or, if the user says so, replaces all of them: once its own results are complete, it
removes the other's and moves its own in. If the process dies meanwhile, `--resume` completes that.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from course.images.reading import ImageError, printable
from course_app.pipeline import journal, results, stages
from course_app.pipeline.engines import ENGINES, SVDS
from course_app.pipeline.journal import Done, Journal, ResumeError, Unfinished, cells_name, outputs

#: What a setting is called on the command line.
OPTIONS = {"k": "--k", "size": "--size", "fit": "--fit", "engine": "--engine"}


def resume(
    out: Path, begun: dict[str, Any], tell: Callable[[str], Any] = lambda words: None
) -> Journal | None:
    """Go on with the unfinished runs of the same settings in `out`, which no other process uses.

    A run with the very same images is taken up; without one a new run begins. Either takes over
    the results of unchanged images (same path, size and time of change) from the other runs.

    Parameters
    ----------
    out : Path
    begun : dict
        As `identity` gives it.
    tell : callable
        Takes a sentence about images that came, went or changed.

    Returns
    -------
    Journal or None
        None where there is no unfinished run.

    Raises
    ------
    ResumeError
        When the unfinished run was begun with other settings or has no image in common.
    """
    found = journal.unfinished(out)
    wanted = [its for its in found if its.begun == begun or _in_common(its.begun, begun)]
    if not wanted:
        if found:
            raise ResumeError(_difference(found[0].begun, begun, out))
        return None
    same = next((its for its in wanted if its.begun == begun), None)
    if same is None:
        tell(f"{_changes(wanted[0].begun, begun)} since the run began: what is the same is kept")
    kept = _taken_up(same, out) if same else journal.begin(out, begun)
    try:
        if not kept.moving:
            for other in wanted:
                if other is not same:
                    _take_over(kept, begun, other, out)
            _forget_without_cells(kept, begun["settings"])
            _remove_others(kept, outputs(begun))
    except BaseException:
        kept.close()
        raise
    return kept


def chosen(out: Path) -> tuple[str, str] | None:
    """Who rebuilds and who factorises in the newest unfinished run in `out`, if there is one."""
    with suppress(OSError):
        for its in journal.unfinished(out)[:1]:
            settings = its.begun["settings"]
            found = settings.get("engine"), settings.get("svd", "cpu")
            return found if found[0] in ENGINES and found[1] in SVDS else None
    return None


def _in_common(was: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether settings are equal and images are there that are the same."""
    if was["settings"] != now["settings"]:
        return False
    return not _same(was).keys().isdisjoint(_same(now))


def _same(begun: dict[str, Any]) -> dict[tuple[Any, ...], int]:
    """The index of each image, by what must not change."""
    return {tuple(file[:3]): index for index, file in enumerate(begun["files"]) if file[1] >= 0}


def _taken_up(found: Unfinished, out: Path) -> Journal:
    """The journal of a run that goes on with the same images."""
    os.truncate(found.folder / journal.FILE, found.whole)  # drop a line that was cut off
    done, names, moving = found.done(), found.names, found.moving
    if moving and not _all_there(done, names, found.folder, out):
        _undo_move(found, out)
        moving = False
    if not moving:
        done = {i: its for i, its in done.items() if journal.is_there(its, names[i], found.folder)}
    return Journal(found.folder, done, moving)


def _all_there(done: dict[int, Done], names: list[list[str]], folder: Path, out: Path) -> bool:
    """Whether all results that were being moved are there, in `folder` or in `out`."""
    there = [(name, None) for name in results.SUMMARIES]
    for image, its in done.items():
        there += zip(names[image], its.bytes)
    return len(done) == len(names) and all(
        any(journal.is_file(where / name, size) for where in (folder, out)) for name, size in there
    )


def _take_over(kept: Journal, begun: dict[str, Any], other: Unfinished, out: Path) -> None:
    """Move another run's results of unchanged images to this run, and enter them."""
    names, new_names, indices = other.names, outputs(begun), _same(begun)
    done = other.done()
    if other.moving:
        _undo_move(other, out)
    for was, image in _same(other.begun).items():
        now = indices.get(was)
        its = done.get(image)
        if now is None or its is None or now in kept.done:
            continue
        if not journal.is_there(its, names[image], other.folder):
            continue
        if its.reason is None:
            for name, new_name in zip(names[image], new_names[now], strict=True):
                os.replace(other.folder / name, kept.folder / new_name)
            if journal.is_file(other.folder / cells_name(image)):  # few images have them
                os.replace(other.folder / cells_name(image), kept.folder / cells_name(now))
        kept.add(replace(its, image=now))


def _undo_move(found: Unfinished, out: Path) -> None:
    """Move a run's results back, and remove the journal's line that says that they are moved."""
    names = found.names
    for image, its in found.done().items():
        sizes = dict(zip(names[image], its.bytes))
        moved = [name for name in sizes if not journal.is_file(found.folder / name, sizes[name])]
        if all(journal.is_file(out / name, sizes[name]) for name in moved):
            for name in moved:
                os.replace(out / name, found.folder / name)
    line = json.dumps(journal.MOVING)
    os.truncate(found.folder / journal.FILE, found.whole - len(line) - 1)


def _forget_without_cells(kept: Journal, settings: dict[str, Any]) -> None:
    """Do images again that the grid will show and whose pictures for it are not there."""
    good = sorted(image for image, its in kept.done.items() if its.reason is None)
    count = 1 + len(results.evenly(settings["k"], results.GRID_RANKS))
    for image in good[: journal.GRID_IMAGES]:
        if stages.kept_cells(kept.folder, image, settings["size"], count) is None:
            del kept.done[image]


def _remove_others(kept: Journal, names: list[list[str]]) -> None:
    """Remove from a run's folder what its journal does not name, such as links elsewhere."""
    known = {journal.FILE, *(name for image in kept.done for name in names[image])}
    known.update(map(cells_name, kept.done))
    with os.scandir(kept.folder) as there:
        others = [entry for entry in there if entry.name not in known]
    for entry in others:
        shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)


def _difference(was: dict[str, Any], now: dict[str, Any], out: Path) -> str:
    """What differs between two runs, as one sentence and what to do."""
    told = []
    for key, value in now["settings"].items():
        before = was["settings"].get(key)
        if before != value:
            between = "x" if key == "size" else " "
            was_, is_ = (_words(each, between) for each in (before, value))
            told.append(f"{OPTIONS.get(key, key)} was {was_} and is {is_}")
    if not told:
        told.append(f"no image is the same: {_changes(was, now)}")
    return (
        f"the unfinished run in {str(out)!r} was begun with something else: {'; '.join(told)}. "
        "Go on with what it was begun with, or begin again without --resume"
    )


def _changes(was: dict[str, Any], now: dict[str, Any]) -> str:
    """Which images came, went or changed, in words."""
    told = []
    before = {path: (size, time) for path, size, time, _ in was["files"]}
    after = {path: (size, time) for path, size, time, _ in now["files"]}
    for verb, paths in (
        ("new", [path for path in after if path not in before]),
        ("gone", [path for path in before if path not in after]),
        ("changed", [p for p in after if p in before and before[p] != after[p]]),
    ):
        if paths:
            count = f"{len(paths)} images are" if len(paths) > 1 else "1 image is"
            told.append(f"{count} {verb} ({_example(paths)})")
    return "; ".join(told) or "the images come in another order"


def _words(value: Any, between: str) -> str:
    return between.join(map(str, value)) if isinstance(value, list) else str(value)


def _example(paths: list[str]) -> str:
    return repr(Path(paths[0]).name) + (", ..." if len(paths) > 1 else "")


# --- results of an earlier run --------------------------------------------------------------------


def check(out: Path, names: Iterable[str], fingerprint: str, replace: bool) -> None:
    """Raise where results with these names would replace others, unless the user wants that.

    Results of a run that was begun with the same files and settings may always be replaced.

    Raises
    ------
    IsADirectoryError
        When a folder is in the way.
    ImageError
        When there are results of another run, or files of others.
    """
    there = set(os.listdir(out))
    in_the_way = [name for name in (*names, *results.SUMMARIES) if name in there]
    for name in in_the_way:
        if (out / name).is_dir():
            raise IsADirectoryError(f"{str(out / name)!r} is a folder: in the way")
    begun_with = results.begun_with(out)
    if begun_with == fingerprint:
        return
    if replace and begun_with is not None and not results.is_whole(out):
        raise ImageError(
            f"{str(out)!r} holds results of another run, and which ones cannot be told, as their "
            f"{results.TABLE_FILE} or {results.REPORT_FILE} was changed: remove them, or choose "
            "another folder"
        )
    if replace:
        return
    cure = "choose another folder, or replace them with --replace"
    if begun_with is not None:
        count = len(results.names_there(out))
        raise ImageError(
            f"{str(out)!r} holds results of a run with other images or options "
            f"({count:,} picture{'' if count == 1 else 's'}): {cure}"
        )
    if in_the_way:
        raise ImageError(
            f"{str(out)!r} holds {printable(in_the_way[0])!r}, which is no result of a finished "
            f"run{' (and more)' * (len(in_the_way) > 1)}: {cure}"
        )


def move(kept: journal.Journal, names: list[str], out: Path) -> None:
    """Replace other runs' results by this run's; a later run can complete a move that has begun."""
    if not kept.moving:
        kept.begin_moving()
    for name in _of_others(kept, out) - set(names):
        (out / name).unlink(missing_ok=True)
    here, there = str(kept.folder), str(out)  # to join strings costs a tenth of joining paths
    for name in names:
        try:
            os.replace(os.path.join(here, name), os.path.join(there, name))
        except FileNotFoundError:
            if not (out / name).is_file():  # else moved by the run that was killed
                raise


def _of_others(kept: journal.Journal, out: Path) -> set[str]:
    """Pictures in `out` of the finished run there, and of runs that were killed as they moved."""
    found = results.names_there(out) if results.is_whole(out) else set()
    for its in journal.unfinished(out):
        if its.folder != kept.folder and its.moving:
            done, names = its.done(), its.names
            there = [i for i, one in done.items() if journal.is_there(one, names[i], out)]
            found.update(name for i in there if done[i].reason is None for name in names[i])
    return found
