"""Read a GPU's counters of TMA and tensor cores for the ladder of products of float16.

Run ``python -m course_recording.profiling.role_counters data/measurements/<gpu>-role_counters.csv``
on a machine with compute capability 9.0 and Nsight Compute; ``--launch`` is the profiled process.
The file's test compares the simulator's counts with it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from course.files import table_text, write_whole
from course.kernels.gemm.half import LADDER_ONLY, gemm
from course_recording.profiling import nsight
from course_recording.profiling.hardware_counters import COLUMNS
from course_recording.profiling.nsight import CountersNotRead, number_in

MODULE = "course_recording.profiling.role_counters"

#: Nsight Compute's names of the compared counters; all are sums over the GPU.
COUNTERS = {
    "tma_loads": "smsp__inst_executed_op_tma_ld.sum",
    "tma_stores": "smsp__inst_executed_op_tma_st.sum",
    "tma_load_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld_dest_self.sum",
    "tma_store_sectors": "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum",
    "copy_sectors":
        "sm__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass.sum",
    "tensor_operations": "sm__ops_path_tensor_src_fp16.sum",
    "wgmma": "sm__sass_inst_executed_op_shared_gmma.sum",
    "wgmma_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "wgmma_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
    "mma": "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "ldmatrix_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "bank_reads": "l1tex__data_bank_reads.sum",
    "bank_writes": "l1tex__data_bank_writes.sum",
}  # fmt: skip
#: Rows, columns and depth: whole tiles, and tiles that go past the matrices' edges.
SHAPES = ((256, 512, 512), (200, 264, 328))
METHODS = ("plain", "roles", *LADDER_ONLY)
CASES = [(method, *shape) for method in METHODS for shape in SHAPES]


def prepared(method: str, rows: int, columns: int, depth: int) -> tuple[Any, tuple]:
    """A kernel, ready to be called, and its arguments, on the device."""
    from course import cuda

    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((rows, depth), (columns, depth)))
    out = cuda.to_device(np.zeros((rows, columns), np.float16))
    arrays = cuda.to_device(a), cuda.to_device(b)
    (its,) = gemm.ladder.launches(*arrays, None, None, out, layout="nt", method=method)
    return its.configured(), its.arguments


def launch(facts: Path) -> None:
    """Launch every case once; write which GPU and versions did it."""
    with nsight.launching(facts, f"python -m {MODULE}"):
        for case in CASES:
            kernel, arguments = prepared(*case)
            nsight.profiled(partial(kernel, *arguments))


def measure(path: Path, ncu: str) -> None:
    """Launch all cases under ``ncu`` and write the file.

    Raises
    ------
    CountersNotRead
        When there are no counters, or they are of other launches.
    """
    rows, _, found = nsight.counted(ncu, COUNTERS.values(), MODULE)
    if len(rows) != len(CASES):
        raise CountersNotRead(f"{len(CASES)} cases were launched, {len(rows)} profiled")
    lines = []
    for (method, *shape), row in zip(CASES, rows, strict=True):
        name = f"{method} {'x'.join(map(str, shape))}"
        kernel = f"gemm_{'warp_specialised' if method == 'roles' else method}"
        if kernel not in row["Kernel Name"]:
            raise CountersNotRead(f"{name}: launch {row['ID']} is {row['Kernel Name']}")
        launch = ("x".join(row[f"{w} Size"].strip("()").split(", ")) for w in ("Grid", "Block"))
        about = name, kernel, *launch
        values = ((counter, int(number_in(row, its))) for counter, its in COUNTERS.items())
        lines += [(*about, counter, value) for counter, value in values if value]
    write_whole(path, table_text(path.name, found | COUNTERS, COLUMNS, lines, ValueError))


def main() -> None:
    """Command line."""
    chosen = nsight.options(argparse.ArgumentParser(description=__doc__.split("\n\n")[0]))
    if chosen.launch:
        launch(chosen.launch)
    else:
        measure(chosen.output, chosen.ncu)


if __name__ == "__main__":
    main()
