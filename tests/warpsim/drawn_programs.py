"""Programs drawn from a grammar of what kernels may hold: does the simulator take what Numba takes?

The oracle is numba-cuda's own compiler, which types and lowers a kernel for sm_75 without a driver.
About a third of the programs hold something doubtful, such as a string where a number belongs.

    python -m tests.warpsim.drawn_programs --seed 1 --count 1000
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import enum
import math
import random
import re
import types as python_types
import warnings

import numba
import numpy as np
from numba import types

from tests.texts import function_of
from warpsim.host.device import DeviceNDArray

#: In each place of a program: how likely something of another kind stands there.
DOUBT = 0.025
DEEPEST = 3
PLACE = r"<([a-z][a-z0-9 ]*)>"
RECORD = np.dtype([("u", np.float32), ("w", np.int32), ("s", np.float64, (3,))], align=True)
Point = collections.namedtuple("Point", "u w")


class Colour(enum.IntEnum):
    """Members that stand for integers."""

    RED, BLUE = 1, 2


class Settings:
    """A class and, as an object of it, something that no kernel can hold."""

    N, STEP = 4, 0.5


def plain_function(p):
    """Not compiled for a GPU."""
    return p


def templates(text: str) -> tuple[list[str], list[str]]:
    """Alternatives, which stand two or more spaces apart; ``<kind>`` is drawn again.

    What stands behind ``??`` is doubtful: Numba takes it seldom or never.
    """
    sure, _, doubtful = text.partition("??")
    return tuple(
        re.split(r"\s{2,}|\n\s*", part.strip()) if part else [] for part in (sure, doubtful)
    )


#: What stands for each kind of expression. Without ``<``, it ends the draw.
GRAMMAR = {
    "int": templates("""
        0  1  3  -2  n  m  iv  G_INT  len(t)  a.size  b.ndim  k.itemsize  cuda.threadIdx.x
        cuda.threadIdx.y  cuda.blockIdx.x  cuda.blockDim.x  cuda.gridDim.z  cuda.laneid
        cuda.warpsize  cuda.grid(1)  cuda.gridsize(1)  cuda.grid(2)[1]  G_TUPLE[1]
        cuda.activemask()  2**40  True  cuda.lanemask_lt()  r.w  np.int32(7)  Colour.RED
        Colour.RED.value  <int> + <int>  <int> - <int>  <int> * <int>  <int> // <int>
        <int> % <int>  <int> ** <int>  <int> & <int>  <int> | <int>  <int> ^ <int>  <int> << <int>
        <int> >> <int>  -<int>  ~<int>  len(<array>)  <array>.shape[0]  b.shape[<int>]
        a.strides[0]  k[<int>]  int(<number>)  abs(<int>)  min(<int>, <int>)
        max(<int>, <int>, <int>)  round(<float>)  pow(<int>, <int>)  np.int32(<number>)
        int32(<number>)  types.uint8(<number>)  np.uint64(<int>)  bool(<number>)
        <int> if <bool> else <int>  <int> and <int>  <int> or <int>  not <number>
        cuda.popc(<int>)  cuda.clz(<int>)  cuda.ffs(<int>)  cuda.brev(<int>)  p[<int>].w
        p[0]['w']  cuda.atomic.add(k, <index>, <int>)  cuda.syncthreads_count(<int>)
        cuda.shfl_up_sync(-1, <int>, 1)  cuda.syncthreads_and(<int>)  cuda.syncthreads_or(<int>)
        cuda.any_sync(-1, <bool>)  cuda.all_sync(<int>, <bool>)  cuda.eq_sync(-1, <bool>)
        cuda.ballot_sync(<int>, <bool>)  cuda.shfl_sync(-1, <int>, <int>)  math.floor(<number>)
        cuda.match_any_sync(-1, <int>)  cuda.match_all_sync(-1, <int>)[0]
        cuda.selp(<bool>, <int>, 1)  d1(<int>, <int>)  d2(<int>)  ??  Settings.N  settings.N
        threadIdx.x  Point(1, 2).u  <tuple>[0]  len(<tuple>)  cuda.grid(<int>)
        atomic.max(k, <index>, <int>)  cuda.atomic.and_(k, 0, <int>)  cuda.atomic.inc(k, 0, <int>)
        cuda.atomic.cas(k, <index>, <int>, 1)  cuda.atomic.compare_and_swap(k, 0, <int>)
        cuda.atomic.exch(k, 0, <int>)  sum(<tuple>)  np.sign(<number>)
        cuda.syncthreads_and(<bool>)  int(<bool>)  isinstance(<any>, int)  ord('a')
        np.bitwise_and(<int>, <int>)  int(<any>)  hash(<int>)  max(<int>)  min(<tuple>)
        max(*<tuple>)  d1(*<tuple>)  d2(p=<int>)  d1(<int>)  <number> << <int>  ~<number>
        cuda.popc(<number>)  cuda.shfl_sync(<any>, <int>, <int>)  k.nbytes  cuda.grid()
        <any>.size  <any>.shape[0]  (<any>)[<int>]  <int> @ <int>  Colour['RED']  k.argmax()
    """),
    "float": templates("""
        0.0  1.5  -2.25  1e30  x  y  fv  G_FLOAT  math.pi  math.inf  np.pi  np.nan  G_SCALAR
        z.real  r.u  xoroshiro128p_uniform_float32(states, 0)  <float> + <number>
        <float> - <number>  <number> / <number>  <float> * <number>  -<float>  <float> // <number>
        <float> % <number>  <float> ** <number>  +<float>  b[<int>, <int>]  a[<index>]
        sv[<index>]  lv[<int>]  b[<int>][<int>]  e[()]  float(<int>)  np.float32(<number>)
        float32(<number>)  np.float64(<number>)  abs(<complex>)  abs(<float>)  round(<float>, 2)
        min(<float>, <int>)  max(<int>, <float>)  math.sqrt(<number>)  math.exp(<number>)
        math.sin(<number>)  math.atan2(<number>, <number>)  math.pow(<float>, <number>)
        math.fmod(<number>, <number>)  math.hypot(<number>, <float>)  math.ldexp(<float>, <int>)
        math.frexp(<float>)[0]  math.modf(<float>)[1]  math.isnan(<number>)  math.erf(<number>)
        math.gamma(<number>)  math.log2(<number>)  math.log(<number>)
        math.copysign(<float>, <float>)  np.abs(<number>)  np.floor(<float>)
        <float> if <bool> else <number>  <float> and <float>  p[<int>].u  p['u'][<int>]  r['u']
        p[0].s[<int>]  <complex>.real  <complex>.imag  cuda.fma(<float>, <float>, <float>)
        cuda.cbrt(<float>)  cuda.selp(<bool>, <float>, <float>)
        cuda.shfl_down_sync(-1, <float>, <int>)  cuda.shfl_xor_sync(-1, <number>, <int>)
        cuda.fp16.hadd(h[0], <half>)  cuda.fp16.hfma(h[0], h[1], h[0])  <half> + <number>
        cuda.atomic.add(a, <index>, <number>)  cuda.atomic.add(b, <index2>, <number>)
        cuda.atomic.min(a, 0, <float>)  cuda.atomic.nanmax(a, <int>, <number>)
        d1(<float>, <number>)  d2(<number>)  cuda.atomic.sub(sv, 0, <float>)  x.real
        G_ARRAY[<int>]  cv[<int>]  ??  Settings.STEP  float('inf')  1j.imag  float(<number>)
        float(<any>)  min(<float>, <number>)  np.sqrt(<number>)  np.sin(<number>)
        np.minimum(<number>, <number>)  np.power(<number>, <number>)  np.exp(<number>)
        np.isnan(<number>)  <tuple>[1]  np.sum(<array>)  cuda.cbrt(<number>)
        cuda.atomic.cas(a, <index>, <float>, 1.0)  atomic.add(sv, <int>, <number>)  a.sum()
        a.max()  libdevice.sinf(<float>)  math.sqrt(<any>)  math.sqrt()  max(<number>, <float>)
        a[<any>]  b[<any>, 0]  float32(<any>)  math.comb(<int>, <int>)
        math.nextafter(<float>, <float>)  math.fsum(<tuple>)  math.dist(<tuple>, <tuple>)
        math.gcd(<number>, <number>)  a[0].item()  abs(<any>)  round(<any>)
    """),
    "half": templates("""
        h[0]  h[<int>]  float16(<number>)  np.float16(<number>)  -<half>  abs(<half>)  ??
        <half> ** <half>  math.sqrt(<half>)  <half> // <half>  round(<half>)
        cuda.fp16.hsin(<half>)  cuda.fp16.hadd(<any>, <half>)
    """),
    "complex": templates("""
        z  1j  G_COMPLEX  c[0]  c[<int>]  complex(<float>, <int>)  complex(<int>)
        <complex> + <number>  <complex> * <complex>  <complex>.conjugate()  cmath.exp(<complex>)
        -<complex>  <complex> / <number>  <complex> ** <int>  cmath.phase(<complex>)
        np.complex64(<number>)  d2(<complex>)  ??  complex(<number>, <number>)  complex(<any>)
        <complex> % <number>  np.complex64(<complex>, 1)  math.sqrt(<complex>)  <complex> // <int>
        np.angle(<complex>)  ~<complex>  round(<complex>)
    """),
    "bool": templates("""
        True  flag  l[0]  G_BOOL  iv > 2  <number> < <number>  <number> == <number>
        <int> != <int>  not <bool>  <bool> and <bool>  <bool> or <bool>
        <number> < <number> <= <number>  l[<int>]  <tuple> == <tuple>  <complex> == <number>
        math.isinf(<number>)  <bool> if <bool> else <bool>  <bool> & <bool>
        cuda.match_all_sync(-1, <int>)[1]  <bool> ^ <bool>  bool(<number>)  ??  <int> in <tuple>
        <any> is None  <array> is <array>  bool(<any>)  np.isfinite(<number>)  <tuple>
        <tuple> < <tuple>  <int> not in <tuple>  <any> == <any>  <any> != <any>
        <bool> or <number>  <array>  <any> < <any>  not <any>  <complex> < <number>
        callable(<any>)  any(<tuple>)  hasattr(<any>, 'x')
    """),
    "array": templates("""
        a  k  ro  sv  lv  av  G_ARRAY  c  l  h  r.s  p.u  a[1:]  a[::-1]  b[0]  b[:, 1]  b[<int>]
        a[<slice>]  av[<slice>]  b[<int>, <slice>]  b[<slice>, <int>]  b[0, ...]  b.T[0]
        b[..., 0]  cv  ??  p  <array>[<slice>]  a.reshape(<int>)  b.reshape(<shape>)
        a.view(<dtype>)  d2(<array>)  d1(<array>, <int>)  <array> if <bool> else <array>  b  e
        b[<slice>, <slice>]  b.T  a[:, None]  b.transpose()  b.ravel()  b.flatten()  b.flat
        c.real  c.imag  p['w']  a.copy()  a.astype(<dtype>)  p[0].s  a + a  a * <number>  a > 0
        np.zeros(<int>)  np.empty_like(a)  a[l]  a[k]  a[...]  a[<tuple>]
    """),
    "index": templates("""
        0  iv  n  m  <int>  <int>  <int>  ??  <tuple>  <bool>  <float>  <any>  None  ...
    """),
    "index2": templates("""
        (0, 1)  (iv, n)  (<int>, <int>)  cuda.grid(2)  ??  <tuple>  <int>  (<any>, <any>)
    """),
    "slice": templates("""
        1:  :2  :  ::2  <int>:  :<int>  <int>:<int>  <int>:<int>:<int>  ??  <any>:  :<float>
        ::<bool>
    """),
    "tuple": templates("""
        (1, 2)  t  tv  G_TUPLE  G_MIXED  a.shape  b.shape  a.strides  (<int>, <number>)  (<int>,)
        G_TUPLE + (<int>, )  cuda.grid(2)  t[1:]  b[0].shape
        (<int>, <int>) if <bool> else (<int>, <int>)  ??  (<any>, <any>)  <tuple> + <tuple>
        Point(<int>, <float>)  <tuple>[1:]  (<array>, <int>)  d1(<tuple>, 1)  d2(<tuple>)  ()
        tuple(<tuple>)  G_POINT  (<tuple>, <int>)  math.frexp(<number>)  cuda.gridsize(2)
        divmod(<int>, <int>)  <tuple> * 2  t[<int>:]  <tuple> if <bool> else <tuple>
    """),
    "dtype": templates("""
        float32  np.float32  np.int32  int64  types.float64  np.uint8  np.complex64  float16
        np.bool_  boolean  np.float64  ??  RECORD  record_type  float  int  np.dtype('f4')
        a.dtype  'f4'  bool  cuda.float32x2  <any>  np.str_  types.unicode_type  types.float32[:]
    """),
    "shape": templates("""
        4  (2, 3)  G_INT  G_TUPLE  (4,)  2 * 3  constant  (G_INT, 2)  ??  G_INT * 2
        (2, G_INT + 1)  0  Settings.N  n  a.size  a.shape  (2, n)  -1  2.0  True  [2, 3]
        np.int32(3)  <int>  <tuple>  len(G_TUPLE)  ()  <any>  (2, 2.0)  G_TUPLE[0]  (2, (3,))
        Colour.BLUE  cuda.warpsize
    """),
    "number": templates("""
        n  x  iv  fv  m  y  2  0.5  <int>  <float>  <int>  <float>  a[0]  k[0]  ??  <bool>
    """),
    "any": templates("""
        n  x  a  z  t  flag  <number>  <int>  <float>  <array>  <tuple>  <bool>  <complex>  <half>
        <odd>
    """),
    "odd": templates("""
        None  'text'  Settings  settings  G_LIST  G_DICT  G_TEXT  np  math  cuda  plain_function
        on_cpu  ...  [1, 2]  [n, x]  {1: 2}  {1}  lambda: 1  f'{n}'  b'ab'  float32  threadIdx
        atomic  shared  cuda.threadIdx  cuda.shared  cuda.atomic  cuda.syncthreads  d1  d2  int
        range(3)  Colour  Point  G_OBJECT  r  p[0]  p  G_HUGE  missing  np.float32  slice(1, 2)
        [i for i in range(3)]  G_SET  Exception  cuda.local  math.sqrt  cuda.atomic.add  print
        a.shape.count  x.real.imag  G_DATE  (yes := 1)  np.zeros(3)  np.array([1, 2])  str(<int>)
        cuda.blockDim  xoroshiro128p_uniform_float32
    """),
    "iterable": templates("""
        range(3)  range(<int>)  range(<int>, <int>)  range(<int>, <int>, <int>)  a  G_TUPLE  b[0]
        range(len(<array>))  ??  <tuple>  <array>  range(<number>)  reversed(<tuple>)
        enumerate(range(<int>))  literal_unroll(<tuple>)  np.ndindex(<shape>)  prange(<int>)
        <any>
    """),
    "pairs": templates("""
        enumerate(<array>)  zip(<array>, <array>)  zip(G_TUPLE, range(3))  enumerate(G_TUPLE)  ??
        zip(<tuple>, <array>)  enumerate(<array>, 1)  <array>  <iterable>  zip(<any>, a)
        np.ndenumerate(a)
    """),
    "place": templates("""
        a[<index>]  o[<index>]  k[<index>]  b[<int>, <int>]  sv[<index>]  lv[<int>]
        b[<int>][<int>]  p[<int>].u  p['u'][<int>]  r.u  o[0]  e[()]  o[:]  p[0]['w']  r['u']
        p.u[<int>]  b[<index2>]  ??  a[<slice>]  b[<int>]  ro[0]  c[<int>]  l[<int>]  h[<int>]
        p[<int>]  G_ARRAY[0]  t[0]  r.s[<int>]  c[0].real  cv[0]  <array>[<any>]  a.size
        p[0].missing  x.real
    """),
    "variable": templates("iv  fv  iv  fv  w1  w2  ??  av  tv  n  x  sv  a"),
    "line": templates("""
        <place> = <number>  <place> = <number>  <place> = <number>  <place> += <number>
        iv = <int>  fv = <float>  <variable> = <number>  w1 = <any>  w2 = w1  fv += <number>
        iv -= <int>  iv //= <int>  av = <array>  <variable> *= <number>  w1, w2 = <int>, <float>
        w1, w2 = G_MIXED  o[0] = <number>  o[iv] = <float>  if <bool>:<suite>
        if <bool>:<suite>else:<suite>  if <bool>:<suite>elif <bool>:<suite>else:<suite>
        while <bool>:<loop>  for w1 in <iterable>:<loop>  for w1, w2 in <pairs>:<loop>
        c[0] = <complex>  for iv in range(<int>):<loop>  for iv in range(3):<loop>else:<suite>
        l[0] = <bool>  h[0] = <half>  cuda.syncthreads()  cuda.syncwarp()  cuda.syncwarp(<int>)
        cuda.threadfence()  cuda.threadfence_block()  print(<number>)  print('text', <number>)
        assert <bool>  assert <bool>, 'words'  raise ValueError  raise ValueError('words')  return
        d1(<int>, <number>)  d2(<number>)  w1 = d1(<array>, <int>)  pass
        w1 = cuda.shared.array(<shape>, <dtype>)  w1 = cuda.local.array(<shape>, <dtype>)
        constant = 5  w1 = d2(<array>)  cuda.nanosleep(<int>)  w1: int = <number>
        w1 = w2 = <number>  a[:] = <number>  cuda.atomic.<operation>(k, <index>, <int>)
        cuda.atomic.<operation>(a, <index>, <number>)  cuda.cg.this_grid().sync()
        b[<slice>, 0] = <number>  ??  <place> = <any>  <variable> = <any>  w1, w2 = <any>, <any>
        w1, w2 = <tuple>  iv, *w1 = <tuple>  if <any>:<suite>  while <any>:<loop>
        cuda.syncthreads(<any>)  cuda.nanosleep(<number>)
        cuda.atomic.add(<array>, <index>, <any>)
        cuda.atomic.<operation>(<array>, <index>, <number>)
        cuda.atomic.<operation>(b, <index2>, <number>)  print(<any>, 'text', <any>)  assert <any>
        del <variable>  raise ValueError('words', <number>)  return <number>  d1(<any>, <any>)
        d2(<any>)  w1 = d1(<any>, <any>)  w1 = d2(<any>)
        w1 = shared.array(shape=<shape>, dtype=<dtype>)  w1 = cuda.const.array_like(<any>)
        w1 = cuda.local.array(dtype=<dtype>, shape=<shape>)
        w1 = cuda.shared.array(<shape>, <dtype>, 16)  <any>  global G_INT  a.fill(<number>)
        b[<int>] = <any>  w1 = <any> if <bool> else <any>  raise <any>  def w1(p):<suite>
        try:<suite>except Exception:<suite>  with <any>:<suite>  import math
        w1 = (lambda p: p)(<any>)  match n:<case>  cuda.atomic.add(a, 0)  d1(<any>)
        d2(<any>, q=<int>)  w1 = self.N  tv[0] = <int>  print(<number>, sep='')  print(*<tuple>)
        yield <int>  w1 = <any> or <any>  <place> += <any>
    """),
    "operation": templates("""
        add  sub  max  min  exch  ??  and_  or_  xor  inc  dec  nanmin  nanmax  div
    """),
    "leave": templates("break  continue  break  return  <line>"),
    "result": templates("""
        p  p  p + 1  <of a function>  p  -p  p * 2.5  p > 0  G_INT  p if p else 1  ??  p[0]  p[1:]
        (p, 1)  None  'text'  v  v[1:]  v[0]  (v, 1)  p, p  p.shape  G_ARRAY  G_TUPLE
        cuda.grid(1)  float32(p)  settings  p[::1]  p.size  p[:, 0]  p.T  not p  (p,)  [p]
        p.reshape(2)  d2(p)
    """),
    "of a function": templates("1  2.5  p  p * p  abs(p)  math.sqrt(p)  int(p)"),
}  # fmt: skip
EXPRESSIONS = ["int", "float", "half", "complex", "bool", "array", "tuple", "any", "odd"]
DOUBTFUL = {*EXPRESSIONS, "index", "index2", "number"}
#: The first lines of a kernel, for the variables that it uses.
FIRST = {
    "iv": "iv = cuda.grid(1)",
    "fv": "fv = 0.5",
    "av": "av = a[1:]",
    "tv": "tv = (1, 2.5)",
    "sv": "sv = cuda.shared.array(4, float32)",
    "lv": "lv = cuda.local.array(4, float64)",
    "cv": "cv = cuda.const.array_like(G_ARRAY)",
    "w2": "w2 = 2",
    "constant": "constant = 6",
}


def environment(cuda) -> dict:
    """What the names outside a program's functions stand for."""
    import cmath

    from numba import boolean, float32, float64, int32, int64, literal_unroll, njit, prange
    from numba.cuda.random import xoroshiro128p_uniform_float32

    from_cuda = {name: getattr(cuda, name) for name in ("threadIdx", "atomic", "shared")}
    own = {"settings": Settings(), "G_OBJECT": object(), "on_cpu": njit(plain_function)}
    own |= {"libdevice": cuda.libdevice, "self": own["settings"], "G_SET": {1}}
    constants = {
        "G_INT": 3, "G_FLOAT": 2.5, "G_BOOL": True, "G_COMPLEX": 1 + 2j, "G_TUPLE": (2, 3),
        "G_MIXED": (1, 2.5), "G_ARRAY": np.arange(4.0), "G_LIST": [1, 2], "G_DICT": {1: 2},
        "G_TEXT": "text", "G_SCALAR": np.float32(2), "G_HUGE": 2**70, "G_POINT": Point(1, 2.5),
        "G_DATE": np.datetime64("2020-01-01"),
    }  # fmt: skip
    return {
        "cuda": cuda, "np": np, "math": math, "cmath": cmath, "types": types, "RECORD": RECORD,
        "Settings": Settings, "Colour": Colour, "Point": Point, "float32": float32,
        "float64": float64, "int32": int32, "int64": int64, "float16": types.float16,
        "boolean": boolean, "literal_unroll": literal_unroll, "prange": prange,
        "plain_function": plain_function, "record_type": numba.from_dtype(RECORD),
        "xoroshiro128p_uniform_float32": xoroshiro128p_uniform_float32,
        **from_cuda, **own, **constants,
    }  # fmt: skip


