"""``cuda.jit`` of the simulator: kernels, device functions and how they are launched."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import types
from numba.core.sigutils import normalize_signature

from course.simt.gpus import current
from course.simt.launch import NO_CONFIGURATION, check_configuration, dimensions, run
from course.simt.oracle import plain
from course.simt.programs import program_of


class Kernel:
    """A function decorated with ``cuda.jit``."""

    def __init__(
        self,
        function: FunctionType,
        device: bool,
        debug: bool,
        signatures: list[tuple[tuple[types.Type, ...], Any]] | None = None,
        options: dict[str, Any] | None = None,
    ):
        self.py_func, self.device, self.debug = function, device, debug
        self.targetoptions = options or {}  # for the compiler: course.compiler reads them
        self.signatures = [] if device else [kinds for kinds, _ in signatures or []]
        self.device_signatures = signatures or [] if device else []
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function

    def __getitem__(self, configuration: Any) -> Configured:
        if self.device:
            raise RuntimeError(
                f"{self.__name__} is a device function: call it from a kernel, without brackets"
            )
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise ValueError("must specify at least the griddim and blockdim")
        return Configured(self, *configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0):
        return Configured(self, griddim, blockdim, stream, sharedmem)

    def __call__(self, *args: Any) -> None:
        if self.device:
            raise RuntimeError(f"{self.__name__} is a device function: call it from a kernel")
        raise ValueError(NO_CONFIGURATION)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable:
        """Launch with one thread for each of ``ntasks`` tasks."""
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        threads = tpb or 128
        if ntasks == 0:
            return lambda *args: None
        return Configured(self, -(-ntasks // threads), threads, stream, sharedmem)

    def lane_program(self, *arguments: Any, traced: bool = False) -> str:
        """The Python source that the simulator runs for such arguments."""
        from course.simt.launch import Arguments

        program = program_of(self)
        taken = Arguments(program.source.arguments)
        for position, value in enumerate(arguments):
            taken.add(value, position)
        return program.lane_program(tuple(taken.types), traced, self.device).text

    def _only_compiled(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "the simulator compiles no machine code, so there are no registers and no assembly to "
            "look at; they need the CUDA compiler"
        )

    inspect_asm = inspect_llvm = inspect_sass = get_regs_per_thread = _only_compiled
    get_shared_mem_per_block = get_local_mem_per_thread = get_const_mem_size = _only_compiled

    def __repr__(self) -> str:
        kind = "device function" if self.device else "kernel"
        return f"<simulated {kind} {self.__name__}>"


class Configured:
    """A kernel with its grid and block: call it to launch."""

    def __init__(
        self, kernel: Kernel, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ):
        self.kernel, self.stream, self.sharedmem = kernel, stream, sharedmem
        self.grid = dimensions(griddim, "griddim")
        self.block = dimensions(blockdim, "blockdim")
        check_configuration(self.grid, self.block, sharedmem, current())

    def __call__(self, *args: Any) -> None:
        run(
            self.kernel,
            self.grid,
            self.block,
            args,
            dynamic_shared=self.sharedmem,
            debug=self.kernel.debug,
            signatures=self.kernel.signatures,
        )


def jit(
    func_or_sig: Any = None,
    device: bool = False,
    inline: Any = "never",
    link: Any = (),
    debug: bool | None = None,
    opt: Any = None,
    lineinfo: bool = False,
    cache: bool = False,
    **options: Any,
) -> Any:
    """Make a kernel, or with ``device=True`` a function that kernels call.

    All options of ``numba.cuda.jit`` are accepted; of them ``device`` and ``debug`` matter here;
    the compiler gets the others.
    """
    given = {"device": device, "inline": inline, "link": link, "opt": opt, **options}
    kept = {name: value for name, value in given.items() if value not in (None, ())}
    if isinstance(func_or_sig, FunctionType):
        return Kernel(func_or_sig, device, bool(debug), options=kept)
    if isinstance(func_or_sig, Kernel):
        raise TypeError(f"{func_or_sig.__name__} is decorated with @cuda.jit twice")
    signatures = []
    if func_or_sig is not None:
        for one in func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]:
            arguments, result = normalize_signature(one)
            signatures.append((tuple(plain(kind) for kind in arguments), result))
            if not device and result not in (None, types.void):
                raise TypeError("CUDA kernel must have void return type.")

    def decorate(function: FunctionType) -> Kernel:
        if not isinstance(function, FunctionType):
            raise TypeError(f"@cuda.jit decorates functions, not {type(function).__name__}")
        return Kernel(function, device, bool(debug), signatures, kept)

    return decorate
