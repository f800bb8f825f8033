"""The types of CUDA's own names in a kernel, by the declarations of numba-cuda."""

from __future__ import annotations

from collections.abc import Callable

from numba import types

from warpsim.core import fp16, libdevice
from warpsim.core.number_types import BFLOAT16_CASTS, bfloat16
from warpsim.front.numba_typing import best_signature

#: The type of ``cuda.cg.this_grid()``.
GRID_GROUP = types.Opaque("grid_group")

i4, i8, u4 = types.int32, types.int64, types.uint32

#: Values of the thread: path -> type. All are read as attributes.
VALUES: dict[str, types.Type] = {
    **{
        f"{name}.{axis}": i4
        for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")
        for axis in "xyz"
    },
    "laneid": i4,
    "warpsize": i4,
}

ATOMICS = {
    "add": "number", "sub": "number", "max": "number", "min": "number", "nanmax": "number",
    "nanmin": "number", "and_": "integer", "or_": "integer", "xor": "integer",
    "inc": "unsigned", "dec": "unsigned", "exch": "integer", "cas": "integer",
    "compare_and_swap": "integer",
}  # fmt: skip
ATOMIC_TYPES = {
    "number": (types.float64, types.float32, i4, u4, i8, types.uint64),
    "integer": (i4, u4, i8, types.uint64),
    "unsigned": (u4, types.uint64),
}


def _integer_32(value):
    return (i4, (i4,)) if isinstance(value, types.Integer) else None


def _one_of(kinds: tuple[types.Type, ...]) -> Callable:
    """A function that is declared for several types; Numba takes the one that fits best."""

    def signature(*arguments):
        chosen = best_signature(tuple((kind,) * len(arguments) for kind in kinds), arguments)
        if chosen is None:
            return None
        return kinds[chosen], (kinds[chosen],) * len(arguments)

    return signature


_BITS = _one_of((types.int8, types.int16, i4, i8, types.uint8, types.uint16, u4, types.uint64))


def _ffs(value):
    found = _BITS(value)
    if found is None or found[0].bitwidth < 32:
        return f"No definition for lowering ffs({found and found[0]},) -> uint32"
    return u4, found[1]


def _selp(test, a, b):
    if bfloat16 in (a, b):
        return BFLOAT16_CASTS
    wide = isinstance(a, types.Integer | types.Float) and a.bitwidth > 8 and a != types.float16
    wide = wide and isinstance(test, types.Boolean)
    return (a, (test, a, a)) if a == b and wide else None


def _has_32_bits(value) -> bool:
    """Is it a whole number of at least 32 bits? Numba's code for warps cuts it off there."""
    return isinstance(value, types.Integer) and value.bitwidth >= 32


def _shuffle(mask, value, lane):
    if value not in (i4, i8, types.float32, types.float64):
        return None
    if not _has_32_bits(mask) or not _has_32_bits(lane):
        return f"mask and lane of a shuffle have 32 bits or more, not {mask} and {lane}: int64(...)"
    return value, (types.int64, value, i4)


def _vote(result):
    def signature(mask, predicate):
        if not isinstance(mask, types.Integer):
            return f"Mask type must be an integer. Got {mask}"
        if not _has_32_bits(mask):
            return f"a mask has 32 bits or more. Got {mask}: write int64(...)"
        if not isinstance(predicate, types.Integer | types.Boolean):
            return f"Predicate must be an integer or boolean. Got {predicate}"
        return result, (types.int64, types.boolean)

    return signature


_MATCHED = (i4, i8, types.float32, types.float64)


def _match(result):
    def signature(mask, value):
        chosen = best_signature(tuple((i4, kind) for kind in _MATCHED), (mask, value))
        return None if chosen is None else (result, (types.int64, _MATCHED[chosen]))

    return signature


def _nothing(*arguments):
    return types.none, arguments


#: Functions: path -> (operand types -> (result type, types the operands are converted to)); None or
#: what is wrong with the types if there is no such call.
FUNCTIONS: dict[str, Callable] = {
    "cg.this_grid": lambda: (GRID_GROUP, ()),
    "syncthreads": _nothing,
    "syncthreads_count": _integer_32,
    "syncthreads_and": _integer_32,
    "syncthreads_or": _integer_32,
    "syncwarp": _nothing,
    "threadfence": _nothing,
    "threadfence_block": _nothing,
    "threadfence_system": _nothing,
    "nanosleep": _nothing,
    "activemask": lambda: (u4, ()),
    "lanemask_lt": lambda: (u4, ()),
    "popc": _BITS,
    "clz": _BITS,
    "ffs": _ffs,
    "brev": _one_of((u4, types.uint64)),
    "fma": _one_of((types.float32, types.float64)),
    "cbrt": _one_of((types.float32, types.float64)),
    "selp": _selp,
    "shfl_sync": _shuffle,
    "shfl_up_sync": _shuffle,
    "shfl_down_sync": _shuffle,
    "shfl_xor_sync": _shuffle,
    "any_sync": _vote(types.boolean),
    "all_sync": _vote(types.boolean),
    "eq_sync": _vote(types.boolean),
    "ballot_sync": _vote(i4),
    "match_any_sync": _match(i4),
    "match_all_sync": _match(types.Tuple((i4, types.boolean))),
    **fp16.TYPES,
    **libdevice.TYPES,
}

ARITY = {
    "cg.this_grid": (0, 0),
    "syncthreads": (0, 0), "syncthreads_count": (1, 1), "syncthreads_and": (1, 1),
    "syncthreads_or": (1, 1), "syncwarp": (0, 1), "threadfence": (0, 0),
    "threadfence_block": (0, 0), "threadfence_system": (0, 0), "nanosleep": (1, 1),
    "activemask": (0, 0), "lanemask_lt": (0, 0), "popc": (1, 1), "clz": (1, 1), "ffs": (1, 1),
    "brev": (1, 1), "fma": (3, 3), "cbrt": (1, 1), "selp": (3, 3), "shfl_sync": (3, 3),
    "shfl_up_sync": (3, 3), "shfl_down_sync": (3, 3), "shfl_xor_sync": (3, 3), "any_sync": (2, 2),
    "all_sync": (2, 2), "eq_sync": (2, 2), "ballot_sync": (2, 2), "match_any_sync": (2, 2),
    "match_all_sync": (2, 2), **fp16.ARITY, **libdevice.ARITY,
}  # fmt: skip
