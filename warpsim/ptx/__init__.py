"""Instructions that Numba lacks: their code, the types of their arguments, what runs them.

Each works inside a kernel, on a GPU and in the simulator alike, and is taken from here:
``from warpsim.ptx import load4``. It is loaded with its module when it is first asked for.
"""

import sys
from importlib import import_module
from typing import Any

_HOMES = {
    "fragments": (
        "copy8_async ldmatrix4 ldmatrix4_trans mma_bf16 pack_bf16 pack_f16 quotient remainder "
        "stmatrix4 unpack_bf16 unpack_f16"
    ),
    "grid_dependency": "follow",
    "hopper": (
        "cluster cluster_barrier cluster_rank commit_stores fence_async fence_mbarriers "
        "load4_cluster mbarrier_arrive mbarrier_arrive_at mbarrier_expect mbarrier_init "
        "mbarrier_wait named_barrier setmaxnreg_dec setmaxnreg_inc spread tma_load "
        "tma_load_multicast tma_store wait_stores wgmma_nn wgmma_nt wgmma_sums wgmma_tn wgmma_wait "
        "wgmma_zeros"
    ),
    "intrinsics": (
        "commit_copies copy4_async copy_async load load2 load4 load4_kept load4_streaming "
        "load_kept load_streaming mma_f16 mma_f16_k8 mma_tf32 round_tf32 split_halves store store2 "
        "store4 store4_streaming store_streaming wait_copies"
    ),
    "register_products": "wgmma_rn",
    "tensor_maps": "TensorMap same_start tma_prefetch",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
