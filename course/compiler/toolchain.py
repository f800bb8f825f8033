"""NVIDIA's compilers as Python wheels: are they here, do they fit together, and how to call them.

NVVM compiles the LLVM IR that Numba makes of a kernel to PTX or LTO-IR. nvJitLink links these to
machine code and reports its resources. NVRTC lists the targets. None needs a GPU or a driver.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from course import backend, successor
from course import installed as toolkits
from course.installed import CLONE, install_command, installed_as
from warpsim.host import gpus

COMPILED_WITH = "13.0"  # the toolkit's release in the extra compile


class CompilerMissing(RuntimeError):
    """NVIDIA's compilers are not installed, not complete, or not of one release.

    `reason` says what is wrong, `advice` what to do; shown together.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}: {advice}" if advice else reason)
        self.reason, self.advice = reason, advice


class CompilerError(RuntimeError):
    """NVIDIA's linker refuses a kernel."""


def _missing(what: str) -> CompilerMissing:
    if sys.platform == "darwin":
        return CompilerMissing(
            "compiling a kernel needs NVIDIA's compilers, which do not exist for macOS; "
            "everything else in the course works without them.",
            "",
        )
    bindings = backend.version_tuple(backend.installed_version("cuda-bindings") or "13.0")
    release = "12.9" if bindings[0] == 12 else COMPILED_WITH
    wheels = toolkits.WHEELS[int(release[:2])].values()
    listed = " ".join(f'"{name}=={release}.*"' for name in wheels)
    install = f"python -m pip install numba-cuda {listed}"
    if successor.is_chosen():
        install = install_command("mlir")
    elif installed_as() == CLONE and release == COMPILED_WITH:
        install = install_command("compile")
    return CompilerMissing(
        f"compiling a kernel needs NVIDIA's compilers, and {what}",
        f"{install} brings them; everything else works without them.",
    )


#: From this version on numba-cuda compiles for targets such as sm_90a.
_WITH_SUFFIX = (0, 30)
_answering = threading.RLock()
#: What nvJitLink says of code that is newer than itself.
_OLD_LINKER = ("Unsupported .version", "newer version of nvJitLink", "ERROR_OUTDATED_LIBRARY")


# ---------------------------------------------------------------------- targets
def capability(target: str) -> tuple[int, int]:
    """The compute capability of a target: "sm_75" -> (7, 5), "sm_90a" -> (9, 0).

    Raises
    ------
    ValueError
        When the text has another form.
    """
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", target) if isinstance(target, str) else None
    if not found:
        raise ValueError(
            f"target is {target!r}: write it like 'sm_75' (Tesla T4), 'sm_80' (A100), "
            f"'sm_89' (L4) or 'sm_90' (H100, H200){_hint(target)}"
        )
    return int(found[1]), int(found[2])


def _hint(target: Any) -> str:
    try:
        model = gpus.find(target)
    except ValueError:
        return ""
    major, minor = model.compute_capability
    return f"; the {model.name} is 'sm_{major}{minor}'"


def check_supported(target: str) -> None:
    """Refuse a target that the installed compilers do not have; ValueError lists theirs."""
    major, minor = capability(target)
    version = backend.installed_version("numba-cuda") or ""
    without_suffix = backend.version_tuple(version) < _WITH_SUFFIX and not successor.is_chosen()
    if target[-1].isalpha() and without_suffix:
        raise ValueError(f"numba-cuda {version} does not compile for {target}: use {target[:-1]}")
    known = _supported()
    if known and 10 * major + minor not in known:
        raise ValueError(
            f"{target} is not a target of the installed compilers (CUDA "
            f"{'.'.join(map(str, _linker().version()))}); they have "
            f"{', '.join(f'sm_{number}' for number in known)}"
        )


@cache
def _supported() -> tuple[int, ...]:
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    _, known = nvrtc.nvrtcGetSupportedArchs()
    return tuple(known)


