"""Files of the course's own that were damaged or planted: the same result, or a sentence.

Drawn: a file of each kind, and what happened to it. Whatever that was, reading it gives what the
whole file gives, or raises the one error of its kind with one line; nothing in it is executed, and
memory is bounded by the file's length. `COURSE_DRAWS=1000 pytest` of this file draws more.
"""

import functools
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from course import kernel_cache
from course.__main__ import main
from course.checks import progress
from course.checks.exercises import exercises
from course.files import FolderInUse, alone_in
from course.measure import recorded
from course.measure.recorded import Figure
from course_app.commands import vae
from course_app.commands.vae import Refused
from course_lessons.copies import RECORD, Copies
from course_lessons.lesson13.digits.network import Weights
from course_models import digits
from course_models.vae import data, weights
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training
from course_recording.kept_rows import Unfinished
from warpsim.core import own_files
from warpsim.front import numba_typing

DRAWS = int(os.environ.get("COURSE_DRAWS", "12"))
SHAPE = VAEShape(16, 6, 3)
LOSSES = [3.5, 2.25, 1.125, 1.0]


class Planted:
    """Unpickled it leaves a folder."""

    def __reduce__(self):
        return os.mkdir, ("EXECUTED",)


PICKLE = pickle.dumps(Planted())


# --- what happened to a file ----------------------------------------------------------------------


def damaged(rng, content):
    """A file's bytes, cut, changed in places, or another file's."""
    a, b = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    bits = bytearray(content)
    for place in rng.integers(0, len(content), rng.integers(1, 4)):
        bits[place] ^= 1 << rng.integers(8)
    deep = b"[" * 100_000
    return (
        content[:a], content[:a] + content[b:], content[:b] + content[a:], bytes(bits), bytes(bits),
        content[:a] + bytes(b - a) + content[b:], content[:a] + rng.bytes(b - a) + content[b:],
        content + rng.bytes(9), content[: a // 64] + content, b"", b"\0", b"hello\n", b"\xff\xfe{",
        PICKLE, deep, b'{"a":' * 30_000, b"\x89PNG\r\n\x1a\n" + content,
        gzip.compress(content)[:-a], np.random.default_rng(a).bytes(len(content)),
    )[rng.integers(19)]  # fmt: skip


def edited(rng, content):
    """The text of a file with a word in the place of another."""
    words = content.decode().replace(",", " , ").replace('"', ' " ').split(" ")
    place = rng.integers(len(words))
    others = (
        "-1", "0", "1e999", "nan", "9" * 5000, "null", "[]", "{}", "true", "é", "x", "", "2**31",
        words[rng.integers(len(words))], "\n", "a" * 200_000,
    )  # fmt: skip
    words[place] = others[rng.integers(len(others))]
    return " ".join(words).replace(" , ", ",").replace(' " ', '"').encode()


def rezipped(rng, content):
    """An .npz file with a member that says or is something else."""
    members = dict(np.load(io.BytesIO(content)).items())
    name = [*members][rng.integers(len(members))]
    given, target = members.pop(name), io.BytesIO()
    packing = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)[rng.integers(3)]
    changed = (
        given, given, given.astype(given.dtype.newbyteorder()), np.zeros(7, "f2"), np.array(1j),
        np.array([Planted()], object), np.zeros(0, "f4"), np.array("text"), np.array(b"raw"),
        given[..., None], np.asfortranarray(given),
    )[rng.integers(11)]  # fmt: skip
    part = io.BytesIO()
    np.save(part, changed)
    told = {"descr": "<f4", "fortran_order": False, "shape": given.shape}
    told |= (
        {}, {"shape": (2**40,)}, {"shape": (2**33, 2**33)}, {"shape": (-1, -4)}, {"descr": "|O"},
        {"shape": (2**62, 4)}, {"descr": "<U0", "shape": (2**50,)}, {"shape": (0, 2**80)},
        {"descr": "<U999999999"}, {"shape": (1,) * 99}, {"descr": [("a", "<f4", (2**29,))]},
    )[rng.integers(11)]  # fmt: skip
    lying = io.BytesIO()
    np.lib.format.write_array_header_1_0(lying, told)
    bomb = bytes(rng.integers(1, 9) << 19)
    lie = lying.getvalue()
    content = part.getvalue(), lie, lie + given.tobytes(), lie + bomb
    with zipfile.ZipFile(target, "w", packing) as archive:
        for other, array in members.items():
            part = io.BytesIO()
            np.save(part, array)
            archive.writestr(f"{other}.npy", part.getvalue())
        for _ in range(1 + (rng.random() < 0.1)):  # or twice
            archive.writestr(f"{name}.npy", content[rng.integers(4)])
        if rng.random() < 0.2:
            archive.writestr(("../out.npy", "more.npy", "x" * 999)[rng.integers(3)], b"x")
    whole = bytearray(target.getvalue())
    if rng.random() < 0.3:  # the directory lies about a member's length
        at = whole.rfind(b"PK\1\2") + (20, 24)[rng.integers(2)]
        whole[at : at + 4] = struct.pack("<I", (0, 5, 2**31, 2**32 - 1)[rng.integers(4)])
    return bytes(whole)


