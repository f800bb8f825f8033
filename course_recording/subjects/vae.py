"""An epoch of a VAE's training: naive, optimised and fused kernels against PyTorch's ways.

All begin with the same weights, and make 468 steps of 128 with the same images, which lie on the
GPU, in the same order, but for the data loaders. Images are the course's 8 x 8 digits, enlarged:
they measure speed only. The clock is the host's, from an epoch's start, its order included, until
the GPU has done the last step: what a user waits for.

=====================  =============================================================================
metric                 what is said
=====================  =============================================================================
``time``               an epoch; its operations are those of the products, which the loss needs
``loss``               of the last step
``first``              in a process of its own: what a user makes and waits for, compiling included,
                       until the first epoch is done, with kernels compiled anew or kept
=====================  =============================================================================

Rows of the kernel "errors" are relative errors against float64, of ten steps with the noise that
the GPU draws: ``first loss``, ``losses``, ``worst gradient`` and ``gradients`` of the first step,
``weights`` and ``change`` of them after the last. Where a trainer keeps no gradient, it follows
from Adam's first moment, a tenth of it after one step. ``noise`` is the largest difference from
NumPy's. Adam divides by the root of the second moment, so small gradients of either sign change
weights alike: judge gradients and losses, not changes. "max-autotune" is a subject of its own,
vae_autotune: its search takes minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from course import backend
from course.measure import event_clock
from course.measure.timing import timing_of
from course_lessons.lesson16.layered import LayeredTrainer
from course_models.training.rng import reparameterise
from course_models.vae import data, reference
from course_models.vae.shape import VAEShape
from course_models.vae.trainer import FusedTrainer
from course_models.vae.weights import Training, Weights
from course_recording.first_calls import keep, print_two
from course_recording.peers.vae_torch import LoaderTrainer, TorchTrainer, some_steps, tf32

COUNT, BATCH, SIDE, SHAPE, SEED = 60_000, 128, 28, VAEShape(), 1234
MOST, FEWEST, SECONDS = 11, 2, 3.0  # epochs that are timed, and about how long
COMPARED = 10  # steps
DEVICE = "cuda"  # PyTorch's
#: The course's ways: what a trainer is told, and the type of its products.
OURS: dict[str, tuple[dict[str, str], str]] = {
    "naive": ({"method": "naive"}, "float32"),
    "optimised": ({"method": "optimised"}, "float32"),
    "fused, 3xTF32": ({"precision": "tf32x3"}, "float32"),
    "fused, TF32": ({"precision": "tf32"}, "tfloat32"),
    "fused, float32": ({"precision": "float32"}, "float32"),
}
#: PyTorch's ways, each in float32 and in TF32.
GRAPH = {"fused": True, "graph": True}
PEERS: dict[str, dict[str, Any]] = {
    "torch eager": {},
    "torch eager, fused Adam": {"fused": True},
    "torch eager, data loader": {"workers": 0},
    "torch eager, data loader, 8 workers": {"workers": 8},
    "torch graph, fused Adam": GRAPH,
    "torch compiled": {"fused": True, "compiled": {}},
    "torch compiled, graph": GRAPH | {"compiled": {}},
}
#: Of which a process's first epoch is timed.
FIRST = ("fused, 3xTF32", "torch eager", "torch compiled, graph")
#: Largest error of all gradients together, by the type of the products.
LIMITS = {"float32": 2e-5, "tfloat32": 2e-2}


def run(bench):
    """Compare ten steps with float64, then time epochs."""
    images = data.enlarged(COUNT, side=SIDE)
    ways = [f"{name}, {kind}" for name in PEERS for kind in LIMITS]
    for part in bench.parts(["errors", *OURS, *ways, "first"]):
        if part == "errors":
            errors(bench, images)
        elif part == "first":
            first_epochs(bench)
        elif part in OURS:
            given, dtype = OURS[part]
            epochs(bench, part, dtype, lambda given=given: our_epochs(given, images))
        else:
            name, _, dtype = part.rpartition(", ")
            peer(bench, name, dtype, images)


# --- epochs ---------------------------------------------------------------------------------------

Epoch = tuple[Callable[[], Any], Callable[[], float]]  # does one; the last step's loss


def begun() -> Training:
    """The training that all begin with."""
    return Training.begun(SHAPE, batch=BATCH, seed=SEED)


def made(given: dict[str, str], images: np.ndarray) -> Any:
    """A trainer of the course."""
    kind = LayeredTrainer if "method" in given else FusedTrainer
    return kind(begun(), images, **given)


def our_epochs(given: dict[str, str], images: np.ndarray) -> Epoch:
    """A trainer of the course, epoch by epoch."""
    trainer = made(given, images)
    return lambda: trainer.run(trainer.steps_of_an_epoch), lambda: trainer.losses[-1]


def peer(bench: Any, name: str, dtype: str, images: np.ndarray, **more: Any) -> None:
    """Time a way of PyTorch; its name is in `PEERS`, or `more` says what it is."""
    torch = bench.peer("torch")
    if torch is None:
        return
    how = PEERS.get(name, {}) | more
    with tf32(torch, dtype == "tfloat32"):
        epochs(bench, name, dtype, lambda: their_epochs(torch, how, images))


def their_epochs(torch: Any, how: dict[str, Any], images: np.ndarray) -> Epoch:
    """A trainer of PyTorch, epoch by epoch."""
    kind = LoaderTrainer if "workers" in how else TorchTrainer
    torch.manual_seed(0)
    if "compiled" in how:
        torch._dynamo.reset()
    trainer = kind(torch, begun(), images, device=DEVICE, **how)
    return trainer.run_epoch, lambda: float(trainer.loss)


def first_epochs(bench: Any) -> None:
    """Of ours, and of two of PyTorch's ways: what a process waits for until one epoch is done."""
    key = "epoch", f"{COUNT // BATCH}x{BATCH}", "float32"
    toy = ["toy"] * (SHAPE != VAEShape())
    for way in FIRST:
        keep(bench, __name__, key, way, *toy, compiles=way != "torch eager")


