"""A verdict on order comes from what orders accesses, never from the data of a test."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from numba import float32

from tests.warpsim.run import alike_programs
from tests.warpsim.run.unordered_programs import BLOCKS, THREADS, Program
from warpsim import cuda, trace
from warpsim.code.programs import program_of
from warpsim.run.other_data import OtherControl, OtherData
from warpsim.watch.store_flow import alike_on_any_data

PROGRAMS, QUICK = int(os.environ.get("COURSE_DRAWS", "200")), 10
LOADS_ITS_OWN = 70_166  # before it stores there, and others do
SIZE = BLOCKS * THREADS
DATA = {
    "ones": (np.ones(SIZE), 1.0),
    "zeros": (np.zeros(SIZE), 0.0),
    "arange": (np.arange(SIZE), 2.0),
    "random": (np.random.default_rng(1).normal(size=SIZE), 0.7),
}


def verdict(kernel, name):
    x, a = DATA[name]
    given = x.astype(np.float32), np.float32(a), np.zeros(SIZE, np.float32), np.zeros(SIZE)
    kinds = {finding.kind for finding in trace(kernel, BLOCKS, THREADS, *given).findings}
    return next((one for one in ("race", "same-value-race") if one in kinds), "")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(s, marks=pytest.mark.slow if QUICK <= s < PROGRAMS else ())
        for s in (*range(PROGRAMS), LOADS_ITS_OWN)
    ],
)
def test_the_verdict_is_the_same_whatever_the_data(seed):
    program = Program(seed)
    kernel = cuda.jit(program.function(cuda))
    found = {name: verdict(kernel, name) for name in DATA}
    assert found == dict.fromkeys(DATA, program.verdict()), program.text


LIMIT, LEVELS = 7.25, (3.5, 4.75)


@cuda.jit(device=True)
def _class_of(v):
    return 1 if v == 4242.5 else 2


def _over_a_number(x, a, out):
    out[0] = int(x[cuda.grid(1)] > 1e9)


def _at_a_number_outside(x, a, out):
    out[0] = 1.0 if x[cuda.grid(1)] == LIMIT else 0.0


def _clamped_by_an_argument(x, a, out):
    out[0] = min(max(x[cuda.grid(1)], a), a + 1)


def _one_way_or_the_other(x, a, out):
    if x[cuda.grid(1)] > 12345:
        out[0] = 1
    else:
        out[0] = 2


def _at_a_number_of_a_device_function(x, a, out):
    out[0] = _class_of(x[cuda.grid(1)])


def _at_a_number_of_a_tuple_outside(x, a, out):
    out[0] = 1 if x[cuda.grid(1)] == LEVELS[1] else 2


def _at_a_product_of_numbers(x, a, out):
    out[0] = 1 if x[cuda.grid(1)] == 64 * 125 else 2


def _at_a_negative_number(x, a, out):
    out[0] = 1 if x[cuda.grid(1)] == -77.5 else 2


def _between_numbers(x, a, out):
    out[0] = 1 if 10 < x[cuda.grid(1)] < 11 else 2


def _at_nan(x, a, out):
    out[0] = 1 if math.isnan(x[cuda.grid(1)]) else 2


def _unlike_itself(x, a, out):
    v = x[cuda.grid(1)]
    out[0] = 1 if v != v else 2


def _at_infinity(x, a, out):
    out[0] = 1 if math.isinf(x[cuda.grid(1)]) else 2


def _like_the_next(x, a, out):
    i = cuda.grid(1)
    out[0] = 1 if x[i] == x[(i + 1) % x.size] else 2


@pytest.mark.parametrize(
    "function",
    [
        _over_a_number, _at_a_number_outside, _clamped_by_an_argument, _one_way_or_the_other,
        _at_a_number_of_a_device_function, _at_a_number_of_a_tuple_outside, _at_nan, _at_infinity,
        _at_a_product_of_numbers, _at_a_negative_number, _between_numbers, _unlike_itself,
        _like_the_next,
    ],
)  # fmt: skip
def test_data_are_drawn_beside_what_a_kernel_compares_them_with(function):
    for x in (np.zeros(SIZE), np.ones(SIZE)):
        found = trace(cuda.jit(function), BLOCKS, THREADS, x, 1e6, np.zeros(1)).findings
        assert "race" in {finding.kind for finding in found}


def _at_a_complex_number(x, out):
    out[0] = 1 if abs(x[cuda.grid(1)]) < 2 else 5


def _at_a_field(x, out):
    out[0] = 1 if x[cuda.grid(1)].count == 123 else 5


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (_at_a_complex_number, np.complex64),
        (_at_a_field, np.dtype([("weight", "f4"), ("count", "i4")])),
    ],
)
def test_parts_of_elements_are_drawn_beside_numbers_too(function, dtype):
    found = trace(cuda.jit(function), BLOCKS, THREADS, np.zeros(SIZE, dtype), np.zeros(1)).findings
    assert "race" in {finding.kind for finding in found}


def test_arrays_from_outside_are_watched_on_other_data():
    outside = cuda.to_device(np.zeros(1))

    @cuda.jit
    def kernel(x):
        outside[0] = 1
        if x[cuda.grid(1)] > 5:
            outside[0] = 2

    found = trace(kernel, BLOCKS, THREADS, np.ones(SIZE)).findings
    assert "race" in {finding.kind for finding in found}


def test_other_data_make_no_loop_much_longer(monkeypatch):
    @cuda.jit
    def reaches(start, x, found):
        for _ in range(start[cuda.grid(1)], start[cuda.grid(1) + 1]):
            found[cuda.blockIdx.x] = x[cuda.blockIdx.x]

    passes = []
    head = OtherControl.head
    monkeypatch.setattr(OtherControl, "head", lambda *given: passes.append(1) or head(*given))
    (finding,) = trace(reaches, 2, 32, np.arange(0, 260, 4), np.ones(2), np.zeros(2)).findings
    assert finding.kind == "same-value-race" and 0 < len(passes) < 5_000


@cuda.jit
def _at_its_index(x, places, out):
    place = places[cuda.grid(1)]
    out[place] = x[place] + (place if place > 32 else 2 * place)


@pytest.mark.parametrize(
    ("lowest", "kind"), [(0, "same-value-race"), (-64, "race")], ids=["from 0", "below 0"]
)
@pytest.mark.parametrize("seed", range(8))
def test_indices_are_drawn_below_zero_where_some_are(seed, lowest, kind):
    random = np.random.default_rng(seed)
    places = random.integers(lowest, 64, SIZE)
    places[:3] = 6, 6, 6 + lowest
    given = random.normal(size=64), places, np.zeros(64)
    for _ in range(2):
        found = {one.kind for one in trace(_at_its_index, BLOCKS, THREADS, *given).findings}
        assert {one for one in found if "race" in one} == {kind}, f"seed {seed}"


# ---------------------------------------------------------------------- what the source says
@cuda.jit(device=True)
def _twice(v):
    return 2 * v


@cuda.jit(device=True)
def _own(v):
    return v + cuda.threadIdx.x


@cuda.jit(device=True)
def _through_another_name(x):
    own = cuda.local.array(2, float32)
    own[0] = 1
    other = own
    other[0] = x[cuda.threadIdx.x]
    return own[0]


@cuda.jit(device=True)
def _ends_threads(v):
    if v > 5:
        raise ValueError


@cuda.jit(device=True)
def _keeps(is_new, v):
    kept = cuda.shared.array(1, float32)
    if is_new:
        kept[0] = v
    cuda.syncthreads()
    return kept[0]


def _each_thread_does_all(x, out):
    largest = x[0]
    row = cuda.local.array(4, float32)
    for j in range(x.size):
        if x[j] < 0:
            continue
        row[j % 4] = _twice(x[j]) * cuda.blockDim.x
        largest = max(largest, row[j % 4])
        out[j] = math.sqrt(largest)


def _a_flag(x, out):
    i = cuda.grid(1)
    for j in range(int(x[i])):
        if x[j] > x[i]:
            out[int(x[j]) % 2] = 3
            return
    if i % 2 == 0:
        out[0] = 3


@pytest.mark.parametrize("function", [_each_thread_does_all, _a_flag])
def test_what_the_source_shows_to_be_alike_runs_once(function, monkeypatch):
    monkeypatch.setattr(OtherData, "__init__", lambda *given: pytest.fail("it ran again"))
    (finding,) = [
        finding
        for finding in trace(cuda.jit(function), 2, 32, np.ones(64), np.zeros(64)).findings
        if "race" in finding.kind
    ]
    assert finding.kind == "same-value-race"


def _by_a_return(x, out):
    out[0] = 1
    if x[cuda.grid(1)] > 5:
        return
    out[0] = 2


def _by_a_break(x, out):
    for j in range(4):
        if x[cuda.grid(1)] < j:
            break
        out[0] = j


def _by_a_way(x, out):
    v = 1
    if x[cuda.grid(1)] > 5:
        v = 2
    out[0] = v


def _by_another_constant(x, out):
    if x[cuda.grid(1)] > 5:
        out[0] = 1
    out[0] = 1.0
    if x[cuda.grid(1)] > 6:
        out[0] = 2


def _by_a_device_function(x, out):
    out[0] = _own(0) * x[0] * 0 + x[0] * _twice(x[_own(0)])


def _by_another_name_in_a_device_function(x, out):
    out[0] = _through_another_name(x)


def _by_an_array_of_its_own(x, out):
    row = cuda.local.array(2, float32)
    row[1] = 1
    if x[cuda.grid(1)] > 5:
        row[1] = 2
    out[0] = row[1]


def _by_a_loop(x, out):
    n = 0
    while n < x[cuda.grid(1)]:
        n += 1
    out[0] = n


def _by_a_shuffle(x, out):
    out[0] = cuda.shfl_xor_sync(0xFFFFFFFF, x[cuda.grid(1)], 1)


def _by_another_name(x, out):
    for row in (out, out):
        row[0] = x[cuda.grid(1)]
    out[1] = 1


def _by_an_index(x, out):
    out[int(x[cuda.grid(1)]) % 3] = x[1]
    out[int(x[cuda.grid(1)]) % 2] = x[0]


@pytest.mark.parametrize(
    "function", [one for name, one in list(globals().items()) if name.startswith("_by_")]
)
def test_what_differs_between_threads_is_seen_in_the_source(function):
    program = program_of(function)
    assert alike_on_any_data(program.source, program_of) == frozenset(), program.source.text
    found = trace(cuda.jit(function), BLOCKS, 32, np.ones(SIZE), np.zeros(4)).findings
    assert "race" in {finding.kind for finding in found}


def _ended_in_a_device_function(x, out):
    out[0] = 1
    _ends_threads(x[cuda.grid(1)])
    out[0] = 2


def _kept_by_a_device_function(x, out):
    _keeps(1, x[cuda.blockIdx.x])
    out[0] = _keeps(0, 0)


def _in_the_same_dynamic_memory(x, out):
    a = cuda.shared.array(0, float32)
    b = cuda.shared.array(shape=0, dtype=float32)
    if cuda.threadIdx.x == 0:
        a[0] = x[cuda.blockIdx.x]
    cuda.syncthreads()
    out[0] = b[0]


def _after_some_atomics(x, out):
    cuda.atomic.add(x, 0, 1)
    if x[0] > 40:
        out[0] = 1
    else:
        out[0] = 2


@pytest.mark.parametrize(
    "function",
    [
        _ended_in_a_device_function, _kept_by_a_device_function, _in_the_same_dynamic_memory,
        _after_some_atomics,
    ],
)  # fmt: skip
def test_the_source_does_not_say_what_order_or_other_names_decide(function):
    program = program_of(function)
    assert alike_on_any_data(program.source, program_of) == frozenset(), program.source.text


def test_a_device_function_of_the_same_name_is_not_the_kernel():
    @cuda.jit(device=True)
    def same(x, out):
        out[0] = x[cuda.threadIdx.x]

    device = same

    def same(x, out, other):
        out[0] = 1
        device(x, other)

    found = trace(cuda.jit(same), 1, 32, np.ones(SIZE), np.zeros(2), np.zeros(2)).findings
    assert "race" in {finding.kind for finding in found}


def test_arrays_over_each_other_are_not_judged_by_the_source():
    @cuda.jit
    def both(x, out, same):
        out[0] = 1
        if x[cuda.grid(1)] > 5:
            same[0] = 2

    out = cuda.to_device(np.zeros(2))
    found = trace(both, BLOCKS, THREADS, np.ones(SIZE), out, out).findings
    assert "race" in {finding.kind for finding in found}


def _shown_alike(seed):
    program = alike_programs.Program(seed)
    source = program_of(program.function(cuda, float32)).source
    shown = alike_on_any_data(source, program_of)
    data = np.random.default_rng(seed).integers(-2, 4, (24, alike_programs.SIZE))
    differ = program.differing(data)
    assert not shown & differ, program.text
    return len(shown & {"o", "q"}), len({"o", "q"} - differ)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, PROGRAMS // 20))]
)
def test_what_the_source_shows_to_be_alike_is_so_on_any_data(seed):
    shown, alike = np.sum([_shown_alike(100 * seed + n) for n in range(100)], 0)
    assert shown > alike / 3 > 10


# ---------------------------------------------------------------------- who loads what is the same
def _after_its_own(x, first, out, y):
    i = cuda.grid(1)
    out[i] = x[i - 1] * 2
    out[0] = first
    y[i] = out[i]


def _before_its_own(x, first, out, y):
    i = cuda.grid(1)
    out[i] = x[i - 1] * 2
    y[i] = out[i]
    out[0] = first


def _without_its_own(x, first, out, y):
    i = cuda.grid(1)
    if i == 3:
        out[1] = first
        out[1] = first
    y[i] = out[1]


def _while_others_store_more(x, first, out, y):
    out[0] = x[0]
    out[0] = first
    y[cuda.grid(1)] = out[0]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (_after_its_own, "same-value-race"), (_before_its_own, "race"),
        (_without_its_own, "race"), (_while_others_store_more, "race"),
    ],
)  # fmt: skip
def test_who_loads_what_it_stored_itself_sees_nothing_else(function, kind):
    kernel = cuda.jit(function)
    for _ in range(3):  # the second launch is searched thoroughly from its beginning
        given = np.ones(SIZE), 2.0, np.ones(SIZE), np.zeros(SIZE)
        kinds = {finding.kind for finding in trace(kernel, BLOCKS, THREADS, *given).findings}
        assert {one for one in kinds if "race" in one} == {kind}
