"""What every step of every ladder promises: a `Case` a function, whose calls are drawn.

A call is right against float64 within a bound that has a reason, whatever the shape, the memory
that its arrays lie in, NaN and infinity among the elements, and wherever the result is written; or
it is refused, by the words of the step's refusal. Cases are in `tests.course.kernels.cases`, a
file a family. `COURSE_DRAWS=100 python -m pytest tests/course/kernels` draws more.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.backend import cuda
from course.dispatch.slots import name_of
from course.kernels.arrays import BFLOAT16
from course.kernels.steps import Ladder
from warpsim.core.number_types import rounded, widened
from warpsim.draw.report import Report
from warpsim.run.kernel import onlookers
from warpsim.run.launch import findings_of
from warpsim.watch.findings import Finding

#: Half of the last place, relative: what rounding a result costs.
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: What memory around arrays of integers holds; around others it is NaN, as results before a call.
POISON = 7

# --- shapes ---------------------------------------------------------------------------------------

SIZES = ("tiny", "odd", "fours", "long", "empty")
LENGTHS = {
    "odd": (5, 7, 13, 31, 33, 37, 65, 97, 127, 129, 255, 257, 509, 1021),
    "long": (199, 251, 1025, 1536, 1537, 2044, 2049, 3001, 4096, 4099, 5003, 20_011),
}  # fmt: skip


def length(rng: np.random.Generator, size: str, most: int = 5003) -> int:
    """How long an axis is: awkward, and longer than a block where the size is "long"."""
    if size == "empty":
        return 0
    if size == "tiny":
        return int(rng.integers(1, 5))
    if size == "fours":
        return 4 * int(rng.integers(1, 300))
    lengths, least = LENGTHS[size], most // 5 if size == "long" else 0
    return int(rng.choice([n for n in lengths if least <= n <= most]))


def rows_and_columns(rng: np.random.Generator, size: str, most: int = 5003) -> tuple[int, ...]:
    """The shape of some rows: one, a matrix, a stack of matrices; or without elements."""
    columns = length(rng, size, most)
    if size == "empty" and rng.random() < 0.5:
        return 0, int(rng.integers(1, 9))
    front = [(), (1,), (3,), (int(rng.integers(2, 8)),), (2, 3)][int(rng.integers(5))]
    return (*front, columns)


def elements(rng: np.random.Generator, size: str, tile: int) -> tuple[int, ...]:
    """The shape of elements that blocks have by tiles: near whole ones if it is "long"."""
    if size != "long":
        return rows_and_columns(rng, size)
    return (tile * int(rng.integers(1, 3)) + int(rng.choice((-4, -3, -2, -1, 0, 1, 2, 3, 5))),)


# --- cases ----------------------------------------------------------------------------------------


class Inputs(NamedTuple):
    """What a call is given: arrays by their names, of float32 or as they are, and options."""

    arrays: dict[str, np.ndarray]
    options: Mapping[str, Any] = MappingProxyType({})


class Right(NamedTuple):
    """A result in float64, and what its error is relative to, of its shape."""

    values: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True)
class Case:
    """A function that has a ladder.

    Attributes
    ----------
    call : callable
        The function, with `ladder`.
    draw : callable
        ``draw(rng, size)`` gives `Inputs`; `size` is of `SIZES`.
    right : callable
        ``right(arrays, **options)`` gives a `Right` for each result, of arrays in float64.
    errors : dict
        By the elements' type, the error relative to `Right.scale`. That of a step alone is under
        its name.
    typed : sequence of str
        Arrays that hold that type; all without it.
    layout : str
        What memory may look like on the device: "any" strides, "rows" whose pitch is free, or
        "flat", elements in C order that begin anywhere.
    out : bool
        Whether the function takes `out`.
    out_dtype : str
        What the result holds, if not the type that is drawn.
    in_place : sequence of str
        Arrays that `out` may be.
    special : sequence of float
        What elements are set to, one of them, in one of the arrays `specials`, all without it.
    work : callable, optional
        ``work(dtype)`` gives the inputs at which a step moves the bytes of `moved.csv`.
    best : sequence of pairs
        Problems, and the step that "auto" takes.
    refused : sequence of triples
        Calls without arguments, the error's type, what its words must match.
    sizes : sequence of str
        Of `SIZES`, those that the function can be given.
    float64, works_in_place : sequence of str
        Methods that work in float64; of which a kernel works in place.
    entered : bool
        Whether the call has an entry point: results are arrays of the library whose arrays are
        given, and other arrays are refused in words.
    converts : bool
        Whether arrays on the host may hold float64.
    calls : int
        Of a seed.
    """

    call: Callable
    draw: Callable[[np.random.Generator, str], Inputs]
    right: Callable[..., Sequence[Right]]
    errors: dict[str, float]
    typed: Sequence[str] = ()
    layout: str = "flat"
    out: bool = True
    out_dtype: str = ""
    in_place: Sequence[str] = ()
    special: Sequence[float] = (np.nan, np.inf, -np.inf)
    specials: Sequence[str] = ()
    work: Callable[[str], Inputs] | None = None
    best: Sequence[tuple[Any, str]] = ()
    refused: Sequence[tuple[Callable[[], Any], type, str]] = ()
    sizes: Sequence[str] = SIZES
    float64: Sequence[str] = ()
    works_in_place: Sequence[str] = ()
    entered: bool = True
    converts: bool = False
    calls: int = 8

    @property
    def ladder(self) -> Ladder:
        return self.call.ladder

    @property
    def name(self) -> str:
        return self.ladder.function

    @property
    def dtypes(self) -> list[str]:
        return [name for name in self.errors if name in ROUNDING]

    def error(self, dtype: str, method: str) -> float:
        """The bound of a method's error."""
        return self.errors.get(method, 0) or self.errors[dtype]

    def holds(self, name: str) -> bool:
        """Whether an array holds the type that is drawn."""
        return not self.typed or name in self.typed


