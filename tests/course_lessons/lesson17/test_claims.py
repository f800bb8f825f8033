"""What lesson 17 says and draws is so: fragments, swizzles, waves, registers, descriptors."""

import itertools
import linecache
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from numba import float32, uint32

from course import CompilerMissing, compiled, cuda, known_gpu, recorded_roofs, trace
from course_lessons.lesson17 import hopper, pictures
from tests.pictures import assert_drawn, picture_texts
from tools.notebooks import lessons
from warpsim.ptx import mma_f16, split_halves
from warpsim.ptx.mma import place_in_a, place_in_b, place_in_c

LESSON = next(path for path in lessons.paths() if path.parent.name == "lesson17")


@cuda.jit
def by_tables(a, b, rows_a, columns_a, rows_b, columns_b, rows_c, columns_c, out):
    """One product whose lanes take what the tables say; of each table a row is a part."""
    lane = cuda.threadIdx.x
    of_a = (uint32(0), uint32(0), uint32(0), uint32(0))
    of_b = (uint32(0), uint32(0))
    for n in range(4):
        x = a[rows_a[2 * n, lane], columns_a[2 * n, lane]]
        y = a[rows_a[2 * n + 1, lane], columns_a[2 * n + 1, lane]]
        both = split_halves(x, y)[0]
        of_a = (of_a[1], of_a[2], of_a[3], both)
    for n in range(2):
        x = b[rows_b[2 * n, lane], columns_b[2 * n, lane]]
        y = b[rows_b[2 * n + 1, lane], columns_b[2 * n + 1, lane]]
        of_b = (of_b[1], split_halves(x, y)[0])
    zero = float32(0)
    c = mma_f16((zero, zero, zero, zero), of_a, of_b)
    for n in range(4):
        out[rows_c[n, lane], columns_c[n, lane]] = c[n]


def test_the_places_that_are_drawn_are_those_of_a_product():
    rng, tables = np.random.default_rng(4), []
    for places in (
        [place_in_a(r, p) for r in range(4) for p in range(2)],
        [place_in_b(r, p) for r in range(2) for p in range(2)],
        [place_in_c(r) for r in range(4)],
    ):
        tables += [np.array(part) for part in zip(*places, strict=True)]
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((16, 16), (16, 8)))
    out = np.zeros((16, 8), np.float32)
    trace(by_tables, 1, 32, a, b, *tables, out, gpu="A100")
    assert np.array_equal(out, a @ b)


def test_each_number_has_one_lane_and_one_register():
    for places, shape in (
        ([place_in_a(r, p) for r in range(4) for p in range(2)], (16, 16)),
        ([place_in_b(r, p) for r in range(2) for p in range(2)], (16, 8)),
        ([place_in_c(r) for r in range(4)], (16, 8)),
    ):
        times = np.zeros(shape, int)
        for row, column in places:
            np.add.at(times, (row, column), 1)
        assert (times == 1).all()


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "draw", [pictures.fragments, pictures.halves, pictures.swizzle, pictures.orders]
)
def test_a_picture_fits_a_notebook_and_is_not_blank(draw):
    assert_drawn(draw(), most_bytes=60_000)


def test_the_fragments_picture_numbers_all_lanes():
    shown = picture_texts(pictures.fragments(lane=13))
    assert shown.count("31") == 8 + 4 + 4  # of a, b, c
    assert "lane 13 is framed" in "\n".join(shown)


def test_a_swizzle_exchanges_chunks_and_is_its_own_inverse():
    chunks, wavefronts = pictures.lying(4)
    assert wavefronts == 1 and pictures.lying(0)[1] == 8
    for row in chunks:
        assert sorted(row) == [*range(8)] and [row[place] for place in row] == [*range(8)]
    assert all(len({*np.argwhere(chunks == chunk)[:, 1]}) == 8 for chunk in range(8))


def test_the_orders_picture_counts_the_strips():
    words = "\n".join(picture_texts(pictures.orders()))
    assert "2 strips of a + 12 of b = 14" in words and "4 strips of a + 4 of b = 8" in words
    assert [hopper.strips(12, 12, 16, band) for band in (1, 4)] == [14, 8]


@pytest.mark.parametrize(("down", "across", "band"), [(12, 12, 4), (99, 4, 8), (5, 7, 64)])
def test_each_tile_is_taken_once(down, across, band):
    found = {hopper.tile_of(number, down, across, band) for number in range(down * across)}
    assert found == {(row, column) for row in range(down) for column in range(across)}


