"""What only the kernels of `test_clusters` use, on a GPU that has it: arrivals there, multicast."""

import subprocess
import sys
from pathlib import Path

import pytest

from course import backend
from course.kernels.steps import hopper_refusal

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import numpy as np
from course import cuda
from warpsim.ptx import TensorMap
from tests.warpsim.ptx.test_clusters import TWO, arrivals, casts

out = cuda.to_device(np.zeros(2, np.int32))
arrivals()[2, 64](out)
assert out.copy_to_host().tolist() == [1, 1]
a = np.arange(TWO).reshape(128, 64).astype(np.float16)
out = cuda.to_device(np.zeros((2, TWO), np.float16))
casts()[2, 64](TensorMap(cuda.to_device(a), 64, 64), out)
assert all((np.sort(row) == np.sort(a.ravel())).all() for row in out.copy_to_host())
"""


@pytest.mark.skipif(
    backend.gpu() is None or bool(hopper_refusal()),
    reason="needs a GPU that has clusters",
)
def test_blocks_arrive_and_are_sent_tiles_in_a_process_that_may_not_hang():
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, timeout=90, check=True)