@functools.cache
def cases() -> list[Case]:
    """All that families list."""
    package = importlib.import_module("tests.course.kernels.cases")
    modules = sorted(one.name for one in pkgutil.iter_modules(package.__path__))
    return [
        case
        for name in modules
        for case in importlib.import_module(f"tests.course.kernels.cases.{name}").CASES
    ]


# --- arrays ---------------------------------------------------------------------------------------


def typed(values: np.ndarray, dtype: str) -> np.ndarray:
    """An array of float32, float16 or bfloat16."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    return np.ascontiguousarray(rounded(values.astype(np.float32))).view(BFLOAT16)


def in_float64(array: Any) -> np.ndarray:
    """What an array of any library holds."""
    if hasattr(array, "bfloat16"):  # PyTorch
        return array.double().cpu().numpy()
    for name in ("copy_to_host", "get"):
        array = getattr(array, name)() if hasattr(array, name) else array
    array = np.asarray(array)
    if name_of(array.dtype) == "bfloat16":
        array = widened(np.ascontiguousarray(array).view(np.uint16))
    return array.astype(np.float64)


@dataclass
class Laid:
    """An array on the device, part of memory that holds something else around it."""

    array: Any
    base: Any
    inside: tuple[slice, ...]

    def touched(self) -> bool:
        """Whether what lies around it was written."""
        base = in_float64(self.base)
        poison = POISON if self.base.dtype.kind in "iu" else np.nan
        base[self.inside] = poison
        return not np.array_equal(base, np.full_like(base, poison), equal_nan=True)


def laid(values: np.ndarray, layout: str, rng: np.random.Generator) -> Laid:
    """The values in device memory as a layout allows: between others, beginning anywhere."""
    shape, steps = values.shape, [1] * values.ndim
    if values.ndim != 2 or (layout == "flat" and len(values) > 1):  # an only row's stride is free
        shape, steps = (values.size,), [1]
    elif layout == "any" and rng.random() < 0.5:
        steps = [int(rng.integers(1, 4)) for _ in shape]
    starts = [int(rng.integers(2) * rng.integers(5)) for _ in shape]  # half of all are aligned
    inside = tuple(
        slice(start, start + n * step, step)
        for start, n, step in zip(starts, shape, steps, strict=True)
    )
    sizes = [one.stop + int(rng.integers(1, 6)) for one in inside]
    poison = POISON if values.dtype.kind in "iu" else np.nan
    memory = typed(np.full(sizes, poison), name_of(values.dtype))
    memory[inside] = values.reshape(shape)
    base = cuda.to_device(memory)
    part = base[inside]
    return Laid(part if len(shape) == values.ndim else part.reshape(values.shape), base, inside)


def libraries(dtype: str = "") -> dict[str, Callable[[np.ndarray], Any]]:
    """How NumPy's arrays become those of the libraries that work here and have the type."""
    found: dict[str, Callable] = {"NumPy": np.copy, "Numba": cuda.to_device}
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")

        def tensor(values: np.ndarray) -> Any:
            if name_of(values.dtype) != "bfloat16":
                return torch.from_numpy(values.copy())
            return torch.from_numpy(values.view(np.int16).copy()).view(torch.bfloat16)

        found["PyTorch, host"] = tensor
        if backend.gpu() is not None:
            found["PyTorch"] = lambda values: tensor(values).cuda()
    if backend.gpu() is not None and dtype != "bfloat16":
        with contextlib.suppress(ImportError):
            found["CuPy"] = importlib.import_module("cupy").asarray
    if dtype == "bfloat16":
        with contextlib.suppress(ImportError):
            its = importlib.import_module("ml_dtypes").bfloat16
            found["NumPy"] = lambda values: (
                values.view(its) if name_of(values.dtype) == "bfloat16" else np.copy(values)
            )
    return found


