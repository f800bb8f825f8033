"""What was handed to `check`: a kernel, a function, a stub, or something else by mistake."""

from __future__ import annotations

import ast
import contextlib
import dis
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from course.checks.exercises import Exercise
from course.checks.verdicts import Failure
from warpsim.core.words import count
from warpsim.front.names import Unsupported
from warpsim.run.kernel import Kernel

# A part of Numba's messages that says where in Numba it happened, not what is wrong.
NOISE = (
    "Failed in ", "During: ", "There are ", "- Resolution failure", "- argument",
    "For more information", "This error may have been caused", "To see Python/NumPy features",
    "If you think your code should work",
)  # fmt: skip
# Paths and Numba's inner names, and what stands for them.
CLEANED = (
    (r",? defined at \S+ \(\d+\)", ""),
    (r"\.*\s*Raised from None$", "."),
    (r"Function\(<(?:built-in )?function (\w+)[^>]*>\)", r"\1"),
    (r"'(\w+)\.\d+'", r"'\1'"),
)
# Modules that judge answers.
JUDGING = re.compile(r"course\.checks\b|course_lessons\.lesson\d\d\.\w*(exercises|judges)$")
READING = ("LOAD_GLOBAL", "LOAD_NAME")  # instructions that read a global name
# Classes of ufuncs that run on the GPU: numba.cuda's, and the simulator's.
GPU_UFUNCS = {"CUDAUFuncDispatcher", "CUDAGeneralizedUFunc", "Vectorized", "GeneralisedUfunc"}
CANNOT_COMPILE = "Numba cannot compile this: "
CANNOT_SIMULATE = "The simulator cannot run this, though Numba may compile it: "
# How the simulator says where: "..., line 3 of square:", the source below it, and what to do.
SIMULATED_PLACE = re.compile(r"(?:,|\n)\s*line (\d+) of (\w+):\s*\n\s*(.+)(?:\n(.+))?\s*$")
ESSENTIAL = re.compile(
    r"NameError|No implementation of function|Unknown attribute|cannot determine Numba type|"
    r"Cannot unify|is not defined|Unsupported|not supported|Invalid use of|Use of|cannot assign|"
    r"No match|Cannot resolve"
)


def plain_function(kernel: Any) -> FunctionType | None:
    """The Python function under a kernel or other dispatcher, or the function itself."""
    function = getattr(kernel, "py_func", kernel)
    return function if isinstance(function, FunctionType) else None


def calls_device_function(function: FunctionType) -> bool:
    """Whether a kernel's text calls a device function, by name."""
    return any(map(_is_device_function, names_in_reach(function).values()))


def _is_device_function(value: Any) -> bool:
    options = getattr(value, "targetoptions", None) or {}
    return getattr(value, "device", None) is True or bool(options.get("device"))


def source_tree(function: Callable[..., Any]) -> ast.AST | None:
    """The parsed source of a function, or None where Python cannot find it."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def function_node(kernel: Any) -> ast.FunctionDef | None:
    """The parsed `def` of a kernel, which is line 1; None where there is no source."""
    function = plain_function(kernel)
    tree = source_tree(function) if function is not None else None
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    ast.increment_lineno(tree.body[0], 1 - tree.body[0].lineno)
    return tree.body[0]


def looks_like_a_stub(function: Callable[..., Any] | None, *, given_lines: bool = False) -> bool:
    """Whether a function's body is still `pass`, `...` or `raise NotImplementedError`.

    With `given_lines` the stub may have lines of its own before that, as those of kernels have:
    indices, shared arrays, a loop. What touches an argument's elements, or asks `if`, is a
    student's.
    """
    if (whole := function_node(function)) is None:
        return False
    body = whole.body[1:] if ast.get_docstring(whole) is not None else whole.body
    if not body or not _is_placeholder(body[-1]):
        return False
    if not given_lines:
        return all(map(_is_placeholder, body))
    arguments = {argument.arg for argument in whole.args.args}
    return not any(
        isinstance(node, ast.If | ast.While | ast.Return)
        or (isinstance(node, ast.Subscript) and ast.unparse(node.value) in arguments)
        for statement in body
        for node in ast.walk(statement)
    )


def is_as_given(function: Callable[..., Any] | None, given: str) -> bool:
    """Whether a function is still what the student's cell gives, whatever its lines are."""
    tree = source_tree(function) if function is not None else None
    return tree is not None and _without_placeholders(tree.body) in (
        _without_placeholders([node]) for node in ast.parse(given).body
    )


