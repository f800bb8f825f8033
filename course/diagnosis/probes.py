"""The probes of `course.doctor`, each a function of its own.

A probe gets the `Facts` and returns what it found, or None where there is nothing to say. It may
fail: the doctor reports that, too.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from course import backend, installed, successor
from course.colab import declared, outside
from course.driver import Driver, read_driver
from course.installed import CLONE, COLAB, WHEEL, installed_as
from warpsim.core.words import count

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
OLDEST_COMPUTE_CAPABILITY = {12: (5, 0), 13: (7, 5)}  # what a toolkit of that generation compiles
SAY_CUDA = "so lessons run on the simulator; that is fine"


@dataclass(frozen=True)
class Probe:
    """What one probe found.

    `status` is "ok", "warning" (works, with a catch), "problem" (does not work as it should) or
    "absent" (not here, and not needed). `advice` is what to do: a command or a setting.
    """

    name: str
    status: str
    detail: str
    advice: str = ""


@dataclass
class Facts:
    """What several probes look at: the driver and the versions, each read once."""

    driver: Driver = field(default_factory=read_driver)
    versions: dict[str, str | None] = field(default_factory=dict)

    def version(self, distribution: str) -> str | None:
        """Version of an installed distribution, or None."""
        if distribution not in self.versions:
            self.versions[distribution] = backend.installed_version(distribution)
        return self.versions[distribution]


def pip(*requirements: str) -> str:
    """The command that installs requirements into the Python that runs now."""
    quoted = " ".join(f'"{r}"' if re.search(r"[<>=*\[]", r) else r for r in requirements)
    return f"python -m pip install {quoted}"


def probe_python(facts: Facts) -> Probe:
    """Is Python of a version that the course is tested with?"""
    version = sys.version_info[:2]
    text = f"{platform.python_version()} ({platform.python_implementation()})"
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return Probe("Python", "ok", text)
    detail = f"{text} is outside of what the course is tested with, 3.11 to 3.13"
    advice = "Make a virtual environment with one of these: python3.12 -m venv .venv"
    return Probe("Python", "warning", detail, advice)


def probe_course(facts: Facts) -> Probe:
    """Which version of the course is this, how did it come here, where are its notebooks?"""
    from course import __version__

    text, advice = {
        CLONE: ("in a clone", ""),
        COLAB: ("as the notebook's first cell installed it", ""),
        WHEEL: ("installed by pip", "Its notebooks: course lessons FOLDER"),
    }[installed_as()]
    return Probe("course", "ok", f"{__version__}, {text}", advice)


def probe_platform(facts: Facts) -> Probe:
    """Which system, and is it Colab or WSL?"""
    text = f"{platform.system()} {platform.machine()}"
    if "google.colab" in sys.modules:
        text += ", Google Colab"
    elif "microsoft" in platform.release().lower():
        text += ", Windows Subsystem for Linux"
    if sys.platform == "darwin":
        text += "; CUDA does not exist for macOS, lessons are simulated"
    return Probe("platform", "ok", text)


def probe_packages(facts: Facts) -> Probe:
    """Are the core packages here, and which versions?"""
    try:
        core = [each.name for each in declared() if not each.extra]
    except metadata.PackageNotFoundError:
        advice = "In the clone's folder: python -m pip install -e ."
        return Probe("packages", "problem", "the course itself is not installed", advice)
    missing = [name for name in core if facts.version(name) is None]
    found = ", ".join(f"{n} {facts.version(n)}" for n in core if n not in missing)
    if missing:
        found = f"{found}; missing: {', '.join(missing)}"
        return Probe("packages", "problem", found, pip(*missing))
    return Probe("packages", "ok", found)


def probe_versions(facts: Facts) -> Probe | None:
    """Is everything of a version that the course declares?"""
    wrong = outside(facts.version) if facts.version("course") else {}
    if not wrong:
        return None
    detail = "; ".join(f"{here}, but the course declares {text}" for here, text in wrong.items())
    return Probe("versions", "problem", detail, pip(*dict.fromkeys(wrong.values())))


def probe_driver(facts: Facts) -> Probe:
    """Is there a driver, and up to which CUDA does it run?"""
    driver = facts.driver
    if not driver.found:
        if sys.platform == "darwin":
            return Probe("driver", "absent", "no NVIDIA driver, as on every Mac")
        advice = ""
        if "google.colab" in sys.modules:
            advice = "For a GPU: Runtime → Change runtime type → T4 GPU."
        return Probe("driver", "absent", f"no NVIDIA driver, {SAY_CUDA}", advice)
    if driver.version is None:
        detail = f"a driver library is there but does not answer: {driver.error}"
        advice = "Reinstall NVIDIA's driver, or remove the toolkit's stub from LD_LIBRARY_PATH."
        return Probe("driver", "problem", detail, advice)
    text = f"runs CUDA up to {driver.version[0]}.{driver.version[1]}"
    release = _driver_release()
    return Probe("driver", "ok", f"{release}, {text}" if release else text)


def _driver_release() -> str | None:
    """The driver's own number, such as "580.65.06", from nvidia-smi, where that exists."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    first = answer.stdout.strip().splitlines()[:1]
    return first[0].strip() if answer.returncode == 0 and first else None


