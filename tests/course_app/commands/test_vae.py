"""python -m course vae: train, stop, go on with the same bits, rebuild, sample; clear mistakes."""

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course import files, stopping
from course.__main__ import main, make_parser
from course_app.commands import vae
from course_app.commands.vae import Run
from course_models.vae import data, weights
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training

TINY = ("--hidden", "6", "--latent", "3", "--batch", "30", "--by", "numpy")


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No MNIST of the machine; results lie in the test's folder."""
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "COLAB", tmp_path / "none.csv")
    monkeypatch.setattr(stopping, "SILENCE", 3600)  # nothing is said after the test
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own(tmp_path):
    """100 images of 4 x 4 pixels, in a binary file."""
    rng = np.random.default_rng(4)
    labels = np.arange(100) % 3
    images = rng.integers(0, 60, (100, 16)) + 60 * labels[:, None]
    data.write(tmp_path / "own.bin", images.astype(np.uint8), labels)
    return tmp_path / "own.bin"


def call(capsys, *words):
    status = main(["vae", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys, *words):
    """What one line says of a mistake."""
    status, _, err = call(capsys, *words)
    assert status == 2 and err.count("\n") == 1
    return err


def same(one, other):
    return all(
        np.array_equal(its, getattr(other, which)[name])
        for which in ("weights", "first", "second")
        for name, its in getattr(one, which).items()
    )


# --- train ----------------------------------------------------------------------------------------


def test_training_leaves_weights_losses_and_their_picture(own, tmp_path, capsys):
    status, out, err = call(capsys, "train", "--data", own, *TINY, "--epochs", 4, "--rate", 0.01)
    assert status == 0 and "12 steps of 30 images by NumPy" in out and "own.bin" in out
    assert "epoch 4.0 of 4: loss" in err and "images/s" in err
    training = Training.load("vae/training.npz")
    assert (training.shape, training.step) == (VAEShape(16, 6, 3), 12)
    assert (training.batch, training.rate, training.seed) == (30, 0.01, 0)
    title, columns, *rows = (tmp_path / "vae/losses.csv").read_text().splitlines()
    assert columns == "step,loss" and [row.partition(",")[0] for row in rows] == [
        *map(str, range(12))
    ]
    losses = [float(row.partition(",")[2]) for row in rows]
    assert losses[-1] < losses[0]
    with Image.open("vae/loss.png") as picture:
        assert picture.width > 500


@pytest.mark.parametrize("steps", [2, 4])  # in the first epoch, before which nothing is kept
def test_a_training_that_is_stopped_goes_on_with_the_same_bits(own, capsys, monkeypatch, steps):
    words = ["train", "--data", own, *TINY, "--epochs", 3]
    assert call(capsys, *words, "--out", "whole")[0] == 0

    def stop(run, last):
        if run.trainer.step == steps:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "tell", stop)
        status, _, err = call(capsys, *words, "--out", "cut")
    assert status == 130 and f"stopped; {steps} of 9 steps are kept: --resume goes on" in err
    assert Training.load("cut/training.npz").step == steps
    assert call(capsys, *words, "--out", "cut", "--resume")[0] == 0
    ends = [Training.load(f"{name}/training.npz") for name in ("cut", "whole")]
    assert ends[0].step == 9 and same(*ends)
    tables = [open(f"{name}/losses.csv").read() for name in ("cut", "whole")]
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_the_gpus_trainer_is_taken_where_there_is_one(own, capsys, monkeypatch):
    words = ["train", "--data", own, *TINY[:-2], "--epochs", 2]
    call(capsys, *words, "--by", "numpy", "--out", "numpy")
    monkeypatch.setattr(vae, "backend", SimpleNamespace(gpu=lambda: "a simulated GPU"))
    status, out, err = call(capsys, *words, "--precision", "float32")
    assert status == 0 and "6 steps of 30 images by a simulated GPU" in out, err
    tables = [
        np.loadtxt(f"{name}/losses.csv", delimiter=",", skiprows=2) for name in ("numpy", "vae")
    ]
    assert np.allclose(*tables, rtol=1e-4)


def test_losses_beyond_the_training_are_passed_over(own, tmp_path, capsys):
    words = ["train", "--data", own, *TINY]
    assert call(capsys, *words, "--epochs", 1)[0] == 0
    whole = (tmp_path / "vae/losses.csv").read_text()
    (tmp_path / "vae/losses.csv").write_text(whole + "3,9e9\n4,9")  # killed while it wrote
    assert call(capsys, *words, "--epochs", 2, "--resume")[0] == 0
    text = (tmp_path / "vae/losses.csv").read_text()
    assert text.startswith(whole) and "9e9" not in text and text.count("\n") == 2 + 6


