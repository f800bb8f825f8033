"""What these tests take from the course where it is. Without it they run, too: tests/alone."""

import importlib.util

import pytest

from warpsim import cuda

HERE = importlib.util.find_spec("course") is not None
needs_course = pytest.mark.skipif(not HERE, reason="the course is not here")
#: They are about the course's compilers.
ABOUT_THE_COURSE = (
    "ptx/test_clusters.py",
    "ptx/test_clusters_on_gpu.py",
    "ptx/test_drawn.py",
    "ptx/test_grid_dependency.py",
    "ptx/kernel_parts.py",
    "ptx/test_cp_async.py",
    "ptx/test_instruction.py",
    "ptx/test_memory.py",
    "ptx/test_mma.py",
    "ptx/test_compiled.py",
    "ptx/test_mma_kernels.py",
    "ptx/test_memory_streaming.py",
)

if HERE:  # a GPU's, where there is one
    from course import cuda, gpu
else:

    def gpu() -> None:
        """No GPU is looked for: the simulator alone is tested."""


__all__ = ["HERE", "cuda", "gpu", "needs_course"]
