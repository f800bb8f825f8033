"""From a kernel's function to lane programs: read once, typed and translated for each signature."""

from __future__ import annotations

import ast
import weakref
from functools import cached_property
from types import FunctionType
from typing import Any

from numba import types

from course.simt.names import Source, Unsupported, read
from course.simt.races import stored_arguments
from course.simt.statements import LaneProgram, Writer
from course.simt.types import Typer, Typing

Signature = tuple[types.Type, ...]


class Program:
    """All translations of one function."""

    def __init__(self, function: FunctionType):
        self.source: Source = read(function)
        self._looking = False
        self._typings: dict[Signature, Typing] = {}
        self._programs: dict[tuple[Signature, bool, bool], LaneProgram] = {}

    def typing(self, signature: Signature, callers: tuple[Program, ...] = ()) -> Typing:
        """The types of all variables for some argument types."""
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
            if inner is self or inner in callers:
                raise source.unsupported(node, f"recursion: {inner.source.name} calls itself")
            if len(arguments) != len(inner.source.arguments):
                raise source.refused(
                    node,
                    f"{inner.source.name} takes {len(inner.source.arguments)} arguments, "
                    f"{len(arguments)} given",
                )
            return inner.typing(arguments, (*callers, self))

        found = self._typings[signature] = Typer(self.source, signature, callee).run()
        return found

    @cached_property
    def stored(self) -> frozenset[str]:
        """The arguments whose elements the function may change."""
        if self._looking:
            return frozenset(self.source.arguments)  # recursion: refused later
        self._looking = True
        try:
            return stored_arguments(self.source, _stored_positions)
        finally:
            self._looking = False

    def lane_program(self, signature: Signature, traced: bool, device: bool) -> LaneProgram:
        """The translation for some argument types, with or without counting."""
        key = (signature, traced, device)
        found = self._programs.get(key)
        if found is None:
            writer = Writer(self.typing(signature), device, traced, _device_program)
            found = self._programs[key] = writer.program()
        return found


def _stored_positions(function: Any) -> list[int]:
    program = program_of(function)
    return [i for i, name in enumerate(program.source.arguments) if name in program.stored]


def _device_program(function: Any, signature: Signature, traced: bool) -> LaneProgram:
    return program_of(function).lane_program(signature, traced, device=True)


_programs: weakref.WeakKeyDictionary[FunctionType, Program] = weakref.WeakKeyDictionary()


def program_of(kernel: Any) -> Program:
    """The program of a kernel of the simulator, of ``numba.cuda``, or of a plain function."""
    function = getattr(kernel, "py_func", kernel)
    if not isinstance(function, FunctionType):
        raise Unsupported(f"{kernel!r} is not a kernel: give a function decorated with @cuda.jit")
    found = _programs.get(function)
    if found is None:
        found = _programs[function] = Program(function)
    return found
