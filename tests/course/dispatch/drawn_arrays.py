"""Calls of every entry point with arrays as nobody lists them: kinds, strides, overlaps, results.

`python -m tests.course.dispatch.drawn_arrays FIRST END` makes the calls of many seeds and prints
what is wrong. A call must be right (against float64, or where that takes a page against the same
call with clean copies), or refused by a TypeError or ValueError that names an argument; what it
may not write to stays as it was.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas
from scipy import sparse, special

import course.kernels
import course_app.kernels
import course_models
from course.backend import cuda
from course.dispatch.entry import EntryPoint

F = np.float64


@dataclass
class Front:
    """An entry point and the function that users call.

    `shapes` are those of its arrays, `exact` gives the results from arrays in float64.
    """

    shapes: dict[str, tuple[int, ...]]
    exact: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    types: dict[str, type] = field(default_factory=dict)
    values: dict[str, Callable[[np.random.Generator], np.ndarray]] = field(default_factory=dict)
    bound: float = 1e-4
    entry: Any = None
    call: Any = None


def _softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def _gelu(x):
    return x * special.ndtr(x)


def _slope(x):
    return special.ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _attention(q, k, v):
    q, k, v = (part.transpose(0, 2, 1, 3) for part in (q, k, v))
    found = _softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5) @ v
    return found.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def _sizes(rng):
    return np.array([[6, 7], [5, 8]], np.int32)


ROWS = (7, 12)
#: By the name of the entry point.
FRONTS = {
    "softmax": Front({"x": ROWS}, _softmax),
    "softmax_backward": Front(
        {"dy": ROWS, "y": ROWS}, lambda dy, y: y * (dy - (dy * y).sum(-1, keepdims=True))
    ),
    "layer_norm": Front({"x": ROWS, "gamma": (12,), "beta": (12,)}, _norm, bound=1e-3),
    "layer_norm_backward": Front({"dy": ROWS, "x": ROWS, "gamma": (12,), "beta": (12,)}),
    "reduction": Front({"x": ROWS}, np.sum),
    "matmul": Front({"a": (8, 12), "b": (12, 8)}, np.matmul),
    "loss": Front(
        {"first": ROWS, "second": ROWS}, lambda m, v: -0.5 * (1 + v - m * m - np.exp(v)).sum(),
        {"name": "kl"},
    ),
    "bce_gradient": Front(
        {"logits": ROWS, "targets": ROWS}, lambda x, t: special.expit(x) - t, {"scale": 1.0}
    ),
    "reparameterise": Front(
        {"mean": ROWS, "log_variance": ROWS, "counter": (2,)}, types={"counter": np.int64},
        values={"counter": lambda rng: np.array([3, 1])},
    ),
    "transpose": Front({"image": ROWS}, np.transpose),
    "resized": Front(
        {"pixels": (2, 64), "sizes": (2, 2)}, None, {"rows": 5, "columns": 6},
        {"pixels": np.uint8, "sizes": np.int32},
        {"sizes": _sizes, "pixels": lambda rng: rng.integers(0, 256, (2, 64))},
    ),
    "quality_of": Front({"images": (2, 8, 9), "approximations": (2, 8, 9)}),
    "attention": Front(
        dict.fromkeys("qkv", (2, 5, 2, 32)), _attention,
        types=dict.fromkeys("qkv", np.float16), bound=2e-2,
    ),
    "reconstruct": Front(
        {"u": (9, 6), "s": (6,), "vt": (6, 8)}, lambda u, s, vt: (u[:, :3] * s[:3]) @ vt[:3],
        {"k": 3},
    ),
    "gemm": Front(
        {"a": (8, 16), "b": (16, 8), "bias": (8,), "residual": (8, 8)},
        lambda a, b, bias, residual: a @ b + bias + residual,
        types=dict.fromkeys(("a", "b", "bias", "residual"), np.float16), bound=2e-2,
    ),
    "activation": Front({"x": ROWS}, _gelu),
    "activation_gradient": Front({"grad": ROWS, "x": ROWS}, lambda grad, x: grad * _slope(x)),
    "svd": Front({"a": (6, 5)}, lambda a: np.linalg.svd(a, full_matrices=False)[1]),
    "rank_k": Front({"a": (6, 5)}, lambda a: np.linalg.svd(a, compute_uv=False)[:2], {"k": 2}),
}  # fmt: skip
HOMES = course.kernels, course_app.kernels, course_models
LONG = {"svd", "rank_k", "attention", "resized", "quality_of", "gemm"}


def modules() -> Iterator[pkgutil.ModuleInfo]:
    """The modules of all kernels."""
    for package in HOMES:
        yield from pkgutil.walk_packages(package.__path__, f"{package.__name__}.")


def entries() -> dict[str, tuple[EntryPoint, Callable]]:
    """All entry points of kernels, and the function that calls each, by its name."""
    found = {}
    for one in modules():
        module = importlib.import_module(one.name)
        for function in vars(module).values():
            public = inspect.isfunction(function) and not function.__name__.startswith("_")
            if public and function.__module__ == one.name:
                if "call" in function.__code__.co_names:
                    for name in function.__code__.co_names:
                        entry = getattr(module, name, None)
                        if isinstance(entry, EntryPoint):
                            found[entry.name] = entry, function
    return found


for _name, (_entry, _function) in entries().items():
    if _name in FRONTS:
        FRONTS[_name].entry, FRONTS[_name].call = _entry, _function


# --- kinds of arrays ------------------------------------------------------------------------------


class Subclass(np.ndarray):
    """An array like any other, by another name."""


class Quantity(np.ndarray):
    """An array whose elements have a unit, which the elements alone do not say."""

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return NotImplemented


def spread(values: np.ndarray, steps: list[int], offset: int = 0) -> np.ndarray:
    """The values in memory where the neighbours along each axis lie so many elements apart."""
    sizes = [offset + max(1, n) * abs(step) for n, step in zip(values.shape, steps, strict=True)]
    memory = np.full(sizes, 7, values.dtype)
    part = memory[tuple(slice(offset, None, abs(step)) for step in steps)]
    part = part[tuple(slice(0, n) for n in values.shape)]
    part = part[tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)]
    part[...] = values
    return part


def _unaligned(values: np.ndarray) -> np.ndarray:
    memory = np.zeros(values.nbytes + 1, np.uint8)
    found = np.ndarray(values.shape, values.dtype, memory, 1)
    found[...] = values
    return found


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


#: Layouts, which lie on the device as they are on the host.
LAYOUTS: dict[str, Callable[[np.ndarray, random.Random], Any]] = {
    "C order": lambda v, draw: v,
    "Fortran's order": lambda v, draw: np.array(v, order="F"),
    "turned": lambda v, draw: np.array(v.T, order="C").T,
    "apart": lambda v, draw: spread(v, [draw.choice((1, 2, 3, -1, -2)) for _ in v.shape]),
    "rows apart": lambda v, draw: spread(v, [2] * (v.ndim - 1) + [1], draw.randrange(3)),
    "turned round": lambda v, draw: spread(v, [-1] * v.ndim),
    "from somewhere": lambda v, draw: spread(v, [1] * v.ndim, draw.randrange(1, 5)),
    "broadcast": lambda v, draw: np.broadcast_to(v[:1], v.shape),
}
#: Kinds that only the host has.
KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": _read_only,
    "unaligned": _unaligned,
    "a subclass": lambda v: v.view(Subclass),
    "a unit": lambda v: v.view(Quantity),
    "masked": lambda v: np.ma.masked_array(v, v > 0),
    "masked, nothing": lambda v: np.ma.masked_array(v),
    "a matrix": lambda v: v.view(np.matrix) if v.ndim == 2 else v,
    "a record array": lambda v: v.view([("x", v.dtype)]).view(np.recarray),
    "structured": lambda v: v.view([("x", v.dtype)]),
    "other bytes": lambda v: v.astype(v.dtype.newbyteorder()),
    "objects": lambda v: v.astype(object),
    "text": lambda v: v.astype("U9"),
    "bytes": lambda v: v.astype("S9"),
    "dates": lambda v: v.astype(np.int64).astype("M8[s]"),
    "float64": lambda v: v.astype(F),
    "complex": lambda v: v.astype(np.complex64),
    "truth values": lambda v: v > 0,
    "int32": lambda v: v.astype(np.int32),
    "a longdouble": lambda v: v.astype(np.longdouble),
    "pandas": lambda v: pandas.DataFrame(v) if v.ndim == 2 else pandas.Series(v.ravel()),
    "sparse": lambda v: sparse.csr_array(  # SciPy has none of float16
        np.atleast_2d(v if v.ndim < 3 else v[0, 0]).astype(np.float64)
    ),
    "a list": lambda v: v.tolist(),
    "a number": lambda v: v.ravel()[0],
    "without axes": lambda v: v.ravel()[0].reshape(()).copy(),
    "nothing": lambda v: None,
    "no elements": lambda v: v[..., :0],
    "no rows": lambda v: v[:0],
    "an axis more": lambda v: v[None],
    "an axis less": lambda v: v[0],
}


@dataclass
class Drawn:
    """What a seed stands for."""

    name: str
    told: str
    arrays: dict[str, Any]
    out: Any
    on_device: bool


OVER = "shifted", "shifted", "interleaved", "the same", "an end of it"
OUTS = (
    "clean", "clean", "apart", "stride 0", "windows", "another type", "another shape", "read-only",
    "masked", "turned",
)  # fmt: skip


def _out(draw: random.Random, arrays: dict, like: np.ndarray, what: str) -> Any:
    """Where the result shall be written."""
    name = draw.choice(list(arrays))
    base = np.zeros(2 * (like.size + np.size(arrays[name])) + 64, like.dtype)
    if what == "apart":
        return spread(like, [draw.choice((1, 2, -1)) for _ in like.shape])
    if what == "stride 0":
        return np.ndarray(like.shape, like.dtype, base, strides=(0,) * like.ndim)
    if what == "windows":
        return np.lib.stride_tricks.as_strided(base, like.shape, (like.itemsize,) * like.ndim)
    if what in ("shifted", "interleaved", "an end of it"):
        given = np.asarray(arrays[name])
        count, step = like.size, 2 if what == "interleaved" else 1
        start = {"shifted": draw.randrange(1, 9), "interleaved": 1}.get(what, given.size)
        if given.dtype == like.dtype and given.size and given.flags.c_contiguous:
            base[: step * given.size : step] = given.ravel()
            arrays[name] = base[: step * given.size : step].reshape(given.shape, copy=False)
            return base[start : start + step * count : step].reshape(like.shape, copy=False)
    if what == "the same":
        return arrays[name]
    if what == "another type":
        return np.zeros(like.shape, F)
    if what == "another shape":
        return np.zeros((*like.shape, 2), like.dtype)
    if what == "masked":
        return np.ma.zeros(like.shape, like.dtype)
    clean = np.zeros(like.shape, like.dtype, "F" if what == "turned" else "C")
    return _read_only(clean) if what == "read-only" else clean


def drawn(seed: int, long: bool) -> Drawn:
    """The call of a seed."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    name = draw.choice([name for name in FRONTS if long or name not in LONG])
    front = FRONTS[name]
    takes_out = "out" in inspect.signature(front.call).parameters
    over = takes_out and draw.random() < 0.4
    on_device, told, arrays = draw.random() < (0.9 if over else 0.5), [], {}
    odd = None if over else draw.choice(list(front.shapes))
    for each, shape in front.shapes.items():
        kind = front.types.get(each, np.float32)
        make = front.values.get(each) or (lambda rng, s=shape: abs(rng.standard_normal(s)) % 1)
        values = np.asarray(make(rng)).astype(kind)
        what = draw.choice([*(LAYOUTS if on_device or draw.random() < 0.4 else KINDS)])
        if each == odd and what in KINDS:
            values = KINDS[what](values)
        elif each == odd and not (what == "broadcast" and each in front.values):
            values = LAYOUTS[what](values, draw)
        arrays[each] = values
        told += [f"{each} {what}"] * (each == odd)
    out = None
    if over or (takes_out and draw.random() < 0.5):
        what = draw.choice(OVER if over else OUTS)
        told.append(f"out {what}")
        clean = {each: np.ones(s, front.types.get(each, np.float32)) for each, s in
                 front.shapes.items()} | {each: make(rng).astype(front.types[each]) for each, make
                                          in front.values.items()}  # fmt: skip
        like = np.asarray(front.call(**clean, **front.options))
        out = _out(draw, arrays, like.reshape(like.shape or (1,)), what)
    place = "device" if on_device else "host"
    return Drawn(name, f"{name} on the {place}: {', '.join(told)}", arrays, out, on_device)


