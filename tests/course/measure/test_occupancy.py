"""Occupancy: NVIDIA's published examples, its own calculator, and the words for it."""

import ctypes
import importlib.util
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from course.measure.occupancy import MULTIPROCESSORS, multiprocessor, occupancy, threads_of
from warpsim.host import gpus

pytestmark = pytest.mark.compiler  # with the compilers of Colab, too


# ------------------------------------------------------------------ published examples
@pytest.mark.parametrize(
    ("block", "blocks", "percent"), [(128, 12, "75%"), (320, 4, "62%")], ids=["128", "320"]
)
def test_best_practices_guide_37_registers_on_compute_capability_7_0(block, blocks, percent):
    # CUDA C++ Best Practices Guide, "Calculating Occupancy": 75% with 12 blocks of 128 threads;
    # 63% (rounded up there) because only four blocks of 320 threads can reside
    result = occupancy((7, 0), block, registers=37)
    assert result.blocks == blocks
    assert f"{result.fraction:.0%}" == percent
    assert result.limited_by == ("registers",)


def test_programming_guide_blocks_of_one_warp_fill_half_of_compute_capability_10_0():
    # CUDA Programming Guide, occupancy: 32 blocks of 32 threads are 1,024 of 2,048 threads
    result = occupancy((10, 0), 32, registers=16)
    assert (result.blocks, result.warps, result.fraction) == (32, 32, 0.5)
    assert result.limited_by == ("blocks",)


@pytest.mark.parametrize(("registers", "blocks", "warps"), [(64, 2, 32), (65, 1, 16)])
def test_programming_guide_with_one_register_more_there_are_half_as_many_blocks(
    registers, blocks, warps
):
    # CUDA C++ Programming Guide, "Multiprocessor Level": 64 registers and blocks of 512 threads
    # (there for 6.x, whose register file is the same): two blocks, or one with 65 registers
    result = occupancy((7, 0), 512, registers)
    assert (result.blocks, result.warps) == (blocks, warps)


def test_ampere_block_of_1024_threads_with_8_kib_reaches_two_thirds():
    # S. Boehm, "How to Optimize a CUDA Matmul Kernel" (A6000, 8.6): 37 registers, 8,192 bytes and
    # 1 KiB for the driver: 11 blocks by shared memory, 1 by threads, 1 by registers, 66%
    result = occupancy((8, 6), 1024, 37, 8192)
    assert result.limits == {"registers": 1, "shared memory": 11, "threads": 1, "blocks": 16}
    assert (result.blocks, round(result.fraction, 2)) == (1, 0.67)


# ------------------------------------------------------------------ NVIDIA's calculator
WRAPPER = """
#include "cuda_occupancy.h"
extern "C" int limits(int major, int minor, int threads, int shared, int optin, int reserved,
                      int registers, int block, int bytes, int *out) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = major; gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024; gpu.maxThreadsPerMultiprocessor = threads;
    gpu.regsPerBlock = 65536; gpu.regsPerMultiprocessor = 65536; gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 49152; gpu.sharedMemPerMultiprocessor = shared; gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = optin; gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = 0;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = bytes;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state; cudaOccResult result;
    int error = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &gpu, &kernel, &state, block, bytes);
    out[0] = result.activeBlocksPerMultiprocessor; out[1] = result.blockLimitRegs;
    out[2] = result.blockLimitSharedMem; out[3] = result.blockLimitWarps;
    out[4] = result.blockLimitBlocks;
    return error;
}
"""


def calculator_header() -> Path | None:
    """cuda_occupancy.h of the CUDA runtime's wheel."""
    package = importlib.util.find_spec("nvidia")
    for place in package.submodule_search_locations if package else ():
        for folder in ("cu13", "cuda_runtime"):
            header = Path(place) / folder / "include" / "cuda_occupancy.h"
            if header.is_file():
                return header
    return None


@pytest.fixture(scope="module")
def nvidia_limits(tmp_path_factory):
    header, compiler = calculator_header(), shutil.which("c++")
    if header is None:
        pytest.skip("cuda_occupancy.h is not here: it comes with the extra compile")
    if compiler is None:
        pytest.skip("no C++ compiler to build NVIDIA's occupancy calculator with")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "wrapper.cpp").write_text(WRAPPER)
    library = folder / "occupancy.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-I{header.parent}", folder / "wrapper.cpp", "-o", library],
        check=True,
        capture_output=True,
    )
    function = ctypes.CDLL(str(library)).limits

    def ask(capability, block, registers, shared_bytes):
        has = MULTIPROCESSORS[capability]
        out = (ctypes.c_int * 5)()
        figures = (has.threads, has.shared, has.shared_per_block, has.reserved_shared)
        error = function(*capability, *figures, registers, block, shared_bytes, out)
        assert error == 0
        return list(out)

    return ask


@pytest.mark.parametrize("capability", MULTIPROCESSORS, ids=lambda c: f"{c[0]}.{c[1]}")
def test_equals_nvidias_own_calculator(capability, nvidia_limits):
    rng = random.Random(20)
    most = MULTIPROCESSORS[capability].shared_per_block
    for _ in range(2000):
        block = rng.randint(1, 1024)
        registers = rng.randint(16, 255)
        shared_bytes = rng.choice([0, rng.randint(1, most), rng.randint(1, 8192), most, most + 1])
        blocks, *limits = nvidia_limits(capability, block, registers, shared_bytes)
        ours = occupancy(capability, block, registers, shared_bytes)
        given = (block, registers, shared_bytes)
        assert ours.blocks == blocks, given
        unlimited = 2**31 - 1
        assert [unlimited if n == -1 else n for n in ours.limits.values()] == limits, given


# ------------------------------------------------------------------ words and refusals
def test_every_simulated_gpu_agrees_with_the_table():
    for model in gpus.GPUS.values():
        _, has = multiprocessor(model)
        assert has.threads == model.threads_per_multiprocessor
        assert has.shared == model.shared_per_multiprocessor
        assert has.shared_per_block == model.shared_per_block


def test_says_what_limits_it_and_several_where_they_tie():
    result = occupancy("T4", (16, 16), registers=64)
    assert str(result) == (
        "Tesla T4: 4 blocks of 256 threads on a multiprocessor,\n  32 warps, 100% of what it "
        "can hold; limited by registers and threads."
    )


def test_says_that_a_kernel_cannot_start_and_why():
    result = occupancy("T4", 1024, registers=65)
    assert (result.blocks, result.warps, result.fraction) == (0, 0, 0.0)
    assert "no block of 1024 threads with 65 registers" in str(result)
    assert str(result).endswith("too much is asked of registers.")
    too_much = occupancy("T4", 32, registers=32, shared_bytes=65 * 1024)
    assert too_much.limited_by == ("shared memory",)


def test_a_block_of_33_threads_takes_two_warps():
    assert occupancy("T4", 33, 32).warps == 2 * occupancy("T4", 33, 32).blocks


@pytest.mark.parametrize("block", [0, -1, 1025, (32, 33), (), (1, 1, 1, 1), "256", 2.0, True])
def test_refuses_blocks_that_no_gpu_takes(block):
    with pytest.raises(ValueError, match="block"):
        threads_of(block)


def test_refuses_unknown_gpus_and_negative_amounts():
    with pytest.raises(ValueError, match="known: Tesla T4"):
        occupancy("T5", 256, 32)
    with pytest.raises(ValueError, match=r"6\.1; known: 7\.0, 7\.5"):
        occupancy((6, 1), 256, 32)
    with pytest.raises(ValueError, match="negative"):
        occupancy("T4", 256, -1)
