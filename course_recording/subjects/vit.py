"""A vision transformer, ViT-Base in float16: components, a block and the whole, beside PyTorch.

All programs have the same weights and are called by public functions with PyTorch's arrays, in
CUDA graphs whose replays are interleaved, as `course_recording.interleaved` says. "eager",
"compiled" and "max-autotune" are PyTorch's. In the ratios "peer / ours" ours is faster above 1.
Errors are relative to PyTorch's model in float64, whose weights are rounded to float16.

=============  =====================================================================================
kernel         what is measured
=============  =====================================================================================
``whole``      images to scores, by batch size; ``flags``: the same with other flags than default;
               the part ``tuned``: beside PyTorch's max-autotune, which searches for minutes
``block``      tokens to tokens, one block
others         one component: PyTorch's calls for the same work, and our less fused steps
``patches``    the five ways of `course_models.patches`, by the host's clock, and their counts
``image``      the whole for 8 images of other sizes
``streams``    the whole from pinned memory and back, in parts of the images on so many streams, by
               the host's clock; with a timeline of each beside the file
``pillow``     JPEG files of 500 x 375 pixels to a model's input, by the host's clock, one thread
=============  =====================================================================================

The metric ``first`` of ``whole`` is a process's first call, by the host's clock. Model and images
are on the GPU; kernels are compiled anew, or were kept by an earlier process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from course.dispatch.entry import EntryPoint
from course.kernels import attention
from course.kernels.gemm.half import gemm
from course.kernels.norm import layer_norm
from course_models.patches import WAYS
from course_models.vit import reference, unfused_epilogue
from course_models.vit.images import read_images
from course_models.vit.network import ViT
from course_models.vit.shape import EPSILON, Flags, ViTShape
from course_models.vit.weights import Weights, initial
from course_recording import interleaved
from course_recording.charts.roofline_table import keep_roofs
from course_recording.interleaved import keep_ratio, relative
from course_recording.peers.vit_torch import network
from course_recording.vit_first import first_calls
from course_recording.vit_streams import clocked, on_streams

CHARTS = "course_recording.charts.vit"  # beside the file
BATCHES, BETWEEN = (64, 8, 1), (32, 16, 4, 2)  # beside compiled and eager PyTorch; beside eager
SIZES = (64, 128, 224, 384)  # pixels of a side
STREAMS = (1, 2, 4, 8)
SHAPE = ViTShape()
LIMIT = 5e-3
#: To see what each flag gains: the whole network with one flag changed.
OTHERS = ({"norm": "auto"}, {"last": "class"}, {"mlp": "unfused"}, {"residual": "apart"},
          {"patches": "kept"}, {"buffers": "apart"}, {"buffers": "asynchronous"})  # fmt: skip
#: Modes of torch.compile; the bench makes the CUDA graphs itself.
COMPILED = {"compiled": "default", "max-autotune": "max-autotune-no-cudagraphs"}
SETS, WORK = 4, 2e12  # copies of arrays; operations of a graph of one component


def run(bench):
    """Time everything that is chosen."""
    if not (torch := bench.peer("torch")):
        return
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    weights = initial(SHAPE)
    three = Three.of(torch, SHAPE, weights)
    keep_roofs(bench)
    kinds = [f"{what} {n}" for what in ("whole", "components", "block") for n in BATCHES]
    kinds += ["streams", *[f"whole {n}" for n in BETWEEN], *[f"image {n}" for n in SIZES]]
    kinds += ["flags", "patches", "pillow", "first", *[f"tuned {n}" for n in BATCHES]]
    for part in bench.parts(kinds):
        try:
            measured(bench, torch, three, *part.split())
        except Exception as problem:  # the other parts are still measured
            bench.fail(part, problem)
        torch.cuda.empty_cache()


class Three(NamedTuple):
    """Our vision transformer, PyTorch's, PyTorch's in float64; their shape and weights."""

    ours: ViT
    eager: Any
    exact: Any
    shape: ViTShape
    weights: Weights

    @classmethod
    def of(cls, torch: Any, shape: ViTShape, weights: Weights) -> Three:
        models = (network(torch, shape, weights) for _ in range(2))
        return cls(ViT(shape, weights), next(models), next(models).double(), shape, weights)


def resized(shape: ViTShape, weights: Weights) -> Weights:
    """The weights for another size of images: only the position embeddings are new."""
    rng = np.random.default_rng(0)
    positions = 0.02 * rng.standard_normal(shape.parameters["pos_embed"], np.float32)
    return weights | {"pos_embed": positions}


def measured(bench: Any, torch: Any, three: Three, what: str, number: str = "0") -> None:
    """Measure one part."""
    if what == "image":
        shape = replace(SHAPE, image=int(number))
        other = Three.of(torch, shape, resized(shape, three.weights))
        whole(bench, torch, other, 8, "image", compiled="")
    elif what == "patches":
        patches(bench, three.weights)
    elif what == "pillow":
        pillow(bench)
    elif what == "first":
        first_calls(bench, three.shape, BATCHES[0])
    elif what == "streams":
        on_streams(bench, torch, three.ours, BATCHES[0], STREAMS)
    elif what == "flags":
        flags(bench, torch, three)
    elif what == "whole":
        whole(bench, torch, three, int(number), compiled="compiled" * (int(number) in BATCHES))
    elif what == "tuned":
        whole(bench, torch, three, int(number), compiled="max-autotune")
    else:
        {"block": block, "components": components}[what](bench, torch, three, int(number))


Programs = dict[str, tuple[Callable[[int], Any], Any]]  # name -> call, right result


def timed(
    bench: Any, torch: Any, kernel: str, name: str, programs: Programs, calls: int = 1,
    operations: float | None = None, bytes: float | None = None, limit: float = LIMIT,
) -> None:  # fmt: skip
    """Check programs, interleave replays of their graphs, keep times, errors, ratios to "ours"."""
    key = kernel, name, "float16"
    times = interleaved.timed(
        bench, torch, key, {variant: call for variant, (call, _) in programs.items()},
        lambda variant, call: relative(call(0), programs[variant][1], limit), calls, SETS, bytes,
        operations,
    )  # fmt: skip
    for peer in ("eager", *COMPILED):
        keep_ratio(bench, key, times, peer)


def some(torch: Any, *shape: int, seed: int = 0) -> list[Any]:
    """Arrays of random numbers between which calls alternate."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return [torch.randn(*shape, device="cuda", generator=generator).half() for _ in range(SETS)]