def epochs(bench: Any, name: str, dtype: str, make: Callable[[], Epoch]) -> None:
    """Time epochs of a program, and keep the rows; a failure stops nothing else."""
    steps = COUNT // BATCH
    key = "epoch", name, f"{steps}x{BATCH}", dtype
    wall = event_clock.clock().wall
    try:
        epoch, loss = make()
        wall(epoch)
        found: list[float] = []
        end = time.perf_counter() + SECONDS
        while len(found) < FEWEST or (len(found) < MOST and time.perf_counter() < end):
            found.append(wall(epoch))
        last = loss()
        if not np.isfinite(last):
            raise ValueError(f"the loss is {last}")
    except Exception as problem:  # whatever a program raises, the others are still measured
        bench.fail(f"{name} {dtype}", problem)
        return
    work = {"float32": steps * operations()}
    bench.row(*key, timing_of(found, operations=work))
    bench.figure(*key, "loss", "nats", last)


def operations() -> int:
    """Of a step's products: the way forward, the gradients by weights, and those by inputs."""
    sizes = {name: outputs * inputs for name, (outputs, inputs) in SHAPE.layers.items()}
    return 2 * BATCH * (3 * sum(sizes.values()) - sizes["encode"])


# --- errors ---------------------------------------------------------------------------------------


def errors(bench: Any, images: np.ndarray) -> None:
    """Ten steps of each program against float64."""
    noises = [noise(bench, step) for step in range(COMPARED)]
    rows = zip(noises, range(COMPARED), strict=True)
    apart = max(
        np.abs(e - reference.noise(BATCH, SHAPE.latent, step, SEED)).max() for e, step in rows
    )
    order = np.random.default_rng((SEED, 0)).permutation(len(images))
    batches = [images[order[n * BATCH : (n + 1) * BATCH]] for n in range(COMPARED)]
    exact = in_float64(batches, noises)
    bench.figure("errors", "Philox", "", "float32", "noise", "1", apart)

    for name, (given, dtype) in OURS.items():
        compare(bench, name, dtype, exact, lambda given=given: of_trainer(made(given, images)))
    if torch := bench.peer("torch"):
        for dtype in LIMITS:
            with tf32(torch, dtype == "tfloat32"):
                compare(bench, "torch", dtype, exact, lambda: some_steps(
                    torch, begun(), batches, noises, DEVICE))  # fmt: skip


