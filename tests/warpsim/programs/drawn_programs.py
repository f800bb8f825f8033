"""Programs drawn from a grammar of what kernels may hold: does the simulator take what Numba takes?

The oracle is numba-cuda's own compiler, which types and lowers a kernel for sm_75 without a driver.
About a third of the programs hold something doubtful, such as a string where a number belongs.

    python -m tests.warpsim.programs.drawn_programs --seed 1 --count 1000
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import enum
import math
import random
import re
import types as python_types
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types

from tests.texts import function_of
from tests.warpsim.numba_inference import without_gpu
from warpsim.host.device import DeviceNDArray

#: In each place of a program: how likely something of another kind stands there.
DOUBT = 0.025
DEEPEST = 3
PLACE = r"<([a-z][a-z0-9 ]*)>"
RECORD = np.dtype([("u", np.float32), ("w", np.int32), ("s", np.float64, (3,))], align=True)
Point = collections.namedtuple("Point", "u w")


class Colour(enum.IntEnum):
    """Members that stand for integers."""

    RED, BLUE = 1, 2


class Settings:
    """A class and, as an object of it, something that no kernel can hold."""

    N, STEP = 4, 0.5


def plain_function(p):
    """Not compiled for a GPU."""
    return p


def grammar() -> dict[str, tuple[list[str], list[str]]]:
    """What may stand for each kind, and what doubtfully may: the file beside this one says how."""
    text = Path(__file__).with_suffix(".txt").read_text()
    parts = re.split(r"^(\w[\w ]*):\n", re.sub(r"^#.*\n", "", text, flags=re.M), flags=re.M)[1:]
    return {
        kind: tuple(re.split(r"\s{2,}", half.strip()) if half else [] for half in _halves(body))
        for kind, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _halves(body: str) -> tuple[str, str]:
    sure, _, doubtful = body.partition("??")
    return sure, doubtful


GRAMMAR = grammar()
EXPRESSIONS = ["int", "float", "half", "complex", "bool", "array", "tuple", "any", "odd"]
DOUBTFUL = {*EXPRESSIONS, "index", "index2", "number"}
#: The first lines of a kernel, for the variables that it uses.
FIRST = {
    "iv": "iv = cuda.grid(1)",
    "fv": "fv = 0.5",
    "av": "av = a[1:]",
    "tv": "tv = (1, 2.5)",
    "sv": "sv = cuda.shared.array(4, float32)",
    "lv": "lv = cuda.local.array(4, float64)",
    "cv": "cv = cuda.const.array_like(G_ARRAY)",
    "w2": "w2 = 2",
    "constant": "constant = 6",
}


def environment(cuda) -> dict:
    """What the names outside a program's functions stand for."""
    import cmath

    from numba import boolean, float32, float64, int32, int64, literal_unroll, njit, prange
    from numba.cuda.random import xoroshiro128p_uniform_float32

    from_cuda = {name: getattr(cuda, name) for name in ("threadIdx", "atomic", "shared")}
    own = {"settings": Settings(), "G_OBJECT": object(), "on_cpu": njit(plain_function)}
    own |= {"libdevice": cuda.libdevice, "self": own["settings"], "G_SET": {1}}
    constants = {
        "G_INT": 3, "G_FLOAT": 2.5, "G_BOOL": True, "G_COMPLEX": 1 + 2j, "G_TUPLE": (2, 3),
        "G_MIXED": (1, 2.5), "G_ARRAY": np.arange(4.0), "G_LIST": [1, 2], "G_DICT": {1: 2},
        "G_TEXT": "text", "G_SCALAR": np.float32(2), "G_HUGE": 2**70, "G_POINT": Point(1, 2.5),
        "G_DATE": np.datetime64("2020-01-01"),
    }  # fmt: skip
    return {
        "cuda": cuda, "np": np, "math": math, "cmath": cmath, "types": types, "RECORD": RECORD,
        "Settings": Settings, "Colour": Colour, "Point": Point, "float32": float32,
        "float64": float64, "int32": int32, "int64": int64, "float16": types.float16,
        "boolean": boolean, "literal_unroll": literal_unroll, "prange": prange,
        "plain_function": plain_function, "record_type": numba.from_dtype(RECORD),
        "xoroshiro128p_uniform_float32": xoroshiro128p_uniform_float32,
        **from_cuda, **own, **constants,
    }  # fmt: skip


