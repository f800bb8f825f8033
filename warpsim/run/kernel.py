"""``cuda.jit`` of the simulator: kernels, device functions and how they are launched."""

import ast
import math
from collections.abc import Callable
from numbers import Integral
from types import FunctionType
from typing import Any
from warnings import warn

from numba import types
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.errors import DeprecationError, NumbaInvalidConfigWarning, UnsupportedError
from numba.core.sigutils import normalize_signature
from numba.core.typing import Signature

from warpsim.code.programs import program_of
from warpsim.core.settings import setting, warn_of_few_blocks, warn_of_host_arrays
from warpsim.front.allocations import declared
from warpsim.front.names import typing_error
from warpsim.host.gpus import current
from warpsim.run import launch
from warpsim.run.launch import NO_CONFIGURATION, dimensions, run_kernel, types_of
from warpsim.watch.counts import Counters

#: Who looks at every launch of a program; while there is one, launches are counted as in a trace.
onlookers: "list[Callable[[Kernel, launch.Launch], None]]" = []
#: Whether they want costs counted, too, and not errors alone.
counts_costs = True
#: Whether the host may call device functions, as in Numba's own simulator; a GPU refuses it.
host_calls_devices = False

#: What ``cuda.jit`` may be told, in numba-cuda 0.30.4.
OPTIONS = frozenset(
    "device inline forceinline link debug opt lineinfo cache fastmath extensions max_registers lto "
    "launch_bounds shared_memory_carveout".split()
)


class Kernel:
    """A function decorated with ``cuda.jit``."""

    def __init__(
        self, function: FunctionType, device: bool, debug: bool,
        signatures: list[tuple[tuple[types.Type, ...], Any]] | None = None,
        options: dict[str, Any] | None = None,
    ):  # fmt: skip
        self.py_func, self.device, self.debug = function, device, debug
        self._device, self.fn = device, function  # as Numba's own simulator names them
        self.targetoptions = options or {}  # for the compiler: course.compiler.facts reads them
        self.declared = [] if device else [kinds for kinds, _ in signatures or []]
        self.device_signatures = signatures or [] if device else []
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function
        self.extensions: list[Any] = list(self.targetoptions.get("extensions", ()))
        self.specialized = False
        self.specializations: dict[tuple[types.Type, ...], Kernel] = {}
        self.overloads = {kinds: Overload(self, kinds) for kinds, _ in signatures or []}
        for kinds in self.overloads:
            self._type_now(kinds)

    #: The argument types that were declared, or met at launches.
    signatures = property(lambda self: list(self.overloads))

    @one_at_a_time
    def _type_now(self, kinds: tuple[types.Type, ...]) -> None:
        """Type a declared signature where it is declared, as Numba compiles it there."""
        try:
            program = program_of(self)
            known = program.source.environment.get(self.__name__)
            if self.device and hasattr(known, "py_func"):
                program.source.environment[self.__name__] = self  # calls itself as it is declared
            typing = program.typing(kinds)
            if self.device:
                typing.check_result(self)
        except (UnsupportedError, ValueError):
            pass  # the simulator's own limits, and names not yet set, matter at the launch only
        except TypeError as error:
            raise typing_error(str(error)) from None  # another number of arguments

    def specialize(self, *args: Any) -> "Kernel":
        """This kernel for the types of some arguments, or for some types, and no others."""
        if self.declared or self.specialized:
            raise RuntimeError("Dispatcher already specialized")
        kinds = tuple(a if isinstance(a, types.Type) else types_of((a,))[0] for a in args)
        if kinds not in self.specializations:
            made = Kernel(self.py_func, False, self.debug, [(kinds, None)], self.targetoptions)
            made.extensions, made.specialized = self.extensions, True
            self.specializations.setdefault(kinds, made)
        return self.specializations[kinds]

    def __getitem__(self, configuration: Any) -> "Configured":
        if self.device:
            raise self._no_kernel(", without brackets")
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise ValueError("must specify at least the griddim and blockdim")
        return Configured(self, *configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0):
        return Configured(self, griddim, blockdim, stream, sharedmem)

    def bind(self) -> None:
        """Nothing to load."""

    def __call__(self, *args: Any) -> Any:
        if self.device and host_calls_devices:
            return self.py_func(*args)
        raise self._no_kernel() if self.device else ValueError(NO_CONFIGURATION)

    def _no_kernel(self, how: str = "") -> RuntimeError:
        return RuntimeError(
            f"Cannot compile a device function as a kernel: {self.__name__} is one; call it from a "
            f"kernel{how}"
        )

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
        program = program_of(self)
        return program.lane_program(types_of(program.packed(arguments)), traced, self.device).text

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """The most threads that a block may have here, for a signature or for each that was met.

        A GPU may allow fewer to a kernel that needs many registers, which the simulator has not.
        """
        most = current().threads_per_block
        return most if signature is not None else dict.fromkeys(self.overloads, most)

    def _only_compiled(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "the simulator compiles no machine code, so there are no registers and no assembly to "
            "look at; they need the CUDA compiler. Types of variables: overloads[...].typemap"
        )

    inspect_types = inspect_asm = inspect_llvm = inspect_sass = get_regs_per_thread = _only_compiled
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
        for name, given in (("grid", griddim), ("block", blockdim)):
            if isinstance(given, list):  # Numba keeps configurations by their values
                raise TypeError(f"unhashable type: 'list': give the {name} as a tuple")
        if not isinstance(sharedmem, Integral):
            raise TypeError(f"sharedmem must be a number of bytes, got {sharedmem!r}")
        if not (isinstance(stream, Integral) or hasattr(stream, "handle")):
            raise TypeError(f"stream must be cuda.stream() or 0, got {stream!r}")
        self.grid = dimensions(griddim, "griddim")
        self.block = dimensions(blockdim, "blockdim")
        launch.check_configuration(self.grid, self.block, sharedmem, current())
        warn_of_few_blocks(math.prod(self.grid))

    def __call__(self, *args: Any) -> None:
        kernel = self.kernel
        unknown = sorted(set(kernel.targetoptions) - OPTIONS)
        if unknown:  # Numba, too, finds it at the launch
            text = f"cuda.jit has no option {unknown[0]!r}; it has {', '.join(sorted(OPTIONS))}"
            raise TypeError(text)
        warn_of_host_arrays(args)
        if kernel.extensions:
            args = tuple(map(self._prepared, args))
        counters = Counters(costs=counts_costs) if onlookers else None
        more = {"dynamic_shared": self.sharedmem, "counters": counters, "debug": kernel.debug}
        done = run_kernel(kernel, self.grid, self.block, args, **more)
        if done.signature not in kernel.overloads:
            kernel.overloads[done.signature] = Overload(kernel, done.signature)
        for look in list(onlookers):
            look(kernel, done)

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

    _type_annotation = property(lambda self: self)

    @property
    def typemap(self) -> dict[str, types.Type]:
        """The types of the variables, by name; of several the first."""
        typing = program_of(self.kernel).typing(self.signature)
        given = [*zip(typing.source.arguments, typing.arguments, strict=True)]
        targets = typing.targets.items()
        made = [(node.id, kind) for node, kind in targets if isinstance(node, ast.Name)]
        return dict(reversed(given + made))

    #: Does it wait for the whole grid?
    cooperative = property(
        lambda self: program_of(self.kernel).lane_program(self.signature, False, False).cooperative
    )

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        return launch.most_at_once(dimensions(blockdim, "blockdim"), current())

    def __repr__(self) -> str:
        return f"<{self.kernel.__name__}({', '.join(map(str, self.signature))}), simulated>"


