"""A vision transformer's forward pass by the course's kernels, in float16 with sums in float32.

>>> vit = ViT(*load("vit_base_patch16_224.safetensors"))
>>> scores = vit(images)                     # (n, 3, 224, 224), float16 -> (n, classes)
>>> y = vit.block(3, x)                      # one block: (n, tokens, width) -> the same
>>> slow = ViT(shape, weights, Flags(mlp="unfused", residual="apart"))
>>> yours = ViT(shape, weights, attention=your_launches)
>>> replay = Graph(vit, images)              # CuPy's: all launches as one
>>> scores = replay()

Arrays are of NumPy, CuPy, PyTorch or numba.cuda, and results of the same library. A forward pass
is a list of steps, `ViT.steps`. A step names the buffers that it touches, so that memory can be
planned, and lists its launches. All buffers are matrices of float16 with a row for each token.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.graphs import capture_graph
from course.dispatch.slots import ArraySlot, in_c_order, workspace
from course.kernels import attention, norm
from course.kernels.arrays import Array, holds, in_order
from course.kernels.attention import SIZES
from course.kernels.gemm.half import gemm
from course.kernels.steps import Launch, ceil_div, hopper_refusal
from course_models import is_whole
from course_models.patches import LADDER, PatchEmbedding, checked_images
from course_models.vit import normed, unfused_epilogue
from course_models.vit.buffers import Arena, from_pool, lifetimes, packed
from course_models.vit.shape import EPSILON, Flags, ViTShape
from course_models.vit.weights import Weights, checked

Views = dict[str, Array]
Attention = Callable[[Array, Array, Array, Array], list[Launch]]
HALF = np.dtype(np.float16)


class Step(NamedTuple):
    """A part of a forward pass.

    Attributes
    ----------
    name : str
        The layer whose weights the step takes, or what it does.
    touches : tuple of str
        Buffers that the step reads, then those that it writes.
    launches : callable
        ``launches(views)`` lists the launches, given these buffers' arrays.
    """

    name: str
    touches: tuple[str, ...]
    launches: Callable[[Views], list[Launch]]


class ViT:
    """A vision transformer on the GPU (or the simulated one); `load` returns shape and weights.

    Parameters
    ----------
    shape : ViTShape
    weights : dict of str to ndarray
        By timm's names, see `course_models.vit.weights`; rounded to float16 once, here.
    flags : Flags, optional
        Which implementation each part takes.
    attention : callable, optional
        Your own instead of ``flags.attention``: ``attention(q, k, v, out)`` lists the launches that
        write ``out`` (images, tokens, heads * size). q, k, v are (images, tokens, heads, size).

    Raises
    ------
    ValueError
        For weights that do not fit, or heads of a size that the package's attention does not take.
    """

    def __init__(
        self,
        shape: ViTShape,
        weights: Weights,
        flags: Flags | None = None,
        attention: Attention | None = None,
    ):
        self.shape, self.flags, self._own_attention = shape, Flags.given(flags), attention
        if attention is None and shape.head not in SIZES:
            raise ValueError(
                f"heads have {shape.head} numbers; the package's attention takes one of {SIZES}: "
                "give your own, ViT(shape, weights, attention=...)"
            )
        weights = checked(shape, weights)
        self.embedding = PatchEmbedding(
            weights["patch_embed.proj.weight"], weights["patch_embed.proj.bias"],
            weights["cls_token"].reshape(-1), weights["pos_embed"][0],
        )  # fmt: skip
        kept = (name for name in weights if name.startswith(("blocks", "norm", "head")))
        self._there: dict[str, Any] = {n: cuda.to_device(weights[n].astype(HALF)) for n in kept}
        self._within = self.flags.within(shape) and not hopper_refusal()
        for n in range(shape.depth * self._within):
            for first, layer in (("norm1", "attn.qkv"), ("norm2", "mlp.fc1")):
                four = (weights[f"blocks.{n}.{its}.{which}"].astype(HALF).astype(np.float32)
                        for its in (layer, first) for which in ("weight", "bias"))  # fmt: skip
                folded = map(cuda.to_device, normed.folded(*four))
                self._there[f"blocks.{n}.{layer}, normed"] = [*folded]
        cuda.synchronize()  # so that work on any stream finds the weights
        self._device = cuda.get_current_device().id
        pool = self.flags.buffers == "asynchronous"
        launches = self._pool_launches if pool else self._all_launches
        self._whole = EntryPoint("vit", ("images",), self._scores, launches, packs=not pool)
        self._tokens = EntryPoint("tokens", ("images",), self._embedded, self._token_launches)
        self._block = EntryPoint("block", ("x",), self._same, self._of_block, options=("number",))

    def __call__(self, images: Array, out: Array | None = None, stream: Stream = None) -> Array:
        """Scores (n, classes) of images (n, channels, side, side), float16.

        If the host sorts or adds up patches (`flags.patches`), images and scores are NumPy's.

        Raises
        ------
        TypeError
            For elements of another type.
        ValueError
            For images of another shape.
        """
        if (way := self.flags.patches) not in LADDER:
            if not isinstance(images, np.ndarray):
                raise TypeError(
                    f"images are {type(images).__name__}; patches {way!r} begin on the host: give "
                    "NumPy's, or choose the patches 'gemm'"
                )
            images, _ = self.embedding.embed(images, way, method=self.flags.product)
        return self._whole.call((images,), (), out, stream)

    def tokens(self, images: Array, out: Array | None = None, stream: Stream = None) -> Array:
        """Images as tokens before the first block: (n, tokens, width), float16."""
        if self.flags.patches not in LADDER:
            raise ValueError(
                f"patches {self.flags.patches!r} come by way of the host: ask embedding.embed, or "
                f"choose one of {', '.join(LADDER)}"
            )
        return self._tokens.call((images,), (), out, stream)

    def block(
        self, number: int, x: Array, out: Array | None = None, stream: Stream = None
    ) -> Array:
        """The output of block `number` for x (n, tokens, width), float16; `out` must not be x."""
        if not is_whole(number) or not 0 <= number < self.shape.depth:
            raise ValueError(f"block is {number!r}; it must be from 0 to {self.shape.depth - 1}")
        return self._block.call((x,), (int(number),), out, stream)

    # ------------------------------------------------------------------ what is done
    def steps(self) -> list[Step]:
        """The steps of a forward pass; input is the buffer "images", or tokens made on the host."""
        x, found = "x", []
        if self.flags.patches in LADDER:
            touched = "images", "rows", "begun", *[f"{x}.sums"] * self._within, x
            found.append(Step("patch_embed", touched, self._patches))
        else:
            x = "images"
        deep = self.embedding.depth if self._within else 0
        for number in range(self.shape.depth):
            last = number == self.shape.depth - 1
            alone = last and self.flags.last == "class"
            out = "class.x" if alone else f"blocks.{number}.x"
            found += self._block_steps(number, x, out, alone, deep, self._within and not last)
            x, deep = out, self.shape.mlp if self._within else 0
        found.append(self._norm("norm", x, "class.last", first_only=not alone))
        return [*found, self._product("head", "class.last", "scores", few=True)]

    def _block_steps(
        self, number: int, x: str, out: str, alone: bool = False, deep: int = 0,
        counts: bool = False,
    ) -> list[Step]:  # fmt: skip
        """A block from buffer x to another buffer, out; no product overwrites its residual.

        With `alone` only class tokens go on after attention; `deep`, `counts`: as in `_product`.
        """

        def its(name: str) -> str:
            return f"blocks.{number}.{name}"

        normed, qkv, heads, hidden = (its(name) for name in ("norm1", "qkv", "heads", "hidden"))
        middle, second, fused = its("middle"), its("norm2"), self.flags.mlp == "fused"
        found = [
            *self._normed(its("norm1"), its("attn.qkv"), x, normed, qkv, deep),
            Step(its("attn"), (qkv, heads), self._attention(qkv, heads)),
        ]
        if alone:
            firsts = [f"class.{name}" for name in ("heads", "before", "hidden", "norm2", "middle")]
            found += [self._firsts(heads, firsts[0]), self._firsts(x, firsts[1])]
            heads, x, hidden, second, middle = firsts
        how = {"activation": self.flags.gelu if fused else "", "bias": fused}
        within = self._within and not alone
        found += [
            *self._added(its("attn.proj"), heads, x, middle, within),
            *self._normed(its("norm2"), its("mlp.fc1"), middle, second, hidden,
                          self.shape.width * within, **how),
        ]  # fmt: skip
        if not fused:
            found.append(self._unfused(its("mlp.fc1"), hidden, hidden, activation=self.flags.gelu))
        return [*found, *self._added(its("mlp.fc2"), hidden, middle, out, counts)]

    def _by_image(self, rows: Array, *sizes: int) -> Array:
        """Rows, one for each token, as (images, tokens, *sizes)."""
        return rows.reshape(rows.shape[0] // self.shape.tokens, self.shape.tokens, *sizes)

    def _first_tokens(self, x: Array) -> Array:
        """The first token of each image, as a matrix with strided rows."""
        return part(self._by_image(x, self.shape.width), 1, 0)

    def _firsts(self, x: str, out: str) -> Step:
        """Copy the first token of each image."""

        def launches(views: Views) -> list[Launch]:
            return unfused_epilogue.launches(self._first_tokens(views[x]), None, None, views[out])

        return Step(f"{out}, copied", (x, out), launches)

    def _patches(self, views: Views) -> list[Launch]:
        given = [views[name] for name in ("images", "rows", "begun", "x")]
        found = self.embedding.launches(*given, self.flags.patches, self.flags.product)
        if "x.sums" in views:  # not in `tokens`, where no norm follows
            how = self.embedding.weight, None, *given[2:], views["x.sums"], self.flags.product
            found = [found[0], normed.counting(given[1], *how)]
        return found

    def _norm(self, layer: str, x: str, out: str, first_only: bool = False) -> Step:
        """LayerNorm of each token, or of each image's first."""

        def launches(views: Views) -> list[Launch]:
            given = self._first_tokens(views[x]) if first_only else views[x]
            factors = (self._there[f"{layer}.{which}"] for which in ("weight", "bias"))
            method = self.flags.norm if self.flags.norm in norm.LADDER.names else "auto"
            how = {"eps": EPSILON, "activation": None, "method": method}
            return norm.LADDER.launches(given, *factors, views[out], **how)

        return Step(layer, (x, out), launches)

    def _normed(
        self, norm: str, layer: str, x: str, between: str, out: str, deep: int, **how: Any
    ) -> list[Step]:
        """LayerNorm and a product; one step if x has row sums (`deep`: its product's depth)."""
        if deep:
            return [self._product(layer, x, out, deep=deep, **how)]
        return [self._norm(norm, x, between), self._product(layer, between, out, **how)]

    def _product(
        self, layer: str, x: str, out: str, residual: str | None = None, activation: str = "",
        bias: bool = True, few: bool = False, counts: bool = False, deep: int = 0,
    ) -> Step:  # fmt: skip
        """activation(x weight' + bias) + residual; `few` takes the method "auto".

        With `deep`, the depth of x's product, x is normed by its row sums; `counts` stores out's.
        """

        def launches(views: Views) -> list[Launch]:
            weight = self._there[f"{layer}.weight"]
            added = self._there[f"{layer}.bias"] if bias else None
            other = None if residual is None else views[residual]
            if counts:
                given = views[x], weight, added, other, views[out], views[f"{out}.sums"]
                return [normed.counting(*given, self.flags.product)]
            if deep:
                given = *self._there[f"{layer}, normed"], views[out], views[f"{x}.sums"], deep
                blocks = self.shape.heads * ceil_div(len(views[x]), 64)  # of attention, roughly
                how = EPSILON, activation, self.flags.product, blocks * layer.endswith("qkv")
                return [normed.normed(views[x], *given, *how)]
            method = "auto" if few else self.flags.product  # for any number of classes
            how = {"layout": "nt", "activation": activation, "method": method}
            return gemm.ladder.launches(views[x], weight, added, other, views[out], **how)

        others = () if residual is None else (residual,)
        touched = x, *[f"{x}.sums"] * (deep > 0), *others, *[f"{out}.sums"] * counts, out
        return Step(layer, touched, launches)

    def _added(self, layer: str, x: str, other: str, out: str, counts: bool = False) -> list[Step]:
        """x weight' + bias + residual; added in the epilogue or by a kernel of its own."""
        if self.flags.residual == "epilogue":
            return [self._product(layer, x, out, other, counts=counts)]
        alone = f"{x}, {layer} alone"
        return [self._product(layer, x, alone), self._unfused(layer, alone, out, other)]

    def _unfused(
        self, layer: str, x: str, out: str, residual: str | None = None, activation: str = ""
    ) -> Step:
        """Bias and activation, or a residual, in a kernel after the layer's product."""

        def launches(views: Views) -> list[Launch]:
            bias = self._there[f"{layer}.bias"] if activation else None
            other = None if residual is None else views[residual]
            return unfused_epilogue.launches(views[x], bias, other, views[out], activation)

        others = () if residual is None else (residual,)
        return Step(f"{layer}, apart", (x, *others, out), launches)

    def _attention(self, qkv: str, heads: str) -> Callable[[Views], list[Launch]]:
        """Attention that reads the product's layout: (images, tokens, 3, heads, head)."""

        def launches(views: Views) -> list[Launch]:
            whole = self._by_image(views[qkv], 3, self.shape.heads, self.shape.head)
            out = self._by_image(views[heads], self.shape.width)
            three = (part(whole, 2, n) for n in range(3))
            if self._own_attention is not None:
                return self._own_attention(*three, out)
            return attention.LADDER.launches(*three, out, method=self.flags.attention)

        return launches

    # ------------------------------------------------------------------ memory
    def shapes(self, batch: int, steps: Sequence[Step] | None = None) -> dict[str, tuple[int, int]]:
        """Rows and columns of each buffer of these steps, or of all steps."""
        steps = self.steps() if steps is None else steps
        d, rows = self.shape.width, batch * self.shape.tokens
        wide = {"rows": self.embedding.rows_of(self.flags.patches), "qkv": 3 * d,
                "hidden": self.shape.mlp, "sums": normed.pitch(d)}  # fmt: skip
        names = {name for step in steps for name in step.touches}
        return {
            name: (batch if name.startswith("class") else rows,
                   wide.get(name.rpartition(".")[2].removesuffix(" alone"), d)) for name in names
        }  # fmt: skip

    def arena(self, batch: int, steps: Sequence[Step] | None = None) -> Arena:
        """The arena of the buffers for so many images, of these steps or of all."""
        steps = self.steps() if steps is None else steps
        lives = lifetimes(step.touches for step in steps)
        lives = {name: life for name, life in lives.items() if name not in OUTSIDE}
        shapes = self.shapes(batch, steps)
        return packed(lives, {name: HALF.itemsize * math.prod(shapes[name]) for name in lives})

    def _views(self, batch: int, steps: Sequence[Step]) -> Views:
        """The buffers as arrays, in a plan's workspace."""
        shapes, arena = self.shapes(batch, steps), self.arena(batch, steps)
        if self.flags.buffers == "apart":
            return {name: workspace(shapes[name], HALF) for name in arena.offsets}
        memory = workspace(arena.size, np.uint8)
        return {name: view(memory, start, shapes[name]) for name, start in arena.offsets.items()}

    def _pool_launches(self, images: Array, scores: Array) -> Iterator:
        """A forward pass whose buffers are allocated from the driver's pool and freed."""
        shapes, ends = self.shapes(len(scores)), {"images": images, "scores": scores}

        def listed(step: Step, memory: Views) -> list[Launch]:
            views = {name: view(its, 0, shapes[name]) for name, its in memory.items()}
            return step.launches(views | ends)

        todo = [
            ([name for name in step.touches if name not in ends], functools.partial(listed, step))
            for step in self.steps()
        ]
        sizes = {name: HALF.itemsize * math.prod(its) for name, its in shapes.items()}
        with cuda.defer_cleanup():  # a free by Numba would break a capture
            yield from from_pool(todo, sizes)

    # ------------------------------------------------------------------ the entry points
    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.shape.channels, self.shape.patch, self.shape.tokens

    def _batch(self, shape: tuple[int, ...]) -> int:
        """The number of images of an array of images, or of rows of tokens, of this shape."""
        return shape[0] if len(shape) != 2 else shape[0] // self.shape.tokens

    def _scores(self, images: ArrayFacts) -> Result:
        images.must_be_beside("images", "the weights", self._device)
        if self.flags.patches in LADDER:
            checked_images(images, *self._sizes)
        return (self._batch(images.shape), self.shape.classes), HALF

    def _all_launches(self, images: Array, scores: Array) -> list[Launch]:
        steps = self.steps()
        views = self._views(len(scores), steps) | {"images": images, "scores": scores}
        return [launch for step in steps for launch in step.launches(views)]

    def _embedded(self, images: ArrayFacts) -> Result:
        self._scores(images)
        return (images.shape[0], self.shape.tokens, self.shape.width), HALF

    def _token_launches(self, images: Array, out: Array) -> list[Launch]:
        views = {"images": images, "x": rows_of(out, "out")}
        shapes = self.shapes(len(images))
        views |= {name: workspace(shapes[name], HALF) for name in ("rows", "begun")}
        return self._patches(views)

    def _same(self, x: ArrayFacts, number: int) -> Result:
        x.must_be_beside("x", "the weights", self._device)
        holds(x, "x", HALF)
        wanted = self.shape.tokens, self.shape.width
        if x.ndim != 3 or x.shape[1:] != wanted:
            raise ValueError(f"x has the shape {x.shape}; it must be (n, {wanted[0]}, {wanted[1]})")
        return x.shape, HALF

    def _of_block(self, x: Array, out: Array, number: int) -> list[Launch]:
        steps = self._block_steps(number, "images", "scores")
        ends = {"images": rows_of(x, "x"), "scores": rows_of(out, "out")}
        views = self._views(len(x), steps) | ends
        return [launch for step in steps for launch in step.launches(views)]


