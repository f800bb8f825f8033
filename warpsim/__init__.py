"""A simulator of Numba-CUDA kernels: it runs them on NumPy, warp by warp, and says what they do.

``warpsim.cuda`` has the names of ``numba.cuda``; :func:`trace` counts and looks for mistakes.
"""

from warpsim.front.names import Unsupported
from warpsim.run.launch import trace
from warpsim.watch.report import ERRORS, Finding, KernelError, Report, Where

__all__ = ["ERRORS", "Finding", "KernelError", "Report", "Unsupported", "Where", "trace"]
