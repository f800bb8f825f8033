"""The bench subjects of reductions and activations do what they say, but for the times."""

import sys
from types import SimpleNamespace

import pytest

from course import backend
from course_recording import peers
from course_recording.frame import WrongResult, subjects
from course_recording.subjects import activation, reduce
from tests.course_recording.untimed import Untimed

SIMULATED = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


@SIMULATED
def test_reductions_and_softmax_are_right_in_the_bench(monkeypatch):
    monkeypatch.setattr(reduce, "SIZES", (4099,))
    monkeypatch.setattr(reduce, "SHAPES", ((6, 128), (3, 77)))
    bench = Untimed()
    reduce.run(bench)
    rows = {(row.kernel, row.variant, row.shape, row.dtype): row for row in bench.rows}
    assert rows["sum", "last block", "4099", "float32"].metric == "error of fractions"
    assert rows["max", "atomics", "4099", "float32"].metric == f"{4 * 4099} bytes"
    assert rows["softmax", "registers", "3x77", "float16"].metric == f"{2 * 2 * 3 * 77} bytes"
    gradient = rows["softmax gradient", "registers", "6x128", "float32"]
    assert gradient.metric == f"{3 * 4 * 6 * 128} bytes"
    # sum, its fractions, max; softmax of two shapes and two types, and its gradient
    softmaxes = len(reduce.softmax.LADDER) + len(reduce.softmax.BACKWARD)
    softmaxes -= sum("clusters left out" in note for note in bench.notes)
    assert len(bench.rows) == 3 * len(reduce.reduce.LADDER) + 4 * softmaxes


@SIMULATED
def test_activations_are_right_in_the_bench(monkeypatch):
    monkeypatch.setattr(activation, "SIZES", (4099,))
    bench = Untimed()
    activation.run(bench)
    names = {(row.kernel, row.variant, row.dtype) for row in bench.rows}
    assert ("silu", "two kernels", "float32") in names
    assert ("gelu gradient", "wide", "float16") in names
    # four functions and two gradients in two steps and two types, and Swish in two kernels
    assert len(names) == len(bench.rows) == 6 * 2 * 2 + 1


@SIMULATED
def test_a_wrong_kernel_is_found(monkeypatch):
    monkeypatch.setattr(activation, "SIZES", (4099,))
    monkeypatch.setattr(activation, "exact", lambda bench, name, x: (2 * x.astype("f8") + 1, None))
    with pytest.raises(WrongResult):
        activation.run(Untimed())


def test_the_subjects_are_listed_by_their_first_lines():
    listed = subjects()
    assert listed["activation"].startswith("GELU and Swish (SiLU), forward and backward")
    assert listed["reduce"].startswith("Sum, maximum and the softmax of rows")


def test_what_cannot_be_compiled_is_left_out_with_one_note(monkeypatch):
    bench = Untimed()

    def broken(function, dynamic):
        raise RuntimeError("no compiler found")

    torch = SimpleNamespace(compile=broken)
    monkeypatch.setattr(bench, "peer", lambda name: torch)
    assert peers.torch_compiled(bench, len, ()) is None
    assert peers.torch_compiled(bench, len, ()) is None
    (note,) = bench.notes
    assert note.startswith("torch.compile left out: ") and "no compiler found" in note


def test_without_triton_its_programs_are_left_out(monkeypatch):
    bench = Untimed()
    assert peers.triton_programs(bench) is None
    monkeypatch.setattr(bench, "peer", lambda name: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "triton", None)  # as where it is missing
    monkeypatch.delitem(sys.modules, "course_recording.peers.triton", raising=False)
    assert peers.triton_programs(bench) is None
    assert bench.notes[0].startswith("Triton's programs left out: ")