# --- the judge ------------------------------------------------------------------------------------


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _placed(arrays: list[Any]) -> list[Any]:
    """Arrays on the device, with the same strides, those of one memory in one memory there."""
    memories: dict[int, Any] = {}
    placed = []
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            placed.append(array)
            continue
        root = _root(array)
        flat = memories.setdefault(
            id(root), cuda.to_device(np.array(root, copy=True).ravel("K").view(np.uint8))
        )
        start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        view = np.ndarray(array.shape, array.dtype, flat._memory, start, array.strides)
        placed.append(type(flat)(view))
    return placed


def to_numpy(found: Any) -> Any:
    """Results on the host."""
    if isinstance(found, tuple):
        return tuple(map(to_numpy, found))
    return np.array(found._memory) if hasattr(found, "_memory") else np.asarray(found)


def _shares(array: Any, out: Any) -> bool:
    pair = [getattr(one, "_memory", one) for one in (array, out)]
    return all(isinstance(one, np.ndarray) for one in pair) and np.shares_memory(*pair)


def _may_be(front: Front, name: str, array: Any, out: Any) -> bool:
    """Whether each thread reads the elements that it writes, and no others."""
    left, right = (one.__cuda_array_interface__ for one in (array, out))
    same = all(left[of] == right[of] for of in ("data", "shape", "strides", "typestr"))
    return same and name in front.entry.in_place


