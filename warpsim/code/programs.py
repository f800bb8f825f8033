"""From a kernel's function to lane programs: read once, typed and translated for each signature.

A thread that finds something missing makes it under Numba's own lock of compilation: what is being
made is seen by no other, and Numba's typing rules, which are asked meanwhile, are Numba's to guard.
What is there is read without a lock.
"""

from __future__ import annotations

import ast
import copy
import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.errors import TypingError

from warpsim.code.likeness import likeness
from warpsim.code.statements import LaneProgram, Writer, is_covered
from warpsim.front.closures import Inner, hand_over, lift
from warpsim.front.names import MISSING, KernelName, NotYet, Source, Unsupported, read, typing_error
from warpsim.front.nodes import names, walk
from warpsim.front.rewriting import rewrite
from warpsim.front.types import Typer, Typing
from warpsim.watch.store_flow import dropped_loads, stored_arguments

Signature = tuple[types.Type, ...]


#: Passes over a function that calls itself until the type of its result stands still.
MOST_PASSES = 8
OTHER_TYPES = (
    "{} calls itself with arguments of types {}, but was called with {}: Numba-CUDA has no code "
    "for that (insert_unresolved_ref); call it with those types, a variable instead of a literal"
)
RUNAWAY = "cannot type infer runaway recursion: no way through {} ends without a call of itself"


@dataclass(frozen=True)
class _Itself:
    """A function inside itself, before its name has a value."""

    py_func: FunctionType


