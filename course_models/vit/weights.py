"""A vision transformer's weights: made, checked, read from and written to safetensors files.

The weights are a dict, a float32 array by each name of `ViTShape.parameters`, which are timm's.
Files may have timm's names or torchvision's, so that a trained ViT-B/16 is read as it is.

>>> shape, weights = load("vit_base_patch16_224.safetensors")
>>> save("mine.safetensors", shape, weights, names="torchvision")

Files are read by safetensors, of the extra `weights`: nothing in them is executed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from course.files import write_whole
from course_models.vit.shape import ViTShape

Weights = dict[str, np.ndarray]
NAMES = ("timm", "torchvision")
#: Heads by width, of ViT-Ti, -S, -B, -L and -H; weights alone do not tell how many.
HEADS = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16}
LARGEST = float(np.finfo(np.float16).max)
_WRAPPED = re.compile(r"^((module|_orig_mod)\.)+")  # prefixes of DataParallel and torch.compile
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
#: Torchvision's parts of names -> timm's; where two become one, files have the second.
_RENAMED = {
    "class_token": "cls_token", "encoder.pos_embedding": "pos_embed",
    "conv_proj.": "patch_embed.proj.", "encoder.layers.encoder_layer_": "blocks.",
    "ln_1.": "norm1.", "ln_2.": "norm2.", "self_attention.in_proj_": "attn.qkv.",
    "self_attention.out_proj.": "attn.proj.", "mlp.linear_1.": "mlp.fc1.",
    "mlp.linear_2.": "mlp.fc2.", "mlp.0.": "mlp.fc1.", "mlp.3.": "mlp.fc2.",
    "encoder.ln.": "norm.", "heads.head.": "head.",
}  # fmt: skip


def initial(shape: ViTShape, seed: int = 0) -> Weights:
    """Initial weights: normal with a deviation of 0.02; biases are 0, LayerNorm's factors 1."""
    rng, made = np.random.default_rng(seed), {}
    for name, size in shape.parameters.items():
        if len(size) > 1:
            made[name] = (0.02 * rng.standard_normal(size)).astype(np.float32)
        else:
            made[name] = np.full(size, "norm" in name and "weight" in name, np.float32)
    return made


def checked(shape: ViTShape, weights: Mapping[str, np.ndarray], what: str = "weights") -> Weights:
    """The weights in the shape's order, as C-contiguous float32.

    Raises
    ------
    ValueError
        If one is missing, unknown, of another shape, not finite, or too large for float16.
    """
    _has_all(shape.parameters, weights, what)
    found = {}
    for name, size in shape.parameters.items():
        array = np.asarray(weights[name], np.float32, order="C")
        if array.shape != size:
            raise ValueError(f"{what}: {name} has the shape {array.shape}; it must be {size}")
        largest = np.abs(array).max()
        if not largest <= LARGEST:
            raise ValueError(
                f"{what}: {name} has numbers that are not finite, or above {LARGEST:.0f}, the "
                f"largest of float16: {largest}"
            )
        found[name] = array
    return found


def _has_all(wanted: Iterable[str], there: Iterable[str], what: str) -> None:
    """Refuse weights with missing or unknown names."""
    wanted, there = set(wanted), set(there)
    for verb, names in (("has", there - wanted), ("lacks", wanted - there)):
        if names:
            several = sorted(names)
            more = f" and {len(several) - 4} more" if len(several) > 4 else ""
            raise ValueError(
                f"{what}: it {verb} {', '.join(several[:4])}{more}, unlike a plain ViT of a "
                "class token and a classifier"
            )


# --- names ----------------------------------------------------------------------------------------


def timms(name: str) -> str:
    """Timm's name for a name of torchvision's; any other name stays as it is.

    The prefixes of PyTorch's own wrappers, ``module.`` and ``_orig_mod.``, are removed.
    """
    name = _WRAPPED.sub("", name)
    for theirs, ours in _RENAMED.items():
        name = name.replace(theirs, ours)
    return name


def torchvisions(name: str) -> str:
    """Torchvision's name for a name of timm's, as torchvision's `vit_b_16` has it."""
    for ours, theirs in {ours: theirs for theirs, ours in _RENAMED.items()}.items():
        name = name.replace(ours, theirs)
    return name


