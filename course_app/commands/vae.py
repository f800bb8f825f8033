"""The command `vae`: its options, and what it does of them: train, reconstruct, sample."""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from course import backend
from course.files import alone_in, make_folder, unwaiting, write_whole
from course.plots import vae_charts
from course.plots.style import Picture
from course.stopping import stoppable, uninterrupted
from course_app.commands.reconstruct import path, positive
from course_models.vae import data, reference, weights
from course_models.vae.data import Digits
from course_models.vae.reference import NumpyTrainer
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training, Weights

MANY = 10_000  # images; of fewer the usual model is small
LARGE = {"epochs": 20, "batch": 128, "hidden": 400, "latent": 200, "rate": 1e-3, "seed": 0}
SMALL = LARGE | {"epochs": 200, "batch": 32, "hidden": 128, "latent": 8}
MOST = 100  # digits in a picture
DIGITS = "digits"  # the name of those that come with the course
AT_ONCE = 512  # steps that are queued on a GPU, images that are rebuilt together
WALK = 11  # digits on a walk
LONGEST = 80  # signs of a line of losses
EVERY = 0.2, 10.0  # seconds between lines of progress: on a terminal, elsewhere

HELP = """\
A variational autoencoder of digits, trained on a GPU or with NumPy.

PLACE is a folder of MNIST's IDX files, a CSV of Colab's form (a label, then pixels), a binary file
that course_models.vae.data.write made, or the word digits: the 8 x 8 ones that come with the
course. Without it MNIST is taken where it is (the folder COURSE_MNIST, Colab's own), else the 8 x 8
ones. Of these, every fifth is kept from trainings, and rebuilt.
"""


class Refused(ValueError):
    """An option cannot be had; the message names it and says what can."""


@contextmanager
def refusing() -> Iterator[None]:
    """Make what the model's files refuse the command's one line; what overflows, shows itself."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ValueError as error:
        raise Refused(str(error)) from error


# --- options --------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the actions, and the options of each."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    train, reconstruct, sample = (_action(actions, *its) for its in (
        ("train", "train, or go on: training.npz, losses.csv, loss.png; Ctrl-C keeps what is done"),
        ("reconstruct", "rebuild digits from their codes: rebuilt.png, and the mean BCE and KL"),
        ("sample", "draw digits, a walk between two, the code: samples.png, walk.png, plane.png"),
    ))  # fmt: skip
    for name, kind, what in (
        ("epochs", positive, "of the whole training"), ("batch", positive, "images of a step"),
        ("hidden", positive, "numbers of a hidden layer"),
        ("latent", positive, "numbers of a code"), ("rate", float, "of Adam"),
        ("seed", seed, "of weights, order and noise"),
    ):  # fmt: skip
        few = f"; {SMALL[name]} for few images" if SMALL[name] != LARGE[name] else ""
        train.add_argument(f"--{name}", type=kind, metavar="N", help=f"{what} ({LARGE[name]}{few})")
    by = "what trains; auto, the usual, is the GPU where there is one"
    train.set_defaults(less="choose a smaller --hidden, --latent or --batch")
    train.add_argument("--by", choices=("auto", "gpu", "numpy"), default="auto", help=by)
    exact = "of a GPU's products (tf32x3; float32 where there is no TF32)"
    train.add_argument("--precision", choices=("tf32x3", "tf32", "float32"), help=exact)
    end = train.add_mutually_exclusive_group()
    on = "go on with the training in DIR, by the same --by and --precision with the same bits"
    end.add_argument("--resume", action="store_true", help=f"{on}; where there is none, begin")
    end.add_argument("--replace", action="store_true", help="begin, though DIR holds a training")
    for its, usual in ((reconstruct, 10), (sample, 40)):
        of = "a training, or weights alone (those of the course)"
        its.add_argument("--weights", metavar="FILE", type=named, help=of)
        of = f"digits in the picture ({usual})"
        its.add_argument("--count", metavar="N", type=in_a_picture, default=usual, help=of)
    sample.add_argument("--seed", type=seed, default=0, help="of the samples (0)")
    for name, usual in (("from", "3"), ("to", "8")):
        of = f"end of the walk: a label, or i and an image's number, as in i17 ({usual})"
        sample.add_argument(f"--{name}", metavar="DIGIT", default=usual, help=of)


def _action(actions: Any, name: str, what: str) -> argparse.ArgumentParser:
    its = actions.add_parser(name, help=what, description=what)
    its.set_defaults(less="choose smaller --data or --weights")
    its.add_argument(
        "--data", metavar="PLACE", type=named, help="where the digits are: see vae --help"
    )
    its.add_argument("--out", metavar="DIR", type=path, default=Path("vae"), help="results (vae)")
    return its


def named(text: str) -> str:
    """Return the name of a file or folder; an empty one, of a variable that is not set, is none."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def seed(text: str) -> int:
    """Return the number of a --seed; argparse shows the error's text."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 2**63 - 1")
    return int(text)


def in_a_picture(text: str) -> int:
    """Return the number of a --count; argparse shows the error's text."""
    if positive(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text} digits are too many for a picture: {MOST} fit")
    return int(text)


