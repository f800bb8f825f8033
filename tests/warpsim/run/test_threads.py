"""Eight threads at once on kernels that nobody prepared yet: each gets what it gets alone."""

from __future__ import annotations

import random
from types import FunctionType

import numpy as np
import pytest
from numba import float32, float64, int32
from numba.core.errors import NumbaError

from tests.texts import function_of
from tests.threads import at_once
from tests.warpsim.programs import exchange_programs
from tests.warpsim.programs.random_programs import helper, source
from warpsim import cuda, trace
from warpsim.core.masks import EndlessLoop, limited_steps
from warpsim.cuda import jit

THREADS, BLOCK = 8, 32
KINDS = (np.float32, np.float64, np.int32)


class Cold:
    """Functions that no thread has called yet, and what can be done with them."""

    def __init__(self, seed: int):
        @jit(device=True)
        def below(n):
            return 1 if n < 2 else below(n - 1) + below(n - 2)

        @jit(device=True)
        def apply(function, x):
            return function(x) + below(4)

        @jit(device=True)
        def twice(x):
            return x + x

        @jit
        def called(x, out):
            def moved(y):
                return y + shift

            i = cuda.grid(1)
            shift = i % 3
            if i < x.size:
                out[i] = moved(apply(twice, x[i])) * below(i % 7)

        @jit
        def halved(x, out):
            tile = cuda.shared.array(BLOCK, float64)
            t = cuda.threadIdx.x
            i = cuda.grid(1)
            tile[t] = x[i] if i < x.size else 0
            cuda.syncthreads()
            step = BLOCK // 2
            while step:
                if t < step:
                    tile[t] += tile[t + step]
                cuda.syncthreads()
                step //= 2
            if t == 0:
                cuda.atomic.add(out, 0, tile[0])

        @jit
        def thrown(states, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = cuda.random.xoroshiro128p_uniform_float32(states, i)

        @jit
        def numbered(last, out):
            out[cuda.atomic.add(last, 0, 1)] += 1

        @cuda.vectorize([f"{k}({k}, {k})" for k in ("float32", "float64", "int32")])
        def mixed(x, y):
            return x * y + below(3)

        @cuda.guvectorize([(k[:], k[:]) for k in (float32, float64, int32)], "(n)->(n)")
        def summed(x, out):
            total = x[0] - x[0]
            for i in range(x.size):
                total += x[i]
                out[i] = total

        self.called, self.halved, self.thrown, self.numbered = called, halved, thrown, numbered
        self.mixed, self.summed, self.added = mixed, summed, cuda.reduce(lambda a, b: a + b)
        self.exchange, self.block = exchange_programs.function(seed, cuda, True)
        self.exchange, self.seed = jit(self.exchange), seed
        names = {"helper": jit(device=True)(FunctionType(helper.__code__, {}))}
        program = jit(device=True)(function_of(source(seed), f"program {seed}", names))

        @jit
        def drawn(n, out):
            i = cuda.grid(1)
            local = cuda.local.array(4, float64)
            for p in range(4):
                local[p] = 0.0
            if i < n.shape[0]:
                out[i, 4] = program(i, n, out, local, 3)

        self.drawn = drawn

    def do(self, what: str, kind: type, size: int) -> list:
        """One of a thread's tasks, on arrays of its own; or why its types are refused."""
        try:
            return self._done(what, kind, size)
        except NumbaError as error:
            return [str(error)]

    def _done(self, what: str, kind: type, size: int) -> list[np.ndarray]:
        x, out = (np.arange(size) % 9).astype(kind), np.zeros(size, kind)
        grid = -(-size // BLOCK)
        if what == "called":
            self.called[grid, BLOCK, cuda.stream()](x, out)
        elif what == "traced":
            report = trace(self.called, grid, BLOCK, x, out)
            out = np.array([report.total("global", "load").sectors, len(report.findings), *out])
        elif what == "halved":
            there = cuda.to_device(np.zeros(1))
            self.halved.forall(size, tpb=BLOCK)(cuda.to_device(x), there)
            out = there.copy_to_host()
        elif what == "thrown":
            states = np.zeros(size, cuda.random.xoroshiro128p_dtype)
            states["s0"] = 2 ** np.arange(size, dtype=np.uint64) % 251
            self.thrown[grid, BLOCK](states, out)
        elif what == "mixed":
            out = self.mixed(x, x[::-1].copy())
        elif what == "summed":
            out = self.summed(np.stack([x, x + x]))
        elif what == "added":
            out = np.array([self.added(x)])
        elif what == "exchange":
            *given, out = exchange_programs.arguments(self.seed, self.block)
            self.exchange[exchange_programs.GRID, self.block](given[0].astype(kind), given[1], out)
        else:
            out = np.zeros((70, 5))
            n = np.random.default_rng(self.seed).integers(-9, 10, (70, 8))
            self.drawn[3, BLOCK](n.astype(kind if kind is np.int32 else np.int64), out)
        return [x, out]


TASKS = (
    "called", "traced", "halved", "thrown", "mixed", "summed", "added", "exchange", "drawn",
)  # fmt: skip


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.slow if s > 3 else ()) for s in range(200)]
)
def test_threads_that_meet_cold_kernels_get_what_they_get_alone(seed):
    draw = random.Random(seed)
    some = draw.sample(TASKS, 3)  # so that many threads want the same
    lists = [
        [(draw.choice(some), draw.choice(KINDS), draw.randrange(1, 99)) for _ in range(2)]
        for _ in range(THREADS)
    ]
    alone, shared = Cold(seed), Cold(seed)
    wanted = {task: alone.do(*task) for tasks in lists for task in tasks}
    found = at_once(*(lambda t=tasks: [shared.do(*task) for task in t] for tasks in lists))
    for tasks, results in zip(lists, found, strict=True):
        for task, result in zip(tasks, results, strict=True):
            assert all(map(np.array_equal, result, wanted[task])), task


def test_atomics_of_launches_at_once_are_atomic():
    kernel, last = Cold(0).numbered, cuda.to_device(np.zeros(1, np.int64))
    out = cuda.to_device(np.zeros(THREADS * 5 * 64))
    at_once(*([lambda: [kernel[2, 32](last, out) for _ in range(5)]] * THREADS))
    assert (out.copy_to_host() == 1).all()


def test_a_limit_of_passes_is_the_threads_that_asked_for_it():
    @jit
    def counts(out):
        while out[0] < 3000:
            out[0] += 1

    def limited():
        with limited_steps(100), pytest.raises(EndlessLoop):
            counts[1, 1](np.zeros(1))

    at_once(*[limited, lambda: counts[1, 1](np.zeros(1))] * 4)


def test_threads_recurse_deeply_at_once():
    @jit(device=True)
    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    @jit
    def deep(out):
        out[0] = depth(599 + out.size)

    found = [np.zeros(1) for _ in range(THREADS)]
    at_once(*(lambda out=out: deep[1, 1](out) for out in found))
    assert found == [600] * THREADS


def test_memory_is_found_by_its_address_while_others_add_theirs():
    def added():
        for _ in range(200):
            array = cuda.to_device(np.ones(3))
            assert cuda.from_cuda_array_interface(array.__cuda_array_interface__).size == 3

    at_once(*[added] * 4)