def probe_devices(facts: Facts) -> Probe:
    """Which GPUs does the driver show, with compute capability and memory?"""
    driver = facts.driver
    if driver.devices:
        lines = [
            f"{d.index}: {d.name}, compute capability {d.compute_capability[0]}."
            f"{d.compute_capability[1]}, {d.memory / 2**30:.1f} GiB"
            for d in driver.devices
        ]
        return Probe("GPUs", "ok", "\n".join(lines))
    if not driver.found:
        return Probe("GPUs", "absent", "none")
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None:
        return Probe("GPUs", "absent", "none visible: see CUDA_VISIBLE_DEVICES")
    return Probe(
        "GPUs",
        "problem",
        f"the driver is there but no GPU answers: {driver.error or 'it counts no device'}",
        "Run nvidia-smi. If it shows no GPU either, restart the machine or reinstall the driver; "
        "in a container, start it with --gpus all.",
    )


def probe_visible_devices(facts: Facts) -> Probe | None:
    """Does CUDA_VISIBLE_DEVICES hide what should be seen?"""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    name, shown = "CUDA_VISIBLE_DEVICES", repr(value)
    if not facts.driver.found:
        return Probe(name, "ok", f"is {shown}, which does nothing without a driver")
    unset = "To see all GPUs again: unset CUDA_VISIBLE_DEVICES (before Python starts)."
    entries = [entry.strip() for entry in value.split(",")]
    if value.strip() in ("", "-1"):
        return Probe(name, "warning", f"is {shown}: it hides every GPU, {SAY_CUDA}", unset)
    known = re.compile(r"\d+|GPU-[0-9a-fA-F-]+|MIG-.+")
    nonsense = [entry for entry in entries if not known.fullmatch(entry)]
    if nonsense:
        advice = f"Set it to numbers from 0 on, such as CUDA_VISIBLE_DEVICES=0. {unset}"
        wrong = f"{nonsense[0]!r} is neither a number nor a GPU's UUID; that entry and all after "
        return Probe(name, "problem", f"is {shown}: {wrong}it are ignored", advice)
    seen = len(facts.driver.devices)
    if seen < len(entries):
        advice = f"nvidia-smi -L lists the GPUs, the first is 0. {unset}"
        wrong = f"it names {count(len(entries), 'GPU')}, but only {seen} can be used; "
        wrong += "an entry that does not exist hides itself and all after it"
        return Probe(name, "problem", f"is {shown}: {wrong}", advice)
    return Probe(name, "ok", f"is {shown}: {count(seen, 'GPU')} to be seen")


def probe_cudasim(facts: Facts) -> Probe | None:
    """Has somebody replaced numba.cuda by Numba's simulator?"""
    if not backend.numba_simulator_wanted():
        return None
    return Probe(
        "NUMBA_ENABLE_CUDASIM",
        "problem" if facts.driver.devices else "warning",
        "is set: numba.cuda is Numba's own slow simulator. The course has its own, does not need "
        "it, and leaves the GPU alone while it is set",
        "unset NUMBA_ENABLE_CUDASIM (before Python starts)",
    )


def probe_numba_cuda(facts: Facts) -> Probe:
    """Is numba-cuda here, or its successor in its place, where a GPU needs it?"""
    package = successor.compiler()
    version = facts.version(package)
    if package == successor.DISTRIBUTION:
        if version == successor.VERSION:
            return Probe(package, "ok", f"{version} compiles here, not numba-cuda")
        detail = f"{version or 'not installed'}; the course knows the faults of {successor.VERSION}"
        return Probe(package, "problem", detail, pip(f"{package}=={successor.VERSION}"))
    if version is not None:
        return Probe("numba-cuda", "ok", version)
    if not facts.driver.devices:
        return Probe("numba-cuda", "absent", "not installed; it is needed only with a GPU")
    extra = installed.extra_for(facts.driver.version)
    advice = pip(f"numba-cuda[{extra}]") if extra else installed.UPDATE_DRIVER
    return Probe("numba-cuda", "problem", "not installed, so the GPU is not used", advice)


