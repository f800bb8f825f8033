"""Stand-ins for PyTorch and numba.cuda: they note what a launch is given, and wait for nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

WARPS = 4  # of a block: each has a row
CYCLES = 100_000_000  # that the GPU waits in `behind_work`: 50 ms at 2 GHz
NEEDS_DETACH = (
    "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
    "required, use var.detach() to get Variable that doesn't require grad."
)

# --- a launch -------------------------------------------------------------------------------------


class Tensor:
    """A tensor on a GPU, without elements; as PyTorch's it gives no address while it is recorded.

    Parameters
    ----------
    name : str
    shape : tuple of int
    requires_grad : bool
    """

    is_cuda = True

    def __init__(self, name: str, shape: tuple[int, ...], requires_grad: bool = False) -> None:
        self.name, self.shape, self.requires_grad = name, shape, requires_grad

    def detach(self) -> Tensor:
        """The same memory, which autograd does not record."""
        return Tensor(self.name, self.shape)

    def size(self, axis: int | None = None) -> Any:
        """The shape, or one of its lengths."""
        return self.shape if axis is None else self.shape[axis]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.requires_grad:
            raise RuntimeError(NEEDS_DETACH)
        return {"data": (4096, False), "shape": self.shape, "typestr": "<f4", "version": 2}

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"a tensor of shape {self.shape}"


@dataclass
class Log:
    """What a function did with the stand-ins: launches, and for what it made the host wait."""

    launches: list[tuple[Any, Any, int, list[str]]] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)


@dataclass
class Stream:
    """One of Numba's streams, known by its number; 0 is the default stream."""

    _log: Log = field(repr=False)
    number: int

    def synchronize(self) -> None:
        """Make the host wait."""
        self._log.waits.append("stream.synchronize()")


class Kernel:
    """A kernel that is noted where it is launched."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if len(parts) < 2:
            raise ValueError("must specify at least the griddim and blockdim")
        stream = parts[2] if len(parts) > 2 else 0
        number = getattr(stream, "number", stream)
        if not isinstance(stream, Stream) and (type(stream) is not int or stream != 0):
            raise TypeError(
                f"a launch takes one of Numba's streams, or 0, as its third entry; got {stream!r}. "
                "cuda.external_stream(number) makes one of a stream's number."
            )

        def launched(*arguments: Any) -> None:
            for one in arguments:
                if not isinstance(one, Tensor):
                    raise TypeError(f"a kernel takes arrays here; got {one!r}")
                _ = one.__cuda_array_interface__
            names = [one.name for one in arguments]
            self.log.launches.append((parts[0], parts[1], number, names))

        return launched


def stand_ins(number: int) -> tuple[SimpleNamespace, SimpleNamespace, Kernel]:
    """torch, cuda and a kernel, whose log notes what is done with them.

    Parameters
    ----------
    number : int
        Of the stream that PyTorch works on; 0 is the default stream.
    """
    log = Log()

    def external_stream(pointer: Any) -> Stream:
        if not isinstance(pointer, int):
            raise TypeError("ptr for external stream must be an int")
        return Stream(log, pointer)

    def as_cuda_array(given: Any, sync: bool = True) -> Tensor:
        if not isinstance(given, Tensor):
            raise TypeError("*obj* doesn't implement the cuda array interface.")
        _ = given.__cuda_array_interface__
        return given

    def of_torch(stream: int) -> Callable[..., SimpleNamespace]:
        return lambda device=None: SimpleNamespace(
            cuda_stream=stream, synchronize=lambda: log.waits.append("stream.synchronize()")
        )

    def waiting(name: str) -> Callable[[], None]:
        return lambda: log.waits.append(name)

    torch = SimpleNamespace(
        current_stream=of_torch(number),
        default_stream=of_torch(0),
        synchronize=waiting("torch.cuda.synchronize()"),
    )
    numba = SimpleNamespace(
        external_stream=external_stream,
        default_stream=lambda: Stream(log, 0),
        stream=lambda: Stream(log, number + 1),
        as_cuda_array=as_cuda_array,
        synchronize=waiting("cuda.synchronize()"),
    )
    return SimpleNamespace(cuda=torch), numba, Kernel(log)


def of_this_machine(torch: Any, cuda: Any) -> tuple[Any, Any]:
    """Torch and cuda as they are where there is a GPU; else such that the simulator computes.

    There PyTorch's tensors lie in the host's memory, and there is the default stream alone.
    """
    if torch.cuda.is_available():
        return torch, cuda
    stream = SimpleNamespace(cuda_stream=0)
    host = SimpleNamespace(
        external_stream=cuda.external_stream,
        default_stream=cuda.default_stream,
        as_cuda_array=lambda tensor: tensor.detach().numpy(),
    )
    return SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda: stream)), host


def behind_work(torch: Any, run: Callable[..., None], kernel: Any) -> str:
    """Launch on a side stream that is busy for some 50 ms; say when the call came back.

    Parameters
    ----------
    torch : module
    run : callable
        Takes the kernel, x and y, and launches on PyTorch's current stream.
    kernel : kernel
        Of a softmax.
    """
    fresh = torch.randn(64, 768, device="cuda")
    x, y = torch.zeros_like(fresh), torch.empty_like(fresh)
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(CYCLES)
        x.copy_(fresh)
        before = time.perf_counter()
        run(kernel, x, y)
        returned = time.perf_counter()
    torch.cuda.synchronize()
    right = torch.allclose(y, torch.softmax(fresh, 1), atol=1e-6)
    return (
        f"the launch came back after {1e3 * (returned - before):.2f} ms, the stream was done after "
        f"{1e3 * (time.perf_counter() - start):.0f} ms, and the result is {'' if right else 'not '}"
        "right"
    )


# --- autograd -------------------------------------------------------------------------------------


class Context:
    """What keeps tensors from a forward pass to its backward pass."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep these."""
        self.saved_tensors = tensors


class Torch:
    """Enough of torch for a `torch.autograd.Function` of NumPy's arrays.

    Parameters
    ----------
    x, dy : (rows, columns) array
        With which the function will be called.
    """

    autograd = SimpleNamespace(Function=object)
    empty_like, empty = staticmethod(np.empty_like), staticmethod(np.empty)
    zeros_like, zeros = staticmethod(np.zeros_like), staticmethod(np.zeros)

    def __init__(self, x: np.ndarray, dy: np.ndarray) -> None:
        self.x, self.dy = x, dy


class Launcher:
    """Computes what the two kernels of a softmax would, and notes which were launched."""

    def __init__(self) -> None:
        self.launched: list[str] = []

    def __call__(self, kernel: str, *arrays: np.ndarray) -> None:
        *given, out = arrays
        self.launched.append(kernel)
        if kernel == "forward kernel":
            (x,) = given
            powers = np.exp(x - x.max(1, keepdims=True))
            out[...] = powers / powers.sum(1, keepdims=True)
        else:
            dy, y = given
            out[...] = y * (dy - (y * dy).sum(1, keepdims=True))