class Program:
    """A kernel with two device functions, and arguments for it."""

    def __init__(self, text: str, arguments: dict):
        self.text, self.arguments = text, arguments

    def __str__(self) -> str:
        used = self.used(self.text)
        shown = ", ".join(f"{name}: {_shown(self.arguments[name])}" for name in used)
        return f"{self.text}# {shown}"

    def used(self, text: str) -> list[str]:
        names = set(re.findall(r"\w+", text.partition("def kernel")[2]))
        return [name for name in self.arguments if name in names]

    def kernel(self, cuda) -> tuple[python_types.FunctionType, list]:
        """The kernel's function and the values of its arguments."""
        used = self.used(self.text)
        text = self.text.replace("def kernel()", f"def kernel({', '.join(used)})")
        function = function_of(text, f"drawn {hash(text)}", environment(cuda))
        return function, [self.arguments[name] for name in used]


def _shown(value) -> str:
    if not isinstance(value, np.ndarray):
        return f"{type(value).__name__} {value}"
    return (
        f"{value.dtype}{list(value.shape)}{value.strides}{'' if value.flags.writeable else ' ro'}"
    )


def arguments(chance: random.Random) -> dict:
    """Values for all arguments that a kernel may have: types and layouts are drawn."""
    real = chance.choice([np.float32, np.float64, np.float32, np.int16])
    whole = chance.choice([np.int32, np.int64, np.uint32, np.uint64, np.int8])
    square = np.ones((4, 4), real)
    laid = chance.choice(
        [square, square, square.T[:3], np.asfortranarray(square), square[::2, ::2]]
    )
    readonly = np.arange(4.0)
    readonly.flags.writeable = False
    record = np.zeros(4, RECORD)
    tuples = [(1, 2), (1, 2.5), (1, (2, 3)), (np.ones(3), 1), Point(1, 2.5), (True, 1j)]
    return {
        "n": chance.choice([5, 5, np.int32(5), np.uint8(5), True]),
        "m": whole(2),
        "x": chance.choice([0.5, np.float32(0.5)]),
        "y": real(1),
        "z": chance.choice([1j, np.complex64(1j)]),
        "flag": chance.choice([True, np.bool_(False)]),
        "a": chance.choice([np.ones(8, real), np.ones(16, real)[::2]]),
        "b": laid,
        "k": np.ones(4, whole),
        "ro": readonly,
        "e": np.array(1.0),
        "h": np.ones(4, np.float16),
        "c": np.ones(4, np.complex64),
        "l": np.ones(4, bool),
        "p": record,
        "r": record[0],
        "t": chance.choice(tuples),
        "o": np.zeros(4, chance.choice([np.float64, np.float32, np.int32])),
        "states": np.zeros(4, [("s0", np.uint64), ("s1", np.uint64)]),
    }