def problem(seed: int, long: bool = False) -> str | None:
    """What is wrong with the call of a seed, None if nothing is."""
    case = drawn(seed, long)
    front = FRONTS[case.name]
    arrays, out = dict(case.arrays), case.out
    if case.on_device:
        *placed, out = _placed([*arrays.values(), out])
        arrays = dict(zip(arrays, placed, strict=True))
    plain = {n: to_numpy(a) if hasattr(a, "_memory") else a for n, a in arrays.items()}
    clean = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in plain.items()}
    over = [n for n, a in arrays.items() if _shares(a, out)]
    given = {"out": out} if out is not None else {}
    try:
        found = front.call(**arrays, **front.options, **given)
    except (TypeError, ValueError) as error:
        names = "|".join([*front.shapes, "out", "mean", "log_variance"])  # of a loss's two
        if not re.search(rf"\b({names})\b", str(error)):
            return f"{case.told}: does not say which: {type(error).__name__}: {error}"
        return None
    except Exception:
        return f"{case.told}: {traceback.format_exc(limit=-3)}"
    if out is not None and found is not out:
        return f"{case.told}: hands back something else than out"
    if case.on_device and (risky := [n for n in over if not _may_be(front, n, arrays[n], out)]):
        return f"{case.told}: out lies over {risky}, which a GPU's threads may read after writing"
    if not over:
        for n, before in clean.items():
            now = to_numpy(arrays[n]) if hasattr(arrays[n], "_memory") else arrays[n]
            if isinstance(now, np.ndarray) and not np.array_equal(now, before):
                return f"{case.told}: {n} was changed"
    odd = np.ma.MaskedArray | Quantity
    taken = [
        n for n, a in [*clean.items(), ("out", out)]
        if isinstance(a, odd) or getattr(getattr(a, "dtype", None), "kind", "f") not in "biuf"
    ]  # fmt: skip
    if taken:
        return f"{case.told}: {taken} taken for what it is not"
    results = _several(to_numpy(found[1] if case.name in ("svd", "rank_k") else found))
    if not any(one.size for one in results):
        return None
    if front.exact is None:
        wanted = front.call(**{n: None if a is None else np.array(a) for n, a in clean.items()},
                            **front.options)  # fmt: skip
    else:
        absent = {"gamma": 1, "beta": 0, "bias": 0, "residual": 0}
        wanted = front.exact(*(
            absent[n] if a is None else np.array(a, F) for n, a in clean.items()
        ))  # fmt: skip
    for one, exact in zip(results, _several(wanted), strict=True):
        exact = np.asarray(exact, F)
        if one.size != exact.size or not np.allclose(
            np.asarray(one, F).ravel(), exact.ravel(), rtol=front.bound, atol=front.bound
        ):
            return f"{case.told}: wrong:\n{one}\n{exact}"
    return None


def _several(found: Any) -> tuple:
    return tuple(one for one in found if one is not None) if isinstance(found, tuple) else (found,)


if __name__ == "__main__":
    refused = 0
    for seed in range(*map(int, sys.argv[1:3])):
        told = problem(seed, long=True)
        if told:
            print(seed, told, flush=True)
