"""The SVD's host asks once, and replays what is the same in every call: nothing else changes."""

import numpy as np
import pytest

from course import cuda, gpu
from course.kernels.svd import LADDER, NotConverged, RankSolver, Solver, SVDProblem, ladder
from tests.course.kernels.svd_samples import (
    assert_right,
    factors_of,
    normal,
    same,
    solved,
    without_full_rank,
)

needs_graphs = pytest.mark.skipif(gpu() is None, reason="without a GPU there are no CUDA graphs")


def test_a_matrix_that_does_not_converge_is_told(rng, monkeypatch):
    monkeypatch.setattr(ladder, "MOST_SWEEPS", 1)
    solver = Solver(1, 40, 40, "blocks")
    with pytest.raises(NotConverged, match="1 of 1 matrices.*1 sweeps"):
        solver(cuda.to_device(normal(rng, 1, 40, 40)), *factors_of((1, 40, 40)))


@pytest.fixture
def reads(monkeypatch):
    """What the host reads from the GPU, shapes in order."""
    read, true = [], type(cuda.to_device(np.zeros(1))).copy_to_host

    def copy_to_host(self, *args, **options):
        read.append(self.shape)
        return true(self, *args, **options)

    monkeypatch.setattr(type(cuda.to_device(np.zeros(1))), "copy_to_host", copy_to_host)
    return read


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 40, 40), (2, 20, 41)])
def test_the_host_reads_once(rng, reads, shape):
    there = cuda.to_device(without_full_rank(rng, *shape))
    Solver(*shape)(there, *factors_of(shape))
    assert reads == [(4, 2)]
    RankSolver(*shape, 3)(there, *factors_of(shape, 3))
    assert len(reads) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "shape"),
    [
        pytest.param("blocks", (2, 45, 35), id="blocks"),
        pytest.param("shared", (2, 20, 20), id="shared"),
    ],
)
def test_more_sweeps_than_were_queued_give_the_same_to_the_bit(rng, reads, shape, method):
    a = without_full_rank(rng, *shape)
    enough, few = Solver(*shape, method), Solver(*shape, method)
    few.queued = 1
    expected = solved(enough, a)
    assert_right(a, expected)
    reads.clear()
    for _ in range(2):
        assert same(solved(few, a), expected)
    asked = reads.count((4, 2))
    assert asked >= 4 and few.sweeps == enough.sweeps


@pytest.mark.slow
def test_who_is_finished_is_swept_no_more(rng):
    a = normal(rng, 3, 40, 40)
    a[1] = np.diag(np.arange(40))  # takes fewer sweeps
    solver = Solver(*a.shape, "blocks")
    for _ in range(2):
        solved(solver, a)
        swept = solver.swept.copy_to_host()
        assert 1 <= swept[1] < swept[0] <= swept.max() == solver.sweeps <= 12


@pytest.mark.slow
def test_a_solver_keeps_nothing_of_the_call_before(rng):
    for shape, k in (((2, 14, 9), None), ((2, 33, 33), 1)):

        def make(shape=shape, k=k):
            return RankSolver(*shape, k) if k else Solver(*shape)

        used = make()
        data = [without_full_rank(rng, *shape), np.zeros(shape, np.float32)]
        bad = normal(rng, *shape)
        bad[1, 2, 3] = np.inf
        first = factors_of(shape, k)
        make()(cuda.to_device(data[0]), *first)
        for a in (*data, bad, data[0]):
            factors = factors_of(shape, k)
            if a is bad:
                with pytest.raises(ValueError, match=r"^a\[1\] holds NaN"):
                    used(cuda.to_device(a), *factors)
                continue
            used(cuda.to_device(a), *factors)
            fresh = first if a is data[0] else factors_of(shape, k)
            if fresh is not first:
                make()(cuda.to_device(a), *fresh)
            assert same(*([x.copy_to_host() for x in each] for each in (factors, fresh)))


def test_beside_a_matrix_with_nan_the_others_are_right(rng):
    a = normal(rng, 3, 12, 9)
    bad = a.copy()
    bad[1, 3] = np.nan
    factors = factors_of(a.shape)
    with pytest.raises(ValueError, match=r"^a\[1\] holds NaN or infinite values:"):
        Solver(*a.shape)(cuda.to_device(bad), *factors)
    assert_right(a[::2], [x.copy_to_host()[::2] for x in factors])


@needs_graphs
@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 64, 64), (5, 200, 120), (4, 256, 256)])
@pytest.mark.parametrize("method", [name for name in LADDER if name != "one launch"])
def test_a_graph_gives_the_same_to_the_bit(rng, method, shape):
    pytest.importorskip("cupy")
    try:
        LADDER.choose(method, SVDProblem(min(shape[1:])))
    except ValueError as reason:
        pytest.skip(str(reason))
    solver, few = Solver(*shape, method), Solver(*shape, method)
    few.queued = 1
    data = [without_full_rank(rng, *shape), normal(rng, *shape)]
    for number in range(3):
        for a in data:
            one_by_one = solved(Solver(*shape, method), a)
            assert same(solved(solver, a), one_by_one) and same(solved(few, a), one_by_one)
        assert solver._first_sweeps.graph is not None, number
    assert (few._more_sweeps.graph is not None) == (method != "registers")


@needs_graphs
@pytest.mark.gpu
def test_a_graph_of_a_sketch_gives_the_same_to_the_bit(rng):
    pytest.importorskip("cupy")
    shape, k = (4, 200, 256), 50
    solver = RankSolver(*shape, k)
    for _ in range(3):
        a = normal(rng, *shape)
        found, fresh = factors_of(shape, k), factors_of(shape, k)
        solver(cuda.to_device(a), *found)
        RankSolver(*shape, k)(cuda.to_device(a), *fresh)
        assert same(*([x.copy_to_host() for x in each] for each in (found, fresh)))
    assert solver._launches.graph is not None
