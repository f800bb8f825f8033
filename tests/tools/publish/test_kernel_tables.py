"""The tables of the kernels over rows: traffic by the trace, registers by the compilers."""

from tests.course.compiled_samples import needs_compiler
from tools import compile_all
from tools.publish import kernel_tables


def rows_of(lines):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_fusing_moves_half_of_the_bytes_and_swish_in_two_kernels_five_halves():
    moved = {(work, how): cells for work, how, *cells in rows_of(kernel_tables.traffic())}
    assert moved["LayerNorm + GELU", "fused"] == ["1", "1", "1", "2", "1×"]
    assert moved["LayerNorm + GELU", "LayerNorm, then GELU"] == ["2", "2", "2", "4", "2×"]
    assert moved["Swish", "sigmoid, then product"] == ["2", "3", "2", "5", "2.5×"]
    assert moved["softmax", "three passes"] == ["1", "3", "1", "4", "2×"]
    assert moved["softmax", "registers"][-1] == "1×"


@needs_compiler
def test_registers_and_spills_stand_beside_each_other_for_both_targets(capsys):
    assert kernel_tables.main(["compiled", "softmax.backward.", "reduce.fill"]) == 0
    head, _, *rows, _, end = capsys.readouterr().out.splitlines()
    columns = "registers sm_75 | spills sm_75 | registers sm_90 | spills sm_90 | shared bytes"
    assert head == f"| kernel | {columns} |"
    names = [row.split(" | ")[0].strip("| ") for row in rows]
    assert names == ["reduce.fill", "softmax.backward.softmax_backward_two_passes"]
    registers, spills = rows[0].split(" | ")[1:3]
    assert 0 < int(registers) < 32 and int(spills) == 0
    assert end == "2 kernels, 0 spills."


def test_every_family_names_kernels():
    names = [case.name for case in compile_all.kernels()]
    for family in kernel_tables.FAMILIES:
        assert any(name.startswith(family) for name in names), family
