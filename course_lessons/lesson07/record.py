"""Profile on the reader's own machine: with NVIDIA's tools where they are, else say what to do.

`timeline_here` runs `course_lessons.lesson07.phases` under Nsight Systems, or under PyTorch's
profiler. (Both record with one library, CUPTI.) `counters_here` runs it under Nsight Compute.
Without a GPU neither does anything but say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from course_lessons.lesson07.phases import IMAGES, PHASES, SIZE, START_UP, K, rebuild, write_factors
from course_lessons.lesson07.profile import Event

#: CUPTI's category of an event -> the timeline's row; copies have a row for each direction.
ROWS = {"kernel": "GPU: kernels", "cuda_driver": "CPU: calls", "cuda_runtime": "CPU: calls"}
ENGINES = {"HtoD": "GPU: copies in", "DtoH": "GPU: copies out", "DtoD": "GPU: copies inside"}
TOLERANCE = 1e-4  # relative, of the images: sums of k float32 products
SECONDS = 300  # the longest that a tool may take
RANGE = "image 1/launch kernel/"  # what Nsight Compute looks at: the second image's kernel

NO_GPU = "No GPU here, so there is nothing to record. Recorded data are shown instead."
GET_SYSTEMS = (
    "Nsight Systems (nsys) is not here. It comes with the CUDA toolkit (look for "
    "/usr/local/cuda/bin/nsys), or by itself: https://developer.nvidia.com/nsight-systems."
)
GET_COMPUTE = (
    "Nsight Compute (ncu) is not here. It comes with the CUDA toolkit: look for "
    "/usr/local/cuda/bin/ncu, or https://developer.nvidia.com/nsight-compute."
)
NOT_ALLOWED = (
    "Nsight Compute is here, but may not read the counters (ERR_NVGPUCTRPERM). On your own machine "
    "run it as root, or let the driver permit it: "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM. On a rented one, the owner decides."
)


class Text(str):
    """A text that a notebook shows as it is, without quotes."""

    def __repr__(self) -> str:
        return str(self)


class TimelineNotRecorded(RuntimeError):
    """The profiler saw too little, or an image came out wrong."""


# ---------------------------------------------------------------------- PyTorch's profiler
def row_of(event: dict[str, Any]) -> str | None:
    """The row of an event of the profiler's file; None for one that is not shown."""
    category, name = event.get("cat", ""), event.get("name", "")
    if category == "user_annotation" and (name in (START_UP, *PHASES) or name.startswith("image")):
        return "CPU: phases"
    if category == "gpu_memcpy":
        return next((row for kind, row in ENGINES.items() if kind in name), None)
    return ROWS.get(category)


def short_name(name: str) -> str:
    """A kernel's name as its author wrote it: "a::b::add[abi:v2](Array<...>)" -> "add"."""
    return name.split("[abi")[0].split("(")[0].split("::")[-1]


def events_of(trace: dict[str, Any], run: str) -> list[Event]:
    """The events of one run in the order of their starts, from the start of its first phase.

    What lies outside the phases is the profiler's own, and is left out.

    Parameters
    ----------
    trace : dict
        What PyTorch's profiler exports: Chrome's trace format, times in µs.
    run : str
        Name of the run.

    Raises
    ------
    TimelineNotRecorded
        When no phase or nothing on the GPU is in it.
    """
    found = [
        (row, event)
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and (row := row_of(event)) is not None
    ]
    phases = [event for row, event in found if row == "CPU: phases"]
    if not phases or not any(row.startswith("GPU") for row, _ in found):
        raise TimelineNotRecorded(
            f"{run}: {len(phases)} phases, {len(found) - len(phases)} other events; the profiler "
            "must see both the phases and the GPU's work"
        )
    zero = min(float(event["ts"]) for event in phases)
    last = max(float(event["ts"]) + float(event["dur"]) for event in phases)
    images = sorted(
        (float(event["ts"]), int(event["name"].split()[1]))
        for event in phases
        if event["name"].startswith("image")
    )
    events = []
    for row, event in found:
        start, length = float(event["ts"]), float(event["dur"])
        if not zero <= start <= last:
            continue
        about = event.get("args", {})
        before = [image for begin, image in images if begin <= start]
        name = short_name(event["name"]) if row == "GPU: kernels" else event["name"]
        events.append(
            Event(
                run,
                row,
                name,
                (start - zero) / 1e3,
                (start + length - zero) / 1e3,
                image=before[-1] if before else -1,
                stream=int(about.get("stream", -1)),
                bytes=int(about.get("bytes", 0)),
                call=int(about.get("correlation", 0)),
            )  # fmt: skip
        )
    return sorted(events, key=lambda event: (event.start, -event.end))


