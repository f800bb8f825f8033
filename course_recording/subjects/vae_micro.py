"""A VAE's kernels one by one, each in every strategy, beside PyTorch and cuBLAS.

Sizes are the model's own, batch 128 of 784 -> 400 -> 200, then up to 4096³ for products and 2²⁶
elements for all else. The model's own sizes are timed in CUDA graphs, with data in L2, as in a
training step: their metric is "time in a graph". The other sizes, with the metric "time", find
their data in device memory. PyTorch is timed in the same way as ours. Beside the file lie the
roofline and a table of its figures, `course_recording.charts.roofline_table`.

Bytes are those that must move, each once, a random generator's state included. Philox has no state:
it is a function of seed, step and index, so a sample moves 16 bytes an element. A generator with a
state for each thread, such as curand's default of 48 bytes, loads and stores the state. That is
96 bytes more for the four elements that a thread draws here, 40 bytes an element in all. It would
take 2.5 times as long.

Operations: a function such as exp or a square root counts as one; integer operations do not count.
A batch's gather counts as data movement alone: its division by 255 is a change of unit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from course.kernels import activation, transpose
from course.kernels.gemm import float32 as matmul
from course.kernels.steps import Launch, shared_memory_limit
from course_lessons.lesson16.parts import gather
from course_models.training import adam, losses, rng
from course_recording import peers
from course_recording.charts import roofline_table
from course_recording.launch_costs import ours, theirs
from course_recording.peers.vae_torch import tf32

BATCH, PIXELS, HIDDEN, LATENT = 128, 784, 400, 200
#: The products of a training step: layout, rows, depth, columns.
PRODUCTS = tuple(
    (layout, rows, depth, columns)
    for out, into in ((HIDDEN, PIXELS), (2 * LATENT, HIDDEN), (HIDDEN, LATENT), (PIXELS, HIDDEN))
    for layout, rows, depth, columns in (
        ("nt", BATCH, into, out), ("nn", BATCH, out, into), ("tn", out, BATCH, into),
    )
    if (layout, out) != ("nn", HIDDEN) or into != PIXELS  # the images' gradient is not needed
)  # fmt: skip
SQUARES = (512, 1024, 2048, 4096)
LARGE = (2**22, 2**26)
SUMMED = 2**24  # terms beyond which a float32 sum at one address no longer grows
TF32_LIMIT, SUM_LIMIT = 2e-3, 1e-5
#: Strategies on tensor cores: how many TF32 products each computes for one product.
TENSOR = {"tensor_cores": 3, "tensor_cores_tf32": 1}
DEVICE = "cuda"  # PyTorch's name
CHARTS = "course_lessons.lesson16.pictures"
#: Operations for each element.
COST = {
    "add bias": 1, "bias gradient": 1, "leaky relu": 1, "leaky relu gradient": 1, "sigmoid": 4,
    "sigmoid gradient": 7, "sample": 10, "sample gradient": 5, "bce": 8, "kl": 7,
    "bce gradient": 5, "kl gradient": 4, "adam": 13,
}  # fmt: skip


def run(bench):
    """Check and time all kernels, and write the table."""
    roofline_table.keep_roofs(bench)
    for part in bench.parts(["products of the model", *(f"{n}³" for n in SQUARES)]):
        if part == "products of the model":
            for layout, *sizes in dict.fromkeys(PRODUCTS):
                product(bench, layout, sizes, small=True)
        else:
            product(bench, "nn", [int(part[:-1])] * 3, small=False)
    groups = {"matrices": matrices, "elements": elements, "sampling": samples, "losses": sums,
              "adam": adams}  # fmt: skip
    for part in bench.parts([f"{name}, {n}" for name in groups for n in (0, *LARGE)]):
        name, _, count = part.partition(", ")
        groups[name](bench, int(count))
    roofline_table.write_beside(bench)


# --- what all of them need -----------------------------------------------------------------------


def library(bench: Any) -> Any:
    """The library that computes float64 results: CuPy, else NumPy."""
    return bench.peer("cupy") or np


def there(bench: Any, *arrays: np.ndarray) -> tuple:
    """Copies of host arrays on the device, as numba.cuda's."""
    return tuple(map(bench.cuda.to_device, arrays))


