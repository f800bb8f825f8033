"""Comments, docstrings and names say the field's words: the CUDA guide's, PyTorch's, CUTLASS's.

`TERMS` lists words that once stood for something else here, and the term for it. Texts that users
read, such as errors and verdicts, are not looked at.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Folders that are done.
DONE = (
    "course", "course_app", "course_models", "course_recording", "tools", "warpsim",
    "tests/course/compiler", "tests/course/diagnosis", "tests/course/dispatch",
    "tests/course/heuristics", "tests/course/images", "tests/course/kernels",
    "tests/course/measure", "tests/course/plots", "tests/course_app", "tests/course_models",
    "tests/course_recording", "tests/tools", "tests/warpsim/ptx",
)  # fmt: skip
#: Old words, as regular expressions, and the term.
TERMS = {
    r"(?<!bench )doors?|ways? in": "entry point",  # but the bench's subject
    r"ways? back": "backward",
    r"under way": "in flight",
    r"coming": "prefetched",
    r"bring|brings|brought": "load, copy, scale",
    r"put|puts": "store",
    r"(?<!subjects\.)(?<!split[_ ])halves": "float16; part",
    r'(?<!")roles?(?!")': "warp-specialised; producer, consumer",  # but the method "roles"
    r"meets?|meetings?": "synchronise; conflict; overlap",
    r"rooms?": "workspace; shared-memory limit",
    r"turns?|turned": "step, round, iteration; transposed",
    r"pieces?": "chunk, box, part, instruction",
    r"trays?": "buffer",
    r"crews?": "workers",
    r"standstill": "deadlock",
    r"oracle": "Numba's typing",
    r"early launch": "programmatic dependent launch",
    r"give4|take4": "publish4, await4",
    r"in_?bands|rebuild_bands?": "row group",
}
OLD = re.compile("|".join(rf"\b(?:{words})\b" for words in TERMS), re.IGNORECASE)
#: Names that lessons show or call, and of kernels in recorded files.
MEANT = {
    "add_pieces", "pieces", "rebuild_band", "scaled_halves", "split_halves", "turned",
    "turned_rows",
}  # fmt: skip


def prose(source: str) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a file, with the number of their first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False):
            constant = node.body[0].value
            yield constant.lineno, constant.value


def names(source: str) -> Iterator[tuple[int, str]]:
    """The names that a file gives: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def parts(name: str) -> str:
    """A name's parts as words: "load_pieces" and "LoadPieces" have two."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ")


def old_words(source: str) -> list[str]:
    """The old words of a file, each with its line."""
    if not (OLD.search(source) or OLD.search(parts(source))):
        return []  # sooner than by its tokens
    found = [(line, text, text) for line, text in prose(source)]
    found += [(line, name, parts(name)) for line, name in names(source) if name not in MEANT]
    return [
        f"line {line + text[: match.start()].count(chr(10))}: {match[0]!r} in {where[:60]!r}"
        for line, where, text in sorted(found)
        for match in OLD.finditer(text)
    ]


@pytest.mark.parametrize("place", DONE)
def test_old_words_do_not_come_back(place):
    files = sorted((ROOT / place).rglob("*.py"))
    said = {
        file.relative_to(ROOT).as_posix(): wrong
        for file in files
        if (wrong := old_words(file.read_text(encoding="utf-8")))
    }
    assert files and not said, f"say {TERMS}: {said}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\n# a piece of the row\n", "line 2: 'piece' in '# a piece of the row'"),
        ('def f():\n    """Sum.\n\n    Loads are under way.\n    """\n', "line 4: 'under way' in"),
        ("def put_rows(x):\n    pass\n", "line 1: 'put' in 'put_rows'"),
        ("class RowPieces:\n    pass\n", "line 1: 'Pieces' in 'RowPieces'"),
        ("for go, (n, turn) in x:\n    pass\n", "line 1: 'turn' in 'turn'"),
        ("self.crew = 1\n", "line 1: 'crew' in 'crew'"),
    ],
)
def test_an_old_word_is_found(source, line):
    assert [found.startswith(line) for found in old_words(source)] == [True]


def test_other_texts_and_words_are_left():
    assert (
        old_words('raise ValueError("no room: put it apart")\nx.put(turns)\nreturned = 1\n') == []
    )
