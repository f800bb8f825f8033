"""Products of a warpgroup whose first factor is in registers: what another product made.

The registers of a factor are those of `warpsim.ptx.intrinsics.mma_f16`: for 16 deep four words,
and with s the sums of a product of 64 rows (`warpsim.ptx.hopper`), those are

>>> words[4 * j] = pack_f16(s[8 * j], s[8 * j + 1])              # row l // 4
>>> words[4 * j + 1] = pack_f16(s[8 * j + 2], s[8 * j + 3])      # eight rows below
>>> words[4 * j + 2] = pack_f16(s[8 * j + 4], s[8 * j + 5])      # eight columns to the right
>>> words[4 * j + 3] = pack_f16(s[8 * j + 6], s[8 * j + 7])

So no number moves to another lane, and none through memory.
Source: NVIDIA, PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

from llvmlite import ir

from warpsim.ptx.bfloat16 import bfloat16
from warpsim.ptx.fragments import shared_place
from warpsim.ptx.hopper import _literal, _needs_hopper, _tied
from warpsim.ptx.intrinsics import _LONG, _WORD, _piece, u4

__all__ = ["wgmma_rn"]

_FIXED = 1 << 62 | (1024 // 16) << 32 | 1 << 16  # swizzled, eight rows of 128 bytes, one piece
_STEP = 16 * 128 // 16  # bytes of 16 rows, in units of 16


@_piece
def wgmma_rn(typing, sums, words, b, index, depth, keep):
    """``sums = wgmma_rn(sums, words, b, index, depth, keep)``: begin sums + a b, of 64 columns.

    a is in `words`, a local array of uint32; ``b[index]`` is where `depth` rows of 128 bytes begin,
    swizzled; `depth`, a literal, is a multiple of 16. Without `keep` the sums begin at 0.
    """
    _needs_hopper("wgmma_rn")
    deep = _literal("wgmma_rn", depth, 16, 256, 16)

    def generate(context, builder, signature, args):
        kind, count = signature.args[0], len(signature.args[0])
        letters = "bf16" if signature.args[2].dtype == bfloat16 else "f16"
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        given = [(builder.load(builder.gep(data, [_WORD(n)])), "r") for n in range(deep // 4)]
        address, _ = shared_place(context, builder, signature, args, 2)
        start = builder.and_(builder.lshr(address, _WORD(4)), _WORD(0x3FFF))
        given.append((builder.or_(builder.zext(start, _LONG), ir.Constant(_LONG, _FIXED)), "l"))
        given.append((context.cast(builder, args[5], signature.args[5], u4), "r"))
        place = 2 * count + deep // 4
        registers = "{" + ", ".join(f"${n}" for n in range(count)) + "}"
        lines = [
            "{ .reg .pred p; .reg .b64 y;", f"setp.ne.b32 p, ${place + 1}, 0;",
            f"mov.b64 y, ${place};", "wgmma.fence.sync.aligned;",
        ]  # fmt: skip
        for k in range(deep // 16):
            a = ", ".join(f"${2 * count + 4 * k + n}" for n in range(4))
            if k:
                lines.append(f"add.s64 y, y, {_STEP};")
            lines.append(
                f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{letters}.{letters} {registers}, "
                f"{{{a}}}, y, {'1' if k else 'p'}, 1, 1, 1;"
            )
        lines.append("wgmma.commit_group.sync.aligned; }")
        return _tied(builder, context, kind, args[0], "\n".join(lines), given)

    return sums(sums, words, b, index, depth, keep), generate  # each depth is a code of its own
