"""Faults of numba-cuda-mlir 0.6.0 (July 2026), mended in the loaded package; no other version.

``upstream.md`` beside this file says what each is. Tensor maps by value, which it passes as 8
bytes, are words here: `facade.NewTensorMapType`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numba_cuda_mlir import cuda, decorators, mlir_lowering, mlir_optimization, tools
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import arith, gpu, llvm, memref
from numba_cuda_mlir._mlir.extras import types as T
from numba_cuda_mlir.extending import lowering_registry, refresh_registries
from numba_cuda_mlir.lowering import cuda as cuda_lowering
from numba_cuda_mlir.lowering import numpy as numpy_lowering
from numba_cuda_mlir.lowering_utilities import (
    coerce_numpy_scalars_for_binary_op,
    context,
    convert,
)
from numba_cuda_mlir.mlir.util import find_ops
from numba_cuda_mlir.numba_cuda import stubs
from numba_cuda_mlir.numba_cuda.cudadrv.nvvm import CompilationUnit, LibDevice
from numba_cuda_mlir.numba_cuda.types import BaseTuple, Number

from course.successor import facade

#: Inline PTX of the translator, as functions that LLVM knows; and what MLIR cannot say.
_SAID_BETTER = {
    rb'asm "mov.u32 \$0, %(n?(?:cta|t)id)\.(.);", "=r"': rb"@llvm.nvvm.read.ptx.sreg.\1.\2",
    rb'asm sideeffect "bar.sync 0;", ""': rb"@llvm.nvvm.barrier0",
    rb"emissionKind: ,": rb"emissionKind: DebugDirectivesOnly,",  # LLVM 7 has no name for it
    # by an instruction: of neighbours libNVVM rounds or widens several at once, and refuses that
    rb"%(\d+) = fptrunc float ([^\s,]+) to half":
        rb'%h\1 = call i16 asm "cvt.rn.f16.f32 $0, $1;", "=h,f"(float \2)'
        rb"\n  %\1 = bitcast i16 %h\1 to half",
    rb"%(\d+) = fpext half ([^\s,]+) to float":
        rb"%h\1 = bitcast half \2 to i16"
        rb'\n  %\1 = call float asm "cvt.f32.f16 $0, $1;", "=f,h"(i16 %h\1)',
    # what the launch gives, behind all static arrays, at a multiple of 1,024
    rb"(@__dynamic_shmem\S* =).*( addrspace\(3\) global \[.*?\]).*": rb"\1 external\2, align 1024",
}  # fmt: skip
#: What ``fastmath`` makes of functions and divisions, as numba-cuda has it.
_FAST = {
    rb"call (?:fast )?float @__nv_((?:cos|sin|tan|exp|log|log2|log10|pow)f)\b":
        rb"call float @__nv_fast_\1",
    rb"call (?:fast )?float @__nv_tanhf\b": rb'call float asm "tanh.approx.f32 $0, $1;", "=f,f"',
    rb"fdiv (?:fast )?float ([^\s,]+), ([^\s,]+)":
        rb"call float @__nv_fast_fdividef(float \1, float \2)",
}  # fmt: skip
#: What both name, and is declared.
_ASKED_FOR = rb"@llvm\.nvvm\.(?:read|barrier0)[.\w]*|@__nv_fast_\w+"
_FENCES = {"threadfence_block": "cta", "threadfence": "gl", "threadfence_system": "sys"}


def mend() -> None:
    """Mend the loaded package, which is of that version."""
    _local_arrays()
    _comparisons()
    _fences()
    _shared_in_functions()
    _rows()
    _large_constants()
    _bfloat16()
    _code()
    _functions()
    _linking()
    _options()
    _target()


def _local_arrays() -> None:
    """What has a size that is known is allocated once, when the function begins, as an array."""
    original = mlir_optimization.run_pre_codegen_patterns

    def patterns(module: Any) -> None:
        original(module)
        for function in find_ops(module, lambda one: isinstance(one, llvm.LLVMFuncOp)):
            if function.body.blocks:
                hoist(function)

    def hoist(function: Any) -> None:
        first = function.body.blocks[0].operations[0]
        with ir.InsertionPoint(first), first.location:
            one = llvm.mlir_constant(ir.IntegerAttr.get(T.i64(), 1))
        for made in find_ops(function, lambda one: isinstance(one, llvm.AllocaOp)):
            size = made.operation.operands[0].owner
            if size.name == "llvm.mlir.constant":
                elements = ir.IntegerAttr(size.attributes["value"]).value
                if elements > 1:
                    kind = ir.Type.parse(f"!llvm.array<{elements} x {made.elem_type.value}>")
                    made.attributes["elem_type"] = ir.TypeAttr.get(kind)
                made.operation.operands[0] = one
                made.operation.move_before(first.operation)

    mlir_optimization.run_pre_codegen_patterns = patterns
    pipeline = mlir_optimization.get_base_pipeline
    # numbers are no memory before blocks that store to one variable or another are joined
    first = "builtin.module(gpu.module(any(mem2reg)), "
    mlir_optimization.get_base_pipeline = lambda: pipeline().replace("builtin.module(", first)


def _contiguous(made: Any) -> None:
    """Neighbours of a C-contiguous array, a kernel's argument, are one element from each other."""
    kinds = list(_flat(made.fndesc.argtypes))
    module = made.metadata["mlir_module"]
    for kernel in find_ops(module, lambda one: isinstance(one, gpu.GPUFuncOp)):
        block = kernel.body.blocks[0]
        if len(kinds) != len(block.arguments):
            continue
        with ir.InsertionPoint.at_block_begin(block), kernel.location:
            zero, one = (arith.constant(T.index(), number) for number in (0, 1))
            for kind, array in zip(kinds, block.arguments, strict=True):
                if getattr(kind, "layout", "") == "C" and kind.ndim:
                    base, _, *rest = memref.extract_strided_metadata(array)
                    sizes, strides = rest[: kind.ndim], [*rest[kind.ndim : -1], one]
                    whole = _viewed(array, base, zero, sizes, strides)
                    array.replace_all_uses_except(whole, base.owner.operation)


