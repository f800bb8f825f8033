"""What the kernels of lesson 16's exercises are shown beside: the package's steps, PyTorch's."""

import numpy as np

from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case
from course.kernels import activation
from course.kernels.gemm import float32 as matmul
from course_models.training import adam, losses, rng

THREADS = 256


def _bce(logits, targets, scale, values, slopes):
    """The package sums the loss in one launch, and makes the slopes in another."""
    total, tile = np.zeros(1, np.float32), THREADS * losses.SEVERAL
    return [
        Launch(losses.shuffles(losses.bce_of, 1.0), -(-logits.size // tile), THREADS,
               (logits, targets, total)),
        Launch(losses.bce_backward(1.0), -(-logits.size // THREADS), THREADS,
               (logits, targets, scale, slopes)),
    ]  # fmt: skip


def _bce_on_gpu(logits, targets, scale, values, slopes):
    def call(logits, targets, total, slopes):
        losses.loss("bce", logits, targets, out=total, method="shuffles")
        losses.bce_gradient(logits, targets, float(scale), out=slopes)

    return call, (logits, targets, values[:1], slopes)


def _bce_by_torch(torch, logits, targets, scale):
    of = torch.nn.functional
    each = of.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return each, (torch.sigmoid(logits) - targets) * float(scale)


def of_bce(timed: Case) -> Rivals:
    """The package's sum and slopes, and PyTorch's."""
    return Rivals(package=_bce, called=_bce_on_gpu, torch=_bce_by_torch, timed=timed)


def _sample(mean, log_variance, counter, z, noise):
    blocks = -(-z.size // (rng.FOUR * THREADS))
    return [Launch(rng.sample, blocks, THREADS, (mean, log_variance, counter, z, noise))]


def _sample_by_torch(torch, mean, log_variance, counter):
    noise = torch.randn_like(mean)
    return mean + torch.exp(0.5 * log_variance) * noise, noise


def of_sample(timed: Case) -> Rivals:
    """The package's sample, and PyTorch's, which has other noise."""
    return Rivals(package=_sample, torch=_sample_by_torch, timed=timed)


def _adam_on_gpu(w, gradient, first, second, corrected):
    arrays = w, gradient, first, second, corrected, w, first, second
    return adam.adam_wide[-(-w.size // (THREADS * adam.VECTOR)), THREADS], arrays


def _adam_by_torch(torch, w, gradient, first, second, corrected):
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    return w.sub_(corrected[0] * first / ((second * corrected[1]).sqrt() + 1e-8))


def of_adam(timed: Case) -> Rivals:
    """The package's wide step, and PyTorch's operations one by one."""
    return Rivals(
        called=_adam_on_gpu, torch=_adam_by_torch, timed=timed,
        operations=lambda w, **_: 11 * w.size,
    )  # fmt: skip


def _layer(x, weight, bias, out):
    """The package's product, bias and LeakyReLU, a launch each."""
    (rows, columns), wide = out.shape, matmul.TILE
    grid = -(-columns // wide), -(-rows // wide)
    small = -(-columns // matmul.NAIVE_BLOCK[0]), -(-rows // matmul.NAIVE_BLOCK[1])
    return [
        Launch(matmul.vectorised("nt", x.shape[1] % 4 == columns % 4 == 0), grid, matmul.THREADS,
               (x, weight, out)),
        Launch(matmul.bias_added, small, matmul.NAIVE_BLOCK, (out, bias, out)),
        Launch(activation.each(activation.leaky_relu), -(-out.size // THREADS), THREADS,
               (out.reshape(-1), out.reshape(-1))),
    ]  # fmt: skip


def _layer_on_gpu(x, weight, bias, out):
    def call(x, weight, bias, out):
        how = {"layout": "nt", "method": "vectorised"}
        for launch in (
            *matmul.LADDER.launches(x, weight, out, **how),
            *matmul.bias_launches(out, bias, out),
        ):
            launch.on()
        flat = out.reshape(out.size)
        for launch in activation.LADDER.launches(flat, flat, name="leaky relu"):
            launch.on()

    return call, (x, weight, bias, out)


def _layer_by_torch(torch, x, weight, bias):
    return torch.nn.functional.leaky_relu(torch.nn.functional.linear(x, weight, bias), 0.2)


def of_layer(timed: Case) -> Rivals:
    """The package's three launches, and PyTorch's layer."""
    return Rivals(
        package=_layer, called=_layer_on_gpu, torch=_layer_by_torch, timed=timed,
        operations=lambda x, weight, **_: 2 * x.shape[0] * weight.size,
    )  # fmt: skip