def _without_placeholders(body: list[ast.stmt]) -> list[str]:
    """Statements as text, all placeholders alike; the docstring of a function is left out."""
    kept = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
        for child in ast.walk(node):
            if isinstance(inner := getattr(child, "body", None), list):
                inner[:] = [ast.Pass() if _is_placeholder(each) else each for each in inner]
        kept.append(ast.unparse(node))
    return kept


def _is_placeholder(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise) and node.exc is not None:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.unparse(error) == "NotImplementedError"
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and getattr(node.value, "value", None) is ...
    )


def never_returns(function: Callable[..., Any] | None) -> bool:
    """Whether the source of a function has no `return` with a value; not that of inner ones."""
    if (whole := function_node(function)) is None:
        return False
    left = list(whole.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return False
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))
    return True


def line_of(function: FunctionType, number: int) -> tuple[int | None, str | None]:
    """A line of the file as counted from `def` = 1, and its source."""
    try:
        lines, start = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None, None
    definition = next(
        (i for i, text in enumerate(lines) if text.lstrip().startswith(("def ", "async def "))), 0
    )
    offset = number - max(start, 1)
    if not 0 <= offset < len(lines):
        return None, None
    return offset - definition + 1, lines[offset].strip()


def kernel_fault(name: str, answer: Any) -> str | None:
    """Why an answer is no kernel, in a sentence that says what to do; None if it is one."""
    call = f"check({name!r}, your_kernel)"
    if answer is None:
        return (
            "check was given None. Give it the kernel itself, by its name and without brackets: "
            f"{call}. A launch such as kernel[grid, block](...) returns None."
        )
    if inspect.isclass(answer):
        return f"{answer.__name__} is a class; an answer is a kernel: a function under @cuda.jit."
    base_names = {base.__name__ for base in type(answer).__mro__}
    if "CPUDispatcher" in base_names:
        return (
            f"{answer.__name__} is compiled for the CPU, by @njit or @jit. "
            "Write @cuda.jit above it, with `from course import cuda`."
        )
    if isinstance(answer, FunctionType):
        return (
            f"{answer.__name__} is a plain Python function, not a kernel yet. "
            "Write @cuda.jit on the line above its def."
        )
    inner = getattr(answer, "dispatcher", None) or getattr(answer, "kernel", None)
    if plain_function(answer) is None and plain_function(inner) is not None:
        return f"That is a kernel with its launch configuration. Leave out [grid, block]: {call}."
    if _is_device_function(answer):
        return (
            f"{answer.__name__} is a device function: only kernels can call it. "
            "Take device=True out of its @cuda.jit."
        )
    if plain_function(answer) is None:
        kind = type(answer).__name__
        return f"check was given a value of type {kind}, not a kernel. Give the kernel: {call}."
    return None


def function_fault(name: str, answer: Any) -> str | None:
    """Why an answer is no function that can be called, or None if it is one."""
    if answer is None:
        return (
            f"check was given None. Give it the function itself: check({name!r}, your_function), "
            "by its name and without brackets."
        )
    if inspect.isclass(answer):
        return f"{answer.__name__} is a class; this exercise asks for a function."
    compiled = getattr(answer, "dispatcher", None) or getattr(answer, "kernel", None) or answer
    if is_gpu_kernel(compiled) or isinstance(compiled, Kernel):
        return (
            f"{compiled.__name__} is compiled for the GPU; this exercise asks for a plain Python "
            "function. Take @cuda.jit away above its def."
        )
    if not callable(answer):
        return (
            f"check was given a value of type {type(answer).__name__}, not a function. "
            "Give the function itself, not the result of calling it."
        )
    return None


def ufunc_fault(answer: Any) -> str | None:
    """Why an answer is no ufunc that runs on the GPU, or None if it is one."""
    kinds = {base.__name__ for base in type(answer).__mro__}
    if kinds & GPU_UFUNCS:
        return None
    if kinds & {"DUFunc", "ufunc", "CPUDispatcher", "GUFunc"}:
        what = "runs on the CPU"
    elif isinstance(answer, FunctionType | np.vectorize):
        what = "runs in Python, on the host"
    elif is_gpu_kernel(answer) or isinstance(answer, Kernel):
        what = "is a kernel or device function"
    else:
        what = f"is of type {type(answer).__name__}"
    name = getattr(answer, "__name__", "") or "Your answer"
    return (
        f"{name} {what}; this exercise asks for a ufunc that runs on the GPU. Write "
        "@cuda.vectorize([...]) with its signatures on the line above def, and nothing else there."
    )


