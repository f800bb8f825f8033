"""What tests of drawings and charts ask of every picture."""

import io
import re

import numpy as np
from PIL import Image


def picture_texts(picture):
    """Every text that a picture shows."""
    return [text.get_text() for text in picture.findobj(lambda part: hasattr(part, "get_text"))]


def assert_described(picture):
    """It says in a few sentences what it shows, for whoever does not see it; return its PNG."""
    words = picture.alternative
    assert 20 < len(words) < 700 and words.endswith(".") and words == " ".join(words.split())
    assert not re.search(r"nan|None|object at|\bnothing\b|\{|\}|\[\]", words), words
    png, beside = picture._repr_png_()
    assert beside == {"alt": words}
    assert " ".join(repr(picture).split()) == words
    return png


def assert_drawn(picture, *words, most_bytes=None):
    """It shows the words, fits a notebook, is not blank, and is described."""
    png = assert_described(picture)
    found = "\n".join(picture_texts(picture))
    for word in words:
        assert word in found
    assert most_bytes is None or len(png) < most_bytes
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    assert pixels.shape[1] <= 900
    assert pixels.min() < 60 < 200 < pixels.max()
