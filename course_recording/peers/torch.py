"""The digit network of PyTorch's layers, with PyTorch's activation or with another's kernels.

PyTorch is no dependency of the course; the functions take its module as an argument. On the CPU the
network is a second reference; on the GPU it is the peer of the course's own network.

>>> network = torch_network(torch, Weights.trained("gelu"), device="cpu")
>>> scores = network(torch.from_numpy(x))
>>> numba = numba_activation(torch, "gelu")            # GPU only
>>> network = torch_network(torch, Weights.trained("gelu"), activation=numba)
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from course.backend import cuda
from course.kernels.activation import LADDER
from course_lessons.lesson13.digits.weights import Weights


def torch_network(
    torch: ModuleType,
    weights: Weights,
    activation: Callable[[Any], Any] | None = None,
    device: str = "cuda",
) -> Callable[[Any], Any]:
    """The digit network of PyTorch's layers: x (batch, 1, side, side) -> scores (batch, 10).

    Parameters
    ----------
    torch : module
    weights : Weights
    activation : callable, optional
        Takes a tensor, returns a new one. It must compute the function that the weights were
        trained with. Without it PyTorch's own activation is used.
    device : str
        Where the weights lie.
    """
    w = {name: torch.from_numpy(array).to(device) for name, array in weights.as_dict().items()}
    layers = torch.nn.functional
    own = {"relu": layers.relu, "gelu": layers.gelu, "silu": layers.silu}
    activated = activation or own[weights.activation]

    def forward(x: Any) -> Any:
        for name in ("first", "second"):
            x = layers.conv2d(x, w[f"{name}_weight"], w[f"{name}_bias"], padding=1)
            x = layers.max_pool2d(activated(x), 2)
        x = activated(layers.linear(x.flatten(1), w["hidden_weight"], w["hidden_bias"]))
        return layers.linear(x, w["out_weight"], w["out_bias"])

    return forward


def numba_activation(torch: ModuleType, name: str) -> Callable[[Any], Any]:
    """One of the course's activations as a function of tensors, on PyTorch's current stream.

    Nothing is copied: the kernel takes the tensors' memory through the CUDA array interface. That
    costs the host time at each call, which adds to the latency.
    """

    def activated(x: Any) -> Any:
        x = x.contiguous()
        out = torch.empty_like(x)
        pointer = torch.cuda.current_stream().cuda_stream
        stream = cuda.external_stream(pointer) if pointer else 0
        flat = [cuda.as_cuda_array(tensor.view(-1)) for tensor in (x, out)]
        for launch in LADDER.launches(*flat, name=name):
            launch.on(stream)
        return out

    return activated


def triton_activation(torch: ModuleType, triton_peers: ModuleType, name: str) -> Callable:
    """A Triton program of `course_recording.peers.triton` as a function of tensors."""
    program = getattr(triton_peers, name)

    def activated(x: Any) -> Any:
        x = x.contiguous()
        out = torch.empty_like(x)
        program(x, out)
        return out

    return activated
