"""The spectral autoencoder: one kernel, ten, and PyTorch; alone and in a CUDA graph, by batch size.

Every program is checked against float64 and timed between events, with launches queued behind a
busy kernel; the host's time for a launch has a row of its own. Each program, PyTorch's too, also
runs in a CUDA graph of one forward pass, so that the GPU's work alone is compared. Data stays in L2
where it fits, for all. PyTorch's basis has rows of length 1 from the start.

At some batch sizes the fused kernel is timed in every shape, to choose from. The host's cost of a
plain launch is timed by the number of arguments: with packed weights it has 4 instead of 14.
Folded programs, PyTorch's too, have the decoder multiplied into the basis beforehand: the same
function with a third less work.
"""

from __future__ import annotations

import numpy as np

from course.backend import one_line
from course_models.spectral.data import POINTS, spectra
from course_models.spectral.network import CONFIGS, FETCHED, FOLDED, Autoencoder, reference
from course_models.spectral.weights import EPSILON, PACKED, Weights, multiplications
from course_recording import launch_costs
from course_recording.subjects.launch import time_launch

BATCHES = (32, 64, 128, 256, 512, 4096, 65536)
SHAPE_BATCHES = (32, 512, 4096, 65536)  # each has 16 shapes to check and to time
LIMIT = 1e-5  # relative Frobenius error
MODES = ("default", "max-autotune-no-cudagraphs")  # of torch.compile
ARGUMENTS = (4, 14)  # with packed weights, and with an argument for each array


def run(bench):
    """Time launches; compare the programs at each batch size, at some of them the shapes."""
    weights = Weights.trained()
    model = Autoencoder(weights)
    launches(bench)
    for batch in bench.parts(BATCHES):
        x = spectra(batch, 1)
        expected, scores = reference(x, weights)
        work = {
            "expected": expected, "shape": f"{batch}", "limit": LIMIT, "warm": True,
            "bytes": 4 * (batch * (2 * POINTS + 1) + PACKED), **done(batch),
        }  # fmt: skip
        own(bench, model, x, scores, work)
        if torch := bench.peer("torch"):
            peers(bench, torch, weights, x, work)
        if batch in SHAPE_BATCHES:
            shapes(bench, model, x, work)


def done(batch, folded=False):
    """Operations that a program does, and those that the unfolded network needs."""
    needed = 2 * multiplications(batch)
    return {"operations": {"float32": 2 * multiplications(batch, folded)}, "needed": needed}


def own(bench, model, x, scores, work):
    """The course's programs; their second output, the errors, is checked, too."""
    cuda, batch = bench.cuda, len(x)
    there, y = cuda.to_device(x), cuda.device_array(x.shape, np.float32)
    errors = cuda.device_array(batch, np.float32)
    for method in model.ladder:
        call = model.configured(batch, method)
        args = (there, y, errors)
        if method != "layers":  # the kernel itself, so that its registers are kept
            call, packed = model.kernel(batch, method)
            args = (there, packed, y, errors)
        own_work = work | done(batch, folded=method == "folded")
        timing = bench.variant("spectral", method, call, args, out=y, **own_work)
        if timing is None:
            continue
        bench.check(lambda: call(*args), (), scores, out=errors, limit=LIMIT)  # noqa: B023
        if cupy := bench.peer("cupy"):

            def queued(stream, method=method):
                return model.configured(batch, method, stream=stream)

            replay, _ = launch_costs.captured_by_cupy(
                cupy, cuda, queued, (there, y, errors), numba=True
            )
            bench.variant("spectral", f"{method}, graph", replay, (), out=y, **own_work)


def shapes(bench, model, x, work):
    """The fused kernel in every shape that fits this GPU's shared memory."""
    cuda = bench.cuda
    there, y = cuda.to_device(x), cuda.device_array(x.shape, np.float32)
    errors = cuda.device_array(len(x), np.float32)
    for config in (*CONFIGS, *FOLDED, *FETCHED):
        name = f"{config.samples}x{config.columns}, {config.groups} groups"
        name += ", folded" * config.folded + ("" if config.resident else ", fetched")
        try:
            call, packed = model.kernel(len(x), config=config)
        except ValueError as problem:  # more shared memory than this GPU has
            bench.note(f"{name} left out: {one_line(problem)}")
            continue
        args = (there, packed, y, errors)
        own_work = work | done(len(x), config.folded)
        bench.variant("spectral shape", name, call, args, out=y, **own_work)


# --- PyTorch -------------------------------------------------------------------------------------
def torch_model(torch, weights, folded=False):
    """The same network of PyTorch's own layers: x -> (rebuilt, errors)."""
    w = {name: torch.from_numpy(array).cuda() for name, array in weights.as_dict().items()}
    layers = torch.nn.functional
    decoder = (w["basis"].view(-1, 5, 64) @ w["decode_weight"].T).reshape(-1, POINTS)
    biases = w["decode_bias"].repeat(5)

    def half(x, name):
        size = (x.shape[-1],)
        x = layers.layer_norm(x, size, w[f"{name}_gamma"], w[f"{name}_beta"], EPSILON)
        return layers.gelu(layers.linear(x, w[f"{name}_weight"], w[f"{name}_bias"]))

    def forward(x):
        c = half(x.view(-1, 5, 64), "encode").reshape(-1, POINTS)
        h = half(layers.linear(c, w["basis"]), "code")
        if folded:
            y = torch.addmm(biases, h, decoder)
        else:
            r = (h @ w["basis"]).view(-1, 5, 64)
            y = layers.linear(r, w["decode_weight"], w["decode_bias"]).reshape(-1, POINTS)
        return y, ((y - x) ** 2).mean(1)

    return forward


def peers(bench, torch, weights, x, work):
    """PyTorch eager and compiled, each plain and in a CUDA graph."""
    forward = torch_model(torch, weights)
    programs = {"torch": forward}
    for mode in MODES:
        programs[f"torch.compile {mode}"] = torch.compile(forward, mode=mode, dynamic=False)
    fold = torch.compile(torch_model(torch, weights, folded=True), dynamic=False)
    programs["torch.compile default, folded"] = fold
    there = torch.from_numpy(x).cuda()
    with torch.no_grad():
        for name, program in programs.items():
            try:
                captured = launch_costs.captured_by_torch(torch, program, (there,))
            except Exception as problem:  # no compiler, or an operation that cannot be captured
                bench.note(f"{name} left out: {one_line(problem)}")
                continue

            def plain(given, program=program):
                return program(given)[0]

            replay, (y, _) = captured
            bench.variant("spectral", name, plain, (there,), registers=False, **work)
            bench.variant("spectral", f"{name}, graph", replay, (), out=y, registers=False,
                          **work)  # fmt: skip
    torch._dynamo.reset()  # else the next batch size compiles for dynamic sizes


# --- the host's side -----------------------------------------------------------------------------
def launches(bench):
    """Time launches of an empty kernel with as many arrays as packed and separate weights need."""
    cuda = bench.cuda

    @cuda.jit
    def empty_of_4(a, b, c, d):
        pass

    @cuda.jit
    def empty_of_14(a, b, c, d, e, f, g, h, i, j, k, l, m, n):  # noqa: E741
        pass

    for count, kernel in zip(ARGUMENTS, (empty_of_4, empty_of_14), strict=True):
        arrays = [cuda.device_array(16, "float32") for _ in range(count)]
        configured = kernel[1, 32]
        time_launch(bench, f"{count} arrays", lambda k=configured, a=arrays: k(*a))
        time_launch(bench, f"{count} arrays, configured anew",
                    lambda k=kernel, a=arrays: k[1, 32](*a))  # fmt: skip
