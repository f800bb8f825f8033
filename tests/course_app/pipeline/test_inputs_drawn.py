"""Files of any samples are read by their own words, or refused; nothing is wrong in silence."""

from dataclasses import replace

import pytest
from PIL import Image

from course.images import reading
from course.images.reading import UnreadableImage, load_image
from course_app.pipeline.pipeline import reconstruct_images
from tests.course_app.pipeline.drawn_pictures import drawn, png_file, tiff_file, wrong

DRAWS = 50


@pytest.mark.parametrize(
    "first", [*range(0, 300, DRAWS), pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_drawn_pictures_are_read_rightly_or_refused(tmp_path, first):
    count = DRAWS if first < 10_000 else 5_000
    found = {seed: wrong(drawn(seed), tmp_path / "a") for seed in range(first, first + count)}
    assert not {seed: words for seed, words in found.items() if words}


def test_without_imagecodecs_most_of_8_bits_is_read_and_the_rest_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "imagecodecs", lambda: None)
    monkeypatch.setattr("course.images.tiff.imagecodecs", lambda: None)
    sound = [its for its in map(drawn, range(80)) if its.sound]
    told = list(filter(None, (wrong(its, tmp_path / "a") for its in sound)))
    assert len(told) < len(sound) / 2
    assert any("install imagecodecs" in words for words in told)
    # Pillow rounds a palette's colours and inks to 8 bits
    for its in sound:
        rounded = replace(its, sound=False, bound=max(its.bound, 1.3 / 255))
        assert not wrong(rounded, tmp_path / "a")


@pytest.mark.parametrize("content", [png_file(60_000, 60_000, 8, 0, bytes(1000)), *(
    tiff_file({256: (4, [wide]), 257: (4, [high]), 258: (3, [8] * count), 262: (3, [1]),
        259: (3, [1]), 277: (3, [count]), **tile}, [bytes(64)], "<", False, 1, bool(tile), False)
    for wide, high, count, tile in (
        (60_000, 60_000, 1, {}), (10_000, 10_000, 60, {}),
        (8, 8, 1, {322: (4, [1 << 16]), 323: (4, [1 << 16])}),
    )
)], ids=["png", "tiff", "samples", "tile"])  # fmt: skip
def test_bombs_are_refused_by_their_header_alone(tmp_path, content):
    (tmp_path / "bomb").write_bytes(content)
    with pytest.raises(UnreadableImage, match="too large: .* limit is 200"):
        load_image(tmp_path / "bomb")


def test_the_limit_is_the_callers_and_not_pillows(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    assert load_image(tmp_path / "a.png").shape == (8, 8)
    assert Image.MAX_IMAGE_PIXELS == 10
    with pytest.raises(UnreadableImage, match="8x8 are 6.4e-05 megapixels, and the limit is 6e-05"):
        load_image(tmp_path / "a.png", largest=6e-5)


def test_the_limit_is_an_option_of_the_pipeline(tmp_path):
    for number, side in enumerate((500, 1200, 600)):
        Image.effect_noise((side, side), 9).save(tmp_path / f"{number}.png")
    report = reconstruct_images([tmp_path], [2], tmp_path / "out", size=16, largest=1)
    ((file, reason),) = report.skipped
    assert (file, reason[:12]) == (str(tmp_path / "1.png"), "is too large")
    assert '"largest": 1' in (tmp_path / "out" / "report.json").read_text()
