"""What lesson 09 says in words of figures, toys and drawings is true of what it shows."""

import io
import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from course import cuda, recorded_roofs, trace
from course.kernels.reconstruct import warp_tiles
from course.kernels.reconstruct.ladder import LADDER
from course.measure.recorded import recorded
from course_lessons.edits import solution
from course_lessons.lesson06 import ladder
from course_lessons.lesson09 import pictures, stage_rates
from course_lessons.lesson09.exercises import Arrivals, Workshop, judge_order
from course_lessons.lesson09.killed_writes import kill_everywhere
from course_lessons.lesson09.toy_pipeline import Stage, play_pipeline
from tests.pictures import assert_drawn
from tools.notebooks import cells, lessons
from warpsim.host import gpus

STACK = "1024x256x256x50"
STAGES = [Stage("decode", 2), Stage("factorise", 6), Stage("rebuild", 1), Stage("write", 3)]


def of_stack(name):
    (figure,) = recorded("reconstruct", variant=name, shape=STACK, gpu="H200")
    return figure


# --- recorded figures -----------------------------------------------------------------------------


def test_a_thousand_launches_cost_the_host_far_more_than_the_work_takes():
    (launch,) = recorded("launch", variant="5 Numba arrays", metric="host in a row", gpu="H200")
    assert 1024 * launch.median > 50 * of_stack("warp tiles").median


def test_the_batched_kernel_is_faster_than_the_libraries_and_not_beyond_memory():
    ours = of_stack("warp tiles")
    least = ours.bytes / recorded_roofs("H200").bandwidth * 1e-6
    assert least < ours.median < of_stack("torch.bmm").median
    assert ours.median < of_stack("cupy").median


def test_bytes_and_arithmetic_of_the_stack_need_about_the_same_and_less_than_the_kernel():
    ours, roofs = of_stack("warp tiles"), recorded_roofs("H200")
    memory = ours.bytes / roofs.bandwidth * 1e-6
    arithmetic = ours.operations / roofs.rates["float32"] * 1e-9
    assert 0.5 < memory / arithmetic < 2
    assert 1.5 < ours.median / max(memory, arithmetic) < 2.5  # "about twice as fast"


def test_one_image_has_four_blocks_and_one_of_4096_fills_the_gpu():
    step, fits = LADDER["warp tiles"], ladder.facts("warp tiles").occupancy("H200")
    places = gpus.find("H200").multiprocessors * fits.blocks
    assert gpus.find("H200").multiprocessors == 132
    assert step.tile == (128, 128) and np.prod(step.grid(256, 256)) == 4
    assert np.prod(step.grid(4096, 4096)) == 1024 > 3 * places


def test_the_quoted_lines_stand_in_the_kernel():
    source = Path(warp_tiles.__file__).read_text(encoding="utf-8")
    lesson = next(path for path in lessons.paths() if lessons.name(path).startswith("09"))
    quoted = lesson.read_text(encoding="utf-8").partition("# ```text\n# image =")[2]
    for line in ("image =" + quoted.partition("# ```")[0]).split("\n# "):
        assert line.strip().strip(".") in source


# --- the toy --------------------------------------------------------------------------------------


def test_a_loop_takes_the_sum_and_threads_the_longest():
    assert play_pipeline(STAGES, 4, serial=True).images_per_second == pytest.approx(1000 / 12)
    assert play_pipeline(STAGES, 1000, room=2).images_per_second == pytest.approx(
        1000 / 6, rel=0.01
    )
    assert play_pipeline([Stage("a", 4), Stage("b", 4)], 4000, room=1).images_per_second > 249


def test_two_workers_at_factorise_make_write_the_pace():
    for workers in (2, 3, 6):
        stages = [Stage("factorise", 6, workers) if s.name == "factorise" else s for s in STAGES]
        toy = play_pipeline(stages, 1000, room=4)
        assert toy.images_per_second == pytest.approx(1000 / 3, rel=0.01)
        assert toy.busy("write") > 0.99


@pytest.mark.parametrize("room", [1, 2, 7])
def test_a_bound_keeps_the_pace_and_the_queue(room):
    slow = [Stage("decode", 1), Stage("write", 5)]
    endless, bounded = play_pipeline(slow, 1000), play_pipeline(slow, 1000, room=room)
    assert endless.most_waiting("write") == 800
    assert bounded.most_waiting("write") == room
    assert bounded.milliseconds == endless.milliseconds


@pytest.mark.parametrize("seed", range(8))
def test_the_toy_keeps_its_own_rules(seed):
    rng = np.random.default_rng(seed)
    stages = [
        Stage(name, float(rng.integers(1, 9)), int(rng.integers(1, 4))) for name in "abcd"
    ]  # fmt: skip
    room = int(rng.integers(1, 4))
    toy = play_pipeline(stages, 60, room)
    for stage, after in itertools.pairwise(stages):
        assert toy.most_waiting(after.name) <= room
        done = {w.image: w.left for w in toy.work if w.stage == stage.name}
        taken = {w.image: w.start for w in toy.work if w.stage == after.name}
        assert all(taken[image] >= done[image] for image in done)
    for stage in stages:
        for worker in range(stage.workers):
            its = [w for w in toy.work if (w.stage, w.worker) == (stage.name, worker)]
            assert all(a.left <= b.start for a, b in itertools.pairwise(its))
            assert all(w.end == w.start + stage.milliseconds <= w.left for w in its)
    slowest = max(stage.milliseconds / stage.workers for stage in stages)
    assert toy.milliseconds >= 60 * slowest - max(s.milliseconds for s in stages)


