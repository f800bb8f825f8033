"""Reading images as trained vision transformers expect them: resized, cropped, normalised.

>>> x = read_images(["cat.png", "dog.jpg"])                    # (2, 3, 224, 224), float16
>>> x = read_images(paths, like="timm")                        # grey levels to -1 ... 1

The shorter side becomes `resize` pixels, and the middle of `side` x `side` is cropped. From levels
of 0 to 1 each channel's mean is subtracted; then they are divided by its deviation. The
preprocessing of a model's training is part of the model: with another one it is wrong more often,
without any warning. A camera's note of its rotation is ignored, and transparency is dropped, which
shows the colour below it; both are usual.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

Three = tuple[float, float, float]
Source = str | os.PathLike[str] | Image.Image
LONGEST = 16  # times the shorter side: longer images are cropped before they are resized, too
RESAMPLES = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


@dataclass(frozen=True)
class Preprocessing:
    """How an image is preprocessed.

    Attributes
    ----------
    resize, side : int
        Pixels of the shorter side, and of the side that is cropped.
    mean, deviation : tuple of float
        For red, green and blue, in levels from 0 to 1.
    resample : str
        "bicubic" or "bilinear".
    """

    resize: int = 256
    side: int = 224
    mean: Three = (0.485, 0.456, 0.406)  # ImageNet's
    deviation: Three = (0.229, 0.224, 0.225)
    resample: str = "bicubic"

    def __post_init__(self) -> None:
        if not 1 <= self.side <= self.resize:
            raise ValueError(f"side is {self.side}; it must be from 1 to resize, {self.resize}")
        if self.resample not in RESAMPLES:
            raise ValueError(f"there is no resample {self.resample!r}: choose bicubic, bilinear")
        three = np.shape(self.mean) == np.shape(self.deviation) == (3,)
        if not three or not np.isfinite(self.mean).all() or not np.greater(self.deviation, 0).all():
            raise ValueError(
                f"mean is {self.mean}, deviation {self.deviation}; they must be three numbers "
                "each, and deviations above 0"
            )

    def __call__(self, image: Image.Image) -> np.ndarray:
        """An image as (3, side, side), float32; ValueError for 16 bits and more, or no pixels."""
        if image.mode[0] in "IF":
            raise ValueError(
                f"{getattr(image, 'filename', '') or 'an image'} has the mode {image.mode!r}: "
                "Pillow would cut its levels off at 255, so divide them first"
            )
        if not (short := min(image.size)):
            raise ValueError(f"an image has no pixels: {image.width} x {image.height}")
        if max(image.size) > LONGEST * short:
            ends = [(length - min(length, LONGEST * short)) // 2 for length in image.size]
            image = ImageOps.crop(image, (*ends, *ends))
        image = image.convert("RGB")
        size = tuple(max(self.side, length * self.resize // short) for length in image.size)
        image = image.resize(size, RESAMPLES[self.resample])
        left, top = (round((length - self.side) / 2) for length in size)
        cut = image.crop((left, top, left + self.side, top + self.side))
        levels = np.asarray(cut, np.float32) / 255
        x = (levels - np.float32(self.mean)) / np.float32(self.deviation)
        return np.ascontiguousarray(x.transpose(2, 0, 1))


#: For torchvision's models, such as `vit_b_16`, and most of timm's, such as `vit_base_patch16_224`.
LIKE = {
    "imagenet": Preprocessing(),
    "torchvision": Preprocessing(resample="bilinear"),
    "timm": Preprocessing(resize=248, mean=(0.5,) * 3, deviation=(0.5,) * 3),
}


def read_images(
    files: Iterable[Source] | Source, like: str | Preprocessing = "imagenet", side: int = 224
) -> np.ndarray:  # fmt: skip
    """Read images as a vision transformer's input.

    Parameters
    ----------
    files : iterable of path or PIL.Image.Image, or one of them
    like : str or Preprocessing
        One of `LIKE`, whose sizes are for a side of 224 and scale with `side`. Timm's models of 384
        pixels crop nothing: ``Preprocessing(384, 384, (0.5,) * 3, (0.5,) * 3)``.
    side : int
        Pixels of a side of the model's images, `ViTShape.image`.

    Returns
    -------
    ndarray, shape (n, 3, side, side), float16

    Raises
    ------
    TypeError
        For a file that is neither a path nor an image.
    ValueError
        If a file is no image, is broken or has more than 8 bits; for an unknown `like`.
    OSError
        If a file cannot be read at all.
    """
    if isinstance(like, str):
        if like not in LIKE:
            raise ValueError(f"there is no preprocessing {like!r}: choose {', '.join(LIKE)}")
        how = LIKE[like]
        like = replace(how, resize=max(side, round(how.resize * side / how.side)), side=side)
    if isinstance(files, str | os.PathLike | Image.Image):
        files = [files]
    found = [like(file if isinstance(file, Image.Image) else _opened(file)) for file in files]
    return np.array(found, np.float16).reshape(-1, 3, like.side, like.side)


def _opened(path: str | os.PathLike[str]) -> Image.Image:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"an image is {type(path).__name__}: give a path, or an image of Pillow's, such as "
            "Image.fromarray(array)"
        )
    try:
        with Image.open(path) as image:
            image.load()
            return image
    except Image.DecompressionBombError as problem:
        raise ValueError(f"{os.fspath(path)} is too large for Pillow: {problem}") from None
    except (UnidentifiedImageError, SyntaxError):
        raise ValueError(f"{os.fspath(path)} is no image that Pillow can read") from None
    except OSError as problem:
        if problem.errno is not None:  # missing, or no permission
            raise
        raise ValueError(f"{os.fspath(path)} is a broken image: {problem}") from None
