"""The digit network by batch size and activation: the course's kernels beside PyTorch's.

Each network is trained with one activation, and every program uses that one: PyTorch's layers take
PyTorch's own activation, the course's Numba kernel, or Triton's. Every program is checked against
float64. The first call has its own row. After a warm-up three times are kept. Latency is the time
until the caller has the scores. Others are the host's cost of a launch, and the GPU's time between
events, with launches queued behind a busy kernel. Each program also runs in a CUDA graph of one
forward pass. Data stays in L2, for all.

Efficiency is the least time that the GPU's roofs allow over the time between events; the least time
counts each byte of images, weights and scores once. A row says how many held-out digits are right.
"""

from __future__ import annotations

import functools

import numpy as np

from course.backend import one_line
from course.measure.roofline import bound
from course.measure.timing import timing_of
from course_lessons.lesson13.digits.network import Network, accuracy, reference
from course_lessons.lesson13.digits.weights import ACTIVATIONS, Weights, multiplications
from course_models.digits import CLASSES, held_out
from course_recording import launch_costs, peers
from course_recording.peers.torch import numba_activation, torch_network, triton_activation

BATCHES = (16, 32, 64, 128)
LIMIT = 1e-5  # relative Frobenius error
PEERS_LIMIT = 1e-4  # cuDNN may choose an algorithm that rounds more
LATENCIES = 100  # samples
CHARTS = "course_lessons.lesson13.batch_charts"  # beside the file


def run(bench):
    """Compare the programs for each activation at each batch size."""
    images, labels = held_out()
    for activation in ACTIVATIONS:
        weights = Weights.trained(activation)
        network = Network(weights)
        for batch in BATCHES:
            x = np.ascontiguousarray(images[:batch])
            work = {
                "expected": reference(x, weights), "shape": f"{batch}", "limit": LIMIT,
                "warm": True, "operations": {"float32": 2 * multiplications(batch, weights.side)},
                "bytes": moved(x, weights),
            }  # fmt: skip
            own(bench, network, x, work)
            if torch := bench.peer("torch"):
                try:
                    of_torch(bench, torch, weights, x, work | {"limit": PEERS_LIMIT})
                except Exception as problem:  # whatever it raises, the others are still measured
                    what = f"PyTorch's digits {activation} at {batch}"
                    bench.note(f"{what} left out: {one_line(problem)}")
        read(bench, network, images, labels)


def moved(x, weights):
    """Bytes of images, weights and scores, each once."""
    scores = 4 * CLASSES * len(x)
    return x.nbytes + sum(array.nbytes for array in weights.as_dict().values()) + scores


def read(bench, network, images, labels):
    """Keep how many of all held-out digits the course's programs read right."""
    name = f"digits {network.weights.activation}"
    for method in network.ladder:
        try:
            right = accuracy(network(images, method), labels)
        except Exception as problem:
            bench.fail(f"{name} {method} accuracy", problem)
            continue
        about = name, method, f"{len(labels)}", "float32"
        bench.figure(*about, "accuracy", "of the images", right)
        bench.say(f"  {name}, {method}: {right:.1%} of {len(labels)} held-out digits right")


def program(bench, name, variant, call, args, work, out=None):
    """Check and time a program: first call, time and launch, latency, efficiency."""
    from course.measure.event_clock import clock

    try:
        first = clock().wall(lambda: call(*args))
    except Exception:  # `variant` gets the same error, and reports it
        first = None
    timing = bench.variant(name, variant, call, args, out=out, registers=False, **work)
    if timing is None or first is None:
        return
    about = name, variant, work["shape"], "float32"
    waits = [clock().wall(lambda: call(*args)) for _ in range(LATENCIES)]
    bench.figure(*about, "first call", "ms", first)
    bench.row(*about, timing_of(waits), metric="latency")
    least = bound(work["bytes"], work["operations"], bench.roofs).milliseconds
    bench.figure(*about, "efficiency", "of the roofs", least / timing.median)


def own(bench, network, x, work):
    """The course's programs, plain and in a CUDA graph that CuPy captures."""
    cuda, name = bench.cuda, f"digits {network.weights.activation}"
    there, scores = cuda.to_device(x), cuda.device_array((len(x), CLASSES), np.float32)
    for method in network.ladder:
        program(bench, name, method, network.program(method), (there, scores), work, scores)
        if cupy := bench.peer("cupy"):
            queued = functools.partial(network.program, method)
            try:
                replay, _ = launch_costs.captured_by_cupy(
                    cupy, cuda, queued, (there, scores), numba=True
                )
            except Exception as problem:
                bench.note(f"{name} {method}, graph left out: {one_line(problem)}")
                continue
            program(bench, name, f"{method}, graph", replay, (), work, scores)


def of_torch(bench, torch, weights, x, work):
    """PyTorch's layers with each activation, and compiled; plain and in a CUDA graph."""
    name = f"digits {weights.activation}"
    torch.backends.cudnn.benchmark = True  # cuDNN tries its algorithms and keeps the fastest
    there = torch.from_numpy(x).cuda()
    eager = torch_network(torch, weights)
    activations = {"Numba": numba_activation(torch, weights.activation)}
    if triton := peers.triton_programs(bench):
        activations["Triton"] = triton_activation(torch, triton, weights.activation)
    with torch.no_grad():
        programs = {"torch": eager}
        for whose, activation in activations.items():
            programs[f"torch, {whose} activation"] = torch_network(torch, weights, activation)
        if compiled := peers.torch_compiled(bench, eager, there):
            programs["torch.compile"] = compiled
        for variant, call in programs.items():
            program(bench, name, variant, call, (there,), work)
            try:
                replay, scores = launch_costs.captured_by_torch(torch, call, (there,))
            except Exception as problem:  # an operation that cannot be captured
                bench.note(f"{name} {variant}, graph left out: {one_line(problem)}")
                continue
            program(bench, name, f"{variant}, graph", replay, (), work, scores)
    torch._dynamo.reset()  # else the next batch size compiles for dynamic sizes