Steps = tuple[list[float], Weights, Weights]  # losses, first gradients, last weights


def noise(bench: Any, step: int) -> np.ndarray:
    """What the GPU draws for a step: z of a mean and log variance of 0."""
    zeros = np.zeros((BATCH, SHAPE.latent), np.float32)
    _, drawn = reparameterise(zeros, zeros, np.array([SEED, step], np.int64))
    return drawn


def in_float64(batches: list[np.ndarray], noises: list[np.ndarray]) -> Steps:
    """What everything is held to."""
    training = begun()
    parts = training.weights, training.first, training.second
    w, first, second = ({n: its.astype(np.float64) for n, its in part.items()} for part in parts)
    losses, gradients_of_first = [], {}
    for step, (x, e) in enumerate(zip(batches, noises, strict=True), 1):
        loss, gradients = reference.loss_and_gradients(w, x / 255.0, e.astype(np.float64))
        gradients_of_first = gradients_of_first or gradients
        reference.adam(w, first, second, gradients, step, training.rate)
        losses.append(loss)
    return losses, gradients_of_first, w


def of_trainer(trainer: Any) -> Steps:
    """The same of a trainer of the course that has just begun."""
    trainer.run(1)
    tenth = trainer.training().first
    trainer.run(COMPARED - 1)
    gradients = {name: its / (1 - reference.BETA1) for name, its in tenth.items()}
    return list(trainer.losses), gradients, trainer.training().weights


def relative(found: np.ndarray, right: np.ndarray) -> float:
    """The relative Frobenius error."""
    right = np.asarray(right, np.float64)
    return float(np.linalg.norm(np.asarray(found, np.float64) - right) / np.linalg.norm(right))


def compare(bench: Any, name: str, dtype: str, exact: Steps, steps: Callable[[], Steps]) -> None:
    """Keep a program's errors; it fails where its gradients are beyond the limit."""
    try:
        (losses, gradients, weights), (right, exact_gradients, exact_weights) = steps(), exact
        start = begun().weights

        def joined(part: Weights, less: Weights | None = None) -> np.ndarray:
            return np.concatenate([
                np.ravel(np.asarray(part[n], np.float64) - (0 if less is None else less[n]))
                for n in start
            ])  # fmt: skip

        found = {
            "first loss": relative(losses[:1], right[:1]),
            "losses": relative(losses, right),
            "worst gradient": max(relative(gradients[n], exact_gradients[n]) for n in start),
            "gradients": relative(joined(gradients), joined(exact_gradients)),
            "weights": relative(joined(weights), joined(exact_weights)),
            "change": relative(joined(weights, start), joined(exact_weights, start)),
        }
        if not found["gradients"] <= LIMITS[dtype]:
            raise ValueError(f"its gradients are wrong by {found['gradients']:.3g}")
    except Exception as problem:
        bench.fail(f"errors of {name} {dtype}", problem)
        return
    for metric, error in found.items():
        bench.figure("errors", name, f"{COMPARED} steps", dtype, metric, "relative", error)
    words = ", ".join(f"{metric} {error:.2g}" for metric, error in found.items())
    bench.say(f"  errors of {name}, {dtype}: {words}")


def main() -> None:
    """Print what a process's first epoch takes by the host's clock, and the next: "way" ["toy"].

    A trainer is made, all is compiled, images move; imports and the images' making are not in it.
    """
    global COUNT, BATCH, SIDE, SHAPE
    way, *toy = sys.argv[1:]
    if toy:
        COUNT, BATCH, SIDE, SHAPE = 17, 5, 12, VAEShape(144, 8, 4)
    images, wait = data.enlarged(COUNT, side=SIDE), backend.cuda.synchronize
    if way not in OURS:
        import torch

        wait = torch.cuda.synchronize
        torch.ones(1, device=DEVICE)
    wait()
    begun = time.perf_counter()
    if way in OURS:
        epoch, _ = our_epochs(OURS[way][0], images)
    else:
        epoch, _ = their_epochs(torch, PEERS[way], images)
    print_two(epoch, wait, begun)


if __name__ == "__main__":
    main()