def empty(bench: Any, *shape: int) -> Any:
    """A float32 array on the device."""
    return bench.cuda.device_array(shape, np.float32)


def tensors(torch: Any, *arrays: np.ndarray) -> tuple:
    """Host arrays as tensors on the GPU."""
    return tuple(torch.tensor(array, device=DEVICE) for array in arrays)


# --- products -------------------------------------------------------------------------------------


def product(bench, layout, sizes, small):
    """Every step of the ladder, and cuBLAS in float32 and TF32."""
    rows, depth, columns = sizes
    transpose_a, transpose_b = matmul.LAYOUTS[layout]
    a = bench.random(*((depth, rows) if transpose_a else (rows, depth)))
    b = bench.random(*((columns, depth) if transpose_b else (depth, columns)))
    module = library(bench)
    left, right = (module.asarray(array).astype(np.float64) for array in (a, b))
    expected = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
    op, shape, work = f"matmul {layout}", f"{rows}x{depth}x{columns}", 2 * rows * depth * columns
    given = {"expected": expected, "small": small, "needed": work,
             "bytes": 4 * (a.size + b.size + rows * columns)}  # fmt: skip
    arrays, out = there(bench, a, b), empty(bench, rows, columns)
    for method in matmul.LADDER:
        products, about = TENSOR.get(method), {"operations": work}
        if products:
            if not shared_memory_limit()[1]:
                bench.note(f"{method} left out: it needs compute capability 8.0")
                continue
            about = {"operations": {"tensor_float32": products * work}}
            if products == 1:
                about |= {"dtype": "tfloat32", "limit": TF32_LIMIT}
        make = partial(matmul.LADDER.launches, *arrays, out, layout=layout, method=method)
        ours(bench, op, method, shape, make, out=out, **given, **about)
    if not (torch := bench.peer("torch")):
        return
    pair, result = tensors(torch, a, b), torch.empty(rows, columns, device=DEVICE)

    def call(a, b, out):
        return torch.mm(a.t() if transpose_a else a, b.t() if transpose_b else b, out=out)

    for on in (False, True):
        name, about = "cuBLAS", {"operations": work}
        if on:
            name, about = "cuBLAS TF32", {"operations": {"tensor_float32": work}}
            about |= {"dtype": "tfloat32", "limit": TF32_LIMIT}
        with tf32(torch, on):
            theirs(bench, op, name, shape, call, (*pair, result), out=result, **given, **about)


# --- matrices: transpose, bias, a batch's gather --------------------------------------------------