def whole(
    bench: Any,
    torch: Any,
    three: Three,
    batch: int,
    kernel: str = "whole",
    compiled: str = "compiled",
) -> None:
    """Time images to scores; keep each program's peak memory besides weights and images."""
    vit, model, exact, shape, _ = three
    images = some(torch, batch, shape.channels, shape.image, shape.image)
    right = exact(images[0].double())
    programs: Programs = {"ours": (lambda i: vit(images[i]), right),
                          "eager": (lambda i: model(images[i]), right)}  # fmt: skip
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(model, dynamic=False, mode=COMPILED[compiled])
        programs[compiled] = lambda i: fast(images[i]), right
    name = f"{batch}x{shape.image}x{shape.image}"
    for variant, (call, _) in programs.items():
        call(0)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call(0)
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        bench.figure(kernel, variant, name, "float16", "peak memory", "bytes", peak)
    timed(bench, torch, kernel, name, programs, operations=shape.operations(batch))


def flags(bench: Any, torch: Any, three: Three, batch: int = 64) -> None:
    """Time the whole network with one flag changed at a time."""
    images = some(torch, batch, SHAPE.channels, SHAPE.image, SHAPE.image)
    exact = three.exact(images[0].double())
    programs: Programs = {}
    for other in ({}, *OTHERS):
        vit = ViT(SHAPE, three.weights, Flags(**other)) if other else three.ours
        words = ", ".join(f"{name} {value}" for name, value in other.items())
        programs[f"ours, {words}" if words else "ours"] = lambda i, vit=vit: vit(images[i]), exact
    name = f"{batch}x{SHAPE.image}x{SHAPE.image}"
    timed(bench, torch, "flags", name, programs, operations=SHAPE.operations(batch))


