"""``numba.cuda`` is the simulator for a while: for all imports but those of Numba itself.

So is ``numba_cuda_mlir.cuda``, whether or not that package is installed.

Who asks decides. Numba's own modules, and the simulator, which types kernels by Numba's rules, get
the real module; a program, its helpers and its libraries get the simulator's names.
"""

import builtins
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numba
from numba.core import types

from warpsim import cuda as host
from warpsim import numba_names
from warpsim.core import libdevice, settings
from warpsim.core.executed import noting
from warpsim.core.number_types import bfloat16
from warpsim.front.successor import NAME, TYPES, VERSION
from warpsim.host.device import Event

#: Modules of Numba that need neither a GPU nor CUDA's libraries.
_PURE = tuple(
    f"numba.cuda.{name}."
    for name in (
        "core", "utils", "errors", "serialize", "typing", "typeconv", "datamodel", "cgutils",
        "stubs", "testing", "extending", "types", "tests", "locks",
    )
)  # fmt: skip
#: Packages that get the real module; the course decides by itself which of the two it takes.
_UNTOUCHED = frozenset(
    {"numba", "numba_cuda", NAME, "warpsim", "course", "course_app", "course_models"}
)
_ROOTS = ("numba", NAME)
UFUNCS = "vectorize", "guvectorize"


class _Cuda(ModuleType):
    """``numba.cuda`` or a module of it; what the simulator lacks is refused by a sentence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if _passes(f"{self.__name__}.{name}"):
            with suppress(ImportError):
                return importlib.import_module(f"{self.__name__}.{name}")
        raise AttributeError(_lacks(f"{self.__name__}.{name}"))


#: Why something is lacking, by how its name begins.
_WHY = {
    **dict.fromkeys(("compile", "nvvm"), ": it makes no machine code, which takes CUDA's compiler"),
    **dict.fromkeys(("get_ipc", "open_ipc"), ": no other process can reach its memory"),
    **dict.fromkeys(UFUNCS, f": {NAME} has none, either"),
    **dict.fromkeys(
        ("vector", "inline_ptx", "intrin", "tensor_map", "experimental"),
        ": of PTX it runs what warpsim.ptx has, such as load4",
    ),
    **dict.fromkeys(("float16x", "half"), ": take float16 numbers one by one"),
    **dict.fromkeys(("lowering", "mlir", "_mlir", "linker"), ": it makes no machine code"),
}
_INSIDE = ": threads run in step here, not as in Numba's own simulator, one after the other"


def _passes(name: str) -> bool:
    """Whether a program gets Numba's own module: it is Python alone, and asks for no GPU."""
    return f"{name}.".startswith(_PURE)


def _lacks(name: str) -> str:
    last = name.rpartition(".")[2]
    own = _INSIDE if name.startswith("numba.cuda.simulator.") else ""
    reason = next((why for words, why in _WHY.items() if last.startswith(words)), own)
    return f"the simulator has no {name}{reason}"


class _TimelessEvent(Event):
    """An event whose times are NaN, so that a program goes on without a time that is made up."""

    told = False

    def elapsed_time(self, evtend: Event) -> float:
        if not _TimelessEvent.told:
            _TimelessEvent.told = True
            print("warpsim: without a GPU the times between events are NaN", file=sys.stderr)
        return math.nan


def _either(simulated: Callable, real: Callable) -> Callable:
    """``numba.vectorize`` or ``guvectorize``: the simulator's where the target is cuda."""

    def decorator(*args: Any, **options: Any) -> Any:
        return (simulated if options.get("target") == "cuda" else real)(*args, **options)

    return decorator


def _module(name: str, names: dict[str, Any]) -> _Cuda:
    made = _Cuda(name)
    made.__dict__.update({key: names[key] for key in names if not key.startswith("__")})
    return made


