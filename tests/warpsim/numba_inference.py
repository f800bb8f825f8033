"""What Numba itself infers for a CUDA function: its own passes, up to types, without a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import pytest


class _Device:
    compute_capability = (7, 5)


@contextmanager
def without_gpu():
    """numba-cuda's dispatchers find a T4's compute capability when they ask for it."""
    import numba.cuda.dispatcher as dispatcher

    with patch.object(dispatcher, "get_current_device", lambda: _Device):
        yield


def inferred(function, arguments: tuple):
    """Result type of a device function by numba-cuda's type inference."""
    return _inference(function, arguments).return_type


def types_of_variables(function, arguments: tuple) -> dict:
    """Each variable's type by numba-cuda's type inference, under the name of its version."""
    return _inference(function, arguments).typemap


def _inference(function, arguments: tuple):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    import numba.cuda.dispatcher as dispatcher
    from numba.core.errors import NumbaError, TypingError
    from numba.core.target_extension import target_override
    from numba.cuda import compiler
    from numba.cuda.descriptor import cuda_target

    class OnlyTypes(compiler.CUDACompiler):
        """Numba's pipeline without its last part, the lowering to machine code."""

        def define_cuda_lowering_pipeline(self, state):
            return compiler.PassManager("nothing")

    dispatcher.get_current_device = lambda: _Device
    flags = compiler.CUDAFlags()
    flags.no_compile = True
    flags.compute_capability = (7, 5)
    typing, target = cuda_target.typing_context, cuda_target.target_context
    typing.refresh()
    target.refresh()
    with target_override("cuda"):
        pipeline = OnlyTypes(typing, target, None, arguments, None, flags, {})
        try:
            pipeline.compile_extra(function)
        except NumbaError as error:
            raise TypingError(str(error)) from None
        except Exception:
            if getattr(pipeline.state, "return_type", None) is None:
                raise
    return pipeline.state
