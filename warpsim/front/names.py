"""What the names in a kernel mean: CUDA's own names, constants, functions, and what is refused.

A kernel's names are resolved once, when it is translated. A name of CUDA is recognised whether it
comes from the simulator's module (:mod:`warpsim.cuda`) or from ``numba.cuda``, so that a kernel
written for one runs on the other.
"""

import ast
import builtins
import dis
import inspect
import linecache
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, EnumType
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError, UnsupportedError

from warpsim.core.executed import lines_of
from warpsim.core.number_types import ALIASES, VECTORS
from warpsim.front.cuda_names import ATOMIC_TYPES, FUNCTIONS, VALUES
from warpsim.front.nodes import names, walk
from warpsim.front.numba_typing import of_value
from warpsim.front.successor import marked

_PATHS = {
    *VALUES, *FUNCTIONS, *VECTORS, *ALIASES, *(f"atomic.{name}" for name in ATOMIC_TYPES),
    "grid", "gridsize", "shared.array", "local.array", "const.array_like",
}  # fmt: skip
#: Names that only mean something inside a kernel. A dot stands for an attribute.
KERNEL_NAMES = frozenset(_PATHS.union(path.partition(".")[0] for path in _PATHS))

#: Names that Numba knows as attributes of ``cuda`` alone: imported by themselves they have no type.
ONLY_OF_CUDA = frozenset(
    """
    activemask atomic blockDim blockIdx brev cbrt clz const ffs fma gridDim laneid lanemask_lt local
    match_all_sync match_any_sync nanosleep popc selp shared syncwarp threadIdx threadfence
    threadfence_block threadfence_system warpsize
    """.split()
)

#: Objects from elsewhere that stand for a name of a kernel, by their identity.
_REGISTERED: dict[int, tuple[Any, Any]] = {}
#: What gives the types of their calls, by path.
TYPE_OF_CALL: dict[str, Callable[..., Any]] = {}

_CUDA_MODULES = "numba.cuda", "numba.cuda.simulator", "numba_cuda_mlir.cuda", "warpsim.cuda"
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


class NotYet(Exception):
    """The result of a function that calls itself is not known yet."""


class Unsupported(UnsupportedError):
    """A construct that Numba may accept in a kernel and that the simulator does not run."""

    def __init__(self, text: str):
        super().__init__(text)
        self.args = (text,)  # without the terminal's colours that Numba may add


def typing_error(text: str) -> TypingError:
    """Numba's error of a kernel that cannot be typed, without a terminal's colours."""
    error = TypingError(text)
    error.args = (text,)
    return error


@dataclass(frozen=True)
class KernelName:
    """A name of ``numba.cuda`` that only a kernel may use, such as ``threadIdx.x``."""

    path: str

    def __getattr__(self, attribute: str) -> "KernelName":
        path = f"{self.path}.{attribute}"
        if path not in KERNEL_NAMES:
            raise AttributeError(f"cuda.{self.path} has no attribute {attribute!r}")
        return KernelName(path)

    def __call__(self, *args, **kwargs):
        text = f"cuda.{self.path} works only inside a kernel, a function decorated with @cuda.jit"
        raise TypeError(text)

    def __repr__(self) -> str:
        return f"cuda.{self.path}"


@cache
def kernel_name(path: str) -> KernelName:
    """The name of a kernel's function or value; ``float4`` is ``float32x4``."""
    return kernel_name(ALIASES[path]) if path in ALIASES else KernelName(path)


def register(value: Any, path: str, type_of_call: Callable[..., Any]) -> None:
    """Let an object, such as an intrinsic of Numba, stand for a name that lane programs know.

    ``type_of_call(typer, node)`` gives the type of a call, and notes those of its operands; it
    raises for a call that is refused.
    """
    _REGISTERED[id(value)] = (value, KernelName(path))
    TYPE_OF_CALL[path] = type_of_call


