"""Reading PTX and the linker's log; plain text, so nothing needs to be installed."""

import pytest

from course.compiler.ptx import access_widths, float64_kind, instructions, resources, shared_bytes

pytestmark = pytest.mark.compiler  # with the compilers of Colab, too

PTX = """
.version 9.0
.target sm_75
.extern .func  (.param .b32 func_retval0) helper
(
	.param .b64 helper_param_0
)
;
.visible .entry kernel(
	.param .u64 kernel_param_0
)
{
	.reg .f64 	%fd<4>;
	.loc	1 5 0
	ld.param.u64 	%rd1, [kernel_param_0]; // cvt.f64.f32 in a comment
	.loc	1 7 3
$L__BB0_4:
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	@%p3 ld.volatile.shared.f32 	%f5, [%rd2];
	{ cvt.f64.f32 %fd1, %f1; add.f64 %fd2, %fd1, %fd1; }
	.loc	1 2 1, function_name $L__info_string0, inlined_at 1 9 1
	@!%p1 mul.f64 	%fd3, %fd2, 0d3FF8000000000000;
	.loc	1 0 1
	ld.f32 	%f6, [%rd9];
	mov.f64 	%fd3, 0d0000000000000000;
	st.global.v2.f64 	[%rd4], {%fd1, %fd2};
	st.shared::cta.b16 	[%rd4], %rs1;
	ret;
}
	.file	1 "/home/me/program.py"
"""


def test_every_instruction_has_its_function_file_and_line():
    found = {one.name: one for one in instructions(PTX)}
    assert found["ld.param.u64"].line == 5
    assert found["add.f64"] == ("add.f64", "kernel", "/home/me/program.py", 7)
    assert found["mul.f64"].line == 2
    assert (found["mov.f64"].file, found["mov.f64"].line) == (None, 0)
    assert sum(one.name == "cvt.f64.f32" for one in instructions(PTX)) == 1


KINDS = {
    "conversion": "cvt.f64.f32 cvt.rn.f32.f64 cvt.rzi.s64.f64",
    "arithmetic": "fma.rn.f64 div.rn.f64 abs.f64",
    "compare": "setp.gtu.f64",
    "atomic": "atom.global.add.f64 red.global.add.f64",
    None: "mov.f64 ld.global.f64 st.shared.v2.f64 selp.f64 add.f32 mov.b64 add.s64",
}


@pytest.mark.parametrize("kind", KINDS)
def test_moves_are_no_float64_work(kind):
    for name in KINDS[kind].split():
        assert float64_kind(name) == kind, name


def test_widths_by_space_without_cache_hints_and_kernel_arguments():
    assert access_widths(PTX, "ld") == {
        "generic": {"f32": 1},
        "global": {"v4.f32": 1},
        "shared": {"f32": 1},
    }
    assert access_widths(PTX, "st") == {"global": {"v2.f64": 1}, "shared": {"b16": 1}}


LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_75'
ptxas info    : Function properties for kernel
ptxas         .     1776 bytes stack frame, 2392 bytes spill stores, 2844 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 256 bytes smem, 464 bytes cmem[0]
"""


def test_reads_the_linkers_log():
    used = resources(LOG)
    assert (used.registers, used.shared) == (24, 256)
    assert (used.stack, used.spill_stores, used.spill_loads) == (1776, 2392, 2844)


def test_adds_up_the_spills_of_functions_that_were_not_inlined():
    other = LOG.replace("1776", "8").replace("2392", "4").replace("2844", "6")
    used = resources(LOG + other.replace("ptxas info    : Used", "ptxas info    : Did not use"))
    assert (used.stack, used.spill_stores, used.spill_loads) == (1776, 2396, 2850)


def test_refuses_a_log_that_says_nothing():
    with pytest.raises(ValueError, match="does not say"):
        resources("all is well")


def test_shared_memory_is_counted_from_declarations():
    ptx = """
.visible .shared .align 4 .b8 _cudapy_smem_13[8448];
.visible .shared .align 4 .b8 _cudapy_smem_14[8190];
.shared .align 8 .b8 third[16];
.extern .shared .align 16 .b8 dynamic[];
"""
    assert shared_bytes(ptx) == 8448 + 8190 + 2 + 16
    assert shared_bytes("ld.shared.f32 %f1, [%rd1];") == 0