OUTSIDE = ("images", "scores")  # the caller's arrays


def part(array: Array, axis: int, number: int) -> Array:
    """The view ``array[..., number, ...]`` at that axis, of an `ArraySlot`, too."""
    if not isinstance(array, ArraySlot):
        return array[(*(slice(None),) * axis, number)]
    offset = array.offset + number * array.strides[axis]
    left = [sizes[:axis] + sizes[axis + 1 :] for sizes in (array.shape, array.strides)]
    return ArraySlot(array.slot, *left, array.dtype, offset, array.beyond)


def rows_of(array: Array, name: str) -> Array:
    """Tokens (images, tokens, width) as rows; ValueError if they are not in C order."""
    return in_order(array, name).reshape(array.shape[0] * array.shape[1], array.shape[2])


def view(memory: Array, start: int, shape: tuple[int, ...]) -> Array:
    """An array of float16 that begins at byte `start` of memory."""
    if isinstance(memory, ArraySlot):
        return ArraySlot(memory.slot, shape, in_c_order(shape, HALF.itemsize), HALF, start)
    size = HALF.itemsize * math.prod(shape)
    return memory[start : start + size].view(HALF).reshape(shape)


class Graph:
    """A call's launches, captured once in a CUDA graph, with CuPy, and then launched as one.

    The arrays keep their memory: to compute others, copy new images into them.

    Parameters
    ----------
    call : callable
        ``call(*arrays, out=...)``: a `ViT`, or a lambda around `ViT.block`.
    *arrays : cupy.ndarray

    Attributes
    ----------
    out : cupy.ndarray
        The call's result, in each replay in the same memory.
    """

    def __init__(self, call: Callable[..., Array], *arrays: Array):
        import cupy

        self.arrays, self._stream = arrays, cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.get_current_stream().synchronize()
        with self._stream:
            self.out = call(*arrays)  # compiles, and allocates
            self._stream.synchronize()
            self._graph, _ = capture_graph(self._stream, lambda: call(*arrays, out=self.out))
        self._current = cupy.cuda.get_current_stream

    def __call__(self) -> Array:
        """Replay on CuPy's current stream."""
        self._graph.launch(self._current())
        return self.out
