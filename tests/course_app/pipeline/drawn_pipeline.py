"""Drawn faults, damage, control groups and folders for `reconstruct`, and what is right for each.

    python -m tests.course_app.pipeline.drawn_pipeline faults 300 [FIRST SEED]

and damage, groups, folders.

Each kind is a function of a seed and an empty folder, which raises AssertionError where the
program was wrong. Images are small and processes are played by this one: a draw takes some ms.
"""

import errno
import faulthandler
import functools
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

import course
from course import __main__ as command_line
from course import files
from course.images import reading, shortage
from course_app.pipeline import (
    capacity,
    engines,
    inputs,
    journal,
    limits,
    pipeline,
    quality,
    results,
    stages,
    worker,
)  # fmt: skip
from course_app.pipeline import scheduler as line
from course_app.pipeline.shared_buffers import SharedBuffers, SharedFile
from course_app.pipeline.workers import Ended, how_it_ended
from tests.course_app.pipeline_parts import TIMEOUT, contents, draw_quickly, some_images

COUNT, SIZE, RANKS = 7, 16, (2, 5)
BROKEN = "image02.png"

# --- faults ---------------------------------------------------------------------------------------


class Faults:
    """Errors that the machine raises: where, over which images, how many times."""

    def __init__(self, draw):
        self.points = {}
        for _ in range(draw.choice((1, 1, 2, 4))):
            where = draw.choice(("open", "decode", "factorise", "save", "cells", "journal", "move"))
            image = draw.randrange(COUNT)
            kinds = drawn_shortages(draw)
            whoever = where in ("journal", "move", "cells", "save")
            error = draw.choice(kinds[:2] if whoever else kinds)
            self.points[where, image] = [draw.choice((1, 1, 2, 3, 99)), error]

    def at(self, where, image):
        left = self.points.get((where, image))
        if left is not None and left[0] > 0:
            left[0] -= 1
            raise left[1]()


def drawn_shortages(draw):
    """What makes an error: the first two of any process, then those of one that decodes."""
    number = draw.choice(sorted(shortage.ALL))
    status = draw.choice((-9, -9, -15, -7, -24))
    return (
        MemoryError,
        lambda: OSError(number, os.strerror(number)),
        lambda: OSError("out of memory error when reading image file"),
        lambda: RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        lambda: Killed(how_it_ended(status), status),
    )


class Killed(Ended, MemoryError):
    """A process is killed; this one, which nobody restarts, has no memory then."""

    def __init__(self, how, status):
        super().__init__(how, status)
        self.status = status


class FakeHand:
    """A process, played by the thread that asks it."""

    def __init__(self, workers, descriptor):
        self.workers, self.descriptor, self.pid = workers, descriptor, 0

    def begin(self, job, layout):
        self.job, self.buffers = job, layout and SharedBuffers(layout, self.descriptor)

    def do(self, work):
        answer = worker.done(self.job, work, self.buffers)
        error = answer.error
        if isinstance(error, Killed) and error.status == -24:  # and no other can be started
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if isinstance(error, Killed):
            raise Ended(str(error), error.status)
        return answer

    def stop(self):
        pass

    close = stop


class FakeWorkers:
    """Processes that are played."""

    def __init__(self):
        self.shared, self.hands, self.gpus = SharedFile(), [], []

    def add(self, count):
        self.hands += [FakeHand(self, self.shared.descriptor) for _ in range(count)]

    def add_gpus(self, *_):
        pass

    def stop(self):
        pass

    def close(self):
        self.shared.close()

    def __len__(self):
        return len(self.hands)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()


class FakeGpu:
    """What `OnGpu` does, by NumPy."""

    def __init__(self, size, ranks, batch, svd):
        self.ranks, self.compile = ranks, lambda: None

    def __call__(self, images, factors, lines, wanted=(), sizes=None):
        mse, ssim = np.empty((2, len(self.ranks), len(images)))
        found = engines.Judged(mse, ssim, {})
        for place, image in enumerate(images):
            its = [part[place][None] for part in factors]
            rebuilt = [stack[0] for stack in engines.by_numpy(*its, self.ranks)]
            for number, one in enumerate(quality.quality_of(image, rebuilt)):
                mse[number, place], ssim[number, place] = one.mse, one.ssim
                lines[number, place] = one.lines
            if place in wanted:
                found.pictures[place] = [image.copy(), *rebuilt]
        return found