def test_a_float32_quotient_is_right_where_the_text_says():
    rng = np.random.default_rng(3)
    dividend = rng.integers(0, 2**24 - 2**12, 200_000)
    divisor = rng.integers(1, 2**12, dividend.size)
    edge = np.maximum(dividend // divisor * divisor - 1, 0)  # just below a whole number
    for number in (dividend, edge):
        quotient = (number.astype(np.float32) / divisor.astype(np.float32)).astype(np.int64)
        assert np.array_equal(quotient, number // divisor)


def test_the_registers_that_are_printed_without_a_compiler_are_the_compilers():
    sources = [cell.source for cell in lessons.read(LESSON)]
    cell = next(source for source in sources if "def by_division" in source)
    printed = next(source for source in sources if "except CompilerMissing:" in source)
    names = {"__name__": __name__, "cuda": cuda}
    exec("from numba import float32, int32", names)
    exec(compile(cell, str(LESSON), "exec"), names)
    found = {}
    for name, said in (("by_bits", "by_bits 12"), ("by_float32", "by_float32 14"),
                       ("by_division", "by_division 22")):  # fmt: skip
        assert said in printed
        found[name] = int(said.split()[1])
    try:
        for name, registers in found.items():
            function = names[name].py_func
            facts = compiled_from(cell, function)
            if facts.toolkit.startswith("13.0"):
                assert facts.registers == registers
            assert ("div.s64" in facts.ptx) == (name == "by_division")
    except CompilerMissing:
        pytest.skip("the extra compile is not installed")


def compiled_from(cell, function):
    """Facts of a kernel of a cell's text."""
    linecache.cache[str(LESSON)] = (len(cell), None, cell.splitlines(keepends=True), str(LESSON))
    try:
        return compiled(function, "void(int32, int32[:, ::1])", target="sm_90")
    finally:
        del linecache.cache[str(LESSON)]


def test_what_a_multiprocessor_makes_in_a_clock_fits_the_data_sheet():
    """2,048 products of halves for 128 of float32; clocks of the two peaks differ by a tenth."""
    rates = known_gpu("H200").rates
    ratio = rates["tensor_float16"] / rates["float32"]
    assert 0.9 < ratio / (hopper.PRODUCTS_A_CLOCK / 128) < 1.0
    measured = recorded_roofs("H200").rates
    assert measured["tensor_float16"] / measured["float32"] > 10  # "more than ten times"
    assert measured["tensor_float16"] < rates["tensor_float16"]


def test_the_ladders_arithmetic():
    assert hopper.stages(128, 256, 64) == 4
    assert 65_536 // 384 // 8 * 8 == 168
    assert 128 * (40 + 2 * 232) <= 65_536
    assert hopper.waves(12_608, 768, (128, 256)) == 2.25
    assert hopper.waves(12_608, 768, (128, 192)) == 3


def test_a_descriptor_has_its_fields_where_ptx_has_them():
    bits = hopper.descriptor(2048, 16, 1024, "128 bytes")
    assert (bits & 0x3FFF, bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF) == (128, 1, 64)
    assert bits >> 62 == 1 and bits < 2**64
    for wrong in ({"address": 8}, {"stride": 2**18}):
        with pytest.raises(ValueError, match=f"{[*wrong][0]} is .*: give a multiple of 16"):
            hopper.descriptor(
                **({"address": 0, "leading": 16, "stride": 16} | wrong), swizzle="none"
            )


def test_products_of_halves_are_as_level_with_cublas_as_the_text_says():
    lines = [line.split() for line in hopper.recorded_products().splitlines()[1:]]
    ratios = {shape: float(ratio) for shape, _, ratio in lines}
    eight, one = (
        {shape: ratios.pop(shape) for shape in [*ratios] if shape.startswith(rows)}
        for rows in ("1576x", "197x")
    )
    assert (len(ratios), len(eight), len(one)) == (6, 4, 4)
    for its, mean, least in ((ratios, 1.0, 0.97), (eight, 0.94, 0.9), (one, 1.0, 0.93)):
        assert statistics.geometric_mean(its.values()) >= mean and min(its.values()) > least


def test_the_pages_ratios_are_the_recorded_ones():
    readme = (Path(__file__).parents[3] / "site/functions.md").read_text(encoding="utf-8")
    (said,) = re.findall(
        r"(\S+) to (\S+) times cuBLAS's speed for\s+4,096 rows and\s+more, (\S+) to (\S+) for few",
        readme,
    )
    lines = [line.split() for line in hopper.recorded_products().splitlines()[1:]]
    large = [ratio for shape, _, ratio in lines if int(shape.split("x")[0]) >= 4096]
    few = [ratio for shape, _, ratio in lines if int(shape.split("x")[0]) < 4096]
    assert said == (min(large), max(large), min(few), max(few))


def test_each_step_of_the_ladder_pays_and_blocks_that_stay_more_where_tiles_are_short():
    steps = [*hopper.recorded_ladder().values()]
    for before, after in itertools.pairwise(steps):
        assert all(new > old for old, new in zip(before, after, strict=True))
    deep, flat = (new / old for old, new in zip(*steps[-2:], strict=True))
    assert deep < flat
