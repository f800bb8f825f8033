"""A kernel names what it likes: names of the simulator, drawn for its functions and variables."""

import builtins
import inspect
import keyword
import math
import random
import re

import numpy as np
import pytest
from numba import float32

from tests.texts import function_of
from warpsim import cuda, trace
from warpsim.code.emit import OPERATIONS, PARTS
from warpsim.core.operators import NAMESPACE
from warpsim.run import control, elements, exchange, memory, observer, state, warp_scheduler
from warpsim.run.threads import Ptx, Threads

TEXT = """
@cuda.jit(device=True)
def device(v, n):
    if n <= 0:
        return v
    return device(v, n - 1) + n

@cuda.jit(device=True)
def helper(s, arr, i):
    for j in range(3):
        s[i] = arr[i] * const[i % 3] + float(j) // 2
        if s[i] > glob:
            break
    return math.floor(arr[i]) + math.sqrt(float(i))

@cuda.jit
def kernel(arr, out, n):
    def inner(v, s):
        return v * 2 + s
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    s = cuda.shared.array(32, float32)
    l = cuda.local.array(4, float32)
    acc = helper(s, arr, t)
    tup = (n, t * 2)
    cuda.syncthreads()
    for j in range(t, 32, 5):
        if j % 2 == 0:
            continue
        acc += s[j] + device(acc, j % 4) / (n + 1)
    for j in range(4):
        l[j] = inner(acc, j)
    part = l[1:3]
    v = 1 if n > 3 else 2
    if arr[i % 32] > 0.5:
        v = 3
        w = acc
    else:
        w = min(acc, float(glob)) - tup[1] + part[0]
    while v < glob:
        v += tup[0] + 1
    if t % 2:
        x = round(w) << 1
    if t % 2:
        acc -= x
    out[i] = acc + w + abs(cuda.shfl_down_sync(0xFFFFFFFF, v, 1)) ** 2 + bool(v > 2)
    cuda.atomic.add(out, 64 + t % 2, int(v) << 1)
"""
ROLES = [
    "kernel", "device", "helper", "inner", "glob", "const", "arr", "n", "v", "w", "s", "i", "j",
    "l", "acc", "tup", "part", "x",
]  # fmt: skip
PARTS_OF_THREADS = [
    Threads, Ptx, control.Control, elements.Elements, exchange.Exchange, memory.Memory,
    observer.Observer, state.State, state.Geometry, warp_scheduler.Warp, warp_scheduler.WarpPtx,
    warp_scheduler.Barriers,
]  # fmt: skip
#: What lane programs call their own, and what becomes of a name that is taken.
OWN = "T frame ptx _k0 _k1 _m_x _s_x _s_x_ _m_v _loop1 _value1 _base1 _base2 _array1 _index1 x_ v_ "
OWN += "v_float64 v_int64 acc_float64 w_ UNSET_ float64_ exchange_ vv _then _else"


def _pool() -> list[str]:
    names = {*OWN.split(), *OPERATIONS, *PARTS, *NAMESPACE, *dir(builtins)}
    for part in PARTS_OF_THREADS:
        names |= {*dir(part)}
        if inspect.isfunction(part.__init__):
            names |= {*re.findall(r"self\.(\w+)", inspect.getsource(part.__init__))}
    used = {*re.findall(r"[a-zA-Z]\w*", TEXT)}
    free = {name for name in names if name.isidentifier() and not keyword.iskeyword(name)}
    return sorted(name for name in free - used if not name.startswith("__"))


POOL = _pool()


def _run(names: dict[str, str], traced: bool) -> tuple[np.ndarray, list]:
    text = re.sub(rf"(?<!\.)\b({'|'.join(ROLES)})\b", lambda at: names.get(at[0], at[0]), TEXT)
    outside = {names.get("glob", "glob"): 17, names.get("const", "const"): (1.5, 2.5, 0.5)}
    about = " ".join(names.values())
    outside |= {"cuda": cuda, "math": math, "float32": float32}
    kernel = function_of(text, f"any name {about}", outside)
    arr, out = np.linspace(-1, 2, 32).astype(np.float32), np.zeros(66)
    if not traced:
        kernel[2, 32](arr, out, 5)
        return out, []
    found = trace(kernel, 2, 32, arr, out, 5).findings
    return out, [(one.kind, one.line) for one in found]


def _drawn(seed: int) -> dict[str, str]:
    rng = random.Random(seed)
    roles = rng.sample(ROLES, rng.choice([1, 3, 9]))
    return dict(zip(roles, rng.sample(POOL, len(roles))))


ONCE_TAKEN = [
    {"device": "exchange"}, {"device": "frame"}, {"device": "_value1"}, {"kernel": "float64"},
    {"device": "divide", "helper": "divide_"}, {"kernel": "int64"}, {"v": "slice"},
    {"w": "_s_x"}, {"tup": "_m_v"}, {"helper": "_base1"}, {"arr": "v_float64"},
    {"device": "state", "helper": "state_", "kernel": "memory"}, {"helper": "memory"},
]  # fmt: skip


@pytest.mark.parametrize("names", [*ONCE_TAKEN, *map(_drawn, range(60))], ids=str)
def test_a_kernel_names_what_it_likes(names):
    for traced in (False, True):
        wanted, findings = _run({}, traced)
        out, found = _run(names, traced)
        np.testing.assert_array_equal(out, wanted)
        assert found == findings