class Program:
    """A kernel with two device functions, and arguments for it."""

    def __init__(self, text: str, arguments: dict):
        self.text, self.arguments = text, arguments

    def __str__(self) -> str:
        used = self.used(self.text)
        shown = ", ".join(f"{name}: {_shown(self.arguments[name])}" for name in used)
        return f"{self.text}# {shown}"

    def used(self, text: str) -> list[str]:
        names = set(re.findall(r"\w+", text.partition("def kernel")[2]))
        return [name for name in self.arguments if name in names]

    def kernel(self, cuda) -> tuple[python_types.FunctionType, list]:
        """The kernel's function and the values of its arguments."""
        used = self.used(self.text)
        text = self.text.replace("def kernel()", f"def kernel({', '.join(used)})")
        function = function_of(text, f"drawn {hash(text)}", environment(cuda))
        return function, [self.arguments[name] for name in used]


def _shown(value) -> str:
    if not isinstance(value, np.ndarray):
        return f"{type(value).__name__} {value}"
    return (
        f"{value.dtype}{list(value.shape)}{value.strides}{'' if value.flags.writeable else ' ro'}"
    )


def arguments(chance: random.Random) -> dict:
    """Values for all arguments that a kernel may have: types and layouts are drawn."""
    real = chance.choice([np.float32, np.float64, np.float32, np.int16])
    whole = chance.choice([np.int32, np.int64, np.uint32, np.uint64, np.int8])
    square = np.ones((4, 4), real)
    laid = chance.choice(
        [square, square, square.T[:3], np.asfortranarray(square), square[::2, ::2]]
    )
    readonly = np.arange(4.0)
    readonly.flags.writeable = False
    record = np.zeros(4, RECORD)
    tuples = [(1, 2), (1, 2.5), (1, (2, 3)), (np.ones(3), 1), Point(1, 2.5), (True, 1j)]
    return {
        "n": chance.choice([5, 5, np.int32(5), np.uint8(5), True]),
        "m": whole(2),
        "x": chance.choice([0.5, np.float32(0.5)]),
        "y": real(1),
        "z": chance.choice([1j, np.complex64(1j)]),
        "flag": chance.choice([True, np.bool_(False)]),
        "a": chance.choice([np.ones(8, real), np.ones(16, real)[::2]]),
        "b": laid,
        "k": np.ones(4, whole),
        "ro": readonly,
        "e": np.array(1.0),
        "h": np.ones(4, np.float16),
        "c": np.ones(4, np.complex64),
        "l": np.ones(4, bool),
        "p": record,
        "r": record[0],
        "t": chance.choice(tuples),
        "o": np.zeros(4, chance.choice([np.float64, np.float32, np.int32])),
        "states": np.zeros(4, [("s0", np.uint64), ("s1", np.uint64)]),
    }


class Author:
    """Draws a program."""

    def __init__(self, seed: int | str, doubt: float = DOUBT):
        self.chance, self.doubt = random.Random(seed), doubt

    def program(self) -> Program:
        text = "\n".join(self.line("line") for _ in range(self.chance.randint(1, 4)))
        names = set(re.findall(r"\w+", text))
        first = [line for name, line in FIRST.items() if name in names]
        kernel = "def kernel():\n" + _indented("\n".join([*first, text]))
        return Program(
            f"{self.function('d2')}{self.function('d1')}{kernel}", arguments(self.chance)
        )

    def function(self, name: str) -> str:
        parameters = "p" if name == "d2" else "p, q"
        lines = []
        result = self.fill("<result>", 1)
        if name == "d2" and "d2" in result:
            lines.append("if p < 1:\n    return p")
        if self.chance.random() < 0.3:
            lines.append(f"if p > 0:\n    return {self.fill('<result>', 1)}")
        if "v" in re.findall(r"\w+", " ".join([*lines, result])):
            made = ["cuda.local.array(3, float64)", "cuda.shared.array(3, float32)", "p", "p[1:]"]
            lines.insert(0, f"v = {self.chance.choice(made)}")
        lines.append(f"return {result}")
        return f"@cuda.jit(device=True)\ndef {name}({parameters}):\n" + _indented("\n".join(lines))

    def line(self, kind: str, depth: int = 0) -> str:
        return self.fill(f"<{kind}>", depth)

    def fill(self, template: str, depth: int) -> str:
        """A template with all its places filled."""
        return re.sub(PLACE, lambda found: self.drawn(found[1], depth), template)

    def drawn(self, kind: str, depth: int) -> str:
        if kind in ("suite", "loop", "case"):
            lines = [self.line("line", depth + 1)]
            if kind == "loop" and self.chance.random() < 0.5:
                leave = self.line("leave", depth + 1)
                lines.append(f"if {self.drawn('bool', depth + 1)}:\n{_indented(leave)}".rstrip())
            text = _indented("\n".join(lines))
            return "\n" + (_indented(f"case 1:\n{text}") if kind == "case" else text)
        if kind in DOUBTFUL and self.chance.random() < self.doubt:
            kind = self.chance.choice(EXPRESSIONS)
        sure, doubtful = GRAMMAR[kind]
        choices = doubtful if doubtful and self.chance.random() < 3 * self.doubt else sure
        if depth >= DEEPEST:
            ends = [one for one in sure if not re.search(PLACE, one)]
            choices = ends or choices
        made = self.fill(self.chance.choice(choices), depth + 1)
        infix = kind in EXPRESSIONS and re.search(r" |^-|^~", made) and depth > 0
        return f"({made})" if infix else made


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.split("\n") if line.strip())