def test_a_real_signal_waits_for_the_end_of_a_step(own, capsys, monkeypatch):
    slow = vae.NumpyTrainer.run

    def run(trainer, steps):
        if trainer.step == 4:
            signal.raise_signal(signal.SIGINT)
        slow(trainer, steps)

    monkeypatch.setattr(vae.NumpyTrainer, "run", run)
    status, _, err = call(capsys, "train", "--data", own, *TINY, "--epochs", 3)
    assert status == 130 and "5 of 9 steps are kept" in err
    assert Training.load("vae/training.npz").step == 5


def test_an_interruption_that_waits_comes_afterwards():
    with pytest.raises(KeyboardInterrupt), stopping.stoppable():
        with stopping.uninterrupted():
            threading.Timer(0.01, signal.raise_signal, (signal.SIGINT,)).start()
            time.sleep(0.05)
            ended = True
        pytest.fail("nothing came")
    assert ended


def test_a_training_that_is_done_stays_as_it_is(own, capsys):
    words = ["train", "--data", own, *TINY, "--epochs", 2]
    call(capsys, *words)
    before = open("vae/training.npz", "rb").read()
    status, out, _ = call(capsys, *words, "--resume")
    assert status == 0 and "0 steps" in out and "epochs in 'vae': 2" in out
    assert open("vae/training.npz", "rb").read() == before


def test_another_training_is_not_overwritten_unless_it_is_said(own, capsys):
    words = ["train", "--data", own, *TINY, "--epochs", 1]
    call(capsys, *words)
    assert "'vae' holds a training: --resume" in refused(capsys, *words)
    assert call(capsys, *words, "--seed", 5, "--replace")[0] == 0
    assert Training.load("vae/training.npz").seed == 5


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".png"}


class Killed(BaseException):
    """As kill -9 does it: nothing is caught."""


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--resume"], ["--seed", 5, "--replace"]])
def test_killed_at_any_moment_a_training_goes_on_or_begins(
    own, tmp_path, capsys, monkeypatch, more
):
    first = ["train", "--data", own, *TINY, "--epochs", 1, "--out", "cut"]
    words = ["train", "--data", own, *TINY, "--epochs", 3, "--out"]
    call(capsys, *words, "whole", *more)
    moments, write, unlink = [], vae.write_whole, Path.unlink

    def counted(act):
        def do(*given, **how):
            moments.append(act)
            if len(moments) == at:
                raise Killed
            return act(*given, **how)

        return do

    for at in range(1, 9):
        with monkeypatch.context() as patch:
            assert call(capsys, *first, "--replace")[0] == 0
            moments.clear()
            patch.setattr(vae, "write_whole", counted(write))
            patch.setattr(weights, "write_whole", counted(write))
            patch.setattr(Path, "unlink", counted(unlink))
            with contextlib.suppress(Killed):
                call(capsys, *words, "cut", *more)
        its = [] if Path("cut/training.npz").exists() else more[:2]
        if more[0] == "--seed" and its == [] and Training.load("cut/training.npz").seed == 0:
            assert kept(tmp_path / "cut")  # the old one, as it was
            call(capsys, *words, "cut", *more)
        assert call(capsys, *words, "cut", *its, "--resume")[0] == 0
        assert kept(tmp_path / "cut") == kept(tmp_path / "whole"), at


def test_a_pipe_that_breaks_ends_a_training_and_what_is_done_is_kept(own, capsys, monkeypatch):
    def tell(run, last):
        if run.trainer.step == 4:
            raise BrokenPipeError

    monkeypatch.setattr(Run, "tell", tell)
    words = ["vae", "train", "--data", str(own), *TINY, "--epochs", "3"]
    with pytest.raises(BrokenPipeError):
        vae.train(make_parser(words).parse_args(words))
    assert Training.load("vae/training.npz").step == 4


