"""Faults of numba-cuda-mlir 0.6.0 (July 2026), mended when this is imported; no other version.

``upstream.md`` beside this file says what each fault is. numba-cuda-mlir passes a tensor map by
value as 8 bytes; here it is 24 words of 8 bytes, see `facade.NewTensorMapType`.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
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
from numba_cuda_mlir.lowering_utilities import coerce_numpy_scalars_for_binary_op, context, convert
from numba_cuda_mlir.mlir.util import find_ops
from numba_cuda_mlir.numba_cuda import stubs
from numba_cuda_mlir.numba_cuda.cudadrv.nvvm import CompilationUnit, LibDevice
from numba_cuda_mlir.numba_cuda.types import BaseTuple, Number

from course.successor import facade

#: Replacements in LLVM IR: LLVM's intrinsics for inline PTX, and what MLIR cannot express.
_SAID_BETTER = {
    rb'asm "mov.u32 \$0, %(n?(?:cta|t)id)\.(.);", "=r"': rb"@llvm.nvvm.read.ptx.sreg.\1.\2",
    rb'asm sideeffect "bar.sync 0;", ""': rb"@llvm.nvvm.barrier0",
    rb"emissionKind: ,": rb"emissionKind: DebugDirectivesOnly,",  # LLVM 7 has no name for it
    # inline PTX: libNVVM joins conversions of neighbours into one operation, and refuses that one
    rb"%(\d+) = fptrunc float ([^\s,]+) to half":
        rb'%h\1 = call i16 asm "cvt.rn.f16.f32 $0, $1;", "=h,f"(float \2)'
        rb"\n  %\1 = bitcast i16 %h\1 to half",
    rb"%(\d+) = fpext half ([^\s,]+) to float":
        rb"%h\1 = bitcast half \2 to i16"
        rb'\n  %\1 = call float asm "cvt.f32.f16 $0, $1;", "=f,h"(i16 %h\1)',
    rb"fcmp (fast )?one ": rb"fcmp \1une ",  # NaN is not equal to itself
    # dynamic shared memory: sized by the launch, after all static arrays, aligned to 1,024 bytes
    rb"(@__dynamic_shmem\S* =).*( addrspace\(3\) global \[.*?\]).*": rb"\1 external\2, align 1024",
}  # fmt: skip
#: Further replacements with ``fastmath``: fast functions and divisions, as in numba-cuda.
_FAST = {
    rb"call (?:fast )?float @__nv_((?:cos|sin|tan|exp|log|log2|log10|pow)f)\b":
        rb"call float @__nv_fast_\1",
    rb"call (?:fast )?float @__nv_tanhf\b": rb'call float asm "tanh.approx.f32 $0, $1;", "=f,f"',
    rb"fdiv (?:fast )?float ([^\s,]+), ([^\s,]+)":
        rb"call float @__nv_fast_fdividef(float \1, float \2)",
}  # fmt: skip
#: Functions that both tables call; the LLVM IR must declare them.
_ASKED_FOR = rb"@llvm\.nvvm\.(?:read|barrier0)[.\w]*|@__nv_fast_\w+"
_FENCES = {"threadfence_block": "cta", "threadfence": "gl", "threadfence_system": "sys"}
_UNSIGNED = {cuda.atomic.min: llvm.AtomicBinOp.umin, cuda.atomic.max: llvm.AtomicBinOp.umax}


def _in_place_of(owner: Any, name: str) -> Callable:
    """Replace a function of `owner`; the new one gets the old one as its first argument."""

    def take(new: Callable) -> Callable:
        old = getattr(owner, name)

        @functools.wraps(old)
        def made(*given: Any, **named: Any) -> Any:
            return new(old, *given, **named)

        setattr(owner, name, made)
        return new

    return take


# --- arrays ---------------------------------------------------------------------------------------


@_in_place_of(mlir_optimization, "run_pre_codegen_patterns")
def _local_arrays(old: Callable, module: Any) -> None:
    """Allocate arrays of constant size once, in the function's first block (fault 21)."""
    old(module)
    for function in find_ops(module, lambda one: isinstance(one, llvm.LLVMFuncOp)):
        if function.body.blocks:
            _hoist(function)


def _hoist(function: Any) -> None:
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


@_in_place_of(mlir_optimization, "get_base_pipeline")
def _numbers(old: Callable) -> str:
    """Promote scalars to registers (mem2reg) before MLIR joins blocks that store to them (21)."""
    return old().replace("builtin.module(", "builtin.module(gpu.module(any(mem2reg)), ")