# ---------------------------------------------------------------------- the two answers
def by_numba(program: Program, unread: bool = False) -> str | None:
    """What numba-cuda's compiler refuses the program for; None if it takes it.

    With ``unread`` it types what nobody reads beside an inlined function, too, which it leaves out.
    """
    from numba import cuda
    from numba.cuda.compiler import compile_cuda
    from numba.cuda.core import inline_closurecall

    kept = {"dead_code_elimination": lambda func_ir: None} if unread else {}
    with (
        warnings.catch_warnings(),
        without_gpu(),
        patch.multiple(inline_closurecall, **kept) if kept else nullcontext(),
    ):
        warnings.simplefilter("ignore")
        try:
            kernel, values = program.kernel(cuda)
            kinds = tuple(cuda.jit(kernel).typeof_pyval(value) for value in values)
            made = compile_cuda(kernel, types.void, kinds, cc=(7, 5), nvvm_options={"opt": 3})
            for text in made.library.llvm_strs:  # what NVVM refuses, LLVM's parser does, too
                llvm.parse_assembly(text)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def by_simulator(program: Program) -> str | None:
    """What the simulator refuses the program for; None if it takes it."""
    from warpsim import cuda

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kernel, values = program.kernel(cuda)
            values = [_on_device(value) for value in values]
            cuda.jit(kernel).lane_program(*values)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def _on_device(value):
    """What has gaps can only be a view of a device array."""
    gaps = isinstance(value, np.ndarray) and not value.flags.forc
    return DeviceNDArray(value) if gaps else value


def difference(program: Program) -> tuple[str, str] | None:
    """Who refuses what the other takes, and why."""
    try:
        compile(program.text, "drawn", "exec")
    except SyntaxError:
        return None
    numba_says, here = by_numba(program), by_simulator(program)
    if (numba_says is None) == (here is None):
        crash = here and not here.startswith(("TypingError", "Unsupported", "TypeError"))
        return ("crashes here", here) if crash else None
    return ("only Numba refuses", numba_says) if numba_says else ("only here refused", here)


#: What warpsim/README.md lists as taken by one and refused by the other, by the refusal's words.
PUBLISHED = {
    "only here refused": (
        r"(the call of (range|slice|iter|next|callable)|in of array|is between values of type)\b"
        r"[^\n]* is not supported by the simulator",
        r"(complex of two complex numbers|of a whole array|nonlocal variables and a result|"
        r"a value that may be None: [^\n]*) is not supported by the simulator",
        r"np\.\w+ is not available in a kernel here",
        r"getitem\(array\([^)]*\), array\(",
        r"types\.unicode_type is not an element type|np\.dtype\([^\n]*\) is not an element type",
        r"Cannot modify readonly array",
        r"NamedExpr: |Try: |keep values of a thread in it|got an unexpected keyword argument",
        r"is a function: call it|has the parts|is a module, not a value",
        r"Untyped global name '[^']*': cannot be used in a kernel",
        r"(\.\.\.|b'[^']*') cannot be used in a kernel",
        r"Unknown attribute 'arg(min|max)' of type array",
        r"Cannot unify [^\n]* in [^\n]* (if|or|and) ",
        r"is used before it is set, and [^\n]* has no zero here",
        r"a comparison of tuples with (array|none|unicode|Literal\[str\])",
        r"\.view\((RECORD|record_type)\): not an element type",
        r"cuda\.atomic\.\w+: (index|value of type) [^\n]*(datetime|timedelta)64",
        r"List: kernels have no lists[^\n]*\n\nline \d+ of \w+:\n +\w+, \w+(, \w+)? = ",
        r"Unknown attribute '\w+' of type np\.(finfo|iinfo)",
    ),
    "only Numba refuses": (
        r"Cannot capture (the non-constant|a constant) value|Unsupported use of cell variable",
        r"^NotDefinedError|liveness info missing|^AssertionError: $",
    ),
}
#: The same, of programs that hold something.
OF_PROGRAMS_WITH = {
    "hasattr(": r"have void return type|cuda\.atomic\.\w+: index|"
    r"function \w+ found for signature:\s+>>> \w+\([^\n]*array\(",
}