class Program:
    """All translations of one function."""

    def __init__(self, function: FunctionType | Source):
        self.source = lift(function if isinstance(function, Source) else read(function))
        name = self.source.name
        if name not in self.source.assigned:  # a declared function has no value yet
            self.source.environment.setdefault(name, _Itself(self.source.function))
        rewrite(self.source)
        hand_over(self.source)
        _bind_functions(self.source)
        self.loads_unordered = False  # a launch loaded what others store, with nothing in between
        self.racing: set = (
            set()
        )  # places of loads that see, or stores that make, what does not stay
        self.judged: dict[Any, tuple[int, bool]] = {}  # on other data: how often, a race?
        self.alike: frozenset[str] | None = None  # arrays whose unordered stores are settled
        self._stored: frozenset[str] | None = None
        self._looking = False
        self._unset = any(value is MISSING for value in self.source.environment.values())
        self.bound: dict[tuple, Program] = {}
        self._typings: dict[Signature, Typing] = {}
        self._guesses: dict[Signature, Any] = {}  # results of what calls itself, while it is typed
        self._recursive: set[Signature] = set()
        self._writing: set[tuple] = set()
        self._programs: dict[tuple[Signature, bool, bool, bool, bool], LaneProgram] = {}

    def typing(self, signature: Signature, callers: tuple[Program, ...] = ()) -> Typing:
        """The types of all variables for some argument types."""
        return self._typings.get(signature) or self._typed(signature, callers)

    @one_at_a_time
    def _typed(self, signature: Signature, callers: tuple[Program, ...]) -> Typing:
        found = self._typings.get(signature)
        if found is not None:
            return found
        wanted = len(self.source.arguments)
        if len(signature) != wanted:
            raise TypeError(
                f"{self.source.name} takes {wanted} arguments "
                f"({', '.join(self.source.arguments)}), {len(signature)} given"
            )

        def callee(source: Source, node: ast.AST, function: Any, arguments: Signature) -> Typing:
            inner = program_of(function)
            if inner is not self and inner in callers:
                raise source.refused(
                    node,
                    f"recursion by way of other functions: {inner.source.name} calls itself; "
                    "Numba-CUDA takes a function that calls itself directly",
                )
            if len(arguments) != len(inner.source.arguments):
                raise source.refused(
                    node,
                    f"{inner.source.name} takes {len(inner.source.arguments)} arguments, "
                    f"{len(arguments)} given",
                )
            if inner is self and arguments in self._guesses:
                return self._guessed(source, node, arguments)
            if inner is self and any(
                one != other and not isinstance(one, types.Array)  # it may only lie otherwise
                for one, other in zip(arguments, signature, strict=True)
            ):
                given = [", ".join(map(str, kinds)) for kinds in (arguments, signature)]
                raise source.refused(node, OTHER_TYPES.format(self.source.name, *given))
            try:
                return inner.typing(arguments, (*callers, self))
            except TypingError as error:
                raise typing_error(
                    f"{error.args[0]}\n\nDuring: resolving callee type: "
                    f"type(CUDADispatcher({inner.source.name}))\n"
                    f"line {source.line(node)} of {source.name}:\n"
                    f"    {source.code(source.line(node))}"
                ) from None

        guess = self._guesses[signature] = MISSING
        try:
            for _ in range(MOST_PASSES):
                found = Typer(self._fresh(), signature, callee).run()
                if signature not in self._recursive or found.result == guess:
                    break
                if not found.returns:
                    raise typing_error(RUNAWAY.format(self.source.name))
                guess = self._guesses[signature] = found.result
            else:
                raise typing_error(
                    f"Return type of recursive function does not converge: {self.source.name}"
                )
        except TypingError:
            if self._unset:  # what it lacks may be there the next time
                _programs.pop(self.source.function, None)
            raise
        finally:
            del self._guesses[signature]
        found.recursive = signature in self._recursive
        found.dropped = dropped_loads(found.source, _unread_positions)
        self._typings[signature] = found
        return found

    def _fresh(self) -> Source:
        if any(isinstance(node, ast.Starred) for node in walk(self.source.tree)):
            return replace(self.source, tree=copy.deepcopy(self.source.tree))  # * is spelled out
        return self.source

    def _guessed(self, source: Source, node: ast.AST, signature: Signature) -> Typing:
        """What a call of the function by itself gives, as far as is known."""
        if next(reversed(self._guesses)) != signature:
            raise source.unsupported(node, "recursion by way of other types of the arguments")
        self._recursive.add(signature)
        if self._guesses[signature] is MISSING:
            raise NotYet
        return Typing(source, signature, self._guesses[signature])

    @property
    @one_at_a_time
    def stored(self) -> frozenset[str]:
        """The arguments whose elements the function may change."""
        if self._stored is not None:
            return self._stored
        if self._looking:
            return frozenset(self.source.arguments)  # recursion: refused later
        self._looking = True
        try:
            self._stored = stored_arguments(self.source, _stored_positions)
        finally:
            self._looking = False
        return self._stored

    @cached_property
    def unread(self) -> frozenset[int]:
        """The positions of the arguments that the function never looks at."""
        reads = names(self.source.tree, ast.Load)
        return frozenset(n for n, name in enumerate(self.source.arguments) if name not in reads)

    def lane_program(
        self,
        signature: Signature,
        traced: bool,
        device: bool,
        checked: bool = False,
        costs: bool = True,
    ) -> LaneProgram:
        """The translation for some argument types.

        If it is ``traced``, it looks for errors, and counts ``costs``. If it is ``checked``, a
        division by zero is an error, as under ``debug=True``.
        """
        key = (signature, traced, device, checked, traced and costs)
        return self._programs.get(key) or self._written(key)

    @one_at_a_time
    def _written(self, key: tuple[Signature, bool, bool, bool, bool]) -> LaneProgram:
        signature, traced, device, *more = key
        found = self._programs.get(key)
        if found is None and key in self._writing:  # it calls itself
            return LaneProgram(self.source.name, "", None, (), result=self.typing(signature).result)
        result = self.typing(signature).result
        if not device and not isinstance(result, types.NoneType):
            raise typing_error(
                f"CUDA kernel must have void return type: {self.source.name} returns {result}; "
                "write the result into an array"
            )
        if found is None:
            self._writing.add(key)
            try:
                writer = Writer(self.typing(signature), device, traced, _device_program, *more)
                found = self._programs[key] = writer.program()
            finally:
                self._writing.discard(key)
        return found


