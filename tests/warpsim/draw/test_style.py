"""How a picture shows itself in a notebook."""

import base64
import re
from html import unescape

import pytest

from warpsim.draw.style import Picture

WORDS = 'Two "warps" & a barrier.'


def test_a_kernel_of_a_jupyter_server_shows_the_same_png_with_its_words(monkeypatch):
    picture = Picture(1, 1).described(WORDS)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert picture._repr_html_() is None
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    html = picture._repr_html_()
    assert unescape(re.search(r'alt="([^"]*)"', html)[1]) == WORDS
    shown = base64.b64decode(re.search(r"base64,([^\"]*)", html)[1])
    assert (shown, {"alt": WORDS}) == picture._repr_png_()


def test_a_picture_without_words_is_refused_there_too(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    with pytest.raises(ValueError, match="say what the picture shows"):
        Picture(1, 1)._repr_html_()
