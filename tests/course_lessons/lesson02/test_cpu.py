"""The seven programs for the CPU compute the same image, for any shape."""

import subprocess
import sys

import numpy as np
import pytest

from course_lessons.lesson02 import cpu

SHAPES = [(1, 1, 1, 1), (7, 5, 5, 1), (13, 37, 13, 5), (41, 17, 17, 17), (64, 48, 48, 20)]


def factors(rows, columns, values, seed=2):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((rows, values), dtype=np.float32),
        rng.random(values, dtype=np.float32),
        rng.standard_normal((values, columns), dtype=np.float32),
    )


def close_to_float64(out, u, s, vt, k):
    """Whether each pixel is within (k + 3) float32 roundings of its sum of magnitudes."""
    wide = [part.astype(np.float64) for part in (u[:, :k], s[:k], vt[:k])]
    expected = (wide[0] * wide[1]) @ wide[2]
    magnitude = (abs(wide[0]) * wide[1]) @ abs(wide[2])
    allowed = (k + 3) * np.finfo(np.float32).eps * magnitude
    return out.shape == expected.shape and bool(np.all(abs(out - expected) <= allowed))


@pytest.mark.drawn(10)
@pytest.mark.parametrize(("rows", "columns", "values", "k"), SHAPES)
@pytest.mark.parametrize("name", cpu.VARIANTS)
def test_a_program_rebuilds_images_of_any_shape(name, rows, columns, values, k):
    u, s, vt = factors(rows, columns, values)
    before = [part.copy() for part in (u, s, vt)]
    out = cpu.VARIANTS[name](u, s, vt, k)
    assert out.dtype == np.float32
    assert close_to_float64(out, u, s, vt, k)
    for part, old in zip((u, s, vt), before, strict=True):
        assert np.array_equal(part, old)


@pytest.fixture(scope="module")
def pool():
    with cpu.start_processes(2) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "values", "k"), SHAPES)
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_processes_rebuild_the_same_image(pool, rows, columns, values, k, parts):
    u, s, vt = factors(rows, columns, values)
    out = cpu.reconstruct_processes(u, s, vt, k, pool, parts)
    assert out.dtype == np.float32
    assert close_to_float64(out, u, s, vt, k)


def test_all_processes_are_up_when_the_call_returns():
    with cpu.start_processes(2) as started:
        assert len(started._processes) == 2
        assert all(process.is_alive() for process in started._processes.values())


@pytest.mark.parametrize("workers", [0, -1])
def test_less_than_one_process_is_refused(workers):
    with pytest.raises(ValueError, match=f"workers is {workers}; start at least 1"):
        cpu.start_processes(workers)


@pytest.mark.slow
def test_processes_start_beside_threads_and_without_a_script():
    """As in a notebook: no main module with a file, threads already running, nothing printed."""
    program = """
import numpy as np
from course_lessons.lesson02 import cpu
u, s, vt = np.ones((6, 2), np.float32), np.ones(2, np.float32), np.ones((2, 5), np.float32)
cpu.reconstruct_parallel(u, s, vt, 2)
with cpu.start_processes(2) as pool:
    out = cpu.reconstruct_processes(u, s, vt, 2, pool)
cpu.reconstruct_parallel(u, s, vt, 2)
print(out.shape, out.sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("(6, 5) 60.0\n", "")
