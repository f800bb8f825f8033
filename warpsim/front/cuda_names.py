"""The types of CUDA's own names in a kernel, by the declarations of numba-cuda."""

from collections.abc import Callable

from numba import types

from warpsim.core import fp16, libdevice
from warpsim.core.number_types import NOT_CAST, bfloat16
from warpsim.front.numba_typing import best_signature

#: The type of ``cuda.cg.this_grid()``.
GRID_GROUP = types.Opaque("grid_group")

i4, i8, u4 = types.int32, types.int64, types.uint32

#: Values of the thread: path -> type. All are read as attributes.
VALUES: dict[str, types.Type] = dict.fromkeys(("laneid", "warpsize"), i4) | {
    f"{name}.{axis}": i4
    for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")
    for axis in "xyz"
}

#: The element types of each atomic.
ATOMIC_TYPES: dict[str, tuple[types.Type, ...]] = {
    name: kinds
    for names, kinds in (
        ("add sub max min nanmax nanmin", (types.float64, types.float32, i4, u4, i8, types.uint64)),
        ("and_ or_ xor exch cas compare_and_swap", (i4, u4, i8, types.uint64)),
        ("inc dec", (u4, types.uint64)),
    )
    for name in names.split()
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
        return NOT_CAST[bfloat16]
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


def _no_operands(result: types.Type) -> Callable:
    return lambda: (result, ())


_FLOATS = _one_of((types.float32, types.float64))
#: How few and how many operands each function takes, and the function that gives for their types
#: the result's and those that they are converted to; None, or what is wrong with them, if there is
#: no such call.
FUNCTIONS: dict[str, tuple[int, int, Callable]] = fp16.DECLARED | libdevice.DECLARED | {
    "cg.this_grid": (0, 0, _no_operands(GRID_GROUP)),
    "syncwarp": (0, 1, _nothing), "nanosleep": (1, 1, _nothing),
    "activemask": (0, 0, _no_operands(u4)), "lanemask_lt": (0, 0, _no_operands(u4)),
    "popc": (1, 1, _BITS), "clz": (1, 1, _BITS), "ffs": (1, 1, _ffs),
    "brev": (1, 1, _one_of((u4, types.uint64))),
    "fma": (3, 3, _FLOATS), "cbrt": (1, 1, _FLOATS), "selp": (3, 3, _selp),
    "ballot_sync": (2, 2, _vote(i4)), "match_any_sync": (2, 2, _match(i4)),
    "match_all_sync": (2, 2, _match(types.Tuple((i4, types.boolean)))),
    **{f"{name}_sync": (2, 2, _vote(types.boolean)) for name in ("any", "all", "eq")},
    **{f"shfl{way}_sync": (3, 3, _shuffle) for way in ("", "_up", "_down", "_xor")},
    **{f"syncthreads_{what}": (1, 1, _integer_32) for what in ("count", "and", "or")},
    **{f"threadfence{of}": (0, 0, _nothing) for of in ("", "_block", "_system")},
    "syncthreads": (0, 0, _nothing),
}  # fmt: skip