def jit(
    func_or_sig: Any = None, device: bool = False, inline: Any = "never", link: Any = (),
    debug: bool | None = None, opt: Any = None, lineinfo: bool = False, cache: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """Make a kernel, or with ``device=True`` a function that kernels call.

    All options of ``numba.cuda.jit`` are accepted; of them ``device`` and ``debug`` matter here;
    the compiler gets the others.
    """
    if options.get("boundscheck"):
        raise NotImplementedError("bounds checking is not supported for CUDA")
    for name in ("argtypes", "restype", "bind"):
        if options.get(name) is not None:
            raise DeprecationError(
                f"Deprecated keyword argument `{name}`. Signatures should be passed as the first "
                "positional argument."
            )
    debug = bool(setting("CUDA_DEBUGINFO_DEFAULT", 0) if debug is None else debug)
    if debug and (setting("OPT", 3) != 0 if opt is None else opt):
        text = "debug=True with opt=True is not supported by CUDA. This may result in a crash"
        warn(NumbaInvalidConfigWarning(f"{text} - set debug=False or opt=False."), stacklevel=2)
    given = {"device": device, "inline": inline, "link": link, "opt": opt, **options}
    kept = {name: value for name, value in given.items() if value not in (None, ())}
    signatures = []

    def decorate(function: FunctionType | Kernel) -> Kernel:
        function = function.py_func if isinstance(function, Kernel) else function  # as Numba, anew
        if not isinstance(function, FunctionType):
            raise _no_function(function)
        return Kernel(function, device, debug, signatures, kept)

    if isinstance(func_or_sig, FunctionType | Kernel):
        return decorate(func_or_sig)
    if func_or_sig is not None:
        if callable(func_or_sig) and not isinstance(func_or_sig, types.Type | Signature):
            raise _no_function(func_or_sig)
        for one in func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]:
            arguments, result = normalize_signature(one)
            signatures.append((tuple(map(declared, arguments)), result))
            if not device and result not in (None, types.void):
                raise TypeError("CUDA kernel must have void return type.")
    return decorate


def _no_function(value: Any) -> TypeError:
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    return TypeError(
        f"cuda.jit takes a function written with def, not {what}: write one that does the same, "
        "outside any class, and give what it is bound to as arguments"
    )
