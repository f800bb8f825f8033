"""What a vision transformer moves and holds, kernel by kernel: bytes, requests, sectors.

>>> found = memory_of(Flags(), batch=8)
>>> print(found)
>>> found.rows[0].device, found.peak

Requests and sectors are the simulator's: it traces each kernel on a toy, and what it counts is
scaled. LayerNorm and what is apart from a product go by rows; patches by images; attention by
images and heads; a product by its tiles: what its factors take grows with rows x tiles across x
depth and columns x tiles down x depth, what its epilogue takes with rows x columns. Products are
traced as "plain" unless the flags name another method, whose tile is then the toy's; attention as
"wgmma" where the simulated GPU and the heads allow it.
"""

from __future__ import annotations

import functools
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from course.backend import cuda
from course.kernels import attention
from course.kernels.halves import products
from course.kernels.patches import ON_GPU
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
    """A forward pass: a row a step; bytes of weights, of buffers, the least that these could be."""

    rows: tuple[Row, ...]
    weights: int
    buffers: int
    least: int
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
    sizes, arena = toy.shapes(batch), toy.arena(batch)
    held = {name: 2 * math.prod(its) for name, its in sizes.items()}
    held["images"] = 2 * batch * shape.channels * shape.image**2
    if flags.patches not in ON_GPU:  # the tokens come from the host
        held["images"] = 2 * batch * shape.tokens * shape.width
    held["scores"] = 2 * batch * shape.classes
    parameters = {name.removeprefix("blocks.0."): 2 * math.prod(its)
                  for name, its in shape.parameters.items()}  # fmt: skip
    rows, seen = [], set()
    for step in toy.steps():
        name = step.name.removeprefix("blocks.0.")
        layer = name.removesuffix(", apart") + "."
        own = sum(size for its, size in parameters.items() if its.startswith(layer))
        touched = set(step.touches)
        host = sum(held[its] for its in touched & set(OUTSIDE) - seen)
        seen |= touched
        device = own + sum(held[its] for its in touched)
        times = shape.depth if step.name.startswith("blocks") else 1
        traffic = _traffic(toy, step, sizes, batch)
        rows.append(Row(name, step.kind, times, host, device, traffic))
    buffers = arena.least if flags.buffers == "asynchronous" else arena.size
    if flags.buffers == "apart":  # each block has its own
        inside = sum(size for name, size in held.items() if name.startswith("blocks"))
        buffers = arena.apart + (shape.depth - 1) * inside
    weights = sum(2 * math.prod(its) for its in shape.parameters.values())
    peak = weights + buffers + held["images"] + held["scores"]
    return Memory(tuple(rows), weights, buffers, arena.least, peak)


@functools.lru_cache(4)
def _toy(shape: ViTShape, flags: Flags) -> ViT:
    return ViT(shape, initial(shape), flags)


def _traffic(toy: ViT, step: Step, sizes: dict[str, tuple[int, int]], batch: int) -> Traffic:
    """What one step moves, from its toy."""
    shape, flags, nothing = toy.shape, toy.flags, Traffic()
    method = "plain" if flags.product == "auto" else flags.product
    first, out = step.touches[0], step.touches[-1]
    if step.kind == "product":
        rows, depth = sizes[first]
        columns = shape.classes if out == "scores" else sizes[out][1]
        return _product(len(step.touches) == 3, method, rows, columns, depth)
    if step.kind == "attention":
        one = _attention(flags.attention, shape.tokens, shape.head)
        return nothing.plus(one, batch * shape.heads)
    if step.kind == "patches":
        one = toy.shapes(1)
        views = {name: _filled(one[name]) for name in ("rows", "begun", "x")}
        views["images"] = _filled((1, shape.channels, shape.image, shape.image))
        listed = step.launches(views, 0)
        gathers = [launch for launch in listed if kernel_of(launch[0]).__name__ == "patch_rows"]
        each = _product(True, method, batch * shape.tokens, shape.width, one["rows"][1])
        found = nothing.plus(_counted(gathers), batch)
        return found.plus(each, len(listed) - len(gathers))
    rows, views = sizes[out][0], {name: _filled((ROWS, sizes[name][1])) for name in step.touches}
    if sizes[first][0] > rows:  # of each image's first token
        views[first] = _filled((ROWS * shape.tokens, shape.width))
    return nothing.plus(_counted(step.launches(views, 0)), rows / ROWS)


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


def kernel_of(call: Any) -> Any:
    """The kernel of a launch, of numba.cuda or of the simulator."""
    return getattr(call, "dispatcher", None) or call.kernel


def _counted(listed: Launches) -> Traffic:
    """What launches move, traced."""
    found = Traffic()
    for call, arguments in listed:
        real = hasattr(call, "dispatcher")
        sizes = (call.griddim, call.blockdim) if real else (call.grid, call.block)
        how = {"dynamic_shared": call.sharedmem or 0, "gpu": GPU}
        report = trace(kernel_of(call), *sizes, *arguments, **how)
        load, store = (report.total("global", op) for op in ("load", "store"))
        found = found.plus(Traffic(load.requests, load.sectors, store.requests, store.sectors))
    return found
