"""What `tools.compile_all` compiles: argument types of kernels, and the kernels that are made.

Most kernels stand in a module of the course and are found there; types are in `SIGNATURES`. Others
are made for a shape of tiles, a function or a stored type: `made` makes those that a launch makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from numba import float32, void

from course.compiler import toolchain
from course.heuristics import norm as norm_heuristics
from course.heuristics import softmax as softmax_heuristics
from course.heuristics.activation import MANY
from course.heuristics.reconstruct import STACK_TILES, TILES
from course.kernels import activation, reduce
from course.kernels.activation import function_of
from course.kernels.arrays import NUMBA_TYPES
from course.kernels.gemm import batched, gemv
from course.kernels.gemm import float32 as matmul
from course.kernels.gemm.small import product_of
from course.kernels.gemm.small_tile import PRECISIONS
from course.kernels.norm import NormProblem, Variant, backward_registers, long_rows
from course.kernels.norm import backward as norm_backward
from course.kernels.norm import ladder as norm
from course.kernels.reconstruct import ladder
from course.kernels.softmax import backward as softmax_backward
from course.kernels.softmax import forward as softmax
from course.kernels.svd import blocks, gram, one_launch, qr, registers
from course_lessons.lesson13.digits import convolution, one_kernel
from course_lessons.lesson13.digits.weights import ACTIVATIONS, SIDE
from course_models.digits import MNIST_SIDE
from course_models.spectral import network
from course_models.training import losses
from course_models.vae.forward import forward_of
from course_models.vae.shape import VAEShape
from course_models.vae.update import update_of

# --- types ----------------------------------------------------------------------------------------

_ONE, _TWO, _THREE, _FOUR = (f"float32[{':, ' * axes}::1]" for axes in range(4))
_FLAGS, _COUNTS = "int32[::1]", "int32[:, ::1]"
_FACTORS = f"{_TWO}, {_ONE}, {_TWO}, int64, {_TWO}"
_MANY = f"{_THREE}, {_TWO}, {_THREE}, int64, {_THREE}"
_PARTS = f"{{word}}[:, :, ::1], {{word}}[:, :, ::1], {_ONE}, {_ONE}, {_TWO}"
_MANY_PARTS = f"{{word}}[:, :, :, ::1], {{word}}[:, :, :, ::1], {_TWO}, {_TWO}, {_THREE}"
_LINEAR = f"void({_TWO}, {_TWO}, {_ONE}, {_TWO})"
_BLOCKS = f"void({_THREE}, {_THREE}, {_ONE}, int32, {_ONE}, {_FLAGS})"
_HEADS = "float16[:, :, :, :]"
_SPLIT_WORDS = {"float16": "uint32", "tf32": "float32"}

#: Argument types of a kernel, by its module's name below the package and its own
#: ("svd.qr.form_q"), or of all kernels of a module that are not named ("svd.rotate.*").
SIGNATURES: dict[str, str] = {
    "reconstruct.first_steps.*": f"void({_FACTORS})",
    "reconstruct.register_tiles.*": f"void({_FACTORS})",
    "reconstruct.library.scale": f"void({_THREE}, {_TWO}, int32, {_THREE})",
    "attention.first_steps.scores_in_memory": f"void({_HEADS}, {_HEADS}, float32, {_TWO})",
    "attention.first_steps.values_of_scores": f"void({_TWO}, {_HEADS}, float16[:, :, ::1])",
    "reduce.fill": f"void({_ONE}, float32)",
    "softmax.forward.*": f"void({_TWO}, {_TWO})",
    "softmax.backward.*": f"void({_TWO}, {_TWO}, {_TWO})",
    "activation.multiply": f"void({_ONE}, {_ONE}, {_ONE})",
    "norm.first_steps.*": f"void({_TWO}, {_ONE}, {_ONE}, float32, {_TWO})",
    "norm.ladder.shifted_factors": f"void({_ONE}, {_ONE}, {_ONE}, {_ONE})",
    "norm.backward.column_sums": f"void({_THREE}, {_ONE}, {_ONE})",
    "transpose.*": f"void({_TWO}, {_TWO})",
    "resize.weigh": f"void({_COUNTS}, int64, int64, int32[:, :, :, ::1], {_FOUR})",
    "resize.resize_along": (
        f"void(uint8[:, ::1], {_COUNTS}, int32[:, :, :, ::1], {_FOUR}, {_THREE})"
    ),
    "resize.resize_down": f"void({_THREE}, {_COUNTS}, int32[:, :, :, ::1], {_FOUR}, {_THREE})",
    "image_quality.judge": f"void({_THREE}, {_THREE}, uint8[:, :, ::1], {_THREE})",
    "spectral.layers.layer_norm": f"void({_TWO}, {_ONE}, {_ONE}, {_TWO})",
    "spectral.layers.linear": _LINEAR,
    "spectral.layers.gelu_each": f"void({_TWO}, {_TWO})",
    "spectral.layers.mean_squared_error": f"void({_TWO}, {_TWO}, {_ONE})",
    "convolution.convolve_naive": f"void({_FOUR}, {_FOUR}, {_ONE}, {_FOUR})",
    "convolution.pool_naive": f"void({_FOUR}, {_FOUR})",
    "gemm.gemv.linear_naive": _LINEAR,
    "svd.library.hand_over": (
        f"void({_THREE}, {_THREE}, {_TWO}, {_FLAGS}, float32, {_TWO}, {_THREE}, boolean, {_THREE}, "
        f"boolean, {_FLAGS})"
    ),
    "svd.rotate.*": f"void({_THREE}, {_THREE}, {_ONE}, int32, {_ONE}, {_FLAGS}, {_FLAGS})",
    "svd.blocks.rotate_blocks": _BLOCKS,
    "svd.qr.form_q": f"void({_THREE}, {_FOUR}, {_THREE}, {_FLAGS}, int32, int32)",
    "svd.qr.reflect_rest": f"void({_THREE}, {_THREE}, {_FOUR}, {_FLAGS}, int32, int32)",
    "svd.scaling_sorting.find_scale": f"void({_THREE}, {_ONE}, {_ONE}, {_FLAGS})",
    "svd.scaling_sorting.scale_into": f"void({_THREE}, {_ONE}, {_THREE}, boolean)",
    "svd.scaling_sorting.begin": f"void({_THREE}, {_ONE}, {_ONE}, {', '.join([_FLAGS] * 4)})",
    "svd.scaling_sorting.judge": f"void({_ONE}, {_FLAGS}, {_FLAGS}, {_FLAGS}, int32, {_FLAGS})",
    "svd.scaling_sorting.copy_matrices": f"void({_THREE}, {_THREE}, {_FLAGS}, int32)",
    "svd.scaling_sorting.sort_rows": (
        f"void({_THREE}, {_THREE}, {_ONE}, {_TWO}, {_COUNTS}, {_TWO}, {_TWO}, {_FLAGS}, {_FLAGS})"
    ),
    "svd.scaling_sorting.gather": (
        f"void({_THREE}, {_COUNTS}, {_TWO}, {_THREE}, boolean, {_FLAGS}, int32)"
    ),
    "svd.scaling_sorting.complete": (
        f"void({_THREE}, {_THREE}, {_COUNTS}, {_TWO}, {_FLAGS}, {_THREE}, int32)"
    ),
    "synthetic_images.fill": f"void({_ONE}, uint64, uint64)",
    "training.rng.sample": f"void({_ONE}, {_ONE}, int64[::1], {_ONE}, {_ONE})",
    "training.rng.sample_gradient": f"void({', '.join([_ONE] * 4)})",
    "training.losses.kl_backward": f"void({_ONE}, {_ONE}, float32, {_ONE}, {_ONE})",
    "gemm.float32.bias_added": f"void({_TWO}, {_ONE}, {_TWO})",
    "gemm.float32.bias_backward": f"void({_TWO}, {_ONE})",
    "training.adam.*": f"void({', '.join([_ONE] * 8)})",
    "synthetic_images.digest": "void(uint32[:, ::1], uint64[::1])",
}


@dataclass(frozen=True)
class Case:
    """A kernel to compile; `name` as in `SIGNATURES`, where its types are not `declared`."""

    name: str
    kernel: Any
    declared: Any = None
    capability: tuple[int, int] = (5, 0)
    before: tuple[int, int] = (99, 0)
    suffix: str = ""  # "a" where it takes a target such as sm_90a

    def is_for(self, target: str) -> bool:
        """Whether the kernel is meant for a target."""
        return self.capability <= toolchain.capability(target) < self.before


# --- kernels that are made for shapes of tiles, kinds of factors, functions, stored types ---------


def made() -> Iterator[Case]:
    """All of them, family by family."""
    yield from of_reconstruct()
    yield from of_norm()
    yield from of_activation()
    yield from of_reduce()
    yield from of_losses()
    yield from of_matmul()
    yield from of_softmax()
    yield from of_networks()
    yield from of_vae()
    yield from of_svd()


def of_reconstruct() -> Iterator[Case]:
    """Steps on tiles, for one image and for many, aligned or not; what splits the factors."""
    parts = {(False, False): " (unaligned)", (True, True): " (many)",
             (False, True): " (many, unaligned)", (True, False): ""}  # fmt: skip
    steps = {its: one for its, one in ladder.LADDER.items() if isinstance(one, ladder.TileStep)}
    steps |= ladder.SPLIT | {"tensor cores, thin": ladder.THIN}
    steps["tensor cores before 8.0"] = ladder.OLDER
    for name, step in steps.items():
        before = (8, 0) if step is ladder.OLDER else (99, 0)
        for which, label in parts.items():
            kernel = step.kernels.get(which)
            thin = step is ladder.THIN and which[0]  # whose rows begin at multiples of 16 bytes
            if kernel is not None and (thin or step.kernel is not step.kernels[False, False]):
                yield Case(
                    f"reconstruct: {name}{label}", kernel, of_factors(step.dtype, which[1]),
                    step.capability, before,
                )  # fmt: skip
    for tile in dict.fromkeys((*TILES, *STACK_TILES)):
        for many, kernel in enumerate(ladder.warp_per_tile(tile)):
            u, s = (_THREE, _TWO) if many else (_TWO, _ONE)
            name = f"reconstruct: warp per tile, {', '.join(map(str, map(int, tile)))}"
            kinds = f"void({u}, {s}, {u}, int32, {u}, int32)"
            yield Case(f"{name}{' (many)' * many}", kernel, kinds)
    for kind, kernels in ladder.SPLITTERS.items():
        word, capability = _SPLIT_WORDS[kind], (5, 3) if kind == "float16" else (8, 0)
        for name, kernel in kernels._asdict().items():
            axis = ":, " if name.startswith("many_") else ""
            u, parts = f"float32[{axis}:, ::1]", f"{word}[{axis}:, :, ::1]"
            scale = f"float32[{axis}::1]"
            taken = u if name.endswith("u") else f"{scale}, {u}"
            types = f"void({taken}, int64, {parts}, {scale})"
            yield Case(f"fragments: {kind}, {name}", kernel, types, capability)


def of_factors(kind: str | None, many: bool) -> str:
    """Argument types of a step's kernel, which multiplies factors or fragments of a kind."""
    if kind is None:
        return f"void({_MANY if many else _FACTORS})"
    return f"void({(_MANY_PARTS if many else _PARTS).format(word=_SPLIT_WORDS[kind])})"


