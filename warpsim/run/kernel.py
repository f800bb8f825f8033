"""``cuda.jit`` of the simulator: kernels, device functions and how they are launched."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import types
from numba.core.errors import UnsupportedError
from numba.core.sigutils import normalize_signature
from numba.core.typing import Signature

from warpsim.front.names import typing_error
from warpsim.front.oracle import plain
from warpsim.front.programs import program_of
from warpsim.host.gpus import current
from warpsim.run.launch import (
    NO_CONFIGURATION,
    Launch,
    check_configuration,
    dimensions,
    run_kernel,
    types_of,
)
from warpsim.watch.counts import Counters

#: Who looks at every launch of a program; while there is one, launches are counted as in a trace.
onlookers: list[Callable[[Kernel, Launch], None]] = []


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
        self.targetoptions = options or {}  # for the compiler: course.compiler.facts reads them
        self.signatures = [] if device else [kinds for kinds, _ in signatures or []]
        self.device_signatures = signatures or [] if device else []
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function
        self.extensions: list[Any] = list(self.targetoptions.get("extensions", ()))
        self.specialized = False
        self.specializations: dict[tuple[types.Type, ...], Kernel] = {}
        declared = [kinds for kinds, _ in signatures or []]
        self.overloads = {kinds: Overload(self, kinds) for kinds in declared}
        for kinds in declared:
            self._type_now(kinds)

    def _type_now(self, kinds: tuple[types.Type, ...]) -> None:
        """Type a declared signature where it is declared, as Numba compiles it there."""
        try:
            program_of(self).typing(kinds)
        except (UnsupportedError, ValueError):
            pass  # the simulator's own limits, and names not yet set, matter at the launch only
        except TypeError as error:
            raise typing_error(str(error)) from None  # another number of arguments

    def specialize(self, *args: Any) -> Kernel:
        """This kernel for the types of some arguments, or for some types, and no others."""
        if self.signatures or self.specialized:
            raise RuntimeError("Dispatcher already specialized")
        kinds = tuple(a if isinstance(a, types.Type) else types_of((a,))[0] for a in args)
        if kinds not in self.specializations:
            made = Kernel(self.py_func, False, self.debug, [(kinds, None)], self.targetoptions)
            made.extensions, made.specialized = self.extensions, True
            self.specializations[kinds] = made
        return self.specializations[kinds]

    def __getitem__(self, configuration: Any) -> Configured:
        if self.device:
            raise RuntimeError(
                f"Cannot compile a device function as a kernel: {self.__name__} is one; call it "
                "from a kernel, without brackets"
            )
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise ValueError("must specify at least the griddim and blockdim")
        return Configured(self, *configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0):
        return Configured(self, griddim, blockdim, stream, sharedmem)

    def __call__(self, *args: Any) -> None:
        if self.device:
            raise RuntimeError(
                f"Cannot compile a device function as a kernel: {self.__name__} is one; call it "
                "from a kernel"
            )
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
        return program_of(self).lane_program(types_of(arguments), traced, self.device).text

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
        kernel = self.kernel
        if kernel.extensions:
            args = tuple(map(self._prepared, args))
        launch = run_kernel(
            kernel,
            self.grid,
            self.block,
            args,
            dynamic_shared=self.sharedmem,
            counters=Counters() if onlookers else None,
            debug=kernel.debug,
            signatures=kernel.signatures,
        )
        if launch.signature not in kernel.overloads:
            kernel.overloads[launch.signature] = Overload(kernel, launch.signature)
        for look in onlookers:
            look(kernel, launch)

    def _prepared(self, value: Any) -> Any:
        """An argument as the kernel's extensions want it."""
        kind = None
        for extension in reversed(self.kernel.extensions):
            kind, value = extension.prepare_args(kind, value, stream=self.stream, retr=[])
        return value


class Overload:
    """A kernel for one signature, in ``kernel.overloads``."""

    def __init__(self, kernel: Kernel, signature: tuple[types.Type, ...]):
        self.kernel, self.signature = kernel, signature

    @property
    def cooperative(self) -> bool:
        """Does it wait for the whole grid?"""
        return program_of(self.kernel).lane_program(self.signature, False, False).cooperative

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """How many blocks of a shape run at once on the simulated GPU."""
        gpu, threads = current(), math.prod(dimensions(blockdim, "blockdim"))
        return gpu.multiprocessors * (gpu.threads_per_multiprocessor // threads)

    def __repr__(self) -> str:
        return f"<{self.kernel.__name__}({', '.join(map(str, self.signature))}), simulated>"


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
        raise TypeError(
            "A jit decorator was called on an already jitted function: "
            f"{func_or_sig.__name__} is decorated with @cuda.jit twice"
        )
    signatures = []
    if func_or_sig is not None:
        if callable(func_or_sig) and not isinstance(func_or_sig, types.Type | Signature):
            raise _no_function(func_or_sig)
        for one in func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]:
            arguments, result = normalize_signature(one)
            signatures.append((tuple(plain(kind) for kind in arguments), result))
            if not device and result not in (None, types.void):
                raise TypeError("CUDA kernel must have void return type.")

    def decorate(function: FunctionType) -> Kernel:
        if not isinstance(function, FunctionType):
            raise _no_function(function)
        return Kernel(function, device, bool(debug), signatures, kept)

    return decorate


def _no_function(value: Any) -> TypeError:
    """The error of ``cuda.jit`` of something callable that is no plain function."""
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    return TypeError(
        f"cuda.jit takes a function written with def, not {what}: write one that does the same, "
        "outside any class, and give what it is bound to as arguments"
    )
