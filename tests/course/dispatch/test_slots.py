"""Slots have Numba's types, and workspaces are slots while a plan is made."""

import numpy as np
import pytest

from course.dispatch import slots


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4), "f4"), np.zeros((3, 4), "f4").T, np.zeros((6, 8), "f4")[:, :4],
        np.zeros((6, 8), "f4")[::2], np.zeros((1, 5), "f2"), np.zeros((0, 5), "f4"),
        np.zeros((2, 3, 4), "f4")[:, :, 1:], np.zeros(7, "i4")[::3],
    ],
)  # fmt: skip
def test_a_slot_is_typed_and_ordered_as_numbas_device_arrays(array):
    there = slots.ArraySlot(3, array.shape, array.strides, array.dtype, beyond=8)
    assert there.is_c_contiguous() == array.flags.c_contiguous
    assert there.is_f_contiguous() == array.flags.f_contiguous
    assert (there.size, there.ndim, there.nbytes) == (array.size, array.ndim, array.nbytes)
    address = there.__cuda_array_interface__["data"][0]
    assert address % 16 == 8 and address >= 1 << 56  # no address of memory
    if array.flags.c_contiguous:
        assert there.reshape(array.size).strides == array.reshape(-1).strides
    else:
        with pytest.raises(ValueError, match="is not"):
            there.reshape(array.size + 1)


def test_workspaces_are_arrays_but_in_a_plan():
    memory = slots.workspace((2, 3), np.float32, zeros=True)
    assert not memory.copy_to_host().any()
    with slots.planning(5) as found:
        first, second = slots.workspace(4, "f4"), slots.workspace((2, 2), "u4", zeros=True)
    assert [first.slot, second.slot] == [5, 6]
    assert [(one.nbytes, one.zeros) for one in found] == [(16, False), (16, True)]