def as_kernel_name(value: Any) -> Any:
    """The :class:`KernelName` for an object of ``numba.cuda``, or the object itself."""
    if type(value) in _OWN:
        return value
    if id(value) in _REGISTERED:
        return _REGISTERED[id(value)][1]
    real = sys.modules.get("numba.cuda")
    if real is not None:
        name = _names_in(real).get(id(value))
        if name is not None and getattr(real, name, MISSING) is value:
            return kernel_name(name)
    return value


#: Types of what stands for no name, or is one.
_OWN = {bool, int, float, str, tuple, type(None), np.int32, np.float32, np.float64, KernelName}


@cache
def _names_in(module: ModuleType) -> dict[int, str]:
    """Which of its objects the names of kernels stand for, by id."""
    there = ((name, getattr(module, name, MISSING)) for name in KERNEL_NAMES if "." not in name)
    return {id(value): name for name, value in there if value is not MISSING}


def attribute(value: Any, name: str) -> Any:
    """``value.name`` as a kernel sees it, or MISSING."""
    if isinstance(value, KernelName):
        path = f"{value.path}.{name}"
        return KernelName(path) if path in KERNEL_NAMES else MISSING
    module = isinstance(value, ModuleType)
    if module and value.__name__ in _CUDA_MODULES and name in KERNEL_NAMES:
        return kernel_name(name)
    found = as_kernel_name(getattr(value, name, MISSING))
    if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
        return found if name == "dtype" else MISSING  # Numba reads the others when the kernel runs
    whole = module or isinstance(value, EnumType | np.dtype) or name == "value"
    method = isinstance(value, np.generic | int | float | complex)
    return found if whole or (callable(found) and not method) else MISSING


def _once(ask: Callable[["Source"], Any]) -> property:
    """A property of a source, see `Source.once`."""
    return property(lambda self: self.once(ask))


