"""Make GPU code fast from Python: kernels, measuring tools and checks of the course.

The names below are loaded when they are first used, so that ``import course`` is instant and
needs no CUDA library.
"""

from importlib.util import find_spec
from pathlib import Path

from course import old_names
from course.lazy import face

_simulator = getattr(find_spec("warpsim"), "origin", None)
if _simulator and not Path(_simulator).with_name("magic.py").exists():
    raise ImportError(
        f"{_simulator} hides the course's simulator, which has that name: rename it or its folder, "
        "restart the kernel"
    )
old_names.install()

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        # which machine is this
        "course.backend": "cuda xp gpu simulate simulated",
        "course.driver": "read_driver",
        "course.diagnosis.report": "doctor",
        # what a kernel does, and what becomes of it
        "warpsim": "trace KernelError",
        "course.compiler.facts": "compiled CompilerMissing",
        # how long it takes, must take, took
        "course.measure.timing": "benchmark",
        "course.measure.transfers": "transfers",
        "course.measure.roofline": "bound bound_of known_gpu",
        "course.measure.occupancy": "occupancy",
        "course.measure.measured_roofs": "measure_roofs recorded_roofs",
        "course.measure.recorded": "recorded",
        # exercises
        "course.checks": "check",
        "course.checks.beside": "beside",
        "course.checks.predictions": "predict",
        "course.checks.progress": "mine progress",
        # texts as everything prints them
        "warpsim.core.words": "wrapped",
        # modules that are no package's
        "course.files": "data_path",
        "course": "images kernels measure plots",
    },
)


def load_ipython_extension(shell: object) -> None:
    """``%load_ext course``: the cell magic ``%%trace``; imports stay as they are."""
    from warpsim.magic import add_trace

    add_trace(shell)
