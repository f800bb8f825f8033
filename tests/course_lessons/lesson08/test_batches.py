"""Every way rebuilds the same images, in order; pinned memory is bounded; what is recorded."""

import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.kernels.steps import Launch
from course.measure import timeline
from course.measure.recorded import recorded as find
from course_lessons.lesson08 import batches
from course_lessons.lesson08 import pinned as slots
from course_lessons.lesson08.batches import (
    WAYS,
    Batch,
    factor_bytes,
    least_copy_time,
    rebuild_stack,
)
from course_lessons.lesson08.pinned import PinnedPool, PoolExhausted
from course_recording.frame import Bench
from course_recording.subjects import streams as subject
from tests.course_recording.lazy_gpu import Event, Kernel, LazyGPU
from warpsim import cuda as host
from warpsim.host import device

OWN = [way for way in WAYS if WAYS[way].pinned]  # those that use pinned memory
OVERLAPPING = [way for way in OWN if WAYS[way].streams is not None]


def factors(images=5, rows=37, columns=29, rank=23, seed=1):
    rng = np.random.default_rng(seed)
    u, vt = rng.random((images, rows, rank)) - 0.5, rng.random((images, rank, columns)) - 0.5
    s = np.sort(rng.random((images, rank)))[:, ::-1] + 0.1
    return tuple(array.astype(np.float32) for array in (u, s, vt))


def product(u, s, vt, k):
    left = u[..., :k].astype(np.float64) * s[:, None, :k]
    return left @ vt[:, :k]


