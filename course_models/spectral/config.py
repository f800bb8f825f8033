"""The configs of the fused spectral autoencoder: work of a lane, a group of warps and a block."""

from __future__ import annotations

from dataclasses import dataclass

from course_models.spectral.data import FRAMES, POINTS
from course_models.spectral.weights import BASIS_PITCH, BIASES, CODE, PACKED, PACKED_FOLDED

SAMPLE = POINTS + 16  # row pitch of spectra in shared memory, in elements
CODE_PITCH = CODE + 4  # row pitch of codes
HALF_BASIS = CODE // 2 * BASIS_PITCH  # the largest part that a block fetches at a time
STATIC_LIMIT = 48 * 1024  # bytes of shared memory that every kernel may have


@dataclass(frozen=True)
class FusedConfig:
    """The parameters that are tuned for a GPU and a batch.

    Attributes
    ----------
    samples : int
        Spectra for which a lane has results: 1, 2, 4 or 8.
    columns : int
        Results that a lane has of each spectrum: 2, 4 or 8; 2 only with resident weights.
    groups : int
        Groups of five warps in a block; they share the weights.
    resident : bool
        Keep all weights in shared memory; needs asynchronous copies (compute capability 8.0).
    max_registers : int
        Registers of a thread, at most.
    folded : bool
        Take folded weights, see `Weights.packed`; only with resident weights.
    """

    samples: int = 4
    columns: int = 8
    groups: int = 1
    resident: bool = True
    max_registers: int = 128
    folded: bool = False

    def __post_init__(self):
        if self.columns not in (2, 4, 8) or self.samples not in (1, 2, 4, 8) or self.groups < 1:
            raise ValueError(
                f"samples, columns, groups are {self.samples}, {self.columns}, {self.groups}; "
                "samples must be 1, 2, 4 or 8, columns 2, 4 or 8, groups 1 or more"
            )
        if self.columns == 2 and not self.resident:
            raise ValueError("columns is 2: only with resident weights; choose 4 or 8")
        if self.folded and not self.resident:
            raise ValueError("folded weights must be resident: a part of them is 41 KiB")
        if not self.resident and self.shared_bytes > STATIC_LIMIT:
            raise ValueError(
                f"this shape needs {self.shared_bytes:,} bytes of shared memory, and "
                f"{STATIC_LIMIT:,} is the most without resident weights: take fewer samples"
            )

    @property
    def tile(self) -> int:
        """Spectra of a group's tile."""
        return self.samples * self.columns // 2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups * FRAMES * 32

    @property
    def group_elements(self) -> int:
        """Elements in shared memory for a group: spectra, codes, errors by frame."""
        return self.tile * (SAMPLE + CODE_PITCH) + -(-FRAMES * self.tile // 4) * 4

    @property
    def weight_elements(self) -> int:
        """Elements in shared memory for weights."""
        if self.resident:
            return PACKED_FOLDED if self.folded else PACKED
        return BIASES + HALF_BASIS

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block, dynamic if the weights are resident, else static."""
        return 4 * (self.weight_elements + self.groups * self.group_elements)

    @property
    def dynamic_shared(self) -> int:
        """Bytes of dynamic shared memory, to be given at the launch."""
        return self.shared_bytes if self.resident else 0

    @property
    def capability(self) -> tuple[int, int]:
        """The oldest compute capability that has the instructions."""
        return (8, 0) if self.resident else (5, 0)

    def blocks(self, batch: int, most: int) -> int:
        """Blocks for a batch, `most` at most, so that blocks have nearly equal work."""
        work = -(-batch // (self.tile * self.groups))
        return -(-work // -(-work // most))