class Author:
    """Draws a program."""

    def __init__(self, seed: int | str, doubt: float = DOUBT):
        self.chance, self.doubt = random.Random(seed), doubt

    def program(self) -> Program:
        text = "\n".join(self.line("line") for _ in range(self.chance.randint(1, 4)))
        names = set(re.findall(r"\w+", text))
        first = [line for name, line in FIRST.items() if name in names]
        kernel = "def kernel():\n" + _indented("\n".join([*first, text]))
        return Program(
            f"{self.function('d2')}{self.function('d1')}{kernel}", arguments(self.chance)
        )

    def function(self, name: str) -> str:
        parameters = "p" if name == "d2" else "p, q"
        lines = []
        result = self.fill("<result>", 1)
        if name == "d2" and "d2" in result:
            lines.append("if p < 1:\n    return p")
        if self.chance.random() < 0.3:
            lines.append(f"if p > 0:\n    return {self.fill('<result>', 1)}")
        if "v" in re.findall(r"\w+", " ".join([*lines, result])):
            made = ["cuda.local.array(3, float64)", "cuda.shared.array(3, float32)", "p", "p[1:]"]
            lines.insert(0, f"v = {self.chance.choice(made)}")
        lines.append(f"return {result}")
        return f"@cuda.jit(device=True)\ndef {name}({parameters}):\n" + _indented("\n".join(lines))

    def line(self, kind: str, depth: int = 0) -> str:
        return self.fill(f"<{kind}>", depth)

    def fill(self, template: str, depth: int) -> str:
        """A template with all its places filled."""
        return re.sub(PLACE, lambda found: self.drawn(found[1], depth), template)

    def drawn(self, kind: str, depth: int) -> str:
        if kind in ("suite", "loop", "case"):
            lines = [self.line("line", depth + 1)]
            if kind == "loop" and self.chance.random() < 0.5:
                leave = self.line("leave", depth + 1)
                lines.append(f"if {self.drawn('bool', depth + 1)}:\n{_indented(leave)}".rstrip())
            text = _indented("\n".join(lines))
            return "\n" + (_indented(f"case 1:\n{text}") if kind == "case" else text)
        if kind in DOUBTFUL and self.chance.random() < self.doubt:
            kind = self.chance.choice(EXPRESSIONS)
        sure, doubtful = GRAMMAR[kind]
        choices = doubtful if doubtful and self.chance.random() < 3 * self.doubt else sure
        if depth >= DEEPEST:
            ends = [one for one in sure if not re.search(PLACE, one)]
            choices = ends or choices
        made = self.fill(self.chance.choice(choices), depth + 1)
        infix = kind in EXPRESSIONS and re.search(r" |^-|^~", made) and depth > 0
        return f"({made})" if infix else made


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.split("\n") if line.strip())