def probe_toolkit(facts: Facts) -> list[Probe]:
    """The toolkit's wheels among themselves, and against the driver."""
    families = installed.installed_families(facts.version)
    probes = []
    for family in families:
        name, status, advice = f"CUDA {family.major} wheels", "ok", ""
        if mixed := family.mismatch():
            status = "problem" if family.linker_is_older() and not backend.gpu() else "warning"
            advice = pip(*family.one_release())
        probes.append(Probe(name, status, mixed or family.listing(), advice))
    name, driver, update = "driver and toolkit", facts.driver.version, installed.UPDATE_DRIVER
    if driver is None or not families or any(its.release <= driver for its in families):
        return probes
    newest = "{}.{}".format(*max(family.release for family in families))
    runs = f"{driver[0]}.{driver[1]}"
    if all(family.major > driver[0] for family in families):
        detail = "the driver is too old for the toolkit: it runs CUDA up to "
        detail += f"{runs}, the toolkit is {newest}"
        extra = installed.extra_for(driver)
        other = f" Or take the older toolkit: {pip(f'numba-cuda[{extra}]')}" if extra else ""
        probes.append(Probe(name, "problem", detail, update + other))
    elif backend.gpu() is None:
        detail = f"the toolkit is {newest}, the driver runs up to {runs}; "
        detail += "kernels may fail with «Unsupported .version»"
        other = f" Or: {pip(*families[0].one_release(driver))}"
        probes.append(Probe(name, "warning", detail, update + other))
    return probes


def probe_old_device(facts: Facts) -> Probe | None:
    """Is the GPU too old for the toolkit?"""
    families = installed.installed_families(facts.version)
    if not families or not facts.driver.devices:
        return None
    device = facts.driver.devices[0]
    oldest = OLDEST_COMPUTE_CAPABILITY.get(max(f.major for f in families))
    if oldest is None or device.compute_capability >= oldest:
        return None
    have = ".".join(map(str, device.compute_capability))
    detail = f"{device.name} has compute capability {have}; this toolkit compiles for "
    detail += f"{oldest[0]}.{oldest[1]} and later"
    return Probe("GPU and toolkit", "problem", detail, pip("numba-cuda[cu12]"))


def probe_kernel(facts: Facts) -> Probe:
    """Does a kernel really run on the GPU, and if not, what is simulated?"""
    from warpsim.host import gpus

    name = backend.gpu()
    if name is not None:
        return Probe("kernels", "ok", f"a test kernel compiled and ran on the {name}")
    device = gpus.current()
    capability = ".".join(map(str, device.compute_capability))
    simulated = f"simulated, as on a {device.name} (compute capability {capability})"
    if not facts.driver.devices:
        return Probe("kernels", "ok", simulated)
    detail = f"the GPU cannot be used: {backend.why()}\ninstead {simulated}"
    return Probe("kernels", "problem", detail, _advice_for(backend.why()))


def _advice_for(reason: str) -> str:
    if "Unsupported .version" in reason or "CUDA_ERROR_UNSUPPORTED_PTX" in reason:
        return "The driver or nvJitLink is older than the compiler: see the wheels above."
    if "row_stack" in reason or "too new for numba-cuda" in reason:
        return pip("numpy<2.5")
    if "not installed" in reason or "CUDASIM" in reason:
        return "See above."
    return "See above; then try again in a fresh Python process, since CUDA errors stick."


def probe_compilers(facts: Facts) -> Probe:
    """Can a kernel be compiled here, and with which toolkit release?"""
    from course.compiler import toolchain
    from course.compiler.facts import compiled

    name = "compilers"
    try:
        toolchain.require()
    except toolchain.CompilerMissing as error:
        return Probe(name, "absent", error.reason, error.advice)
    try:
        made = compiled(_increment, "void(float32[::1])", "sm_75")
    except toolchain.CompilerMissing as error:
        return Probe(name, "problem", error.reason, error.advice)
    except Exception as error:  # they are here: whatever they say, the reader has to know
        advice = "Install NVIDIA's compilers again, all of one CUDA release."
        return Probe(name, "problem", f"they are here and fail. {backend.one_line(error)}", advice)
    detail = f"CUDA {made.toolkit.partition(',')[0]}; a test kernel compiled for sm_75: "
    return Probe(name, "ok", f"{detail}{made.registers} registers")


def _increment(values: Any) -> None:
    values[0] += 1


def probe_cupy(facts: Facts) -> Probe:
    """Is CuPy here, once, and does it compute?"""
    names = [name for name in installed.CUPY_NAMES if facts.version(name) is not None]
    if not names:
        return Probe("CuPy", "absent", "not installed; course.xp is NumPy")
    text = ", ".join(f"{name} {facts.version(name)}" for name in names)
    if len(names) > 1:
        detail = f"several packages of it are installed: {text}; they overwrite each other"
        advice = f"python -m pip uninstall -y {' '.join(names)}, then install one of them"
        return Probe("CuPy", "problem", detail, advice)
    if backend.gpu() is None:
        return Probe("CuPy", "absent", f"{text}; not used without a usable GPU, xp is NumPy")
    module, reason = backend.array_module()
    if module.__name__ == "cupy":
        return Probe("CuPy", "ok", text)
    extra = installed.extra_for(facts.driver.version) or "cu12"
    advice = f"python -m pip uninstall -y {names[0]} && "
    advice += pip(f"cupy-cuda{extra.removeprefix('cu')}x")
    return Probe("CuPy", "problem", f"{text} does not work, xp is NumPy. {reason}", advice)


#: The functions above, in their order.
PROBES: tuple[Callable[[Facts], Probe | list[Probe] | None], ...] = tuple(
    its for name, its in list(globals().items()) if name.startswith("probe_")
)
