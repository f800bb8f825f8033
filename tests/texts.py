"""Functions and kernels that are made of text, for tables of many small ones."""

import ast
import linecache
from types import FunctionType

from warpsim import cuda


def function_of(text: str, name: str, environment: dict) -> FunctionType:
    """The last function that a source defines, with its source known to ``inspect``."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace, tree = dict(environment), ast.parse(text)
    exec(compile(tree, file, "exec"), namespace)
    return namespace[tree.body[-1].name]


def body_of(parameters: str, body: str, **names) -> FunctionType:
    """``def f`` with these parameters and this body, whose lines follow each other from line 2."""
    text = f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    return function_of(text, body, {"cuda": cuda, **names})