#: Lengths of rows, aligned or not, by what is stored: each number of elements a thread once.
NORM_LENGTHS = {
    "float32": (
        (96, True), (768, True), (1000, False), (4096, True), (5000, True), (16_384, True),
        (16_001, False), (32_768, True), (65_536, True), (65_535, False),
    ),
    "float16": ((768, True), (1000, False), (4096, True), (65_536, True)),
    "bfloat16": ((768, True), (1000, False), (4096, True), (65_536, True)),
}  # fmt: skip


def of_norm() -> Iterator[Case]:
    """LayerNorm, for a config and a variant."""
    yield Case("norm: activate, gelu", norm.activate("gelu"), f"void({_TWO})")
    given = f"{_TWO}, {_TWO}, {_ONE}, {_ONE}"
    for function in (None, "gelu"):
        kernels = norm_backward.backward_of_rows, norm_backward.backward_of_columns
        rows, columns = (kernel(function) for kernel in kernels)
        label = "" if function is None else f", {function}"
        yield Case(
            f"norm: backward of rows{label}", rows, f"void({given}, float32, {_TWO}, {_TWO})"
        )
        yield Case(f"norm: backward of columns{label}", columns, f"void({given}, {_TWO}, {_THREE})")
    for kind, lengths in NORM_LENGTHS.items():
        rows, columns, sums = NUMBA_TYPES[kind][:, ::1], NUMBA_TYPES[kind][::1], float32[:, :, ::1]
        types = void(rows, columns, columns, float32, rows)
        back = void(rows, rows, columns, columns, float32, rows, sums)
        for length, aligned in lengths:
            where = f"{length}{'' if aligned else ' unaligned'}, {kind}"
            rows = NormProblem(norm_heuristics.FEW, length, kind, aligned, limits=(0, False))
            step = norm.LADDER[norm.LADDER.best(rows)]
            for function in (None, "gelu") if length in (768, 4096) else ("gelu",):
                name = f"norm: {'rows' if function is None else 'rows, gelu'}, {where}"
                variant = Variant(kind, aligned, activation=function)
                yield Case(name, step.launch(norm_heuristics.FEW, length, variant).kernel, types)
                if aligned and kind == "float32" and length <= norm_heuristics.IN_L2:
                    kernel = step.launch(
                        norm_heuristics.FEW, length, replace(variant, keep_in_l2=True)
                    ).kernel
                    yield Case(f"{name}, kept in L2", kernel, types, (8, 0))
            if length <= norm_heuristics.longest_backward(aligned):
                config = norm_heuristics.backward_config(length, aligned)
                unguarded = config.unguarded(length, aligned)
                for function in (None, "gelu"):
                    variant = Variant(
                        kind, aligned, unguarded, beta=function is not None, activation=function
                    )
                    kernel = backward_registers.backward_in_registers(config, variant, True)
                    label = "" if function is None else f", {function}"
                    yield Case(f"norm: backward{label}, {where}", kernel, back)
            if kind == "float32" and length > norm_heuristics.REGISTERS_ALONE[aligned]:
                variant = Variant(kind, aligned, activation="gelu", shifted=not aligned)
                config = norm_heuristics.split_config(length, 2**18, variant.shifted)
                split = norm_heuristics.split_variant(config, variant, length)
                kernel = long_rows.rows_in_both(config, split)
                yield Case(f"norm: rows in both, gelu, {where}", kernel, types, (8, 0))