@dataclass
class Source:
    """A kernel's function: its syntax tree, its lines, and what its free names stand for."""

    function: FunctionType
    tree: ast.FunctionDef
    lines: list[str]
    environment: dict[str, Any]
    arguments: list[str]
    assigned: frozenset[str]
    constants: dict[str, Any] = field(default_factory=dict)
    takes_rest: bool = False  # the last argument is ``*args``: a tuple of all that is left
    label: str = ""  # of a function inside another
    told: dict[Callable, Any] = field(default_factory=dict, repr=False)  # see `once`

    @property
    def name(self) -> str:
        name = self.label or self.function.__name__
        return name if name.isidentifier() else "lambda_"

    def once(self, ask: Callable) -> Any:
        """What `ask` says of the tree: asked once for all functions that are read alike."""
        if ask not in self.told:
            self.told[ask] = ask(self)
        return self.told[ask]

    #: All nodes of the tree but operators and contexts, the calls, how often it reads each name.
    nodes = _once(lambda self: walk(self.tree))
    calls = _once(lambda self: [node for node in self.nodes if isinstance(node, ast.Call)])
    loads = _once(lambda self: names(self.tree, ast.Load))
    #: Whether numba-cuda-mlir's rules type it.
    of_the_successor = property(lambda self: marked(self.function))

    def renewed(self, function: FunctionType) -> "Source":
        """The source of a function that is read like this one."""
        environment = {**function.__globals__, **_outer_variables(function)}
        return replace(self, function=function, environment=environment)

    def line(self, node: ast.AST) -> int:
        """The node's line, counted from the line of ``def`` as 1."""
        return node.lineno - self.tree.lineno + 1

    def code(self, line: int) -> str:
        """The text of a line, counted from ``def`` as 1."""
        index = self.tree.lineno - 1 + line - 1
        return self.lines[index].strip() if 0 <= index < len(self.lines) else ""

    def in_file(self, line: int) -> tuple[str, int]:
        """File and line there of a line that is counted from ``def`` as 1."""
        code = inspect.unwrap(self.function).__code__
        first = 1 if code.co_name == "<lambda>" else code.co_firstlineno
        return code.co_filename, first + self.tree.lineno - 1 + line - 1

    #: The function's lines from its ``def`` on.
    text = property(lambda self: "\n".join(self.lines[self.tree.lineno - 1 : self.tree.end_lineno]))

    def unsupported(self, node: ast.AST, what: str, advice: str = "") -> Unsupported:
        line = self.line(node)
        text = f"{what} is not supported by the simulator, line {line} of {self.name}:\n"
        text += f"    {self.code(line)}"
        return Unsupported(f"{text}\n{advice}" if advice else text)

    def refused(self, node: ast.AST, what: str) -> TypingError:
        """The error of something that Numba itself refuses."""
        line = self.line(node)
        return typing_error(f"{what}\n\nline {line} of {self.name}:\n    {self.code(line)}")

    def outside_name(self, node: ast.expr, function: Any) -> str | None:
        """The name under which a function lies outside this one; None for one found elsewhere."""
        if not isinstance(node, ast.Name) or node.id in self.assigned:
            return None
        found = _outer_variables(self.function).get(node.id, self.function.__globals__.get(node.id))
        return node.id if found is function else None

    def check_names(self, statement: ast.stmt) -> None:
        """Refuse a statement that names something from outside to which Numba gives no type."""
        for child in ast.iter_child_nodes(statement) if self.untyped else ():
            for node in walk(child) if isinstance(child, ast.expr) else ():
                if id(node) in self.untyped:
                    name, why = ast.unparse(node), self.untyped[id(node)]
                    raise self.refused(node, f"Untyped global name {name!r}: {why}")

    def check_opcodes(self) -> None:
        """Refuse what Numba cannot read, in branches that are left out, too."""
        found = _UNREAD.intersection(self.function.__code__.co_code[::2])
        if found:
            name = dis.opname[found.pop()]
            raise typing_error(f"Use of unsupported opcode ({name}) found in {self.name}")

    @_once
    def untyped(self) -> dict[int, str]:
        """Names, and what attributes are asked of, that Numba cannot type; each with advice."""
        found = {}
        for node in self.nodes:
            base = node.value if isinstance(node, ast.Attribute) else node
            outside = isinstance(base, ast.Name) and base.id not in self.assigned
            value = self.static(base) if outside or isinstance(base, ast.Attribute) else MISSING
            if value is MISSING:
                continue
            if isinstance(value, KernelName) and isinstance(base, ast.Name):
                if value.path in ONLY_OF_CUDA:
                    found[id(base)] = f"write cuda.{value.path}, after from numba import cuda"
            elif has_no_type(value) and (base is not node or isinstance(value, type)):
                found[id(base)] = (
                    f"a {type(value).__name__} means nothing to Numba: give what you need of it a "
                    "name outside the kernel"
                )
        return found

    # ------------------------------------------------------------------ constants
    def static(self, node: ast.AST) -> Any:
        """The value of an expression that is known when the kernel is compiled, or MISSING.

        These are literals and what Python folds of them, names from outside the kernel and their
        attributes, and tuples of them. Arithmetic with names is not folded, as in Numba's typing.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Call | ast.Compare):
            return MISSING
        if isinstance(node, ast.Name):
            if node.id in self.assigned:
                return self.constants.get(node.id, MISSING)
            if node.id in self.environment:
                return as_kernel_name(self.environment[node.id])
            return getattr(builtins, node.id, MISSING)
        if isinstance(node, ast.Attribute):
            value = self.static(node.value)
            return MISSING if value is MISSING else attribute(value, node.attr)
        if isinstance(node, ast.Tuple):
            values = [self.static(element) for element in node.elts]
            return MISSING if any(value is MISSING for value in values) else tuple(values)
        if isinstance(node, ast.Subscript):  # Color["red"]
            value, key = self.static(node.value), self.static(node.slice)
            if isinstance(value, EnumType) and key in value.__members__:
                return value[key]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.static(node.operand)
            return -value if type(value) in (int, float) else MISSING
        return folded(node)


#: Expressions that Python's compiler may replace by their value, and what they may consist of.
FOLDED = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp)
_WHOLE = {*FOLDED, ast.Tuple, ast.Subscript}
_LITERAL = {*_WHOLE, ast.Constant, ast.Slice, ast.Compare}
#: Python's instructions for starred targets, imports, global names that are set, del, and with.
_UNREAD = {
    dis.opmap.get(name, -1)
    for name in ("UNPACK_EX", "IMPORT_NAME", "STORE_GLOBAL", "DELETE_FAST", "BEFORE_WITH")
}
_LOADS = ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")
_NO_WORK = ("RESUME", "NOP", "CACHE", "RETURN_VALUE")


def folded(node: ast.AST) -> Any:
    """The value of literals that Python's compiler folds, as Numba's input has it; or MISSING."""
    if type(node) is ast.Constant:
        return node.value
    if type(node) not in _WHOLE or not _LITERAL.issuperset(map(type, walk(node))):
        return MISSING
    return _folded(ast.unparse(node))


@cache
def _folded(text: str) -> Any:
    """Asks the compiler itself: what it folds is one constant in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nonsense such as 3[0]
        try:
            code = compile(text, "<literals>", "eval")
        except SyntaxError:  # a slice among several indices, which stands alone nowhere
            return MISSING
    work = [step for step in dis.get_instructions(code) if step.opname not in _NO_WORK]
    return work[0].argval if len(work) == 1 and work[0].opname in _LOADS else MISSING