def number_of(path):
    """The image that a file belongs to."""
    name = Path(path).name
    digits = "".join(letter for letter in name if letter.isdigit()) or "0"
    return int(digits[:2] if name.startswith("image") else digits[0])


@contextmanager
def machine(mode, faults):
    """Processes are played, and the faults happen."""
    gpus = [ExitStack() for _ in range(2)]
    patches = [
        mock.patch.object(results, "write_grid", draw_quickly),
        mock.patch.object(capacity, "WORTH_PROCESSES", math.inf if "alone" in mode else 0),
        mock.patch.object(capacity, "WORTH_A_PROCESS", 1e-9),
        mock.patch.object(pipeline, "Workers", FakeWorkers),
        mock.patch.object(line, "OnGpu", FakeGpu),
        mock.patch.object(line, "gpus_cuda", lambda: SimpleNamespace(gpus=gpus)),
    ]
    if mode.startswith("gpu"):
        chosen = mock.patch.object(pipeline, "choose_engine", lambda *_: ("gpu", "the GPU"))
        patches += [chosen, mock.patch.object(pipeline, "choose_svd", lambda *_: "cpu")]

    def failing(owner, name, where, image_of):
        real = getattr(owner, name)

        def fails(*given, **options):
            faults.at(where, image_of(given))
            return real(*given, **options)

        return mock.patch.object(owner, name, fails)

    if faults is not None:
        current = {}

        def opened(given):
            return number_of(given[0].name)

        def decoded(given):
            current["image"] = number_of(given[0])
            return current["image"]

        patches += [
            failing(reading.Image, "open", "open", opened),
            failing(stages, "decode", "decode", decoded),
            failing(stages, "factorise", "factorise", lambda given: current.get("image", 0)),
            failing(files, "write_new", "save", lambda given: number_of(given[0])),
            failing(stages, "keep_cells", "cells", lambda given: given[1].image),
            failing(pipeline.Journal, "add", "journal", lambda given: given[1].image),
            failing(os, "replace", "move", lambda given: number_of(given[0])),
        ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def rebuild(folder, out, mode="alone", faults=None, **options):
    with machine(mode, faults):
        given = {"size": SIZE, "engine": "auto", "batch": 3} | options
        return pipeline.reconstruct_images([folder], RANKS, out, **given)


_wholes = {}


def whole(mode):
    """A folder of images, and what a run leaves that nothing disturbs."""
    if mode not in _wholes:
        place = Path(tempfile.mkdtemp(prefix="drawn-"))
        folder = some_images(place / "in", COUNT)
        (folder / BROKEN).write_bytes(b"no image")
        rebuild(folder, place / "out", mode)
        _wholes[mode] = folder, contents(place / "out")
    return _wholes[mode]


def faults(seed, place):
    """After faults of the machine a run that goes on ends as one that nothing disturbed.

    Nothing is set aside for them; what they end tells so by an error of the system or of memory.
    """
    draw = random.Random(seed)
    mode = draw.choice(("alone", "processes", "processes", "gpu", "gpu alone"))
    folder, expected = whole("gpu" if mode.startswith("gpu") else "alone")
    out = place / "out"
    for number in range(draw.choice((1, 1, 2, 3))):
        drawn, options = Faults(draw), {"resume": number > 0, "workers": draw.choice((1, 2, 3))}
        try:
            report = rebuild(folder, out, mode, drawn, **options)
        except (OSError, MemoryError) as error:  # as the command line tells in a sentence
            assert shortage.is_shortage(error) or isinstance(error, ChildProcessError), error
        else:
            assert [os.path.basename(file) for file, _ in report.skipped] == [BROKEN]
            assert contents(out) == expected
    report = rebuild(folder, out, mode, resume=True)
    assert [os.path.basename(file) for file, _ in report.skipped] == [BROKEN]
    assert contents(out) == expected


# --- damage ---------------------------------------------------------------------------------------


def told(*words):
    """The command in this process: its status, and what it says on standard error."""
    said, err = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(err):
        try:
            status = command_line.main([str(word) for word in words])
        except SystemExit as exit:
            status = exit.code
    return status, err.getvalue()


def reconstruct(folder, out, *more):
    with machine("alone", None):
        given = ["--k", *RANKS, "--size", SIZE, "--engine", "numpy", "--out", out, *more]
        return told("reconstruct", folder, *given)


@functools.cache
def begun_folders():
    """Folders for results as a run leaves them that was stopped, died while it moved, or ended."""
    folder, _ = whole("alone")
    place = Path(tempfile.mkdtemp(prefix="drawn-"))

    def stop(files):
        yield from files[:5]
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        rebuild(folder, place / "stopped", engine="numpy", progress=stop)
    left, real = [5], os.replace

    def dies(*paths):
        if Path(paths[1]).parent == place / "moving":
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
        real(*paths)

    with mock.patch.object(os, "replace", dies), suppress(KeyboardInterrupt):
        rebuild(folder, place / "moving", engine="numpy")
    rebuild(folder, place / "ended", engine="numpy")
    rebuild(some_images(place / "other in", 3), place / "other", engine="numpy")
    return place


NODES = (
    None,
    True,
    -1,
    5,
    2.5,
    10**30,
    "",
    "../../elsewhere/holiday",
    "a\0b",
    "\ud800",
    [],
    {},
    [[]],
)


def changed_node(draw, content):
    """The same JSON with one node, drawn, of another kind."""
    ways = []

    def look(node, way):
        if way:
            ways.append(way)
        if isinstance(node, dict | list):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                look(value, (*way, key))

    look(content, ())
    *way, last = draw.choice(ways) if ways else [None]
    if last is None:
        return draw.choice(NODES)
    node = content
    for key in way:
        node = node[key]
    if draw.random() < 0.2:
        del node[last]
    else:
        node[last] = draw.choice(NODES)
    return content


def damage_file(draw, file, elsewhere):
    """Cut a file, change bytes or a node of it, or replace it by something else."""
    content = bytearray(file.read_bytes())
    how = draw.choice(("cut", "flip", "flip", "node", "node", "insert", "link", "odd"))
    if how == "node" and file.suffix in (".json", ".jsonl"):
        lines = content.decode().splitlines() if file.suffix == ".jsonl" else [content.decode()]
        number = draw.randrange(len(lines))
        lines[number] = json.dumps(changed_node(draw, json.loads(lines[number])))
        content = bytearray("\n".join(lines).encode() + b"\n")
    elif how == "cut":
        del content[draw.randrange(len(content) + 1) :]
    elif how == "insert":
        what = draw.choice((b"\0", b'"', b"\n", b"[" * 99_999, os.urandom(9), b"x" * 140_000))
        place = draw.randrange(len(content) + 1)
        content[place:place] = what
    elif how == "flip":
        for _ in range(draw.choice((1, 1, 1, 4)) if content else 0):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.unlink()
    if how == "link":
        victim = elsewhere / f"victim{file.suffix}"
        victim.write_bytes(content)
        file.symlink_to(victim)
    elif how == "odd":
        draw.choice(
            (
                file.mkdir,
                lambda: hasattr(os, "mkfifo") and os.mkfifo(file),
                lambda: None,
                file.touch,
            )
        )()
    else:
        file.write_bytes(content)


def planted(draw, out, elsewhere, folder):
    """Plant a stranger's unfinished run in a folder, with links and names that lead elsewhere."""
    place = out / f".unfinished-{draw.randrange(9)}planted"
    place.mkdir()
    name = draw.choice(("../elsewhere/holiday", str(elsewhere / "holiday"), "mine", "..", "\0"))
    ours = {"k": [2, 5], "size": [SIZE, SIZE], "fit": "stretch", "engine": "numpy",
            "course": course.__version__}  # fmt: skip
    image = folder / "image00.png"
    status = image.stat()
    begun = {
        "settings": ours | {"k": draw.choice(([2, 5], ["2"], [2], [2]))},
        "files": [[str(image), status.st_size, status.st_mtime_ns, name]],
    }
    if draw.random() < 0.4:  # the very run, which names nothing odd
        files = sorted(folder.iterdir())
        begun = journal.identity(ours, files, [file.stem for file in files])
    count = len(begun["settings"]["k"])
    size = (elsewhere / "holiday_k2.png").stat().st_size
    # a file of that very name and size in the folder is what such a run wrote
    sizes = [size + (name == "mine")] * count
    lines = [begun, [0, [[33.0, 0.9, 0.001]] * count, sizes, None]][: draw.choice((1, 2, 2))]
    lines += ["moving"] * draw.randrange(2)
    (place / "journal.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    for name in ("image00_k2.png", "image03_k5.png", "grid-0.npz", ".grid.png.1.part"):
        if draw.random() < 0.5:
            (place / name).symlink_to(elsewhere / "holiday_k2.png")
        elif draw.random() < 0.3:
            os.link(elsewhere / "holiday_k2.png", place / name)


def damage(seed, place):
    """Damaged or strange files in a folder for results: the same results, or a sentence.

    No file beside that folder is touched, nor the user's own in it.
    """
    draw = random.Random(seed)
    folder, expected = whole("alone")
    state = draw.choice(("stopped", "stopped", "moving", "ended", "other"))
    out, elsewhere = place / "out", place / "elsewhere"
    shutil.copytree(begun_folders() / state, out)
    elsewhere.mkdir()
    picture = next(iter(out.rglob("*_k2.png")))
    for own in (elsewhere / "holiday_k2.png", out / "mine_k2.png"):
        own.write_bytes(picture.read_bytes())
    ours = [*out.rglob("*.npz"), *out.rglob("*.json"), *out.rglob("*.csv"), *out.rglob("*.jsonl")]
    damaged = draw.sample(ours, min(len(ours), draw.choice((1, 1, 2, 3))))
    for file in damaged:
        damage_file(draw, file, elsewhere)
    if draw.random() < 0.3:
        planted(draw, out, elsewhere, folder)
    before = contents(elsewhere)
    more = draw.choice(([], ["--resume"], ["--resume"], ["--replace"]))
    status, err = reconstruct(folder, out, *more)
    assert "Traceback" not in err
    assert contents(elsewhere) == before, "a file elsewhere was touched"
    assert (out / "mine_k2.png").read_bytes() == picture_of(before), "the user's own was touched"
    if status == 2:
        assert err.count("error: ") == 1 and len(err.splitlines()) <= 2, err
        return
    assert status == 0, err
    found = contents(out)
    del found["mine_k2.png"]
    if json.loads(found["report.json"]) == json.loads(expected["report.json"]):
        found["report.json"] = expected["report.json"]  # damage may be blanks
    if state == "other" and len(damaged) == 2:  # nothing says any more what was another run's
        found = {name: content for name, content in found.items() if name in expected}
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    wrong = [name for name in expected if found[name] != expected[name]]
    assert not wrong or state == "other", wrong


def picture_of(before):
    return before["holiday_k2.png"]


# --- control groups -------------------------------------------------------------------------------

SLURM = (  # variables, and the MiB or cores that they come to
    ({}, None, None),
    ({"SLURM_MEM_PER_NODE": "3000"}, 3000, None),
    ({"SLURM_MEM_PER_NODE": "2G", "SLURM_CPUS_PER_TASK": "3"}, 2048, 3),
    ({"SLURM_MEM_PER_CPU": "1500", "SLURM_CPUS_ON_NODE": "4"}, 6000, 4),
    ({"SLURM_MEM_PER_CPU": "1500", "SLURM_CPUS_PER_TASK": "2"}, 3000, 2),
    ({"SLURM_MEM_PER_GPU": "700", "SLURM_GPUS_ON_NODE": "2"}, 1400, None),
    ({"SLURM_MEM_PER_NODE": "0", "SLURM_CPUS_PER_TASK": "many"}, None, None),
)


def groups(seed, place):
    """Memory and cores are the least of what the groups above a process have, as far as shown."""
    draw = random.Random(seed)
    way = [f"{draw.choice(('job', 'user.slice', 'a b', 'docker'))}{n}" for n in range(4)]
    way = way[: draw.randrange(5)]
    memory, cores = [16 << 30], [12]
    lines = ["9:name=systemd:/elsewhere", "8:pids:/"]
    mounts = [
        "31 23 0:28 / /sys rw - sysfs sysfs rw",
        "nonsense",
        "40 31 0:9 / /x rw - cgroup c rw",
    ]
    for number, controller in enumerate(("memory", "cpu")):
        second = draw.random() < 0.5
        # levels above the mount
        shown = draw.choice((0, 0, draw.randrange(len(way) + 1), len(way)))
        hidden, namespace = draw.random() < 0.15, draw.random() < 0.5
        mounted = f"/sys/fs/cgroup/{draw.choice(('it', 'a mount'))}{number}"
        own, top = ("/".join(["", *its]) or "/" for its in (way, way[:shown]))
        if namespace:
            own, top = "/".join(["", *way[shown:]]) or "/", "/"
        if hidden:
            own = draw.choice(("/../other", "/quite/another", own + "x" if own != "/" else "/.."))
            top = "/" if ".." in own else "/somewhere"
        if second and any(line.startswith("0::") for line in lines):
            second = False
        lines.append(f"0::{own}" if second else f"{number + 2}:{controller},{controller}set:{own}")
        about = "cgroup2 cgroup2 rw" if second else f"cgroup cgroup rw,{controller},{controller}set"
        escaped = [text.replace(" ", "\\040") for text in (top, mounted)]
        mounts.append(
            f"3{number} 31 0:3{number} {escaped[0]} {escaped[1]} rw,nosuid shared:1 - {about}"
        )
        if draw.random() < 0.3 and not hidden:  # somebody else's group
            foreign = place / f"foreign{number}"
            foreign.mkdir()
            write_limits(foreign, controller, second, 1)
            mounts.append(f"5{number} 31 0:3{number} /of/others /foreign{number} rw - {about}")
        for level in range(shown, len(way) + 1):
            folder = place.joinpath(mounted[1:], *way[shown:level])
            folder.mkdir(parents=True, exist_ok=True)
            limit = draw.choice((None, 0, draw.randrange(1, 9)))
            write_limits(folder, controller, second, limit)
            seen = not hidden or level == shown
            if limit and seen:
                (memory if controller == "memory" else cores).append(
                    limit << 30 if controller == "memory" else limit
                )
    (place / "proc/self").mkdir(parents=True)
    (place / "proc/self/cgroup").write_text("\n".join(draw.sample(lines, len(lines))) + "\n")
    (place / "proc/self/mountinfo").write_text("\n".join(mounts) + "\n")
    variables, mib, count = draw.choice(SLURM)
    memory, cores = [*memory, (mib or 1 << 20) << 20], [*cores, count or 99]
    system = {"SC_PHYS_PAGES": 1 << 22, "SC_PAGE_SIZE": 4096}.__getitem__
    clean = {name: value for name, value in os.environ.items() if "SLURM" not in name} | variables
    with (
        mock.patch.object(limits, "ROOT", place),
        mock.patch.object(os, "sched_getaffinity", lambda _: range(12), create=True),
        mock.patch.object(os, "sysconf", system),
        mock.patch.dict(os.environ, clean, clear=True),
    ):
        assert (capacity.memory(), capacity.cores()) == (min(memory), min(cores))


def write_limits(folder, controller, second, limit):
    """A group's files: so many GiB or cores; 0 says that there is no limit, None nothing."""
    if limit is None:
        return
    if controller == "memory":
        unlimited = "max" if second else str((1 << 63) - 4096)
        name = "memory.max" if second else "memory.limit_in_bytes"
        (folder / name).write_text(f"{limit << 30 if limit else unlimited}\n")
    elif second:
        (folder / "cpu.max").write_text(f"{limit * 100_000 if limit else 'max'} 100000\n")
    else:
        (folder / "cpu.cfs_quota_us").write_text(f"{limit * 100_000 if limit else -1}\n")
        (folder / "cpu.cfs_period_us").write_text("100000\n")


# --- folders --------------------------------------------------------------------------------------


def folders(seed, place):
    """Images below a folder are found in order, and all else is counted, whatever lies there."""
    draw = random.Random(seed)
    expected, passed = [], Counter()

    def fill(folder, depth):
        below = []
        ours = draw.random() < 0.25
        if ours:
            report = {"rebuilt by": "NumPy", "k": [2], "begun with": "0123456789abcdef"}
            (folder / "report.json").write_text(json.dumps(report))
            passed[".json"] += 1
        for number in range(draw.randrange(9)):
            name = f"{draw.choice('abcXYZ')}{number}"
            kind = draw.choice(
                ("png", "png", "JPG", "txt", "none", "loop", "long", "gone", "pipe", "linked",
                 "folder", "folder", "hidden", "result", "report"),
            )  # fmt: skip
            path = folder / f"{name}.png"
            if kind in ("png", "JPG"):
                path = folder / f"{name}.{kind}"
                path.touch()
                expected.append((folder, path))
            elif kind in ("txt", "none"):
                (folder / (f"{name}.txt" if kind == "txt" else name)).touch()
                passed[".txt" if kind == "txt" else "without a suffix"] += 1
            elif kind in ("loop", "long"):
                path.symlink_to(path.name if kind == "loop" else "n" * 300)
                passed["unreadable entry"] += 1
            elif kind in ("gone", "pipe"):  # set aside when it is read
                path.symlink_to("nothing") if kind == "gone" else os.mkfifo(path)
                expected.append((folder, path))
            elif kind == "linked":
                path.symlink_to(place, target_is_directory=True)
                passed["linked folder"] += 1
            elif kind == "hidden":
                (folder / f".{name}.png").touch()
                passed["hidden"] += 1
            elif kind == "folder" and depth:
                (folder / name).mkdir()
                below.append(folder / name)
            elif kind == "result":
                path = folder / f"{name}_k2.png"
                path.touch()
                if ours:
                    passed["result of an earlier run"] += 1
                else:
                    expected.append((folder, path))
            elif kind == "report" and not ours and not (folder / "report.json").exists():
                text = draw.choice(("[]", '{"k": [2]}', "[" * 9999, '{"begun with": 3}'))
                (folder / "report.json").write_text(text)
                passed[".json"] += 1
        if draw.random() < 0.01:  # deeper than Python calls functions
            deep = folder / "zz"
            for _ in range(1100):
                deep.mkdir()
                deep = deep / "z"
            (deep.parent / "deep.png").touch()
            expected.append((deep.parent, deep.parent / "deep.png"))
        for each in below:
            fill(each, depth - 1)

    (place / "in").mkdir()
    (place / "in" / "0.png").touch()
    expected.append((place / "in", place / "in" / "0.png"))
    fill(place / "in", 2)
    found = inputs.gathered([place / "in"], place / "out", recursive=True)
    order = sorted(expected, key=lambda its: (its[0].parts, its[1].name))
    distinct = {os.path.realpath(path): path for _, path in reversed(order)}
    assert found.files == [path for _, path in order if path in set(distinct.values())]
    assert +found.passed_over == +passed and not found.unreadable
    subprocess.run(["rm", "-rf", place / "in"], check=True)  # shutil.rmtree calls itself


# --- called ---------------------------------------------------------------------------------------


def main(kind, count=300, first=0):
    """Draw so many of a kind; say which were wrong. One that hangs ends it, and is seen."""
    failed = 0
    for seed in range(int(first), int(first) + int(count)):
        faulthandler.dump_traceback_later(TIMEOUT, exit=True)
        place = Path(tempfile.mkdtemp(prefix=f"{kind}-"))
        try:
            globals()[kind](seed, place)
        except Exception as error:
            failed += 1
            print(f"{kind} {seed}: {type(error).__name__}: {error}"[:600], flush=True)
        shutil.rmtree(place, ignore_errors=True)
    print(f"{kind}: {count} drawn, {failed} wrong")


if __name__ == "__main__":
    main(*sys.argv[1:])
