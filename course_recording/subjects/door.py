"""What a call of a public function costs the host, beside the array libraries' own calls.

The arrays are of PyTorch, CuPy and Numba, and small, so that nothing but the call counts. All
calls are interleaved: in each of `ROUNDS` rounds each is made `CALLS` times, on an idle GPU.

=============  =====================================================================================
metric         what the clock saw
=============  =====================================================================================
``host``       the host, for a call in a row of calls, until it returns: medians of the rounds
``time``       the GPU alone, calls queued behind a busy kernel, at a size that keeps it busy
``behind``     the host, for one call while the GPU has 100 ms of other work
``first``      the first call of a process: checks, compilation, plan
``step``       the host, for each part of a softmax's call, and for the calls that these replace
=============  =====================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import reader_of
from course.kernels.activation import activation, activation_gradient
from course.kernels.norm import layer_norm, layer_norm_backward
from course.kernels.reconstruct.ladder import reconstruct
from course.kernels.reduce import reduction
from course.kernels.softmax import forward, softmax, softmax_backward
from course.measure import event_clock
from course.measure.timing import timing_of

ROUNDS, CALLS = 15, 300
ROWS, COLUMNS = 64, 768
SIDE, RANK = 256, 50
LARGE = 8192  # rows and columns where the GPU's time is measured
BUSY = 100.0  # ms of other work on the GPU
TITLES = {"torch": "PyTorch", "cupy": "CuPy", "numba": "Numba"}

Call = Callable[[], Any]


def run(bench):
    """Time the calls of all libraries, then the GPU's time of the functions."""
    for name in bench.parts(TITLES):
        calls = dict(_calls(bench, name))
        firsts(bench, calls)
        hosts(bench, calls)
        behind(bench, calls)
    steps(bench)
    through(bench)


def _calls(bench: Any, name: str) -> Iterator[tuple[str, Call]]:
    """Calls by name: the course's and the library's own."""
    library = bench.cuda if name == "numba" else bench.peer(name)
    if not library:
        return
    make = placed(name, library)
    x, dy, y = (make(bench.random(ROWS, COLUMNS)) for _ in range(3))
    gamma, beta = (make(bench.random(COLUMNS)) for _ in range(2))
    u, vt, image = (make(bench.random(SIDE, SIDE)) for _ in range(3))
    s = make(bench.random(SIDE))
    title = TITLES[name]

    def titled(what: str, call: Call) -> tuple[str, Call]:
        return f"{what}, {title}", call

    yield titled("layer_norm", lambda: layer_norm(x, gamma, beta))
    yield titled("layer_norm, out", lambda: layer_norm(x, gamma, beta, out=y))
    yield titled("layer_norm_backward", lambda: layer_norm_backward(dy, x, gamma))
    yield titled("softmax", lambda: softmax(x))
    yield titled("softmax, out", lambda: softmax(x, out=y))
    yield titled("softmax, in full", lambda: softmax(x, stream=0))
    yield titled("softmax_backward", lambda: softmax_backward(dy, x))
    yield titled("activation", lambda: activation(x))
    yield titled("activation, out", lambda: activation(x, out=y))
    yield titled("activation_gradient", lambda: activation_gradient(dy, x))
    yield titled("reconstruct", lambda: reconstruct(u, s, vt, RANK))
    yield titled("reconstruct, out", lambda: reconstruct(u, s, vt, RANK, out=image))
    if name == "torch":
        own = library.nn.functional
        yield "own: layer_norm, PyTorch", lambda: own.layer_norm(x, (COLUMNS,), gamma, beta)
        yield "own: softmax, PyTorch", lambda: own.softmax(x, 1)
        yield "own: activation, PyTorch", lambda: own.gelu(x)
        yield "own: mul, out, PyTorch", lambda: library.mul(x, 2, out=y)
        yield "own: sum, PyTorch", lambda: x.sum()
        yield titled("reduction", lambda: reduction(x))
        from course import torch as operators

        yield titled("operator: layer_norm", lambda: operators.layer_norm(x, gamma, beta))
        yield titled("operator: softmax", lambda: operators.softmax(x))
        yield titled("operator: gelu", lambda: operators.gelu(x))
        leaf = x.detach().clone().requires_grad_()
        yield titled("operator: layer_norm, with gradient", lambda: operators.layer_norm(leaf))
    if name == "cupy":
        yield "own: reconstruct, CuPy", lambda: (u[:, :RANK] * s[:RANK]) @ vt[:RANK]
        yield "own: mul, out, CuPy", lambda: library.multiply(x, 2, out=y)
        yield "own: sum, CuPy", lambda: x.sum()
        yield titled("reduction", lambda: reduction(x))


