"""PyTorch's training of the course's VAE: the same model, weights, data, loss and optimiser.

Its variants go from a first script to the fastest that we know: eager; with a data loader; whole
steps in a CUDA graph, with the fused Adam; the same compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from course_models.vae.reference import SLOPE
from course_models.vae.weights import Training, Weights

TOGETHER = 12  # training steps in a graph
WARM = 4  # training steps before the capture


@contextlib.contextmanager
def tf32(torch: ModuleType, on: bool) -> Iterator[None]:
    """Switch TF32 for products of float32 matrices on or off, and back afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def network(torch: ModuleType, weights: Weights, device: str = "cuda", dtype: Any = None) -> Any:
    """The model of PyTorch's own layers; called with images and noise, it returns the loss."""
    nn = torch.nn

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("encode", "code", "decode", "pixels"):
                outputs, inputs = weights[f"{name}.weight"].shape
                setattr(self, name, nn.Linear(inputs, outputs))
            self.load_state_dict({n: torch.from_numpy(its) for n, its in weights.items()})

        def forward(self, x, e):
            layers = nn.functional
            h = layers.leaky_relu(self.encode(x), SLOPE)
            mean, log_variance = self.code(h).chunk(2, dim=1)
            z = mean + torch.exp(0.5 * log_variance) * e
            logits = self.pixels(layers.leaky_relu(self.decode(z), SLOPE))
            bce = layers.binary_cross_entropy_with_logits(logits, x, reduction="sum")
            kl = 0.5 * torch.sum(mean * mean + torch.exp(log_variance) - 1 - log_variance)
            return (bce + kl) / x.shape[0]

    return VAE().to(device=device, dtype=dtype or torch.float32)


class TorchTrainer:
    """Trains with PyTorch; images are on the GPU, float32.

    Parameters
    ----------
    training : Training
        Weights, batch, rate and seed, before the first step.
    images : ndarray, shape (n, pixels), uint8
    fused : bool
        Use PyTorch's fused Adam, else its default.
    graph : bool
        Replay CUDA graphs of `TOGETHER` whole steps, else launch each step.
    compiled : mapping, optional
        Arguments of torch.compile; without them it is not compiled.
    """

    def __init__(
        self, torch: ModuleType, training: Training, images: np.ndarray, *, fused: bool = False,
        graph: bool = False, compiled: Mapping[str, Any] | None = None, device: str = "cuda",
    ):  # fmt: skip
        if training.step:
            raise ValueError(f"{training.step} steps are done: PyTorch begins at the beginning")
        self.torch, self.device, self.graph = torch, device, graph
        self.batch, self.seed, self.latent = training.batch, training.seed, training.shape.latent
        self.model = network(torch, training.weights, device)
        self.loss_of = self.model
        if compiled is not None:
            self.loss_of = torch.compile(self.model, dynamic=False, **compiled)
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), lr=training.rate, capturable=graph,
            **({"fused": True} if fused else {}),
        )  # fmt: skip
        self.images = torch.from_numpy(images).to(device).float().div_(255)
        self.steps_of_an_epoch = len(images) // training.batch
        self.order = torch.zeros(len(images), dtype=torch.long, device=device)
        self.place = torch.zeros((), dtype=torch.long, device=device)
        self.lanes = torch.arange(training.batch, device=device)
        self.loss, self.epoch, self._replay = None, 0, None

    def train(self, x: Any) -> Any:
        """Make a step with a batch; return its loss, on the GPU."""
        self.optimiser.zero_grad(set_to_none=True)
        e = self.torch.randn(x.shape[0], self.latent, device=self.device)
        loss = self.loss_of(x, e)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def next(self) -> Any:
        """Make a step with the epoch's next batch; the batch's index is counted on the GPU."""
        rows = self.order[self.place % self.steps_of_an_epoch * self.batch + self.lanes]
        self.place.add_(1)
        return self.train(self.images[rows])

    def run_epoch(self) -> None:
        """Make all steps of an epoch, in the order of the course's trainers."""
        rng = np.random.default_rng((self.seed, self.epoch))
        self.order.copy_(self.torch.from_numpy(rng.permutation(len(self.images))))
        self.place.zero_()
        self.epoch += 1
        if self.graph:
            self._replay = self._replay or self.captured()
            replays, rest = divmod(self.steps_of_an_epoch, TOGETHER)
            for _ in range(replays):
                self._replay()
            for _ in range(rest):
                self.loss = self.next()
            return
        for _ in range(self.steps_of_an_epoch):
            self.loss = self.next()

    def captured(self) -> Callable[[], None]:
        """A replay of `TOGETHER` whole steps: batch, forward, backward, optimiser.

        The capture needs some steps before it; their changes of weights and Adam are undone.
        """
        torch = self.torch
        before = [p.detach().clone() for p in self.model.parameters()]
        self.next()  # compiles
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM):
                self.next()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            for _ in range(TOGETHER):
                loss = self.next()
        with torch.no_grad():
            for parameter, its in zip(self.model.parameters(), before, strict=True):
                parameter.copy_(its)
            for state in self.optimiser.state.values():
                for its in state.values():
                    its.zero_()
        self.place.zero_()
        self.loss = loss
        torch.cuda.synchronize()
        return graph.replay


class LoaderTrainer(TorchTrainer):
    """The usual script: images in pinned host memory, a data loader, a copy for each batch."""

    def __init__(self, torch: ModuleType, training: Training, images: np.ndarray, *,
                 workers: int = 0, device: str = "cuda", **how: Any):  # fmt: skip
        super().__init__(torch, training, images[: training.batch], device=device, **how)
        data = torch.utils.data
        host = torch.from_numpy(images).float().div_(255)
        self.loader = data.DataLoader(
            data.TensorDataset(host), batch_size=training.batch, shuffle=True, drop_last=True,
            pin_memory=device != "cpu", num_workers=workers, persistent_workers=workers > 0,
        )  # fmt: skip
        self.steps_of_an_epoch = len(self.loader)

    def run_epoch(self) -> None:
        """Make a step with each batch of the loader."""
        for (x,) in self.loader:
            self.loss = self.train(x.to(self.device, non_blocking=True))


def some_steps(
    torch: ModuleType, training: Training, batches: list[np.ndarray], noises: list[np.ndarray],
    device: str = "cuda",
) -> tuple[list[float], Weights, Weights]:  # fmt: skip
    """Losses, first gradients and last weights of steps with these batches and this noise.

    Parameters
    ----------
    batches : list of ndarray, shape (batch, pixels), uint8
    noises : list of ndarray, shape (batch, latent), float32
    """
    model = network(torch, training.weights, device)
    optimiser = torch.optim.Adam(model.parameters(), lr=training.rate)
    losses, first = [], {}
    for x, e in zip(batches, noises, strict=True):
        optimiser.zero_grad(set_to_none=True)
        pixels = torch.from_numpy(x).to(device).float().div_(255)
        loss = model(pixels, torch.from_numpy(e).to(device))
        loss.backward()
        first = first or {n: p.grad.cpu().numpy().copy() for n, p in model.named_parameters()}
        optimiser.step()
        losses.append(float(loss.detach()))
    weights = {n: p.detach().cpu().numpy().copy() for n, p in model.named_parameters()}
    return losses, first, weights