def launched_by(ladder: Ladder, results: int, shape: Callable | None = None) -> Callable:
    """A function of a ladder that only networks launch: so many results, float32.

    It takes arrays of any kind, and hands the ladder flat ones on the device, the results like the
    first; arrays as they are where ``shape(*arrays)`` says what the results have.
    """

    def call(*arrays: Any, method: str = "auto", **options: Any) -> tuple:
        there = [
            cuda.as_cuda_array(array) if hasattr(array, "__cuda_array_interface__")
            else cuda.to_device(np.asarray(array))
            for array in arrays
        ]  # fmt: skip
        if not shape:
            there = [array.reshape(array.size) for array in there]
        its = shape(*arrays) if shape else there[0].size
        found = [cuda.to_device(np.full(its, np.nan, np.float32)) for _ in range(results)]
        if there[0].size:
            for launch in ladder.launches(*there, *found, method=method, **options):
                launch.on()
        return tuple(array if shape else array.reshape(arrays[0].shape) for array in found)

    call.ladder = ladder
    return call


# --- launches that are looked at ------------------------------------------------------------------


class Watched:
    """What the simulator found in launches, what they moved in requests; nothing on a GPU."""

    def __init__(self) -> None:
        self.bytes = self.requests = self.float64 = 0
        self.errors: list[Finding] = []

    def look(self, kernel: Any, launch: Any) -> None:
        report = Report(launch.name, launch.counters, findings_of(launch))
        self.errors += [found for found in report.findings if found.is_error]
        totals = [report.total("global", op) for op in ("load", "store")]
        self.bytes += sum(total.bytes for total in totals)
        self.requests += sum(total.requests for total in totals)
        self.float64 += report.operations["float64"]


@contextlib.contextmanager
def watched() -> Iterator[Watched]:
    """Look at all launches of the simulator."""
    found = Watched()
    onlookers.append(found.look)
    try:
        yield found
    finally:
        onlookers.remove(found.look)


# --- one call -------------------------------------------------------------------------------------


def checked(name: str, method: str = "auto", /, **given: Any) -> Any:
    """What a case's call gives, of arrays and options by their names, once it is right.

    With `found` what another call gave, of the same arrays.
    """
    found = given.pop("found", None)
    case = {case.name: case for case in cases()}[name]
    arrays = {name: its for name, its in given.items() if isinstance(its, np.ndarray)}
    options = {name: its for name, its in given.items() if name not in arrays}
    if found is None:
        found = case.call(*arrays.values(), **options, method=method)
    exact = {name: in_float64(its) for name, its in arrays.items()}
    error = case.error(name_of(next(iter(arrays.values())).dtype), method)
    told = [
        wrong(one, its, error)
        for one, its in zip(several(found), case.right(exact, **options), strict=True)
    ]
    assert not any(told), told
    return found


def several(found: Any) -> tuple:
    """The results of a call."""
    return found if isinstance(found, tuple) else (found,)


def refusal(case: Case, problem: ValueError) -> bool:
    """Whether an error is a step's refusal."""
    return re.match(f"the method '.*' of {case.name} .*: choose ", str(problem)) is not None