def repacked(rng, content):
    """An IDX file, compressed or not, with other lengths or more behind it."""
    raw = bytearray(gzip.decompress(content))
    place = 4 * rng.integers(1, 1 + raw[3])
    raw[place : place + 4] = struct.pack(">I", (0, 1, 2**16, 2**31, 2**32 - 1)[rng.integers(5)])
    raw[2 + rng.integers(2)] ^= (rng.random() < 0.2) << rng.integers(8)
    more = (b"", b"x", bytes(8 << 20))[rng.integers(3)]
    return (gzip.compress(bytes(raw) + more, 1), bytes(raw), content + gzip.compress(more, 1))[
        rng.integers(3)
    ]


# --- kinds of files -------------------------------------------------------------------------------


@functools.cache
def training():
    begun = Training.begun(SHAPE, batch=30)
    return Training(SHAPE, begun.weights, begun.first, begun.second, 4, 30, 0, 0.5,
                    vae.digest(LOSSES))  # fmt: skip


def arrays_of(its):
    return {name: array.tobytes() for name, array in its.items()}


class Vae:
    ways, error = (damaged, rezipped), ValueError

    def write(self, path):
        training().save(path)

    def read(self, path):
        its = Training.load(path)
        parts = [arrays_of(part) for part in (its.weights, its.first, its.second)]
        assert arrays_of(weights.load(path)[1]) == parts[0]
        return parts, its.step, its.batch, its.seed, its.rate, its.losses


class Stored(Vae):
    def write(self, path):
        Weights.random(4).save(path)

    def read(self, path):
        its = Weights.load(path)
        return arrays_of(its.as_dict()), its.activation


class Losses:
    ways, error = (damaged, edited), (Refused, OSError)

    def write(self, path):
        rows = "".join(f"{step},{loss!r}\n" for step, loss in enumerate(LOSSES))
        path.write_text(f"# crc32 of the images=7\nstep,loss\n{rows}4,9.5\n")

    def read(self, path):
        return vae._losses_before(path, training(), 7, "own.bin")


class Mnist:
    ways, error, said = (damaged, repacked), digits.BadDigits, None

    def write(self, path):
        images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), np.uint8)
        for name, array in zip(digits.PARTS["train"], (images, np.arange(5)), strict=True):
            axes = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            content = gzip.compress(axes + array.astype(np.uint8).tobytes(), mtime=0)
            path.with_name(name).write_bytes(content)
        path.write_bytes(path.with_name(digits.PARTS["train"][0]).read_bytes())

    def read(self, path):
        shutil.copy(path, path.with_name(digits.PARTS["train"][0]))
        return arrays_of(dict(zip("xy", digits.mnist_bytes(path.parent), strict=True)))


