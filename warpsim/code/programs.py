"""From a kernel's function to lane programs: read once, typed and translated for each signature.

A thread that finds something missing makes it under Numba's own lock of compilation: what is being
made is seen by no other, and Numba's typing rules, which are asked meanwhile, are Numba's to guard.
What is there is read without a lock.
"""

from __future__ import annotations

import ast
import copy
import weakref
from collections import Counter
from dataclasses import dataclass, replace
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from numba import types
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.errors import TypingError, UnsupportedError

from warpsim.code.kept import Facts, Kept, Signature, Variant, kept_of
from warpsim.code.likeness import asked_together, likeness, shape
from warpsim.code.statements import LaneProgram, Writer, bound, is_covered
from warpsim.front.calls import is_number_class
from warpsim.front.closures import Inner, hand_over, lift
from warpsim.front.names import MISSING, KernelName, NotYet, Source, Unsupported, read, typing_error
from warpsim.front.nodes import names
from warpsim.front.rewriting import rewrite, without_match
from warpsim.front.types import Typer, Typing
from warpsim.watch.store_flow import dropped_loads, stored_arguments

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

    def __init__(
        self, function: FunctionType | Source, shape: tuple | None = None, kept: Kept | None = None
    ):
        self._function = function
        if isinstance(function, Source):
            self.arguments, self._takes_rest = function.arguments, function.takes_rest
        else:
            code = function.__code__
            self._takes_rest = code.co_flags & CO_VARARGS > 0
            self.arguments = [*code.co_varnames[: code.co_argcount + self._takes_rest]]
        self.shape, self.kept = shape, kept  # of others that share it, and what is known of them
        self._source: Source | None = None
        self.loads_unordered = False  # a launch loaded what others store, with nothing in between
        self.racing: set = set()  # places of loads that see, or stores that make, what changes
        self.judged: dict[Any, tuple[int, bool]] = {}  # on other data: how often, a race?
        self.alike: frozenset[str] | None = None  # arrays whose unordered stores are settled
        self._touches: tuple[frozenset[int], frozenset[int]] | None = None
        self._looking = False
        self.bound: dict[tuple, Program] = {}
        self._known: dict[Signature, Variant] = {}
        self._unset = False
        self._typings: dict[Signature, Typing] = {}
        self._guesses: dict[Signature, Any] = {}  # results of what calls itself, while it is typed
        self._recursive: set[Signature] = set()
        self._programs: dict[tuple[Signature, bool, bool, bool, bool], LaneProgram] = {}
        if kept is None or not kept.variants:
            self.source  # noqa: B018 - what cannot be read is refused at once

    @property
    def source(self) -> Source:
        """The function as it is read, spelled out in simpler words."""
        return self._source or self._read()

    @one_at_a_time
    def _read(self) -> Source:
        if self._source is None:
            function = self._function
            key = None if isinstance(function, Source) else shape(function, read_alone=True)
            found = _readings.get(key)
            if found is None:
                first = function if isinstance(function, Source) else read(function)
                source = lift(without_match(first))
            else:
                source = found.renewed(function)
            if source.name not in source.assigned:  # a declared function has no value yet
                source.environment.setdefault(source.name, _Itself(source.function))
            if found is None:
                rewrite(source)
                hand_over(source)
                if not _bind_functions(source) and source is first and key is not None:
                    _readings[key] = source
                source.told.clear()  # the tree is another one now
            self._unset = any(value is MISSING for value in source.environment.values())
            self._source = source
        return self._source

    def packed(self, values: tuple) -> tuple:
        """What a launch gives, with what ``*args`` takes in a tuple of its own."""
        if not self._takes_rest:
            return tuple(values)
        own = len(self.arguments) - 1
        return *values[:own], tuple(values[own:])

    # ------------------------------------------------------------------ what callers ask
    def facts(self, signature: Signature, callers: tuple[Program, ...] = ()) -> Facts | Typing:
        """What a caller asks for some argument types."""
        found = self._known.get(signature)
        alone = self.kept is None or signature in self._typings
        if found is None and not alone and self._is_as_it_was():
            found = self._fitting(signature)
        if found is None:
            typing = self.typing(signature, callers)
            found = self._learn(signature)
        return typing if found is None else found.facts

    def _noted(self, signature: Signature) -> Facts | None:
        """The same as a caller may note it; None if that has to ask more."""
        found = self.facts(signature)
        if isinstance(found, Facts):
            return found
        more = found.recursive or found.optional
        return None if more else Facts(found.result, *self.touches, found.makes)

    def _is_as_it_was(self) -> bool:
        """Whether what it finds outside itself is still what its shape says."""
        return self.shape is not None and shape(self._function) == self.shape

    @one_at_a_time
    def _fitting(self, signature: Signature) -> Variant | None:
        """What is known of a function of this shape, if it calls functions of the same facts."""
        for variant in self.kept.variants.get(signature, ()):
            try:
                fits = all(self._is_so(*need) for need in variant.needs)
            except (TypingError, UnsupportedError):
                return None  # a call is refused, as typing will tell
            if fits:
                self._known[signature] = variant
                return variant
        return None

    def _is_so(self, name: str, signature: Signature | None, facts: Facts) -> bool:
        inner = self._outside(name)
        if signature is None:
            return inner.touches == (facts.stores, facts.unread)
        return inner._noted(signature) == facts

    def _outside(self, name: str) -> Program:
        """The program of a function that lies outside this one under a name."""
        function = self._function
        if isinstance(function, Source):
            function = function.function
        if name in function.__code__.co_freevars:
            number = function.__code__.co_freevars.index(name)
            return program_of(function.__closure__[number].cell_contents)
        return program_of(function.__globals__[name])

    @property
    def touches(self) -> tuple[frozenset[int], frozenset[int]]:
        """The positions of the arguments that it may change, and that it never looks at."""
        return self._touches or self._touched()

    @one_at_a_time
    def _touched(self) -> tuple[frozenset[int], frozenset[int]]:
        for known in self._known.values():
            self._touches = known.facts.stores, known.facts.unread
            return self._touches
        reads, own = self.source.loads, dict(enumerate(self.arguments))
        unread = frozenset(n for n, name in own.items() if name not in reads)
        if self._looking:
            return frozenset(own), unread  # recursion: refused later
        self._looking = True
        try:
            names = stored_arguments(self.source, lambda one: program_of(one).touches[0])
        finally:
            self._looking = False
        self._touches = frozenset(n for n, name in own.items() if name in names), unread
        return self._touches

    @property
    def stored(self) -> frozenset[str]:
        """The arguments whose elements the function may change."""
        return frozenset(self.arguments[n] for n in self.touches[0])

    @one_at_a_time
    def _learn(self, signature: Signature) -> Variant | None:
        """Note what typing has found, for functions of this shape; None where it serves none."""
        found = self._known.get(signature)
        if found is not None or self.kept is None:
            return found
        typing, source = self.typing(signature), self.source
        if typing.needs is None or typing.recursive or typing.optional:
            return None
        called, asked = {}, source.once(_compared).copy()
        for node in source.calls:
            function = source.static(node.func)
            if hasattr(function, "py_func"):
                called[source.outside_name(node.func, function)] = function
                asked[getattr(node.func, "id", None)] += 1
        loaded = source.loads - asked
        as_values = (source.environment.get(name) for name in loaded if name not in source.assigned)
        if None in called or any(hasattr(value, "py_func") for value in as_values):
            return None  # it does more with a function than call it
        touched = [(n, None, Facts(types.none, *program_of(f).touches)) for n, f in called.items()]
        needs = tuple(dict.fromkeys((*typing.needs, *touched)))
        facts = Facts(typing.result, *self.touches, typing.makes)
        found = self._known[signature] = Variant(needs, facts)
        self.kept.add(signature, found)
        return found

    # ------------------------------------------------------------------ types
    def typing(self, signature: Signature, callers: tuple[Program, ...] = ()) -> Typing:
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
        needs: tuple | None = ()

        def callee(source: Source, node: ast.AST, function: Any, arguments: Signature) -> Typing:
            nonlocal needs
            inner = program_of(function)
            if inner is not self and inner in callers:
                raise source.refused(
                    node,
                    f"recursion by way of other functions: {inner.source.name} calls itself; "
                    "Numba-CUDA takes a function that calls itself directly",
                )
            wanted = len(inner.source.arguments)
            if len(arguments) != wanted:
                words = f"{inner.source.name} takes {wanted} arguments, {len(arguments)} given"
                raise source.refused(node, words)
            if inner is self and arguments in self._guesses:
                return self._guessed(source, node, arguments)
            if inner is self and any(
                one != other and not isinstance(one, types.Array)  # it may only lie otherwise
                for one, other in zip(arguments, signature, strict=True)
            ):
                given = [", ".join(map(str, kinds)) for kinds in (arguments, signature)]
                raise source.refused(node, OTHER_TYPES.format(self.source.name, *given))
            try:
                if inner is self:
                    return inner.typing(arguments, (*callers, self))
                found, name = inner.facts(arguments, (*callers, self)), None
                if needs is not None and self.kept is not None:
                    name, noted = source.outside_name(node.func, function), inner._noted(arguments)
                needs = (*needs, (name, arguments, noted)) if name and noted else None
            except TypingError as error:
                raise typing_error(
                    f"{error.args[0]}\n\nDuring: resolving callee type: "
                    f"type(CUDADispatcher({inner.source.name}))\n"
                    f"line {source.line(node)} of {source.name}:\n"
                    f"    {source.code(source.line(node))}"
                ) from None
            if found.makes:
                inner.typing(arguments).check_result(function)
            return found

        guess = self._guesses[signature] = MISSING
        try:
            for _ in range(MOST_PASSES):
                source = self.source
                if any(isinstance(one, ast.Starred) for call in source.calls for one in call.args):
                    source = replace(source, tree=copy.deepcopy(source.tree), told={})
                found = Typer(source, signature, callee).run()
                if signature not in self._recursive or found.result == guess:
                    break
                if not found.returns:
                    raise typing_error(RUNAWAY.format(self.source.name))
                guess = self._guesses[signature] = found.result
            else:
                text = f"Return type of recursive function does not converge: {self.source.name}"
                raise typing_error(text)
        except TypingError:
            if self._unset:  # what it lacks may be there the next time
                _programs.pop(self.source.function, None)
            raise
        finally:
            del self._guesses[signature]
        found.needs = needs
        if self.shape is not None and not self._is_as_it_was():
            found.needs = None
            for key in [key for key, one in _shared.items() if one is self]:
                del _shared[key]  # it is like those no more that are made from now on
        found.recursive = signature in self._recursive
        found.dropped = dropped_loads(found.source, lambda one: program_of(one).touches[1])
        self._typings[signature] = found
        return found

    def _guessed(self, source: Source, node: ast.AST, signature: Signature) -> Typing:
        """What a call of the function by itself gives, as far as is known."""
        if next(reversed(self._guesses)) != signature:
            raise source.unsupported(node, "recursion by way of other types of the arguments")
        self._recursive.add(signature)
        if self._guesses[signature] is MISSING:
            raise NotYet
        return Typing(source, signature, self._guesses[signature])

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
        found = self._programs.get(key)
        if found is None:
            with one_at_a_time, asked_together():
                found = self._programs.get(key) or self._written(key)
        return found

    def _written(self, key: tuple[Signature, bool, bool, bool, bool]) -> LaneProgram:
        """A lane program with its calls: of a shell that is known, or one that is written now."""
        signature, *how = key
        result = self.facts(signature).result
        traced, device, _, costs = how = tuple(how)
        if not device and not isinstance(result, types.NoneType):
            raise typing_error(
                f"CUDA kernel must have void return type: {self.source.name} returns {result}; "
                "write the result into an array"
            )
        known = self._known.get(signature)
        shell = known.shell(how) if known is not None else None
        if shell is None:
            writer = Writer(self.typing(signature), how)
            shell = writer.shell()
            if known is not None and writer.keeps and self._is_as_it_was():
                known.shells[how] = shell
                self.kept.is_new = True
        calls = []
        for _, _, function, kinds in shell.calls:
            inner = self._outside(function) if type(function) is str else program_of(function)
            calls.append(inner.lane_program(kinds, traced, device=True, costs=costs))
        found = self._programs[key] = bound(shell, result, calls)
        return found