# ---------------------------------------------------------------------- what is installed
@cache
def require() -> ModuleType:
    """Find numba.cuda and NVIDIA's three compiler libraries.

    Returns
    -------
    module
        ``numba.cuda`` of the package numba-cuda, or what numba-cuda-mlir has in its place.

    Raises
    ------
    CompilerMissing
        In one sentence: what is missing, and what to install.
    """
    if backend.numba_simulator_wanted():
        raise CompilerMissing(
            "NUMBA_ENABLE_CUDASIM is set, so numba.cuda is Numba's simulator and compiles nothing",
            "unset it and start Python again",
        )
    too_new = backend.numpy_too_new()
    if too_new:
        raise CompilerMissing(too_new, 'python -m pip install "numpy<2.5"')
    package = successor.compiler()
    try:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise _missing(f"the package {package} is not installed")
        _load("NVRTC", _supported)  # first: where it is missing, numba.cuda need not be imported
        numba_cuda = successor.numba_cuda()
        nvvm = _part("cudadrv.nvvm")
    except (ImportError, ValueError, successor.UnknownVersion) as error:
        raise _missing(f"{package} cannot be used ({backend.one_line(error)})") from error
    if "numba_cuda" not in (numba_cuda.__file__ or ""):
        raise _missing("numba.cuda is Numba's old built-in target, not numba-cuda's")
    _load("NVVM", nvvm.NVVM)
    _load("NVVM's libdevice", nvvm.LibDevice)
    _load("nvJitLink", lambda: _linker().version())
    return numba_cuda


def _part(name: str) -> ModuleType:
    """A module of numba.cuda, or the successor's of that name."""
    return importlib.import_module(f"{successor.above()}.{name}")


def _load(library: str, load: Callable[[], object]) -> None:
    """Load a library; CompilerMissing where it is not there or broken."""
    try:
        load()
    except Exception as error:  # each library has an exception of its own
        absent = re.search(r"not ?found|cannot be found|no such file", repr(error), re.I)
        if absent:
            raise _missing(f"{library} is not here") from None
        reason = backend.one_line(error)
        raise _missing(f"{library} cannot be loaded ({reason})") from error


def _linker() -> ModuleType:
    return importlib.import_module("cuda.bindings.nvjitlink")


def installed() -> str:
    """The installed wheels: "CUDA 13: NVRTC 13.0.88, NVVM 13.0.88, ..."."""
    families = toolkits.installed_families(backend.installed_version)
    return "; ".join(f"CUDA {one.major}: {one.listing()}" for one in families) or "no wheels"


def mixed_releases() -> CompilerMissing:
    """The error of a linker that is older than the compiler."""
    families = toolkits.installed_families(backend.installed_version)
    mixed = [family for family in families if family.mismatch()]
    wheels = " ".join(f'"{wheel}"' for family in mixed for wheel in family.one_release())
    advice = f"python -m pip install {wheels}" if wheels else "see course.doctor()"
    return CompilerMissing(
        "the linker nvJitLink is older than the compilers («Unsupported .version»)",
        f"install them of one CUDA release; found {installed()}; {advice}",
    )


# ---------------------------------------------------------------------- compile, link
def type_of(value: Any) -> Any:
    """The Numba type of a kernel's argument, as at a launch, or None."""
    if successor.is_chosen():
        return successor.translation().type_of(value)
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    try:
        return dispatcher.typeof(value, dispatcher.Purpose.argument)
    except (ValueError, TypeError):
        return None


@contextmanager
def device_answers(compute_capability: tuple[int, int]) -> Iterator[None]:
    """Let numba.cuda's dispatchers find a GPU of a compute capability, for a while.

    Numba compiles a device function when it infers the type of a call, and reads the current
    device's compute capability then. It asks for nothing else, and nothing runs.
    """
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    answer = type("Device", (), {"compute_capability": compute_capability})
    with _answering:
        original = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: answer
        try:
            yield
        finally:
            dispatcher.get_current_device = original


def compile_kernel(
    function: FunctionType, signature: tuple[Any, ...], target: str, lto: bool = True,
    **options: Any,
) -> list[bytes]:  # fmt: skip
    """Compile a function for numba.cuda, up to the linker's input.

    As for a launch, this is LTO-IR, for link-time optimisation: of the kernel first, then of the
    libraries that it uses (float16 has one). Without `lto` it is PTX of the kernel alone.
    `options` are those of ``numba.cuda.compile_all``.
    """
    numba_cuda = require()
    if successor.is_chosen():
        return successor.codes(function, signature, target, lto, **options)
    from course.kernel_cache import shortcuts  # here: it imports numba.cuda

    given = {"device": False, "abi": "numba", "cc": _numbers(target), **options}
    with device_answers(capability(target)), shortcuts():
        if not lto:
            return [numba_cuda.compile(function, signature, **given)[0].encode()]
        codes, _ = numba_cuda.compile_all(function, signature, output="ltoir", **given)
    codes = [getattr(code, "code", code) for code in codes]
    if not all(isinstance(code, bytes) for code in codes):
        raise CompilerError(
            f"{function.__name__} uses a library in a form that is not linked here "
            f"({', '.join(type(code).__name__ for code in codes)})"
        )
    return codes