def test_what_cannot_be_a_pipeline_is_refused():
    for stages, images, room in (([], 1, None), (STAGES, 0, None), (STAGES, 1, 0)):
        with pytest.raises(ValueError, match="at least one stage"):
            play_pipeline(stages, images, room)
    with pytest.raises(ValueError, match="more than 0 ms"):
        play_pipeline([Stage("a", 0)], 1)
    with pytest.raises(ValueError, match="no queue in front"):
        play_pipeline(STAGES, 1).most_waiting("decode")


# --- drawings -------------------------------------------------------------------------------------


def test_the_component_diagram_has_the_pipelines_stages_in_three_bands():
    words = ("host components", "logical queues", "physical engines", "stream", "bounded")
    assert_drawn(pictures.components(), *words, *(stage.name for stage in STAGES))
    threads = stage_rates.share_of(16)
    assert threads["factorise"] > threads["decode"] + threads["write"]  # "most of the threads"
    assert 1 <= threads["decode"] < threads["factorise"]  # "a thread or more"


def test_the_stages_drawing_has_a_row_for_each_worker_and_a_bar_for_each_image():
    toy = play_pipeline([Stage("decode", 2), Stage("x", 3, 2), Stage("write", 4)], 5, room=1)
    picture = pictures.stages({"toy": toy})
    (axes,) = picture.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["write", "x 2", "x 1", "decode"]
    held = sum(work.left > work.end for work in toy.work)
    assert held > 0
    assert len(axes.patches) == len(toy.work) + held


# --- what judges the exercises --------------------------------------------------------------------


def test_a_killed_write_leaves_every_state_and_spoils_nothing_else(tmp_path):
    other = tmp_path / "other.txt"

    def writes_twice(path, data):
        with open(other, "w") as file:  # outside the folder: a file as ever
            file.write("kept")
        with open(path, "wb") as file:
            file.write(data[:4])
            file.flush()
            file.write(data[4:])

    outcome = kill_everywhere(writes_twice, (tmp_path / "a.bin", b"0123456789", b"old"))
    found = [kill.content for kill in outcome.kills]
    assert found == [b"", b"01", b"0123", b"0123456", b"0123456789"]
    assert outcome.undisturbed.content == b"0123456789"
    assert other.read_text() == "kept"
    assert not (tmp_path / "a.bin").exists()  # only the path's name is used
    assert open is io.open


def test_a_write_that_raises_shows_no_temporary_folder():
    def elsewhere(path, data):
        (path.parent / "missing" / path.name).write_bytes(data)

    def names(path, data):
        path.with_name("x").write_bytes(data)
        raise OSError(f"no room for {path}")

    with pytest.raises(OSError, match=r"no room for a\.bin$"):
        kill_everywhere(names, (Path("a.bin"), b"1"))
    with pytest.raises(OSError) as caught:
        kill_everywhere(elsewhere, (Path("a.bin"), b"1"))
    assert f"the folder{os.sep}missing" in str(caught.value)
    assert io.open is open


def test_the_workshop_sees_how_far_a_producer_runs_ahead():
    shop = Workshop(40, 1, 7, "lead")
    source = iter(shop)

    def take_nine():
        for _ in range(9):
            next(source)

    producer = threading.Thread(target=take_nine)
    producer.start()
    producer.join()
    shop.work(0)
    assert shop.lead == 9


def test_results_in_order_are_counted_as_by_hand():
    arrivals = Arrivals([2, 0, 1, 3])
    early, turn = {}, 0
    for number, result in arrivals:
        early[number] = result
        while turn in early:
            arrivals.write(early.pop(turn))
            turn += 1
    assert judge_order(1, arrivals, arrivals.write) is None
    assert "returned 2" in judge_order(2, arrivals, arrivals.write)


def test_the_gpus_part_of_a_thousand_images_is_a_few_ms_and_the_link_lets_few_enough_through():
    kernel = of_stack("warp tiles").median
    copies = 0.0
    for way, size in (("pinned in", 4 * (2 * 256 * 50 + 50)), ("pinned out", 4 * 256 * 256)):
        (copy,) = recorded("transfers", variant=way, shape=str(2**28), gpu="H200")
        copies += 1024 * size / copy.gigabytes_per_second * 1e-6
    assert kernel < copies  # "its link, which is slower"
    assert kernel + copies < 10


# --- the reader's kernel --------------------------------------------------------------------------


def test_a_last_rung_that_has_passed_takes_a_stack(tmp_path):
    lesson = lessons.ROOT / "course_lessons/lesson09/a_thousand_images.py"
    (cell,) = (c.source for c in cells.read(lesson) if "def rebuild_stack" in c.source)
    path = tmp_path / "stack.py"  # the simulator reads a kernel's text
    path.write_text(cell)
    own = solution("last-rung")
    names = {"mine": lambda *_: own.define(own.source, "last-rung"), "cuda": cuda, "LADDER": LADDER}
    exec(compile(cell, str(path), "exec"), names)
    rng = np.random.default_rng(9)
    shapes = (3, 130, 16), (3, 16), (3, 16, 132)
    u, s, vt = (rng.random(shape, dtype=np.float32) for shape in shapes)
    out = np.zeros((3, 130, 132), np.float32)
    report = trace(names["rebuild_stack"], (2, 2, 3), 256, u, s, vt, 16, out)
    assert not [finding for finding in report.findings if finding.is_error]
    assert np.allclose(out, (u * s[:, None, :]) @ vt, rtol=1e-5)
