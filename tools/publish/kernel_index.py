"""Where each step of each ladder is: code, lessons, exercises, pictures, tests, recorded figures.

    python -m tools.publish.kernel_index            # every step
    python -m tools.publish.kernel_index tiled      # those whose row has the word

A function has a ladder of steps, from the plainest to the fastest. Their rows are made of what the
code itself says: ladders, imports of lessons and tests, exercises, pictures of the solutions,
recorded files. A text is about a step when it takes something of the ladder's family and names the
step, or one of its kernels. What there is not is an empty cell.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import nbformat

from course.checks.exercises import exercises
from course.compiler.real_kernels import is_device_function
from course.kernels.steps import Ladder, Step
from course.measure import recorded
from tools.notebooks import lessons

COLUMNS = "step", "kernels", "needs", "lessons", "exercises", "pictures", "tests", "recorded"
#: Folders whose files are families of their own; elsewhere the folder is.
ALONE = "course.kernels", "course_models"
#: What recorded files call a function whose own name is another.
RECORDED = {
    "activation": ("gelu", "silu"), "activation_gradient": ("gelu gradient", "silu gradient"),
    "softmax_backward": ("softmax gradient",), "reduction": ("sum", "max"), "loss": ("bce", "kl"),
    "gemm": ("product nt",), "matmul": ("matmul nn", "matmul nt"),
    "svd": ("svd normal", "svd image"),
}  # fmt: skip
TIMES = "time", "time in a graph"
OLDEST, UNREFUSED = Step([]).capability, Step([]).refusal


@dataclass(frozen=True)
class Placed:
    """A step of a ladder, and where it is.

    Attributes
    ----------
    module, family : str
        Of the ladder; the module itself, or the package of all that goes with it.
    line : int
        Where the ladder is made.
    kernels : dict
        What it launches, or what makes that, by name.
    """

    ladder: Ladder
    name: str
    module: str
    family: str
    line: int
    kernels: dict[str, Any] = field(compare=False)

    step = property(lambda self: self.ladder[self.name])

    def is_recorded(self, kernel: str, variant: str) -> bool:
        """Whether a row of a recorded file is of this step."""
        function = self.ladder.function
        named = kernel in RECORDED.get(function, (function.replace("_", " "),))
        return named and (variant == self.name or variant in self.kernels)


def steps(root: Path) -> list[Placed]:
    """Every step of the ladders that stand in modules, by module and line."""
    found = []
    for path in sorted(root.glob("course*/**/*.py")):
        text = path.read_text(encoding="utf-8")
        if "Ladder" not in text:
            continue
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            module = importlib.import_module(name)
            its = getattr(module, ast.unparse(node.targets[0]), None)
            if isinstance(its, Ladder):
                package = name.rpartition(".")[0]
                family = name if package in ALONE else package
                for step in its:
                    kernels: dict[str, Any] = {}
                    _reach(its[step], family, kernels, set())
                    found.append(Placed(its, step, name, family, node.lineno, kernels))
    return found


def _reach(value: Any, family: str, found: dict[str, Any], seen: set[Any]) -> None:
    """Add what a value leads to to `found`: a family's kernels, and what makes such."""
    if isinstance(value, functools.partial):
        value = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Step | dict):
        value = [*(value if isinstance(value, dict) else vars(value)).values()]
    if isinstance(value, list | tuple):
        for each in value:
            _reach(each, family, found, seen)
        return
    function = inspect.unwrap(getattr(value, "py_func", value)) if callable(value) else None
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    own, names = function.__module__.startswith(family), dict.fromkeys(_names(function.__code__))
    if own and (hasattr(value, "py_func") or "jit" in names):
        if not is_device_function(value):
            found[function.__name__] = function
        return
    known = [cell.cell_contents for cell in function.__closure__ or ()]
    if own:
        known += [function.__globals__[name] for name in names if name in function.__globals__]
    for each in known:
        if isinstance(each, ModuleType) and each.__name__.startswith(family):
            _reach([vars(each).get(name) for name in names], family, found, seen)
        else:
            _reach(each, family, found, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


# --- texts that are about a step ------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """What a source says: the names in it, its strings, and what it imports."""

    names: set[str]
    strings: set[str]
    imports: set[str]

    @classmethod
    def of(cls, source: str) -> Text:
        """That of a file, or of a cell."""
        its = cls(set(), set(), set())
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Name):
                its.names.add(node.id)
            elif isinstance(node, ast.Attribute):
                its.names.add(node.attr)
            elif isinstance(node, ast.Constant):
                its.strings.add(str(node.value))
            elif isinstance(node, ast.ImportFrom):
                its.imports.update(f"{node.module}.{each.name}." for each in node.names)
                its.names.update(each.name for each in node.names)
        return its

    def takes(self, its: Placed) -> bool:
        """Whether something of a step's family is imported."""
        return any(each.startswith(f"{its.family}.") for each in self.imports)

    def about(self, its: Placed) -> bool:
        """Whether a step is named."""
        return its.name in self.strings or not self.names.isdisjoint(its.kernels)

    def tries_all(self, its: Placed) -> bool:
        """Whether these are cases of the contract that every step of the ladder keeps."""
        return {"CASES", its.ladder.function} <= self.names