def of_activation() -> Iterator[Case]:
    """Activations and their gradients."""
    for name, (forward, backward) in activation.FUNCTIONS.items():
        for stored in NUMBA_TYPES:
            array = NUMBA_TYPES[stored][::1]
            config = activation.config_for(stored, MANY)
            for label, function, types, each in (
                (name, forward, void(array, array), activation.each),
                (f"{name} gradient", backward, void(array, array, array), activation.each_gradient),
            ):
                kernel = activation.wide(function, stored, config, function is backward)
                yield Case(f"activation: {label}, wide, {stored}", kernel, types)
                if stored == "float32":
                    yield Case(f"activation: {label}, each", each(function), types)


def of_reduce() -> Iterator[Case]:
    """Sums and maxima."""
    one_each = {"atomics": reduce.atomics, "tree": reduce.tree, "shuffles": reduce.shuffles}
    shaped = {"several": reduce.several, "last block": reduce.last_block}
    for name, kind in reduce.KINDS.items():
        for label in reduce.LADDER:
            for stored in ("float32", "float16"):
                counter = f"{_ONE}, uint32[::1], " if label == "last block" else ""
                types = f"void({stored}[::1], {counter}{_ONE})"
                about = f"reduce: {name}, {label}, {stored}"
                if label in one_each:
                    yield Case(about, one_each[label](kind), types)
                    continue
                for aligned in (True, False):
                    kernel = shaped[label](kind, reduce.CONFIGS["sm_90"], aligned)
                    yield Case(f"{about}{'' if aligned else ', unaligned'}", kernel, types)


