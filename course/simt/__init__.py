"""A simulator of Numba-CUDA kernels: it runs them on NumPy, warp by warp, and says what they do.

``course.simt.host`` has the names of ``numba.cuda``; :func:`trace` counts and looks for mistakes.
"""

from course.simt.launch import trace
from course.simt.names import Unsupported
from course.simt.report import ERRORS, Finding, KernelError, Report, Where

__all__ = ["ERRORS", "Finding", "KernelError", "Report", "Unsupported", "Where", "trace"]
