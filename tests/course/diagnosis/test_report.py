"""The doctor names each trouble, says what to do, and never fails itself."""

import sys
from pathlib import Path

import numpy as np
import pytest

from course import __version__, backend, colab, installed
from course import installed as toolkits
from course.compiler import facts as compile
from course.compiler import toolchain
from course.diagnosis import probes
from course.diagnosis import report as diagnosis
from course.diagnosis.probes import Facts
from course.diagnosis.report import doctor
from course.driver import Device, Driver
from tests.course.compiled_samples import needs_compiler

T4 = Device(0, "Tesla T4", (7, 5), 15 * 2**30)
ANCIENT = Device(0, "Tesla K80", (3, 7), 12 * 2**30)
NO_DRIVER = Driver(found=False, error="no driver library on this machine")


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch):
    """No driver, nothing set, as most readers' laptops."""
    for variable in ("CUDA_VISIBLE_DEVICES", "NUMBA_ENABLE_CUDASIM"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(backend, "gpu", lambda: None)
    monkeypatch.setattr(backend, "why", lambda: "no driver library on this machine")
    set_machine(monkeypatch, NO_DRIVER)


def set_machine(monkeypatch, driver, *, gpu=None, why="", **versions):
    """Make the doctor see this driver and these versions of packages (None: not installed)."""
    known = dict.fromkeys(
        [wheel for wheels in toolkits.WHEELS.values() for wheel in wheels.values()]
        + list(toolkits.CUPY_NAMES)
    )
    known |= {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(diagnosis, "Facts", lambda: Facts(driver=driver, versions=dict(known)))
    monkeypatch.setattr(probes, "_driver_release", lambda: None)
    monkeypatch.setattr(backend, "gpu", lambda: gpu)
    if why:
        monkeypatch.setattr(backend, "why", lambda: why)


def with_gpu(version=(13, 0), device=T4):
    return Driver(found=True, version=version, devices=(device,))


def test_laptop_without_a_gpu_has_no_problem():
    report = doctor()
    assert report.problems == ()
    assert report["driver"].status == "absent"
    assert "simulator" in report["driver"].detail
    assert "simulated, as on a Tesla T4" in report["kernels"].detail
    text = str(report)
    assert text.startswith("The machine in front of you\n✓ Python")
    assert text.endswith("No problems.")
    assert repr(report) == text


def test_versions_of_the_core_packages_are_listed():
    detail = doctor()["packages"].detail
    assert f"numpy {np.__version__}" in detail
    assert "numba 0." in detail


def test_working_gpu_has_no_problem(monkeypatch):
    wheels = {"nvidia_cuda_nvrtc": "13.0.88", **NEW}
    set_machine(monkeypatch, with_gpu(), gpu="Tesla T4", **NUMBA, **wheels)
    report = doctor()
    assert report.problems == (), report
    assert "runs CUDA up to 13.0" in report["driver"].detail
    assert "0: Tesla T4, compute capability 7.5, 15.0 GiB" in report["GPUs"].detail
    assert report["CUDA 13 wheels"].status == "ok"
    assert "ran on the Tesla T4" in report["kernels"].detail


NUMBA = {"numba_cuda": "0.30.4"}
NEW = {"nvidia_nvvm": "13.0.88", "nvidia_nvjitlink": "13.0.88"}
MIXED = {"nvidia_nvvm": "13.1.80", "nvidia_nvjitlink": "13.0.88"}
LINKER = "LinkerError: Unsupported .version 9.0"

#: Machines: driver, what else is known of them, the probe and its status, words of its detail and
#: of its advice; one that begins with = is the whole advice.
MACHINES = {
    "a driver too old for the toolkit": (
        with_gpu((12, 4)), {"why": "CudaAPIError: 222", **NUMBA, **NEW}, "driver and toolkit",
        "problem", ["12.4", "13.0"],
        ["newer NVIDIA driver", 'python -m pip install "numba-cuda[cu12]"'],
    ),
    "wheels of different releases": (
        NO_DRIVER, {"nvidia_cuda_nvrtc": "13.1.80", **MIXED}, "CUDA 13 wheels",
        "problem", ["Unsupported .version"], ['"nvidia-nvjitlink==13.1.*"'],
    ),
    "a newer linker": (
        NO_DRIVER, {"nvidia_nvvm": "13.0.88", "nvidia_nvjitlink": "13.1.80"}, "CUDA 13 wheels",
        "warning", [], [],
    ),
    "mixed wheels that work": (
        with_gpu(), {"gpu": "Tesla T4", **NUMBA, **MIXED}, "CUDA 13 wheels", "warning", [], [],
    ),
    "no numba-cuda and no GPU": (NO_DRIVER, {"numba_cuda": None}, "numba-cuda", "absent", [], []),
    "no numba-cuda": (
        with_gpu(), {"why": "not installed", "numba_cuda": None}, "numba-cuda",
        "problem", [], ['=python -m pip install "numba-cuda[cu13]"'],
    ),
    "no numba-cuda, a driver of CUDA 12": (
        with_gpu((12, 2)), {"why": "not installed", "numba_cuda": None}, "numba-cuda",
        "problem", [], ["numba-cuda[cu12]"],
    ),
    "no numba-cuda, an old driver": (
        with_gpu((11, 4)), {"why": "not installed", "numba_cuda": None}, "numba-cuda",
        "problem", [], ["newer NVIDIA driver"],
    ),
    "two CuPys": (
        NO_DRIVER, {"cupy": "14.2.0", "cupy_cuda12x": "14.2.0"}, "CuPy",
        "problem", [], ["uninstall -y cupy cupy-cuda12x"],
    ),
    "CuPy without a GPU": (NO_DRIVER, {"cupy_cuda12x": "14.2.0"}, "CuPy", "absent", [], []),
    "a driver without a GPU": (
        Driver(found=True, version=(13, 0), error="cuInit failed with code 100"), {}, "GPUs",
        "problem", ["code 100"], ["nvidia-smi"],
    ),
    "a driver that does not answer": (
        Driver(found=True, error="cuDriverGetVersion failed with code 34"), {}, "driver",
        "problem", [], [],
    ),
    "a GPU that cannot be used": (
        with_gpu(), {"why": LINKER, **NUMBA}, "kernels",
        "problem", [LINKER, "simulated, as on a Tesla T4"], ["nvJitLink"],
    ),
    "a GPU too old for the toolkit": (
        with_gpu(device=ANCIENT), {"why": "x", **NUMBA, **NEW}, "GPU and toolkit",
        "problem", ["compute capability 3.7"], ["numba-cuda[cu12]"],
    ),
    "a missing core package": (
        NO_DRIVER, {"tqdm": None, "pandas": None}, "packages",
        "problem", [], ["=python -m pip install pandas tqdm"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_a_trouble_is_named_with_what_to_do(monkeypatch, machine):
    driver, known, name, status, detail, advice = MACHINES[machine]
    set_machine(monkeypatch, driver, **known)
    probe = doctor()[name]
    assert probe.status == status
    for word in detail:
        assert word in probe.detail
    for word in advice:
        assert probe.advice == word[1:] if word[0] == "=" else word in probe.advice


def test_toolkit_one_minor_release_ahead_is_a_warning_unless_a_kernel_ran(monkeypatch):
    wheels = {"nvidia_cuda_nvcc_cu12": "12.9.86", "nvidia_nvjitlink_cu12": "12.9.86"}
    old = with_gpu(version=(12, 4))
    set_machine(monkeypatch, old, why="Unsupported .version 8.8", numba_cuda="0.30.4", **wheels)
    probe = doctor()["driver and toolkit"]
    assert probe.status == "warning"
    assert "nvidia-nvjitlink-cu12==12.4.*" in probe.advice
    set_machine(monkeypatch, old, gpu="Tesla T4", numba_cuda="0.30.4", **wheels)
    assert "driver and toolkit" not in str(doctor())


def test_numpy_too_new_is_a_problem_with_the_command(monkeypatch):
    why = "NumPy 2.5.1 is too new for numba-cuda 0.30.4"
    set_machine(monkeypatch, with_gpu(), why=why, numba_cuda="0.30.4", numpy="2.5.1")
    report = doctor()
    assert report["versions"].detail.startswith("numpy 2.5.1, but the course declares numpy<2.5")
    assert report["versions"].advice.startswith('python -m pip install "numpy<2.5')
    assert why in report["kernels"].detail


def test_versions_outside_the_declared_ranges_are_a_problem_those_of_extras_too(monkeypatch):
    old = {"numpy": "2.0.2", "numba": "0.60.0", "numba_cuda": "0.11.0", "torch": "2.6.0+cu124"}
    set_machine(monkeypatch, NO_DRIVER, **old)
    probe = doctor()["versions"]
    assert probe.status == "problem"
    named = [part.split(",")[0] for part in probe.detail.split("; ")]
    wrong = ["numba 0.60.0", "numba-cuda 0.11.0", "numpy 2.0.2", "torch 2.6.0+cu124"]
    assert sorted(named) == wrong
    for text in ("numba>=0.61.2", ">=2.1", "numba-cuda<=0.30.4,>=0.22.2", "torch>=2.7"):
        assert probe.advice.count(f'{text}"') == 1


@pytest.mark.parametrize(
    ("text", "version", "held"),
    [
        ("a>=2.1,<2.5", "2.1", True), ("a>=2.1,<2.5", "2.4.9", True), ("a>=2.1,<2.5", "2.5", False),
        ("a>=2.1.0", "2.1", True), ("a<=0.30.4", "0.30.10", False),
        ("a[b]==13.0.*", "13.0.88", True), ("a==13.0.*", "13.1", False),
        ("a>=2.7", "2.7.1+cu128", True), ("a>=2.7", "2.7rc1", True),
    ],
)  # fmt: skip
def test_a_range_holds_a_version(text, version, held):
    assert colab.holds(text, version) == held


def test_every_declared_range_is_read():
    extras = {each.extra for each in colab.declared()}
    assert set(colab.USED) <= extras
    for each in colab.declared():
        held = [colab.holds(each.text, version) for version in ("0", "999")]
        assert not all(held) and "~" not in each.text


@pytest.mark.parametrize(
    "reason", ["ImportError: libnvrtc.so.12: cannot open", "RuntimeError: cudaErrorUnknown"]
)
def test_unusable_cupy_is_a_problem_with_the_reason_and_the_command(monkeypatch, reason):
    set_machine(monkeypatch, with_gpu(), gpu="Tesla T4", numba_cuda="0.30.4", cupy_cuda12x="14.2.0")
    monkeypatch.setattr(backend, "array_module", lambda: (np, reason))
    probe = doctor()["CuPy"]
    assert probe.status == "problem"
    assert reason in probe.detail
    assert "cupy-cuda13x" in probe.advice


@needs_compiler
def test_compilers_that_work_are_named_with_their_release(monkeypatch):
    monkeypatch.undo()
    probe = doctor()["compilers"]
    assert probe.status == "ok", probe
    (family,) = toolkits.installed_families(backend.installed_version)
    assert f"CUDA {'.'.join(map(str, family.release))}; a test kernel compiled" in probe.detail
    assert probe.advice == ""


@pytest.fixture
def no_compilers(monkeypatch):
    def nowhere():
        raise toolchain._missing("NVRTC is not here")

    monkeypatch.setattr(toolchain, "require", nowhere)


@pytest.mark.usefixtures("no_compilers")
def test_without_compilers_the_doctor_says_what_to_install_and_sees_no_problem(monkeypatch):
    report = doctor()
    assert report.problems == ()
    probe = report["compilers"]
    assert probe.status == "absent"
    assert probe.detail == "compiling a kernel needs NVIDIA's compilers, and NVRTC is not here"
    what = "brings them; everything else works without them."
    assert probe.advice == f'python -m pip install -e ".[compile]" {what}'
    monkeypatch.setattr(installed, "_ROOT", Path("/nowhere"))
    wheels = doctor()["compilers"].advice
    assert "-e" not in wheels.split() and wheels.endswith(what)
    assert '"nvidia-cuda-nvrtc==13.0.*" "nvidia-nvvm==13.0.*"' in wheels


def test_the_doctor_says_how_the_course_came_and_how_more_of_it_comes(monkeypatch):
    probe = doctor()["course"]
    assert (probe.detail, probe.advice) == (f"{__version__}, in a clone", "")
    assert installed.install_command("cluster") == 'python -m pip install -e ".[cluster]"'
    monkeypatch.setattr(installed, "_ROOT", Path("/nowhere"))
    probe = doctor()["course"]
    assert probe.detail.endswith("installed by pip") and "course lessons FOLDER" in probe.advice
    wheels = 'python -m pip install "dask[distributed]>=2025.1"'
    assert installed.install_command("cluster") == wheels
    monkeypatch.setitem(sys.modules, "google.colab", None)
    probe = doctor()["course"]
    assert "first cell" in probe.detail and probe.advice == ""
    assert installed.install_command("cluster") == wheels


@pytest.mark.usefixtures("no_compilers")
def test_a_mac_is_told_that_it_cannot_have_the_compilers(monkeypatch):
    monkeypatch.setattr(toolchain.sys, "platform", "darwin")
    probe = doctor()["compilers"]
    assert "do not exist for macOS" in probe.detail
    assert probe.advice == ""


@pytest.mark.parametrize(
    ("error", "detail", "advice"),
    [
        (toolchain.mixed_releases(), "older than the compilers", "of one CUDA release"),
        (toolchain.CompilerError("no such GPU"), "they are here and fail", "Install"),
        (OSError("libnvvm.so: bad ELF"), "OSError: libnvvm.so: bad ELF", "Install"),
    ],
    ids=["mixed", "refused", "broken"],
)
def test_compilers_that_do_not_work_are_a_problem(monkeypatch, error, detail, advice):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(toolchain, "require", lambda: None)
    monkeypatch.setattr(compile, "compiled", fail)
    probe = doctor()["compilers"]
    assert probe.status == "problem"
    assert detail in probe.detail
    assert advice in probe.advice


@pytest.mark.parametrize(
    ("value", "devices", "status", "word"),
    [
        ("", 0, "warning", "hides every GPU"),
        ("-1", 0, "warning", "hides every GPU"),
        ("7", 0, "problem", "names 1 GPU, but only 0 can be used"),
        ("0,7", 1, "problem", "names 2 GPUs, but only 1 can be used"),
        ("first", 0, "problem", "neither a number nor a GPU's UUID"),
        ("0,x", 1, "problem", "'x'"),
        ("0", 1, "ok", "1 GPU to be seen"),
        ("GPU-8f1c2b3a-0000-1111-2222-333344445555", 1, "ok", "1 GPU"),
    ],
)
def test_visible_devices_are_explained(monkeypatch, value, devices, status, word):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    driver = Driver(found=True, version=(13, 0), devices=(T4,) * devices)
    set_machine(monkeypatch, driver, gpu="Tesla T4" if devices else None, numba_cuda="0.30.4")
    probe = doctor()["CUDA_VISIBLE_DEVICES"]
    assert probe.status == status, probe
    assert word in probe.detail
    if status != "ok":
        assert "unset CUDA_VISIBLE_DEVICES" in probe.advice


def test_visible_devices_do_nothing_without_a_driver(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "nonsense")
    assert doctor()["CUDA_VISIBLE_DEVICES"].status == "ok"


def test_numbas_simulator_is_pointed_out(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert doctor()["NUMBA_ENABLE_CUDASIM"].status == "warning"
    set_machine(monkeypatch, with_gpu(), why="NUMBA_ENABLE_CUDASIM is set", numba_cuda="0.30.4")
    probe = doctor()["NUMBA_ENABLE_CUDASIM"]
    assert probe.status == "problem"
    assert probe.advice.startswith("unset NUMBA_ENABLE_CUDASIM")


def test_colab_is_recognised(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    report = doctor()
    assert "Google Colab" in report["platform"].detail
    assert "Change runtime type" in report["driver"].advice


def test_old_and_new_python_are_a_warning(monkeypatch):
    for version in ((3, 10, 1), (3, 14, 0)):
        monkeypatch.setattr(probes.sys, "version_info", version)
        assert doctor()["Python"].status == "warning"


@pytest.mark.parametrize("number", range(len(probes.PROBES)))
def test_probe_that_breaks_is_reported_and_the_others_still_report(monkeypatch, number):
    def probe_broken(facts):
        raise OSError("broken look")

    chosen = list(probes.PROBES)
    chosen[number] = probe_broken
    monkeypatch.setattr(diagnosis, "PROBES", tuple(chosen))
    report = doctor()
    assert "OSError: broken look" in report["broken"].detail
    assert len(report.probes) >= 6


def test_driver_that_cannot_even_be_read_does_not_stop_the_doctor(monkeypatch):
    def broken_facts(**options):
        if not options:
            raise OSError("no ctypes")
        return Facts(**options)

    monkeypatch.setattr(diagnosis, "Facts", broken_facts)
    assert doctor()["driver"].status == "absent"


def test_unknown_probe_lists_the_known_ones():
    with pytest.raises(KeyError, match="there are Python"):
        doctor()["weather"]


def test_doctor_of_this_very_machine_breaks_nowhere(monkeypatch):
    monkeypatch.undo()
    assert "failed itself" not in str(doctor())
