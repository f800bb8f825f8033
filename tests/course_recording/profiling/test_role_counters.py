"""The simulator's traffic of TMA, wgmma, mma and cp.async, held to the counters of an H200."""

import functools

import pytest

from course import backend, trace
from course.files import data_path
from course_recording.profiling.hardware_counters import read
from course_recording.profiling.role_counters import CASES, COUNTERS, prepared
from warpsim.host import gpus

PATH = data_path("measurements", "h200-role_counters.csv")
HEADER, RECORDED = read(PATH)
TMA = ("roles", "tma")


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    """The GPU whose counters were read."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is not None:
        pytest.skip("the simulator is compared with what was recorded")
    backend.simulate("H200")


@functools.cache
def traced(case):
    """The report of a case."""
    kernel, arguments = prepared(*case)
    return trace(kernel.kernel, kernel.grid, kernel.block, *arguments,
                 dynamic_shared=kernel.sharedmem, gpu="H200")  # fmt: skip


def zeros(method, rows, columns, depth):
    """Sectors of 32 bytes that TMA fills with zeros: L1 counts them as if they came from L2."""
    sides = {"tma": (128, 256), "roles": (64, 64)}[method]
    high, wide = -(-rows // sides[0]), -(-columns // sides[1])
    beyond, inside = 0, wide * high * sum(sides)  # the last tiles of "roles" begin further in
    if method == "tma":
        beyond = wide * (high * sides[0] - rows) + high * (wide * sides[1] - columns)
        inside = wide * rows + high * columns
    steps, left = -(-depth // 64), -depth % 64
    return 4 * beyond * steps + inside * -(-2 * left // 32)


KNOWN = [case for case in CASES if f"{case[0]} {'x'.join(map(str, case[1:]))}" in RECORDED]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", KNOWN)
def test_counts_are_those_of_the_hardware(case):
    method, *shape = case
    report, name = traced(case), f"{method} {'x'.join(map(str, shape))}"
    shared = {op: report.total("shared", op) for op in ("load", "store")}
    plain = {op: report.total("global", op) for op in ("load", "store")}
    found = {"tensor_operations": report.operations["tensor"]}
    written = shared["store"].wavefronts * 32  # words in banks
    if method in TMA:
        found["tma_loads"] = plain["load"].requests
        found["tma_load_sectors"] = plain["load"].sectors + zeros(*case)
    if method == "roles":
        found["tma_stores"] = plain["store"].requests
        found["tma_store_sectors"] = plain["store"].sectors
        found["bank_writes"] = written
    else:  # what plain stores write to global memory passes the banks, a word a lane
        found["bank_writes"] = written + plain["store"].lanes
    if method == "plain":
        found["ldmatrix_wavefronts"] = shared["load"].wavefronts
        found["mma"] = report.operations["tensor"] // (2 * 16 * 8 * 16)
    else:  # TMA's stores read a box of 64 rows of 128 bytes each
        stores = report.total("global", "store").requests if method == "roles" else 0
        found["wgmma"] = found["mma"] = shared["load"].requests - stores
        found["wgmma_wavefronts"] = shared["load"].wavefronts - 64 * stores
    if method in ("plain", "wgmma") and shape[2] % 64 == 0:
        # else rows begin between sectors: the two chunks of a sector go to different 32 bytes of
        # shared memory, and the hardware fetches the sector for each
        found["copy_sectors"] = plain["load"].sectors
    measured = {counter: value for counter, value in RECORDED[name].items() if counter in found}
    assert found == measured


def test_every_counter_was_read_and_swizzled_tiles_have_no_conflicts():
    assert list(COUNTERS.items()) == [(key, HEADER[key]) for key in COUNTERS]
    assert len(RECORDED) == len(KNOWN)
    assert not any("wgmma_conflicts" in counters for counters in RECORDED.values())
