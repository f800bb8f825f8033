"""Names that modules had before version 0.2: for one release, old notebooks run as they are.

A finder in front of all others answers for them with the module of the new name, so that the two
names are one module. A package or module of the learner's own comes before an old name.
"""

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

#: Old name: new name. The longest that a name begins with counts.
MOVED = {
    "lessons": "course_lessons",
    "recording": "course_recording",
    "course_lessons.lesson00.pictures": "course_lessons.lesson01.pictures",
    "course.pipeline": "course_app.pipeline",
    "course.cluster": "course_app.cluster",
    "course.models": "course_models",
    "course.models.spectral.shape": "course_models.spectral.config",
    "course.models.vae.fused": "course_models.vae.trainer",
    "course.door": "course.dispatch",
    "course.door.disk": "course.kernel_cache",
    "course.door.door": "course.dispatch.entry",
    "course.door.launches": "course.dispatch.prepared",
    "course.door.layout": "course.dispatch.slots",
    "course.door.libraries": "course.dispatch.array_facts",
    "course.kernels.launching": "course.dispatch.prepared",
    "course.streams": "course_lessons.lesson08",
    "course.streams.batch": "course_lessons.lesson08.batches",
    "course.streams.memory": "course_lessons.lesson08.pinned",
    "course.streams.timeline": "course.measure.timeline",
    "course.streams.ways": "course_lessons.lesson08.batches",
    "course.kernels.adam": "course_models.training.adam",
    "course.kernels.cpu": "course_lessons.lesson02.cpu",
    "course.kernels.reconstruct.cpu": "course_lessons.lesson02.cpu",
    "course.kernels.convolution": "course_lessons.lesson13.digits.convolution",
    "course.kernels.halves": "course.kernels.gemm",
    "course.kernels.halves.products": "course.kernels.gemm.half",
    "course.kernels.hopper": "warpsim.ptx",
    "course.kernels.intrinsics": "warpsim.ptx",
    "course.kernels.losses": "course_models.training.losses",
    "course.kernels.matmul": "course.kernels.gemm.float32",
    "course.kernels.patches": "course_models.patches",
    "course.kernels.sampling": "course_models.training.rng",
    "warpsim.front.bfloat": "warpsim.core.number_types",
}
#: Where names are now that a package or module gave, "old=new" where they have another name, too.
HOMES = {
    "course_models.spectral": {
        "course_models.spectral": "FusedShape=FusedConfig SHAPES=CONFIGS shape_for=config_for",
    },
    "course_app.cluster": {"course_lessons.lesson12": "scaling"},
    "course.plots": {
        "course_lessons.lesson08.plots": "gantt gantts",
        "course_lessons.lesson12.plots": "scaling_chart",
        "course_lessons.lesson13.plots": (
            "original speed_chart speedup_chart latency_by_batch speedup_by_batch "
            "efficiency_by_batch"
        ),
    },
    "course_models.digits": {
        "course_lessons.lesson13.digits": "ACTIVATIONS Network Weights accuracy reference",
    },
}
#: Old name: new name, of these.
NAMES = {
    f"{package}.{old}": f"{home}.{new or old}"
    for package, homes in HOMES.items()
    for home, names in homes.items()
    for old, _, new in (name.partition("=") for name in names.split())
}


def new_name(name: str) -> str | None:
    """What a module of an old name is called now; None where the name is no old one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if new := MOVED.get(".".join(parts[:count])):
            return ".".join([new, *parts[count:]])
    return None


def elsewhere(package: str) -> Callable[[str], object]:
    """A module's ``__getattr__`` for the names that it gave."""

    def load(name: str) -> object:
        place = NAMES.get(f"{package}.{name}") or new_name(f"{package}.{name}")
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return pkgutil.resolve_name(place)

    return load


class OldNames(MetaPathFinder, Loader):
    """Finds a module by its old name, and gives the one that has the new name."""

    warned = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The old name's module, unless a file of the learner's has that name."""
        top = name.partition(".")[0]
        new = new_name(name)
        if new is None:
            return None
        if name == top:
            found = PathFinder.find_spec(name)
            # a folder without __init__.py has no origin
            if found is not None and found.origin is not None:
                return None
        elif top in MOVED and sys.modules.get(top) is not sys.modules.get(MOVED[top]):
            return None  # below a package of the learner's own
        return ModuleSpec(name, self, loader_state=new, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the new name."""
        module = importlib.import_module(spec.loader_state)
        if not OldNames.warned:
            OldNames.warned = True
            warnings.warn(
                f"{spec.name} is called {spec.loader_state} now, and other names have changed; the "
                "old ones work in this version only: `python -m course lessons DIR` brings the "
                "notebooks with the new ones",
                FutureWarning,
                stacklevel=2,
            )
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed again; the module keeps the specification of its new name."""
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Install the finder first, in the place of one that an earlier version installed."""
    others = [its for its in sys.meta_path if type(its).__name__ != OldNames.__name__]
    sys.meta_path[:] = [OldNames(), *others]