@_in_place_of(mlir_optimization, "optimize")
def _contiguous(old: Callable, made: Any) -> Any:
    """The last stride of a C-contiguous kernel argument is constant 1, its offset 0 (fault 22).

    And kernels with dynamic shared memory are linked with LTO (fault 9).
    """
    plan = made.metadata.get("link_plan")
    text = mlir_lowering.get_mlir_module_str(made.metadata)
    if plan is not None and not plan.lto_explicit and "dynamic_shared_memory" in text:
        made.metadata["link_plan"] = replace(plan, compile_new_inputs_as_ltoir=True)
    kinds = list(_flat(made.fndesc.argtypes))
    module = made.metadata["mlir_module"]
    with context.get_context():
        for kernel in find_ops(module, lambda one: isinstance(one, gpu.GPUFuncOp)):
            block = kernel.body.blocks[0]
            if len(kinds) == len(block.arguments):
                with ir.InsertionPoint.at_block_begin(block), kernel.location:
                    _one_apart(kinds, block.arguments)
    return old(made)


def _one_apart(kinds: list[Any], arguments: Any) -> None:
    zero, one = (arith.constant(T.index(), number) for number in (0, 1))
    for kind, array in zip(kinds, arguments, strict=True):
        if getattr(kind, "layout", "") == "C" and kind.ndim:
            base, _, *rest = memref.extract_strided_metadata(array)
            sizes, strides = rest[: kind.ndim], [*rest[kind.ndim : -1], one]
            whole = _viewed(array, base, zero, sizes, strides)
            array.replace_all_uses_except(whole, base.owner.operation)


def _flat(kinds: Any) -> Iterator[Any]:
    for kind in kinds:
        yield from _flat(kind) if isinstance(kind, BaseTuple) else (kind,)


def _viewed(array: Any, base: Any, start: Any, sizes: list, strides: list) -> Any:
    """A view of an array's memory, with another start, sizes and strides."""
    free = ir.ShapedType.get_dynamic_stride_or_offset()
    free_size = [ir.ShapedType.get_dynamic_size()] * len(sizes)
    layout = ir.StridedLayoutAttr.get(free, [free] * len(sizes))
    kind = ir.MemRefType.get(free_size, array.type.element_type, layout, array.type.memory_space)
    return memref.ReinterpretCastOp(
        kind, base, [start], sizes, strides, [free], free_size, [free] * len(sizes)
    ).result


@_in_place_of(numpy_lowering, "_rank_reducing_subview")
def _rows(old: Callable, array: Any, *given: list) -> Any:
    """A view has the array's base pointer, and an offset, sizes and strides of its own."""
    base, start, *rest = memref.extract_strided_metadata(array)
    offsets, sizes, strides = ([convert(one, T.index()) for one in many] for many in given[:3])
    dropped = given[3]
    steps = rest[len(dropped) :]
    for offset, step in zip(offsets, steps, strict=True):
        start = arith.addi(start, arith.muli(offset, step))
    kept = [axis for axis, gone in enumerate(dropped) if not gone]
    its = [arith.muli(steps[axis], strides[axis]) for axis in kept]
    return _viewed(array, base, start, [sizes[axis] for axis in kept], its)


def _shared_in_functions() -> None:
    """Copy a device function's shared arrays, too, to the caller's module (fault 2)."""
    name = "build_user_defined_function_call"
    function = getattr(mlir_lowering.MLIRLower, name)
    space = {**function.__globals__, "memref": memref}
    text = textwrap.dedent(inspect.getsource(function))
    text = text.replace("llvm.GlobalOp)", "llvm.GlobalOp, memref.GlobalOp)")
    exec(compile(text, function.__code__.co_filename, "exec"), space)
    setattr(mlir_lowering.MLIRLower, name, space[name])


_shared_in_functions()


# --- operations -----------------------------------------------------------------------------------


def _fence(level: str, builder: Any, target: Any, *given: Any) -> None:
    llvm.inline_asm(None, [], f"membar.{level};", "~{memory}", has_side_effects=True)
    builder.store_var(target, None)


def _compared(
    of_floats: Any, signed: Any, unsigned: Any, builder: Any, target: Any, args: Any, kwargs: Any
) -> None:
    """`min` or `max` as in Numba: NaN in `a` stays; also of sizes and unsigned integers."""
    a, b = coerce_numpy_scalars_for_binary_op(*map(builder.load_var, args))
    if isinstance(a.type, ir.FloatType):
        found = arith.select(arith.cmpf(of_floats, b, a), b, a)
    else:
        found = (signed if builder.get_numba_type(target.name).signed else unsigned)(a, b)
    builder.store_var(target, found)


for _name, _level in _FENCES.items():
    lowering_registry.lower(getattr(stubs, _name))(functools.partial(_fence, _level))
