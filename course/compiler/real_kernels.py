"""The same kernel for numba.cuda: what the simulator's kernels become when they are compiled.

A kernel written with the simulator's `cuda` refers to the simulator's module and to its device
functions. Here its code object, lines included, gets a second set of globals in which these are
numba.cuda and numba.cuda's device functions. The kernel itself is not changed.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import operator
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from course import successor
from warpsim.front.names import KernelName
from warpsim.run.kernel import Kernel

#: Options of a device function that change its code.
_DEVICE_OPTIONS = ("inline", "forceinline", "fastmath", "opt")
#: The simulator's modules, and the part of numba.cuda in place of each; "" is numba.cuda itself.
_REAL_MODULES = {"warpsim.cuda": "", "warpsim.run.random": "random"}
_numbers = itertools.count()
_UNCHANGED = ("numba", "numba_cuda", "numba_cuda_mlir", "numpy", "math", "builtins")


class NoSource(ValueError):
    """A kernel whose source text cannot be found."""


@dataclass(frozen=True)
class Origin:
    """Where a function stands: the line of its `def` in its file, and its lines from there on."""

    name: str
    first: int
    lines: tuple[str, ...]

    def code(self, line: int) -> str:
        """The text of a line, counted from `def` as 1."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""


def origin(function: FunctionType) -> Origin:
    """Find a function's source.

    Raises
    ------
    NoSource
        For a lambda, and where Python has no source text.
    """
    name = function.__name__
    if name == "<lambda>":
        raise NoSource("a lambda cannot be compiled for a GPU: write the kernel with def")
    missing = NoSource(
        f"the source of {name} cannot be found (typed into a plain Python prompt, or made with "
        "exec), so its lines cannot be named: write the kernel in a file or a notebook cell"
    )
    try:
        rows, start = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(rows))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise missing from None
    if getattr(tree, "name", None) != function.__code__.co_name:
        raise missing  # newer Pythons find lines of another program under the name "<string>"
    decorators = getattr(tree, "lineno", 1) - 1  # lines above `def`
    lines = tuple(row.rstrip("\n") for row in rows[decorators:])
    return Origin(name, start + decorators, lines)


