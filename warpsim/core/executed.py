"""What ``exec``, ``eval`` and ``compile`` were given, so that kernels made of text can be read."""

import __future__

import builtins
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

_FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
#: The lines of the text that a function's code was compiled from.
_lines: dict[CodeType, list[str]] = {}


def lines_of(code: CodeType) -> list[str] | None:
    """The lines of the text in which a function was defined, where it was noted."""
    return _lines.get(code)


def _note(code: CodeType, lines: list[str]) -> None:
    _lines[code] = lines
    for part in code.co_consts:
        if isinstance(part, CodeType):
            _note(part, lines)


def _compiled(real: Any, caller: Any, source: Any, filename: Any, mode: str, flags=0, **more: Any):
    """What the real ``compile`` makes for a caller; a text that lies in no file is noted."""
    if not more.pop("dont_inherit", False):
        flags |= caller.f_code.co_flags & _FEATURES
    code = real(source, filename, mode, flags, True, **more)
    if isinstance(code, CodeType) and isinstance(source, str | bytes):
        if not os.path.exists(filename):
            text = source if isinstance(source, str) else source.decode("utf-8", "replace")
            _note(code, text.splitlines(True))
    return code


@contextmanager
def noting() -> Iterator[None]:
    """Note the texts that are compiled meanwhile; what they do stays the same."""
    real = {name: getattr(builtins, name) for name in ("compile", "exec", "eval")}

    def compile(source, filename, mode, flags=0, dont_inherit=False, optimize=-1, **more):
        more |= {"dont_inherit": dont_inherit, "optimize": optimize}
        return _compiled(real["compile"], sys._getframe(1), source, filename, mode, flags, **more)

    def run(mode: str):
        @functools.wraps(real[mode])
        def runs(source, globals=None, locals=None, **more):
            caller = sys._getframe(1)
            if isinstance(source, str | bytes):
                text = source.lstrip(" \t" if isinstance(source, str) else b" \t")
                source = text if mode == "eval" else source
                source = _compiled(real["compile"], caller, source, "<string>", mode)
            if globals is None:
                globals = caller.f_globals
                if locals is None:  # since 3.13 no dict inside a function
                    found = caller.f_locals
                    locals = found if isinstance(found, dict) else dict(found)
            return real[mode](source, globals, globals if locals is None else locals, **more)

        return runs

    builtins.compile, builtins.exec, builtins.eval = compile, run("exec"), run("eval")
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(builtins, name, function)
