"""Record how busy a vision transformer's kernels keep the GPU, by Nsight Compute's counters.

Run ``python -m course_recording.profiling.vit_counters data/measurements/<gpu>-vit_counters.csv``
on a machine with a GPU and Nsight Compute. One process launches each kernel of ViT-Base's first
block, and those before and after the blocks, for 64 images and for one. The file has the form of
all recorded figures; the metrics' names are in its header.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from course.measure.recorded import Figure, write
from course_recording.profiling import nsight
from course_recording.profiling.nsight import CountersNotRead, number_in
from course_recording.profiling.record_profile import UNITS

MODULE = "course_recording.profiling.vit_counters"
BATCHES = (64, 1)
SHARE, ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"
#: Metrics by figure; figures whose metric an ncu does not know are left out.
METRICS = {
    "duration": "gpu__time_duration.sum",
    "SM throughput": f"sm__throughput.{SHARE}",
    "memory throughput": f"gpu__compute_memory_throughput.{SHARE}",
    "DRAM throughput": f"gpu__dram_throughput.{SHARE}",
    "L2 throughput": f"lts__throughput.{SHARE}",
    "tensor pipe": f"sm__pipe_tensor_cycles_active.{SHARE}",
    "tensor pipe, wgmma": f"sm__pipe_tensor_op_gmma_cycles_active.{SHARE}",
    "tensor pipe, mma": f"sm__pipe_tensor_op_hmma_cycles_active.{SHARE}",
    "issue slots": f"sm__inst_issued.{ACTIVE}",
    "achieved occupancy": f"sm__warps_active.{ACTIVE}",
    "device memory read": "dram__bytes_read.sum",
    "device memory written": "dram__bytes_write.sum",
}


def calls(batch: int) -> Iterator[tuple[str, Any, tuple]]:
    """Each launch of a forward pass of one block: its name, the kernel, its arguments."""
    import numpy as np

    from course.backend import cuda
    from course_models.vit.network import ViT
    from course_models.vit.shape import ViTShape
    from course_models.vit.weights import initial

    shape = replace(ViTShape(), depth=1)
    vit = ViT(shape, initial(shape))
    images = np.random.default_rng(0).standard_normal(
        (batch, shape.channels, shape.image, shape.image), np.float32
    )
    steps = vit.steps()
    views = vit._views(batch, steps) | {
        "images": cuda.to_device(images.astype(np.float16)),
        "scores": cuda.device_array((batch, shape.classes), np.float16),
    }
    for step in steps:
        for number, its in enumerate(step.launches(views)):
            yield step.name + f", {number + 1}" * bool(number), its.configured(), its.arguments


def launch(facts: Path) -> None:
    """Launch every kernel, compiled before; write their names, the GPU and the versions."""
    with nsight.launching(facts, f"python -m {MODULE}") as more:
        more["names"] = []
        for batch in BATCHES:
            for name, kernel, arguments in calls(batch):
                kernel(*arguments)
                nsight.profiled(partial(kernel, *arguments))
                more["names"].append((name, f"{batch} images"))


def figures(
    rows: list[dict[str, str]], units: dict[str, str], names: list[tuple[str, str]],
    metrics: dict[str, str],
) -> list[Figure]:  # fmt: skip
    """The figures of all launches. Raises CountersNotRead when a launch is missing."""
    if len(rows) != len(names):
        raise CountersNotRead(f"{len(names)} launches were made, {len(rows)} profiled")
    found = []
    for row, (name, shape) in zip(rows, names, strict=True):
        for metric, its in metrics.items():
            unit, factor = UNITS.get(units.get(its, ""), ("count", 1.0))
            value = factor * number_in(row, its)
            if value == value:
                found.append(
                    Figure(name, "ours", shape, "float16", metric, unit, value, value, value, 1)
                )
    return found


def main() -> None:
    """Command line."""
    chosen = nsight.options(argparse.ArgumentParser(description=__doc__.split("\n\n")[0]))
    if chosen.launch:
        launch(chosen.launch)
        return
    known = nsight.known_metrics(chosen.ncu)
    metrics = {k: its for k, its in METRICS.items() if not known or its.split(".")[0] in known}
    try:
        rows, units, facts = nsight.counted(chosen.ncu, metrics.values(), MODULE)
        names = facts.pop("names")
        found = figures(rows, units, names, metrics)
    except CountersNotRead as error:
        raise SystemExit(str(error)) from None
    write(chosen.output, facts | metrics, found)
    print(f"{chosen.output}: {len(names)} launches, {len(found)} figures")


if __name__ == "__main__":
    main()
