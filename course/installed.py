"""What is installed: the course and how it came here, and the CUDA toolkit as Python wheels.

Names: NVIDIA's wheels of CUDA 12 end in -cu12, those of CUDA 13 have no ending. NVVM is part of
nvidia-cuda-nvcc-cu12 in the former and a wheel of its own in the latter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from course.backend import version_tuple
from course.colab import declared

CLONE, COLAB, WHEEL = "clone", "Colab", "pip"
_ROOT = Path(__file__).resolve().parents[1]


def installed_as() -> str:
    """`CLONE` (it runs from a clone's own files), `COLAB`, or `WHEEL` (pip installed it)."""
    if "google.colab" in sys.modules:
        return COLAB
    return CLONE if (_ROOT / "pyproject.toml").is_file() else WHEEL


def install_command(extra: str) -> str:
    """The command that installs an extra of the course where it runs now.

    In a clone the extra itself; elsewhere what is in it, since pip would fetch the course anew.
    """
    if installed_as() == CLONE:
        return f'python -m pip install -e ".[{extra}]"'
    return " ".join(["python -m pip install", *(f'"{each}"' for each in requirements(extra))])


def requirements(extra: str) -> list[str]:
    """What an extra of the installed course requires, as pip takes it."""
    return [each.text for each in declared() if each.extra == extra]


# --- the toolkit's wheels -------------------------------------------------------------------------

WHEELS = {
    12: {
        "NVRTC": "nvidia-cuda-nvrtc-cu12",
        "NVVM": "nvidia-cuda-nvcc-cu12",
        "nvJitLink": "nvidia-nvjitlink-cu12",
        "runtime": "nvidia-cuda-runtime-cu12",
    },
    13: {
        "NVRTC": "nvidia-cuda-nvrtc",
        "NVVM": "nvidia-nvvm",
        "nvJitLink": "nvidia-nvjitlink",
        "runtime": "nvidia-cuda-runtime",
    },
}
COMPILERS = ("NVRTC", "NVVM")
CUPY_NAMES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
UPDATE_DRIVER = "Install a newer NVIDIA driver (nvidia.com/drivers)."


@dataclass(frozen=True)
class Family:
    """The installed wheels of one CUDA generation; `versions` by part: {"NVRTC": "13.0.88"}."""

    major: int
    versions: dict[str, str]

    def releases(self) -> dict[str, tuple[int, ...]]:
        """(major, minor) of each part."""
        return {part: version_tuple(text)[:2] for part, text in self.versions.items()}

    @property
    def release(self) -> tuple[int, ...]:
        """The newest release among the parts."""
        return max(self.releases().values())

    def listing(self) -> str:
        """ "NVRTC 13.0.88, NVVM 13.0.88"."""
        return ", ".join(f"{part} {version}" for part, version in self.versions.items())

    def linker_is_older(self) -> bool:
        """Whether nvJitLink is older than a compiler: it then refuses what that one writes."""
        releases = self.releases()
        linker = releases.get("nvJitLink")
        return linker is not None and any(
            releases[part] > linker for part in COMPILERS if part in releases
        )

    def mismatch(self) -> str | None:
        """What is wrong with the set, in a sentence, or None."""
        if len(set(self.releases().values())) < 2:
            return None
        text = f"of different releases: {self.listing()}"
        if self.linker_is_older():
            return f"{text}; nvJitLink is older than the compiler («Unsupported .version»)"
        return text

    def one_release(self, release: tuple[int, ...] | None = None) -> list[str]:
        """Requirements that give all parts one release, the newest installed by default."""
        major, minor = release if release and release[0] == self.major else self.release
        return [f"{WHEELS[self.major][part]}=={major}.{minor}.*" for part in self.versions]


def installed_families(version: Callable[[str], str | None]) -> list[Family]:
    """The generations of which a compiler, linker or runtime is installed.

    Parameters
    ----------
    version : callable
        Name of a distribution -> its version or None.
    """
    families = []
    for major, wheels in WHEELS.items():
        found = {part: version(wheel) for part, wheel in wheels.items()}
        versions = {part: text for part, text in found.items() if text}
        # The names without ending also hold placeholder wheels of other generations.
        versions = {p: t for p, t in versions.items() if version_tuple(t)[:1] == (major,)}
        if versions:
            families.append(Family(major, versions))
    return families


def extra_for(driver: tuple[int, int] | None) -> str | None:
    """numba-cuda's extra for a driver that runs CUDA (major, minor): "cu12", "cu13" or None."""
    if driver is None or driver[0] < 12:
        return None
    return "cu13" if driver[0] >= 13 else "cu12"
