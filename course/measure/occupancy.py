"""Occupancy: how many blocks and warps of a kernel a multiprocessor can hold, and what limits it.

Source of the table: NVIDIA, CUDA Programming Guide, "Compute Capabilities" (resident blocks and
threads, registers, shared memory); of the granularities and the rules: ``cuda_occupancy.h``, the
occupancy calculator that NVIDIA ships with the CUDA toolkit. A test compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsim.core.words import wrapped
from warpsim.host import gpus

_KIB = 1024


@dataclass(frozen=True)
class Multiprocessor:
    """What a multiprocessor of one compute capability has; memory in bytes.

    Attributes
    ----------
    shared : int
        Shared memory of a multiprocessor at the largest carveout (with the smallest L1 cache).
    shared_per_block : int
        The most shared memory that a block can ask for.
    reserved_shared : int
        Shared memory that the driver takes for itself beside each block's.
    shared_unit : int
        A block's shared memory is rounded up to a multiple of this.
    """

    threads: int
    blocks: int
    shared: int
    shared_per_block: int
    reserved_shared: int
    shared_unit: int

    registers: int = 65_536
    registers_per_block: int = 65_536
    registers_per_thread: int = 255
    register_unit: int = 256  # a warp's registers are rounded up to a multiple of this
    partitions: int = 4  # each has a quarter of the registers, and whole warps
    threads_per_block: int = 1024
    warp_size: int = 32


def _turing_and_before(threads: int, blocks: int, shared: int) -> Multiprocessor:
    return Multiprocessor(threads, blocks, shared * _KIB, shared * _KIB, 0, 256)


def _ampere_and_later(threads: int, blocks: int, shared: int) -> Multiprocessor:
    return Multiprocessor(threads, blocks, shared * _KIB, (shared - 1) * _KIB, _KIB, 128)


MULTIPROCESSORS = {
    (7, 0): _turing_and_before(2048, 32, 96),
    (7, 5): _turing_and_before(1024, 16, 64),
    (8, 0): _ampere_and_later(2048, 32, 164),
    (8, 6): _ampere_and_later(1536, 16, 100),
    (8, 7): _ampere_and_later(1536, 16, 164),
    (8, 9): _ampere_and_later(1536, 24, 100),
    (9, 0): _ampere_and_later(2048, 32, 228),
    (10, 0): _ampere_and_later(2048, 32, 228),
    (12, 0): _ampere_and_later(1536, 24, 100),
}


@dataclass(frozen=True)
class Occupancy:
    """How full a multiprocessor gets.

    Attributes
    ----------
    gpu : str
        The GPU's name, or ``"compute capability 7.5"``.
    threads, registers, shared_bytes : int
        Of the kernel: threads of a block, registers of a thread, bytes of a block.
    blocks, warps : int
        How many are resident on one multiprocessor at a time; 0 where the kernel cannot start.
    fraction : float
        Resident warps / the most warps that the multiprocessor can hold.
    limits : dict
        How many blocks each resource would allow: ``{"registers": 5, "shared memory": 32,
        "threads": 4, "blocks": 16}``; -1 where the kernel needs none of it.
    """

    gpu: str
    threads: int
    registers: int
    shared_bytes: int
    blocks: int
    warps: int
    fraction: float
    limits: dict[str, int]

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that run out first; several where they tie."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    def __str__(self) -> str:
        reason = " and ".join(self.limited_by)
        if self.blocks == 0:
            return wrapped(
                f"{self.gpu}: no block of {self.threads} threads with {self.registers} registers "
                f"each and {self.shared_bytes:,} bytes of shared memory can start; too much is "
                f"asked of {reason}."
            )
        return (
            f"{self.gpu}: {self.blocks} block{'s' * (self.blocks != 1)} of {self.threads} threads "
            f"on a multiprocessor,\n  {self.warps} warps, {self.fraction:.0%} of what it can hold; "
            f"limited by {reason}."
        )

    __repr__ = __str__


def multiprocessor(gpu: str | tuple[int, int] | gpus.GPU) -> tuple[str, Multiprocessor]:
    """Name and multiprocessor of a GPU ("T4", "H200") or of a compute capability ((7, 5)).

    Raises
    ------
    ValueError
        For a GPU or a compute capability without limits here; the message lists those with.
    """
    if isinstance(gpu, tuple):
        name, capability = f"compute capability {gpu[0]}.{gpu[1]}", gpu
    else:
        model = gpu if isinstance(gpu, gpus.GPU) else gpus.find(gpu)
        name, capability = model.name, model.compute_capability
    if capability not in MULTIPROCESSORS:
        known = ", ".join(f"{major}.{minor}" for major, minor in MULTIPROCESSORS)
        raise ValueError(
            f"no figures for compute capability {'.'.join(map(str, capability))}; known: {known}"
        )
    return name, MULTIPROCESSORS[capability]


def threads_of(block: int | tuple[int, ...]) -> int:
    """Threads of a block's shape; ValueError where a GPU refuses the shape."""
    sizes = block if isinstance(block, tuple | list) else (block,)
    if not 1 <= len(sizes) <= 3 or not all(
        isinstance(n, int) and not isinstance(n, bool) for n in sizes
    ):
        raise ValueError(f"block is {block!r}: give 1 to 3 integers, such as 256 or (16, 16)")
    threads = math.prod(sizes)
    if min(sizes) < 1 or threads > 1024:
        raise ValueError(f"block {block!r} has {threads:,} threads: a block has from 1 to 1,024")
    return threads


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(
    gpu: str | tuple[int, int] | gpus.GPU,
    block: int | tuple[int, ...],
    registers: int,
    shared_bytes: int = 0,
) -> Occupancy:
    """Blocks and warps that one multiprocessor holds, by NVIDIA's rules.

    Registers are given to whole warps, in units of 256, and each quarter of the multiprocessor has
    a quarter of them; shared memory is given to blocks, in units of 256 bytes (128 from compute
    capability 8.0, with 1 KiB more for the driver).

    Parameters
    ----------
    gpu : str, tuple or GPU
        "T4", "H200", ... or a compute capability such as (7, 5).
    block : int or tuple
        Threads of a block, or its shape.
    registers : int
        Of a thread, as the compiler gives it.
    shared_bytes : int
        Of a block, static and dynamic together.

    Raises
    ------
    ValueError
        For an unknown GPU, a block that cannot be, or negative amounts.
    """
    name, has = multiprocessor(gpu)
    threads = threads_of(block)
    if registers < 0 or shared_bytes < 0:
        raise ValueError(f"registers ({registers}) and shared_bytes ({shared_bytes}) are negative")
    warps_per_block = -(-threads // has.warp_size)
    most_warps = has.threads // has.warp_size
    limits = {
        "registers": _by_registers(has, warps_per_block, registers),
        "shared memory": _by_shared(has, shared_bytes),
        "threads": most_warps // warps_per_block,
        "blocks": has.blocks,
    }
    blocks = min(limit for limit in limits.values() if limit >= 0)
    warps = blocks * warps_per_block
    return Occupancy(
        name, threads, registers, shared_bytes, blocks, warps, warps / most_warps, limits
    )


def _by_registers(has: Multiprocessor, warps_per_block: int, registers: int) -> int:
    if registers == 0:
        return -1
    per_warp = _up(registers * has.warp_size, has.register_unit)
    # The driver checks a launch as if each partition got the same number of warps.
    if registers > has.registers_per_thread or (
        per_warp * _up(warps_per_block, has.partitions) > has.registers_per_block
    ):
        return 0
    warps = has.registers // has.partitions // per_warp * has.partitions
    return warps // warps_per_block


def _by_shared(has: Multiprocessor, shared_bytes: int) -> int:
    needed = _up(shared_bytes + has.reserved_shared, has.shared_unit)
    if needed == 0:
        return -1
    if needed > has.shared_per_block + has.reserved_shared:
        return 0
    return has.shared // needed
