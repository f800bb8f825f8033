"""Faults of numba-cuda-mlir 0.6.0 (July 2026), mended in the loaded package; no other version.

=====================  ==========================================================================
dynamic shared memory  a variable of one byte: static arrays lie behind it, in what the launch
                       gives (upstream's issues 312 and 263)
shared arrays of a     not taken along into the module of the kernel that calls it
device function
memory fences          `cuda.threadfence` and its like have types and no code
rows of a view         are given strides that MLIR's verifier refuses
constants from 2^63    are no number of 64 bits there: "std::bad_cast"
min, max               of two sizes of arrays: "not implemented for type index"; unsigned numbers
                       are compared as if they had a sign, by atomics, too; NaN is passed over
!=                     of NaN is false, so ``x != x`` finds none
bfloat16               is rounded without an instruction, and NaN becomes -0
float16                of several neighbours is rounded, or widened, at once, by what libNVVM
                       refuses: "unsupported operation"
fastmath, clusters     are not said to libNVVM below compute capability 10.0: precise divisions and
                       roots, denormals; a block that is in no cluster runs a cluster's instructions
options                that are None, such as ``max_registers``, are refused
target                 kernels are compiled for sm_90 on a GPU of 9.0, which lacks wgmma: sm_90a
linking                is not optimised, and nvJitLink of CUDA 13.0 then forgets how dynamic shared
                       memory is aligned: TMA finds a "misaligned address" (CUDA 716). A kernel with
                       such memory is optimised when it is linked, unless it says ``lto=False``
=====================  ==========================================================================

Tensor maps by value, which it passes as 8 bytes, are words here: `facade.NewTensorMapType`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
from numba_cuda_mlir import cuda, decorators, mlir_lowering, mlir_optimization, tools
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import arith, llvm, memref
from numba_cuda_mlir._mlir.extras import types as T
from numba_cuda_mlir.extending import lowering_registry, refresh_registries
from numba_cuda_mlir.lowering import cuda as cuda_lowering
from numba_cuda_mlir.lowering import numpy as numpy_lowering
from numba_cuda_mlir.lowering_utilities import coerce_numpy_scalars_for_binary_op, convert
from numba_cuda_mlir.numba_cuda import stubs
from numba_cuda_mlir.numba_cuda.cudadrv.nvvm import CompilationUnit, LibDevice
from numba_cuda_mlir.numba_cuda.types import Number

from course.successor import facade

_FENCES = {"threadfence_block": "cta", "threadfence": "gl", "threadfence_system": "sys"}


def mend() -> None:
    """Mend the loaded package, which is of that version."""
    _dynamic_memory()
    _comparisons()
    _fences()
    _shared_in_functions()
    _rows()
    _large_constants()
    _float16()
    _code()
    _linking()
    _options()
    _target()


def _dynamic_memory() -> None:
    """It is what the launch gives, behind all static arrays, and lies at a multiple of 1,024."""
    original = mlir_optimization.run_pre_codegen_patterns
    external = "#llvm.linkage<external>"

    def walk(operation: Any) -> None:
        for one in (o for region in operation.regions for b in region.blocks for o in b.operations):
            if isinstance(one, llvm.GlobalOp) and "__dynamic_shmem" in one.sym_name.value:
                one.attributes["linkage"] = ir.Attribute.parse(external)
                long = ir.IntegerType.get_signless(64)
                one.attributes["alignment"] = ir.IntegerAttr.get(long, 1024)
            walk(one.operation)

    def patterns(module: Any) -> Any:
        walk(module.operation)
        return original(module)

    mlir_optimization.run_pre_codegen_patterns = patterns


def _fences() -> None:
    for name, level in _FENCES.items():

        def lower(builder: Any, target: Any, args: Any, kwargs: Any, level: str = level) -> None:
            llvm.inline_asm(None, [], f"membar.{level};", "~{memory}", has_side_effects=True)
            builder.store_var(target, None)

        lowering_registry.lower(getattr(stubs, name))(lower)
    refresh_registries()


def _shared_in_functions() -> None:
    """What a device function's module has is copied to the caller's: its shared arrays, too."""
    name = "build_user_defined_function_call"
    function = getattr(mlir_lowering.MLIRLower, name)
    space = {**function.__globals__, "memref": memref}
    text = textwrap.dedent(inspect.getsource(function))
    text = text.replace("llvm.GlobalOp)", "llvm.GlobalOp, memref.GlobalOp)")
    exec(compile(text, function.__code__.co_filename, "exec"), space)
    setattr(mlir_lowering.MLIRLower, name, space[name])


def _rows() -> None:
    """A view is a pointer's worth of the array, with sizes and strides of its own."""

    def view(array: Any, offsets: list, sizes: list, strides: list, dropped: list[bool]) -> Any:
        kind, free = array.type, ir.ShapedType.get_dynamic_stride_or_offset()
        base, start, *rest = memref.extract_strided_metadata(array)
        offsets, sizes, strides = (
            [convert(one, T.index()) for one in many] for many in (offsets, sizes, strides)
        )
        steps = rest[kind.rank :]
        for offset, step in zip(offsets, steps, strict=True):
            start = arith.addi(start, arith.muli(offset, step))
        kept = [axis for axis in range(kind.rank) if not dropped[axis]]
        free_size = [ir.ShapedType.get_dynamic_size()] * len(kept)
        layout = ir.StridedLayoutAttr.get(free, [free] * len(kept))
        return memref.ReinterpretCastOp(
            ir.MemRefType.get(free_size, kind.element_type, layout, kind.memory_space), base,
            [start], [sizes[axis] for axis in kept],
            [arith.muli(steps[axis], strides[axis]) for axis in kept],
            [free], free_size, [free] * len(kept),
        ).result  # fmt: skip

    numpy_lowering._rank_reducing_subview = view


