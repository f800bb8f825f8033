"""One kernel, SiLU of every element, in seven ways: a module each, imported only where it can run.

Each has `silu(x)`, which takes and returns a NumPy array of float32. Its text is to be read.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

from course import backend

#: What a program is called, its module, what it needs, and whether that runs without a GPU.
PROGRAMS = {
    "Numba": ("with_numba", "numba", True),
    "numba-cuda-mlir": ("with_mlir", "numba_cuda_mlir", False),
    "CUDA C++": ("with_cuda_cpp", "cupy", False),
    "CuPy": ("with_cupy", "cupy", False),
    "Triton": ("with_triton", "triton", False),
    "cuTile": ("with_cutile", "cuda.tile", False),
    "PyTorch": ("with_pytorch", "torch", True),
}


def text(name: str) -> str:
    """The text of a program, without the sentence at its top."""
    source = Path(__file__).with_name(f"{PROGRAMS[name][0]}.py").read_text(encoding="utf-8")
    return source.split('"""\n\n', 1)[1].rstrip()


def missing(name: str) -> str:
    """What a program lacks here, in words; "" where it can run."""
    _, needs, anywhere = PROGRAMS[name]
    if not _is_installed(needs):
        return f"{needs} is not installed"
    return "" if anywhere or backend.gpu() else "it needs a GPU"


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # that which the package lies in
        return False


def module(name: str) -> ModuleType:
    """The module of a program; ImportError where what it needs is not there."""
    return importlib.import_module(f"{__name__}.{PROGRAMS[name][0]}")


def compared(size: int = 1003) -> str:
    """Run each program that can run here, and say how far it is off float64; a line each."""
    x = np.random.default_rng(19).normal(0, 3, size).astype(np.float32)
    right = x / (1 + np.exp(-x.astype(np.float64)))
    lines = []
    for name in PROGRAMS:
        if why := missing(name):
            lines.append(f"{name:16} {why}")
            continue
        error = np.abs(module(name).silu(x) - right).max() / np.abs(right).max()
        lines.append(f"{name:16} largest error {error:.1e}")
    return "\n".join(lines)
