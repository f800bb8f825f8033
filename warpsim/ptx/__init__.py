"""Instructions that Numba lacks: their code, the types of their arguments, what runs them.

Each works inside a kernel, on a GPU and in the simulator alike, and is taken from here:
``from warpsim.ptx import load4``. It is loaded with its module when it is first asked for.
"""

from importlib import import_module
from typing import Any

#: Each before those that import it.
_MODULES = (
    "memory", "mma", "cp_async", "integers", "grid_dependency", "mbarrier", "clusters", "tma",
    "wgmma",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warpsim.ptx.instruction import INSTRUCTIONS

    for module in _MODULES:
        loaded = vars(import_module(f"{__name__}.{module}"))
        names = loaded if name == "TensorMap" else INSTRUCTIONS
        if name in names:
            globals()[name] = names[name]
            return names[name]
    known = sorted([*INSTRUCTIONS, "TensorMap"])
    if name == "__all__":
        return known
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; it has {', '.join(known)}"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