def record(way: str, folder: Path, images: int, k: int) -> list[Event]:
    """Run `course_lessons.lesson07.phases` in one way under PyTorch's profiler; check every image.

    Parameters
    ----------
    way : str
        One of `course_lessons.lesson07.phases.WAYS`.
    folder : Path
        With the factors of `course_lessons.lesson07.phases.write_factors`; the profiler's file goes
        there, too.
    images, k : int

    Raises
    ------
    TimelineNotRecorded
        When an image is wrong, or the profiler saw nothing.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=both, acc_events=True) as profiler:
        results = rebuild(way, folder, images, k, record_function)
    for image, result in enumerate(results):
        u, s, vt = (np.load(folder / f"{image}-{name}.npy") for name in ("u", "s", "vt"))
        right = (u[:, :k] * s[:k]) @ vt[:k]
        if not np.abs(result - right).max() <= TOLERANCE * np.abs(right).max():
            raise TimelineNotRecorded(f"{way}: image {image} is wrong, so its times mean nothing")
    path = folder / f"{way}.json"
    profiler.export_chrome_trace(str(path))
    return events_of(json.loads(path.read_text(encoding="utf-8")), way)


# ---------------------------------------------------------------------- on this machine
def tools() -> dict[str, str | None]:
    """Which profilers are here: name -> where, or None."""
    places = [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    found: dict[str, str | None] = {
        name: shutil.which(name, path=os.pathsep.join(places)) for name in ("nsys", "ncu")
    }
    torch = find_spec("torch")
    return found | {"PyTorch": torch.origin if torch else None}


def timeline_here(way: str = "first", images: int = IMAGES, size: int = SIZE, k: int = K) -> Any:
    """Record a timeline of `course_lessons.lesson07.phases` here.

    Returns
    -------
    Text or Picture
        Nsight Systems' summary; else a picture of what PyTorch's profiler saw; else what to do.
    """
    from course import backend

    if backend.gpu() is None:
        return Text(NO_GPU)
    here = tools()
    work = ["--way", way, "--images", str(images), "--size", str(size), "--k", str(k)]
    with tempfile.TemporaryDirectory() as folder:
        if here["nsys"]:
            report = str(Path(folder, "phases"))
            said = _ran(
                [here["nsys"], "profile", "--trace=cuda,nvtx", "--stats=true", "--output", report],
                work,
            )
            return Text(said[1])
        if here["PyTorch"] is None:
            return Text(f"{GET_SYSTEMS}\nPyTorch, whose profiler would do, is not here either.")
        from course_lessons.lesson07.pictures import timeline_picture

        write_factors(Path(folder), images, size)
        try:
            events = record(way, Path(folder), images, k)
        except TimelineNotRecorded as problem:
            return Text(problem)
    return timeline_picture([event for event in events if event.image == images - 1])


def counters_here(size: int = 1024, k: int = 128) -> Text:
    """Read the counters of a kernel of `course_lessons.lesson07.phases` here: what ncu says, or
    what to do."""
    from course import backend

    if backend.gpu() is None:
        return Text(NO_GPU)
    ncu = tools()["ncu"]
    if ncu is None:
        return Text(GET_COMPUTE)
    command = [ncu, "--clock-control", "none", "--nvtx", "--nvtx-include", RANGE]
    for section in ("SpeedOfLight", "Occupancy", "WarpStateStats"):
        command += ["--section", section]
    done, said = _ran(command, ["--images", "2", "--size", str(size), "--k", str(k)])
    if "ERR_NVGPUCTRPERM" in said:
        return Text(NOT_ALLOWED)
    shown = [line for line in said.splitlines() if not line.startswith("==")]
    return Text("\n".join(shown) if done else f"ncu failed:\n{said[-2000:]}")


def _ran(tool: Sequence[str], work: Sequence[str]) -> tuple[bool, str]:
    """Run `course_lessons.lesson07.phases` under a tool; whether it went well, what was printed."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            [*tool, sys.executable, "-m", "course_lessons.lesson07.phases", *work],
            capture_output=True, text=True, check=False, timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        return False, f"{tool[0]}: {problem}"
    return done.returncode == 0, done.stdout + done.stderr
