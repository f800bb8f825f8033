"""Record a timeline where Nsight Systems is not installed: CUPTI, through PyTorch's profiler.

``python -m course_recording.profiling.record_timeline
data/measurements/<gpu>-profile-timeline.csv`` runs `course_lessons.lesson07.phases` in both ways
under the profiler, and writes what the CPU and the GPU did when. Nsight Systems records through
CUPTI, too. CUPTI sees everything that the process does on the GPU, whichever library launched it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from course_lessons.lesson07.phases import IMAGES, SIZE, WAYS, K, write_factors
from course_lessons.lesson07.profile import Event, write_timeline
from course_lessons.lesson07.record import TimelineNotRecorded, record


def totals(events: Iterable[Event]) -> str:
    """A line for each row and name of a timeline: how many events, and how long together."""
    sums: dict[tuple[str, str, str], list[float]] = {}
    for event in events:
        sums.setdefault((event.run, event.row, event.name), []).append(event.milliseconds)
    return "\n".join(
        f"  {run:6} {row:16} {name[:60]:60} {len(times):4} {sum(times):10.3f} ms"
        for (run, row, name), times in sums.items()
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns of an image")
    parser.add_argument("--k", type=int, default=K)
    chosen = parser.parse_args()
    if find_spec("torch") is None:
        raise SystemExit(
            "this recording needs PyTorch: pip install torch; with Nsight Systems you do without "
            "it, see course_recording/profiling/README.md"
        )
    events = []
    with tempfile.TemporaryDirectory() as name:
        write_factors(Path(name), chosen.images, chosen.size)
        try:
            for way in WAYS:
                events += record(way, Path(name), chosen.images, chosen.k)
        except TimelineNotRecorded as problem:
            raise SystemExit(str(problem)) from None
    from course import backend  # not before: finding the GPU belongs to the first phase
    from course.measure.recorded import header

    facts = header(
        backend.gpu() or "no GPU", None, "python -m course_recording.profiling.record_timeline"
    )
    facts["work"] = f"{chosen.images} images of {chosen.size}x{chosen.size}, k = {chosen.k}"
    write_timeline(chosen.output, facts, events)
    print(totals(events))
    print(f"{chosen.output}: {len(events)} events")


if __name__ == "__main__":
    main()
