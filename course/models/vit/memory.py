"""What a vision transformer moves and holds, kernel by kernel: bytes, requests, sectors.

>>> found = memory_of(Flags(), batch=8)
>>> print(found)
>>> found.rows[0].device, found.peak

Requests and sectors are the simulator's: it traces each kernel on a toy, and what it counts is
scaled. LayerNorm and what is apart from a product go by rows; patches by images; attention by
images and heads; a product by its tiles: what its factors take grows with rows x tiles across x
depth and columns x tiles down x depth, what its epilogue takes with rows x columns. Products are
traced as "plain" unless the flags name another method, whose tile is then the toy's.
"""

from __future__ import annotations

import functools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from course.backend import cuda
from course.kernels import attention
from course.kernels.halves import products
from course.models.vit.network import OUTSIDE, Launches, Step, ViT
from course.models.vit.shape import Flags, ViTShape
from course.models.vit.weights import initial
from warpsim import trace

TILE = 128  # rows, columns and depth of the product that is traced
ROWS = 8  # of a toy that is scaled by rows
GPU = "H200"  # whose instructions the toy may have


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
    """What one step takes.

    Attributes
    ----------
    name, kind : str
    times : int
        How often a forward pass does it: once a block.
    host, device : int
        Bytes on the host, and on the GPU, its weights among them.
    traffic : Traffic
        Of one time.
    """

    name: str
    kind: str
    times: int
    host: int
    device: int
    traffic: Traffic


@dataclass(frozen=True)
class Memory:
    """A forward pass's memory: a row a kernel; bytes of weights, of buffers, and at the peak."""

    rows: tuple[Row, ...]
    weights: int
    buffers: int
    least: int
    peak: int

    def __str__(self) -> str:
        head = f"{'kernel':28}{'times':>6}{'host MB':>9}{'GPU MB':>9}" + "".join(
            f"{name:>12}" for name in ("loads", "sectors", "stores", "sectors")
        )
        lines = [
            f"{row.name:28}{row.times:6}{row.host / 1e6:9.2f}{row.device / 1e6:9.2f}"
            + "".join(f"{round(number):12,}" for number in row.traffic)
            for row in self.rows
        ]
        total = (f"weights {self.weights / 1e6:.1f} MB, buffers {self.buffers / 1e6:.1f} (at least "
                 f"{self.least / 1e6:.1f}), peak {self.peak / 1e6:.1f}")  # fmt: skip
        return "\n".join([head, *lines, total])


def memory_of(flags: Flags | None = None, batch: int = 1, shape: ViTShape | None = None) -> Memory:
    """What a forward pass of so many images moves and holds; always simulated.

    Parameters
    ----------
    flags : Flags, optional
    batch : int
    shape : ViTShape, optional
        Without it ViT-Base.
    """
    flags, shape = flags or Flags(), shape or ViTShape()
    toy = _toy(replace(shape, depth=1), flags)
    sizes, steps, arena = toy.shapes(batch), toy.steps(), toy.arena(batch)
    parameters = {name: 2 * math.prod(its) for name, its in shape.parameters.items()}
    images = 2 * batch * shape.channels * shape.image**2
    scores = 2 * batch * shape.classes
    outside = {"images": images, "scores": scores}
    if flags.patches in ("channels", "sorted", "streams"):  # the tokens come from the host
        outside["images"] = 2 * batch * shape.tokens * shape.width
    rows, inside = [], set()
    for step in steps:
        name = step.name.removeprefix("blocks.0.")
        held = sum(outside.get(its) or 2 * math.prod(sizes[its]) for its in set(step.touches))
        layer = name.removesuffix(", apart")
        if step.kind == "patches":
            layer = "patch_embed.proj"
        own = sum(
            size for its, size in parameters.items()
            if its.removeprefix("blocks.0.").startswith(f"{layer}.")
        )  # fmt: skip
        host = sum(outside[its] for its in step.touches if its in OUTSIDE and its not in inside)
        inside.update(step.touches)
        times = shape.depth if step.name.startswith("blocks") else 1
        traffic = _traffic(toy, step, sizes, batch)
        rows.append(Row(name, step.kind, times, host, held + own, traffic))
    weights = sum(parameters.values())
    buffers, least = (arena.apart if flags.buffers == "apart" else arena.size), arena.least
    if flags.buffers == "apart":  # each block has its own
        own = sum(2 * math.prod(its) for name, its in sizes.items() if name.startswith("blocks"))
        buffers += (shape.depth - 1) * own
    if flags.buffers == "asynchronous":
        buffers = least
    held = weights + buffers + sum(outside.values())
    return Memory(tuple(rows), weights, buffers, least, held)


