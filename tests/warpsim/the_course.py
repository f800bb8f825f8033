"""What these tests take from the course where it is. Without it they run, too: tests/alone."""

import importlib.util

import pytest

from warpsim import cuda

HERE = importlib.util.find_spec("course") is not None
needs_course = pytest.mark.skipif(not HERE, reason="the course is not here")
#: They are about instructions that lie in the course, or about its compilers.
ABOUT_THE_COURSE = (
    "test_drawn_operations.py", "test_fragments.py", "test_register_products.py", "test_roles.py",
)  # fmt: skip

if HERE:  # a GPU's, where there is one
    from course import cuda, gpu
    from warpsim.ptx import commit_copies, copy_async, load4, store4, wait_copies
else:
    commit_copies = copy_async = load4 = store4 = wait_copies = None

    def gpu() -> None:
        """No GPU is looked for: the simulator alone is tested."""


__all__ = [
    "HERE", "commit_copies", "copy_async", "cuda", "gpu", "load4", "needs_course", "store4",
    "wait_copies",
]  # fmt: skip