for _function, *_its in (
    (min, arith.CmpFPredicate.OLT, arith.minsi, arith.minui),
    (max, arith.CmpFPredicate.OGT, arith.maxsi, arith.maxui),
):
    lowering_registry.lower(_function, Number, Number)(functools.partial(_compared, *_its))
refresh_registries()


@_in_place_of(cuda_lowering, "cuda_atomic_cg")
def _unsigned(old: Callable, kind: Any, builder: Any, target: Any, *its: Any) -> None:
    """Atomic `min` and `max` of unsigned integers."""
    if kind not in _UNSIGNED or getattr(builder.get_numba_type(target.name), "signed", True):
        old(kind, builder, target, *its)
    else:
        order = llvm.AtomicOrdering.monotonic
        changed = llvm.atomicrmw(_UNSIGNED[kind], *_place_and_value(*its), order)
        builder.store_var(target, changed)


@_in_place_of(cuda_lowering, "cuda_generic_atomic_cg")
def _wrapping(old: Callable, builder: Any, target: Any, *its: Any) -> None:
    """Atomic `inc` and `dec` by one instruction instead of a loop of compare-and-swap."""
    *its, body = its
    name = "inc" if body is cuda_lowering.cuda_atomic_inc_body_builder else "dec"
    text, constraints = f"atom.{name}.u32 $0, [$1], $2;", "=r,l,r,~{memory}"
    operands, kind = _place_and_value(*its), its[0].type.element_type
    changed = llvm.inline_asm(kind, operands, text, constraints, has_side_effects=True)
    builder.store_var(target, changed)


def _place_and_value(array: Any, indices: Any, value: Any) -> list[Any]:
    kind, places = array.type.element_type, list(map(cuda_lowering.index_of, indices))
    return [cuda_lowering.memref_to_llvm_ptr(array, places, kind), convert(value, kind)]


@_in_place_of(arith, "truncf")
def _bfloat16(old: Callable, out: Any, in_: Any, **named: Any) -> Any:
    is_rounded = in_.type == T.f32() and out == T.bf16()
    return facade.rounded(in_) if is_rounded else old(out, in_, **named)


@_in_place_of(arith.ConstantOp, "__init__")
def _large(old: Callable, self: Any, result: Any, value: Any, **named: Any) -> None:
    if isinstance(value, int | np.integer) and value >= 2**63:
        value = int(value) - 2**64
    old(self, result, value, **named)


# --- what is compiled -----------------------------------------------------------------------------


@_in_place_of(mlir_optimization, "_call_llvm70_capi")
def _code(
    old: Callable, module: Any, options: dict, gen_lto: bool = False, gen_llvmir: bool = False
) -> bytes:
    """Correct the LLVM IR of MLIR's translator; compile it with all of libNVVM's options."""
    text: bytes = old(module, options, gen_llvmir=True)
    for old, new in (_SAID_BETTER | (_FAST if options.get("fastmath") else {})).items():
        text = re.sub(old, new, text)
    if b"define ptx_kernel" in text:  # internal: inlined device functions are not compiled again
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


@_in_place_of(CompilationUnit, "add_module")
def _functions(old: Callable, self: Any, code: bytes) -> None:
    """Give libNVVM a module together with the instructions' functions that the module calls."""
    old(self, code)
    names = sorted(set(re.findall(r"course_\d{10}", code.decode("latin-1"))))
    version = ", ".join(f"i32 {one}" for one in self.driver.get_ir_version())
    head = 'target triple = "nvptx64-nvidia-cuda"', "!nvvmir.version = !{!0}"
    text = "\n".join([*head, f"!0 = !{{{version}}}", *(facade.FUNCTIONS[name] for name in names)])
    if any(one.startswith(b"-arch=compute_1") for one in self.options):  # LLVM with opaque pointers
        text = re.sub(r"\b(?:i\d+|half|float|double)( addrspace\(\d\))?\*", r"ptr\1", text)
    old(self, text.encode())


@_in_place_of(decorators, "verify_target_options")
def _options(old: Callable, given: dict[str, Any]) -> dict[str, Any]:
    """An option that is None counts as not given (fault 12)."""
    return old({name: one for name, one in given.items() if one is not None})


@_in_place_of(tools, "resolve_target_options")
def _target(old: Callable, options: dict[str, Any]) -> dict[str, Any]:
    """Compile for sm_90a on GPUs of compute capability 9.0: wgmma needs it (fault 8)."""
    is_given = options.get("chip") is not None
    old(options)
    if not is_given and options["chip"] == "sm_90":
        options["chip"] = "sm_90a"
    return options