@dataclass(frozen=True)
class Site:
    """One place in the source that touches memory or synchronises."""

    line: int
    code: str
    array: str
    function: str
    stored: bool = field(default=False, compare=False)  # a load whose value may reach a store
    double: str = field(default="", compare=False)  # what makes its arithmetic float64
    dropped: bool = field(default=False, compare=False)  # a load whose value nobody takes
    copied: bool = field(default=False, compare=False)  # a load whose value only the store takes


def _source_of(function: FunctionType) -> tuple[list[str], ast.FunctionDef]:
    """The lines of a function's source and its syntax tree, whose line numbers fit the lines."""
    name = getattr(function, "__name__", repr(function))
    missing = Unsupported(
        f"the source of {name} cannot be found (typed into a plain Python prompt, or made with "
        "exec): write the kernel in a file or a notebook cell; or run the program with python -m "
        "warpsim, pytest --warpsim or %load_ext warpsim, which note what exec is given"
    )
    if name == "<lambda>":
        return _lambda(function, missing)
    try:
        code = inspect.unwrap(function).__code__
        text = text_of(code, code.co_filename)
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise missing from None
    if getattr(tree, "name", None) != function.__code__.co_name:
        if getattr(function, "__wrapped__", None) is not None:
            raise Unsupported(
                f"{name} is decorated: what runs is {function.__code__.co_name!r}, a function that "
                f"its decorator made around it. Decorate {name} with @cuda.jit alone"
            )
        raise missing  # newer Pythons find lines of another program under the name "<string>"
    if not isinstance(tree, ast.FunctionDef):
        raise Unsupported(f"{name} is not a plain function: write the kernel with def")
    return text.splitlines(), tree


@cache
def text_of(code: CodeType, file: str) -> str:
    """The text of a function: once for all that a factory makes of one code, in one file."""
    linecache.checkcache(file)
    known = lines_of(code) or linecache.getlines(file)  # inspect asks each module for its file
    if known:
        lines = inspect.getblock(known[code.co_firstlineno - 1 :])
    else:
        lines, _ = inspect.getsourcelines(code)
    return textwrap.dedent("".join(lines))


