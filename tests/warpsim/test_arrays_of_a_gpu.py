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
    trace(adds, 1, (4, 4), OnGPU(memory), OnGPU(other.T))
    assert (memory == expected).all() and (other == np.arange(9.0).reshape(3, 3)).all()
