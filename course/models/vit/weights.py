"""A vision transformer's weights: made, checked, read from and written to safetensors files.

The weights are a dict, a float32 array by each name of `ViTShape.parameters`, which are timm's.
Files may have timm's names or torchvision's: somebody's trained ViT-B/16 is read as it is.

>>> shape, weights = load("vit_base_patch16_224.safetensors")
>>> save("mine.safetensors", shape, weights, names="torchvision")

A safetensors file is eight bytes that say how long the header is, the header, JSON with type, shape
and place of each array, and the arrays; nothing in it is executed.

Source: https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from course.files import write_whole
from course.models.vit.shape import ViTShape

Weights = dict[str, np.ndarray]
NAMES = ("timm", "torchvision")
HEAD = 64  # numbers of a head, which no file says: so it is in ViT-Ti, -S, -B and -L
LARGEST = float(np.finfo(np.float16).max)
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_NO_FILE = (
    "{} is no safetensors file, or is cut off: of a model of PyTorch's, "
    "safetensors.torch.save_file(model.state_dict(), path) makes one"
)
#: torchvision's name, timm's; of what a block has behind "encoder.layers.encoder_layer_3.".
_OUTSIDE = {"class_token": "cls_token", "encoder.pos_embedding": "pos_embed",
            "conv_proj.": "patch_embed.proj.", "encoder.ln.": "norm.",
            "heads.head.": "head."}  # fmt: skip
_INSIDE = {"ln_1.": "norm1.", "self_attention.in_proj_": "attn.qkv.", "ln_2.": "norm2.",
           "self_attention.out_proj.": "attn.proj.", "mlp.linear_1.": "mlp.fc1.",
           "mlp.linear_2.": "mlp.fc2.", "mlp.0.": "mlp.fc1.", "mlp.3.": "mlp.fc2."}  # fmt: skip


def initial(shape: ViTShape, seed: int = 0) -> Weights:
    """Weights to begin with: normal, with a deviation of 0.02; biases 0, LayerNorm's factors 1."""
    rng, made = np.random.default_rng(seed), {}
    for name, size in shape.parameters.items():
        if len(size) > 1:
            made[name] = (0.02 * rng.standard_normal(size)).astype(np.float32)
        else:
            made[name] = np.full(size, "norm" in name and "weight" in name, np.float32)
    return made


def checked(shape: ViTShape, weights: Mapping[str, np.ndarray], what: str = "weights") -> Weights:
    """The weights in their order, as float32.

    Raises
    ------
    ValueError
        Where one is missing, too many, of another shape, not finite, or too large for float16.
    """
    for word, names in (
        ("lacks", shape.parameters.keys() - weights.keys()),
        ("has beside those of a ViT", weights.keys() - shape.parameters.keys()),
    ):
        if names:
            several = sorted(names)
            more = f" and {len(several) - 4} more" if len(several) > 4 else ""
            raise ValueError(f"{what}: it {word} {', '.join(several[:4])}{more}")
    found = {}
    for name, size in shape.parameters.items():
        array = np.asarray(weights[name], np.float32)
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


# --- names ----------------------------------------------------------------------------------------


def timms(name: str) -> str:
    """Timm's name of what torchvision calls so; any other stays as it is."""
    if match := re.match(r"encoder\.layers\.encoder_layer_(\d+)\.", name):
        return f"blocks.{match[1]}." + _renamed(name[match.end() :], _INSIDE)
    return _renamed(name, _OUTSIDE)


def torchvisions(name: str) -> str:
    """Torchvision's name of what timm calls so, as its model `vit_b_16` takes it."""
    outside, inside = (
        {ours: theirs for theirs, ours in table.items()} for table in (_OUTSIDE, _INSIDE)
    )
    if match := re.match(r"blocks\.(\d+)\.", name):
        before = f"encoder.layers.encoder_layer_{match[1]}."
        return before + _renamed(name[match.end() :], inside)
    return _renamed(name, outside)


