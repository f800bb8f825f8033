"""Kernels on tensor cores of float16, and what goes with them, with their argument types.

What makes them chooses a tile by the GPU and the shape, so these are samples of each kernel. Tests
count the registers of most; `tools.compile_all --hashes` compares their PTX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba import types

from course.heuristics.attention import LONG, LONGER, config_for
from course.heuristics.gemm import ThinConfig, partial_tile, staged_config
from course.heuristics.reconstruct import WARPGROUP_CONFIGS
from course.kernels.attention import first_steps, online
from course.kernels.attention.ladder import SIZES
from course.kernels.attention.warpgroups import warpgroups as attention_by_warpgroups
from course.kernels.gemm import (
    half,
    mma_sync,
    padding,
    partial,
    split_k,
    thin,
    tma,
    warp_specialised,
    wgmma,
)
from course.kernels.gemm.tiles import ELEMENTS
from course.kernels.norm.half import wide
from course.kernels.reconstruct import warpgroups
from course_models.patches import gather
from course_models.vit.unfused_epilogue import unfused_epilogue
from tools.compile.cases import Case
from warpsim.ptx.tma import TensorMapType

f4, i4, i8, u4 = types.float32, types.int32, types.int64, types.uint32
EPILOGUES = (("", False), ("gelu", True), ("gelu tanh", True))
SHAPES = [staged_config(*its) for its in (
    (2, 256, 3), (2, 192, 3, True), (2, 128, 2, True), (1, 192, 2), (1, 64, 1), (2, 256, 1),
    (1, 256, 1, True), (1, 112, 1, True),
)]  # fmt: skip
#: Tile, layout, element and epilogue of products by warpgroups of which one copies.
WARP_SPECIALISED = [
    (shape, ("nt", "nn", "tn")[n % 3] if shape.columns != 112 else "nt",
     ("float16", "bfloat16")[n % 2], EPILOGUES[n // 2 % 3])
    for n, shape in enumerate(SHAPES)
]  # fmt: skip
WARP_SPECIALISED += [(staged_config(2, 256, 3, True), "nt", "bfloat16", EPILOGUES[1])]
WARP_SPECIALISED += [(staged_config(2, 240, 1), "nt", "float16", EPILOGUES[2])]
WARP_SPECIALISED += [
    (staged_config(2, 256, 3)._replace(**{how: True}), layout, "bfloat16", EPILOGUES[1])
    for how, layout in (("paired", "nt"), ("paired", "nn"), ("by_threads", "nn"))
]
WARP_SPECIALISED += [  # as many registers as three warpgroups have, and two beside a transposed one
    (staged_config(*its, 3, **{how: True}), layout, "bfloat16", EPILOGUES[n % 2 + 1])
    for n, (its, how, layout) in enumerate((
        ((3, 192), "by_threads", "nn"), ((3, 176), "swapped", "nt"), ((2, 240), "swapped", "nt"),
        ((3, 176), "boxed", "tn"),
    ))
]  # fmt: skip
SPLIT = staged_config(2, 160, 1, True, 2)
#: Layout and tile of products whose sums are stored as they are.
PARTIAL = [
    (layout, partial_tile(*its)) for layout, its in (
        ("nt", (2, 256, 3)), ("nn", (1, 64, 1)), ("nt", (1, 112, 1)), ("tt", (2, 144, 1, True)),
        ("tn", (2, 192, 3, True)), ("nn", (3, 192, 3)),
    )
]  # fmt: skip
#: Whether neighbours lie along the depth, in both factors, and the tile, past shared memory.
THIN = [
    (along, ThinConfig(*its)) for along, its in (
        ((True, True), (4, 2, 8, 1)), ((True, False), (1, 1, 8, 1)), ((False, True), (2, 4, 2, 4)),
        ((False, False), (4, 1, 8, 1)), ((True, False), (4, 4, 4, 1)),
    )
]  # fmt: skip
#: Feed, element, target and instruction of products by mma.
PLAIN = [
    ("copied", "float16", "sm_80", "m16n8k16.row.col.f32.f16"),
    ("copied", "bfloat16", "sm_90", "m16n8k16.row.col.f32.bf16"),
    ("loaded", "bfloat16", "sm_80", "m16n8k16.row.col.f32.bf16"),
    ("turing", "float16", "sm_75", "m16n8k8.row.col.f32.f16"),
]
ATTENTION = [
    config_for(197, 768, 132),
    LONG,
    config_for(197, 12, 132),
    config_for(256, 768, 132),
    LONGER,
    *(config_for(4096, 768, 132, size) for size in SIZES),
    config_for(200, 768, 132, 96),
]

HALF = types.float16
LINE, PLANE, STACK = (types.Array(HALF, n, "C") for n in (1, 2, 4))
WORDS = tuple(types.Array(u4, n, "C") for n in (4, 2, 2, 2))
#: What goes with products in a vision transformer.
APART = {
    f"gather, wide {wide}, begins {begins}": (
        gather(wide, begins), (*(WORDS if wide else (STACK, PLANE, PLANE, PLANE)), i4, i4, i4)
    )
    for wide in (True, False) for begins in (True, False)
} | {
    f"apart, {its}": (unfused_epilogue("float16", *its), (PLANE, LINE, PLANE, PLANE))
    for its in (("gelu", True, False, True), ("", False, True, True), ("gelu", True, True, False))
}  # fmt: skip


def matrix(element: str, axes: int = 2) -> Any:
    """The type of an array in C order."""
    return types.Array(ELEMENTS[element], axes, "C")


def of_warp_specialised(shape: Any, layout: str, element: str, high: int = 64) -> tuple[Any, ...]:
    """Argument types of a product by warpgroups; boxes of results have `high` rows."""
    kind = ELEMENTS[element]
    a = TensorMapType(kind, (64, 64) if layout == "tn" else (shape.rows, 64), True)
    wide = shape.columns // (1 + shape.paired)
    b = TensorMapType(kind, (wide if layout == "nt" else 64, 64), True)
    box = TensorMapType(kind, (high, 64), True)
    plane, line = matrix(element), matrix(element, 1)
    ends = box, box if shape.added else plane
    if shape.by_threads:
        ends = u4[::1], types.uint16[::1]
    return a, b, *ends, line, line, i4, i4, i4, i4, i4


def of_partial(config: Any, layout: str, element: str) -> tuple[Any, ...]:
    """Argument types of a product by warpgroups whose sums are stored as they are."""
    kind, line = ELEMENTS[element], matrix(element, 1)
    a = TensorMapType(kind, (64, 64) if layout[0] == "t" else (config.rows, 64), True)
    b = TensorMapType(kind, (config.columns if layout[1] == "t" else 64, 64), True)
    return a, b, f4[:, :, ::1], line, line, line, i4, i4, i4, i4, i4


def of_thin(element: str) -> tuple[Any, ...]:
    """Argument types of a product past shared memory."""
    factor = u4[::1], types.uint16[::1]
    return (*factor, *factor, matrix(element), matrix(element, 1), matrix(element), *(i4,) * 7)


def of_copies() -> tuple[Any, ...]:
    """Argument types of what copies factors to longer rows."""
    return (*((u4[::1], types.uint16[::1], u4[::1], i4, i4, i4) * 2), i4)


def of_sums(element: str) -> tuple[Any, ...]:
    """Argument types of what finishes partial sums."""
    return f4[:, :, ::1], matrix(element, 1), matrix(element), matrix(element)


def of_step(step: str) -> tuple[Any, ...]:
    """Argument types of a step of the ladder between "plain" and "roles"."""
    tiles = {"wgmma": (), "tma": (128, 256)}[step]
    maps = [TensorMapType(HALF, (rows, 64), True) for rows in tiles]
    return (*maps, *[PLANE] * (3 - len(maps)), i4, i4, i4, i4)


def of_plain(element: str) -> tuple[Any, ...]:
    """Argument types of a product by mma."""
    plane = matrix(element)
    return (plane,) * 3 + (matrix(element, 1), plane) + (i4,) * 4


def of_attention(element: str) -> tuple[Any, Any]:
    """Types of q, k or v, and of out."""
    return types.Array(ELEMENTS[element], 4, "A"), matrix(element, 3)


def of_warpgroup_attention(config: Any, element: str) -> tuple[Any, ...]:
    """Argument types of attention by warpgroups."""
    q, kv = (TensorMapType(ELEMENTS[element], (rows, 64), True) for rows in (64, config.box))
    return q, kv, kv, of_attention(element)[1], i4, i4, i4, i4, f4


def of_tiles() -> tuple[Any, ...]:
    """Argument types of what multiplies split factors by warpgroups."""
    a, b = (TensorMapType(HALF, (rows, 64), True) for rows in (warpgroups.ROWS, 64))
    return a, b, f4[::1], f4[::1], f4[:, ::1], i4, i4


def tensor_cases() -> Iterator[Case]:
    """All of them."""
    hopper: dict[str, Any] = {"capability": (9, 0), "suffix": "a"}
    for n, (shape, layout, element, its) in enumerate(WARP_SPECIALISED):
        kernel = warp_specialised.gemm(layout, element, shape, *its)
        yield Case(
            f"halves: roles {n}", kernel, of_warp_specialised(shape, layout, element), **hopper
        )
    kernel, kinds = (
        split_k.gemm("nt", "bfloat16", SPLIT, 2, "gelu", True),
        of_warp_specialised(SPLIT, "nt", "bfloat16", 16),
    )
    yield Case("halves: split", kernel, kinds[:-2], **hopper)
    for n, (layout, config) in enumerate(PARTIAL):
        kernel = warp_specialised.gemm(layout, "float16", config)
        kinds = of_partial(config, layout, "float16")
        yield Case(f"halves: partial {n}", kernel, kinds, **hopper)
    for n, (along, config) in enumerate(THIN):
        aligned = n % 2 == 0, n % 2 == 0
        kernel = thin.gemm("bfloat16", along, aligned, along[1], config, ("gelu", True, True))
        yield Case(f"halves: thin {n}", kernel, of_thin("bfloat16"), (8, 0))
    yield Case("halves: copies", padding.pad(), of_copies())
    kernel = partial.finish("float16", ("gelu", True, True), True)
    yield Case("halves: sums", kernel, of_sums("float16"))
    for step, module in (("wgmma", wgmma), ("tma", tma)):
        yield Case(f"halves: {step}", module.gemm(), of_step(step), **hopper)
    for feed, element, target, _ in PLAIN:
        for layout in half.LAYOUTS:
            kernel = mma_sync.gemm(layout, element, feed, "gelu", True, True)
            capability = int(target[3]), int(target[4])
            name = f"halves: {feed}, {layout}, {element}"
            yield Case(name, kernel, of_plain(element), min(capability, (8, 0)))
    for element in ELEMENTS:
        four, out = of_attention(element)
        for n, config in enumerate(ATTENTION):
            kinds = of_warpgroup_attention(config, element)
            kernel = attention_by_warpgroups(element, config)
            yield Case(f"attention: warpgroups {n}, {element}", kernel, kinds, **hopper)
        for size in SIZES:
            kinds = (four, four, four, i4, i4, f4, out)
            name = f"attention: online, {size}, {element}"
            yield Case(name, online.online(element, size), kinds, (8, 0))
        kernel = first_steps.fused(element, 64)
        yield Case(f"attention: fused, {element}", kernel, (four, four, four, f4, out), (8, 0))
        plane, line = types.Array(u4, 2, "C"), types.Array(u4, 1, "C")
        kinds = (plane, line, line, f4, plane)
        yield Case(f"norm: wide, {element}", wide(element, 768), kinds, (8, 0))
    for name, (kernel, kinds) in APART.items():
        yield Case(f"patches: {name}", kernel, kinds)
    for aligned in (True, False):
        parts = types.Array(HALF, 2, "C")
        kinds = (f4[:, ::1], f4[::1], f4[:, ::1], i8, parts, parts, f4[::1], f4[::1])
        name = "" if aligned else ", unaligned"
        kernel = warpgroups.splitter(aligned, aligned)
        yield Case(f"reconstruct: what splits{name}", kernel, kinds, (9, 0))
    for config in WARPGROUP_CONFIGS:
        kernel = warpgroups.warpgroup_tiles(config)
        yield Case(f"reconstruct: warpgroups, {config.columns}", kernel, of_tiles(), **hopper)
