"""The reader's photograph: any file becomes small, grey, of odd sides, or the cat; it is kept."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course import images
from course.images import chosen
from course.images.reading import load_image

CAT = images.photograph("chelsea")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The file in which the choice is kept, of a user of their own; the folder is the current."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "home" / "progress.jsonl"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "photograph.png"


@pytest.fixture
def cat():
    return images.mine("chelsea")


def drawn_file(folder, seed):
    """A file of a drawn size, type and colours, and the grey levels that it means."""
    rng = np.random.default_rng(seed)
    rows, columns = np.exp(rng.uniform(np.log(90), np.log(900), 2)).astype(int).tolist()
    rows, columns = (max(side, max(rows, columns) // 3) for side in (rows, columns))
    mode = str(rng.choice(["L", "RGB", "RGBA", "LA", "I;16", "1", "P", "F"]))
    ramp = np.linspace(0, 1, columns, dtype=np.float32) * np.ones((rows, 1), np.float32)
    levels = np.uint8(np.round(255 * ramp))
    path = folder / f"{seed}.{'tif' if mode == 'F' else rng.choice(['png', 'tif'])}"
    match mode:
        case "I;16":
            picture = Image.fromarray(np.uint16(np.round(65535 * ramp)))
        case "F":
            picture = Image.fromarray(ramp)
        case "1":
            ramp = np.float32(ramp > 0.5)
            picture = Image.fromarray(ramp > 0.5)
        case "LA" | "RGBA":
            alpha = Image.fromarray(np.full_like(levels, 128))
            ramp = ramp * (128 / 255) + (127 / 255)  # on white
            picture = Image.fromarray(levels).convert(mode)
            picture.putalpha(alpha)
        case _:
            picture = Image.fromarray(levels).convert(mode)
    picture.save(path)
    return path, ramp


@pytest.mark.parametrize("seed", range(40))
def test_a_drawn_file_becomes_a_small_grey_photograph_of_odd_sides(kept, tmp_path, seed, capsys):
    path, ramp = drawn_file(tmp_path, seed)
    photo = images.mine(path)
    assert capsys.readouterr().out == ""
    assert photo.dtype == np.float32 and photo.flags.c_contiguous
    rows, columns = photo.shape
    scale = min(1, 256 / max(ramp.shape))
    assert rows % 2 == columns % 2 == 1
    for side, given in zip(photo.shape, ramp.shape, strict=True):
        assert -1.5 <= side - scale * given <= 0.5
    assert set(np.unique(np.round(255 * photo) / np.float32(255))) >= set(np.unique(photo))
    where = np.linspace(0, ramp.shape[1] - 1, 9)[1:-1]  # Lanczos rings at the edges
    wanted = ramp[0, where.astype(int)]
    got = photo[rows // 2, np.minimum(where * scale, columns - 1).astype(int)]
    steps = np.unique(ramp).size == 2  # black, white: grey between them
    assert np.abs(got - wanted)[np.arange(7) != 3 if steps else slice(None)].max() < 0.06
    assert np.array_equal(images.mine(), photo), "a later lesson has the same"
    assert np.array_equal(load_image(kept), photo)


def damaged(seed):
    """A photograph's file, damaged in a drawn way."""
    rng = np.random.default_rng(seed)
    source = images.images.data_path("images", str(rng.choice(["coffee.jpg", "camera.png"])))
    content = bytearray(source.read_bytes())
    match seed % 4:
        case 0:
            return bytes(content[: rng.integers(len(content) // 2)])
        case 1:
            return bytes(rng.integers(0, 256, 5000, dtype=np.uint8))
        case 2:
            content[: rng.integers(4, 40)] = bytes(4)
            return bytes(content)
    return b"<html><body>404 Not Found</body></html>"


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_file_is_told_in_a_sentence_and_the_cat_is_shown(kept, tmp_path, seed, capsys):
    path = tmp_path / "me.jpg"
    path.write_bytes(damaged(seed))
    photo = images.mine("me.jpg")
    said = capsys.readouterr().out
    assert said.startswith("'me.jpg' ") and said.endswith(". Here is 'chelsea' instead.\n")
    assert said.count("\n") == 1
    assert np.array_equal(photo, images.mine("chelsea"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chelsae", "did you mean 'chelsea'?"),
        ("ME.jpeg", "did you mean 'me.jpg'?"),
        ("birthday.webp", "samples: camera, coffee, chelsea"),
        ("no/such/folder/me.jpg", "nor its folder"),
        ("", "The name is empty"),
        (".", "is not a regular file"),
        ("upload", "'upload' works in Colab"),
        ("https://example.org/me.png", "is an address: download the picture"),
        (3, "That is of type int: give a file's name between quotes"),
        (CAT, "of type ndarray"),
        ("line.png", "It has 30x4000 pixels"),
        ("dot.png", "It has 1x1 pixels"),
        ("phone.HEIC", "Export it as JPEG first"),
    ],
)
def test_what_is_no_photograph_says_why(kept, tmp_path, cat, capsys, name, words):
    Image.new("L", (8, 8)).save(tmp_path / "me.jpg")
    Image.new("L", (4000, 30)).save(tmp_path / "line.png")
    Image.new("L", (1, 1)).save(tmp_path / "dot.png")
    (tmp_path / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    images.mine("coffee")
    capsys.readouterr()
    assert np.array_equal(images.mine(name), cat)
    assert words in capsys.readouterr().out
    assert np.array_equal(images.mine(), images.mine("coffee")), "the earlier choice is kept"


@pytest.mark.parametrize("name", ["chelsea", " Camera", "coffee"])
def test_a_sample_is_remembered(kept, name):
    photo = images.mine(name)
    assert max(photo.shape) == 255
    assert np.array_equal(images.mine(), photo)


@pytest.mark.parametrize(
    ("names", "shown"), [({}, "chelsea"), ({"me (1).png": b""}, "me"), ({"b": b""}, "chelsea")]
)
def test_colab_asks_for_a_file(kept, tmp_path, monkeypatch, capsys, names, shown):
    Image.fromarray(np.uint8(255 * CAT[:101, :97])).save(tmp_path / "me (1).png")
    colab = SimpleNamespace(files=SimpleNamespace(upload=lambda: names))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    photo = images.mine("upload")
    assert photo.shape == ((101, 97) if shown == "me" else (169, 255))
    assert ("instead" in capsys.readouterr().out) == (shown != "me")


@pytest.mark.parametrize("name", ["COURSE_PROGRESS", "COURSE_GRADING", "COURSE_STRICT"])
def test_what_executes_solutions_neither_reads_nor_writes_it(kept, monkeypatch, cat, name):
    images.mine("coffee")
    before = kept.read_bytes()
    monkeypatch.setenv(name, "off" if name == "COURSE_PROGRESS" else "1")
    assert np.array_equal(images.mine(), cat)
    assert images.mine("camera").shape == (255, 255)
    assert kept.read_bytes() == before


def test_it_lies_beside_the_progress_in_the_users_folder(kept, tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS")
    monkeypatch.setenv("HOME", str(tmp_path / "new"))
    photo = images.mine("coffee")
    assert np.array_equal(load_image(tmp_path / "new" / ".course" / "photograph.png"), photo)


def test_a_kept_photograph_that_is_damaged_becomes_the_cat(kept, cat, capsys):
    images.mine("coffee")
    kept.write_bytes(kept.read_bytes()[:900])
    assert np.array_equal(images.mine(), cat)
    assert "photograph.png" in capsys.readouterr().out


def test_a_kept_photograph_may_be_replaced_by_hand(kept):
    Image.fromarray(np.uint8(255 * CAT)).save(kept)
    assert images.mine().shape == (169, 255)


def test_a_folder_that_cannot_be_written_does_not_disturb(kept, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "gone" / "progress.jsonl"))
    assert images.mine("coffee").shape == (171, 255)
    assert "Not kept for later lessons" in capsys.readouterr().out
    assert images.mine().shape == (169, 255)


@pytest.mark.parametrize(("side", "shown"), [(80, (169, 255)), (81, (81, 81)), (82, (81, 81))])
def test_every_photograph_has_80_layers(kept, tmp_path, side, shown):
    assert chosen.SHORTEST == 81
    Image.new("L", (side, side)).save(tmp_path / "square.png")
    assert images.mine("square.png").shape == shown