def block(bench: Any, torch: Any, three: Three, batch: int) -> None:
    """One block, eager and compiled beside ours."""
    x = some(torch, batch, SHAPE.tokens, SHAPE.width)
    vit, model = three.ours, three.eager.blocks[0]
    exact = three.exact.blocks[0](x[0].double())
    torch._dynamo.reset()
    fast = torch.compile(model, dynamic=False)
    programs: Programs = {
        "ours": (lambda i: vit.block(0, x[i]), exact),
        "eager": (lambda i: model(x[i]), exact),
        "compiled": (lambda i: fast(x[i]), exact),
    }
    name = f"{batch}x{SHAPE.tokens}x{SHAPE.width}"
    timed(bench, torch, "block", name, programs, calls=4)


def components(bench: Any, torch: Any, three: Three, batch: int) -> None:
    """Each part of a block, and the patch embedding."""
    functional, d, rows = torch.nn.functional, SHAPE.width, batch * SHAPE.tokens
    half = {name: torch.from_numpy(its).cuda().half() for name, its in three.weights.items()
            if name.startswith("blocks.0.")}  # fmt: skip
    x, wide, other = (some(torch, rows, n, seed=n) for n in (d, SHAPE.mlp, d))
    qkv = some(torch, batch, SHAPE.tokens, 3, SHAPE.heads, SHAPE.head)
    images = some(torch, batch, SHAPE.channels, SHAPE.image, SHAPE.image)
    vit, model, exact_model = three[:3]

    def of(layer: str) -> tuple[Any, Any]:
        return half[f"blocks.0.{layer}.weight"], half[f"blocks.0.{layer}.bias"]

    def attend(i: int, double: bool = False) -> Any:
        three = (qkv[i].double() if double else qkv[i]).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(*three)
        return heads.transpose(1, 2).reshape(batch, SHAPE.tokens, d)

    def linear(layer: str, given: list, residual: bool, gelu: bool) -> tuple[Callable, Callable]:
        weight, bias = of(layer)

        def theirs(i: int, double: bool = False) -> Any:
            parts = given[i], weight, bias, other[i]
            a, w, b, r = (part.double() for part in parts) if double else parts
            y = functional.linear(a, w, b)
            y = functional.gelu(y) if gelu else y
            return y + r if residual else y

        def ours(i: int) -> Any:
            return gemm(given[i], weight, "nt", bias, "gelu" if gelu else "",
                           other[i] if residual else None)  # fmt: skip

        return ours, theirs

    def apart_from(layer: str, given: list, gelu: bool) -> Callable[[int], Any]:
        """The layer with its epilogue in a kernel of its own."""

        def launches(x: Any, w: Any, b: Any, r: Any, out: Any) -> list:
            first, last = (None, (b, None, out, "gelu")) if gelu else (b, (None, r, out, ""))
            product = gemm.ladder.launches(x, w, first, None, out, layout="nt")
            return [*product, *unfused_epilogue.launches(out, *last)]

        names = "x", "weight", "bias", "other"
        entry = EntryPoint(
            "unfused", names, lambda x, w, *_: ((x.shape[0], w.shape[0]), x.dtype), launches,
            options=(),
        )  # fmt: skip
        return lambda i: entry.call((given[i], *of(layer), other[i]))

    def normed(i: int, double: bool = False) -> Any:
        parts = (x[i], *of("norm1"))
        a, w, b = (part.double() for part in parts) if double else parts
        return functional.layer_norm(a, (d,), w, b, EPSILON)

    def embedded(i: int, double: bool = False) -> Any:
        return exact_model.tokens(images[i].double()) if double else model.tokens(images[i])

    pixels = SHAPE.channels * SHAPE.patch**2
    ends = {"attention": 4 * batch * SHAPE.tokens**2 * d, "norm": 0,
            "patch embedding": 2 * batch * (SHAPE.tokens - 1) * d * pixels}  # fmt: skip
    parts = {
        "norm": (lambda i: layer_norm(x[i], *of("norm1"), EPSILON), normed),
        "qkv": linear("attn.qkv", x, False, False),
        "attention": (lambda i: attention.attention(*qkv[i].unbind(2)), attend),
        "proj + residual": linear("attn.proj", x, True, False),
        "fc1 + GELU": linear("mlp.fc1", x, False, True),
        "fc2 + residual": linear("mlp.fc2", wide, True, False),
        "patch embedding": (lambda i: vit.tokens(images[i]), embedded),
    }
    less = {
        "attention": {"ours, online": lambda i: attention.attention(*qkv[i].unbind(2),
                                                                    method="online")},
        "proj + residual": {"ours, apart": apart_from("attn.proj", x, False)},
        "fc1 + GELU": {"ours, apart": apart_from("mlp.fc1", x, True)},
        "fc2 + residual": {"ours, apart": apart_from("mlp.fc2", wide, False)},
    }  # fmt: skip
    layers = {"qkv": "attn.qkv", "proj + residual": "attn.proj", "fc1 + GELU": "mlp.fc1",
              "fc2 + residual": "mlp.fc2"}  # fmt: skip
    wides = {"norm": 2 * d, "qkv": 4 * d, "attention": 4 * d, "proj + residual": 3 * d,
             "fc1 + GELU": d + SHAPE.mlp, "fc2 + residual": SHAPE.mlp + 2 * d}  # fmt: skip
    for name, (ours, theirs) in parts.items():
        exact = theirs(0, True)
        weight = of(layers[name])[0].numel() if name in layers else 0
        work = ends[name] if name in ends else 2 * rows * weight
        if name in wides:
            moved = 2 * (rows * wides[name] + weight)
        else:  # pixels in, tokens out, weights and positions
            moved = 2 * (images[0].numel() + (rows + SHAPE.tokens + pixels) * d)
        calls = max(4, min(40, int(WORK / max(work, WORK / 40))))
        programs = {"ours": (ours, exact), "eager": (theirs, exact)}
        programs |= {variant: (call, exact) for variant, call in less.get(name, {}).items()}
        timed(bench, torch, name, f"{batch} images", programs, calls, work or None, moved)


