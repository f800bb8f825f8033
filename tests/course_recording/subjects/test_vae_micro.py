"""The bench of a VAE's kernels: each is right, small work goes into graphs, the table has all."""

import csv
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.kernels import activation, transpose
from course.kernels.gemm import float32 as matmul
from course.measure import event_clock
from course.measure.recorded import Figure
from course.measure.roofline import ImpossibleFigure, Roofs
from course.measure.timing import timing_of
from course_lessons.lesson16 import pictures
from course_models.training import adam, losses
from course_recording import launch_costs
from course_recording.charts import roofline_table
from course_recording.frame import Bench, judged
from course_recording.subjects import vae_micro
from tests.course_recording.fake_gpu import FakeGPU
from warpsim.host import gpus

ROOFS = Roofs("NVIDIA Fake 1", 1000.0, {"float32": 10.0, "tensor_float32": 60.0}, 1 << 20,
              l2_bandwidth=4000.0, measured=True)  # fmt: skip
simulated = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")
SMALL = {"BATCH": 8, "PIXELS": 16, "HIDDEN": 12, "LATENT": 4}


@pytest.fixture
def bench(monkeypatch):
    """A bench of small sizes whose times are made up; nothing is captured."""
    for name, value in SMALL.items():
        monkeypatch.setattr(vae_micro, name, value)
    monkeypatch.setattr(vae_micro, "PRODUCTS", (("nt", 8, 16, 12), ("nn", 8, 12, 4)))
    monkeypatch.setattr(vae_micro, "SQUARES", (8,))
    monkeypatch.setattr(vae_micro, "LARGE", (2048,))
    made = Bench("vae_micro", ROOFS, say=lambda _: None)

    def given(*args, bytes=None, operations=None, **_):
        kinds = None if operations is None else operations
        kinds = {"float32": kinds} if isinstance(kinds, int) else kinds
        return timing_of([1.0, 2.0, 3.0, 4.0], launch=0.5, bytes=bytes, operations=kinds)

    def captured(bench, queued, calls):
        call = queued(0)
        return lambda: [call() for _ in range(2)], None

    monkeypatch.setattr(made, "time", given)
    monkeypatch.setattr(launch_costs, "time_in_graph", lambda b, r, its, done, name: given(
        bytes=its, operations=done))  # fmt: skip
    monkeypatch.setattr(launch_costs, "of_numba", captured)
    monkeypatch.setattr(made, "peer", lambda name: None)
    monkeypatch.setattr("course_recording.frame.poison", lambda out, cuda: None)
    return made