def known(found: tuple[str, str], program: Program) -> bool:
    """Is it a difference that warpsim/README.md lists?"""
    who, reason = found
    words = [*PUBLISHED.get(who, ())]
    words += [one for held, one in OF_PROGRAMS_WITH.items() if held in program.text]
    if any(re.search(one, reason) for one in words):
        return True
    inner = re.search(r"lambda|^    +def ", program.text, re.M)
    return bool(inner and who == "only here refused" and by_numba(program, unread=True))


def smaller(program: Program) -> Program:
    """The same difference with as few statements as possible."""
    kind = difference(program)[0]
    shrinks = True
    while shrinks:
        shrinks = False
        tree = ast.parse(program.text)
        for place in range(sum(1 for _ in _suites(tree))):
            for change in _changes(tree, place):
                text = ast.unparse(ast.fix_missing_locations(change)) + "\n"
                tried = Program(text, program.arguments)
                if text != program.text and (difference(tried) or [None])[0] == kind:
                    program, shrinks = tried, True
                    break
            if shrinks:
                break
    return program


def _suites(tree: ast.AST):
    """All lists of statements in functions."""
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            if isinstance(getattr(node, name, None), list) and getattr(node, name):
                yield node, name


def _changes(tree: ast.Module, place: int):
    """Trees with one statement less, or with a compound statement's suite instead of it."""
    node, name = list(_suites(tree))[place]
    for number in range(len(getattr(node, name))):
        for instead in ("nothing", "suite"):
            made = copy.deepcopy(tree)
            node, name = list(_suites(made))[place]
            statements = getattr(node, name)
            kept = getattr(statements[number], "body", []) if instead == "suite" else []
            if isinstance(node, ast.Module) and (
                instead == "suite" or number == len(statements) - 1
            ):
                continue
            statements[number : number + 1] = kept
            if not statements and name == "body":
                statements.append(ast.Pass())
            yield made


def main() -> None:
    """Draw programs; print each difference that the README lacks, and a program that shows it."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=0, help="the number of the first program")
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--doubt", type=float, default=DOUBT)
    options.add_argument("--each", type=int, default=1, help="how many to print of a kind")
    chosen = options.parse_args()
    taken, named, found = 0, 0, collections.defaultdict(list)
    for number in range(chosen.first, chosen.first + chosen.count):
        program = Author(f"{chosen.seed}-{number}", chosen.doubt).program()
        differs = difference(program)
        if differs is None:
            taken += by_simulator(program) is None
            continue
        if known(differs, program):
            named += 1
            continue
        reason = re.sub(r"\x1b\[\d*m|\d+|'[^']*'|\"[^\"]*\"", "", differs[1]).strip()
        found[differs[0], reason[:70]].append((number, program))
    print(
        f"{chosen.count} programs of seed {chosen.seed} from {chosen.first}: {taken} run, "
        f"{named} differ as the README says, {sum(map(len, found.values()))} otherwise",
        flush=True,
    )
    for (who, reason), programs in sorted(found.items(), key=lambda pair: -len(pair[1])):
        print(f"\n===== {len(programs)} times {who}: {reason}")
        for number, program in programs[: chosen.each]:
            small = smaller(program)
            print(f"--- {chosen.seed}-{number}\n{small}", difference(small)[1][:900], sep="\n")


if __name__ == "__main__":
    main()