def of_losses() -> Iterator[Case]:
    """A VAE's losses, summed, and the gradient of one; targets may be bytes."""
    for name, function in losses.LOSSES.items():
        for stored in ("float32", "uint8") if name == "bce" else ("float32",):
            scale = 1.0 if stored == "float32" else float(losses.OF_BYTE)
            types = f"void({_ONE}, {stored}[::1], {_ONE})"
            for label, (make, _) in losses.KERNELS.items():
                for more in ((True,), (False,)) if label == "vectorised" else ((),):
                    about = f"losses: {name}, {label}, {stored}{', unaligned' * (more == (False,))}"
                    yield Case(about, make(function, scale, *more), types)
            if name == "bce":
                types = f"void({_ONE}, {stored}[::1], float32, {_ONE})"
                for wide in (False, True):
                    about = f"losses: bce backward, {stored}{', wide' * wide}"
                    yield Case(about, losses.bce_backward(scale, wide), types)


def of_matmul() -> Iterator[Case]:
    """The steps of a product, for each layout."""
    types = f"void({_TWO}, {_TWO}, {_TWO})"
    for layout in matmul.LAYOUTS:
        yield Case(f"matmul: naive, {layout}", matmul.naive(layout), types)
        for name, pad in (("tiled", 0), ("padded", 1)):
            yield Case(f"matmul: {name}, {layout}", matmul.tiled(layout, pad), types)
        for name, wide in (("vectorised", True), ("vectorised, unaligned", False)):
            yield Case(f"matmul: {name}, {layout}", matmul.vectorised(layout, wide), types)
    for name, layout, *sizes in (
        ("tensor_cores", "nt", 128, 400, 784), ("tensor_cores", "nn", 128, 400, 784),
        ("tensor_cores", "tn", 784, 400, 128), ("tensor_cores", "nn", 20, 36, 52),
        ("tensor_cores_tf32", "nt", 128, 784, 400), ("tensor_cores_tf32", "tn", 400, 200, 128),
    ):  # fmt: skip
        kernel, *_ = product_of(layout, *sizes, matmul.TENSOR[name])
        about = f"matmul: {name}, {layout}, {' x '.join(map(str, sizes))}"
        yield Case(about, kernel, f"void({_ONE}, {_ONE}, {_ONE})", (8, 0))