@pytest.mark.slow
@simulated
def test_every_kernel_is_right_in_every_strategy(bench, monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    vae_micro.run(bench)
    assert not bench.failures
    found = {}
    for its in bench.rows:
        found.setdefault(its.kernel, {}).setdefault(its.variant, set()).add((its.shape, its.metric))
    for layout in ("nt", "nn"):
        assert set(found[f"matmul {layout}"]) == set(matmul.LADDER)
    assert set(found["transpose"]) == set(transpose.LADDER)
    assert set(found["bce"]) == set(found["kl"]) == set(losses.LADDER)
    assert set(found["bce gradient"]) == set(losses.BACKWARD)
    assert set(found["adam"]) == set(adam.LADDER)
    for op in ("leaky relu", "sigmoid"):
        assert set(found[op]) == set(found[f"{op} gradient"]) == set(activation.LADDER)
    assert {
        "sample",
        "sample gradient",
        "kl gradient",
        "add bias",
        "bias gradient",
        "gather",
    } <= set(found)
    assert found["matmul nn"]["naive"] == {
        ("8x12x4", launch_costs.IN_A_GRAPH), ("8x12x4", "error"),
        ("8x8x8", "time"), ("8x8x8", "error"),
    }  # fmt: skip
    assert vae_micro.COST.keys() <= set(found)


@simulated
def test_a_gpu_without_tf32_leaves_tensor_cores_out(bench):
    vae_micro.product(bench, "nn", (8, 12, 4), small=True)
    assert not bench.failures
    assert {its.variant for its in bench.rows} == set(matmul.LADDER) - set(vae_micro.TENSOR)
    assert [note.split()[0] for note in bench.notes] == list(vae_micro.TENSOR)


@simulated
def test_pytorch_computes_the_same(bench, monkeypatch):
    torch = pytest.importorskip("torch")

    def on_host(result, *more):
        return judged(result.numpy() if isinstance(result, torch.Tensor) else result, *more)

    monkeypatch.setattr(bench, "peer", lambda name: torch if name == "torch" else None)
    monkeypatch.setattr(vae_micro, "DEVICE", "cpu")
    monkeypatch.setattr("course_recording.frame.judged", on_host)
    monkeypatch.setattr(launch_costs, "judged", on_host)
    monkeypatch.setattr(launch_costs, "of_torch", lambda call, calls: (call, call()))
    monkeypatch.setattr(vae_micro.peers, "torch_compiled", lambda bench, call, *arrays: call)
    vae_micro.run(bench)
    assert not bench.failures
    theirs = {(its.kernel, its.variant) for its in bench.rows if its.metric == "time"}
    assert {name for op, name in theirs if op == "matmul nn"} >= {"cuBLAS", "cuBLAS TF32"}
    assert {name for op, name in theirs if op == "adam"} >= {"torch fused", "torch foreach"}
    compiled = {op for op, name in theirs if name == "torch.compile"}
    assert compiled == {"sample", "bce", "bce gradient", "kl"}
    beside = {op for op, name in theirs if name == "torch"}
    assert beside == vae_micro.COST.keys() - {"adam", "sample gradient", "kl gradient"} | {
        "transpose", "gather",
    }  # fmt: skip


@simulated
def test_a_wrong_kernel_is_a_failure_and_the_others_go_on(bench, monkeypatch):
    monkeypatch.setitem(
        transpose.LADDER.steps, "tiled", transpose.moved_by(transpose.copy, (32, 32))
    )
    vae_micro.transposed(bench, 14, 12, True)
    assert [text.split(":")[0] for text in bench.failures] == ["transpose tiled 14x12"]
    assert {its.variant for its in bench.rows} == transpose.LADDER.keys() - {"tiled"}


@simulated
def test_a_sum_at_one_address_that_stagnates_has_an_error_and_no_time(bench, monkeypatch):
    monkeypatch.setattr(vae_micro, "SUMMED", 1000)
    vae_micro.sums(bench, 2048)
    for name in losses.LOSSES:
        rows = [its for its in bench.rows if (its.kernel, its.variant) == (name, "atomics")]
        assert [its.metric for its in rows] == ["error"]
        assert f"{name} atomics 2048: not timed" in " ".join(bench.notes)


@simulated
def test_several_launches_work_on_the_copies_that_a_clock_hands_them(bench, monkeypatch):
    timed, found = bench.time, []

    def on_copies(call, args, **about):
        twins = [bench.cuda.to_device(its.copy_to_host()) if hasattr(its, "copy_to_host") else its
                 for its in args]  # fmt: skip
        sums = [n for n, its in enumerate(args) if getattr(its, "nbytes", 0) == 4 and its.shape]
        sums = [n for n in sums if args[n].dtype == np.float32]
        for n in sums:
            args[n][0], twins[n][0] = np.nan, np.nan
        call(*twins)
        own, its = ([np.isnan(of[n][0]) for n in sums] for of in (args, twins))
        found.append(all(own) and not all(its))
        return timed(call, args, **about)

    monkeypatch.setattr(bench, "time", on_copies)
    monkeypatch.setattr(losses, "BACKWARD", {})
    vae_micro.sums(bench, 2048)
    assert found.count(True) == 2 * len(losses.LADDER), bench.failures


def test_a_call_of_a_graph_takes_its_share_and_no_less_than_the_roofs_allow(monkeypatch):
    gpu = FakeGPU()
    clock = event_clock.EventClock(gpu, busy=gpu.busy, empty_l2=gpu.empty_l2, now=gpu.now)
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    bench = SimpleNamespace(roofs=ROOFS)

    def replay():
        gpu.launch(launch_costs.CALLS * 4e-6, cost=1e-5)

    timing = launch_costs.time_in_graph(bench, replay, 8e6, 1000, "x")
    assert timing.median == pytest.approx(4e-3, rel=0.01) and not timing.cold
    with pytest.raises(ImpossibleFigure, match="L2"):
        launch_costs.time_in_graph(bench, replay, 32e6, 1000, "x")


def test_a_program_in_tf32_is_captured_in_tf32(monkeypatch):
    torch = pytest.importorskip("torch")
    seen = []
    monkeypatch.setattr(
        launch_costs, "captured_by_torch",
        lambda module, *_: seen.append(module.backends.cuda.matmul.allow_tf32),
    )  # fmt: skip
    for on in (True, False):
        with vae_micro.tf32(torch, on):
            launch_costs.of_torch(lambda: None, 3)
    assert seen == [True, False]


# --- the table and the pictures -------------------------------------------------------------------


def figure(kernel, variant, shape, milliseconds, moved, done=None, **more):
    about = {"dtype": "float32", "metric": "time"} | more
    its = Figure(kernel, variant, shape, about["dtype"], about["metric"], "ms", milliseconds,
                 0.9 * milliseconds, 1.2 * milliseconds, 30, moved, done)  # fmt: skip
    return its


@pytest.fixture
def figures():
    """What a run might write."""
    bench = Bench("vae_micro", ROOFS, say=lambda _: None)
    roofline_table.keep_roofs(bench)
    work = 2 * 4096**3
    steps = zip((*matmul.LADDER, *pictures.PEERS), itertools.count(30, -3), strict=False)
    products = [figure("matmul nn", name, pictures.LARGEST, ms, 3 * 4 * 4096**2, work)
                for name, ms in steps]  # fmt: skip
    return [
        *bench.rows, *products,
        figure("matmul nt", "naive", "128x784x400", 0.1, 1e6, 8e7, metric=launch_costs.IN_A_GRAPH),
        figure("transpose", "naive", "64x32", 2.0, 1e9),
        figure("gather", "each", "64x14", 4.0, 1e9),
        figure("bce", "tree", "4096", 2.0, 1e9, 1e9), figure("bce", "torch", "4096", 1.5, 1e9, 1e9),
        figure("bce", "vectorised", "4096", 1.25, 1e9, 1e9),
        figure("bce", "vectorised", "4096", 1e-7, None, metric="error"),
    ]  # fmt: skip


def test_the_table_has_every_column_and_what_they_mean(figures):
    text = roofline_table.text("x.csv", {"gpu": "NVIDIA Fake 1"}, figures)
    lines = text.splitlines()
    head = [line for line in lines if line.startswith("#")]
    assert "# ridge point=float32 10, tensor_float32 60" in head
    assert any(line.startswith("# peaks=") and "L2 4,000 GB/s" in line for line in head)
    rows = list(csv.DictReader(lines[len(head) :]))
    assert tuple(rows[0]) == (
        "op", "strategy", "M", "K", "N", "time", "spread", "bytes", "flops", "bandwidth",
        "% of peak", "GFLOP/s", "arithmetic intensity",
    )  # fmt: skip
    assert len(rows) == len([its for its in figures if its.bytes and its.metric != "error"])
    by_name = {(row["op"], row["strategy"]): row for row in rows}
    assert by_name["transpose", "naive"] == {
        "op": "transpose", "strategy": "naive", "M": "64", "K": "", "N": "32", "time": "2",
        "spread": "0.6", "bytes": "1000000000", "flops": "0", "bandwidth": "500", "% of peak": "50",
        "GFLOP/s": "", "arithmetic intensity": "",
    }  # fmt: skip
    small = by_name["matmul nt", "naive"]  # 0.8 of 10 TFLOP/s; 10 of L2's 4,000 GB/s
    assert (small["M"], small["K"], small["N"]) == ("128", "784", "400")
    assert small["% of peak"] == "8" and small["GFLOP/s"] == "800"
    assert small["arithmetic intensity"] == "80"


def test_products_on_tensor_cores_are_held_to_their_peak():
    roofs = ROOFS
    its = figure("matmul nn", "tensor_cores", "8x8x8", 1.0, 1.0, 1e10)  # 10 TFLOP/s, 30 are done
    assert roofline_table.share(its, roofs) == pytest.approx(0.5)
    once = figure("matmul nn", "cuBLAS TF32", "8x8x8", 1.0, 1.0, 1e10)
    assert roofline_table.share(once, roofs) == pytest.approx(1 / 6)


def test_the_table_lies_beside_the_figures(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(roofline_table.recorded, "header", lambda *_: {"gpu": "NVIDIA Fake 1"})
    bench = Bench("vae_micro", ROOFS, say=lambda _: None, folder=tmp_path)
    bench.rows = figures
    path = roofline_table.write_beside(bench)
    assert path.name.endswith("-vae_micro-table.csv") and path.exists()
    bench.folder = None
    assert roofline_table.write_beside(bench) is None


def test_the_rooflines_are_drawn_from_the_file_alone(figures):
    drawn = pictures.charts(figures)
    assert set(drawn) == {"products", "kernels"}
    products, kernels = (drawn[name].alternative for name in ("products", "kernels"))
    assert "memory 1,000 GB/s" in products and "cuBLAS" in products and "vectorised" in products
    assert "GB/s alone: transpose, naive; gather, each" in kernels
    assert "bce 0.8 TFLOP/s" in kernels  # the fastest of the course's own
    with pytest.raises(ValueError, match="have no roofs"):
        pictures.charts(figures[-3:])


def test_the_roofs_come_back(figures):
    found = pictures.roofs_in(figures)
    assert (found.bandwidth, found.l2_bandwidth, found.rates) == (1000, 4000, ROOFS.rates)


def test_the_model_has_eleven_products():
    assert len(set(vae_micro.PRODUCTS)) == 11
    assert np.unique([layout for layout, *_ in vae_micro.PRODUCTS]).tolist() == ["nn", "nt", "tn"]