def matrices(bench, count):
    """Time kernels on matrices of `count` elements, or of the model's sizes if `count` is 0."""
    small = not count
    side = int(count**0.5)
    transposed(bench, *((PIXELS, HIDDEN) if small else (side, side)), small)
    biases(bench, *((BATCH, PIXELS) if small else (count // 1024, 1024)), small)
    gathers(bench, BATCH if small else count // PIXELS, small)


def transposed(bench, rows, columns, small):
    """A transpose."""
    image = bench.random(rows, columns)
    given = {"expected": image.T.astype(np.float64), "small": small, "limit": 0,
             "bytes": 2 * image.nbytes}  # fmt: skip
    (on_gpu,), out, shape = there(bench, image), empty(bench, columns, rows), f"{rows}x{columns}"
    for method in transpose.LADDER:
        make = partial(transpose.LADDER.launches, on_gpu, out, method=method)
        ours(bench, "transpose", method, shape, make, out=out, **given)
    if torch := bench.peer("torch"):
        pair = torch.empty(columns, rows, device=DEVICE), *tensors(torch, image)
        theirs(bench, "transpose", "torch", shape, lambda to, of: to.copy_(of.t()), pair,
               out=pair[0], **given)  # fmt: skip


def biases(bench, rows, columns, small):
    """A bias added to each row, and its gradient, the sum of the rows."""
    x, bias = bench.random(rows, columns), bench.random(columns)
    shape, (x_there, bias_there) = f"{rows}x{columns}", there(bench, x, bias)
    module = library(bench)
    exact = module.asarray(x).astype(np.float64)
    added, total = exact + module.asarray(bias), exact.sum(axis=0)
    result, sums = empty(bench, rows, columns), empty(bench, columns)
    cases = {
        "add bias": (
            partial(matmul.bias_launches, x_there, bias_there, result),
            result, added, 2 * x.nbytes + bias.nbytes,
        ),
        "bias gradient": (
            partial(matmul.sum_launches, x_there, sums), sums, total, x.nbytes + bias.nbytes,
        ),
    }  # fmt: skip
    torch = bench.peer("torch")
    its = tensors(torch, x, bias) if torch else ()
    for op, (make, out, expected, moved) in cases.items():
        given = {"expected": expected, "small": small, "bytes": moved,
                 "operations": COST[op] * x.size}  # fmt: skip
        ours(bench, op, "each" if op == "add bias" else "warps", shape, make, out=out, **given)
        if torch:
            call = torch.add if op == "add bias" else lambda x, _: x.sum(0)
            theirs(bench, op, "torch", shape, call, its, **given)


def gathers(bench, rows, small):
    """A batch's images from a shuffled set, as float32."""
    images = bench.rng.integers(0, 256, (max(rows, 60_000 if small else 0), PIXELS), np.uint8)
    order = bench.rng.permutation(len(images)).astype(np.int32)[:rows]
    expected = images[order].astype(np.float64) / 255
    given = {"expected": expected, "small": small, "bytes": rows * (5 * PIXELS + 4)}
    on_gpu = there(bench, images, order, np.zeros(2, np.int64))
    out, shape = empty(bench, rows, PIXELS), f"{rows}x{PIXELS}"
    grid = -(-PIXELS // 32), -(-rows // 8)
    launch = Launch(gather, grid, (32, 8), (*on_gpu, 1, out))
    ours(bench, "gather", "each", shape, lambda: [launch], out=out, **given)
    if torch := bench.peer("torch"):
        its = tensors(torch, images, order.astype(np.int64))
        theirs(bench, "gather", "torch", shape, lambda images, order: images[order].float() / 255,
               its, **given)  # fmt: skip


# --- element by element ---------------------------------------------------------------------------


def elements(bench, count):
    """LeakyReLU and sigmoid, forward and backward."""
    small = not count
    size, shape = (BATCH * HIDDEN, f"{BATCH}x{HIDDEN}") if small else (count, f"{count}")
    x, grad = 8 * bench.random(size), bench.random(size)
    module = library(bench)
    x64, grad64 = (module.asarray(array).astype(np.float64) for array in (x, grad))
    s = 1 / (1 + module.exp(-x64))
    expected = {
        "leaky relu": module.where(x64 > 0, x64, 0.2 * x64), "sigmoid": s,
        "leaky relu gradient": module.where(x64 > 0, grad64, 0.2 * grad64),
        "sigmoid gradient": grad64 * s * (1 - s),
    }  # fmt: skip
    x_there, grad_there = there(bench, x, grad)
    out, torch = empty(bench, size), bench.peer("torch")
    if torch:
        aten, its = torch.ops.aten, dict(zip(("x", "grad"), tensors(torch, x, grad), strict=True))
        its["sigmoid"] = torch.sigmoid(its["x"])
        programs = {
            "leaky relu": (lambda x: torch.nn.functional.leaky_relu(x, 0.2), ("x",)),
            "sigmoid": (torch.sigmoid, ("x",)),
            "leaky relu gradient": (
                lambda grad, x: aten.leaky_relu_backward(grad, x, 0.2, False), ("grad", "x"),
            ),
            "sigmoid gradient": (aten.sigmoid_backward, ("grad", "sigmoid")),
        }  # fmt: skip
    for op, right in expected.items():
        arrays = (x_there, out) if op in ("leaky relu", "sigmoid") else (grad_there, x_there, out)
        given = {"expected": right, "small": small, "bytes": 4 * size * len(arrays),
                 "operations": COST[op] * size}  # fmt: skip
        ladder = activation.LADDER if len(arrays) == 2 else activation.GRADIENT
        for method in activation.LADDER:
            name = op.removesuffix(" gradient")
            make = partial(ladder.launches, *arrays, name=name, method=method)
            ours(bench, op, method, shape, make, out=out, **given)
        if torch:
            call, names = programs[op]
            theirs(bench, op, "torch", shape, call, tuple(its[n] for n in names), **given)


def samples(bench, count):
    """z = mean + exp(log variance / 2) e, the noise e drawn in the kernel; and its gradient."""
    small = not count
    size, shape = (BATCH * LATENT, f"{BATCH}x{LATENT}") if small else (count, f"{count}")
    mean, log_variance, grad = (bench.random(size) for _ in range(3))
    on_gpu = there(bench, mean, log_variance, np.array([1, 2], np.int64))
    z, noise = empty(bench, size), empty(bench, size)
    for launch in rng.launches(*on_gpu, z, noise):
        launch.on()  # tests check the noise; this checks z, given the noise
    module = library(bench)
    e, m, v = (
        module.asarray(a).astype(np.float64) for a in (noise.copy_to_host(), mean, log_variance)
    )
    given = {"expected": m + module.exp(v / 2) * e, "small": small, "bytes": 16 * size,
             "operations": COST["sample"] * size}  # fmt: skip
    drawn = partial(rng.launches, *on_gpu, z, noise)
    ours(bench, "sample", "Philox", shape, drawn, out=z, **given)
    (d_z,), out = there(bench, grad), empty(bench, size)
    backward = {"expected": module.asarray(grad).astype(np.float64) * e * module.exp(v / 2) / 2,
                "small": small, "bytes": 16 * size,
                "operations": COST["sample gradient"] * size}  # fmt: skip
    make = partial(rng.gradient_launches, d_z, on_gpu[1], noise, out)
    ours(bench, "sample gradient", "each", shape, make, out=out, **backward)
    if torch := bench.peer("torch"):
        its = tensors(torch, mean, log_variance)

        def call(mean, log_variance):
            return mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)

        # the noise differs in each call, so the check is only that z is not far from the mean
        given |= {"expected": m, "limit": 10.0}
        theirs(bench, "sample", "torch", shape, call, its, **given)
        if compiled := peers.torch_compiled(bench, call, *its):
            theirs(bench, "sample", "torch.compile", shape, compiled, its, **given)


def sums(bench, count):
    """BCE and KL, each in five ways, and their gradients."""
    for name in losses.LOSSES:
        columns = PIXELS if name == "bce" else LATENT
        shape, size = (f"{count}", count) if count else (f"{BATCH}x{columns}", BATCH * columns)
        first = 8 * bench.random(size)
        second = bench.random(size) + np.float32(0.5 if name == "bce" else 0)
        a_loss(bench, name, shape, first, second, small=not count)


def a_loss(bench, name, shape, first, second, small):
    """Time one loss and its gradient."""
    module = library(bench)
    x, y = (module.asarray(array).astype(np.float64) for array in (first, second))
    if name == "bce":
        total = (module.maximum(x, 0) - x * y + module.log1p(module.exp(-abs(x)))).sum()
        slope = 1 / (1 + module.exp(-x)) - y
    else:
        total, slope = ((x * x + module.exp(y) - 1 - y) / 2).sum(), x
    size, arrays, out = first.size, there(bench, first, second), empty(bench, 1)
    given = {"expected": total.reshape(1), "small": small, "bytes": 8 * size,
             "operations": COST[name] * size, "limit": SUM_LIMIT}  # fmt: skip
    for method in losses.LADDER:
        if method == "atomics" and size > SUMMED:
            stagnates(bench, name, shape, arrays, out, float(total))
            continue
        limit = {"limit": 1e-2} if method == "atomics" else {}
        make = partial(losses.LADDER.launches, *arrays, out, name=name, method=method)
        ours(bench, name, method, shape, make, out=out, **given | limit)
    gradient, op = {"small": small, "expected": slope}, f"{name} gradient"
    gradient |= {"bytes": (12 if name == "bce" else 16) * size, "operations": COST[op] * size}
    d_first, d_second = empty(bench, size), empty(bench, size)
    for method in losses.BACKWARD if name == "bce" else ("each",):
        make = partial(losses.kl_launches, *arrays, d_first, d_second, 1.0)
        if name == "bce":
            make = partial(losses.BACKWARD.launches, *arrays, d_first, scale=1.0, method=method)
        ours(bench, op, method, shape, make, out=d_first, **gradient)
    if torch := bench.peer("torch"):
        of_torch(bench, torch, name, shape, tensors(torch, first, second), given, gradient)


def stagnates(bench, name, shape, arrays, out, total):
    """Keep the error of adding up by atomics at one address; a time would mean nothing."""
    for launch in losses.LADDER.launches(*arrays, out, name=name, method="atomics"):
        launch.on()
    error = abs(float(out.copy_to_host()[0]) - total) / total
    bench.figure(name, "atomics", shape, "float32", "error", "relative", error)
    why = "not timed, float32 at one address stops growing; see its error"
    bench.note(f"{name} atomics {shape}: {why}")


def of_torch(bench, torch, name, shape, its, given, gradient):
    """PyTorch's loss, eager and compiled, and BCE's gradient."""

    def bce(x, y):
        each = torch.nn.functional.binary_cross_entropy_with_logits
        return each(x, y, reduction="sum").reshape(1)

    def kl(x, y):
        return (0.5 * (x * x + torch.exp(y) - 1 - y)).sum().reshape(1)

    def slope(x, y):
        return torch.sigmoid(x) - y

    programs = {name: (bce if name == "bce" else kl, given)}
    if name == "bce":
        programs["bce gradient"] = slope, gradient
    for op, (call, about) in programs.items():
        theirs(bench, op, "torch", shape, call, its, **about)
        if compiled := peers.torch_compiled(bench, call, *its):
            theirs(bench, op, "torch.compile", shape, compiled, its, **about)


# --- Adam -----------------------------------------------------------------------------------------


def adams(bench, count):
    """The first step of Adam, in place: the ladder's steps, and PyTorch's fused and foreach."""
    small = not count
    size, shape = (PIXELS * HIDDEN, f"{PIXELS}x{HIDDEN}") if small else (count, f"{count}")
    parameters, gradient = bench.random(size), bench.random(size)
    module = library(bench)
    p, g = (module.asarray(array).astype(np.float64) for array in (parameters, gradient))
    # after the first step the corrected moments are the gradient and its square
    given = {"expected": p - 1e-3 * g / (abs(g) + 1e-8), "small": small, "bytes": 28 * size,
             "operations": COST["adam"] * size, "in_place": True, "limit": 1e-7}  # fmt: skip
    corrected = adam.corrections(1, 1e-3)
    for method in adam.LADDER:
        zeros = np.zeros(size, np.float32)
        *arrays, factors = there(bench, parameters, gradient, zeros, zeros, corrected)
        w, _, first, second = arrays
        make = partial(adam.LADDER.launches, *arrays, factors, w, first, second, method=method)
        ours(bench, "adam", method, shape, make, out=w, **given)
    if not (torch := bench.peer("torch")):
        return
    for way in ("fused", "foreach"):
        weight, grad = tensors(torch, parameters, gradient)
        weight.requires_grad_()
        weight.grad = grad
        optimiser = torch.optim.Adam(
            [weight], lr=1e-3, capturable=small and DEVICE != "cpu", **{way: True}
        )

        def step(*_, optimiser=optimiser):
            optimiser.step()

        evicts_itself = 4 * grad.nbytes > 4 * bench.roofs.l2_bytes  # weight, gradient, two moments
        moved = (weight.detach(), grad) if evicts_itself and not small else ()
        theirs(bench, "adam", f"torch {way}", shape, step, moved, out=weight.detach(), **given)
