"""Kernels on parts of device arrays: the elements they are, at the addresses where they lie."""

import numpy as np
import pytest

from warpsim import cuda, trace
from warpsim.host.device import DeviceNDArray


@cuda.jit
def copy(source, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = source[i]


@cuda.jit
def copy_plane(source, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = source[row, column]


PARTS = {
    "tail": np.s_[5:],
    "every third": np.s_[::3],
    "every third, from the second": np.s_[1::3],
    "backwards": np.s_[::-1],
    "backwards, every fourth": np.s_[50:3:-4],
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_is_read_and_written_in_place(part):
    values = np.arange(64, dtype=np.float32)
    expected = np.full(64, -1, np.float32)
    expected[part] = values[part]
    source = cuda.to_device(values)
    out = cuda.to_device(np.full(64, -1, np.float32))
    copy[3, 32](source[part], out[part])
    assert np.array_equal(out.copy_to_host(), expected)


def test_columns_of_a_plane():
    values = np.arange(70, dtype=np.int16).reshape(7, 10)
    expected = np.zeros((7, 10), np.int16)
    expected[1::2, 2:9:3] = values[1::2, 2:9:3]
    source, out = cuda.to_device(values), cuda.to_device(np.zeros((7, 10), np.int16))
    copy_plane[1, (8, 8)](source[1::2, 2:9:3], out[1::2, 2:9:3])
    assert np.array_equal(out.copy_to_host(), expected)


def test_sectors_of_a_part_are_those_where_it_lies():
    values = np.zeros(256, np.float32)
    source, out = cuda.to_device(values), cuda.to_device(values)
    sectors = {
        offset: trace(copy, 1, 32, source[offset : offset + 32], out[:32])
        .total("global", "load")
        .sectors
        for offset in (0, 1, 7, 8)
    }
    assert sectors == {0: 4, 1: 5, 7: 5, 8: 4}
    assert trace(copy, 1, 32, source[:64:2], out[:32]).total("global", "load").sectors == 8
    assert trace(copy, 1, 32, source[31::-1], out[:32]).total("global", "load").sectors == 4


def test_elements_that_do_not_lie_on_a_common_step_are_refused():
    records = np.zeros(8, np.dtype([("mass", "f8"), ("flag", "u1")]))
    with pytest.raises(TypeError, match="9,.* bytes apart.*copy"):
        copy[1, 32](DeviceNDArray(records["mass"]), np.zeros(4))
