"""What a vision transformer moves and holds, kernel by kernel: bytes, requests, sectors.

>>> found = memory_of(Flags(), batch=8)
>>> print(found)
>>> found.rows[0].device, found.peak

Requests and sectors are the simulator's: it traces each kernel on a toy, and what it counts is
scaled. LayerNorm and what is apart from a product go by rows; patches by images; attention by
images and heads; a product by its tiles and its depth, but "plain", whose last tiles are cut off:
what its factors take grows with rows x tiles across and columns x tiles down, what its epilogue
takes with rows x columns. "auto" is what the GPU takes that is here or simulated, as by
``backend.simulate("H200")``; tiles are those of the sizes asked for, not of the toy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.backend import cuda
from course.kernels import launching
from course.kernels.attention import ladder as attention
from course.kernels.halves import dots, products
from course.kernels.halves.common import DEPTH
from course.kernels.patches import ON_GPU
from course.models import is_whole
from course.models.vit.buffers import up
from course.models.vit.network import OUTSIDE, Launches, Step, ViT
from course.models.vit.shape import Flags, ViTShape
from course.models.vit.weights import initial
from warpsim import trace
from warpsim.host import gpus

TILE = 128  # rows and columns of a tile of "plain"
ROWS = 8  # of a toy that is scaled by rows


class Traffic(NamedTuple):
    """Requests and sectors of global memory, loaded and stored."""

    load_requests: float = 0
    load_sectors: float = 0
    store_requests: float = 0
    store_sectors: float = 0

    def plus(self, other: Traffic, times: float = 1) -> Traffic:
        """This and so many times the other."""
        return Traffic(*(x + times * y for x, y in zip(self, other, strict=True)))


class Row(NamedTuple):
    """What one step takes: bytes on the host and on the GPU, its weights among them; traffic.

    A forward pass does it so many `times`: once, or once a block.
    """

    name: str
    kind: str
    times: int
    host: int
    device: int
    traffic: Traffic


class Memory(NamedTuple):
    """A forward pass: a row a step; bytes of weights, of buffers, the least that these could be.

    `scores` are attention's where they lie in memory; `peak` has images and results, too.
    """

    rows: tuple[Row, ...]
    weights: int
    buffers: int
    least: int
    scores: int
    peak: int

    def __str__(self) -> str:
        words = "loads", "sectors", "stores", "sectors"
        lines = [f"{'step':28}{'times':>6}{'host MB':>9}{'GPU MB':>9}"
                 + "".join(f"{word:>13}" for word in words)]  # fmt: skip
        for name, _, times, host, device, traffic in self.rows:
            numbers = "".join(f"{round(number):13,}" for number in traffic)
            lines.append(f"{name:28}{times:6}{host / 1e6:9.2f}{device / 1e6:9.2f}{numbers}")
        sizes = (f"{word} {size / 1e6:.1f} MB" for word, size in zip(self._fields[1:], self[1:]))
        return "\n".join([*lines, ", ".join(sizes)])


def memory_of(flags: Flags | None = None, batch: int = 1, shape: ViTShape | None = None) -> Memory:
    """What a forward pass of so many images moves and holds; traffic is always simulated.

    Parameters
    ----------
    flags : Flags, optional
    batch : int
    shape : ViTShape, optional
        Without it ViT-Base.
    """
    flags, shape = Flags.given(flags), shape or ViTShape()
    if not is_whole(batch) or batch < 1:
        raise ValueError(f"batch is {batch!r}; it must be a whole number of at least 1")
    batch, depth, alone = int(batch), min(shape.depth, 2), flags.last == "class"
    toy = _toy(replace(shape, depth=depth), flags)
    sizes, arena = toy.shapes(batch) | {"scores": (batch, shape.classes)}, toy.arena(batch)
    held = {name: 2 * math.prod(its) for name, its in sizes.items()}
    held["images"] = 2 * batch * shape.channels * shape.image**2
    if flags.patches not in ON_GPU:  # the tokens come from the host
        held["images"] = 2 * batch * shape.tokens * shape.width
    tokens, heads = shape.tokens, batch * shape.heads
    kept = 4 * heads * tokens**2 if _way(flags.attention, tokens, shape.head) == "scores" else 0
    rows, seen = [], set()
    for step in toy.steps():
        if step.name.startswith("blocks.1.") and not alone:
            continue  # as the first block
        layer = step.name.removesuffix(", apart") + "."
        own = sum(2 * math.prod(its) for name, its in toy.shape.parameters.items()
                  if name.startswith(layer))  # fmt: skip
        touched = set(step.touches)
        host = sum(held[its] for its in touched & set(OUTSIDE) - seen)
        seen |= touched
        device = own + sum(held[its] for its in touched) + kept * (step.kind == "attention")
        times = shape.depth - alone * (depth - 1) if step.name.startswith("blocks.0.") else 1
        traffic = _traffic(toy, step, sizes, batch)
        name = step.name.removeprefix("blocks.0.").replace("blocks.1.", "last ")
        rows.append(Row(name, step.kind, times, host, device, traffic))
    buffers = arena.least if flags.buffers == "asynchronous" else arena.size
    if flags.buffers == "apart":  # each block has its own
        inside = sum(up(size) for name, size in held.items() if name.startswith("blocks.0."))
        buffers = arena.apart + (shape.depth - depth) * inside
    weights = sum(2 * math.prod(its) for its in shape.parameters.values())
    peak = weights + buffers + kept + held["images"] + held["scores"]
    return Memory(tuple(rows), weights, buffers, arena.least, kept, peak)


@functools.lru_cache(4)
def _toy(shape: ViTShape, flags: Flags) -> ViT:
    return ViT(shape, initial(shape), flags)


def _traffic(toy: ViT, step: Step, sizes: dict[str, tuple[int, int]], batch: int) -> Traffic:
    """What one step moves, from its toy."""
    shape, flags, nothing = toy.shape, toy.flags, Traffic()
    first, out = step.touches[0], step.touches[-1]
    (rows, depth), columns = sizes[first], sizes[out][1]
    method = "auto" if out == "scores" else flags.product
    if step.kind == "product" and not (out == "scores" and rows * columns <= dots.MOST):
        parts = flags.mlp == "fused" or not step.name.endswith("fc1"), len(step.touches) == 3
        return _product(*parts, method, rows, columns, depth)
    if step.kind == "attention":
        return _attention(flags, shape, batch)
    if step.kind == "patches":
        one = toy.shapes(1)
        views = {name: _filled(one[name]) for name in ("rows", "begun", "x")}
        views["images"] = _filled((1, shape.channels, shape.image, shape.image))
        listed = step.launches(views, 0)
        gathers = [launch for launch in listed if kernel_of(launch[0]).__name__ == "patch_rows"]
        sizes = batch * shape.tokens, shape.width, one["rows"][1]
        each = _product(False, True, flags.product, *sizes)
        found = nothing.plus(_counted(gathers), batch)
        return found.plus(each, len(listed) - len(gathers))
    rows = sizes[out][0]
    few = min(rows, ROWS)
    views = {name: _filled((few, sizes[name][1])) for name in step.touches}
    if sizes[first][0] > rows:  # of each image's first token
        views[first] = _filled((few * shape.tokens, shape.width))
    return nothing.plus(_counted(step.launches(views, 0)), rows / few)


def _product(
    biased: bool, residual: bool, method: str, rows: int, columns: int, depth: int
) -> Traffic:
    """A product of this size, from two toys of one tile: of one depth and of two."""
    high, wide, deep, tile = TILE, TILE, TILE, None
    if method == "auto" and (launching.no_warpgroups() or depth % 8 or columns % 8):
        method = "plain"
    if method != "plain":
        methods = products.METHODS if method == "auto" else (method,)
        blocks = int(cuda.get_current_device().MULTIPROCESSOR_COUNT)
        tile = products.fastest("nt", rows, columns, depth, blocks, methods, residual)
        (shape, splits), method = tile, "roles" if tile[1] == 1 else "split"
        high, wide, deep = shape.rows, shape.columns, DEPTH * splits
    down, across = -(-rows // high), -(-columns // wide)
    high, wide = min(high, rows), min(wide, columns)
    one, two = (_tile(biased, residual, method, high, wide, n * deep, tile, _gpu()) for n in (1, 2))
    factors = two.plus(one, -1)  # of a depth of `deep`
    read = written = down * across  # a last tile is moved inwards, and is a whole one
    if method == "plain":
        read, written = (
            (rows * across + columns * down) / (high + wide),
            rows * columns / high / wide,
        )
    return Traffic().plus(factors, read * depth / deep).plus(one.plus(factors, -1), written)


@functools.lru_cache(256)
def _tile(
    biased: bool, residual: bool, method: str, high: int, wide: int, depth: int, tile: Any, gpu: str
) -> Traffic:
    a, b, out = _filled((high, depth)), _filled((wide, depth)), _filled((high, wide))
    bias = _filled((wide,)) if biased else None
    other = _filled((high, wide)) if residual else None
    return _counted(products.launches(a, b, bias, other, out, "nt", "", method, tile=tile))


def _heads(images: int, tokens: int, size: int) -> tuple[Any, ...]:
    """Of images with a head each: q, k, v, output."""
    whole = _filled((images, tokens, 3, 1, size))
    return *(whole[:, :, n] for n in range(3)), _filled((images, tokens, size))


def _way(method: str, tokens: int, size: int) -> str:
    """The method of attention that "auto" stands for; ValueError for one that cannot be had."""
    given = _heads(2, tokens, size)
    if method != "auto" and (wrong := attention.why_not(method, *given)):
        raise ValueError(f"attention {method!r} {wrong}: choose 'auto'")
    fast = [name for name in attention.FASTEST if not attention.why_not(name, *given)]
    return fast[0] if method == "auto" else method


def _attention(flags: Flags, shape: ViTShape, batch: int) -> Traffic:
    """All heads of all images; boxes of up to 64 tokens reach into the next images' rows."""
    how, method = None, _way(flags.attention, shape.tokens, shape.head)
    if method == "wgmma":
        how = attention.shape_of(
            shape.tokens, batch * shape.heads, int(cuda.get_current_device().MULTIPROCESSOR_COUNT)
        )
    few = min(batch, -(-64 // shape.tokens))
    some, more = (_head(n, shape.tokens, shape.head, method, how, _gpu()) for n in (few, few + 1))
    return Traffic().plus(some.plus(more.plus(some, -1), batch - few), shape.heads)


@functools.lru_cache(256)
def _head(images: int, tokens: int, size: int, method: str, how: Any, gpu: str) -> Traffic:
    given, scale = _heads(images, tokens, size), np.float32(size**-0.5)
    if how is None:
        return _counted(attention.launches(*given, scale, method))
    return _counted([attention.by_warpgroups(*given, scale, how)])


def _gpu() -> str:
    """The simulated GPU, or one that has the instructions of the one that is here."""
    if backend.gpu() is None:
        return backend.simulated().name
    most = tuple(cuda.get_current_device().compute_capability)
    known = [gpu for gpu in gpus.GPUS.values() if gpu.compute_capability <= most]
    return max(known, key=lambda gpu: gpu.compute_capability).name


def _filled(shape: tuple[int, ...]) -> Any:
    return cuda.to_device(np.ones(shape, np.float16))


def kernel_of(call: Any) -> Any:
    """The kernel of a launch, of numba.cuda or of the simulator."""
    return getattr(call, "dispatcher", None) or call.kernel


def sizes_of(call: Any) -> tuple[Any, Any]:
    """Grid and block of a launch, of numba.cuda or of the simulator."""
    real = hasattr(call, "dispatcher")
    return (call.griddim, call.blockdim) if real else (call.grid, call.block)


def _counted(listed: Launches) -> Traffic:
    """What launches move, traced."""
    found = Traffic()
    for call, arguments in listed:
        how = {"dynamic_shared": call.sharedmem or 0, "gpu": _gpu()}
        report = trace(kernel_of(call), *sizes_of(call), *arguments, **how)
        load, store = (report.total("global", op) for op in ("load", "store"))
        found = found.plus(Traffic(load.requests, load.sectors, store.requests, store.sectors))
    return found
