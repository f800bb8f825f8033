"""Threads that wait for ever are stopped at once, and the loop is named; slow progress is not."""

import time

import numpy as np
import pytest

from warpsim import cuda, trace
from warpsim.core.masks import EndlessLoop


@cuda.jit
def spin_lock(x, lock):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    x[0] += 1
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def flag_of_a_later_branch(x, flag):
    if cuda.grid(1) != 0:
        while flag[0] == 0:
            cuda.nanosleep(100)
    else:
        flag[0] = 1


@cuda.jit
def ticket(x, lock):
    mine = cuda.atomic.add(lock, 0, 1)
    while True:
        if lock[1] == mine:
            break
    cuda.atomic.add(lock, 1, 1)


@cuda.jit(device=True)
def take(lock):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass


@cuda.jit
def lock_of_a_function(x, lock):
    take(lock)
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def lock_that_counts(x, lock):
    spins, doubled = 0, 0.0
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        spins += 1
        if lock[0] == 1:
            doubled = spins * 2.0
    x[0] += doubled
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def lock_that_keeps_what_it_saw(x, lock):
    spins = 0
    seen = cuda.atomic.cas(lock, 0, 0, 1)
    while seen != 0:
        spins, seen = spins + 1, cuda.atomic.cas(lock, 0, 0, 1)
    x[0] += spins
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def blocks_that_meet(x, count):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, 1)
        while count[0] < 1000:
            pass


def _launch(kernel, *arguments):
    kernel[3, 64](*arguments)


def _trace(kernel, *arguments):
    trace(kernel, 3, 64, *arguments)


@pytest.mark.parametrize("launch", [_launch, _trace])
@pytest.mark.parametrize(
    "kernel, line, code",
    [
        (spin_lock, 2, "cuda.atomic.cas(lock, 0, 0, 1)"),
        (flag_of_a_later_branch, 3, "flag[0]"),
        (ticket, 3, "lock[1]"),
        (lock_of_a_function, 2, "cuda.atomic.cas(lock, 0, 0, 1)"),
        (blocks_that_meet, 4, "count[0]"),
        (lock_that_counts, 3, "cuda.atomic.cas(lock, 0, 0, 1)"),
        (lock_that_keeps_what_it_saw, 4, "cuda.atomic.cas(lock, 0, 0, 1)"),
    ],
)
def test_threads_that_wait_for_ever_are_named_within_two_seconds(kernel, line, code, launch):
    began = time.process_time()
    with pytest.raises(EndlessLoop, match="wait for ever") as caught:
        launch(kernel, np.zeros(1), np.zeros(2, np.int32))
    assert time.process_time() - began < 2  # of the processor: others may be busy
    assert f", line {line}: " in str(caught.value)
    assert f"at {code}:" in str(caught.value)


@cuda.jit
def polite_lock(x, lock):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            x[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@cuda.jit
def collatz(x, least):
    i = cuda.grid(1)
    n, steps = i + 1, 0
    while n != 1 or steps < least[0]:
        n = 1 if n == 1 else n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    x[i] = steps


@cuda.jit
def gives_up(x, least):
    i = cuda.grid(1)
    tries = 0
    while x[i] == 0:
        tries += 1
        if tries >= least[0]:
            break
    x[i] = tries


@cuda.jit
def waits_longer_each_time(x, least):
    i = cuda.grid(1)
    pause, passes = 1.0, 0
    while pause < 1e30 or passes < least[0]:
        pause = min(pause * 1.5, 2e30)
        passes += 1
    x[i] = passes


@cuda.jit
def memory_counts(x, least):
    i = cuda.grid(1)
    while x[i] < least[0]:
        x[i] += 1


@cuda.jit
def local_counts(x, least):
    count = cuda.local.array(1, np.int32)
    count[0] = 0
    while count[0] < least[0]:
        count[0] += 1
    x[cuda.grid(1)] = count[0]


def test_what_goes_on_is_left_alone():
    x = np.zeros(1)
    polite_lock[3, 64](x, np.zeros(2, np.int32))
    assert x[0] == 192
    for kernel in (collatz, gives_up, waits_longer_each_time, memory_counts, local_counts):
        x = np.zeros(192)
        kernel[3, 64](x, np.full(1, 500, np.int32))
        assert (x == 500).all(), kernel