def _compared(source: Source) -> Counter[str]:
    """How often names are compared with constants."""
    sides = [(n.left, n.comparators[0]) for n in source.nodes if isinstance(n, ast.Compare)]
    return Counter(
        a.id for a, b in sides if isinstance(a, ast.Name) and isinstance(b, ast.Constant)
    )


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
            source = replace(
                source,
                arguments=[name for name in source.arguments if name not in given],
                environment={**source.environment, **given},
                assigned=source.assigned - given.keys(),
            )
            made[self.given] = Program(source)
        return made[self.given]


def _is_function_or_type(value: Any) -> bool:
    if isinstance(value, KernelName):
        return value.path.startswith(("atomic.", "pieces."))
    return is_number_class(value) or hasattr(value, "py_func")


def _bind_functions(source: Source) -> bool:
    """Calls of device functions with functions or types among the arguments: bind those, if any.

    In such calls integers and truth values known when compiled are bound, too: they may be shapes
    of arrays and choose branches.
    """
    any_bound = False
    for node in source.calls:
        function = source.static(node.func)
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
            any_bound = True
    return any_bound


_programs: weakref.WeakKeyDictionary[FunctionType, Program] = weakref.WeakKeyDictionary()
#: By what functions that are alike have in common, and whether coverage.py measures their lines.
_shared: dict[tuple[Any, bool], Program] = {}
#: By what functions have in common that are read alike.
_readings: dict[tuple | None, Source] = {}


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
        found = _shared.get((number, is_measured))
        if found is None:
            form = None if number is None else shape(function)
            # what coverage.py measures has the lines of one file
            alone = form is None or is_measured
            found = Program(function, form, None if alone else kept_of(form))
        if number is not None:
            _shared[number, is_measured] = found
        _programs[function] = found
    return found