class Labels(Mnist):
    def write(self, path):
        super().write(path)
        path.write_bytes(path.with_name(digits.PARTS["train"][1]).read_bytes())

    def read(self, path):
        shutil.copy(path, path.with_name(digits.PARTS["train"][1]))
        images, labels = digits.mnist_bytes(path.parent)
        assert len(images) == len(labels) == 5 and labels.max() < 10


class Answers:
    """What cannot be read is asked anew: it says nothing."""

    ways, error = (damaged, edited), ()

    def write(self, path):
        text = json.dumps({"call math.sin float32": ["float32"] * 2}).encode()
        own_files.keep(path, text)
        path.chmod(0o600)

    def read(self, path):
        return numba_typing._read(path) or None


class Parts:
    ways, error = (damaged, edited), ()

    def write(self, path):
        figures = [Figure("k", "v", "8", "float32", "time", "ms", 1.0, 0.5, 2.0, 30, 8.0, None)]
        Unfinished(path, {"gpu": "fake"}).add("part", figures, ["a note"])

    def read(self, path):
        said = []
        found = Unfinished.found(path, {"gpu": "fake"}, said.append)
        assert bool(said) != bool(found.parts)
        return found.parts or None


class Figures:
    """Whoever changes a digit in it says something else: only its form can be wrong."""

    ways, error = (damaged, edited), recorded.BadMeasurements

    def write(self, path):
        figures = [Figure("k", v, "8", "float32", "time", "ms", 1.0, 0.5, 2.0, 30, 8.0, None)
                   for v in "ab"]  # fmt: skip
        recorded.write(path, {"gpu": "fake", "course": "1", "date": "2020-02-02"}, figures)

    def read(self, path):
        str(recorded.read(path))


