"""Faults planted into the product of clusters: each is found before a GPU hangs."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from course import backend, cuda, trace
from course.kernels.halves import multicast
from warpsim.host import gpus

TEXT = Path(multicast.__file__).read_text()

#: What is replaced, by what, the kind of a finding, and what the line that it names begins with.
FAULTS = {
    "nobody arrives at the other block": ("lane < 2", "lane < 1", "deadlock", "mbarrier_wait(full"),
    "both lanes arrive at block 0": (
        "empty, last, lane)", "empty, last, 0)", "race", "tma_load(",
    ),
    "the other block's half is not expected": (
        "int32(2 * STAGE))", "int32(2 * STAGE - 2 * HALF))", "uninitialised-read", "wgmma_nt(",
    ),
    "only one block's warps are counted": ("2 * 4 * 2)", "4 * 2)", "race", "tma_load("),
    "both halves go to one place": ("SIDE + rank * HALF", "SIDE", "race", "tma_load_multicast("),
    "a half goes to one block": ("BOTH = 3", "BOTH = 1", "deadlock", "mbarrier_wait(full"),
    "a block ends at once": (
        "cluster_barrier()  # no", "pass  # no", "race", "mbarrier_arrive_at(",
    ),
    "a block begins at once": (
        "cluster_barrier()\n        down", "cuda.syncthreads()\n        down", "race",
        "tma_load_multicast(",
    ),
    "the first wait has the wrong parity": (
        "int32(parity ^ 1))\n                        mbarrier_expect",
        "parity)\n                        mbarrier_expect", "deadlock", "mbarrier_wait(empty",
    ),
}  # fmt: skip


def report_of(module):
    """What tracing two pairs of tiles finds, and whether the product is right."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((512, 328), (264, 328)))
    out = cuda.to_device(np.full((512, 264), np.nan, np.float16))
    arrays = cuda.to_device(a), cuda.to_device(b), out
    kernel, grid, threads, shared, arguments = module.launch(*arrays, 2)
    report = trace(kernel, grid, threads, *arguments, dynamic_shared=shared, gpu="H200")
    exact = a.astype(float) @ b.astype(float).T
    return report, np.allclose(out.copy_to_host(), exact, rtol=1e-3, atol=0.02)


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    """Such kernels run on no GPU."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is not None:
        pytest.skip("faults that may hang a GPU are planted in the simulator only")
    backend.simulate("H200")


def test_the_kernel_as_it_is_has_no_finding():
    report, right = report_of(multicast)
    assert right and not report.findings


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_where_it_shows(name, tmp_path):
    old, new, kind, begins = FAULTS[name]
    assert old in TEXT
    path = tmp_path / "multicast_with_a_fault.py"
    path.write_text(TEXT.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report, _ = report_of(module)
    lines = [(found.kind, found.code.strip()) for found in report.findings]
    assert any(found == kind and code.startswith(begins) for found, code in lines), lines
