"""A simulator of Numba-CUDA kernels: it runs them on NumPy, warp by warp, and says what they do.

``warpsim.cuda`` has the names of ``numba.cuda``; :func:`trace` counts and looks for mistakes.
What is here is loaded when it is first used: who asks for a GPU's limits alone needs no Numba.
"""

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "ERRORS": "watch.findings",
    "Finding": "watch.findings",
    "KernelError": "watch.findings",
    "Report": "draw.report",
    "Unsupported": "front.names",
    "Where": "watch.findings",
    "trace": "run.launch",
    "load_ipython_extension": "magic",
    "unload_ipython_extension": "magic",
}
__all__ = ["ERRORS", "Finding", "KernelError", "Report", "Unsupported", "Where", "trace"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'warpsim' has no attribute {name!r}; it has {__all__}")
    value = getattr(import_module(f"warpsim.{_HOME[name]}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
