"""Arrays in a real GPU's memory: simulated on copies, which go back."""

import numpy as np

from warpsim import cuda, trace


class OnGPU:
    """An array whose address is none of the simulator's, with numba.cuda's way to the host."""

    def __init__(self, memory, base=1 << 40):
        self.memory, self.base = memory, base

    @property
    def __cuda_array_interface__(self):
        its = dict(self.memory.__array_interface__, version=3, stream=None)
        its["data"] = self.base, False
        its["strides"] = None if self.memory.flags.c_contiguous else self.memory.strides
        return its

    def copy_to_host(self):
        return self.memory.copy()

    def copy_to_device(self, values):
        np.copyto(self.memory, values)


@cuda.jit
def reads_what_it_wrote(matrix, line):
    i = cuda.grid(1)
    if i < line.size:
        matrix[i // 4, i % 4] = i
        line[i] += 1


@cuda.jit
def adds(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] += y[i, j]


def test_two_arguments_of_one_memory_are_one_memory():
    memory = np.zeros((2, 4), np.float32)
    trace(reads_what_it_wrote, 1, 32, OnGPU(memory), OnGPU(memory.reshape(8)))
    assert (memory.ravel() == np.arange(1, 9)).all()


def test_a_transposed_view_keeps_its_order():
    memory, other = np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)
    expected = memory + memory.T
    trace(adds, 1, (4, 4), OnGPU(memory), OnGPU(other.T, base=1 << 41))
    assert (memory == expected).all() and (other == np.arange(9.0).reshape(3, 3)).all()


def part(memory, index):
    """A view of a GPU's array, at its address there."""
    view = memory[index]
    start = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return OnGPU(view, base=(1 << 40) + start)


@cuda.jit
def writes_by_column_and_row(column, row):
    i = cuda.grid(1)
    if i < column.size:
        column[i] = i + 1
        row[i] += 10


def test_a_row_and_a_column_of_one_matrix_are_one_memory():
    memory = np.zeros((4, 4), np.float32)
    report = trace(writes_by_column_and_row, 1, 4, part(memory, np.s_[:, 1]), part(memory, 2))
    expected = np.zeros((4, 4))
    expected[:, 1] = [1, 2, 3, 4]
    expected[2] += 10
    np.testing.assert_array_equal(memory, expected)
    assert "race" in {finding.kind for finding in report.findings}  # [2, 1] by threads 1 and 2


@cuda.jit
def shifts(to, out_of):
    i = cuda.grid(1)
    if i < to.size:
        to[i] = out_of[i] + 1


def test_parts_that_overlap_keep_what_each_of_them_got():
    memory = np.arange(10.0)
    trace(shifts, 1, 32, part(memory, np.s_[:6]), part(memory, np.s_[6:2:-1]))
    assert (memory[6:] == np.arange(6.0, 10)).all() and (memory[:3] == [7, 6, 5]).all()
    other = np.arange(8, dtype=np.int32)
    whole, bytes_ = OnGPU(other), OnGPU(other.view(np.uint8))
    trace(shifts, 1, 8, whole, bytes_)
    assert (other == [1, 1, 1, 1, 2, 1, 1, 1]).all()  # bytes of 0 and 1, read before


def test_arrays_side_by_side_and_empty_ones_are_apart():
    memory = np.arange(8.0)
    trace(shifts, 1, 32, part(memory, np.s_[:4]), part(memory, np.s_[4:]))
    assert (memory == [5, 6, 7, 8, 4, 5, 6, 7]).all()
    trace(shifts, 1, 32, OnGPU(np.zeros(0)), part(memory, np.s_[:0]))


class WithoutGaps(OnGPU):
    """As numba.cuda copies: one region at a time."""

    def copy_to_device(self, values):
        if not (self.memory.flags.c_contiguous or self.memory.flags.f_contiguous):
            raise ValueError("Array contains non-contiguous buffer")
        super().copy_to_device(values)


def test_a_view_with_gaps_that_is_only_read_does_not_go_back():
    memory, other = np.zeros((3, 2)), np.arange(12.0).reshape(3, 4)
    trace(adds, 1, (4, 4), WithoutGaps(memory), WithoutGaps(other[:, ::2], base=1 << 41))
    assert np.array_equal(memory, [[0, 2], [4, 6], [8, 10]])