def refuse_borrowed(answer: Any, exercise: Exercise) -> None:
    """Raise Failure("borrowed") where an answer is, or calls, what judges it.

    Followed are the global names and closures of the answer and of functions beside it.
    """
    function = plain_function(answer)
    known = (exercise.reference, getattr(exercise, "judge", None), *exercise.solved_by)
    solutions = {_code(inspect.unwrap(each)) for each in known if each is not None}
    left, seen = [("Your answer", answer)], set()
    while left:
        name, value = left.pop()
        own = plain_function(value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        module = getattr(own or value, "__module__", None) or type(value).__module__
        judges = JUDGING.match(str(value.__name__ if isinstance(value, ModuleType) else module))
        if judges or _code(value) in solutions:
            is_it = "is" if value is answer else f"uses `{name}`, which is"
            kind = "part of what judges it" if judges else "a solution of the course"
            raise Failure(
                "borrowed",
                f"Your answer {is_it} {kind}: write what the exercise asks for yourself.",
            )
        if own is not None and (value is answer or own.__globals__ is function.__globals__):
            left += names_in_reach(own).items()


def _code(value: Any) -> int:
    return id(getattr(plain_function(value), "__code__", value))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of functions inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def globals_read(code: CodeType) -> set[str]:
    """The global names that code reads, also in functions within; attributes are none."""
    read = (its for each in _codes(code) for its in dis.get_instructions(each))
    return {its.argval for its in read if its.opname in READING}


def names_in_reach(function: FunctionType) -> dict[str, Any]:
    """The values of the global names and closures that a function's code reads, by name."""
    read = globals_read(function.__code__)
    attributes = {name for code in _codes(function.__code__) for name in code.co_names}
    found = {name: function.__globals__[name] for name in read & function.__globals__.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            found[name] = cell.cell_contents
    modules = {name: value for name, value in found.items() if isinstance(value, ModuleType)}
    modules |= {name: sys.modules[name] for name in attributes & sys.modules.keys()}
    for name, module in modules.items():
        if module.__name__.partition(".")[0].startswith("course"):
            parts = vars(module)
            found |= {f"{name}.{each}": parts[each] for each in attributes & parts.keys()}
    return found


def check_parameters(function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    """Raise Failure("wrong-arguments") unless `function` takes the expected arguments in order."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    parameters = list(signature.parameters.values())
    taken = tuple(parameter.name for parameter in parameters)
    wanted = f"{count(len(expected), 'argument')}: {', '.join(expected)}"
    called = getattr(function, "__name__", "your answer")
    try:
        signature.bind(*expected)
    except TypeError:
        message = f"{called} takes {count(len(taken), 'argument')}"
        message += f" ({', '.join(taken)})" if taken else ""
        raise Failure("wrong-arguments", f"{message}; this exercise gives {wanted}.") from None
    if taken != expected and set(taken) == set(expected):
        raise Failure(
            "wrong-arguments",
            f"{called} takes its arguments in the order {', '.join(taken)}; "
            f"this exercise gives {wanted}, in that order.",
        )


def is_numba_error(error: BaseException) -> bool:
    """Whether Numba raised it; by name, since numba-cuda has classes of its own."""
    return any(base.__name__ == "NumbaError" for base in type(error).__mro__)


def typing_failure(error: BaseException, function: FunctionType | None) -> Failure:
    """Numba's error without what only helps Numba's developers: one sentence and the line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    begins = CANNOT_SIMULATE if isinstance(error, Unsupported) else CANNOT_COMPILE
    place = SIMULATED_PLACE.search(text)
    if place:
        sentence = " ".join(text[: place.start()].split())
        where = "" if place[2] == getattr(function, "__name__", "") else f" (in {place[2]})"
        what = sentence.removesuffix(" is not supported by the simulator") + where
        instead = f". {place[4]}" if place[4] else ""
        return Failure("typing", begins + what + instead, int(place[1]), place[3])
    number = getattr(getattr(error, "loc", None), "line", None)
    lines = []
    for raw in text.splitlines():
        line = raw.strip()
        found = re.match(r'File ".*", line (\d+)', line)
        if found:
            number = number or int(found[1])
            break
        if line and not line.startswith(NOISE) and not set(line) <= set("^-=~ "):
            lines.append(line)
    essential = next((i for i, line in enumerate(lines) if ESSENTIAL.search(line)), 0)
    sentence = " ".join(lines[essential : essential + 2]) if lines else type(error).__name__
    for pattern, plain in CLEANED:
        sentence = re.sub(pattern, plain, sentence)
    at = line_of(function, number) if number is not None and function is not None else ()
    return Failure("typing", begins + sentence, *at)


def is_gpu_kernel(value: Any) -> bool:
    """Whether a value is a kernel or device function of numba.cuda."""
    return any(base.__name__ == "CUDADispatcher" for base in type(value).__mro__)