def patches(bench: Any, weights: Weights, batch: int = 8) -> None:
    """Time the five ways from images on the host to tokens on the host; keep their counts."""
    images = np.random.default_rng(0).standard_normal(
        (batch, SHAPE.channels, SHAPE.image, SHAPE.image)
    )
    images, vit = images.astype(np.float16), ViT(SHAPE, weights)
    exact = reference.tokens(SHAPE, weights, images).reshape(-1, SHAPE.width)
    for way in WAYS:
        for streams in STREAMS if way == "streams" else (1,):

            def call(way: str = way, streams: int = streams) -> Any:
                return vit.embedding.embed(images, way, streams)

            found, counts = call()
            error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
            if not error <= LIMIT:
                bench.failures.append(f"patches {way}: the error is {error:.3g}")
                continue
            variant = f"streams, {streams}" if way == "streams" else way
            median = clocked(bench, "patches", variant, f"{batch} images", call)
            for what in ("launches", "synchronisations", "to_gpu", "to_host"):
                unit = "bytes" if what.startswith("to") else what
                bench.figure("patches", variant, f"{batch} images", "float16", what, unit,
                             getattr(counts, what))  # fmt: skip
            bench.say(f"  patches {variant}: {median:.3f} ms, {counts}")


def pillow(bench: Any, count: int = 16) -> None:
    """Time reading images from files, to compare with the network's time for them."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{n}.jpg") for n in range(count)]
        for n, path in enumerate(paths):
            levels = np.random.default_rng(n).integers(0, 256, (25, 20, 3), np.uint8)
            Image.fromarray(levels).resize((500, 375), Image.Resampling.BICUBIC).save(path)
        median = clocked(bench, "pillow", "read_images", f"{count}x500x375",
                         lambda: read_images(paths))  # fmt: skip
    bench.say(f"  pillow: {median / count:.3f} ms an image")
