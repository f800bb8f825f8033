"""Profiles: what records and reads them, what the trace predicts, and what lesson 07 says of them.

The recorded files are measured anew from time to time. The lesson's words stand here as claims, so
that new figures which contradict the words show.
"""

import sys
from contextlib import contextmanager

import numpy as np
import pytest

from course import backend
from course.measure.recorded import BadMeasurements, read, write
from course_lessons.lesson06 import ladder
from course_lessons.lesson07 import phases, pictures, profile, record
from course_lessons.lesson07.profile import Event
from course_recording.profiling import record_profile, record_timeline
from course_recording.profiling.nsight import CountersNotRead

HEADER = {"gpu": "NVIDIA H200", "course": "0.1.0", "date": "2026-01-02"}


# --- the program that is profiled -----------------------------------------------------------------


@pytest.fixture
def factors(tmp_path):
    phases.write_factors(tmp_path, images=2, size=40)
    return tmp_path


def noting(names):
    @contextmanager
    def phase(name):
        names.append(name)
        yield
        names.append(f"end of {name}")

    return phase


@pytest.mark.parametrize("way", phases.WAYS)
def test_each_way_rebuilds_every_image_in_named_phases(factors, way):
    names = []
    images = phases.rebuild(way, factors, 2, 7, noting(names))
    for number, image in enumerate(images):
        u, s, vt = phases.read_factors(factors, number)
        assert np.allclose(image, (u[:, :7] * s[:7]) @ vt[:7], rtol=1e-5)
    assert names[:2] == ["start up", "end of start up"]
    one = [part for name in phases.PHASES for part in (name, f"end of {name}")]
    assert names[2:] == [
        part for n in range(2) for part in (f"image {n}", *one, f"end of image {n}")
    ]


def test_another_way_is_refused(factors):
    with pytest.raises(ValueError, match="way is 'third': choose 'first' or 'tidy'"):
        phases.rebuild("third", factors, 1, 3, phases.unmarked)


def test_names_become_ranges_where_a_library_is_there(monkeypatch):
    calls = []
    module = type(sys)("ranges")
    module.push, module.pop = calls.append, lambda: calls.append("pop")
    monkeypatch.setitem(sys.modules, "ranges", module)
    monkeypatch.setattr(phases, "LIBRARIES", (("no.such", "a", "b"), ("ranges", "push", "pop")))
    phase, note = phases.nvtx()
    with pytest.raises(ZeroDivisionError), phase("copy in"):
        raise ZeroDivisionError
    assert calls[-2:] == ["copy in", "pop"] and "through ranges" in note


def test_without_a_library_phases_have_no_marks(monkeypatch):
    monkeypatch.setattr(phases, "LIBRARIES", (("no.such.library", "a", "b"),))
    phase, note = phases.nvtx()
    with phase("copy in"):
        pass
    assert "no.such.library: ModuleNotFoundError" in note and "no marks" in note


def test_the_program_says_what_it_did(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["phases", "--size", "32", "--k", "4", "--images", "1"])
    phases.main()
    assert "1 images of 32 x 32, k = 4" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["phases", "--size", "32", "--k", "33"])
    with pytest.raises(SystemExit):
        phases.main()


# --- recording a timeline -------------------------------------------------------------------------


def traced(category, name, start, length, **about):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": about}


