"""ViT-Base on a real GPU: the least that a forward pass can take, and what was recorded of it."""

from __future__ import annotations

from typing import NamedTuple

from course import recorded, recorded_roofs
from course.measure.recorded import Figure
from course_models.vit.shape import ViTShape

BASE = ViTShape()
GPU, HALF = "H200", 2  # bytes of a float16
PEERS = ("eager", "compiled", "max-autotune")  # PyTorch's ways
METRIC = "time in a graph"  # of replays by turns
PARTS = ("patch embedding", "norm", "qkv", "attention", "proj + residual", "fc1 + GELU",
         "fc2 + residual")  # fmt: skip
WAYS = ("channels", "sorted", "streams", "kept", "gemm")


class Floors(NamedTuple):
    """Milliseconds that a forward pass takes at least, each for one reason."""

    launches: float
    weights: float
    operations: float

    @property
    def fixed(self) -> float:
        """The share of all three that is the same for one image as for many."""
        return (self.launches + self.weights) / sum(self)


def floors(batch: int, launches: int, shape: ViTShape = BASE) -> Floors:
    """The least times of a batch, by what was measured on an H200.

    Launches one behind the other, when the host is ahead; weights read from memory once; operations
    of tensor cores at their measured rate.
    """
    (queued,) = recorded("launch", variant="5 Numba arrays", metric="queued", gpu=GPU)
    roofs = recorded_roofs(GPU)
    return Floors(
        launches * queued.median,
        HALF * shape.count / roofs.bandwidth * 1e-6,
        shape.operations(batch) / roofs.rates["tensor_float16"] * 1e-9,
    )


def whole(batch: int, variant: str = "ours") -> Figure:
    """The recorded forward pass of a batch of ViT-Base."""
    shape = f"{batch}x{BASE.image}x{BASE.image}"
    return _one(kernel="whole", variant=variant, shape=shape, metric=METRIC)


def parts(batch: int) -> dict[str, dict[str, float]]:
    """Microseconds of each part, ours and PyTorch's, of a batch."""
    return {
        name: {
            way: 1e3
            * _one(kernel=name, variant=peer, shape=f"{batch} images", metric=METRIC).median
            for way, peer in (("ours", "ours"), ("PyTorch", "eager"))
        }
        for name in PARTS
    }


def table_of_wholes() -> str:
    """Ours, the best of PyTorch's, and how many times as fast ours is, for each recorded batch."""
    rows = [f"{'images':>7}{'ours':>9}{'best of PyTorch':>20}{'times as fast':>15}"]
    for batch in (1, 8, 64):
        ways = [f for f in _found("whole", metric=METRIC)
                if f.shape == f"{batch}x{BASE.image}x{BASE.image}"]  # fmt: skip
        ours = [f.median for f in ways if f.variant == "ours"]
        peers = [(f.median, f.variant) for f in ways if f.variant in PEERS]
        if ours and peers:
            time, name = min(peers)
            rows.append(f"{batch:7}{ours[0]:6.2f} ms{time:5.2f} ms {name:12}"
                        f"{time / ours[0]:12.2f}")  # fmt: skip
    return "\n".join(rows)


def table_of_patches() -> str:
    """The five ways of the patch embedding: time, launches, waits and bytes of copies.

    Of whichever GPU they were recorded on; without any nothing.
    """
    figures, rows = recorded("vit", kernel="patches", metric=None), []
    for way in WAYS:
        its = {f.metric: f.median for f in figures
               if f.variant in (way, f"{way}, 4") and f.gpu == figures[-1].gpu}  # fmt: skip
        if its:
            rows.append(
                f"{way:12}{its['time']:8.2f}{its['launches']:10.0f}{its['synchronisations']:7.0f}"
                f"{its['to_gpu'] / 1e6:15.1f}{its['to_host'] / 1e6:7.1f}"
            )
    if not rows:
        return ""
    head = f"{'way':12}{'ms':>8}{'launches':>10}{'waits':>7}{'MB to the GPU':>15}{'back':>7}"
    return "\n".join([f"\npatches on an {figures[-1].gpu}", head, *rows])


