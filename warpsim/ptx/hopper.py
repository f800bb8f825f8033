"""Hopper's asynchronous instructions: products of four warps, tiles by TMA, barriers, clusters.

==================================  =============================================================
`wgmma_zeros`                       sums to begin with, in the registers of a warpgroup
`wgmma_nt`, `wgmma_nn`, `wgmma_tn`  begin sums + a b, 64 x n, 64 deep, from shared memory
`wgmma_wait`, `wgmma_sums`          wait for such products; wait for all, and have the sums
`spread`                            the sums as a local array
`fence_async`                       what was stored is seen by what runs asynchronously
`mbarrier_init`, `fence_mbarriers`  a barrier in shared memory that also counts bytes
`mbarrier_arrive`, `_expect`        arrive; arrive, and so many bytes will come
`mbarrier_wait`                     until the phase of a parity is over
`named_barrier`                     some warps of a block meet
`tma_load`, `tma_load_multicast`    begin to copy a box of a matrix to shared memory
`tma_store`                         begin to copy one back
`commit_stores`, `wait_stores`      close a group of those; wait until they have read
`cluster`, `cluster_rank`           blocks side by side that reach each other's shared memory
`cluster_barrier`                   their threads meet
`load4_cluster`                     read another block's shared memory
`mbarrier_arrive_at`                arrive at another block's barrier
`setmaxnreg_dec`, `setmaxnreg_inc`  give registers back; take more
==================================  =============================================================

All need compute capability 9.0, and numba-cuda 0.30, which compiles for "sm_90a". A piece is 64
columns of 16 bits, 128 bytes a row, and begins at a multiple of 1,024 bytes; the chunks of 16 bytes
of its row r lie at chunk ^ (r % 8), so a column of chunks meets each bank once, too.
TMA writes pieces like that (`TensorMap`), and wgmma reads them.

Sums of a warpgroup, threads 128 w to 128 w + 127: ``sums[4 j + e]`` of lane l of its warp v is row
16 v + l // 4 + 8 (e // 2), column 8 j + 2 (l % 4) + e % 2.

Source: NVIDIA, PTX ISA, "Asynchronous warpgroup level matrix instructions", "Data movement and
conversion instructions: tensor copy", "Parallel synchronization and communication instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

from warpsim.ptx.bfloat16 import bfloat16
from warpsim.ptx.fragments import done, shared_place
from warpsim.ptx.intrinsics import _FLOAT, _LONG, _WORD, _assembly, _piece, f4, u4

__all__ = [
    "cluster", "cluster_barrier", "cluster_rank", "commit_stores", "fence_async",
    "fence_mbarriers", "load4_cluster", "mbarrier_arrive", "mbarrier_arrive_at", "mbarrier_expect",
    "mbarrier_init", "mbarrier_wait", "named_barrier", "setmaxnreg_dec", "setmaxnreg_inc", "spread",
    "tma_load", "tma_load_multicast", "tma_store", "wait_stores", "wgmma_nn", "wgmma_nt",
    "wgmma_sums", "wgmma_tn", "wgmma_wait", "wgmma_zeros",
]  # fmt: skip

i4 = types.int32
_VOID = ir.VoidType()
DEPTH = 64  # of one call of wgmma_nt and its like: four instructions of 16
PIECE = 64 * 128  # bytes of 64 rows of a piece


def _needs_hopper(name: str) -> None:
    """Refuse a GPU without the instruction; in the simulator none is compiled."""
    from numba.core.targetconfig import ConfigStack

    top = ConfigStack().top_or_none()
    capability = getattr(top, "compute_capability", None)
    if capability and tuple(capability[:2]) != (9, 0):
        raise TypingError(
            f"{name} is an instruction of compute capability 9.0 (H100, H200): choose a method for "
            f"{capability[0]}.{capability[1]}"
        )


def _literal(name: str, value: Any, low: int, high: int, step: int = 1) -> int:
    number = getattr(value, "literal_value", None)
    if number is None or not low <= number <= high or number % step:
        raise TypingError(f"{name} takes a literal from {low} to {high}, in steps of {step}")
    return int(number)


def _void(text: str, *places: int) -> Callable:
    """Code of an instruction that writes no register: its arguments' values as words."""

    def generate(context, builder, signature, args):
        given = []
        for n in places:
            word = context.cast(builder, args[n], signature.args[n], u4)
            given.append((word, "r"))
        _assembly(builder, _VOID, given, text, attributes=("convergent",))
        return done(context)

    return generate