def of_softmax() -> Iterator[Case]:
    """Softmax and its gradient, at some lengths."""
    unaligned = ("float32", "shifted"), ("float32", "single"), ("float16", "shifted")
    for stored, access in (*((word, "aligned") for word in NUMBA_TYPES), *unaligned):
        rows, about = NUMBA_TYPES[stored][:, ::1], f"{stored}, {access}"
        aligned, size = access == "aligned", 4 if stored == "float32" else 2
        types, back = void(rows, rows), void(rows, rows, rows)
        for label, threads in softmax.ONLINE_THREADS.items():
            kernel = softmax.online(stored, threads, aligned)
            yield Case(f"softmax: online, {label}, {about}", kernel, types)
        for columns in (10, 768, softmax_heuristics.LONGEST[aligned]):
            config = softmax_heuristics.config_for(columns, access, size)
            kernel = softmax.registers(stored, config, access, config.unguarded(columns, access))
            yield Case(f"softmax: registers, {columns}, {about}", kernel, types)
            if size == 4:
                full = config.unguarded(columns, access)
                kernel = softmax.registers(stored, config, access, full, True)
                yield Case(f"softmax: registers, {columns}, {about}, kept", kernel, types, (8, 0))
        for columns in (10, 768, softmax_heuristics.BACKWARD_LONGEST[aligned]):
            config = softmax_heuristics.backward_config_for(columns, access, size)
            full = config.unguarded(columns, access)
            kernel = softmax_backward.backward_in_registers(stored, config, access, full)
            yield Case(f"softmax_backward: registers, {columns}, {about}", kernel, back)


