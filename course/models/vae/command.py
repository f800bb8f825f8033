"""The command `vae`: its options. What it does is in `course.models.vae.jobs`."""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course.pipeline.command import path, positive

MANY = 10_000  # images; of fewer the usual model is small
LARGE = {"epochs": 20, "batch": 128, "hidden": 400, "latent": 200, "rate": 1e-3, "seed": 0}
SMALL = LARGE | {"epochs": 200, "batch": 32, "hidden": 128, "latent": 8}
MOST = 100  # digits in a picture

HELP = """\
A variational autoencoder of digits, trained on a GPU or with NumPy.

PLACE is a folder of MNIST's IDX files, a CSV of Colab's form (a label, then pixels), a binary file
that course.models.vae.data.write made, or the word digits: the 8 x 8 ones that come with the
course. Without it MNIST is taken where it is (the folder COURSE_MNIST, Colab's own), else the 8 x 8
ones. Of these, every fifth is kept from trainings, and rebuilt.
"""


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    what = "train a variational autoencoder on digits, rebuild them, draw new ones"
    raw = argparse.RawDescriptionHelpFormatter
    vae = commands.add_parser("vae", help=what, description=HELP, formatter_class=raw)
    actions = vae.add_subparsers(title="actions", metavar="ACTION", required=True)
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
    its.set_defaults(run=_job(name), less="choose smaller --data or --weights")
    its.add_argument(
        "--data", metavar="PLACE", type=named, help="where the digits are: see vae --help"
    )
    its.add_argument("--out", metavar="DIR", type=path, default=Path("vae"), help="results (vae)")
    return its


def _job(name: str) -> Callable[[argparse.Namespace], None]:
    """What does an action; NumPy and all that it needs is imported only then."""
    return lambda chosen: getattr(importlib.import_module("course.models.vae.jobs"), name)(chosen)


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
