"""Types of rows, slices and views, layouts included: drawn, and asked of Numba's type inference."""

import ast
import os
import random

import numpy as np
import pytest
from numba import float32, types

from tests.texts import function_of
from tests.warpsim.numba_inference import types_of_variables
from warpsim import cuda
from warpsim.code.programs import program_of

RECORD = np.dtype([("x", np.float32), ("v", np.float32, (2, 3))], align=True)
TABLE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
NAMES = {
    "float32": float32, "np": np, "RECORD": RECORD, "TABLE": TABLE, "TURNED": TABLE.T,
    "GAPS": TABLE[:, ::2],
}  # fmt: skip
FIRST = [
    "x", "x", "c", "cuda.shared.array((2, 3, 4), float32)", "cuda.local.array((3, 4), float32)",
    "cuda.const.array_like(TABLE)", "cuda.const.array_like(TURNED)", "TABLE", "p[0].v", "p.x",
    "c.real", "c.imag", "cuda.const.array_like(x)", "cuda.shared.array(8, RECORD)[1].v",
]  # fmt: skip


class Author:
    """Draws a kernel in which each variable is a view of an earlier one."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)

    def program(self) -> tuple[str, tuple]:
        lines = [f"v0 = {self.draw.choice(FIRST)}"]
        for number in range(1, self.draw.randint(2, 5)):
            lines.append(f"v{number} = {self.step(f'v{number - 1}')}")
        ndim, layout = self.draw.randint(1, 3), self.draw.choice("CFA")
        record = types.Array(numba_record(), 1, "C")
        kinds = (
            types.Array(types.float32, ndim, layout),
            types.Array(types.complex64, ndim, layout),
            record,
        )
        return "def drawn(x, c, p):\n" + "".join(f"    {line}\n" for line in lines), kinds

    def step(self, name: str) -> str:
        kind = self.draw.randint(0, 9)
        if kind < 6:
            return f"{name}[{self.index()}]"
        return name + self.draw.choice(
            [".T", ".transpose()", ".real", ".reshape(-1)", ".reshape((1, 2))",
             ".reshape(2, 2, 1)", ".view(np.int32)"]
        )  # fmt: skip

    def index(self) -> str:
        parts = [
            "0",
            "-1",
            ":",
            "1:",
            ":2",
            "::1",
            "::2",
            "1:3:1",
            "cuda.threadIdx.x",
            "...",
            "None",
        ]
        count = self.draw.choice([1, 1, 2, 2, 3])
        chosen = [self.draw.choice(parts[: 9 if count == 1 else 11]) for _ in range(count)]
        return ", ".join(chosen)


def numba_record():
    from numba import from_dtype

    return from_dtype(RECORD)


def _here(function, kinds: tuple) -> dict:
    typing = program_of(function).typing(kinds)
    return {n.id: kind for n, kind in typing.targets.items() if isinstance(n, ast.Name)}


def _there(function, kinds: tuple) -> dict:
    found = types_of_variables(function, kinds)
    kinds = {name: types.unliteral(kind) for name, kind in found.items() if name.startswith("v")}
    return {
        name: types.Array(kind.dtype, kind.ndim, "C")
        if isinstance(kind, types.NestedArray)
        else kind
        for name, kind in kinds.items()
    }


def difference(seed: int) -> str | None:
    """A drawn program whose variables have other types here than by Numba."""
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    from numba import cuda as numba_cuda

    text, kinds = Author(seed).program()
    found = []
    for ask, module in ((_there, numba_cuda), (_here, cuda)):
        function = function_of(text, f"layouts {seed}", {**NAMES, "cuda": module})
        try:
            found.append({name: str(kind) for name, kind in ask(function, kinds).items()})
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    if all(isinstance(one, str) for one in found) or found[0] == found[1]:
        return None
    return f"seed {seed}:\n{text}of {kinds}\nNumba: {found[0]}\nhere: {found[1]}"


@pytest.mark.parametrize("part", range(2))
def test_views_have_numbas_types(part):
    count = int(os.environ.get("COURSE_DRAWS", 20))
    found = [difference(seed) for seed in range(part * count, (part + 1) * count)]
    assert not any(found), "\n\n".join(filter(None, found))[:5000]


@pytest.mark.parametrize(
    "argument",
    ["x[1]", "x[1, :]", "x[1][:2]", "s[:3]", "s", "s[1:]", "t[0]", "y[1].v[0]"],
)
def test_contiguous_signatures_take_contiguous_views(argument):
    @cuda.jit("void(float32[::1])", device=True)
    def first(a):
        a[0] += 1

    text = (
        "def k(x, y):\n    s = cuda.shared.array(4, float32)\n"
        f"    t = cuda.local.array((2, 2), float32)\n    s[0] = s[1] = t[0, 0] = 0\n"
        f"    first({argument})\n    x[0, 0] = ({argument})[0]\n"
    )
    kernel = function_of(text, argument, {"cuda": cuda, "float32": float32, "first": first})
    x, y = np.ones((3, 4), np.float32), np.ones(2, RECORD)
    cuda.jit(kernel)[1, 1](x, y)
    assert x[0, 0] == (2 if argument[0] in "xy" else 1)