# ---------------------------------------------------------------------- wgmma
def _tied(builder, context, kind, sums, text: str, given: list[tuple[Any, str]]) -> Any:
    """A text of PTX that reads and writes all sums in place: $0... are they."""
    count = len(kind)
    values = [builder.extract_value(sums, e) for e in range(count)]
    letters = ["=f"] * count + [str(e) for e in range(count)] + [c for _, c in given]
    made = ir.LiteralStructType([_FLOAT] * count)
    operands = values + [value for value, _ in given]
    code = ir.InlineAsm(
        ir.FunctionType(made, [value.type for value in operands]), text,
        ",".join([*letters, "~{memory}"]), side_effect=True,
    )  # fmt: skip
    out = builder.call(code, operands, attrs=("convergent",))
    return context.make_tuple(builder, kind, [builder.extract_value(out, e) for e in range(count)])


def _multiply(layout: str) -> Any:
    """Descriptors say: start, bytes to the next piece, bytes to the next eight rows, swizzle."""
    turned = layout == "tn", layout != "nt"  # whether neighbours lie along the sums, not the depth
    # 16 deep: 32 bytes along a swizzled row, or 16 rows of 128 bytes; in units of 16 bytes
    steps = [16 * 128 // 16 if side else 16 * 2 // 16 for side in turned]
    fixed = [1 << 62 | (1024 // 16) << 32 | (PIECE // 16 if side else 1) << 16 for side in turned]

    def generate(context, builder, signature, args):
        kind, array = signature.args[0], signature.args[1]
        count = len(kind)
        letters = "bf16" if array.dtype == bfloat16 else "f16"
        descriptors = []
        for place, bits in zip((1, 3), fixed, strict=True):
            address, _ = shared_place(context, builder, signature, args, place)
            # 18 bits of an address: others, such as a block's rank in a cluster, are other fields
            start = builder.and_(builder.lshr(address, _WORD(4)), _WORD(0x3FFF))
            descriptors.append((builder.or_(builder.zext(start, _LONG), _LONG(bits)), "l"))
        keep = context.cast(builder, args[5], signature.args[5], u4)
        a, b, flag = (f"${2 * count + n}" for n in range(3))
        sums = "{" + ", ".join(f"${n}" for n in range(count)) + "}"
        lines = [
            "{ .reg .pred p; .reg .b64 x, y;", f"setp.ne.b32 p, {flag}, 0;",
            f"mov.b64 x, {a}; mov.b64 y, {b};", "wgmma.fence.sync.aligned;",
        ]  # fmt: skip
        for k in range(DEPTH // 16):
            if k:
                lines.append(f"add.s64 x, x, {steps[0]}; add.s64 y, y, {steps[1]};")
            lines.append(
                f"wgmma.mma_async.sync.aligned.m64n{2 * count}k16.f32.{letters}.{letters} {sums}, "
                f"x, y, {'1' if k else 'p'}, 1, 1, {int(turned[0])}, {int(turned[1])};"
            )
        lines.append("wgmma.commit_group.sync.aligned; }")
        given = [*descriptors, (keep, "r")]
        return _tied(builder, context, kind, args[0], "\n".join(lines), given)

    def typed(typing, sums, a, a_index, b, b_index, keep):
        _needs_hopper(f"wgmma_{layout}")
        if a.dtype not in (types.float16, bfloat16) or b.dtype != a.dtype:
            raise TypingError(
                f"wgmma_{layout} multiplies float16 or bfloat16, both the same, not {a.dtype} and "
                f"{b.dtype}"
            )
        return sums(sums, a, a_index, b, b_index, keep), generate

    typed.__name__ = typed.__qualname__ = f"wgmma_{layout}"
    typed.__doc__ = (
        f"``sums = wgmma_{layout}(sums, a, a_index, b, b_index, keep)``: begin sums + a b."
    )
    return _piece(typed)


#: Begin a product, 64 deep, a group of its own; without `keep` the sums begin at 0. ``a[a_index]``
#: and ``b[b_index]`` are where the tiles begin, in a shared array of float16 or bfloat16: "n" of a
#: and "t" of b: one piece of 64 rows, or as many as sums have columns, 64 deep; otherwise pieces of
#: 64 rows along the depth, one for 64 of the sums' rows or columns, one after another.
wgmma_nt, wgmma_nn, wgmma_tn = (_multiply(layout) for layout in ("nt", "nn", "tn"))


@_piece
def wgmma_zeros(typing, n):
    """``sums = wgmma_zeros(n)``: zeros for n columns, a literal."""
    count = _literal("wgmma_zeros", n, 8, 256, 8) // 2
    kind = types.UniTuple(f4, count)

    def generate(context, builder, signature, args):
        return context.make_tuple(builder, kind, [ir.Constant(_FLOAT, 0.0)] * count)

    return kind(n), generate


@_piece
def wgmma_wait(typing, most):
    """``wgmma_wait(n)``: until at most the newest n products are under way; a literal."""
    return types.none(most), _void(
        f"wgmma.wait_group.sync.aligned {_literal('wgmma_wait', most, 0, 7)};"
    )


@_piece
def wgmma_sums(typing, sums):
    """``sums = wgmma_sums(sums)``: wait for all products; their sums may be read then."""

    def generate(context, builder, signature, args):
        text = "wgmma.wait_group.sync.aligned 0;"
        return _tied(builder, context, signature.args[0], args[0], text, [])

    return sums(sums), generate


@_piece
def spread(typing, array, sums):
    """``spread(array, sums)``: ``array[i] = sums[i]``, a local array of float32."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        for e in range(len(signature.args[1])):
            builder.store(builder.extract_value(args[1], e), builder.gep(data, [_WORD(e)]))
        return done(context)

    return types.none(array, sums), generate


@_piece
def fence_async(typing):
    """``fence_async()``: what this thread stored to shared memory is seen by wgmma and TMA."""
    return types.none(), _void("fence.proxy.async.shared::cta;")


# ---------------------------------------------------------------------- barriers
def _on_barrier(text: str, *numbers: int) -> Callable:
    """Code of an instruction on ``args[0][args[1]]``, $0, and words, $1..."""

    def generate(context, builder, signature, args):
        given = [shared_place(context, builder, signature, args, 0)]
        for n in numbers:
            given.append((context.cast(builder, args[n], signature.args[n], u4), "r"))
        _assembly(builder, _VOID, given, text)
        return done(context)

    return generate


@_piece
def mbarrier_init(typing, barriers, index, count):
    """``mbarrier_init(barriers, i, count)``: a shared uint64 as a barrier; one thread does it."""
    _needs_hopper("mbarrier_init")
    text = "mbarrier.init.shared::cta.b64 [$0], $1;"
    return types.none(barriers, index, count), _on_barrier(text, 2)


@_piece
def fence_mbarriers(typing):
    """``fence_mbarriers()``: new barriers are seen by copies and by the cluster."""
    return types.none(), _void(
        "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;"
    )


@_piece
def mbarrier_arrive(typing, barriers, index):
    """``mbarrier_arrive(barriers, i)``: one of those whose arrival a phase waits for."""
    text = "mbarrier.arrive.shared::cta.b64 _, [$0];"
    return types.none(barriers, index), _on_barrier(text)


@_piece
def mbarrier_expect(typing, barriers, index, size):
    """``mbarrier_expect(barriers, i, bytes)``: arrive; the phase waits for so many bytes, too."""
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    return types.none(barriers, index, size), _on_barrier(text, 2)


@_piece
def mbarrier_arrive_at(typing, barriers, index, rank):
    """``mbarrier_arrive_at(barriers, i, rank)``: arrive there; it hands over no stores."""
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )
    return types.none(barriers, index, rank), _on_barrier(text, 2)


@_piece
def mbarrier_wait(typing, barriers, index, parity):
    """``mbarrier_wait(barriers, i, parity)``: until the phase of that parity is over.

    Phases count from 0; on a new barrier a wait for parity 1 is over at once.
    """
    text = (
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
        "@done bra ready; bra again; ready: }"
    )
    return types.none(barriers, index, parity), _on_barrier(text, 2)


@_piece
def named_barrier(typing, number, threads):
    """``named_barrier(id, threads)``: warps of so many threads in all meet; id from 1 to 15."""
    return types.none(number, threads), _void("bar.sync $0, $1;", 0, 1)


# ---------------------------------------------------------------------- TMA
def _corner(context, builder, signature, args, n: int) -> list[tuple[Any, str]]:
    """Column and row, as the instructions take them, of a tuple (row, column)."""
    parts = cgutils.unpack_tuple(builder, args[n])
    kinds = list(signature.args[n])
    cast = [context.cast(builder, p, k, i4) for p, k in zip(parts, kinds, strict=True)]
    return [(cast[1], "r"), (cast[0], "r")]


def _loader(multicast: bool) -> Callable:
    mask = "{ .reg .b16 mask; cvt.u16.u32 mask, $5; " if multicast else ""
    text = (
        f"{mask}cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        f"{'.multicast::cluster' * multicast} [$0], [$1, {{$2, $3}}], [$4]"
        f"{', mask; }' if multicast else ';'}"
    )

    def generate(context, builder, signature, args):
        to = shared_place(context, builder, signature, args, 0)
        barrier = shared_place(context, builder, signature, args, 4)
        given = [to, (args[2], "l"), *_corner(context, builder, signature, args, 3), barrier]
        if multicast:
            given.append((context.cast(builder, args[6], signature.args[6], u4), "r"))
        _assembly(builder, _VOID, given, text)
        return done(context)

    return generate


@_piece
def tma_load(typing, to, index, tensor, corner, barriers, number):
    """``tma_load(to, index, map, (row, column), barriers, i)``: begin to copy a box.

    Its first element goes to ``to[index]``; what is outside of the matrix becomes 0. All its bytes
    arrive at the barrier. One thread does it.
    """
    _needs_hopper("tma_load")
    return types.none(to, index, tensor, corner, barriers, number), _loader(False)


@_piece
def tma_load_multicast(typing, to, index, tensor, corner, barriers, number, mask):
    """``tma_load_multicast(..., mask)``: the same to each block of the cluster with a bit in mask.

    The bytes arrive at the same place, and at the same barrier, of each.
    """
    _needs_hopper("tma_load_multicast")
    return types.none(to, index, tensor, corner, barriers, number, mask), _loader(True)


@_piece
def tma_store(typing, tensor, corner, source, index):
    """``tma_store(map, (row, column), source, index)``: begin to copy a box from shared memory.

    What is outside of the matrix is dropped. Before it, who wrote the tile calls `fence_async`, and
    a barrier. One thread does it, commits and waits.
    """
    _needs_hopper("tma_store")
    text = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$1, $2}], [$3];"

    def generate(context, builder, signature, args):
        source = shared_place(context, builder, signature, args, 2)
        given = [(args[0], "l"), *_corner(context, builder, signature, args, 1), source]
        _assembly(builder, _VOID, given, text)
        return done(context)

    return types.none(tensor, corner, source, index), generate


@_piece
def commit_stores(typing):
    """``commit_stores()``: the stores begun since the last call are one group."""
    return types.none(), _void("cp.async.bulk.commit_group;")


@_piece
def wait_stores(typing, most):
    """``wait_stores(n)``: until at most the newest n groups have not read their tile; a literal."""
    groups = _literal("wait_stores", most, 0, 7)
    return types.none(most), _void(f"cp.async.bulk.wait_group.read {groups};")


# ---------------------------------------------------------------------- clusters
@_piece
def cluster(typing, n):
    """``cluster(n)``: n blocks side by side along x are one cluster; a literal, in the kernel."""
    _needs_hopper("cluster")
    blocks = _literal("cluster", n, 1, 8)

    def generate(context, builder, signature, args):
        notes = cgutils.get_or_insert_named_metadata(builder.module, "nvvm.annotations")
        for axis, size in (("x", blocks), ("y", 1), ("z", 1)):
            text = ir.MetaDataString(builder.module, f"cluster_dim_{axis}")
            notes.add(builder.module.add_metadata((builder.function, text, _WORD(size))))
        return done(context)

    return types.none(n), generate


@_piece
def cluster_rank(typing):
    """``cluster_rank()``: which block of its cluster this one is."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_WORD, [])
        return builder.call(ir.InlineAsm(kind, "mov.u32 $0, %cluster_ctarank;", "=r"), [])

    return i4(), generate


@_piece
def cluster_barrier(typing):
    """``cluster_barrier()``: all threads of a cluster's blocks meet, and see what was stored.

    Warps are counted, so a warp's lanes come together first: a lane that comes alone would count as
    a warp.
    """
    return types.none(), _void(
        "bar.warp.sync 0xffffffff; barrier.cluster.arrive.release.aligned; "
        "barrier.cluster.wait.acquire.aligned;"
    )


@_piece
def load4_cluster(typing, array, index, rank):
    """``load4_cluster(array, index, rank)``: four float32 of the same array of another block."""
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $4, $5; "
        "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [there]; }"
    )

    def generate(context, builder, signature, args):
        place = shared_place(context, builder, signature, args, 0)
        rank = context.cast(builder, args[2], signature.args[2], u4), "r"
        made = ir.LiteralStructType([_FLOAT] * 4)
        out = _assembly(builder, made, [place, rank], text, "=f,=f,=f,=f", ("readonly",))
        parts = [builder.extract_value(out, e) for e in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(f4, 4)(array, index, rank), generate


# ---------------------------------------------------------------------- registers
@_piece
def setmaxnreg_dec(typing, n):
    """``setmaxnreg_dec(n)``: a warpgroup's threads keep n registers each; a literal."""
    count = _literal("setmaxnreg_dec", n, 24, 256, 8)
    return types.none(n), _void(f"setmaxnreg.dec.sync.aligned.u32 {count};")


@_piece
def setmaxnreg_inc(typing, n):
    """``setmaxnreg_inc(n)``: a warpgroup's threads wait until they have n registers each."""
    count = _literal("setmaxnreg_inc", n, 24, 256, 8)
    return types.none(n), _void(f"setmaxnreg.inc.sync.aligned.u32 {count};")