def wrong(found: Any, right: Right, error: float) -> str:
    """Where a result is not what it must be, in words; "" if it is."""
    values = in_float64(found)
    expected = np.asarray(right.values, np.float64)
    if expected.ndim == 0 and values.size == 1:
        values = values.reshape(())
    if values.shape != expected.shape:
        return f"the shape is {values.shape}, not {expected.shape}"
    with np.errstate(all="ignore"):
        bound = error * np.broadcast_to(right.scale, expected.shape)
        fine = np.abs(values - expected) <= bound
        fine |= (values == expected) | (np.isnan(values) & np.isnan(expected))
    if fine.all():
        return ""
    place = tuple(int(n) for n in np.argwhere(~fine)[0])
    return (
        f"{np.count_nonzero(~fine)} of {fine.size} are wrong: at {place} {values[place]!r}, and "
        f"not {expected[place]!r} within {bound[place]:.2g}"
    )


class Call(NamedTuple):
    """How a drawn call is made."""

    size: str
    where: str  # "NumPy", "Numba", ..., or "laid": on the device, between other elements
    out: str  # "", "given" or the name of an array: in place
    special: bool
    dtype: str


def calls(case: Case, rng: np.random.Generator) -> Iterator[Call]:
    """The calls of a seed: each size, each way to write the result, each kind of array comes."""

    def drawn(choices: Sequence[Any]) -> list[Any]:
        mixed = [choices[n] for n in rng.permutation(len(choices))]
        return (mixed * case.calls)[: case.calls]

    kinds = [name for pair in ((name, "laid") for name in libraries()) for name in pair]
    outs = ["", "given", *case.in_place] if case.out else [""]
    columns = map(drawn, (case.sizes, kinds, outs, (True, False, False), case.dtypes))
    yield from map(Call._make, zip(*columns, strict=True))


def make_call(case: Case, method: str, how: Call, rng: np.random.Generator) -> str | None:
    """What is wrong with a call, "" if nothing is; None if it was refused."""
    inputs = case.draw(rng, how.size)
    arrays = {
        name: typed(values, how.dtype) if case.holds(name) else values
        for name, values in inputs.arrays.items()
    }
    if how.special and case.special:
        _set_one(case, arrays, rng, how.dtype)
    exact = {name: in_float64(values) for name, values in arrays.items()}
    with np.errstate(all="ignore"):
        right = case.right(exact, **inputs.options)
    memory: dict[str, Laid] = {}
    make = libraries(how.dtype).get(how.where, cuda.to_device)
    if how.where == "laid":
        memory = {name: laid(values, case.layout, rng) for name, values in arrays.items()}
        given = {name: one.array for name, one in memory.items()}
    else:
        given = {name: make(values) for name, values in arrays.items()}
    more = {}
    if how.out in arrays:
        more["out"] = given[how.out]
    elif how.out:
        dtype = case.out_dtype or how.dtype
        empty = typed(np.full(np.shape(right[0].values) or (1,), np.nan), dtype)
        if memory:
            memory["out"] = laid(empty, case.layout, rng)
            more["out"] = memory["out"].array
        else:
            more["out"] = make(empty)
    try:
        found = case.call(*given.values(), **inputs.options, method=method, **more)
    except ValueError as problem:
        if method != "auto" and refusal(case, problem):
            return None
        raise
    if more and found is not more["out"]:
        return "hands back something else than out"
    if touched := [name for name, one in memory.items() if one.touched()]:
        return f"writes beside {', '.join(touched)}"
    for name, values in given.items():
        if name != how.out and not np.array_equal(in_float64(values), exact[name], equal_nan=True):
            return f"changes {name}"
    results = several(found)
    first, *_ = given.values()
    for one, its in zip(results, right, strict=True):
        if case.entered and np.ndim(its.values) and type(one) is not type(first):
            return f"gives {type(one).__name__} of {type(first).__name__}"
    error = case.error(how.dtype, method)
    told = [wrong(one, its, error) for one, its in zip(results, right, strict=True)]
    return "; ".join(filter(None, told))


def _set_one(case: Case, arrays: dict, rng: np.random.Generator, dtype: str) -> None:
    """Set an element of an array to NaN or infinity."""
    names = case.specials or [name for name in arrays if case.holds(name)]
    values = arrays[names[int(rng.integers(len(names)))]]
    if values.size:
        place = np.unravel_index(int(rng.integers(values.size)), values.shape)
        special = case.special[int(rng.integers(len(case.special)))]
        values[place] = typed(np.array([special]), dtype)[0]
