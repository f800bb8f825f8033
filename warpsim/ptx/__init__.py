"""Instructions that Numba lacks: their code, the types of their arguments, what runs them.

Each works inside a kernel, on a GPU and in the simulator alike, and is taken from here:
``from warpsim.ptx import load4``. It is loaded with its module when it is first asked for.
"""

import sys
from importlib import import_module
from typing import Any

_HOMES = {
    "clusters": (
        "cluster cluster_barrier cluster_rank load4_cluster named_barrier setmaxnreg_dec "
        "setmaxnreg_inc"
    ),
    "cp_async": "commit_copies copy4_async copy8_async copy_async wait_copies",
    "grid_dependency": "grid_dependency_wait",
    "integers": "quotient remainder",
    "mbarrier": (
        "fence_async fence_mbarriers mbarrier_arrive mbarrier_arrive_at mbarrier_expect "
        "mbarrier_init mbarrier_wait"
    ),
    "memory": (
        "load load2 load4 load4_kept load4_streaming load_kept load_streaming store store2 store4 "
        "store4_streaming store_streaming"
    ),
    "mma": (
        "ldmatrix4 ldmatrix4_trans mma_bf16 mma_f16 mma_f16_k8 mma_tf32 pack_bf16 pack_f16 "
        "round_tf32 split_halves stmatrix4 unpack_bf16 unpack_f16"
    ),
    "tma": (
        "TensorMap commit_stores same_start tma_load tma_load_multicast tma_prefetch tma_store "
        "wait_stores"
    ),
    "wgmma": (
        "unpack wgmma_nn wgmma_nt wgmma_nt_deep wgmma_rn wgmma_sums wgmma_tn wgmma_tt wgmma_wait "
        "wgmma_zeros"
    ),
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