@contextmanager
def translations() -> Iterator[list[tuple[list[str], dict[str, Any]]]]:
    """Record what numba.cuda gives NVVM within the block: LLVM IR as texts, and options."""
    nvvm = importlib.import_module("numba.cuda.cudadrv.nvvm")
    given: list[tuple[list[str], dict[str, Any]]] = []

    def compile_ir(texts: list[str], **options: Any) -> bytes:
        given.append((texts, options))
        return original(texts, **options)

    with _answering:
        original = nvvm.compile_ir
        nvvm.compile_ir = compile_ir
        try:
            yield given
        finally:
            nvvm.compile_ir = original


def translate(texts: list[str], options: dict[str, Any], target: str) -> bytes:
    """Compile one of `translations` by NVVM for a target: the linker's input."""
    nvvm = importlib.import_module("numba.cuda.cudadrv.nvvm")
    arch = f"compute_{target.removeprefix('sm_')}"
    code: bytes = nvvm.compile_ir(texts, **{**options, "arch": arch})
    return code if "gen-lto" in options else code.strip(b"\0").strip()


def _numbers(target: str) -> tuple[Any, ...]:
    """A target as numba-cuda takes it: (7, 5), or (9, 0, "a")."""
    suffix = (target[-1],) if target[-1].isalpha() else ()
    return (*capability(target), *suffix)


def link(
    codes: list[bytes],
    name: str,
    target: str,
    max_registers: int | None = None,
    sync: bool = False,
    lto: bool = True,
) -> str:
    """Link a kernel to machine code and return the linker's log, with what ``ptxas -v`` says.

    `name` is the kernel's, for errors; `sync` says that it synchronises the grid; with `lto` the
    codes are LTO-IR, else PTX.

    Raises
    ------
    CompilerMissing
        When the linker is older than the compiler.
    CompilerError
        When the kernel cannot be linked, with the linker's reason.
    """
    # -no-cache: of code that lies in the driver's cache ptxas reports nothing
    options = [f"-arch={target}", "-Xptxas=-v", "-no-cache"]
    if lto:
        options.append("-lto")
    if max_registers:
        options.append(f"-maxrregcount={max_registers}")
    with _linked(codes, name, target, options, _device_runtime() if sync else None) as handle:
        return _text(handle, "info_log")


def linked_ptx(codes: list[bytes], name: str, target: str) -> str:
    """The PTX of a kernel after link-time optimisation; parameters and errors as for `link`."""
    with _linked(codes, name, target, [f"-arch={target}", "-lto", "-ptx"]) as handle:
        return _text(handle, "linked_ptx")


@contextmanager
def _linked(
    codes: list[bytes], name: str, target: str, options: list[str], library: Path | None = None
) -> Iterator[int]:
    linker = _linker()
    handle = linker.create(len(options), options)
    try:
        try:
            for code in codes:
                kind = linker.InputType.LTOIR if "-lto" in options else linker.InputType.PTX
                linker.add_data(handle, kind, code, len(code), name)
            if library:
                code = library.read_bytes()
                linker.add_data(handle, linker.InputType.LIBRARY, code, len(code), library.name)
            linker.complete(handle)
        except linker.nvJitLinkError as error:
            reason = f"{_text(handle, 'error_log')} {error}"
            if any(sign in reason for sign in _OLD_LINKER):
                raise mixed_releases() from error
            raise CompilerError(
                f"the linker refuses {name} for {target}: {_readable(reason, name)}"
            ) from error
        yield handle
    finally:
        linker.destroy(handle)


def _readable(reason: str, name: str) -> str:
    """The linker's reason in one line, with the kernel's name and decimal numbers."""
    text = re.sub(r"_Z\w+", name, reason.partition("ERROR ")[0] or reason)
    text = re.sub(r"0x([0-9a-f]+)", lambda found: f"{int(found[1], 16):,}", text)
    return " ".join(text.split()).removeprefix("error : ")


def _text(handle: int, what: str) -> str:
    """A text of nvJitLink: info_log, error_log or linked_ptx."""
    linker = _linker()
    text = bytearray(getattr(linker, f"get_{what}_size")(handle))
    if text:
        getattr(linker, f"get_{what}")(handle, text)
    return text.decode(errors="replace").strip("\0\n ")


def _device_runtime() -> Path:
    libs = _part("cudadrv.libs")
    path = Path(libs.get_cudalib("cudadevrt", static=True) or "")
    if not path.is_file():
        raise _missing("libcudadevrt.a of the CUDA runtime is missing (grid synchronisation)")
    return path
