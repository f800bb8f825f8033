"""What the weights of all networks have in common: arrays of float32 by name, and their file."""

from __future__ import annotations

import dataclasses
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from course.files import unwaiting

MOST_PACKED = 16  # times the file's length that its arrays may be; those of weights are hardly less
LEAST_PACKED = 1 << 20  # bytes that they may be in any case


class StoredWeights:
    """A dataclass whose fields are arrays of float32, but for the `TEXTS` among them."""

    TEXTS: ClassVar[tuple[str, ...]] = ()

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse arrays of other shapes or types, and numbers that are not finite."""
        for name, shape in shapes.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.shape != shape:
                given = getattr(array, "shape", type(array).__name__)
                raise ValueError(f"{name} is {given}; it must be a NumPy array of shape {shape}")
            if array.dtype != np.float32:
                raise ValueError(f"{name} is {array.dtype}: convert it to float32")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has numbers that are not finite")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read weights from an ``.npz`` file; nothing in it is executed.

        Raises
        ------
        ValueError
            When it is no such file, or an array is missing, superfluous, pickled or does not fit.
        """
        found = arrays_in(path)
        wrong = found.keys() ^ {field.name for field in dataclasses.fields(cls)}
        if wrong:
            raise ValueError(f"{path} lacks, or has beside the weights: {', '.join(sorted(wrong))}")
        return cls(**found | {name: str(found[name]) for name in cls.TEXTS})

    def save(self, path: Path | str) -> None:
        """Write an ``.npz`` file."""
        texts = {name: np.array(getattr(self, name)) for name in self.TEXTS}
        np.savez(path, **texts, **self.as_dict())

    def as_dict(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in self.TEXTS}


def arrays_in(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by name: of numbers and text, none of Python's objects.

    What the file says of its sizes is compared before an array is read: it takes no more memory
    than the file is long, or `MOST_PACKED` times as much where it is compressed.

    Raises
    ------
    ValueError
        When it is no such file, is cut off or damaged, or an array is pickled.
    OSError
        When it cannot be opened.
    """
    with open(path, "rb", opener=unwaiting) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                most = max(MOST_PACKED * os.fstat(file.fileno()).st_size, LEAST_PACKED)
                if sum(one.file_size for one in archive.infolist()) > most:
                    raise ValueError(f"unpacked it would be {MOST_PACKED} times as large")
                return {
                    one.filename.removesuffix(".npy"): _array_in(archive, one)
                    for one in archive.infolist()
                }
        except MemoryError:
            raise
        except Exception as problem:  # a dozen kinds, of zipfile, zlib and NumPy, by which byte
            raise ValueError(f"{path} is no .npz file, or cut off: {problem}") from None


def _array_in(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> np.ndarray:
    """An array of an archive, if its member is as long as the array's header says."""
    if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{one.filename} is compressed in a way that NumPy's are not")
    with archive.open(one) as member:
        if (version := np.lib.format.read_magic(member)) != (1, 0):
            raise ValueError(f"{one.filename} has version {version} of NumPy's format, and not 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.kind not in "biufcU" or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(
                f"{one.filename} holds {dtype}, shape {shape}, and not numbers (allow_pickle=False)"
            )
        if one.file_size - member.tell() != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{one.filename} is not as long as {dtype}, shape {shape}")
    with archive.open(one) as member:
        return np.lib.format.read_array(member, allow_pickle=False)