@functools.lru_cache(4)
def _toy(shape: ViTShape, flags: Flags) -> ViT:
    return ViT(shape, initial(shape), flags)


def _traffic(toy: ViT, step: Step, sizes: dict[str, tuple[int, int]], batch: int) -> Traffic:
    """What one step moves, from its toy."""
    shape, flags = toy.shape, toy.flags
    if step.kind == "product":
        (rows, depth), out = sizes[step.touches[0]], step.touches[-1]
        columns = shape.classes if out == "scores" else sizes[out][1]
        method = "plain" if flags.product == "auto" else flags.product
        residual = len(step.touches) == 3 and step.name != "head"
        return _product(residual, method, rows, columns, depth)
    if step.kind == "attention":
        return Traffic().plus(
            _attention(flags.attention, shape.tokens, shape.head), batch * shape.heads
        )
    if step.kind == "patches":
        images = _filled((1, shape.channels, shape.image, shape.image))
        one = toy.shapes(1)
        views = {"images": images, "rows": _filled(one["rows"]), "x": _filled(one["x"])}
        listed = step.launches(views, 0)
        gathers = [launch for launch in listed if launch[0].kernel.__name__ == "patch_rows"]
        found = Traffic().plus(_counted(gathers), batch)
        method = "plain" if flags.product == "auto" else flags.product
        each = _product(True, method, batch * shape.tokens, shape.width, one["rows"][1])
        return found.plus(each, len(listed) - len(gathers))
    rows = sizes[step.touches[0]][0]
    views = {name: _filled((ROWS, sizes[name][1])) for name in step.touches}
    if "class" in step.touches[-1] and "class" not in step.touches[0]:  # each image's first token
        rows = batch
        views[step.touches[0]] = _filled((ROWS * shape.tokens, shape.width))
    return Traffic().plus(_counted(step.launches(views, 0)), rows / ROWS)


@functools.cache
def _product(residual: bool, method: str, rows: int, columns: int, depth: int) -> Traffic:
    """A product of this size with a bias, from two toys of one tile: of one depth and of two."""
    one, two = (_tile(residual, method, n * TILE) for n in (1, 2))
    factors = two.plus(one, -1)  # of a depth of one tile
    epilogue = one.plus(factors, -1)
    tiles = rows * -(-columns // TILE) + columns * -(-rows // TILE)
    found = Traffic().plus(factors, tiles * depth / (2 * TILE * TILE))
    return found.plus(epilogue, rows * columns / TILE**2)


@functools.cache
def _tile(residual: bool, method: str, depth: int) -> Traffic:
    a, b, bias = _filled((TILE, depth)), _filled((TILE, depth)), _filled((TILE,))
    other, out = _filled((TILE, TILE)) if residual else None, _filled((TILE, TILE))
    return _counted(products.launches(a, b, bias, other, out, "nt", "", method))


@functools.cache
def _attention(method: str, tokens: int, head: int) -> Traffic:
    whole = _filled((1, tokens, 3, 1, head))
    given = (*(whole[:, :, n] for n in range(3)), _filled((1, tokens, head)), None)
    if method == "auto":  # without a GPU it is a step that any GPU has
        with suppress(ValueError):
            return _counted(attention.launches(*given, "wgmma"))
    return _counted(attention.launches(*given, method))


def _filled(shape: tuple[int, ...]) -> Any:
    return cuda.to_device(np.ones(shape, np.float16))


def _counted(listed: Launches) -> Traffic:
    """What launches move, traced."""
    found = Traffic()
    for call, arguments in listed:
        kernel = getattr(call, "dispatcher", None) or call.kernel
        sizes = [getattr(call, name, None) or getattr(call, other)
                 for name, other in (("griddim", "grid"), ("blockdim", "block"))]  # fmt: skip
        report = trace(kernel, *sizes, *arguments, dynamic_shared=call.sharedmem or 0, gpu=GPU)
        load, store = (report.total("global", op) for op in ("load", "store"))
        found = found.plus(Traffic(load.requests, load.sectors, store.requests, store.sectors))
    return found