def _comparisons() -> None:
    """Of NaN the first, as Numba has it; sizes of arrays, and numbers without a sign."""

    def lowered(of_floats: Any, signed: Any, unsigned: Any) -> Any:
        def lower(builder: Any, target: Any, args: Any, kwargs: Any) -> None:
            a, b = coerce_numpy_scalars_for_binary_op(*map(builder.load_var, args))
            if isinstance(a.type, ir.FloatType):
                builder.store_var(target, arith.select(arith.cmpf(of_floats, b, a), b, a))
            else:
                kind = builder.get_numba_type(target.name)
                builder.store_var(target, (signed if kind.signed else unsigned)(a, b))

        return lower

    compared = {
        cuda.atomic.min: llvm.AtomicBinOp.umin, cuda.atomic.max: llvm.AtomicBinOp.umax,
        cuda.atomic.nanmin: llvm.AtomicBinOp.umin, cuda.atomic.nanmax: llvm.AtomicBinOp.umax,
    }  # fmt: skip
    original = cuda_lowering.cuda_atomic_cg

    def atomic(kind: Any, builder: Any, target: Any, array: Any, indices: Any, value: Any) -> None:
        if kind not in compared or getattr(builder.get_numba_type(target.name), "signed", True):
            return original(kind, builder, target, array, indices, value)
        element, order = array.type.element_type, llvm.AtomicOrdering.monotonic
        indices = list(map(cuda_lowering.index_of, indices))
        place = cuda_lowering.memref_to_llvm_ptr(array, indices, element)
        changed = llvm.atomicrmw(compared[kind], place, convert(value, element), order)
        return builder.store_var(target, changed)

    cuda_lowering.cuda_atomic_cg = atomic
    compare, ordered = arith.cmpf, arith.CmpFPredicate.ONE

    def cmpf(how: Any, a: Any, b: Any, **named: Any) -> Any:
        return compare(arith.CmpFPredicate.UNE if how == ordered else how, a, b, **named)

    arith.cmpf = cmpf
    for function, *its in (
        (min, arith.CmpFPredicate.OLT, arith.minsi, arith.minui),
        (max, arith.CmpFPredicate.OGT, arith.maxsi, arith.maxui),
    ):
        lowering_registry.lower(function, Number, Number)(lowered(*its))