def placed(name: str, library: Any) -> Callable[[np.ndarray], Any]:
    """A function that copies NumPy's arrays to the GPU, to arrays of a library."""
    if name == "torch":
        return lambda values: library.from_numpy(values).cuda()
    return library.asarray if name == "cupy" else library.to_device


def shape_of(what: str) -> str:
    """The shape in the rows of a call."""
    return f"{SIDE}x{SIDE}x{RANK}" if "reconstruct" in what else f"{ROWS}x{COLUMNS}"


def firsts(bench: Any, calls: dict[str, Call]) -> None:
    """Time the first call of each; tests check elsewhere that results are right."""
    for what, call in calls.items():
        first = event_clock.clock().wall(call)
        bench.figure("door", what, shape_of(what), "float32", "first", "ms", first)


def steps(bench: Any) -> None:
    """Keep what each part of a call costs the host, and a Numba launch with the same arrays."""
    torch = bench.peer("torch")
    if not torch:
        return
    x = torch.zeros(ROWS, COLUMNS, device="cuda")
    y, read = softmax(x), reader_of(x)
    plan = forward._ENTRY.plans[("auto",), read(x)[0]]
    (make,), (launch,), where, device = plan.makers, plan.launches, plan.address, plan.device
    slots = launch.slots

    def write() -> None:
        slots[0], slots[1] = where(x), where(y)

    write()
    ours, theirs = cuda.as_cuda_array(x), cuda.as_cuda_array(y)
    copy = copied[ROWS, COLUMNS]
    found = {
        "look at the array": lambda: read(x),
        "memory for the result": make,
        "write addresses": write,
        "ask for the stream": lambda: plan.stream(device),
        "the driver's launch": lambda: launch.launch(*launch.where),
        "the whole call": lambda: softmax(x),
        "PyTorch's call": lambda: torch.nn.functional.softmax(x, 1),
        "Numba's launch": lambda: copy(ours, theirs),
        "Numba's view of a tensor": lambda: cuda.as_cuda_array(x),
    }
    hosts(bench, found, "step")


@cuda.jit
def copied(x, out):
    """Copy a matrix, a block for each row."""
    out[cuda.blockIdx.x, cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]


def hosts(bench: Any, calls: dict[str, Call], metric: str = "host") -> None:
    """Keep what calls cost the host, all interleaved."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for _ in range(20):
                call()
            bench.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter() - start) / CALLS * 1e3)
            bench.cuda.synchronize()
    for name, times in found.items():
        bench.row("door", name, shape_of(name), "float32", timing_of(times), metric=metric)


def behind(bench: Any, calls: dict[str, Call]) -> None:
    """Keep what one call costs the host while the GPU has other work."""
    clock = event_clock.clock()
    for name, call in calls.items():
        times = []
        for _ in range(3):
            bench.cuda.synchronize()
            clock.keep_busy(BUSY)
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e3)
            bench.cuda.synchronize()
        bench.row("door", name, shape_of(name), "float32", timing_of(times), metric="behind")


def through(bench: Any) -> None:
    """Keep the GPU's time of LayerNorm, softmax and activation, for each library's arrays."""
    values = bench.random(LARGE, LARGE)
    work = 8 * values.size
    for name in TITLES:
        library = bench.cuda if name == "numba" else bench.peer(name)
        if not library:
            continue
        make = placed(name, library)
        x, out = make(values), make(np.zeros_like(values))
        for function in (layer_norm, softmax, activation):
            what = f"{function.__name__}, {TITLES[name]}"
            try:
                timing = bench.time(partial(_into, function), (x, out), bytes=work, name=what)
            except Exception as problem:  # the others are still measured
                bench.fail(what, problem)
                continue
            bench.row("door", what, f"{LARGE}x{LARGE}", "float32", timing)


def _into(function: Callable[..., Any], x: Any, out: Any) -> None:
    function(x, out=out)