class Records:
    ways, error = (damaged, edited), ()

    def write(self, path):
        name = next(iter(exercises()), "none")
        entry = progress.Record(name, 1, "passed", "", "0123abcd", "2020-02-02T00:00:00+00:00")
        path.write_text(f"{json.dumps(vars(entry))}\n" * 3)

    def read(self, path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COURSE_PROGRESS", str(path))
            patch.setattr(progress, "_records", {})
            found = progress.progress()
            assert found.to_markdown() and found._repr_html_() and repr(found)


class Copied:
    ways, error = (damaged, edited), OSError

    def write(self, path):
        work = path.with_name("work")
        (path.parent / "originals").mkdir(exist_ok=True)
        (path.parent / "originals" / "00_a.ipynb").write_text("a")
        Copies(work, path.parent / "originals", "work", "").fill()
        path.write_bytes((work / RECORD).read_bytes())

    def read(self, path):
        shutil.copy(path, path.with_name("work") / RECORD)
        Copies(path.with_name("work"), path.parent / "originals", "work", "").fill()
        assert path.with_name("work").joinpath("00_a.ipynb").read_text() == "a"


class Binary(Figures):
    ways, error = (damaged,), digits.BadDigits

    def write(self, path):
        data.write(path, np.full((5, 16), 7, np.uint8), np.arange(5))

    def read(self, path):
        data.read(path)


class Kernels:
    ways, error = (damaged,), ()
    cache = kernel_cache.DiskCache(None)

    def write(self, path):
        self.cache._file = lambda signature: path
        self.cache.save_overload("", SimpleNamespace(_reduce_states=lambda: {"words": "code"}))

    def read(self, path):
        if not path.exists():
            return None
        return self.cache.load_overload("", SimpleNamespace(refresh=lambda: None))


KINDS = Vae, Stored, Losses, Mnist, Labels, Answers, Parts, Figures, Records, Copied
KINDS = (*KINDS, Binary, Kernels)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rebuilt(monkeypatch):
    """numba-cuda's part of what is kept of a kernel."""
    dispatcher = pytest.importorskip("numba.cuda.dispatcher")
    rebuild = SimpleNamespace(_rebuild=lambda words: words)
    monkeypatch.setattr(dispatcher, "_Kernel", rebuild)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_file_gives_the_same_or_a_sentence(kind, here, request):
    if kind is Kernels:
        request.getfixturevalue("rebuilt")
    its, path = kind(), here / "file.npz"
    its.write(path)
    good, whole = path.read_bytes(), its.read(path)
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        path.write_bytes(its.ways[rng.integers(len(its.ways))](rng, good))
        path.chmod(0o600)
        size = path.stat().st_size
        for _ in range(3):  # other threads take memory now and then, and it is counted
            tracemalloc.start()
            try:
                assert its.read(path) in (whole, None), seed
            except its.error as problem:
                assert str(problem) and "\n" not in str(problem), seed
            finally:
                most = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            if most < 40 * size + (6 << 20):
                break
        else:
            pytest.fail(f"seed {seed}: {most} bytes for {size}")
        assert not Path("EXECUTED").exists(), seed


# --- whose file it is -----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are POSIX's")
@pytest.mark.parametrize("kind", [Kernels, Answers], ids=lambda kind: kind.__name__)
def test_a_cache_reads_what_nobody_else_can_have_written(kind, here, rebuilt, monkeypatch):
    its, path, other = kind(), here / "kept", here / "other"
    its.write(path)
    good, whole = path.read_bytes(), its.read(path)
    assert path.stat().st_mode & 0o77 == 0 and whole
    if kind is Kernels:
        good = kernel_cache.MARK + hashlib.sha256(PICKLE).digest() + PICKLE
    user = os.geteuid()
    for seed in range(2 * DRAWS):
        rng = np.random.default_rng(seed)
        mode, uid = int(rng.integers(0o1000)) | 0o400, int(rng.choice([user, user, user + 1]))
        way = str(rng.choice(["file", "file", "hard", "link", "pipe", "folder", "renamed"]))
        for old in (path, other):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        (path if way in ("file", "renamed") else other).write_bytes(good)
        if way == "hard":
            os.link(other, path)
        elif way == "link":
            path.symlink_to(other)
        elif way == "pipe":
            os.mkfifo(path)
        elif way == "folder":
            path.mkdir()
        path.chmod(mode)
        monkeypatch.setattr(own_files.os, "geteuid", lambda uid=uid: uid)
        trusted = way in ("file", "hard", "renamed") and uid == user and not mode & 0o22
        asked = path.rename(here / "renamed") if way == "renamed" else path
        found = its.read(asked) if kind is Answers else load(asked)
        if kind is Kernels:  # of one's own it would be executed, as any program is
            assert found is None and Path("EXECUTED").exists() == trusted, (seed, way, oct(mode))
            shutil.rmtree("EXECUTED", ignore_errors=True)
        else:
            assert found == (whole if trusted and way != "renamed" else None), (seed, way, mode)
        (here / "renamed").unlink(missing_ok=True)


def load(path):
    cache = kernel_cache.DiskCache(None)
    cache._file = lambda signature: path
    return cache.load_overload("", SimpleNamespace(refresh=lambda: None))


def test_a_kernel_that_was_renamed_is_none(here, rebuilt):
    Kernels().write(here / "one.kernel")
    assert load(here / "one.kernel") == "code"
    assert load((here / "one.kernel").rename("other.kernel")) is None


# --- two in one folder ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_one_alone_writes_to_a_folder(here, seed):
    """Threads, each with the folder for a moment; some find the file that a dead one left."""
    rng, events, folder = np.random.default_rng(seed), [], here / "a" / "b"
    with alone_in(folder):
        assert folder.is_dir()
    assert not folder.parent.exists()  # nothing was written
    if seed:
        folder.mkdir(parents=True)
        (folder / ".lock").touch()

    def work(number, offset, moment):
        time.sleep(offset)
        try:
            with alone_in(folder):
                events.append((number, "begins"))
                time.sleep(moment)
                events.append((number, "ends"))
        except FolderInUse as error:
            assert "another process writes its results to" in str(error)
            events.append((number, "refused"))

    many = [threading.Thread(target=work, args=(number, *rng.uniform(0, 0.02, 2)))
            for number in range(12)]  # fmt: skip
    for one in many:
        one.start()
    for one in many:
        one.join()
    at_work = [event for event in events if event[1] != "refused"]
    assert at_work and len(events) - len(at_work) // 2 == 12
    for (first, begins), (second, ends) in zip(at_work[::2], at_work[1::2], strict=True):
        assert first == second and (begins, ends) == ("begins", "ends")
    assert [its for its in here.rglob("*") if its.name == ".lock"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_trainings_in_one_folder_leave_a_single_ones_losses(here, seed):
    """Three processes at drawn moments, one of them killed; --resume ends what is left."""
    rng = np.random.default_rng(seed)
    data.write("own.bin", rng.integers(0, 255, (100, 16), np.uint8), np.arange(100) % 3)
    words = [sys.executable, "-m", "course", "vae", "train", "--data", "own.bin", "--hidden", "6",
             "--latent", "3", "--batch", "20", "--by", "numpy", "--epochs", "300"]  # fmt: skip
    subprocess.run([*words, "--out", "whole"], check=True, capture_output=True)
    for _ in range(2):
        running = []
        for more in rng.permutation(["--resume", "--replace", "--resume"]):
            running.append(subprocess.Popen([*words, "--out", "out", more], stderr=subprocess.PIPE))
            time.sleep(rng.uniform(0, 1))
        if rng.random() < 0.5:
            running[rng.integers(3)].kill()
        for one in running:
            said = one.communicate()[1].decode()
            assert one.returncode in (0, 2, -signal.SIGKILL) and "Traceback" not in said
            if one.returncode == 2:
                assert "another process writes its results to 'out'" in said, said
        subprocess.run([*words, "--out", "out", "--resume"], check=True, capture_output=True)
        for name in ("losses.csv", "training.npz"):
            assert Path("out", name).read_bytes() == Path("whole", name).read_bytes()


# --- the command ----------------------------------------------------------------------------------


def test_a_training_over_damaged_files_ends_the_same_or_says_why(here, capsys, monkeypatch):
    """No traceback, least of all after the work."""
    picture = SimpleNamespace(png=bytes, alternative="")
    monkeypatch.setattr(vae.vae_charts, "loss_curve", lambda *given: picture)
    data.write("own.bin", np.full((60, 16), 99, np.uint8), np.arange(60) % 3)
    words = ["vae", "train", "--data", "own.bin", "--hidden", "6", "--latent", "3", "--batch", "30"]
    words += ["--by", "numpy", "--resume", "--epochs"]
    assert main([*words, "2"]) == 0
    begun = {name: Path("vae", name).read_bytes() for name in ("training.npz", "losses.csv")}
    assert main([*words, "4"]) == 0
    ended = {name: Path("vae", name).read_bytes() for name in begun}
    for seed in range(min(DRAWS, 300) // 2):
        rng = np.random.default_rng(seed)
        for name, content in begun.items():
            Path("vae", name).write_bytes(content)
        name = ("training.npz", "losses.csv")[seed % 2]
        way = (rezipped, edited)[seed % 2] if rng.random() < 0.6 else damaged
        Path("vae", name).write_bytes(way(rng, begun[name]))
        capsys.readouterr()
        status, said = main([*words, "4"]), capsys.readouterr().err
        if status:
            assert status == 2 and said.startswith("python -m course: error: "), (seed, said)
            assert said.count("\n") == 1 and not Path("EXECUTED").exists(), seed
        else:
            assert {name: Path("vae", name).read_bytes() for name in begun} == ended, seed