class RealKernel:
    """A kernel's function with numba.cuda in the place of the simulator.

    Parameters
    ----------
    function : the kernel as written, or a device function
    lineinfo : whether it is to be compiled with line numbers
    functions : numba.cuda's device functions that exist already, by their Python functions; new
        ones are added. A function that exists already has no entry in `origins`

    Attributes
    ----------
    function : FunctionType
        What numba.cuda compiles.
    origins : list of Origin
        The sources of the kernel, first, and of the device functions that it calls.
    """

    def __init__(
        self,
        function: FunctionType,
        lineinfo: bool = False,
        functions: dict[FunctionType, Any] | None = None,
    ):
        self._cuda = successor.numba_cuda()
        self._lineinfo = lineinfo
        self._functions = {} if functions is None else functions
        self._modules: dict[tuple[ModuleType, frozenset[str]], ModuleType] = {}
        self._files: list[str] = []
        self._rows: list[list[str]] = []
        self.origins: list[Origin] = []
        self.function = self._copy(function)
        self._fill(self.function, function)

    def find(self, path: str | None, line: int) -> tuple[int, int] | None:
        """Which of `origins` a line of the debug information is in, and its line from `def`."""
        name = re.split(r"[/\\]", path or "")[-1]
        if name not in self._files:
            return None
        number = self._files.index(name)
        return number, line - self.origins[number].first + 1

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Let Numba find the source of the copies, which stand in files of made-up names."""
        for name, rows in zip(self._files, self._rows):
            linecache.cache[name] = (len(rows), None, rows, name)
        try:
            with warnings.catch_warnings():
                # older versions look for the file itself, for the line of `def` only
                warnings.filterwarnings("ignore", "Could not find source for function")
                yield
        finally:
            for name in self._files:
                linecache.cache.pop(name, None)

    def _copy(self, function: FunctionType) -> FunctionType:
        """A function with the same code, its own globals and empty cells."""
        code = function.__code__
        if self._lineinfo:
            # The paths of notebook cells come back changed; a name of our own can be recognised.
            self._files.append(f"course-function-{next(_numbers)}.py")
            self._rows.append(inspect.findsource(function)[0])
            code = _renamed(code, self._files[-1])
        self.origins.append(origin(function))
        cells = tuple(CellType() for _ in code.co_freevars)
        made = FunctionType(
            code, dict(function.__globals__), function.__name__, function.__defaults__, cells
        )
        made.__module__, made.__qualname__ = function.__module__, function.__qualname__
        return made

    def _fill(self, made: FunctionType, function: FunctionType) -> None:
        names = _names(function.__code__)
        for name in names & made.__globals__.keys():
            made.__globals__[name] = self._real(made.__globals__[name], names)
        for new, old in zip(made.__closure__ or (), function.__closure__ or ()):
            try:
                value = old.cell_contents
            except ValueError:
                continue  # a variable of the enclosing function that is not set
            new.cell_contents = self._real(value, names)

    def _real(self, value: Any, names: frozenset[str]) -> Any:
        """What stands for a value in the compiled kernel; `names` are those that the code uses."""
        if isinstance(value, KernelName):
            return operator.attrgetter(value.path)(self._cuda)
        if isinstance(value, ModuleType):
            return self._module(value, names)
        if is_device_function(value):
            return self._device_function(value)
        return value

    def _module(self, module: ModuleType, names: frozenset[str]) -> ModuleType:
        """A module, or a copy of it in which the names that the code uses are the real ones."""
        if module.__name__ in _REAL_MODULES:
            return self._real_module(module.__name__)
        if module.__name__.partition(".")[0] in _UNCHANGED:
            return module
        key = (module, names)
        if key not in self._modules:
            self._modules[key] = module  # modules may refer to each other
            changed = {}
            for name in names & set(dir(module)):
                value = getattr(module, name, None)
                real = self._real(value, names)
                if real is not value:
                    changed[name] = real
            if changed:
                stand_in = self._modules[key] = ModuleType(module.__name__, module.__doc__)
                stand_in.__dict__.update({**module.__dict__, **changed})
        return self._modules[key]

    def _real_module(self, name: str) -> ModuleType:
        part = _REAL_MODULES[name]
        return getattr(self._cuda, part) if part else self._cuda

    def _device_function(self, kernel: Any) -> Any:
        function = kernel.py_func
        if function.__module__ in _REAL_MODULES:
            return getattr(self._real_module(function.__module__), function.__name__)
        if function not in self._functions:
            given = getattr(kernel, "targetoptions", None) or {}
            options = {name: given.get(name) for name in _DEVICE_OPTIONS}
            options = {name: one for name, one in options.items() if one and one != "never"}
            made = self._copy(function)
            decorate = self._cuda.jit(device=True, lineinfo=self._lineinfo, **options)
            # entered before it is filled in, so that a function that calls itself finds it
            self._functions[function] = decorate(made)
            self._fill(made, function)
        return self._functions[function]


def is_device_function(value: Any) -> bool:
    """Whether a value is a function made with ``cuda.jit(device=True)``, simulated or real."""
    if not isinstance(getattr(value, "py_func", None), FunctionType):
        return False
    if isinstance(value, Kernel):
        return value.device
    options = getattr(value, "targetoptions", None)
    return isinstance(options, dict) and bool(options.get("device"))


def _renamed(code: CodeType, file: str) -> CodeType:
    """A function's code, inner functions included, as if it stood in another file."""
    constants = tuple(
        _renamed(constant, file) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=file, co_consts=constants)


def _names(code: CodeType) -> frozenset[str]:
    """The global names and attributes that a function's code uses, inner functions included."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))
