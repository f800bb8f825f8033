"""A long launch says once how long it will take; the clock here is a counter."""

import gc
import sys
from itertools import count

import numpy as np
import pytest

from warpsim import cuda, trace
from warpsim.core import masks
from warpsim.core.memory import Array
from warpsim.run import launch


@cuda.jit
def fill(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i


@pytest.fixture
def clock(monkeypatch):
    """Every look at the clock takes a number of seconds; launches run block by block."""
    monkeypatch.setattr(launch, "CHUNK_LANES", 64)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    return lambda step: monkeypatch.setattr(launch, "clock", count(0, step).__next__)


LINE = "warpsim: fill: 2 of 8 blocks after 12 s, about 36 s more\n"


@pytest.mark.parametrize("traced", [False, True])
def test_past_ten_seconds_there_is_one_line_on_stderr(clock, capsys, traced):
    clock(4)
    x = np.zeros(512)
    trace(fill, 8, 64, x) if traced else fill[8, 64](x)
    assert capsys.readouterr() == ("", LINE)
    assert (x == np.arange(512)).all()


def test_two_billion_threads_say_within_their_first_parts_how_long_they_take(monkeypatch, capsys):
    """2³¹ threads, here until the line is there; blocks of one thread make the most parts."""

    class Stopped(Exception):
        pass

    def clock():
        if not times:
            raise Stopped
        return times.pop()

    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(launch, "clock", clock)
    for grid, block, said in (
        (2**23, 256, "64 of 8,388,608 blocks after 11 s, about 17 days more"),
        (2**31 - 1, 1, "512 of 2,147,483,647 blocks after 11 s, about 534 days more"),
    ):
        times = [11, 5, 0]
        with pytest.raises(Stopped):
            fill[grid, block](np.zeros(64))
        assert capsys.readouterr().err == f"warpsim: fill: {said}\n"


def test_more_blocks_than_a_trace_can_remember_are_one_sentence(monkeypatch):
    def missing(*_):
        raise MemoryError("Unable to allocate 8.00 GiB")

    monkeypatch.setattr(launch, "Clock", missing)
    with pytest.raises(MemoryError, match="fill: .* 2,147,483,647 blocks.*trace fewer"):
        trace(fill, 2**31 - 1, 1, np.zeros(64))


def test_a_quick_launch_says_nothing(clock, capsys):
    clock(1)
    fill[8, 64](np.zeros(512))
    assert capsys.readouterr() == ("", "")


def test_a_slow_first_part_is_no_end_of_the_launch(clock, capsys):
    clock(1000)
    fill[1, 64](np.zeros(64))
    assert capsys.readouterr() == ("", "")


def test_a_notebook_gets_none(clock, capsys, monkeypatch):
    clock(4)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    fill[8, 64](np.zeros(512))
    assert capsys.readouterr() == ("", "")


@cuda.jit
def waits(n, x):
    for i in range(n):
        k = 0
        while k < 3:
            k += 1
        x[0] = i


@cuda.jit
def counts_down(n, x):
    while n > 0:
        for _ in range(5):
            n -= 1
    x[0] = n


@cuda.jit(device=True)
def down(n):
    while n > 0:
        n -= 1
    return n


@cuda.jit
def calls(n, x):
    x[0] = down(n)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (waits, "waits: pass 71 of 200 of the loop in line 2 after 12 s, about 22 s more"),
        (counts_down, "counts_down: pass 71 of the loop in line 2 after 12 s"),
        (calls, "calls: pass 71 of the loop in line 2 of down after 12 s"),
    ],
)
def test_a_long_loop_in_one_block_says_on_which_pass_it_is(clock, capsys, kernel, said, traced):
    clock(3)
    given = 200 if kernel is waits else 1000, np.zeros(1)
    trace(kernel, 1, 1, *given) if traced else kernel[1, 1](*given)
    assert capsys.readouterr().err == f"warpsim: {said}\n"


def test_a_loop_whose_passes_are_known_is_not_called_endless(monkeypatch):
    monkeypatch.setattr(masks, "ENDLESS", 150)
    x = np.zeros(1)
    with masks.limited_steps(150):
        waits[1, 1](400, x)
    assert x[0] == 399
    with masks.limited_steps(140), pytest.raises(masks.EndlessLoop, match="140 times"):
        waits[1, 1](400, x)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3.4, "3 s"), (119, "119 s"), (150, "2 min"), (7300, "2 hours"), (9 * 86_400, "9 days")],
)
def test_times_have_the_unit_that_people_use(seconds, said):
    assert launch.span(seconds) == said


@pytest.mark.parametrize("traced", [False, True])
def test_what_a_launch_holds_waits_for_no_search_for_garbage(traced):
    def held():
        return sum(issubclass(type(one), Array) for one in gc.get_objects())

    trace(fill, 1, 64, np.zeros(64))  # what stays for good is there
    gc.collect()
    gc.disable()
    try:
        before = held()
        trace(fill, 1, 64, np.zeros(64)) if traced else fill[1, 64](np.zeros(64))
        assert held() == before
    finally:
        gc.enable()