def _float16() -> None:
    """A float32 is rounded, a float16 widened by an instruction: libNVVM makes none of several."""
    narrower, wider = arith.truncf, arith.extf

    def truncf(out: Any, in_: Any, **named: Any) -> Any:
        if out == T.bf16() and in_.type == T.f32():
            return facade.rounded(in_)
        if out != T.f16() or in_.type != T.f32():
            return narrower(out, in_, **named)
        text, constraints = "cvt.rn.f16.f32 $0, $1;", "=h,f"
        bits = llvm.inline_asm(T.i16(), [in_], text, constraints, has_side_effects=False)
        return llvm.bitcast(out, bits)

    def extf(out: Any, in_: Any, **named: Any) -> Any:
        if out != T.f32() or in_.type != T.f16():
            return wider(out, in_, **named)
        text, constraints = "cvt.f32.f16 $0, $1;", "=f,h"
        bits = llvm.bitcast(T.i16(), in_)
        return llvm.inline_asm(out, [bits], text, constraints, has_side_effects=False)

    arith.truncf, arith.extf = truncf, extf


def _large_constants() -> None:
    original = arith.ConstantOp.__init__

    def __init__(self: Any, result: Any, value: Any, **named: Any) -> None:
        if isinstance(value, int | np.integer) and value >= 2**63:
            value = int(value) - 2**64
        original(self, result, value, **named)

    arith.ConstantOp.__init__ = __init__


def _code() -> None:
    """What it translates to LLVM's language is given to libNVVM with all options and notes."""
    original = mlir_optimization._call_llvm70_capi

    def compiled(
        module: Any, options: dict[str, Any], gen_lto: bool = False, gen_llvmir: bool = False
    ) -> bytes:
        blocks = re.search(r"nvvm\.cluster_dim = array<i32: (\d)", str(module))
        if gen_llvmir or not (options.get("fastmath") or blocks):
            return original(module, options, gen_lto, gen_llvmir)
        target = options["chip"].removeprefix("sm_")
        chosen = mlir_optimization._nvvm_options(target, options)
        unit = CompilationUnit(chosen | ({"gen-lto": None} if gen_lto else {}))
        text: bytes = original(module, options, gen_llvmir=True)
        if blocks:
            sizes = zip("xyz", (int(blocks[1]), 1, 1), strict=True)
            notes = ["", *(f'!"cluster_dim_{axis}", i32 {size}' for axis, size in sizes)]
            text = re.sub(rb'(!"kernel", i32 1)', rb"\1" + ", ".join(notes).encode(), text)
        unit.add_module(text)
        unit.lazy_add_module(LibDevice().get())
        code: bytes = unit.compile()
        return code

    mlir_optimization._call_llvm70_capi = compiled


def _linking() -> None:
    original = mlir_optimization.optimize

    def optimize(made: Any, *arguments: Any, **named: Any) -> Any:
        plan = made.metadata.get("link_plan")
        text = mlir_lowering.get_mlir_module_str(made.metadata)
        if plan is not None and not plan.lto_explicit and "dynamic_shared_memory" in text:
            made.metadata["link_plan"] = replace(plan, compile_new_inputs_as_ltoir=True)
        return original(made, *arguments, **named)

    mlir_optimization.optimize = optimize


def _options() -> None:
    """What is None is not given."""
    original = decorators.verify_target_options

    def verify_target_options(given: dict[str, Any]) -> dict[str, Any]:
        return original({name: one for name, one in given.items() if one is not None})

    decorators.verify_target_options = verify_target_options


def _target() -> None:
    """What is compiled for a GPU of 9.0 may use all of it."""
    original = tools.resolve_gpu_target

    def resolve_target_options(options: dict[str, Any]) -> dict[str, Any]:
        chip = original(options)["chip"]
        given = options.get("chip")
        options["chip"] = "sm_90a" if given is None and chip == "sm_90" else chip
        return options

    tools.resolve_target_options = resolve_target_options