def table_of_waiting() -> str:
    """A process's first forward pass of 64 images, the next ones, and files read by Pillow.

    Of whichever GPU the first passes were recorded on; without any nothing.
    """
    if not (firsts := recorded("vit", metric="first")):
        return ""
    gpu = firsts[-1].gpu
    its = recorded("vit", metric=None, gpu=gpu)
    found = {(f.kernel, f.variant, f.metric): f for f in its}
    rows = [f"{'64 images on an ' + gpu:42}{'ms':>10}"]
    rows += [f"{'first pass, ' + f.variant:42}{f.median:10.1f}" for f in firsts if f.gpu == gpu]
    again, files = found["flags", "ours", METRIC], found["pillow", "read_images", "time"]
    each = files.median / int(files.shape.split("x")[0])
    rows += [f"{'a pass in a graph, ours':42}{again.median:10.1f}",
             f"{'64 JPEG files read by Pillow, one thread':42}{64 * each:10.1f}"]  # fmt: skip
    return "\n".join(rows)


def table_of_attention() -> str:
    """Attention of 8 images in the ladder's steps, and the fastest of PyTorch's."""
    found = [f for f in _recorded("attention", kernel="attention", metric=METRIC)
             if f.dtype == "float16" and f.shape.startswith("8x12x197")]  # fmt: skip
    rows = [f"{'way':28}{'µs':>8}"]
    rows += [f"{f.variant:28}{1e3 * f.median:8.1f}"
             for f in sorted(found, key=lambda f: -f.median)]  # fmt: skip
    return "\n".join(rows)


def bound(name: str, batch: int, shape: ViTShape = BASE) -> tuple[str, float]:
    """What binds a part by its roofs, and the least microseconds that it takes."""
    rows, d = batch * shape.tokens, shape.width
    sizes = {"qkv": (3 * d, d), "proj + residual": (d, d), "fc1 + GELU": (shape.mlp, d),
             "fc2 + residual": (d, shape.mlp)}  # fmt: skip
    roofs = recorded_roofs(GPU)
    if name == "norm":
        moved, work = 2 * rows * d, 0
    elif name == "attention":
        moved, work = 4 * rows * d, 4 * rows * shape.tokens * d
    else:
        columns, depth = sizes[name]
        added = columns if "residual" in name else 0
        moved = rows * (depth + columns + added) + columns * depth
        work = 2 * rows * columns * depth
    at_memory = HALF * moved / roofs.bandwidth * 1e-3
    at_cores = work / roofs.rates["tensor_float16"] * 1e-6
    return max(("memory", at_memory), ("tensor cores", at_cores), key=lambda its: its[1])


def table_of_parts(batch: int) -> str:
    """Each part of a block: what binds it, the least time, the measured one."""
    rows = [f"{'part':17}{'bound by':14}{'at least':>10}{'measured':>10}"]
    for name, ways in parts(batch).items():
        if name != PARTS[0]:
            what, least = bound(name, batch)
            rows.append(f"{name:17}{what:14}{least:7.1f} µs{ways['ours']:7.1f} µs")
    return "\n".join(rows)


def launches_of_dots(shape: ViTShape = BASE) -> int:
    """Launches of a patch embedding that has one for each line of a patch, channel and output."""
    return (shape.tokens - 1) * shape.width * shape.channels * shape.patch


def _found(kernel: str, **more: str | None) -> list[Figure]:
    return recorded("vit", kernel=kernel, gpu=GPU, **more)


def _recorded(subject: str, **more: str) -> list[Figure]:
    return recorded(subject, gpu=GPU, **more)


def _one(**what: str) -> Figure:
    (figure,) = recorded("vit", gpu=GPU, **what)
    return figure
