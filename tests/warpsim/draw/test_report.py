"""The pictures of a trace show what the trace counted."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_hex
from numba import float32, float64, int32, uint8, uint32
from PIL import Image

from warpsim import cuda, trace
from warpsim.draw.heat_map import rows_of
from warpsim.draw.palette import BLUE, VERMILLION, pale
from warpsim.draw.style import FONT_SIZE
from warpsim.ptx import load4, mma_f16, store4


@cuda.jit
def copy(x, out, step, start):
    i = cuda.grid(1)
    j = i * step + start
    if j < x.size:
        out[i] = x[j]


@cuda.jit
def rows(u, s, vt, out):
    """x walks down the rows."""
    row, col = cuda.grid(2)
    total = float32(0)
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(s.size):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@cuda.jit
def gather(x, index, out):
    i = cuda.grid(1)
    out[i] = x[index[i]]


@cuda.jit
def histogram(x, counts):
    bins = cuda.shared.array(16, int32)
    i = cuda.threadIdx.x
    if i < 16:
        bins[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if i < 16:
        cuda.atomic.add(counts, i, bins[i])


@cuda.jit
def long_lines_of_a_kernel(index):
    tile = cuda.shared.array(8192, float32)
    for number_of_this_element in range(cuda.threadIdx.x, tile.size, cuda.blockDim.x * 4 // 4):
        tile[number_of_this_element] = (
            tile[number_of_this_element // 16] + index.size - index.shape[0]
        )
        tile[number_of_this_element] += index[number_of_this_element % 2]


def strided_tile(kind):
    @cuda.jit
    def kernel(step, out):
        tile = cuda.shared.array(2048, kind)
        i = cuda.threadIdx.x
        for j in range(i, 2048, 32):
            tile[j] = j % 7
        cuda.syncthreads()
        out[i] = tile[i * step]

    return kernel


def transpose(width):
    @cuda.jit
    def kernel(a, out):
        tile = cuda.shared.array((32, width), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        col, row = cuda.grid(2)
        tile[y, x] = a[row, col]
        cuda.syncthreads()
        out[cuda.blockIdx.x * 32 + y, cuda.blockIdx.y * 32 + x] = tile[x, y]

    return kernel


def copied(dtype=np.float32, step=1, start=0, threads=32, blocks=1, room=8000):
    arguments = np.zeros(room, dtype), np.zeros(threads * blocks, dtype), step, start
    return trace(copy, blocks, threads, *arguments)


def traced_rows():
    f4 = np.float32
    arguments = np.ones((64, 8), f4), np.ones(8, f4), np.ones((8, 64), f4), np.zeros((64, 64), f4)
    return trace(rows, (4, 4), (16, 16), *arguments)


def marks(picture, kind):
    """The boxes of a kind, such as "sector", by what they are called."""
    patches = [p for axes in picture.axes for p in axes.patches]
    return [p.get_gid() for p in patches if (p.get_gid() or "").startswith(kind + " ")]


def texts(picture):
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def sample_of(report, code):
    (found,) = [s for (site, _, _), s in report._counters.samples.items() if site.code == code]
    return found


def count_of(report, code):
    (found,) = [c for (site, _, _), c in report._counters.accesses.items() if site.code == code]
    return found


# --- global memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "step", "start", "sectors", "ideal"),
    [
        (np.float32, 1, 0, 4, 4),
        (np.float32, 2, 0, 8, 4),
        (np.float32, 32, 0, 32, 4),
        (np.float32, 1, 3, 5, 4),
        (np.float32, 0, 5, 1, 1),
        (np.float64, 1, 0, 8, 8),
        (np.uint8, 1, 0, 1, 1),
        (np.uint8, 1, 3, 2, 1),
        (np.complex128, 1, 0, 16, 16),
    ],
)
def test_a_request_is_drawn_with_as_many_sectors_as_were_counted(
    dtype, step, start, sectors, ideal
):
    report = copied(dtype, step, start)
    count, sample = count_of(report, "x[j]"), sample_of(report, "x[j]")
    parts = 2 if dtype == np.complex128 else 1  # of which one is drawn
    counted = count.requests, count.sectors, count.ideal_sectors
    assert counted == (parts, parts * sectors, parts * ideal)
    assert (sample.amount, len(sample.sectors), sample.ideal) == (sectors, sectors, ideal)
    picture = report.show(5)
    assert len(marks(picture, "sector")) == sectors + sample_of(report, "out[i]").amount
    best = "the fewest possible" if sectors == ideal else f"{ideal} would do"
    unit = "sector" if sectors == 1 else "sectors"
    assert f"x[j]: load, {sectors} {unit} for 32 lanes ({best})" in texts(picture)


def test_each_lane_is_drawn_to_its_own_element():
    index = np.random.default_rng(5).integers(0, 500, 32)
    report = trace(gather, 1, 32, np.zeros(500, np.float32), index, np.zeros(32, np.float32))
    sample = sample_of(report, "x[index[i]]")
    assert sample.elements.tolist() == index.tolist()
    wanted = {}
    for lane, element in enumerate(index.tolist()):
        wanted.setdefault(element // 8, []).append(lane)
    assert sample.sectors == dict(sorted(wanted.items()))
    drawn = marks(report.show(), "element")
    assert {f"element {element}" for element in index.tolist()} <= set(drawn)
    assert len(wanted) == count_of(report, "x[index[i]]").sectors


def test_the_example_is_the_first_request_with_the_most_sectors():
    # warps 0 and 1 read one sector each, warps 2 and 3 read 32 scattered elements
    index = np.zeros(128, np.int64)
    index[64:] = np.arange(64) * 8
    report = trace(gather, 2, 64, np.zeros(600, np.float32), index, np.zeros(128, np.float32))
    sample, count = sample_of(report, "x[index[i]]"), count_of(report, "x[index[i]]")
    assert (sample.amount, sample.block, sample.warp) == (32, (1, 0, 0), 0)
    assert count.sectors == 1 + 1 + 32 + 32
    assert "16.5 is the mean of 4 requests" in " ".join(texts(report.show(3)))


def test_idle_lanes_of_a_partial_warp_are_told_apart():
    picture = copied(threads=20).show(5)
    assert len(marks(picture, "lane")) == 2 * 20
    assert len(marks(picture, "idle")) == 2 * 12
    assert "x[j]: load, 3 sectors for 20 lanes (the fewest possible)" in texts(picture)


def test_the_last_warp_of_a_block_may_be_the_worst():
    # 44 threads a block: its second warp has 12 lanes, of which the example must not be one
    sample = sample_of(copied(step=200, threads=44), "x[j]")
    assert (sample.warp, len(sample.lanes)) == (0, 32)


def test_rows_of_a_two_dimensional_block_are_named_and_so_are_elements():
    report = traced_rows()
    sample = sample_of(report, "u[row, i]")
    assert sample.amount == 16 and sample.wanted.most_common(1)[0][1] == 2
    words = texts(report.show(7))
    assert {"threadIdx.y = 0", "threadIdx.y = 1", "[0, 0]", "[15, 0]"} <= set(words)
    assert "u[row, i]: load, 16 sectors for 32 lanes (2 would do)" in words
    assert any(word.endswith("all 1,024 requests need as many") for word in words)


def test_sectors_apart_from_each_other_have_a_gap_and_neighbours_do_not():
    assert "…" not in texts(copied(step=2).show(5))
    index = np.repeat([0, 100], 16)
    report = trace(gather, 1, 32, np.zeros(500, np.float32), index, np.zeros(32, np.float32))
    assert texts(report.show(3)).count("…") == 1
    assert {"[0]", "[100]", "byte 0", "byte 384"} <= set(texts(report.show(3)))


def test_elements_have_the_indices_of_their_array_whatever_its_order():
    @cuda.jit
    def kernel(x, out):
        i, j = cuda.grid(2)
        out[i, j] = x[i, j]

    x = np.zeros((64, 2), np.float32)
    for order, names in (("C", {"[0, 0]", "[4, 0]", "[28, 0]"}), ("F", {"[0, 0]", "[8, 0]"})):
        report = trace(kernel, (2, 2), (32, 1), np.asarray(x, order=order), x.copy())
        sample = sample_of(report, "x[i, j]")
        assert {sample.element_name(min(sample.elements[s])) for s in sample.sectors.values()} >= (
            names
        )


# --- shared memory -------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("kind", "step", "wavefronts", "ideal"),
    [
        (float32, 0, 1, 1),
        (float32, 1, 1, 1),
        (float32, 2, 2, 1),
        (float32, 32, 32, 1),
        (float32, 33, 1, 1),
        (float64, 1, 2, 2),
        (float64, 2, 4, 2),
        (float64, 32, 32, 2),
        (uint8, 1, 1, 1),
        (uint8, 32, 8, 1),
    ],
)
def test_the_tallest_stack_of_words_is_the_number_of_wavefronts(kind, step, wavefronts, ideal):
    report = trace(strided_tile(kind), 1, 32, step, np.zeros(32, np.float32))
    count, sample = count_of(report, "tile[i * step]"), sample_of(report, "tile[i * step]")
    assert (count.wavefronts, count.ideal_wavefronts) == (wavefronts, ideal)
    heights = [max(len(words) for words in banks.values()) for banks in sample.stacks]
    assert (sum(heights), sample.amount, sample.ideal) == (wavefronts, wavefronts, ideal)
    drawn = {int(mark.rsplit(" ", 1)[1]) for mark in marks(report.show(7), "word")}
    assert drawn == set(range(wavefronts))


def test_red_are_the_lanes_that_wait():
    report = trace(strided_tile(float32), 1, 32, 2, np.zeros(32, np.float32))
    late = [
        patch for patch in report.show(7).axes[0].patches
        if (patch.get_gid() or "").startswith("word")
        and to_hex(patch.get_facecolor()) != pale(BLUE, 0.5)
    ]  # fmt: skip
    assert len(late) == 16 and all(patch.get_gid().endswith("wavefront 1") for patch in late)


@pytest.mark.parametrize(("width", "wavefronts"), [(32, 32), (33, 1)])
def test_padding_flattens_the_stack_of_a_transpose(width, wavefronts):
    a = np.zeros((64, 64), np.float32)
    report = trace(transpose(width), (2, 2), (32, 32), a, np.zeros_like(a))
    assert sample_of(report, "tile[x, y]").amount == wavefronts
    assert count_of(report, "tile[x, y]").wavefronts == wavefronts * 128


def test_atomics_say_how_many_lanes_have_an_address():
    values = np.random.default_rng(1).integers(0, 16, 64)
    report = trace(histogram, 1, 64, values, np.zeros(16, np.int32))
    lanes = np.bincount(values[:32])
    title = f"{np.count_nonzero(lanes)} addresses for 32 lanes; up to {lanes.max()} at one address"
    words = texts(report.show(7))
    assert any(word.endswith(title) for word in words)
    assert str(lanes.max()) in words


# --- all accesses, and errors --------------------------------------------------------------------


def test_without_a_line_the_most_wasteful_access_comes_first():
    titles = [word for word in texts(traced_rows().show()) if word.startswith("line ")]
    assert [title.split(":")[0] for title in titles] == [
        "line 7  u[row, i]", "line 8  out[row, col]", "line 7  s[i]", "line 7  vt[i, col]",
    ]  # fmt: skip


@pytest.mark.slow
def test_at_most_six_accesses_are_drawn_and_the_heading_says_so():
    @cuda.jit
    def many(x, out):
        i = cuda.grid(1)
        out[i] = x[i] + x[i + 1] + x[i + 2] + x[i + 3] + x[i + 4] + x[i + 5] + x[i + 6]

    report = trace(many, 1, 32, np.zeros(64, np.float32), np.zeros(32, np.float32))
    assert texts(report.show())[0] == "many: 6 of 8 accesses, the most wasteful first"
    assert texts(report.show(3))[0] == "many: 6 of 8 accesses, of line 3"


@pytest.mark.parametrize("line", [3, 99, -1, "5"])
def test_a_line_without_traffic_is_refused_with_the_lines_that_have_some(line):
    message = rf"line {line!r} of copy touches no memory.*\n  5: out\[i\]\n  5: x\[j\]"
    with pytest.raises(ValueError, match=message):
        copied().show(line)


def test_a_local_array_is_no_traffic():
    @cuda.jit
    def kernel(out):
        part = cuda.local.array(4, float32)
        i = cuda.grid(1)
        part[i % 4] = i
        out[i] = part[i % 4]

    report = trace(kernel, 1, 32, np.zeros(32, np.float32))
    with pytest.raises(ValueError, match="only a local array"):
        report.show(4)
    assert "out[i]: store, 4 sectors for 32 lanes (the fewest possible)" in texts(report.show())


def test_a_kernel_without_traffic_has_no_picture_but_a_heat_map():
    @cuda.jit
    def nothing(x):
        pass

    report = trace(nothing, 1, 32, np.zeros(32, np.float32))
    with pytest.raises(ValueError, match="neither global nor shared memory"):
        report.show()
    assert "def nothing(x):" in texts(report.heat_map())


def test_a_device_functions_accesses_name_it():
    @cuda.jit(device=True)
    def element(x, i):
        return x[i * 9 % x.size]

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = element(x, i)

    report = trace(kernel, 1, 32, np.zeros(999, np.float32), np.zeros(32, np.float32))
    assert any("[in element]" in word for word in texts(report.show(2)))
    table = rows_of(report._counters, report.kernel, report.source, report.findings)
    assert table[-1].code == "element: x[i * 9 % x.size]"
    assert [finding.kind for finding in table[-1].kinds] == ["uncoalesced"]
    assert not table[1].bars and not table[1].kinds


# --- the heat map --------------------------------------------------------------------------------


def test_the_heat_map_has_the_traces_figures_beside_each_line():
    report = traced_rows()
    table = rows_of(report._counters, report.kernel, report.source, report.findings)
    assert [row.number for row in table] == [1, 3, 4, 5, 6, 7, 8]  # the docstring is left out
    by_line = report.lines.groupby("line")[["sectors", "ideal_sectors"]].sum()
    for row in table:
        moved = by_line.loc[row.number].tolist() if row.number in by_line.index else [0, 0]
        assert [row.traffic.sectors, row.traffic.ideal_sectors] == moved
        assert [finding.kind for finding in row.kinds] == (["uncoalesced"] if sum(moved) else [])
    words = texts(report.heat_map())
    assert {"18,432 (4,096) sectors", "2,048 (512) sectors", "▲ uncoalesced"} <= set(words)


def test_a_long_line_of_code_goes_on_in_the_next_row():
    words = texts(trace(long_lines_of_a_kernel, 1, 512, np.arange(32)).heat_map())
    assert "tile.size, cuda.blockDim.x * 4 // 4):" in " ".join(" ".join(words).split())


def test_the_bars_of_the_heat_map_are_as_long_as_their_figures():
    a = np.zeros((64, 64), np.float32)
    report = trace(transpose(32), (2, 2), (32, 32), a, np.zeros_like(a))
    bars = {}
    for patch in report.heat_map().axes[0].patches:
        if patch.get_gid():
            bars.setdefault(patch.get_gid(), []).append(patch.get_width())
    unit = bars["needed wavefronts"][0] / 128
    assert bars["needed wavefronts"][1] == pytest.approx(128 * unit)
    assert bars["excess wavefronts"] == [pytest.approx((4096 - 128) * unit)]
    assert bars["needed sectors"] == [pytest.approx(512 * unit / 4)] * 2


def test_a_long_kernel_keeps_the_lines_that_do_something():
    lines = "".join(f"    t{n} = {n}\n" for n in range(60))
    source = f"def long(x):\n{lines}    x[0] = 1\n"
    report = copied()
    table = rows_of(report._counters, "long", source, ())
    assert [(row.number, row.code) for row in table[:2]] == [(1, "def long(x):"), (None, "…")]


def test_errors_are_marked_apart_from_costs():
    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = 1.0 / (cuda.grid(1) + 1)

    report = trace(kernel, 1, 64, np.zeros(40, np.float32))
    words = texts(report.heat_map())
    assert any(word.startswith("✖ out-of-bounds") and "▲ float64" in word for word in words)


# --- every picture -------------------------------------------------------------------------------


def pictures():
    a = np.zeros((64, 64), np.float32)
    tiled = trace(transpose(32), (2, 2), (32, 32), a, np.zeros_like(a))
    index = np.random.default_rng(2).integers(0, 9000, 64)
    wild = trace(gather, 1, 64, np.zeros(9000, np.float32), index, np.zeros(64, np.float32))
    by_rows, shared = traced_rows(), trace(long_lines_of_a_kernel, 1, 512, index[:32] % 9)
    return [
        *(by_rows.show(line) for line in (7, 8, None)), by_rows.heat_map(), tiled.show(7),
        tiled.show(), tiled.heat_map(), wild.show(), wild.show(3), copied(step=32).show(5),
        copied().heat_map(), shared.heat_map(), *(shared.show(line) for line in (4, 5)),
    ]  # fmt: skip


@pytest.mark.slow
def test_pictures_are_the_same_bytes_twice_small_and_no_wider_than_a_notebook():
    for first, second in zip(pictures(), pictures(), strict=True):
        drawn, _ = first._repr_png_()
        assert drawn == second.png()
        assert len(drawn) < 40_000
        with Image.open(io.BytesIO(drawn)) as image:
            assert image.width <= 700


@pytest.mark.slow
def test_text_is_large_enough_and_stays_inside():
    for picture in pictures():
        picture.draw_without_rendering()
        boxes = [text.get_window_extent() for text in picture.axes[0].texts]
        places = [patch.get_window_extent() for patch in picture.axes[0].patches]
        for text, box in zip(picture.axes[0].texts, boxes, strict=True):
            assert sum(box.overlaps(other) for other in boxes) == 1, text.get_text()
            assert text.get_fontsize() >= FONT_SIZE - 1 >= 8
            assert box.x0 >= 0 and box.x1 <= picture.bbox.width, text.get_text()
            assert box.y0 >= 0 and box.y1 <= picture.bbox.height, text.get_text()
            for place in places:  # of a lane, a bank, a word
                if place.width < 30 and place.contains(*box.min + box.size / 2):
                    assert place.x0 <= box.x0 and box.x1 <= place.x1, text.get_text()


def test_the_files_colours_are_those_that_were_drawn():
    with Image.open(io.BytesIO(traced_rows().heat_map().png())) as image:
        colours = {f"#{r:02X}{g:02X}{b:02X}" for _, (r, g, b) in image.convert("RGB").getcolors()}
    assert {VERMILLION, "#FFFFFF"} <= colours


# --- several elements at once --------------------------------------------------------------------


def test_sixteen_bytes_a_lane_are_one_box_of_global_and_four_words_of_shared_memory():
    @cuda.jit
    def move(x):
        tile = cuda.shared.array(128, float32)
        i = 4 * cuda.threadIdx.x
        store4(tile, i, load4(x, i))

    report = trace(move, 1, 32, np.zeros(128, np.float32))
    picture = report.show()
    assert marks(picture, "element") == [f"element {4 * lane}" for lane in range(32)]
    assert len(marks(picture, "sector")) == 16
    words = {f"word {word} in wavefront {word // 32}" for word in range(128)}
    assert set(marks(picture, "word")) == words
    boxes = [p for axes in picture.axes for p in axes.patches]
    sector = next(p for p in boxes if p.get_gid() == "sector 0").get_width()
    element = next(p for p in boxes if p.get_gid() == "element 0")
    assert element.get_width() == pytest.approx(sector / 2)
    assert element.get_linewidth() > 0  # two elements of a sector are told apart
    assert any("16 sectors for 32 lanes (the fewest possible)" in text for text in texts(picture))
    assert any("4 wavefronts for 32 lanes (the fewest possible)" in text for text in texts(picture))


def test_calls_are_counted_for_each_thread_that_makes_them():
    @cuda.jit(device=True)
    def doubled(x):
        return x + x

    @cuda.jit
    def some(out):
        if cuda.grid(1) < out.size:
            for _ in range(3):
                out[cuda.grid(1)] = doubled(out[cuda.grid(1)])
        f, u = float32(0), uint32(0)
        mma_f16((f, f, f, f), (u, u, u, u), (u, u))

    report = trace(some, 1, 32, np.ones(20, np.float32), gpu="A100")
    assert (report.calls("doubled"), report.calls("mma_f16"), report.calls("other")) == (60, 32, 0)
    assert "call doubled" not in report.operations