# ---------------------------------------------------------------------- the two answers
def by_numba(program: Program) -> str | None:
    """What numba-cuda's compiler refuses the program for; None if it takes it."""
    from numba import cuda
    from numba.cuda.compiler import compile_cuda

    from course.compiler.toolchain import device_answers

    with warnings.catch_warnings(), device_answers((7, 5)):
        warnings.simplefilter("ignore")
        try:
            kernel, values = program.kernel(cuda)
            kinds = tuple(cuda.jit(kernel).typeof_pyval(value) for value in values)
            compile_cuda(kernel, types.void, kinds, cc=(7, 5), nvvm_options={"opt": 3})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def by_simulator(program: Program) -> str | None:
    """What the simulator refuses the program for; None if it takes it."""
    from warpsim import cuda

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kernel, values = program.kernel(cuda)
            values = [_on_device(value) for value in values]
            cuda.jit(kernel).lane_program(*values)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def _on_device(value):
    """What has gaps can only be a view of a device array."""
    gaps = isinstance(value, np.ndarray) and not value.flags.forc
    return DeviceNDArray(value) if gaps else value


def difference(program: Program) -> tuple[str, str] | None:
    """Who refuses what the other takes, and why."""
    try:
        compile(program.text, "drawn", "exec")
    except SyntaxError:
        return None
    numba_says, here = by_numba(program), by_simulator(program)
    if (numba_says is None) == (here is None):
        crash = here and not here.startswith(("TypingError", "Unsupported", "TypeError"))
        return ("crashes here", here) if crash else None
    return ("only Numba refuses", numba_says) if numba_says else ("only here refused", here)