def _renamed(name: str, table: Mapping[str, str]) -> str:
    for old, new in table.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def shape_of(
    found: Mapping[str, np.ndarray], heads: int | None = None, what: str = "weights"
) -> ViTShape:
    """The `ViTShape` that weights of timm's names have.

    Parameters
    ----------
    heads : int, optional
        No file says how many; without it, heads have 64 numbers.

    Raises
    ------
    ValueError
        Where what tells the sizes is missing, or has other axes.
    """
    axes = {"pos_embed": 3, "patch_embed.proj.weight": 4, "head.weight": 2,
            "blocks.0.mlp.fc1.weight": 2}  # fmt: skip
    for name, count in axes.items():
        if name not in found:
            raise ValueError(f"{what} is no vision transformer with a class token: no {name!r}")
        if found[name].ndim != count:
            raise ValueError(f"{what}: {name} has the shape {found[name].shape}, not {count} axes")
    tokens = found["pos_embed"].shape[1]
    width, channels, patch, _ = found["patch_embed.proj.weight"].shape
    side = math.isqrt(max(tokens - 1, 0))
    if side**2 != tokens - 1 or not side:
        raise ValueError(f"{what}: pos_embed has {tokens} tokens; it must be a square and 1 more")
    if heads is None and width % HEAD:
        raise ValueError(f"{what}: a width of {width} is not of heads of {HEAD}: give heads")
    numbers = [int(m[1]) for m in map(re.compile(r"blocks\.(\d+)\.").match, found) if m]
    return ViTShape(
        image=side * patch, patch=patch, width=width, depth=max(numbers) + 1,
        heads=heads or width // HEAD, mlp=len(found["blocks.0.mlp.fc1.weight"]),
        classes=len(found["head.weight"]), channels=channels,
    )  # fmt: skip


# --- files ----------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], heads: int | None = None) -> tuple[ViTShape, Weights]:
    """Shape and weights of a safetensors file with timm's or torchvision's names.

    Raises
    ------
    ValueError
        When it is no such file, is cut off, or an array is missing, too many or does not fit.
    OSError
        When it cannot be read at all.
    """
    found = {timms(name): its for name, its in read(path).items()}
    shape = shape_of(found, heads, str(path))
    return shape, checked(shape, found, str(path))


def save(
    path: str | os.PathLike[str], shape: ViTShape, weights: Weights, names: str = "timm"
) -> None:
    """Write weights to a safetensors file, float32, whole or not at all."""
    if names not in NAMES:
        raise ValueError(f"there are no names {names!r}: choose {', '.join(NAMES)}")
    called = torchvisions if names == "torchvision" else str
    write(path, {called(name): its for name, its in checked(shape, weights).items()})


def read(path: str | os.PathLike[str]) -> Weights:
    """All arrays of a safetensors file, of F64, F32, F16 or BF16, as float32."""
    path = Path(path)
    content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    try:
        length = int(content[:8].view("<u8")[0])
        header = json.loads(bytes(content[8 : 8 + length]))
        header.pop("__metadata__", None)
        arrays = {
            name: _array(
                content[8 + length :], name, its["dtype"], its["shape"], *its["data_offsets"]
            )  # fmt: skip
            for name, its in header.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        told = f" ({problem})" if isinstance(problem, _Wrong) else ""
        raise ValueError(_NO_FILE.format(path) + told) from None
    return arrays


class _Wrong(ValueError):
    """What is wrong with an array of a file."""


def _array(
    data: np.ndarray, name: str, kind: str, shape: list[int], begin: int, end: int
) -> np.ndarray:
    if kind not in _TYPES:
        raise _Wrong(f"{name} holds {kind}; it must be one of {', '.join(_TYPES)}")
    dtype = np.dtype(_TYPES[kind])
    if not 0 <= begin <= end <= data.size or end - begin != dtype.itemsize * math.prod(shape):
        raise _Wrong(f"{name} is said to lie in bytes {begin} to {end} of {data.size}")
    stored = np.frombuffer(data[begin:end].tobytes(), dtype).reshape(shape)
    if kind == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of float32 or float16 to a safetensors file, whole or not at all."""
    header, place, parts = {}, 0, []
    for name, array in arrays.items():
        kind = {"<f4": "F32", "<f2": "F16"}[array.dtype.newbyteorder("<").str]
        parts.append(np.ascontiguousarray(array).tobytes())
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [place, place + len(parts[-1])]}  # fmt: skip
        place += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that arrays begin at multiples of 8 bytes
    write_whole(Path(path), len(text).to_bytes(8, "little") + text + b"".join(parts))