def _flat(kinds: Any) -> Iterator[Any]:
    for kind in kinds:
        yield from _flat(kind) if isinstance(kind, BaseTuple) else (kind,)


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


def _viewed(array: Any, base: Any, start: Any, sizes: list, strides: list) -> Any:
    """The memory of an array as one of other sizes."""
    free = ir.ShapedType.get_dynamic_stride_or_offset()
    free_size = [ir.ShapedType.get_dynamic_size()] * len(sizes)
    layout = ir.StridedLayoutAttr.get(free, [free] * len(sizes))
    kind = ir.MemRefType.get(free_size, array.type.element_type, layout, array.type.memory_space)
    return memref.ReinterpretCastOp(
        kind, base, [start], sizes, strides, [free], free_size, [free] * len(sizes)
    ).result


def _rows() -> None:
    """A view is a pointer's worth of the array, with sizes and strides of its own."""

    def view(array: Any, offsets: list, sizes: list, strides: list, dropped: list[bool]) -> Any:
        base, start, *rest = memref.extract_strided_metadata(array)
        offsets, sizes, strides = (
            [convert(one, T.index()) for one in many] for many in (offsets, sizes, strides)
        )
        rank = len(dropped)
        steps = rest[rank:]
        for offset, step in zip(offsets, steps, strict=True):
            start = arith.addi(start, arith.muli(offset, step))
        kept = [axis for axis in range(rank) if not dropped[axis]]
        its = [arith.muli(steps[axis], strides[axis]) for axis in kept]
        return _viewed(array, base, start, [sizes[axis] for axis in kept], its)

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
        order = llvm.AtomicOrdering.monotonic
        changed = llvm.atomicrmw(compared[kind], *place_and_value(array, indices, value), order)
        return builder.store_var(target, changed)

    def wrapping(builder: Any, target: Any, array: Any, *its: Any) -> None:
        """`inc` and `dec`, which it makes of compare and swap."""
        *given, body = its
        name = "inc" if body is cuda_lowering.cuda_atomic_inc_body_builder else "dec"
        text, constraints = f"atom.{name}.u32 $0, [$1], $2;", "=r,l,r,~{memory}"
        operands, kind = place_and_value(array, *given), array.type.element_type
        changed = llvm.inline_asm(kind, operands, text, constraints, has_side_effects=True)
        builder.store_var(target, changed)

    def place_and_value(array: Any, indices: Any, value: Any) -> list[Any]:
        kind, places = array.type.element_type, list(map(cuda_lowering.index_of, indices))
        return [cuda_lowering.memref_to_llvm_ptr(array, places, kind), convert(value, kind)]

    cuda_lowering.cuda_atomic_cg = atomic
    cuda_lowering.cuda_generic_atomic_cg = wrapping
    compare, ordered = arith.cmpf, arith.CmpFPredicate.ONE

    def cmpf(how: Any, a: Any, b: Any, **named: Any) -> Any:
        return compare(arith.CmpFPredicate.UNE if how == ordered else how, a, b, **named)

    arith.cmpf = cmpf
    for function, *its in (
        (min, arith.CmpFPredicate.OLT, arith.minsi, arith.minui),
        (max, arith.CmpFPredicate.OGT, arith.maxsi, arith.maxui),
    ):
        lowering_registry.lower(function, Number, Number)(lowered(*its))


