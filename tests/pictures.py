"""What tests of drawings and charts ask of every picture."""

import io

import numpy as np
from PIL import Image


def picture_texts(picture):
    """Every text that a picture shows."""
    return [text.get_text() for text in picture.findobj(lambda part: hasattr(part, "get_text"))]


def assert_drawn(picture, *words, most_bytes=None):
    """It shows the words, fits a notebook and is not blank."""
    found = "\n".join(picture_texts(picture))
    for word in words:
        assert word in found
    png = picture.png()
    assert most_bytes is None or len(png) < most_bytes
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    assert pixels.shape[1] <= 900
    assert pixels.min() < 60 < 200 < pixels.max()
