"""What to do about a finding, said only where doing it to the letter leads on.

A guard cures an index that counts threads, where a launch has more of them than there are elements.
Any other index that is too large is wrong itself: then the message says by how much, and where the
array ends. Padding cures the conflicts of a warp that goes down the rows of a shared array, if rows
so padded have fewer; that is computed from the example that a trace keeps of each access.
"""

import ast
import math
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.watch.counts import passes

AXES = "xyz"
_PLAIN = ("shared", "load"), ("shared", "store")  # accesses with banks to look at
DYNAMIC = (
    "dynamic shared memory has the bytes that the launch gives, the fourth number in "
    "kernel[grid, block, stream, bytes], or trace's dynamic_shared"
)


# ---------------------------------------------------------------------- an index out of bounds
def bounds_cure(state, array, name: str, axis: int, values, outside, size: int, op: str) -> str:
    """What to do about an index, spelled ``name``, out of bounds along an axis of that size.

    Its values, and which are outside, are those of each lane.
    """
    space = array.root.space
    if size == 0 and space == "shared":
        return DYNAMIC
    if values[outside].min() < 0:
        return f"`{name}` is negative; the first index is 0"
    by, most = int(values[outside].max()) - size + 1, f"the last index is {size - 1}"
    excess = f"{'one' if by == 1 else f'{by:,}'} too large"
    if (values[outside] != size - 1 + by).any():
        excess = f"up to {excess}"
    if size == 0:
        most = f"{array.name} is empty"
    if space in ("shared", "local"):
        return _in_a_tile(state, array, name, axis, values, f"{excess}: {most}")
    # an atomic at the thread's own index is none that a guard would mend: it races with none
    counted = None if op == "atomic" else _counted(state, name, values, size)
    if counted is None:
        return f"`{name}` is {excess}: {most}"
    along, one_by_one = counted
    if one_by_one and (better := _other_axis(state, array, axis, along)):
        return f"`{name}` {better}"
    within = f"{name} < {limit(array, axis)}"
    branch = state.mask.count < state.root.count
    if by == 1 and branch:
        return f"`{name}` is one too large here: let only `{within}` come here"
    if branch and outside[state.mask.active].all():  # a guard would let nobody come here
        return f"`{name}` is {excess} for all that come here: {most}"
    # of a condition on this very index those left out have more
    left_out = state.root.active & ~state.mask.active
    if branch and values[left_out].min() > values[state.mask.active].max():
        return (
            f"`{name}` is {excess}: the condition above it lets in all up to "
            f"{int(values[outside].max())}, and {most}"
        )
    return f"guard it with `if {within}:`"


def wide_cure(array: Any, name: str, axis: int, largest: int, more: int, size: int) -> str:
    """The same of an access to an element, at ``largest``, and ``more`` after it."""
    if array.root.space == "global":
        within = f"{name} + {more} < {limit(array, axis)}"
        return f"guard it with `if {within}:`, and take what is left over one by one"
    last = f"the last {more + 1} begin at {size - more - 1}"
    return f"{array.name} has {_shape(array)} elements, and `{name}` is {largest}; {last}"


def _shape(array: Any) -> str:
    return " x ".join(map(str, array.root.shape))


def limit(array: Any, axis: int) -> str:
    """How a guard spells the size of an array: ``x.size``, or ``x.shape[1]``."""
    return f"{array.name}.size" if array.ndim == 1 else f"{array.name}.shape[{axis}]"


