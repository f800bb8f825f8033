"""Train the small VAE that comes with the course: ``data/models/vae.npz``.

    python -m tools.train.vae [--out FILE]

needs NumPy alone, and a quarter of a minute: 64 pixels to 8 numbers and back, on four of five of
the 8 x 8 digits. The rate of Adam falls twice, to a quarter; all else is
`course_models.vae.reference`. The same machine makes the same weights each time; another one may
add in another order, and its weights differ in the last digits.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from course_models.vae import data, reference
from course_models.vae.reference import NumpyTrainer
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training, Weights, save

FILE = Path(__file__).resolve().parents[2] / "data" / "models" / "vae.npz"
SHAPE, BATCH, SEED = VAEShape(pixels=64, hidden=128, latent=8), 32, 0
RATES, EPOCHS = (2e-3, 5e-4, 1.25e-4), 300  # of each rate
DRAWS = 16  # of the noise, for a loss


def train(images: np.ndarray, epochs: int = EPOCHS) -> Weights:
    """Train on images (n, 64), uint8: so many epochs with each rate."""
    training = Training.begun(SHAPE, batch=BATCH, seed=SEED)
    for rate in RATES:
        trainer = NumpyTrainer(replace(training, rate=rate), images)
        trainer.run(epochs * trainer.steps_of_an_epoch)
        training = trainer.training()
    return training.weights


def loss(weights: Weights, images: np.ndarray) -> float:
    """BCE + KL of an image in nats, in float64: the mean over images and draws of the noise."""
    w = {name: its.astype(np.float64) for name, its in weights.items()}
    x = images / 255
    draws = [reference.noise(len(x), SHAPE.latent, step, SEED) for step in range(DRAWS)]
    return float(np.mean([reference.loss_and_gradients(w, x, e)[0] for e in draws]))


def main(words: list[str] | None = None) -> None:
    """Train, save, and say the loss of both parts."""
    parser = argparse.ArgumentParser(prog="python -m tools.train.vae", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE", help="where to save")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"of each rate ({EPOCHS})")
    chosen = parser.parse_args(words)
    parts = {"trained on": data.digits(held_out=False), "held out": data.digits(held_out=True)}
    weights = train(parts["trained on"].images, chosen.epochs)
    save(chosen.out, SHAPE, weights)
    losses = (f"{loss(weights, its.images):.2f} {name}" for name, its in parts.items())
    print(f"{chosen.out.name}: BCE + KL in nats an image: {', '.join(losses)}")


if __name__ == "__main__":
    main()