#: What the README lists: taken by Numba, refused here.
PUBLISHED = (
    "In is not supported", "NotIn is not supported", "is between values", "'Match' is not",
)  # fmt: skip


def known(reason: str) -> bool:
    """Is it a difference that warpsim/README.md lists?"""
    return any(part in reason for part in PUBLISHED)


def smaller(program: Program) -> Program:
    """The same difference with as few statements as possible."""
    kind = difference(program)[0]
    shrinks = True
    while shrinks:
        shrinks = False
        tree = ast.parse(program.text)
        for place in range(sum(1 for _ in _suites(tree))):
            for change in _changes(tree, place):
                text = ast.unparse(ast.fix_missing_locations(change)) + "\n"
                tried = Program(text, program.arguments)
                if text != program.text and (difference(tried) or [None])[0] == kind:
                    program, shrinks = tried, True
                    break
            if shrinks:
                break
    return program


def _suites(tree: ast.AST):
    """All lists of statements in functions."""
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            if isinstance(getattr(node, name, None), list) and getattr(node, name):
                yield node, name


def _changes(tree: ast.Module, place: int):
    """Trees with one statement less, or with a compound statement's suite instead of it."""
    node, name = list(_suites(tree))[place]
    for number in range(len(getattr(node, name))):
        for instead in ("nothing", "suite"):
            made = copy.deepcopy(tree)
            node, name = list(_suites(made))[place]
            statements = getattr(node, name)
            kept = getattr(statements[number], "body", []) if instead == "suite" else []
            if isinstance(node, ast.Module) and (
                instead == "suite" or number == len(statements) - 1
            ):
                continue
            statements[number : number + 1] = kept
            if not statements and name == "body":
                statements.append(ast.Pass())
            yield made


def main() -> None:
    """Draw programs, and print each difference with the smallest program that shows it."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--doubt", type=float, default=DOUBT)
    options.add_argument("--each", type=int, default=1, help="how many to print of a kind")
    chosen = options.parse_args()
    taken, found = 0, collections.defaultdict(list)
    for number in range(chosen.count):
        program = Author(f"{chosen.seed}-{number}", chosen.doubt).program()
        differs = difference(program)
        if differs is None:
            taken += by_simulator(program) is None
            continue
        reason = re.sub(r"\x1b\[\d*m|\d+|'[^']*'|\"[^\"]*\"", "", differs[1]).strip()
        found[differs[0], reason[:70]].append((number, program))
    print(f"{chosen.count} programs of seed {chosen.seed}, {taken} taken by both")
    for (who, reason), programs in sorted(found.items(), key=lambda pair: -len(pair[1])):
        print(f"\n===== {len(programs)} times {who}: {reason}")
        for number, program in programs[: chosen.each]:
            small = smaller(program)
            print(f"--- {chosen.seed}-{number}\n{small}", difference(small)[1][:900], sep="\n")


if __name__ == "__main__":
    main()
