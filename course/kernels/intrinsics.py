"""The functions of :mod:`warpsim.ptx.intrinsics`, by the name that lessons import them by."""

from warpsim.ptx.intrinsics import *  # noqa: F403
from warpsim.ptx.intrinsics import __all__ as __all__