def _counted(state: Any, name: str, values: ndarray, size: int) -> tuple[int, bool] | None:
    """The axis of the launch whose threads an index counts, or groups of them; and if one by one.

    None, too, where a guard would only hide the fault: a loop has passed over elements, or groups
    are so small that whole blocks are too many.
    """
    if not name.isidentifier() and not name.startswith("cuda."):
        return None  # a sum or a product may need another test
    active, geometry = state.mask.active, state.geometry
    mine = values[active]
    for axis, block in enumerate(geometry.block_shape):
        threads = geometry.grid_shape[axis] * block
        own = np.broadcast_to(np.asarray(geometry.indices[axis]), active.shape)[active]
        for group in sorted({1, *(2**power for power in range(1, 11)), block}):
            number = own // group
            begin = int(mine[0] - number[0])  # a loop by the whole grid may have gone on
            last_of_loop = group == 1 and len(mine) == 1 < threads
            if begin and not last_of_loop and (number == number[0]).all():
                continue  # it is the same for all, and counts nothing
            if begin < 0 or begin % -(-threads // group) or (mine - number != begin).any():
                continue
            blocks_too_many = 1 < group != block and threads - size * group >= block
            passed_over = begin > 0 and mine.min() > size
            return None if blocks_too_many or passed_over else (axis, group == 1 and begin == 0)
    return None


def _other_axis(state: Any, array: Any, axis: int, counted: int) -> str | None:
    """Words for an index along an axis of the launch that another axis of the array has made."""
    geometry = state.geometry
    if any(isinstance(size, ndarray) for size in array.shape):
        return None
    block = geometry.block_shape[counted]
    threads = geometry.grid_shape[counted] * block
    covered = [0 <= threads - size < block for size in array.shape]
    if covered[axis] or not any(covered):
        return None
    return (
        f"counts the threads along {AXES[counted]}, which are as many as axis "
        f"{covered.index(True)} of {array.name} needs: does it belong there? "
        "(cuda.grid gives x first)"
    )


def _in_a_tile(state: Any, array: Any, name: str, axis: int, values: ndarray, excess: str) -> str:
    space = array.root.space
    whose = "each block's" if space == "shared" else "each thread's"
    tile = f"{whose} {array.name} has {_shape(array)} elements"
    active, geometry = state.mask.active, state.geometry
    several = space == "shared" and math.prod(geometry.grid_shape) > 1
    for along in range(3) if several else ():
        inside, index = geometry.threadIdx[along], geometry.index(along)
        own, whole = (np.broadcast_to(np.asarray(i), active.shape) for i in (inside, index))
        fits = int(own[active].max()) < array.shape[axis]
        if fits and np.array_equal(values[active], whole[active]):
            return (
                f"{tile}, and `{name}` counts the threads of the whole grid: index it with "
                f"cuda.threadIdx.{AXES[along]}"
            )
    return f"{tile}, and `{name}` is {excess}"


# ---------------------------------------------------------------------- two that race
#: What goes between two accesses that race: lanes of one warp, or any threads of a block.
BARRIERS = {
    "block": "put cuda.syncthreads() between the two",
    "warp": "put cuda.syncwarp() between the two, as all who meet are lanes of one warp; or hand "
    "the value on by a shuffle",
}


def barrier_cure(state: Any, in_warp: bool) -> str:
    """Which barrier goes between two accesses that race.

    That of the warp is enough where nobody in the launch races but lanes of one, of several warps.
    """
    found = state.launch.findings
    if in_warp and state.padded > 32:
        if not any(BARRIERS["block"] in finding.message for finding in found.values()):
            return BARRIERS["warp"]
    for key, finding in found.items():
        message = finding.message.replace(BARRIERS["warp"], BARRIERS["block"])
        found[key] = replace(finding, message=message)
    return BARRIERS["block"]


#: Updates that cuda.atomic has.
_ATOMICS = {
    ast.Add: "add", ast.Sub: "sub", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
}  # fmt: skip


def update_cure(code: str, name: str, same_block: bool) -> str:
    """What to do about threads that race in the update ``code`` of an array of that name."""
    node = ast.parse(code).body[0]
    loads = (part for part in ast.walk(node.value) if isinstance(part, ast.Subscript))
    if any(ast.unparse(part.value) == name for part in loads):
        if same_block:
            return (
                "all must have read before anybody writes, and the other way round: read into a "
                "variable, cuda.syncthreads(), write, cuda.syncthreads(); or read from one array "
                "and write to another, with one barrier in between"
            )
        return "read from one array and write to another: blocks cannot wait for each other"
    atomic = _ATOMICS.get(type(node.op))
    use = f"use cuda.atomic.{atomic}, or give" if atomic else "no atomic does this: give"
    return (
        "reading, changing and writing are three steps, and updates get lost: "
        f"{use} each thread its own element"
    )


# ---------------------------------------------------------------------- lanes at one bank
def conflict_cure(samples: dict, site: Any, op: str) -> str:
    """How the lanes of a warp come to touch different banks, by the ``samples`` of a trace."""
    own = samples.get((site, "shared", op))
    order = f"let neighbouring lanes take neighbouring elements of {site.array}"
    if own is None or len(own.shape) < 2 or own.order != "C":
        return order
    array = attrgetter("address", "shape", "pitch", "order")
    plain = (one for (_, space, kind), one in samples.items() if (space, kind) in _PLAIN)
    same = [sample for sample in plain if array(sample) == array(own)]
    step = max(sample.size // own.pitch for sample in same)  # a wide access begins at a multiple
    pad = next((n for n in (step, 2 * step, 4 * step) if _is_cured(own, same, n)), 0)
    if not pad:
        return order
    return f"pad its rows by {'one element' if pad == 1 else f'{pad} elements'}"


def _is_cured(own: Any, same: Iterable[Any], pad: int) -> bool:
    """Whether rows longer by so many elements cure one access, and make none of them slower."""
    if _passes(own, pad) > len(own.groups):
        return False
    return all(
        _passes(sample, pad) <= max(_passes(sample, 0), len(sample.groups)) for sample in same
    )


def _passes(sample: Any, pad: int) -> int:
    """Wavefronts of the example if the rows of its array were longer by so many elements."""
    moved = sample.elements + sample.elements // sample.shape[-1] * pad
    return int(passes(moved * sample.pitch // 4, sample.active, sample.size).sum())