def _stand_ins() -> dict[str, ModuleType]:
    scalars = {name: getattr(types, name) for name in types.__all__ if hasattr(types, name)}
    own = {name: value for name, value in vars(host).items() if not name.startswith("_")}
    times = {"event": lambda timing=True: _TimelessEvent(), "Event": _TimelessEvent}
    everything = scalars | own | times | numba_names.CUDA
    support = importlib.import_module(numba.from_dtype.__module__)
    with suppress(ImportError):  # older releases use Numba's
        support = importlib.import_module("numba.cuda.np.numpy_support")
    of_arrays = ("carray", "farray", "from_dtype", "as_dtype")
    inside = {
        "random": {name: one for name, one in vars(host.random).items() if "xoroshiro" in name},
        "types": vars(types) | {"bfloat16": bfloat16},
        "libdevice": {name: getattr(host.libdevice, name) for name in libdevice.CALLS},
        "np": {},
        "np.numpy_support": {n: getattr(support, n) for n in of_arrays if hasattr(support, n)},
        "api": everything,
        "simulator_init": everything,
    }
    inside = {f"numba.cuda.{name}": names for name, names in inside.items()}
    whole = {"numba.cuda": everything} | numba_names.MODULES | inside
    made: dict[str, ModuleType] = {name: _module(name, names) for name, names in whole.items()}
    made["numba.cuda.cudadrv.driver"].Event = _TimelessEvent
    own = {name: _either(getattr(host, name), getattr(numba, name)) for name in UFUNCS}
    made["numba"] = numba_names.Over(numba, **own)
    made |= _copies(made, "numba.cuda.simulator")
    made |= _of_the_successor(made)
    for name, one in made.items():
        outer, _, last = name.rpartition(".")
        if outer:
            setattr(made[outer], last, one)
    made["numba.cuda"].devicearray = made["numba.cuda.cudadrv.devicearray"]
    return made


def _copies(made: dict[str, ModuleType], place: str, **more: Any) -> dict[str, ModuleType]:
    """``numba.cuda`` and all in it by another name; the first gets some names ``more``."""
    found = {}
    for name, one in made.items():
        inside = name.removeprefix("numba.cuda")
        if inside != name and not inside.startswith(".simulator"):
            names = vars(one) if inside else vars(one) | more
            found[place + inside] = _module(place + inside, names)
    return found


def _of_the_successor(made: dict[str, ModuleType]) -> dict[str, ModuleType]:
    """The modules of ``numba_cuda_mlir``: those of ``numba.cuda`` by its names, and its own."""
    arrays = vars(made["numba.cuda.np.numpy_support"])
    found: dict[str, Any] = {NAME: _module(NAME, arrays)} | numba_names.SUCCESSORS_ERRORS
    found[NAME].__version__ = VERSION
    found[f"{NAME}.numba_cuda.core"] = _module(f"{NAME}.numba_cuda.core", {})
    for place in (f"{NAME}.cuda", f"{NAME}.numba_cuda"):
        found |= _copies(made, place, **(arrays | numba_names.SUCCESSORS_CUDA))
        for gone in ("FakeCUDAKernel", *UFUNCS):
            delattr(found[place], gone)
    for place in (NAME, f"{NAME}.cuda", f"{NAME}.numba_cuda"):
        found[f"{place}.types"] = _module(f"{place}.types", vars(types) | TYPES)
    return found


@contextmanager
def redirected() -> Iterator[None]:
    """Let ``numba.cuda`` be the simulator; an import of what it lacks is an ImportError."""
    real, modules = builtins.__import__, _stand_ins()
    real_import_module = importlib.import_module

    def stand_in(name: str, asking: dict[str, Any] | None) -> ModuleType | None:
        """What a module gets for another; None where that is the real one."""
        if ((asking or {}).get("__name__") or "").partition(".")[0] in _UNTOUCHED:
            return None
        if f"{name}.".startswith(("numba.cuda.", f"{NAME}.")) and not _passes(name):
            if name not in modules:
                raise ImportError(_lacks(name), name=name)
        return modules.get(name)

    def find(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        root = name.partition(".")[0]
        if level or root not in _ROOTS or stand_in("numba", globals) is None:
            return real(name, globals, locals, fromlist, level)
        found, parts = stand_in(name, globals), fromlist or ()
        if found is None or name == "numba":
            rest = tuple(part for part in parts if found is None or not hasattr(found, part))
            own = real(name, globals, locals, rest, level)
            return own if parts and found is None else modules["numba"]
        for part in parts:
            if part != "*" and not hasattr(found, part):
                raise ImportError(_lacks(f"{name}.{part}"), name=name)
        return found if parts else modules[root]

    def import_module(name: str, package: str | None = None) -> ModuleType:
        found = stand_in(name, sys._getframe(1).f_globals)
        return real_import_module(name, package) if found is None else found

    builtins.__import__, importlib.import_module = find, import_module
    try:
        with settings.quiet(), noting():
            yield
    finally:
        builtins.__import__, importlib.import_module = real, real_import_module