def of_networks() -> Iterator[Case]:
    """Layers of the network of digits, all of it in one kernel, and the spectral autoencoder's."""
    fused = f"void({_TWO}, {_ONE}, {_ONE}, {_THREE})"
    for name in ACTIVATIONS:
        for inputs, side in ((1, 8), (16, 4), (1, 28), (16, 14)):
            config = convolution.config_for(side, side)
            kernel = convolution.fused(function_of(name), inputs, side, side, config)
            yield Case(f"convolution: fused, {name}, {inputs} x {side} x {side}", kernel, fused)
        for side in (SIDE, MNIST_SIDE):
            kernel = one_kernel.whole(function_of(name), side)
            yield Case(
                f"cnn: whole, {name}, {side} x {side}", kernel, f"void({_TWO}, {_ONE}, {_TWO})"
            )
    for name in (None, *ACTIVATIONS):
        kernel = gemv.warps(function_of(name))
        yield Case(f"linear: warp, {name or 'no activation'}", kernel, _LINEAR)
    for config in (*network.CONFIGS, *network.FOLDED, *network.FETCHED):
        name = f"spectral: {config.samples} x {config.columns}, {config.groups} groups"
        name += f"{', folded' * config.folded}{'' if config.resident else ', fetched'}"
        yield Case(name, network.kernel_of(config), network.SIGNATURE, config.capability)


def of_vae() -> Iterator[Case]:
    """Both launches of a VAE's training step, in each precision, one of them of awkward widths.

    The one that GPUs from 9.0 on take begins its second launch early, and is for as many
    multiprocessors as an H100 has; with fewer, blocks have several tiles.
    """
    full, awkward = (VAEShape(), 128), (VAEShape(35, 21, 7), 19)
    for precision, (shape, batch) in zip(PRECISIONS, (full, awkward, full), strict=True):
        capability = {"float32": (5, 0), "tf32x3": (9, 0)}.get(precision, (8, 0))
        way = "early" if precision == "tf32x3" else "numbers"
        about = f"{precision}, {shape.pixels} {shape.hidden} {shape.latent}, {batch} a batch"
        first = forward_of(shape, batch, precision, 132 if way == "early" else 40, way)
        second = update_of(shape, batch, precision, first, way)
        yield Case(f"vae: forward, {about}", first.kernel, first.types, capability)
        yield Case(f"vae: update, {about}", second.kernel, second.types, capability)


def of_svd() -> Iterator[Case]:
    """Products, reflections, blocks on tensor cores, and rows in registers."""
    types = f"void({_THREE}, {_THREE}, float32, float32, {_THREE}, {_THREE}, {_FLAGS}, int32)"
    for (transpose_a, transpose_b), kernel in batched.PRODUCTS.items():
        yield Case(
            f"svd: product of a{chr(39) * transpose_a} b{chr(39) * transpose_b}", kernel, types
        )
    types = f"void({_THREE}, {_THREE}, {_FOUR}, {_FLAGS}, int32, int32, int32, int32)"
    for own, kernel in qr.FACTOR.items():
        yield Case(f"svd: reflections, {own} rows a thread", kernel, types)
    for name, kernel in blocks.ROTATE.items():
        yield Case(f"svd: blocks on {name} cores", kernel, _BLOCKS, blocks.CAPABILITY)
    types = (
        f"void({_THREE}, {_THREE}, {_TWO}, {_THREE}, int32, int32, {_ONE}, {_ONE}, {_FLAGS}, "
        f"{_COUNTS})"
    )
    for size, kernel in registers.SVD.items():
        yield Case(f"svd: in registers, {size} columns", kernel, types)
    types = f"void({_THREE}, {_THREE}, {_TWO}, {_THREE}, int32, {_COUNTS})"
    for (size, warps), kernel in one_launch.SVD.items():
        yield Case(f"svd: one launch, {size} columns, {warps} warps", kernel, types)
    sums, squares = "float64[:, :, :, ::1]", "float64[:, :, ::1]"
    for size in registers.SIZES:
        yield Case(f"svd: Gram, {size} columns", gram.GRAM[size],
                   f"void({_THREE}, boolean, {sums})")  # fmt: skip
        yield Case(f"svd: elimination, {size} columns", gram.ELIMINATE[size][0],
                   f"void({sums}, int32, {_THREE}, {squares}, {_ONE}, {_FLAGS})")  # fmt: skip
        for out, name in ((squares, "to multiply by"), (_THREE, "of a")):
            types = f"void({_THREE}, boolean, {squares}, {out}, boolean)"
            yield Case(f"svd: product {name}, {size} columns", gram.PRODUCT[size], types)