def run(chosen: Namespace) -> None:
    """Do the action that was chosen."""
    {"train": train, "reconstruct": reconstruct, "sample": sample}[chosen.action](chosen)


# --- train ----------------------------------------------------------------------------------------


def train(chosen: Namespace) -> None:
    """Train to the end of the epochs; what is done is kept whenever that ends, and however."""
    with alone_in(chosen.out):  # or it is said now, not after an epoch
        _train(chosen)


def _train(chosen: Namespace) -> None:
    where, there = repr(str(chosen.out)), (chosen.out / Run.TRAINING).exists()
    with refusing():
        if there and not (chosen.resume or chosen.replace):
            raise Refused(f"{where} holds a training: --resume goes on with it, --replace begins "
                          "anew; or name another --out")  # fmt: skip
        found = _digits(chosen.data, held_out=False)
        usual = LARGE if len(found.images) >= MANY else SMALL
        crc, losses = zlib.crc32(found.images), []
        if there and chosen.resume:
            training = Training.load(chosen.out / Run.TRAINING)
            _agree(chosen, training)
            losses = _losses_before(chosen.out / Run.LOSSES, training, crc, found.source)
        else:
            of = {name: its if (its := getattr(chosen, name)) is not None else usual[name]
                  for name in usual}  # fmt: skip
            shape = VAEShape(found.images.shape[1], of["hidden"], of["latent"])
            training = Training.begun(shape, batch=of["batch"], seed=of["seed"], rate=of["rate"])
        trainer, by = _trainer(chosen, training, found.images)
    chosen.stopped = f"the training in {where} is as it was" if there else "nothing was written"
    run = Run(trainer, training.batch, chosen.out, losses, crc, chosen.epochs or usual["epochs"])
    start = time.perf_counter()
    with stoppable():
        run.through(1 if by == "NumPy" else AT_ONCE)
        chosen.stopped = f"the training in {where} is whole"
    seconds, done = time.perf_counter() - start, trainer.step - training.step
    epochs = trainer.step / trainer.steps_of_an_epoch
    _save(chosen.out, {"loss": vae_charts.loss_curve(run.losses, trainer.steps_of_an_epoch)})
    print(f"{done:,} steps of {training.batch} images by {by} in {seconds:.1f} s, on "
          f"{found.source}; epochs in {where}: {epochs:.4g}")  # fmt: skip


