"""LayerNorm fused with GELU for rows of 64 to 65,536 numbers, beside its peers.

Arrays have the same size for every length. Some lengths are the last that a kernel's config takes,
others lie between these. Odd lengths give unaligned rows, which cannot be loaded by fours.
"""

from course_recording.subjects.norm import compare, inputs

NUMBERS = 2**26
LENGTHS = (
    64, 100, 128, 256, 384, 768, 1000, 1023, 2048, 4096, 4099, 5000, 8192, 12_001, 12_288, 16_384,
    20_000, 20_001, 24_576, 32_768, 40_000, 40_001, 50_000, 65_535, 65_536,
)  # fmt: skip


def run(bench):
    """Check and time the kernel that is chosen for each length, and the peers."""
    for columns in bench.parts(LENGTHS):
        compare(bench, inputs(bench, NUMBERS // columns, columns), "gelu", ("auto",))