def test_ctrl_c_while_the_loss_is_drawn_says_that_the_training_is_whole(own, capsys, monkeypatch):
    def draw(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(vae.vae_charts, "loss_curve", draw)
    status, _, err = call(capsys, "train", "--data", own, *TINY, "--epochs", 1)
    assert status == 130 and "stopped; the training in 'vae' is whole" in err


def test_a_rate_that_is_too_large_is_named_and_nothing_is_kept(own, tmp_path, capsys):
    words = ["train", "--data", own, *TINY, "--epochs", 2]
    assert "smaller --rate than 1e+08" in refused(capsys, *words, "--rate", "1e8")
    assert not (tmp_path / "vae").exists()
    call(capsys, *words)
    before = kept(tmp_path / "vae")
    refused(capsys, *words, "--rate", "1e8", "--replace")
    assert kept(tmp_path / "vae") == before


def test_streams_that_the_shell_closed_do_not_matter(own, capsys, monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["vae", "train", "--data", str(own), *TINY, "--epochs", "1"]) == 0


def test_what_is_too_large_for_the_memory_is_named_by_its_options(own, capsys, monkeypatch):
    def initial(*given):
        raise MemoryError

    monkeypatch.setattr(weights, "initial", initial)
    assert "smaller --hidden, --latent" in refused(capsys, "train", "--data", own, *TINY)


@pytest.mark.parametrize(
    "option",
    [("--hidden", "7"), ("--latent", "2"), ("--batch", "31"), ("--rate", ".5"), ("--seed", "9")],
)
def test_options_that_contradict_a_training_are_named(own, capsys, option):
    words = ["train", "--data", own, *TINY, "--epochs", 1]
    call(capsys, *words)
    line = refused(capsys, *words, *option, "--resume")
    assert f"{option[0]} " in line and "contradicts the training in 'vae'" in line


def test_other_images_and_a_lost_table_are_refused(own, tmp_path, capsys):
    words = ["train", *TINY, "--epochs", 1]
    call(capsys, *words, "--data", own)
    found = data.read(own)
    data.write(tmp_path / "other.bin", found.images[::-1], found.labels)
    line = refused(capsys, *words, "--data", tmp_path / "other.bin", "--resume")
    assert "--data: other.bin has other images" in line
    table = tmp_path / "vae/losses.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:3]))
    assert "has 1 losses of 3 steps" in refused(capsys, *words, "--data", own, "--resume")
    for text in ("", "\n", "# a\n", "# crc32 of the images=1\nstep,loss\n0,x\n", "\xff"):
        table.write_text(text, encoding="latin-1")
        line = refused(capsys, *words, "--data", own, "--resume")
        assert "losses.csv is no table of a training's losses" in line
    table.unlink()
    assert "losses.csv" in refused(capsys, *words, "--data", own, "--resume")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data", "nowhere"], "there is nothing at nowhere"),
        (["--data", "text.bin"], "text.bin ends at byte"),
        (["--by", "gpu"], "--by gpu: there is no GPU here"),
        (["--by", "numpy", "--precision", "tf32"], "--precision is a GPU's"),
        (["--batch", "5000"], "fewer than a batch, 5000"),
        (["--rate", "0"], "rate is 0.0"),
        (["--out", "text.bin"], "text.bin"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, monkeypatch, words, says):
    monkeypatch.setattr(vae.backend, "gpu", lambda: None)
    (tmp_path / "text.bin").write_bytes(b"no digits at all")
    assert says in refused(capsys, "train", "--epochs", 1, *words)


def test_a_file_that_is_cut_off_is_refused(own, tmp_path, capsys):
    call(capsys, "train", "--data", own, *TINY, "--epochs", 1)
    path = tmp_path / "vae/training.npz"
    path.write_bytes(path.read_bytes()[:-50])
    line = refused(capsys, "train", "--data", own, "--epochs", 2, "--resume")
    assert "training.npz" in line and "cut off" in line
    assert "cut off" in refused(capsys, "reconstruct", "--weights", path)


# --- rebuild, sample ------------------------------------------------------------------------------


def test_the_courses_weights_rebuild_held_out_digits(capsys):
    status, out, _ = call(capsys, "reconstruct", "--count", 13)
    assert status == 0 and "360 images of the course's digits" in out and "13 digits" in out
    bce, kl = (float(out.split(name)[-1].split()[0]) for name in ("BCE ", "KL "))
    assert 19 < bce < 21.5 and 3 < kl < 4.5
    with Image.open("vae/rebuilt.png") as picture:
        assert picture.height > 250  # two rows of ten


def test_samples_a_walk_and_a_plane_are_drawn(tmp_path, capsys):
    status, out, _ = call(
        capsys, "sample", "--count", 12, "--from", "i17", "--to", "4", "--out", "new"
    )
    label = data.digits(held_out=True).labels[17]
    assert status == 0 and f"{label} turns into 4" in out and "principal component 1" in out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "plane.png", "samples.png", "walk.png",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_model_of_ones_own_is_sampled_with_and_without_its_digits(own, tmp_path, capsys):
    weights.save("own.npz", VAEShape(16, 5, 1), weights.initial(VAEShape(16, 5, 1)))
    status, out, err = call(capsys, "sample", "--weights", "own.npz", "--out", "alone")
    assert status == 0 and "samples.png" in out and "name --data" in err
    words = ["--data", own, "--from", "0", "--to", "2"]
    status, out, _ = call(capsys, "sample", "--weights", "own.npz", *words, "--out", "all")
    assert status == 0 and "walk.png" in out and "plane.png" not in out
    status, out, _ = call(capsys, "reconstruct", "--weights", "own.npz", "--data", own)
    assert status == 0 and "100 images of own.bin" in out


def test_one_image_is_trained_on_rebuilt_and_sampled(tmp_path, capsys):
    data.write("one.bin", data.digits().images[:1], [0])
    words = ["--data", "one.bin", "--out", "one"]
    assert call(capsys, "train", *words, "--epochs", 2, "--batch", 1, "--by", "numpy")[0] == 0
    words += ["--weights", "one/training.npz"]
    assert "1 images of one.bin" in call(capsys, "reconstruct", *words)[1]
    status, out, _ = call(capsys, "sample", *words, "--from", "0", "--to", "i0")
    assert status == 0 and "walk.png" in out and "plane.png" not in out


def test_weights_that_overflow_are_shown_as_they_are(own, tmp_path, capsys):
    shape = VAEShape(16, 5, 2)
    large = {name: np.float32(1e15) * its for name, its in weights.initial(shape).items()}
    weights.save("large.npz", shape, large)
    with warnings.catch_warnings(action="error"):
        words = ["--weights", "large.npz", "--data", own]
        assert "nan nats an image" in call(capsys, "reconstruct", *words)[1]


@pytest.mark.parametrize("action", ["reconstruct", "sample"])
def test_weights_of_other_pixels_and_pixels_of_no_square_are_refused(own, tmp_path, capsys, action):
    line = refused(capsys, action, "--data", own)
    assert "own.bin: images of 16 pixels" in line and "64" in line
    shape = VAEShape(15, 5, 2)
    weights.save("odd.npz", shape, weights.initial(shape))
    data.write("odd.bin", np.full((9, 15), 200, np.uint8), np.arange(9))
    words = ["--weights", "odd.npz", "--data", "odd.bin"]
    assert "square number of pixels" in refused(capsys, action, *words)


def test_a_label_or_image_that_is_not_there_is_named(capsys):
    assert "--to 'i360' is neither a label (0, 1," in refused(capsys, "sample", "--to", "i360")
    assert "i359" in refused(capsys, "sample", "--from", "x")


def test_mnist_is_trained_on_one_part_and_rebuilt_from_the_other(tmp_path):
    for part, count in (("train", 5), ("t10k", 3)):
        for name, axes, content in (
            (f"{part}-images-idx3-ubyte", (count, 28, 28), bytes(count * 784)),
            (f"{part}-labels-idx1-ubyte", (count,), bytes(count)),
        ):
            head = bytes((0, 0, 8, len(axes))) + b"".join(n.to_bytes(4, "big") for n in axes)
            (tmp_path / name).write_bytes(head + content)
    assert [len(data.find(tmp_path, held_out).images) for held_out in (False, True)] == [5, 3]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sample", "--count", "101"], "100 fit"),
        (["sample", "--seed", "-1"], "no whole number"),
        (["train", "--resume", "--replace"], "not allowed with"),
        (["train", "--data", ""], "--data: the name is empty"),
        (["sample", "--weights", ""], "--weights: the name is empty"),
        (["reconstruct", "--count", "0"], "no number of at least 1"),
        ([], "ACTION"),
    ],
)
def test_the_parser_says_what_is_wrong(capsys, words, says):
    with pytest.raises(SystemExit) as end:
        main(["vae", *words])
    err = capsys.readouterr().err
    assert end.value.code == 2 and says in err and err.count("\n") == 1


def test_numbers_of_images_decide_what_is_usual():
    assert vae.LARGE["hidden"] == VAEShape().hidden
    assert vae.LARGE["latent"] == VAEShape().latent
    with pytest.raises(argparse.ArgumentTypeError):
        vae.seed(str(2**63))


def test_a_folder_that_cannot_be_written_is_named_before_an_epoch(capsys, own, monkeypatch):
    def opened(name, *flags):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))

    monkeypatch.setattr(Run, "through", lambda *_: pytest.fail("it trains"))
    monkeypatch.setattr(files.os, "open", opened)
    told = refused(capsys, "train", "--data", own, *TINY, "--out", "closed")
    assert "'closed/.lock': Permission denied" in told