TRACE = [
    traced("user_annotation", "start up", 1000, 500),
    traced("user_annotation", "image 0", 2000, 900),
    traced("user_annotation", "copy in", 2000, 100),
    traced("user_annotation", "ProfilerStep#1", 0, 5000),
    traced("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 2010, 50, stream=7, bytes=64),
    traced("cuda_driver", "cuLaunchKernelEx", 2200, 10, correlation=4),
    traced("kernel", "a::b::add[abi:v2](Array<float, 1>)", "2205", 300, stream=7, correlation=4),
    traced("cuda_runtime", "cudaDeviceSynchronize", 3000, 10),  # after the phases: the profiler's
    {"ph": "M", "name": "process_name"},
]


def test_a_trace_becomes_rows_from_the_first_phase_to_the_last():
    events = record.events_of({"traceEvents": TRACE}, "first")
    assert [(event.row, event.name) for event in events] == [
        ("CPU: phases", "start up"), ("CPU: phases", "image 0"), ("CPU: phases", "copy in"),
        ("GPU: copies in", "Memcpy HtoD (Pageable -> Device)"), ("CPU: calls", "cuLaunchKernelEx"),
        ("GPU: kernels", "add"),
    ]  # fmt: skip
    assert (events[0].start, events[0].end, events[0].image) == (0.0, 0.5, -1)
    copied, kernel = events[3], events[5]
    assert (copied.bytes, copied.stream, copied.image) == (64, 7, 0)
    assert kernel.milliseconds == pytest.approx(0.3) and kernel.call == events[4].call == 4
    assert "add" in record_timeline.totals(events)


@pytest.mark.parametrize("missing", ["user_annotation", "GPU"])
def test_a_trace_that_lacks_a_side_is_refused(missing):
    kept = [
        event
        for event in TRACE
        if event.get("cat") != missing
        and not (missing == "GPU" and event.get("cat") in ("kernel", "gpu_memcpy"))
    ]
    with pytest.raises(record.TimelineNotRecorded, match="both the phases and the GPU"):
        record.events_of({"traceEvents": kept}, "first")


def test_a_timeline_is_read_as_it_was_written(tmp_path):
    events = tuple(record.events_of({"traceEvents": TRACE}, "first"))
    path = tmp_path / "h200-profile-timeline.csv"
    profile.write_timeline(path, HEADER, events)
    assert profile.read_timeline(path) == (HEADER, events)
    path.write_text(path.read_text().replace("0.5000", "half"))
    with pytest.raises(BadMeasurements, match="line 5: .*half"):
        profile.read_timeline(path)
    path.write_text("# gpu=x\nrun,row\n")
    with pytest.raises(BadMeasurements, match="gpu, course, date"):
        profile.read_timeline(path)


# --- recording counters ---------------------------------------------------------------------------


def rows_of_ncu(value="1,234.5"):
    metrics = dict.fromkeys(record_profile.wanted().values(), value)
    return [
        {"ID": str(n), "Kernel Name": step, **metrics}
        for step in record_profile.STEPS
        for n in range(record_profile.LAUNCHES)
    ]


LADDER = record_profile.named("ladder", "8x8x8")
UNITS = {"gpu__time_duration.sum": "ns", "dram__bytes_read.sum": "byte"}


def test_counters_become_figures_that_can_be_written(tmp_path):
    rows = rows_of_ncu()
    metric = profile.METRICS["DRAM bytes read"]
    for row, value in zip(rows, ("100,687,001", "100,686,359", "100,688,002"), strict=False):
        row[metric] = value
    found = record_profile.figures(rows, UNITS, LADDER, [])
    path = write(tmp_path / "h200-profile.csv", HEADER | record_profile.wanted(), found)
    figures = {(f.variant, f.metric): f for f in read(path).figures}
    assert figures["original", "DRAM bytes read"].median == 100_687_001
    duration = figures["tiled", "duration"]
    assert (duration.unit, duration.n) == ("ms", 3)
    assert duration.median == pytest.approx(1234.5e-6, rel=1e-5)
    assert figures["tiled", "stall wait"].unit == "clocks"


def test_what_is_no_number_has_no_figure():
    rows = rows_of_ncu()
    for row in rows:
        row[profile.METRICS["L2 hit rate"]] = "n/a"
    found = record_profile.figures(rows, UNITS, LADDER, ["cycles"])
    assert not {f.metric for f in found} & {"L2 hit rate", "cycles"}


def test_launches_that_are_missing_or_of_another_kernel_are_refused():
    with pytest.raises(CountersNotRead, match="27 launches were made, 26 profiled"):
        record_profile.figures(rows_of_ncu()[1:], UNITS, LADDER, [])
    rows = rows_of_ncu()
    rows[0]["Kernel Name"] = "another"
    with pytest.raises(
        CountersNotRead, match="reconstruct original: its launches are of several kernels"
    ):
        record_profile.figures(rows, UNITS, LADDER, [])


FAKE_NCU = """#!{python}
import sys
from pathlib import Path
given = sys.argv[1:]
if "--query-metrics" in given:
    print("gpu__time_duration   Counter   ns   ...")
elif "--version" in given:
    print("NVIDIA Nsight Compute\\nVersion 2025.3.1.0 (build 1)")
elif "--import" in given:
    print('"ID","Kernel Name","gpu__time_duration.sum"\\n"","","ns"\\n"0","k","12"')
elif "," in given[given.index("--metrics") + 1]:
    sys.exit("==ERROR== Failed to find metric x")
else:
    Path(given[given.index("--export") + 1]).write_text("report")
    Path(given[given.index("--launch") + 1]).write_text('{{"gpu": "G"}}')
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the fake tool is a script with a first line")
def test_metrics_that_a_tool_does_not_know_are_left_out(tmp_path):
    fake = tmp_path / "ncu"
    fake.write_text(FAKE_NCU.format(python=sys.executable))
    fake.chmod(0o755)
    rows, units, facts, left_out = record_profile.run_nsight_compute(str(fake), "ladder", "8x8x8")
    assert rows == [{"ID": "0", "Kernel Name": "k", "gpu__time_duration.sum": "12"}]
    assert units["gpu__time_duration.sum"] == "ns"
    assert facts == {"gpu": "G", "ncu": "2025.3.1.0"}
    assert len(left_out) == len(record_profile.wanted()) - 1 and "duration" not in left_out


# --- on the reader's machine ----------------------------------------------------------------------


def test_without_a_gpu_the_tools_say_so():
    if backend.gpu() is not None:
        pytest.skip("there is a GPU")
    assert repr(record.timeline_here()) == record.NO_GPU
    assert record.counters_here() == record.NO_GPU


def test_without_tools_they_say_where_to_get_them(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: "a fake")
    monkeypatch.setattr(record, "tools", lambda: dict.fromkeys(("nsys", "ncu", "PyTorch")))
    assert "nsight-systems" in record.timeline_here()
    assert "nsight-compute" in record.counters_here()


def test_a_tool_runs_the_program_and_its_words_are_shown(monkeypatch):
    said = {}

    def ran(tool, work):
        said["command"] = [*tool, *work]
        return True, "==PROF== Connected\nSM throughput 66"

    monkeypatch.setattr(backend, "gpu", lambda: "a fake")
    monkeypatch.setattr(record, "tools", lambda: {"nsys": "nsys", "ncu": "ncu"})
    monkeypatch.setattr(record, "_ran", ran)
    assert repr(record.counters_here()) == "SM throughput 66"
    assert record.RANGE in said["command"]
    assert "SM throughput" in record.timeline_here("tidy")
    assert said["command"][:2] == ["nsys", "profile"] and "tidy" in said["command"]
    monkeypatch.setattr(record, "_ran", lambda tool, work: (False, "ERR_NVGPUCTRPERM"))
    assert record.counters_here() == record.NOT_ALLOWED
    monkeypatch.setattr(record, "_ran", lambda tool, work: (False, "broken"))
    assert "ncu failed" in record.counters_here()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="env is a program of Unix")
def test_a_tool_finds_the_package_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    done, said = record._ran(["env"], ["--size", "16", "--k", "2", "--images", "1"])
    assert done and "1 images of 16 x 16" in said
    assert record._ran(["no such tool"], [])[0] is False


# --- reading --------------------------------------------------------------------------------------


def test_rows_phases_and_times_of_events():
    events = [
        Event("r", "CPU: phases", "copy in", 0.0, 4.0),
        Event("r", "GPU: kernels", "a", 1.0, 3.0),
        Event("r", "GPU: copies in", "b", 2.0, 6.0),
    ]
    assert profile.busy(profile.row(events, "GPU")) == 5.0
    assert profile.together(profile.row(events, "CPU"), profile.row(events, "GPU: copies")) == 2.0
    assert profile.phase(events, "copy in").milliseconds == 4.0
    with pytest.raises(ValueError, match="no phase 'copy out' among these events.*copy in"):
        profile.phase(events, "copy out")


def test_what_was_not_recorded_is_said():
    with pytest.raises(ValueError, match="run 'third', image None: the runs are first, tidy"):
        profile.timeline("third")
    with pytest.raises(ValueError, match="no counters of 'nowhere'; there are those of original"):
        profile.counter("nowhere", "duration")
    with pytest.raises(ValueError, match="no recorded 'speed' of 'tiled'; there is duration"):
        profile.counter("tiled", "speed")
    with pytest.raises(ValueError, match="does not count 'duration'"):
        profile.predicted("tiled", "duration")


def test_pictures_are_drawn():
    assert len(pictures.timeline_picture(profile.timeline("first", 2), "x").png()) > 4000
    with pytest.raises(ValueError, match="no events to draw"):
        pictures.timeline_picture([])
    marked = pictures.timeline_picture(profile.timeline("tidy", 1), marks={"here": 1.0})
    assert "here" in [text.get_text() for text in marked.axes[0].texts]
    assert len(pictures.utilisation(["tiled"], ["FMA pipe"]).axes[0].patches) == 1
    assert pictures.stall_bars(["tiled", "naive"]).axes[0].patches
    assert len(pictures.predicted_bars(["tiled"]).axes[0].patches) == 2


# --- what lesson 07 says --------------------------------------------------------------------------

FIRST, TIDY = profile.timeline("first", 2), profile.timeline("tidy", 2)
IMAGES = profile.phase(FIRST, "image 2"), profile.phase(TIDY, "image 2")


def share(step, *reasons):
    clocks = profile.stalls(step)
    return sum(clocks.get(reason, 0.0) for reason in reasons) / sum(clocks.values())


def test_nearly_all_of_the_run_is_start_up_and_the_first_image():
    run = profile.timeline("first")
    assert profile.phase(run, "image 1").start > 0.9 * max(event.end for event in run)
    start_up = profile.phase(run, "start up")
    assert profile.together([start_up], [profile.phase(run, "image 2")]) == 0
    launches = [profile.phase(profile.timeline("first", n), "launch kernel") for n in range(4)]
    assert launches[0].milliseconds > 100 * max(event.milliseconds for event in launches[1:])


def test_the_kernel_runs_under_the_phase_that_copies_out():
    kernels = profile.row(FIRST, "GPU: kernels")
    copy_out, launch = (profile.phase(FIRST, name) for name in ("copy out", "launch kernel"))
    assert profile.together([copy_out], kernels) > 0.95 * profile.busy(kernels)
    assert launch.milliseconds < profile.busy(kernels) / 4
    assert launch.end < kernels[0].end - 1


def test_rows_of_the_gpu_never_work_at_once_and_copies_take_longer():
    for events in (FIRST, TIDY):
        rows = [
            profile.busy(profile.row(events, f"GPU: {name}"))
            for name in ("copies in", "kernels", "copies out")
        ]
        assert profile.busy(profile.row(events, "GPU")) == pytest.approx(sum(rows))
        assert rows[0] + rows[2] > 2 * rows[1]


def test_tidied_up_an_image_is_faster_and_the_gpu_idler():
    assert IMAGES[0].milliseconds > 5 * IMAGES[1].milliseconds
    busy = [
        profile.busy(profile.row(events, "GPU")) / image.milliseconds
        for events, image in zip((FIRST, TIDY), IMAGES, strict=True)
    ]
    assert busy[1] < busy[0] / 2 < 0.4
    copies = profile.row(TIDY, "GPU: copies in")
    assert len(copies) == 3 and max(event.milliseconds for event in copies) < 0.1
    assert 0.4 < profile.phase(TIDY, "copy in").milliseconds < 0.6


def test_device_memory_is_idle_and_the_binding_part_moves_to_the_sm():
    assert profile.counter("original", "memory throughput") > 95
    assert all(profile.counter(step, "DRAM throughput") < 5 for step in profile.steps())
    binding = {step: profile.limiter(step) for step in profile.steps()}
    memory = {step for step, word in binding.items() if word == "memory"}
    assert memory == {"original", "float32", "tiled", "column", "square"}
    assert set(binding.values()) == {"memory", "compute"}
    highest = max(
        profile.steps(), key=lambda step: max(
            profile.counter(step, "SM throughput"), profile.counter(step, "memory throughput"))
    )  # fmt: skip
    assert highest in ("original", "float32")  # "the highest of all, and is the slowest"


@pytest.mark.parametrize("step", ["original", "naive"])
def test_sectors_are_predicted_to_the_last_one(step):
    for name in ("global load sectors", "global load requests"):
        assert profile.predicted(step, name) == profile.counter(step, name)
    stores = profile.counter(step, "global store sectors")
    assert profile.predicted(step, "global store sectors") == pytest.approx(stores, rel=1e-3)


@pytest.mark.slow
def test_prediction_and_counter_differ_where_the_compiler_reads_four():
    differ = set()
    for step in profile.steps():
        for name in profile.TRAFFIC:
            expected, counted = profile.predicted(step, name), profile.counter(step, name)
            if abs(expected - counted) > 0.1 * counted:
                differ.add((step, name.rpartition(" ")[0]))
    assert differ == {
        ("tiled", "shared load"),
        ("tiled", "shared store"),
        ("square", "shared load"),
    }
    wavefronts = profile.counter("square", "shared load wavefronts") / profile.products()
    assert wavefronts == pytest.approx(0.5, abs=0.002)


@pytest.mark.slow
def test_passes_follow_from_lines_and_wavefronts():
    counted = {
        step: profile.counter(step, "L1 wavefronts") / 100 * profile.clocks_taken(step)
        for step in profile.steps()
    }
    assert len(counted) == 9
    for step in set(counted) - {"tiled", "square"}:
        assert profile.wavefronts(step) == pytest.approx(counted[step], rel=0.1)
    for step, lines in (("original", 18), ("naive", 4)):
        assert profile.wavefronts(step) == pytest.approx(counted[step], rel=0.005)
        assert round(counted[step]) == lines
    assert profile.steps()[0] == "original" and profile.steps()[-1] == "warp tiles"
    assert round(counted["original"] / counted["warp tiles"]) == 97  # "a 97th"


def test_the_busiest_part_is_predicted_each_time():
    for step in profile.steps():
        expected, found = profile.busiest(step)
        assert expected == found, step
        assert max(part.share for part in profile.busy_parts(step).values()) < 100


def test_naive_computes_addresses():
    instructions = profile.counter("naive", "instructions") / profile.products()
    assert instructions > ladder.facts("naive").loop.per_product > 20
    busy = {m: profile.counter("naive", m) for m in ("issue slots", "uniform pipe", "FMA pipe")}
    assert busy["issue slots"] > 70 and busy["uniform pipe"] > 70 and busy["FMA pipe"] < 20
    assert (
        profile.counter("naive", "L1 wavefronts") < 30 and share("naive", "long_scoreboard") < 0.05
    )
    assert profile.counter("naive", "ALU pipe") < 35  # "has much room"
    assert share("naive", "selected", "not_selected", "math_pipe_throttle") > 0.85


def test_a_part_is_nearly_full_from_80_percent_on():
    highest = {
        step: max(profile.counter(step, f"{which} throughput") for which in ("SM", "memory"))
        for step in profile.steps()
    }
    assert {step for step, busy in highest.items() if busy >= 80} == {
        "original", "float32", "tiled", "column", "warp tiles"
    }  # fmt: skip
    assert round(highest["naive"]) == 74 and round(highest["square"]) == 77
    waiting = share("square", "long_scoreboard", "short_scoreboard", "barrier")
    queues = ("math_pipe_throttle", "mio_throttle", "lg_throttle")
    assert waiting > 2.5 * share("square", *queues)
    assert share("naive", "long_scoreboard", "short_scoreboard", "barrier") < 0.05


def test_the_fastest_step_has_a_quarter_of_the_warps():
    fastest = min(profile.steps(), key=lambda step: profile.counter(step, "duration"))
    assert fastest == "warp tiles"
    for step in profile.steps():
        theory, achieved = (
            profile.counter(step, f"{kind} occupancy") for kind in ("theoretical", "achieved")
        )
        assert theory == 100 * ladder.facts(step).occupancy().fraction
        assert 0.93 * theory < achieved <= theory
    assert 23 < profile.counter("warp tiles", "achieved occupancy") <= 25


def test_little_s_law_holds_and_states_add_up():
    for step in profile.steps():
        warps, issued = (profile.counter(step, m) for m in ("active warps", "issued a clock"))
        assert sum(profile.stalls(step).values()) == pytest.approx(warps / issued, rel=0.02)
        between = profile.counter(step, "clocks between instructions")
        assert sum(profile.stalls(step).values()) == pytest.approx(between, rel=0.02)


def test_the_story_that_the_stalls_tell():
    story = [profile.main_stall(step)[0] for step in ("original", "naive", "tiled", "column")]
    assert story == ["lg_throttle", "math_pipe_throttle", "long_scoreboard", "mio_throttle"]
    shares = [profile.main_stall(step)[1] for step in ("float32", "tiled", "warp tiles")]
    assert shares == sorted(shares, reverse=True) and shares[-1] < 0.15
    waiting = 1 - share("warp tiles", "selected", "not_selected")
    assert 0.25 < waiting < 0.3  # "a quarter"
    assert profile.counter("square", "issue slots") < 65
    assert profile.counter("square", "L1 wavefronts") < 85
    assert all(share("square", reason) > 0.05
               for reason in ("short_scoreboard", "long_scoreboard", "barrier"))  # fmt: skip


def test_watching_leaves_these_kernels_times_as_they_are_and_makes_launches_dearer():
    for step in profile.steps():
        alone = ladder.recorded(step).median
        assert profile.counter(step, "duration") == pytest.approx(alone, rel=0.015)
    launch = profile.phase(TIDY, "launch kernel").milliseconds
    assert launch > 1.5 * ladder.recorded("warp tiles", "launch").median