class Run:
    """A training: its files, and what is said of it.

    `losses` are of the steps before the trainer's; by `crc` a resumed training knows its images.
    """

    TRAINING, LOSSES = "training.npz", "losses.csv"

    def __init__(
        self, trainer: Any, batch: int, out: Path, losses: list[float], crc: int, epochs: int
    ):
        self.trainer, self.batch, self.out, self.epochs = trainer, batch, out, epochs
        self._before, self._crc, self._written = losses, crc, 0
        self._said, self._step = time.perf_counter(), trainer.step

    @property
    def losses(self) -> list[float]:
        """Of all steps from the first one on."""
        return self._before + self.trainer.losses

    def through(self, steps: int) -> None:
        """Train to the end, so many steps at once, or until Ctrl-C or a pipe that breaks."""
        trainer, of_an_epoch = self.trainer, self.trainer.steps_of_an_epoch
        first, last = trainer.step, self.epochs * of_an_epoch
        try:
            while trainer.step < last:
                with (
                    uninterrupted(),
                    np.errstate(all="ignore"),
                ):  # `keep` tells of what is not finite
                    trainer.run(min(steps, of_an_epoch - trainer.step % of_an_epoch))
                    if trainer.step % of_an_epoch == 0:
                        self.keep()
                self.tell(last)
        except (KeyboardInterrupt, OSError) as error:
            if trainer.step > first:
                with uninterrupted():
                    self.keep()
                error.add_note(f"{trainer.step:,} of {last:,} steps are kept: --resume goes on")
            raise

    def keep(self) -> None:
        """Write losses, then the training: what the former has of further steps is passed over.

        Killed at any moment it leaves a training that can be gone on with, or none.
        """
        path, losses, training = self.out / self.LOSSES, self.losses, self.trainer.training()
        _finite(losses, training)
        training = replace(training, losses=digest(losses))
        written, self._written = self._written, 0  # after an error all of them are written again
        rows = "".join(f"{step},{losses[step]!r}\n" for step in range(written, len(losses)))
        if written:
            with open(path, "a", encoding="utf-8") as file:
                file.write(rows)
        else:
            if not self._before:  # --replace: no losses of one training beside the other
                (self.out / self.TRAINING).unlink(missing_ok=True)
            write_whole(path, f"# crc32 of the images={self._crc}\nstep,loss\n{rows}")
        self._written = len(losses)
        training.save(self.out / self.TRAINING)

    def tell(self, last: int) -> None:
        """Say epoch, loss and images a second, now and then and at the end."""
        terminal, trainer = sys.stderr.isatty(), self.trainer
        if time.perf_counter() - self._said < EVERY[not terminal] and trainer.step < last:
            return
        recent = np.mean(self.losses[self._step :])  # waits for a GPU
        rate = (trainer.step - self._step) * self.batch / (time.perf_counter() - self._said)
        line = f"epoch {trainer.step / trainer.steps_of_an_epoch:.1f} of {self.epochs}: loss "
        line += f"{recent:.2f}, {rate:,.0f} images/s"
        end = "\r" if terminal and trainer.step < last else "\n"
        print(line.ljust(60 * terminal), file=sys.stderr, end=end, flush=True)
        self._said, self._step = time.perf_counter(), trainer.step


def digest(losses: Sequence[float]) -> int:
    """CRC-32 of losses as float64."""
    return zlib.crc32(np.array(losses, np.float64).tobytes())


def _finite(losses: list[float], training: Training) -> None:
    """Refuse what no training can go on from."""
    endless = np.flatnonzero(~np.isfinite(losses))
    parts = training.weights, training.first, training.second
    if len(endless) or not all(np.isfinite(its).all() for part in parts for its in part.values()):
        step = endless[0] + 1 if len(endless) else training.step
        raise Refused(
            f"after {step:,} steps the loss or a weight is infinite: begin with a smaller"
            f" --rate than {training.rate:g}; what was kept before is as it was"
        )


def _agree(chosen: Namespace, training: Training) -> None:
    """Refuse options that are not those of a training that is gone on with."""
    for name in ("batch", "hidden", "latent", "rate", "seed"):
        given = getattr(chosen, name)
        its = getattr(training.shape if name in ("hidden", "latent") else training, name)
        if given not in (None, its):
            raise Refused(f"--{name} {given} contradicts the training in {str(chosen.out)!r}, which"
                          f" has {its}: leave it out, or name another --out")  # fmt: skip


def _losses_before(path: Path, training: Training, crc: int, source: str) -> list[float]:
    """The losses of a training that is gone on with, if it began with these images."""
    try:
        with open(path, encoding="utf-8", opener=unwaiting) as file:
            lines = file.read(LONGEST * (2 + training.step)).splitlines()
        title, _, *rows = lines[: 2 + training.step]
        its = int(title.rpartition("=")[2])
        losses = [float(row.partition(",")[2]) for row in rows]
    except ValueError:
        raise Refused(f"{path} is no table of a training's losses: begin by --replace") from None
    if its != crc:
        raise Refused(f"--data: {source} has other images than those that the training of {path} "
                      "began with: name these, or another --out")  # fmt: skip
    if len(losses) < training.step:
        raise Refused(f"{path} has {len(losses):,} losses of {training.step:,} steps: begin by "
                      "--replace")  # fmt: skip
    if training.losses != digest(losses):
        raise Refused(f"{path} was changed since the training wrote it: begin by --replace")
    return losses


def _trainer(chosen: Namespace, training: Training, images: np.ndarray) -> tuple[Any, str]:
    """What trains, and its name."""
    gpu = None if chosen.by == "numpy" else backend.gpu()
    if chosen.by == "gpu" and gpu is None:
        raise Refused(f"--by gpu: there is no GPU here ({backend.why()}); --by numpy needs none")
    if gpu is None and chosen.precision is not None:
        raise Refused("--precision is a GPU's, and NumPy trains here: leave it out")
    if gpu is None:
        return NumpyTrainer(training, images), "NumPy"
    from course_models.vae.trainer import FusedTrainer

    return FusedTrainer(training, images, chosen.precision), gpu