def _bfloat16() -> None:
    narrower = arith.truncf

    def truncf(out: Any, in_: Any, **named: Any) -> Any:
        is_rounded = in_.type == T.f32() and out == T.bf16()
        return facade.rounded(in_) if is_rounded else narrower(out, in_, **named)

    arith.truncf = truncf


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
        text: bytes = original(module, options, gen_llvmir=True)
        for old, new in (_SAID_BETTER | (_FAST if options.get("fastmath") else {})).items():
            text = re.sub(old, new, text)
        if b"define ptx_kernel" in text:  # device functions that are inlined are not compiled
            text = re.sub(rb"\ndefine (?!ptx_kernel)", rb"\ndefine internal ", text)
        for name in sorted(set(re.findall(_ASKED_FOR, text))):
            if not re.search(rb"declare .*" + name + rb"\(", text):
                kind, given = re.search(rb"call (\w+) " + name + rb"\((.*?)\)", text).groups()
                its = b", ".join(re.findall(rb"\bfloat\b", given))
                text += b"\ndeclare %s %s(%s)" % (kind, name, its)
        if blocks := re.search(r"nvvm\.cluster_dim = array<i32: (\d)", str(module)):
            sizes = zip("xyz", (int(blocks[1]), 1, 1), strict=True)
            notes = ["", *(f'!"cluster_dim_{axis}", i32 {size}' for axis, size in sizes)]
            text = re.sub(rb'(!"kernel", i32 1)', rb"\1" + ", ".join(notes).encode(), text)
        if gen_llvmir:
            return text
        chosen = mlir_optimization._nvvm_options(options["chip"].removeprefix("sm_"), options)
        unit = CompilationUnit(chosen | ({"gen-lto": None} if gen_lto else {}))
        unit.add_module(text)
        unit.lazy_add_module(LibDevice().get())
        code: bytes = unit.compile()
        return code

    mlir_optimization._call_llvm70_capi = compiled


def _functions() -> None:
    """The functions of instructions, which a module calls, are given to libNVVM with it."""
    original = CompilationUnit.add_module

    def add_module(self: Any, code: bytes) -> None:
        original(self, code)
        names = sorted(set(re.findall(r"course_\d{10}", code.decode("latin-1"))))
        version = ", ".join(f"i32 {one}" for one in self.driver.get_ir_version())
        head = (
            'target triple = "nvptx64-nvidia-cuda"',
            "!nvvmir.version = !{!0}",
            f"!0 = !{{{version}}}",
        )
        text = "\n".join([*head, *(facade.FUNCTIONS[name] for name in names)])
        if any(one.startswith(b"-arch=compute_1") for one in self.options):  # with a newer LLVM
            text = re.sub(r"\b(?:i\d+|half|float|double)( addrspace\(\d\))?\*", r"ptr\1", text)
        original(self, text.encode())

    CompilationUnit.add_module = add_module


def _linking() -> None:
    original = mlir_optimization.optimize

    def optimize(made: Any, *arguments: Any, **named: Any) -> Any:
        plan = made.metadata.get("link_plan")
        text = mlir_lowering.get_mlir_module_str(made.metadata)
        with context.get_context():
            _contiguous(made)
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