@dataclass(frozen=True)
class Lesson:
    """A lesson's text, which exercise checks which function, and cells with a picture's words."""

    name: str
    text: Text
    answers: dict[str, str]
    pictures: list[tuple[Text, str]]

    @classmethod
    def read(cls, path: Path, root: Path) -> Lesson:
        """The lesson in a file."""
        source, name = path.read_text(encoding="utf-8"), lessons.name(path)
        notebook = nbformat.read(root / "solutions" / f"{name}.ipynb", as_version=4)
        pictures = [
            (Text.of(cell.source), output.metadata["image/png"]["alt"])
            for cell in notebook.cells
            for output in cell.get("outputs", ())
            if "image/png" in output.get("data", {})
        ]
        answers = dict(re.findall(r'^check\("([\w-]+)", (\w+)', source, re.MULTILINE))
        return cls(name, Text.of(source), answers, pictures)

    def exercises(self, its: Placed) -> Iterator[str]:
        """Those whose solution is the step, by the words of its name, or whose rival is."""
        words = {*its.ladder.function.split("_"), *its.name.split()}
        for name, answer in self.answers.items():
            rivals = getattr(exercises()[name], "rivals", None)
            rival = rivals.recorded.get("package", {}) if rivals else {}
            if answer in its.kernels or words == {*name.split("-")}:
                yield name
            elif its.is_recorded(rival.get("kernel", ""), rival.get("variant", "")):
                yield name


# --- the table ------------------------------------------------------------------------------------


class Index:
    """Rows of the table, in Markdown; `files` is where links find the repository's files."""

    def __init__(self, root: Path, files: str = "."):
        self.root, self.files = root, files
        self.lessons = [Lesson.read(path, root) for path in lessons.paths(root)]
        sources = {path: path.read_text(encoding="utf-8") for path in root.glob("tests/**/*.py")}
        self.tests = {
            path: Text.of(source)
            for path, source in sorted(sources.items())
            if "kernel_index" not in source
        }
        self.figures = [
            (figure, recording.path.stem)
            for recording in recorded.recordings(folder=root / "data/measurements")
            for figure in recording.figures
            if figure.metric in TIMES
        ]

    def rows(self, its: Placed) -> list[str]:
        """The cells of a step, as `COLUMNS`."""
        about = [one for one in self.lessons if one.text.takes(its) and one.text.about(its)]
        pictures = [f"{self.lesson(one)}: {words.partition('. ')[0]}" for one in about
                    for text, words in one.pictures if text.about(its)]  # fmt: skip
        answers = [f"{self.lesson(one)}: `{name}`" for one in self.lessons
                   for name in one.exercises(its)]  # fmt: skip
        tests = [self.source(path.stem, path) for path, text in self.tests.items()
                 if text.takes(its) and (text.about(its) or text.tries_all(its))]  # fmt: skip
        cells = (
            [f"`{its.name}`"], map(self.code, its.kernels.values()), self.needs(its.step),
            map(self.lesson, about), answers, pictures, tests, self.recorded(its),
        )  # fmt: skip
        return ["; ".join(dict.fromkeys(cell)).replace("|", "\\|") for cell in cells]

    def lesson(self, one: Lesson) -> str:
        """A link to its page."""
        return f"[{one.name[:2]}](lessons/{one.name}.ipynb)"

    def source(self, text: str, path: Path, line: int = 1) -> str:
        """A link to a line of a file."""
        return f"[{text}]({self.files}/{path.relative_to(self.root).as_posix()}#L{line})"

    def code(self, function: FunctionType) -> str:
        """A link to a function."""
        code = function.__code__
        return self.source(f"`{function.__name__}`", Path(code.co_filename), code.co_firstlineno)

    def needs(self, step: Step) -> Iterator[str]:
        """The compute capability, where not every GPU has it, and what refuses with which words."""
        if step.capability > OLDEST:
            yield f"compute capability {step.capability[0]}.{step.capability[1]}"
        if step.refusal is not UNREFUSED:
            code = inspect.unwrap(step.refusal).__code__
            said = [text.strip(" ,") for text in code.co_consts[1:] if isinstance(text, str)]
            words = " … ".join(text for text in said if " " in text) or "what this line says"
            yield self.source(words, Path(code.co_filename), code.co_firstlineno)

    def recorded(self, its: Placed) -> Iterator[str]:
        """Of each file that has the step, the last time: the largest shape, in most files."""
        last = {stem: figure for figure, stem in self.figures
                if its.is_recorded(figure.kernel, figure.variant)}  # fmt: skip
        for stem, figure in last.items():
            what = f"{figure.kernel} {figure.shape} {figure.dtype}"
            yield f"{figure.gpu} [{figure.amount}](figures/{stem}.md), {what}"


def table(rows: Iterable[Iterable[str]]) -> str:
    """Rows as a table in Markdown."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(root: Path, files: str) -> str:
    """The page of the site: a table for each ladder."""
    index, parts = Index(root, files), ["# Kernels, step by step", __doc__.split("\n\n")[2]]
    for module, its in itertools.groupby(steps(root), key=lambda its: (its.module, its.line)):
        its = list(its)
        path = root / f"{module[0].replace('.', '/')}.py"
        ladder = index.source(f"the ladder in `{module[0]}`", path, its[0].line)
        parts += [f"## {its[0].ladder.function}", f"Made by {ladder}.",
                  f":::{{div}} site-index\n{table(map(index.rows, its))}\n:::"]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def main(words: list[str]) -> None:
    """Print the rows that have all words."""
    index = Index(lessons.ROOT)
    rows = ([f"{its.ladder.function}: {cells[0]}", *cells[1:]]
            for its in steps(lessons.ROOT) for cells in [index.rows(its)])  # fmt: skip
    print(table(cells for cells in rows if all(word in " ".join(cells) for word in words)))


if __name__ == "__main__":
    main(sys.argv[1:])
