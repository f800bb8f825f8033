"""Normalise long rows, step 10: the blocks of a cluster share a row, and keep it in registers.

As a block's warps merge their counts, means and squares, so do a cluster's blocks. A row is read
once, however long it is, and few rows keep more multiprocessors busy than there are rows.
"""

from dataclasses import replace

from course.kernels.norm.first_steps import Made, NormProblem, RowConfig, Variant, fused
from course.kernels.norm.registers import rows_in_registers
from course.kernels.steps import ceil_div, hopper_refusal, round_up, row_limit

THREADS = 1024  # of a block
BLOCKS = (2, 4, 8)  # of a row
MOST_ELEMENTS = {True: 32, False: 16}  # of a thread, by alignment


def cluster_config(columns: int, aligned: bool) -> RowConfig:
    """The config for rows of a length: as few blocks a row as hold it."""
    blocks = next(n for n in BLOCKS if n * THREADS * MOST_ELEMENTS[aligned] >= columns)
    elements = round_up(ceil_div(columns, blocks * THREADS), 4)
    return RowConfig(THREADS, 1, elements, blocks=blocks)


_too_long = row_limit(lambda aligned: BLOCKS[-1] * THREADS * MOST_ELEMENTS[aligned])


def _refusal(problem: NormProblem) -> str:
    if too_long := _too_long(problem):
        return too_long
    if not problem.shared_limit[1]:  # that of a GPU before compute capability 8.0
        return "needs compute capability 9.0"
    return hopper_refusal()


def _launch(rows: int, columns: int, variant: Variant) -> Made:
    config = cluster_config(columns, variant.aligned)
    unguarded = config.unguarded(columns, variant.aligned)
    variant = replace(variant, unguarded=unguarded, keep_in_l2=False)
    return Made(rows_in_registers(config, variant), rows * config.blocks, config.threads)


#: The step of `course.kernels.norm.ladder.LADDER`.
CLUSTERS = fused(_launch, _refusal)
