"""Instructions outside a kernel, on a GPU that has them not, and without numba.cuda."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from course import trace
from tests.warpsim.ptx.kernel_parts import numbers, written
from tests.warpsim.ptx.test_mma import float16_k8, float16_k16, tf32
from warpsim import ptx


def test_a_t4_refuses_what_it_has_not_and_says_who_has_it():
    copy = written(
        "tile = cuda.shared.array(32, float32)\n"
        "copy_async(tile, cuda.threadIdx.x, x, cuda.threadIdx.x)"
    )
    commit, wait = written("commit_copies()"), written("wait_copies(0)")
    zeros = [np.zeros((32, 4), kind) for kind in (np.uint32, np.uint32, np.float32, np.float32)]
    singles = [np.zeros((32, 4), np.float32) for _ in range(4)]
    words = r'compute capability 8.0, and the simulated Tesla T4 has 7.5: .*course.simulate\("'
    for kernel, what in ((copy, "cp.async"), (commit, "group"), (wait, "waiting")):
        with pytest.raises(TypingError, match=f"^line [23]: .*{what}.*{words}"):
            trace(kernel, 1, 32, numbers(32), gpu="T4")
        trace(kernel, 1, 32, numbers(32), gpu="L4")
    for kernel, arguments in ((float16_k16, zeros), (tf32, singles)):
        with pytest.raises(TypingError, match=f"^line 5: the product of tensor cores.*{words}"):
            trace(kernel, 1, 32, *arguments, gpu="T4")
        trace(kernel, 1, 32, *arguments, gpu="A100")
    trace(float16_k8, 1, 32, *zeros, gpu="T4")


@pytest.mark.parametrize(
    "instruction",
    [getattr(ptx, name) for name in ptx.__all__ if name != "TensorMap"],
)  # fmt: skip
def test_instructions_work_only_inside_a_kernel(instruction):
    name = instruction.__name__
    with pytest.raises(TypeError, match=f"^{name} works only inside a kernel, a function dec"):
        instruction(np.zeros(4), 0)
    assert name in repr(instruction) and name in instruction.__doc__


WITHOUT_NUMBA_CUDA = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numba_cuda" or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import numpy as np
from course import cuda
from warpsim.ptx import load4, mma_f16, store4

@cuda.jit
def move(x, out):
    store4(out, 4 * cuda.grid(1), load4(x, 4 * cuda.grid(1)))

x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
move[1, 32](x, out)
assert np.array_equal(out, x)
for instruction in (load4, mma_f16):
    try:
        instruction(x, 0)
    except TypeError as error:
        print(error)
assert "numba.cuda" not in sys.modules
"""


@pytest.mark.slow
def test_instructions_work_where_numba_cuda_is_missing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_NUMBA_CUDA)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=environment, timeout=120
    )
    words = "works only inside a kernel, a function decorated with @cuda.jit"
    assert done.stdout.splitlines() == [f"load4 {words}", f"mma_f16 {words}"], done.stderr
    assert done.stderr == ""