# --- rebuild, sample ------------------------------------------------------------------------------


def reconstruct(chosen: Namespace) -> None:
    """Rebuild digits, and say how well."""
    with refusing():
        shape, w, found = _model(chosen)
        sums = np.zeros(2)
        for first in range(0, len(found.images), AT_ONCE):
            x = _levels(found.images[first : first + AT_ONCE])
            mean, log_variance, _ = reference.encode(w, x)
            e = reference.noise(len(x), shape.latent, first, 0).astype(np.float32)
            logits, _ = reference.decode(w, mean + np.exp(log_variance / 2) * e)
            terms = reference.loss_terms(x, logits, mean, log_variance)
            sums += [its.sum(dtype=np.float64) for its in terms]
        x = _levels(found.images[: chosen.count])
        picture = vae_charts.rebuilt_digits(x, _grey(w, reference.encode(w, x)[0]))
    _save(chosen.out, {"rebuilt": picture})
    bce, kl = sums / len(found.images)
    print(f"{len(found.images):,} images of {found.source}: BCE {bce:.2f} + KL {kl:.2f} = "
          f"{bce + kl:.2f} nats an image")  # fmt: skip


def sample(chosen: Namespace) -> None:
    """Draw digits; where some fit the weights, a walk between two, and the plane of the code."""
    with refusing():
        shape, w, found = _model(chosen, needed=chosen.data is not None)
        z = reference.noise(chosen.count, shape.latent, 0, chosen.seed).astype(np.float32)
        pictures = {"samples": vae_charts.digit_grid(_grey(w, z))}
        if found is None:
            print("no digits that fit: name --data for a walk and the plane", file=sys.stderr)
        else:
            ends = [_index(getattr(chosen, name), name, found) for name in ("from", "to")]
            codes, _, _ = reference.encode(w, _levels(found.images))
            share = np.linspace(0, 1, WALK, dtype=np.float32)[:, None]
            line = (1 - share) * codes[ends[0]] + share * codes[ends[1]]
            pictures["walk"] = vae_charts.digit_walk(_grey(w, line), *map(str, found.labels[ends]))
            if shape.latent > 1 and len(codes) > 1:
                pictures["plane"] = vae_charts.code_plane(codes, found.labels)
    _save(chosen.out, pictures)


def _digits(place: str | None, held_out: bool) -> Digits:
    return data.digits(held_out) if place == DIGITS else data.find(place, held_out)


def _model(chosen: Namespace, needed: bool = True) -> tuple[VAEShape, Weights, Digits | None]:
    """Weights, and digits that fit: those of --data, of the course, or that are found."""
    shape, w = weights.trained() if chosen.weights is None else weights.load(chosen.weights)
    own = chosen.data is None and shape.pixels == data.shipped.SIDE**2
    found = _digits(DIGITS if own else chosen.data, held_out=True)
    if found.images.shape[1] != shape.pixels:
        if not needed:
            return shape, w, None
        its = str(chosen.weights) if chosen.weights else "the course's weights"
        raise Refused(f"{found.source}: images of {found.images.shape[1]} pixels, and {its!r} are "
                      f"for {shape.pixels}: name other --data or --weights")  # fmt: skip
    return shape, w, found


def _index(given: str, option: str, found: Digits) -> int:
    """Which image a --from or --to means."""
    number = given[1:] if given.startswith("i") else ""
    if number.isdecimal() and int(number) < len(found.labels):
        return int(number)
    indices = np.flatnonzero(found.labels.astype(str) == given)
    if not len(indices):
        labels = ", ".join(map(str, np.unique(found.labels)))
        raise Refused(f"--{option} {given!r} is neither a label ({labels}) nor an image, i0 to "
                      f"i{len(found.labels) - 1}")  # fmt: skip
    return int(indices[0])


def _levels(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / np.float32(255)


def _grey(w: Weights, z: np.ndarray) -> np.ndarray:
    return reference.sigmoid(reference.decode(w, z)[0])


def _save(out: Path, pictures: dict[str, Picture]) -> None:
    """Write pictures, and say what they show."""
    make_folder(out)
    for name, picture in pictures.items():
        path = out / f"{name}.png"
        write_whole(path, picture.png())
        print(f"{str(path)!r}: {picture.alternative}")