def error(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


# ---------------------------------------------------------------------- right results
@pytest.mark.parametrize("way", WAYS)
def test_every_way_rebuilds_every_image_in_order(way):
    given = factors()
    result = rebuild_stack(way, *given, 11)
    assert result.images.shape == (5, 37, 29) and result.images.dtype == np.float32
    assert error(result.images, product(*given, 11)) < 1e-6
    assert result.way == way
    if backend.gpu() is None:
        assert (result.spans, result.milliseconds) == ((), None)
    else:
        assert bool(result.spans) == (way != "graph") and result.milliseconds > 0


@pytest.mark.parametrize("way", ["original", "pinned", "3 streams", "batched", "chunks", "graph"])
@pytest.mark.parametrize(("images", "k"), [(1, 1), (4, 23), (9, 2)])
def test_one_image_whole_chunks_and_what_is_left_of_them(way, images, k):
    given = factors(images, 19, 31, 23)
    assert error(rebuild_stack(way, *given, k).images, product(*given, k)) < 1e-6


@pytest.mark.parametrize("way", ["pinned", "queues", "batched"])
def test_whole_factors_travel_on_request_and_change_nothing(way):
    given = factors()
    assert error(rebuild_stack(way, *given, 6, whole=True).images, product(*given, 6)) < 1e-6


def test_a_step_of_the_ladder_can_be_chosen():
    given = factors(3)
    got = rebuild_stack("3 streams", *given, 8, kernel="tiled")
    assert error(got.images, product(*given, 8)) < 1e-6


def test_a_batch_can_be_run_again_with_other_factors():
    with Batch("chunks", 5, 37, 29, 11) as batch:
        for seed in (1, 2):
            given = factors(seed=seed)
            batch.load(*given)
            batch.poison()
            batch.go()
            assert error(batch.images, product(*given, 11)) < 1e-6


def test_factors_can_be_packed_while_the_batch_is_queued():
    given = factors()
    with Batch("3 streams", 5, 37, 29, 11) as batch:
        batch.poison(factors=True)
        batch.queue(ready=lambda part: batch.pack(*given, part))
        numbers = [number for number, _ in batch.finished()]
        assert numbers == [0, 1, 2, 3, 4]
        assert error(batch.images, product(*given, 11)) < 1e-6


# ---------------------------------------------------------------------- order
@pytest.fixture
def lazy(monkeypatch):
    """Let the ways run on a GPU whose order is drawn by lot."""

    def start(seed):
        gpu = LazyGPU(seed)
        monkeypatch.setattr(backend, "_cuda", lambda: gpu)
        monkeypatch.setattr(backend, "gpu", lambda: None)

        def launches(u, s, vt, out, k, method):
            return [Launch(Kernel(gpu), 1, 1, (u, s, vt, k, out))]

        for module in (slots, batches):
            monkeypatch.setattr(module, "LADDER", SimpleNamespace(launches=launches))
        return gpu

    return start


@pytest.mark.parametrize("way", WAYS)
def test_no_order_that_streams_allow_spoils_an_image(lazy, way):
    given = factors(7, 8, 6, 5)
    for seed in range(12):
        lazy(seed)
        assert error(rebuild_stack(way, *given, 3).images, product(*given, 3)) < 1e-6


def test_without_its_events_the_way_of_queues_would_be_wrong(lazy, monkeypatch):
    monkeypatch.setattr(Event, "wait", lambda self, stream=0: None)
    given, wrong = factors(7, 8, 6, 5), 0
    for seed in range(12):
        lazy(seed)
        wrong += not error(rebuild_stack("queues", *given, 3).images, product(*given, 3)) < 1e-6
    assert wrong > 6


@pytest.mark.parametrize("way", WAYS)
def test_images_are_handed_on_in_order_and_only_when_they_are_there(lazy, way):
    given = factors(7, 8, 6, 5)
    want = product(*given, 3)
    for seed in range(6):
        lazy(seed)
        with Batch(way, 7, 8, 6, 3, rank=5) as batch:
            batch.load(*given)
            batch.go()
            batch.poison()
            batch.queue()
            numbers = []
            for number, image in batch.finished():
                assert error(image, want[number]) < 1e-6
                numbers.append(number)
            assert numbers == list(range(7))


@pytest.mark.parametrize("way", OVERLAPPING)
def test_with_streams_the_host_queues_everything_before_the_first_image_is_there(lazy, way):
    gpu = lazy(0)
    with Batch(way, 7, 8, 6, 3, rank=5) as batch:
        batch.load(*factors(7, 8, 6, 5))
        batch.poison()
        gpu.log.clear()
        batch.queue()
        assert gpu.log == [] and sum(map(len, gpu.queues.values())) >= 3 * len(batch.parts)
        batch.wait()
    assert [what for _, what in gpu.log].count("out") == len(batch.parts)


@pytest.mark.parametrize(
    ("way", "used"),
    [("2 streams", 2), ("3 streams", 3), ("n streams", 7), ("queues", 3), ("batched", 1)],
)
def test_a_way_uses_as_many_streams_as_it_says(lazy, way, used):
    gpu = lazy(0)
    with Batch(way, 7, 8, 6, 3, rank=5) as batch:
        batch.load(*factors(7, 8, 6, 5))
        gpu.log.clear()
        batch.go()
    assert len({stream for stream, what in gpu.log if what != "wait"}) == used


def test_the_way_of_queues_has_a_stream_for_each_engine(lazy):
    gpu = lazy(0)
    with Batch("queues", 7, 8, 6, 3, rank=5) as batch:
        batch.load(*factors(7, 8, 6, 5))
        gpu.log.clear()
        batch.go()
    by_kind = {
        kind: {stream for stream, what in gpu.log if what == kind}
        for kind in ("in", "kernel", "out")
    }
    assert sorted(map(len, by_kind.values())) == [1, 1, 1]
    assert len(set.union(*by_kind.values())) == 3


# ---------------------------------------------------------------------- what travels
def test_factors_of_a_launch_lie_in_one_piece_where_wide_accesses_may_start():
    memory = np.arange(slots.floats(3, (5, 7, 3)), dtype=np.float32)
    u, s, vt = slots.views(memory, 3, (5, 7, 3))
    assert (u.shape, s.shape, vt.shape) == ((3, 5, 3), (3, 3), (3, 3, 7))
    starts = [int(part.flat[0]) for part in (u, s, vt)]
    assert starts[0] == 0 and all(start % 64 == 0 for start in starts)
    assert len({int(value) for part in (u, s, vt) for value in part.flat}) == 45 + 9 + 63
    u, s, vt = slots.views(memory, 1, (5, 7, 3), front=False)
    assert (u.shape, s.shape, vt.shape) == ((5, 3), (3,), (3, 7))


def test_bytes_are_those_of_what_travels():
    with Batch("pinned", 4, 20, 30, 5) as few, Batch("pinned", 4, 20, 30, 5, whole=True) as all_:
        assert few.bytes_in == factor_bytes(4, 20, 30, 5) == 4 * 4 * 5 * (20 + 1 + 30)
        assert all_.bytes_in == factor_bytes(4, 20, 30, 20)
        assert few.bytes_out == all_.bytes_out == 4 * 4 * 20 * 30
    assert Batch("original", 4, 20, 30, 5).bytes_in == factor_bytes(4, 20, 30, 20)


def test_the_bound_is_the_slower_direction():
    assert least_copy_time(10**9, 10**9, 50, 25) == pytest.approx(40)
    assert least_copy_time(4 * 10**9, 10**9, 50, 25) == pytest.approx(80)


# ---------------------------------------------------------------------- wrong input
def test_a_way_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ValueError, match="no way '5 streams': choose one of original, .*graph"):
        rebuild_stack("5 streams", *factors(), 3)