def _stored_positions(function: Any) -> list[int]:
    program = program_of(function)
    return [i for i, name in enumerate(program.source.arguments) if name in program.stored]


def _unread_positions(function: Any) -> frozenset[int]:
    return program_of(function).unread


def _device_program(function: Any, signature: Signature, traced: bool, costs: bool) -> LaneProgram:
    return program_of(function).lane_program(signature, traced, device=True, costs=costs)


# ---------------------------------------------------------------------- functions as arguments
@dataclass(frozen=True)
class _Bound:
    """A device function of which some arguments are functions or types, known when compiled."""

    py_func: FunctionType
    given: tuple[tuple[str, Any], ...]
    inline: Any

    @property
    def targetoptions(self) -> dict[str, Any]:
        return {"inline": self.inline}

    def program(self) -> Program:
        made = program_of(self.py_func).bound
        if self.given not in made:
            source, given = read(self.py_func), dict(self.given)
            made[self.given] = Program(
                replace(
                    source,
                    tree=copy.deepcopy(source.tree),
                    arguments=[name for name in source.arguments if name not in given],
                    environment={**source.environment, **given},
                    assigned=source.assigned - given.keys(),
                )
            )
        return made[self.given]


def _is_function_or_type(value: Any) -> bool:
    if isinstance(value, KernelName):
        return value.path.startswith(("atomic.", "pieces."))
    scalar = isinstance(value, type) and issubclass(value, np.generic)
    return scalar or isinstance(value, types.Type) or hasattr(value, "py_func")


def _bind_functions(source: Source) -> None:
    """Calls of device functions with functions or types among the arguments: bind those.

    In such calls integers and truth values known when compiled are bound, too: they may be shapes
    of arrays and choose branches.
    """
    for node in walk(source.tree):
        function = source.static(node.func) if isinstance(node, ast.Call) else MISSING
        if not hasattr(function, "py_func") or isinstance(function, _Bound) or node.keywords:
            continue
        values = [source.static(argument) for argument in node.args]
        if not any(_is_function_or_type(value) for value in values):
            continue
        inner = program_of(function).source
        stores = names(inner.tree, ast.Store)
        given, kept = [], []
        for name, value, argument in zip(inner.arguments, values, node.args):
            whole = value if isinstance(value, tuple) else (value,)
            number = all(type(part) in (int, bool) for part in whole)
            if name not in stores and (_is_function_or_type(value) or number):
                given.append((name, value))
            else:
                kept.append(argument)
        if len(node.args) == len(inner.arguments):
            inline = getattr(function, "targetoptions", {}).get("inline", "never")
            bound = _Bound(function.py_func, tuple(given), inline)
            node.func = ast.copy_location(ast.Constant(bound), node.func)
            node.args = kept


_programs: weakref.WeakKeyDictionary[FunctionType, Program] = weakref.WeakKeyDictionary()
#: By what functions that are alike have in common, and whether coverage.py measures their lines.
_shared: dict[tuple[int | None, bool], Program] = {}


def program_of(kernel: Any) -> Program:
    """The program of a kernel of the simulator, of ``numba.cuda``, or of a plain function."""
    function = getattr(kernel, "py_func", kernel)
    plain = isinstance(function, FunctionType) and not isinstance(kernel, _Bound | Inner)
    return plain and _programs.get(function) or _read(kernel, function)


@one_at_a_time
def _read(kernel: Any, function: Any) -> Program:
    if isinstance(kernel, _Bound):
        return kernel.program()
    if isinstance(kernel, Inner):
        if kernel.made is None:
            kernel.made = Program(kernel.source)
        return kernel.made
    if not isinstance(function, FunctionType):
        raise Unsupported(f"{kernel!r} is not a kernel: give a function decorated with @cuda.jit")
    found = _programs.get(function)
    if found is None:
        number, is_measured = likeness(function), is_covered()
        found = _shared.get((number, is_measured)) or Program(function)
        if number is not None:
            _shared[number, is_measured] = found
        _programs[function] = found
    return found
