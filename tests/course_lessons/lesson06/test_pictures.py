"""The drawings of lessons 06 and 17 show what they say."""

import numpy as np
import pytest

from course import cuda, trace
from course.kernels.reconstruct.ladder import LADDER
from course_lessons.lesson06 import exercises, pictures
from course_lessons.lesson17 import pictures as tensor_pictures
from tests.pictures import assert_drawn, picture_texts


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.outer_products(),
        lambda: pictures.column_tile(),
        lambda: pictures.fragment_banks("square"),
        lambda: pictures.fragment_banks("wide"),
        lambda: pictures.quarters(),
        lambda: pictures.turned_banks(),
        lambda: pictures.buffers(),
        lambda: pictures.warp_tile(),
        lambda: tensor_pictures.halves(),
    ],
)
def test_a_picture_fits_a_notebook_and_is_not_blank(draw):
    assert_drawn(draw(), most_bytes=40_000)


def test_outer_products_count_reads_and_products():
    words = "\n".join(picture_texts(pictures.outer_products(((4, 2),))))
    assert "6 reads, 8 products" in words
    assert "0.75 reads for each" in words


def test_fragments_are_what_the_kernels_read():
    rows, k = 128, 8
    u, s, vt = (np.ones(shape, np.float32) for shape in ((rows, k), k, (k, rows)))
    out = np.zeros((rows, rows), np.float32)
    for kind, code in (("square", "load(vt_tile"), ("wide", "load4(vt_tile")):
        words, count = pictures.fragment_words(kind)
        report = trace(LADDER[kind].kernel, 1, LADDER[kind].block, u, s, vt, k, out)
        lines = report.lines[report.lines["code"].str.startswith(code)]
        banks = (
            np.concatenate([words[: 16 if count == 1 else 8] + e for e in range(count)])
            % pictures.BANKS
        )
        if kind == "square":
            assert (lines["wavefronts"] == lines["requests"] * np.bincount(banks).max()).all()
        else:  # eight lanes a wavefront
            assert np.bincount(banks).max() == 1
            assert (lines["conflicts"] == 0).all()


@pytest.mark.parametrize("pitch", [128, 132, 129, 136, 140])
def test_turned_banks_and_the_exercise_count_the_wavefronts_of_a_store(pitch):
    @cuda.jit
    def store_turned(out):
        tile = cuda.shared.array((8, pitch), np.float32)
        t = cuda.threadIdx.x
        tile[t % 2 * 4, t // 2] = 1
        out[t] = tile[t % 2 * 4, t // 2]

    report = trace(store_turned, 1, 32, np.zeros(32, np.float32))
    wavefronts = report.total("shared", "store").wavefronts
    assert wavefronts == exercises._turned_wavefronts(pitch)
    assert wavefronts == (1 if pitch in (132, 140) else 2)
    assert f"row stride {pitch}: {wavefronts} wavefront" in "\n".join(
        picture_texts(pictures.turned_banks((pitch,)))
    )