@pytest.mark.parametrize("k", [0, 24, -1])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match=f"k is {k}; with 23 singular values .* from 1 to 23"):
        rebuild_stack("pinned", *factors(), k)


@pytest.mark.parametrize(
    "change",
    [
        lambda u, s, vt: (u[0], s[0], vt[0]),
        lambda u, s, vt: (u, s[:, :-1], vt),
        lambda u, s, vt: (u[:-1], s, vt),
        lambda u, s, vt: (u, s, vt[:, :-1]),
        lambda u, s, vt: (u[:0], s[:0], vt[:0]),
        lambda u, s, vt: (list(u), s, [1]),
    ],
)
def test_factors_that_do_not_fit_together_are_refused_with_their_shapes(change):
    with pytest.raises(ValueError, match=r"must be stacks of .*\(images, rows, r\)"):
        rebuild_stack("3 streams", *change(*factors()), 3)


def test_factors_of_another_shape_than_the_batch_are_refused():
    with (
        Batch("3 streams", 5, 37, 29, 11) as batch,
        pytest.raises(ValueError, match="of 4 images of 37 x 29 .* this batch is for 5"),
    ):
        batch.load(*factors(4))


def test_a_graph_on_a_gpu_needs_cupy(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA Test")
    monkeypatch.setitem(sys.modules, "cupy", None)
    pool = PinnedPool(1 << 20)
    with pytest.raises(
        RuntimeError, match="captured through CuPy.*another way, such as '3 streams"
    ):
        rebuild_stack("graph", *factors(), 3, pool=pool)
    assert pool.lent == 0


@pytest.mark.skipif(backend.gpu() is not None, reason="with a GPU graphs are real")
@pytest.mark.parametrize("broken", [False, True])
def test_a_graph_is_captured_once_and_launched_by_one_call(monkeypatch, broken):
    calls = []
    graph = SimpleNamespace(
        launch=lambda stream: calls.append("launch"), upload=lambda stream: calls.append("upload")
    )
    origin = SimpleNamespace(
        ptr=7,
        begin_capture=lambda: calls.append("begin"),
        end_capture=lambda: calls.append("end") or graph,
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=lambda non_blocking: origin))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA Test")
    if broken:
        monkeypatch.setattr(Batch, "_queue", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Batch("graph", 5, 37, 29, 11)
        assert calls == ["begin", "end"]  # a capture that is left open spoils the stream
        return
    with Batch("graph", 5, 37, 29, 11) as batch:
        batch.go()
        batch.go()
    assert calls == ["begin", "end", "upload", "launch", "launch"]


# ---------------------------------------------------------------------- spans
@pytest.fixture
def ticking(monkeypatch):
    """Events with times, on the simulator."""
    if backend.gpu() is not None:
        pytest.skip("with a GPU events have times of their own")
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA Test")
    monkeypatch.setattr(
        device.Event, "record", lambda self, stream=0: setattr(self, "time", time.perf_counter())
    )
    monkeypatch.setattr(
        host, "event_elapsed_time", lambda start, end: (end.time - start.time) * 1e3
    )


@pytest.mark.parametrize("way", [way for way in WAYS if way != "graph"])
def test_every_copy_and_kernel_has_its_span(ticking, way):
    result = rebuild_stack(way, *factors(6, 8, 6, 5), 3)
    spans, launches = result.spans, {"batched": 1, "chunks": 2}.get(way, 6)
    assert result.milliseconds > 0
    assert len(spans) == 3 * launches
    assert {(span.name, span.lane) for span in spans} == {
        ("copy in", "copy in"), ("kernel", "compute"), ("copy out", "copy out"),
    }  # fmt: skip
    images = sorted({span.image for span in spans})
    assert images == {"batched": [-1], "chunks": [0, 4]}.get(way, [0, 1, 2, 3, 4, 5])
    for image in images:
        mine = sorted((span for span in spans if span.image == image), key=lambda span: span.end)
        assert [span.name for span in mine] == ["copy in", "kernel", "copy out"]
    if way == "3 streams":
        assert all(span.stream == span.image % 3 for span in spans)


# ---------------------------------------------------------------------- the pool
def test_a_pool_allocates_once_and_lends_again():
    pool = PinnedPool(1 << 20)
    for _ in range(5):
        got = rebuild_stack("3 streams", *factors(), 11, pool=pool)
        assert pool.lent >= got.images.nbytes
        pool.give(got.images)
    assert pool.allocations == 2 and pool.lent == 0 and pool.locked <= pool.limit


def test_results_stay_when_the_next_batch_uses_the_pool():
    pool, given, other = PinnedPool(1 << 20), factors(seed=1), factors(seed=2)
    first = rebuild_stack("chunks", *given, 11, pool=pool).images
    rebuild_stack("chunks", *other, 11, pool=pool)
    assert error(first, product(*given, 11)) < 1e-6


def test_a_pool_never_locks_more_than_its_limit():
    rng, pool, out = np.random.default_rng(4), PinnedPool(4000), []
    for _ in range(300):
        if out and rng.random() < 0.5:
            pool.give(out.pop(rng.integers(len(out))))
        else:
            try:
                out.append(pool.take(int(rng.integers(1, 1500)), np.uint8))
            except PoolExhausted:
                continue
        assert pool.lent <= pool.locked <= pool.limit
    for place, array in enumerate(out):
        array[:] = place
    assert all((array == place).all() for place, array in enumerate(out))  # nothing is lent twice


def test_a_pool_says_when_it_is_exhausted_or_too_small():
    pool = PinnedPool(1000)
    kept = pool.take(800, np.uint8)
    with pytest.raises(PoolExhausted, match="800 of the pool's 1,000 bytes are lent out.*give"):
        pool.take(201, np.uint8)
    with pytest.raises(ValueError, match="1,001 bytes is more than this pool may lock, 1,000"):
        pool.take(1001, np.uint8)
    pool.give(kept)
    pool.give(pool.take((2, 5, 10), np.uint16))


def test_waiting_for_a_pool_ends_when_something_comes_back():
    pool = PinnedPool(1000)
    kept = pool.take(800, np.uint8)
    timer = threading.Timer(0.05, pool.give, [kept])
    timer.start()
    assert pool.take(700, np.uint8, wait=120).size == 700
    timer.join()


def test_only_what_was_lent_can_be_given_back_and_only_once():
    pool = PinnedPool(1000)
    array = pool.take((10, 5))
    for wrong in (array[1:], np.zeros(3)):
        with pytest.raises(ValueError, match="not lent by this pool"):
            pool.give(wrong)
    pool.give(array)
    with pytest.raises(ValueError, match="not lent by this pool"):
        pool.give(array)
    with pytest.raises(ValueError, match="from 1 up"):
        PinnedPool(0)


def test_memory_comes_back_when_its_user_fails():
    pool = PinnedPool(1000)
    with pytest.raises(ZeroDivisionError), pool.lend(100) as array:
        array[:] = 1 / 0
    assert pool.lent == 0


# ---------------------------------------------------------------------- measuring
@pytest.fixture
def small_bench(ticking, monkeypatch, tmp_path):
    """The subject `streams` with tiny sizes, on the simulator with a clock."""
    for name, value in {
        "IMAGES": 6,
        "SIZE": 16,
        "RANK": 4,
        "SMALL": (5, 8, 3),
        "LARGE": 4096,
    }.items():
        monkeypatch.setattr(subject, name, value)
    monkeypatch.setattr(subject, "gpu", backend.gpu)
    about = {"gpu": "NVIDIA Test", "course": "0", "date": "2026-11-21"}
    monkeypatch.setattr(subject, "header", lambda *_: dict(about))
    monkeypatch.setattr(Batch, "_capture", lambda self: None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    measured = subject.Streams.measured
    monkeypatch.setattr(
        subject.Streams, "measured",
        lambda *args, **more: measured(*args, **more, samples=5, seconds=0),
    )  # fmt: skip
    return Bench("streams", None, lambda _: None, tmp_path)


@pytest.mark.slow
def test_the_bench_measures_every_way_with_its_bound_and_writes_timelines(small_bench, tmp_path):
    subject.run(small_bench)
    assert small_bench.failures == []
    rows = {figure.key: figure for figure in small_bench.rows}
    assert len(rows) == len(small_bench.rows)
    for way in WAYS:
        for case, shape in (("k columns and rows", "6x16x16x4"), ("small images", "5x8x8x3")):
            found = {m: rows[case, way, shape, "float32", m] for m in ("time", "host", "bound")}
            assert found["time"].median >= found["host"].q1 > 0 < found["bound"].median
    moved = rows["k columns and rows", "3 streams", "6x16x16x4", "float32", "bytes in"].median
    assert moved == factor_bytes(6, 16, 16, 4)
    assert timeline.names("test", tmp_path) == tuple(sorted(map(timeline.slug, subject.TIMELINES)))
    for name, (_, _, whole) in subject.TIMELINES.items():
        path = timeline.recorded_path(name, "test", tmp_path)
        assert timeline.read(path)
        assert timeline.header(path)["whole"] == ("yes" if whole else "no")


def test_a_way_that_is_wrong_is_a_failure_and_the_others_are_measured(small_bench, monkeypatch):
    queue = Batch._queue

    def forgets_the_last(self, *args):
        queue(self, *args)
        if self.way == "4 streams":
            self.images[-1] = np.nan

    monkeypatch.setattr(Batch, "_queue", forgets_the_last)
    measuring = subject.Streams(small_bench)
    measuring.link()
    measuring.truncated()
    assert len(small_bench.failures) == 1 and "4 streams" in small_bench.failures[0]
    assert "not finite" in small_bench.failures[0]
    timed = {figure.variant for figure in small_bench.rows if figure.metric == "time"}
    assert "4 streams" not in timed and {"3 streams", "n streams"} <= timed


# ---------------------------------------------------------------------- what is recorded
def recorded(case, variant, shape="32x2048x2048x128", metric="time"):
    (figure,) = find(
        "streams", kernel=case, variant=variant, shape=shape, metric=metric, gpu="H200"
    )
    return figure.median


def best(case, shape="32x2048x2048x128"):
    return min(f.median for f in find("streams", kernel=case, shape=shape, gpu="H200"))


def test_the_recorded_bounds_follow_from_the_recorded_rates():
    rates = [
        find("streams", kernel="link", variant=f"{way}, alone")[0].gigabytes_per_second
        for way in ("in", "out")
    ]
    for case, depth in (("k columns and rows", 128), ("whole factors", 2048)):
        moved = factor_bytes(32, 2048, 2048, depth), 4 * 32 * 2048**2
        assert recorded(case, "pinned", metric="bytes in") == pytest.approx(moved[0], rel=1e-5)
        assert recorded(case, "pinned", metric="bound") == pytest.approx(
            least_copy_time(*moved, *rates)
        )


def test_the_best_way_is_within_a_tenth_of_the_bound():
    least = recorded("k columns and rows", "pinned", metric="bound")
    assert 1 <= best("k columns and rows") / least <= 1.10


def test_the_best_way_is_at_least_eight_times_the_originals():
    assert recorded("k columns and rows", "original") / best("k columns and rows") >= 8


@pytest.mark.parametrize("k", [128, 2048])
def test_overlap_gains_where_both_directions_are_busy(k):
    shape = f"32x2048x2048x{k}"
    assert recorded("whole factors", "pinned", shape) / best("whole factors", shape) >= 1.6


def test_every_recorded_result_was_right():
    errors = find("streams", metric="error", gpu="H200")
    assert len(errors) > 2 * len(WAYS)
    assert all(figure.median <= 1e-6 for figure in errors)
    for case in ("k columns and rows", "small images"):
        assert set(WAYS) <= {f.variant for f in errors if f.kernel == case}


@pytest.mark.parametrize("name", subject.TIMELINES)
def test_a_recorded_timeline_is_whole_and_its_engines_do_one_thing_at_a_time(name):
    spans = timeline.recorded(name)
    images = int(timeline.header(timeline.recorded_path(name))["images"])
    assert images == (4 if name == "original" else 12)
    for lane in slots.LANES:
        mine = sorted((s for s in spans if s.lane == lane), key=lambda span: span.end)
        assert len(mine) == {"batched": 1, "chunks": 3}.get(name, images)
        if lane != "compute":
            assert all(a.end <= b.start + 1e-4 for a, b in zip(mine, mine[1:], strict=False))
    alone = name in ("original", "original's streams", "pinned", "batched", "whole pinned")
    both = timeline.together(spans, "copy in", "copy out")
    assert both < 0.01 if alone else both > 0.1


# ---------------------------------------------------------------------- on a GPU
@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_right_and_has_its_spans_on_a_gpu(way):
    given = factors(9, 256, 200, 64)
    result = rebuild_stack(way, *given, 50)
    assert error(result.images, product(*given, 50)) < 1e-6
    assert result.milliseconds > 0
    if way != "graph":
        assert {span.lane for span in result.spans} == set(slots.LANES)
