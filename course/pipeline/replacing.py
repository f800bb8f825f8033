"""Results in a folder are those of one run: another's are not mixed with them.

A run that finds results of another in its folder is refused, or, if the user says so, replaces all
of them: once its own results are all there, those of the other are removed, then its own are moved
in. What was begun so is ended by `--resume`, whatever moment the process dies at.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from course.images.reading import ImageError, printable
from course.pipeline import journal, results


def check(out: Path, names: Iterable[str], fingerprint: str, replace: bool) -> None:
    """Raise where results with these names would replace others, unless the user wants that.

    Those of a run that was begun with the same are no others.

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
    """Put results in the place of others; once that has begun, a later run can end it."""
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
    """Pictures of the finished run in a folder, and of those that were killed as they moved in."""
    found = results.names_there(out) if results.is_whole(out) else set()
    for its in journal.unfinished(out):
        if its.folder != kept.folder and its.moving:
            done, names = its.done(), its.names
            there = [i for i, one in done.items() if journal.is_there(one, names[i], out)]
            found.update(name for i in there if done[i].reason is None for name in names[i])
    return found