def _lambda(function: FunctionType, missing: Unsupported) -> tuple[list[str], ast.FunctionDef]:
    """A lambda as a function with one return: found in its file by where its code lies."""
    code = function.__code__
    try:
        lines = lines_of(code) or inspect.findsource(function)[0]
        module = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError):
        raise missing from None
    places = [p[0:1] + p[2:3] for p in code.co_positions() if None not in p and p[3] > p[2]]
    found = [
        node
        for node in walk(module)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and [argument.arg for argument in node.args.args] == [*code.co_varnames[: code.co_argcount]]
        and all(
            (node.body.lineno, node.body.col_offset) <= place
            and place < (node.body.end_lineno, node.body.end_col_offset)
            for place in places
        )
    ]
    if not found:
        raise missing
    node = min(found, key=lambda n: (n.end_lineno - n.lineno, n.end_col_offset - n.col_offset))
    return [line.rstrip("\n") for line in lines], with_a_name(node, "lambda_")


def with_a_name(node: ast.Lambda, name: str) -> ast.FunctionDef:
    """A lambda as a function with one return."""
    body = [ast.copy_location(ast.Return(node.body), node.body)]
    return ast.copy_location(ast.FunctionDef(name, node.args, body, []), node)


def read(function: FunctionType) -> Source:
    """Read a kernel's source; an error says that Python cannot find it, or what it must not be."""
    lines, tree = _source_of(function)
    spec, name = tree.args, tree.name
    if inspect.isgeneratorfunction(function):
        raise typing_error(f"{name} has a yield: kernels have no generators")
    if spec.kwarg or spec.kwonlyargs:
        raise Unsupported(f"{name} has **kwargs or keyword-only arguments: name each one")
    rest = [spec.vararg] if spec.vararg else []
    source = Source(
        function=function,
        tree=tree,
        lines=lines,
        environment={**function.__globals__, **_outer_variables(function)},
        arguments=[argument.arg for argument in (*spec.posonlyargs, *spec.args, *rest)],
        assigned=frozenset(),
        takes_rest=bool(rest),
    )
    return complete(source)


def _outer_variables(function: FunctionType) -> dict[str, Any]:
    """The variables that a function finds outside itself; MISSING for one that has no value yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            if name != function.__name__:  # its own is left out
                found[name] = MISSING
    return found


def complete(source: Source) -> Source:
    """A source with the names that its tree assigns, and those that are constant.

    These are set once, to a literal integer or a type: Numba takes them for it, too.
    """
    stores = names(source.tree, ast.Store)
    assigned = frozenset(source.arguments) | frozenset(stores)
    made = replace(source, assigned=assigned, constants={}, told={})
    for node in walk(source.tree):
        name = getattr(node.targets[-1], "id", None) if isinstance(node, ast.Assign) else None
        if name in source.arguments or stores[name] != 1 or len(node.targets) > 1:
            continue
        if type(folded(node.value)) is int:
            made.constants[name] = folded(node.value)
        elif names_no_value(made.static(node.value)):
            made.constants[name] = made.static(node.value)
    return made


def has_no_type(value: Any) -> bool:
    """Is it a class or an object that no name in a kernel may stand for?"""
    if isinstance(value, type):
        known = issubclass(value, np.generic | Enum | BaseException | types.Type)
        return not (known or value.__module__ == "builtins" or hasattr(value, "_fields"))
    plain = isinstance(value, ModuleType | KernelName | types.Type | np.dtype) or callable(value)
    return not plain and of_value(value) is None


def names_no_value(value: Any) -> bool:
    """Is it a type, a function or a module, which a kernel may give another name?"""
    if value is MISSING:
        return False
    if isinstance(value, KernelName):
        return value.path not in VALUES
    named = isinstance(value, types.Number | types.Boolean | ModuleType) or callable(value)
    return named and not isinstance(value, FunctionType) and not has_no_type(value)
