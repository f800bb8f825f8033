"""The recorded times of numba-cuda-mlir's code: its form, its results, what the README says."""

import csv
import statistics
from pathlib import Path

import numpy as np

from course.files import data_path
from tools.successor import times

#: Kernels that were recorded by names of modules that have others now.
NOW = {
    "matmul.bias_backward": "gemm.float32.bias_backward",
    "linear.linear_naive": "gemm.gemv.linear_naive",
    "adam.adam_each": "training.adam.adam_each",
    "losses.kl_backward": "training.losses.kl_backward",
    "seeded.digest": "synthetic_images.digest",
}
README = Path(__file__).resolve().parents[3] / "warpsim" / "README.md"


def recorded() -> list[dict[str, str]]:
    """The rows of the file."""
    text = data_path("measurements", "h200-successor.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def test_every_kernel_was_measured_and_its_result_is_the_same():
    rows = recorded()
    assert tuple(rows[0]) == times.COLUMNS
    assert {NOW.get(row["kernel"], row["kernel"]) for row in rows} == set(times.WORK)
    assert set(times.cases()) == set(times.WORK)
    assert all(float(row["difference"]) < 3e-7 for row in rows)
    for row in rows:
        ratio = float(row["successor_us"]) / float(row["numba_us"])
        assert abs(ratio - float(row["ratio"])) < 0.002


def test_the_readme_says_what_was_measured():
    rows, text = recorded(), " ".join(README.read_text(encoding="utf-8").split())
    ratios = {row["kernel"]: float(row["ratio"]) for row in rows}
    assert sum(float(row["difference"]) == 0 for row in rows) == 18
    half = statistics.median(ratios.values())
    assert f"Half of the kernels take at most {half:.2f} times" in text
    assert sum(ratio <= 1.23 for ratio in ratios.values()) == 18
    assert f"{max(ratios.values()):.2f} times as long" in text
    assert f"{sorted(ratios.values())[-2]:.2f} times" in text
    assert sum(ratio < 0.98 for ratio in ratios.values()) == 2
    seconds = {key: sum(float(row[key]) for row in rows) for key in ("numba_s", "successor_s")}
    assert f"{seconds['successor_s']:.1f} s for all, {seconds['numba_s']:.1f} s with" in text


def test_an_array_is_two_pointers_an_offset_sizes_and_strides_in_elements():
    array = np.zeros((4, 6), np.float32)[:, ::2]
    flat = times.abi(np, (array, np.int64(3)))
    assert flat[0] is flat[1] is array
    assert flat[2:] == (0, 4, 3, 6, 2, 3)
