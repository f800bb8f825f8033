"""A training step of a small MLP in PyTorch: its LayerNorm and GELU, or ours in one operator.

784 numbers go through two hidden layers of 1,024 units, each with LayerNorm and GELU, to ten
classes; a step is forward, loss, backward and SGD together. Both networks begin with the same
weights. In each of `ROUNDS` rounds each network makes `STEPS` steps. The host's clock runs from the
first step's call until the GPU has done the last: a user waits so long.

=============  =====================================================================================
metric         what was measured
=============  =====================================================================================
``step``       the host's clock for a step
``gap``        the largest difference of the two networks' losses in the first `COMPARED` steps
=============  =====================================================================================

Variants: eager; compiled, by ``torch.compile(fullgraph=True)``; graphs, compiled with
``mode="reduce-overhead"``, too, which captures the launches in a CUDA graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from course.measure.timing import timing_of

BATCHES = (128, 1024, 8192)
INPUTS, HIDDEN, CLASSES = 784, 1024, 10
ROUNDS, STEPS, COMPARED = 9, 30, 20
DEVICE = "cuda"
WAYS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "compiled": {"fullgraph": True},
    "graphs": {"fullgraph": True, "mode": "reduce-overhead"},
}
OWN, OURS = "PyTorch's", "ours"


def run(bench: Any) -> None:
    """Time steps of both networks in each way, and compare their losses."""
    torch = bench.peer("torch")
    if not torch:
        return
    for way in bench.parts(WAYS):
        for batch in BATCHES:
            torch._dynamo.reset()
            steps = {
                whose: step_of(torch, whose == OURS, WAYS[way], batch) for whose in (OWN, OURS)
            }
            losses = {
                whose: [float(step()) for _ in range(COMPARED)] for whose, step in steps.items()
            }
            gap = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
            shape = f"{batch}x{INPUTS}"
            bench.figure("training", f"{way}, {OURS}", shape, "float32", "gap", "1", gap)
            found: dict[str, list[float]] = {whose: [] for whose in steps}
            for _ in range(ROUNDS):
                for whose, step in steps.items():
                    bench.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(STEPS):
                        step()
                    bench.cuda.synchronize()
                    found[whose].append((time.perf_counter() - start) / STEPS * 1e3)
            for whose, times in found.items():
                name = f"{way}, {whose}"
                bench.row("training", name, shape, "float32", timing_of(times), metric="step")


def step_of(torch: Any, ours: bool, compiled: dict[str, Any] | None, batch: int) -> Callable:
    """A function that makes a training step and returns its loss, a tensor."""
    from course import torch as operators

    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, inputs: int):
            super().__init__()
            self.linear, self.norm = nn.Linear(inputs, HIDDEN), nn.LayerNorm(HIDDEN)

        def forward(self, x):
            x, norm = self.linear(x), self.norm
            if ours:
                return operators.layer_norm(x, norm.weight, norm.bias, norm.eps, "gelu")
            return nn.functional.gelu(norm(x))

    torch.manual_seed(0)
    network = nn.Sequential(Layer(INPUTS), Layer(HIDDEN), nn.Linear(HIDDEN, CLASSES)).to(DEVICE)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    x = torch.randn(batch, INPUTS, device=DEVICE)
    labels = torch.arange(batch, device=DEVICE) % CLASSES
    forward = network if compiled is None else torch.compile(network, **compiled)

    def step():
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), labels)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step