def shape_of(
    found: Mapping[str, np.ndarray], heads: int | None = None, what: str = "weights"
) -> ViTShape:
    """The `ViTShape` of weights with timm's names.

    Parameters
    ----------
    heads : int, optional
        Without it, the heads of models of this width (`HEADS`).

    Raises
    ------
    ValueError
        If a name is missing or unknown, or an array that tells the sizes has other axes.
    """
    depth = len({m[1] for m in map(re.compile(r"blocks\.(\d+)\.").match, found) if m})
    _has_all(ViTShape(depth=max(depth, 1)).parameters, found, what)
    axes = {"pos_embed": 3, "patch_embed.proj.weight": 4, "head.weight": 2,
            "blocks.0.mlp.fc1.weight": 2}  # fmt: skip
    for name, count in axes.items():
        if found[name].ndim != count:
            raise ValueError(f"{what}: {name} has the shape {found[name].shape}, not {count} axes")
    tokens = found["pos_embed"].shape[1]
    width, channels, patch, _ = found["patch_embed.proj.weight"].shape
    side = math.isqrt(max(tokens - 1, 0))
    if side**2 != tokens - 1 or not side:
        raise ValueError(f"{what}: pos_embed has {tokens} tokens; it must be a square and 1 more")
    heads = HEADS.get(width) if heads is None else heads
    if heads is None:
        raise ValueError(f"{what}: nothing says how many heads a width of {width} has: give heads")
    sizes = {
        "image": side * patch, "patch": patch, "width": width, "depth": depth, "heads": heads,
        "mlp": len(found["blocks.0.mlp.fc1.weight"]), "classes": len(found["head.weight"]),
        "channels": channels,
    }  # fmt: skip
    try:
        return ViTShape(**sizes)
    except ValueError as problem:
        raise ValueError(f"{what}: {problem}") from None


# --- files ----------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], heads: int | None = None) -> tuple[ViTShape, Weights]:
    """Shape and weights of a safetensors file with timm's or torchvision's names.

    Parameters
    ----------
    heads : int, optional
        Without it the number in the file, which `save` writes; else that of models of its width.

    Raises
    ------
    ImportError
        Without the library safetensors.
    ValueError
        When it is no safetensors file, is cut off, or an array is missing, unknown or does not fit.
    OSError
        When the file cannot be read at all.
    """
    arrays, told = read(path)
    found: Weights = {}
    for name, its in arrays.items():
        if found.setdefault(timms(name), its) is not its:
            raise ValueError(f"{path}: two arrays are {timms(name)}, {name} among them")
    if not any(name.endswith("qkv.bias") for name in found):  # a model without qkv biases
        found |= {name.replace("weight", "bias"): np.zeros(len(its), np.float32)
                  for name, its in found.items() if name.endswith("qkv.weight")}  # fmt: skip
    if heads is None and re.fullmatch("[0-9]{1,9}", told.get("heads", "")):
        heads = int(told["heads"])
    shape = shape_of(found, heads, str(path))
    return shape, checked(shape, found, str(path))


def save(
    path: str | os.PathLike[str], shape: ViTShape, weights: Weights, names: str = "timm"
) -> None:
    """Write weights to a safetensors file, float32, whole or not at all."""
    if names not in NAMES:
        raise ValueError(f"there are no names {names!r}: choose {', '.join(NAMES)}")
    called = torchvisions if names == "torchvision" else str
    arrays = {called(name): np.ascontiguousarray(its)
              for name, its in checked(shape, weights).items()}  # fmt: skip
    write_whole(Path(path), _library().numpy.save(arrays, {"heads": str(shape.heads)}))


def read(path: str | os.PathLike[str]) -> tuple[Weights, dict[str, str]]:
    """All arrays of a safetensors file (F64, F32, F16 or BF16) as float32, and its metadata."""
    library, path = _library(), Path(path)
    try:
        parts = library.deserialize(path.read_bytes())
        with library.safe_open(path, "numpy") as file:
            told = file.metadata() or {}
    except library.SafetensorError as problem:
        raise ValueError(
            f"{path} is no safetensors file, or is cut off ({problem}): of a model of PyTorch's, "
            "safetensors.torch.save_file(model.state_dict(), path) makes one"
        ) from None
    arrays = {}
    for name, its in parts:
        if (dtype := its["dtype"]) not in _TYPES:
            raise ValueError(f"{path}: {name} holds {dtype}; it must be one of {', '.join(_TYPES)}")
        values = np.frombuffer(its["data"], _TYPES[dtype]).reshape(its["shape"])
        if dtype == "BF16":  # not in NumPy: it is float32's upper 16 bits
            values = (values.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = values.astype(np.float32, copy=False)
    return arrays, told


def _library() -> Any:
    """The library safetensors; ImportError says what to install."""
    try:
        import safetensors.numpy
    except ImportError as error:
        from course.installed import install_command

        raise ImportError(
            f"safetensors cannot be imported ({error}): {install_command('weights')}"
        ) from error
    return safetensors
