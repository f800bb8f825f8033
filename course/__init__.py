"""Make GPU code fast from Python: kernels, measuring tools and checks of the course.

The names below are loaded when they are first used, so that ``import course`` is instant and
needs no CUDA library.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "cuda": "course.backend",
    "xp": "course.backend",
    "gpu": "course.backend",
    "simulate": "course.backend",
    "doctor": "course.diagnosis",
    "trace": "course.simt",
    "transfers": "course.transfers",
    "KernelError": "course.simt",
    "benchmark": "course.timing",
    "bound": "course.roofline",
    "bound_of": "course.roofline",
    "check": "course.checks",
    "compiled": "course.compiler",
    "known_gpu": "course.roofline",
    "measure_roofs": "course.measured_roofs",
    "predict": "course.predictions",
    "progress": "course.session",
    "recorded_roofs": "course.measured_roofs",
    "roofs_here": "course.measured_roofs",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'course' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
