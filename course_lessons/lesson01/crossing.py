"""What crosses between host and device in a call: copies are counted, of launches and one's own.

The counts are the same on every machine: no GPU is asked, and each launch is computed by NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from course import cuda
from course.checks.answers import looks_like_a_stub, plain_function
from warpsim.host.device import DeviceNDArray

LAUNCHES = 3
FEWEST = 2  # copies: the photograph in, the result out
BY_LAUNCHES = "by launches that were given NumPy arrays"


def more_contrast(image: np.ndarray) -> np.ndarray:
    """What one launch makes of an image: dark grey levels darker, bright ones brighter."""
    return image * image * (np.float32(3) - image - image)


class Crossing:
    """Counts who copied arrays how often, and the launches."""

    def __init__(self) -> None:
        self.copies: Counter[str] = Counter()
        self.launches = 0

    def contrast(self, out: Any, image: Any) -> None:
        """Stand in for the lesson's launch: NumPy arrays are copied there and back."""
        self.launches += 1
        for array in (out, image):
            if not isinstance(array, DeviceNDArray):
                self.copies[BY_LAUNCHES] += 2
        values = more_contrast(_memory(image))
        _memory(out)[...] = values


class WatchedArray(DeviceNDArray):
    """A device array that tells when it is copied."""

    def __init__(self, memory: np.ndarray, crossing: Crossing):
        super().__init__(memory)
        self._crossing = crossing

    def copy_to_host(self, ary: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        self._crossing.copies["by copy_to_host"] += 1
        return super().copy_to_host(ary, stream)

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        if not isinstance(ary, DeviceNDArray):
            self._crossing.copies["by copy_to_device"] += 1
        super().copy_to_device(ary, stream)


class WatchedCuda:
    """`cuda`, whose new arrays are watched and hold NaN until something is stored."""

    def __init__(self, crossing: Crossing):
        self._crossing = crossing

    def to_device(self, obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
        if to is not None:
            to.copy_to_device(obj)
            return to
        if not copy:
            return self.device_array_like(obj)
        if isinstance(obj, DeviceNDArray):
            return obj
        self._crossing.copies["by to_device"] += 1
        return WatchedArray(np.array(obj), self._crossing)

    def device_array(self, shape: Any, dtype: Any = np.float64, *others: Any, **named: Any) -> Any:
        del others, named
        return WatchedArray(np.full(shape, np.nan, dtype), self._crossing)

    def device_array_like(self, ary: Any, stream: Any = 0) -> Any:
        return self.device_array(ary.shape, ary.dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(cuda, name)


def watched(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any] | None:
    """Call an answer with its `cuda` and `contrast` watched.

    Returns
    -------
    dict or None
        "copies" by whom, "launches", the "image" that it returns, None where it is none of NumPy,
        and "returned", the type's name. None where the answer returns None, or is the stub.
    """
    function = plain_function(answer)
    if looks_like_a_stub(function, given_lines=True):
        return None
    crossing = Crossing()
    names = {"cuda": WatchedCuda(crossing), "contrast": crossing.contrast}
    with _with_names(function.__globals__, names):
        result = answer(*arguments)
    if result is None:
        return None
    return {
        "copies": dict(crossing.copies),
        "launches": crossing.launches,
        "image": result if isinstance(result, np.ndarray) else None,
        "returned": type(result).__name__,
    }


def judge_crossing(seen: Mapping[str, Any], photo: np.ndarray) -> str | None:
    """Judge what `watched` returns: the image first, then the copies."""
    image = seen["image"]
    if seen["returned"] == WatchedArray.__name__:
        return "You return an array on the device. Copy it back: .copy_to_host()."
    if image is None:
        return f"Return the image, an array of NumPy; got {seen['returned']}."
    if seen["launches"] != LAUNCHES:
        return f"It launches {seen['launches']} times; {LAUNCHES} are asked for."
    for what in ("shape", "dtype"):
        if getattr(image, what) != getattr(photo, what):
            given, right = getattr(image, what), getattr(photo, what)
            return f"The image has the {what} {given}; the photograph has {right}."
    if np.isnan(image).any():
        return (
            "The result holds elements that nobody stored: a new device array has no defined "
            "values. Which array did each launch read, and which did it write?"
        )
    done = _launches_seen(image, photo)
    if done is None:
        return f"That is not the photograph after {LAUNCHES} launches."
    if done != LAUNCHES:
        return (
            f"{done} of the {LAUNCHES} launches are in the image that you return. Each must read "
            "what the one before wrote, and you return what the last one wrote."
        )
    copies = sum(seen["copies"].values())
    if copies > FEWEST:
        by_whom = ", ".join(f"{number} {who}" for who, number in seen["copies"].items())
        needless = " A launch copies no device array." if BY_LAUNCHES in seen["copies"] else ""
        return (
            f"{copies} copies: {by_whom}. {FEWEST} are enough: the photograph in, the last result "
            f"back.{needless}"
        )
    return None


@contextmanager
def _with_names(namespace: dict[str, Any], names: Mapping[str, Any]) -> Iterator[None]:
    """Give names other values for a while, which functions that the answer calls see, too."""
    before = {name: namespace[name] for name in names if name in namespace}
    namespace.update(names)
    try:
        yield
    finally:
        for name in names:
            del namespace[name]
        namespace.update(before)


def _launches_seen(image: np.ndarray, photo: np.ndarray) -> int | None:
    """After how many launches, one after the other, the photograph looks so; None: after none."""
    for done in range(LAUNCHES + 1):
        if np.allclose(image, photo, rtol=0, atol=1e-6):
            return done
        photo = more_contrast(photo)
    return None


def _memory(array: Any) -> np.ndarray:
    return array._memory if isinstance(array, DeviceNDArray) else array
