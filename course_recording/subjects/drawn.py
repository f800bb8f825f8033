"""Public functions on drawn shapes, beside their peers: geometric mean and worst of each.

A part of this subject is a function with its peers. Its shapes, layouts and types are drawn by the
seed: sides are log-uniform, half of them multiples of 8, a quarter odd; a problem has at most 2 GB
and 10^13 operations. Calls are interleaved. The metric "time" is the GPU's time, with data left
where the call before left it; "whole call" is the host's time until the work is done. 64 rows of a
result are compared with float64. A call that waits for its own result, as an SVD does, is timed
alone, behind work that hides its first launches: 3 to 21 times, as often as `ALONE` ms allow.

Rows "best peer / ours" of the shape "all" are over all shapes that the function takes: above 1 the
function is faster than its best peer. A shape that it refuses has a row "refused". A shape that it
hands to a library has its ratio in a row "handed over", which does not count.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from course.backend import one_line
from course.dispatch.slots import ArraySlot, in_c_order
from course.heuristics.reconstruct import ImageProblem
from course.kernels.activation import activation
from course.kernels.attention import attention
from course.kernels.gemm.half import GemmProblem, gemm
from course.kernels.norm import layer_norm
from course.kernels.reconstruct import reconstruct
from course.kernels.reduce import reduction
from course.kernels.softmax import softmax
from course.kernels.svd import library, rank_k, svd
from course.kernels.transpose import transpose
from course.measure import event_clock
from course.measure.timing import timing_of
from course_recording.frame import WrongResult

SHAPES = 64
MOST_BYTES, MOST_OPERATIONS = 2e9, 1e13
ROUNDS = 7
SECONDS = 0.006  # for a call in a round: 14 functions, 64 shapes, all peers in ten minutes
SLOW = 20.0  # a peer this many times slower than the fastest is timed once; where calls wait:
SLOW_ALONE, ALONE, HEAD_START = 5.0, 100.0, 0.2  # factor; ms of all rounds; of work before a call
LIMITS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
COMPILED = 64  # recompilations that torch.compile may make; by default it gives up after eight
SIXTEEN_BITS, FLOATS = ("float16", "bfloat16"), ("float32", "float16", "bfloat16")
OURS, BEST = "ours", "best peer / ours"

Call = Callable[[], Any]


class Drawn(NamedTuple):
    """A drawn problem: our call, the peers' calls, and a function for our result's error.

    foreseen: by peer, a call on a part of the problem, and how many such parts the problem has.
    """

    shape: str
    dtype: str
    ours: Call
    peers: dict[str, Call]
    error: Callable[[Any], float]
    limit: float
    foreseen: dict[str, tuple[Call, float]] = {}
    handed: bool = False  # our function hands the problem to a library
    waits: bool = False  # calls wait for their own results, so that they cannot be queued


def run(bench):
    """Time each function on its drawn shapes, then say geometric mean and worst."""
    torch = bench.peer("torch")
    if not torch:
        return
    torch._dynamo.config.recompile_limit = COMPILED
    for name in bench.parts(FUNCTIONS):
        rng = np.random.default_rng([bench.seed, zlib.crc32(name.encode())])
        torch.manual_seed(bench.seed)
        ratios: dict[str, list[tuple[float, str]]] = {"time": [], "whole call": []}
        for problem in itertools.islice(unlike(FUNCTIONS[name](rng, bench, torch)), SHAPES):
            for metric, ratio in _measured(bench, name, problem).items():
                if not problem.handed:
                    ratios[metric].append((ratio, problem.shape))
                elif metric == "time":
                    bench.figure(name, BEST, *problem[:2], "handed over", "x", ratio)
            torch.cuda.empty_cache()
        for metric, found in ratios.items():
            _summed_up(bench, name, metric, found)


def unlike(problems: Iterator[Drawn | None]) -> Iterator[Drawn]:
    """Each shape and dtype once; None is skipped."""
    seen: set[tuple[str, str]] = set()
    for problem in problems:
        if problem and (problem.shape, problem.dtype) not in seen:
            seen.add((problem.shape, problem.dtype))
            yield problem


def _summed_up(bench, name, metric, found):
    if not found:
        return
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in found))
    worst, where = min(found)
    bench.figure(name, BEST, "all", "", f"geometric mean, {metric}", "x", mean)
    bench.figure(name, BEST, where, "", f"worst, {metric}", "x", worst)
    bench.say(f"  {name}, {metric}: mean {mean:.3f}, worst {worst:.3f} ({where}), {len(found)}")


def _measured(bench: Any, name: str, problem: Drawn) -> dict[str, float]:
    """Check and time a problem; by metric, the best peer's time over ours. Empty if refused."""
    clock, shape, dtype = event_clock.clock(), problem.shape, problem.dtype
    try:
        error = problem.error(problem.ours())
    except (TypeError, ValueError) as refused:
        bench.figure(name, OURS, shape, dtype, "refused", "x", 1)
        bench.say(f"  {name} {shape} {dtype}: refused, {one_line(refused)}")
        return {}
    except Exception as problem_here:  # whatever a kernel raises, other shapes are measured
        bench.fail(f"{name} {shape} {dtype}", problem_here)
        return {}
    if not error <= problem.limit:
        wrong = WrongResult(f"the relative error is {error:.3g}; {problem.limit:.3g} is allowed")
        bench.fail(f"{name} {shape} {dtype}", wrong)
        return {}
    calls, slow_from = {OURS: problem.ours}, SLOW_ALONE if problem.waits else SLOW
    firsts = {OURS: clock.wall(problem.ours)}  # the second call; the check made the first
    for peer, call in problem.peers.items():
        try:
            if peer in problem.foreseen:
                part, times = problem.foreseen[peer]
                part()
                expected = times * clock.wall(part)
                if expected > slow_from * min(firsts.values()):
                    bench.say(f"  {name} {shape} {dtype}: without {peer}, about {expected:.0f} ms")
                    continue
            call()
            firsts[peer] = min(clock.wall(call) for _ in range(2))
        except Exception as cannot:  # a backend that does not take the shape is no peer of it
            bench.say(f"  {name} {shape} {dtype}: without {peer}, {one_line(cannot, 80)}")
            continue
        calls[peer] = call
    fastest = min(firsts.values())
    slow = {peer for peer in calls if firsts[peer] > slow_from * fastest and peer != OURS}
    times = {each: [firsts[each]] if each in slow else [] for each in calls}
    walls = {each: list(times[each]) for each in calls}
    timed = {each: call for each, call in calls.items() if each not in slow}
    rounds, sampling = ROUNDS, _together
    if problem.waits:
        taken = sum(firsts[each] for each in timed)
        rounds, sampling = min(max(3, int(ALONE / taken)), 3 * ROUNDS), _alone
    sampled = {each: sampling(clock, call) for each, call in timed.items()}
    for _ in range(rounds):
        for each in timed:
            times[each] += sampled[each]()
    for _ in range(rounds):
        for each, call in timed.items():
            walls[each].append(clock.wall(call))
    ratios = {}
    for metric, found in (("time", times), ("whole call", walls)):
        for each, samples in found.items():
            bench.row(name, each, shape, dtype, timing_of(samples), metric)
        medians = {each: statistics.median(samples) for each, samples in found.items()}
        if len(medians) > 1:
            ours = medians.pop(OURS)
            ratios[metric] = min(medians.values()) / ours
    return ratios


def _together(clock: Any, call: Call) -> Callable[[], list[float]]:
    """A function that times calls in a row, which can be queued."""
    cost = clock.launch_cost(itertools.repeat(call), 4, SECONDS)
    return lambda: clock.samples(itertools.repeat(call), 1, cost, seconds=SECONDS)[0]


def _alone(clock: Any, call: Call) -> Callable[[], list[float]]:
    """A function that times one call that waits for its result."""
    return lambda: [clock.queued([call], HEAD_START)[0]]


# --- what is drawn --------------------------------------------------------------------------------


def side(rng: np.random.Generator, least: int, most: int) -> int:
    """A log-uniform whole number: half are multiples of 8, a quarter odd."""
    drawn = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    kind = rng.integers(4)
    if kind < 2 and most >= 8:
        drawn = min(max(round(drawn / 8), -(-least // 8)), most // 8) * 8
    elif kind == 2:
        drawn = drawn | 1 if drawn < most else drawn
    return max(drawn, least)


def _random(torch: Any, *shape: int, dtype: str = "float32") -> Any:
    return torch.rand(shape, device="cuda", dtype=torch.float32).sub_(0.5).to(getattr(torch, dtype))


def _relative(torch: Any, given: Any, right: Any) -> float:
    difference = torch.linalg.vector_norm(given.double() - right)
    return float(difference / torch.linalg.vector_norm(right).clamp_min(1e-30))


def _each(problem: Callable[..., Drawn | None], *how: Any) -> Callable[..., Iterator[Drawn | None]]:
    """Problems of one kind without end; None in place of one that is too large."""
    return lambda *given: (problem(*given, *how) for _ in itertools.count())


def _product(rng, bench, torch, extra=False) -> Drawn | None:
    m, n = side(rng, 1, 16384), side(rng, 1, 16384)
    k, layout = side(rng, 16, 100_000), str(rng.choice(["nn", "nt", "tn"]))
    dtype, function = str(rng.choice(SIXTEEN_BITS)), str(rng.choice(["", "gelu", "gelu tanh"]))
    if 2 * (m * k + k * n + m * n) > MOST_BYTES or 2 * m * n * k > MOST_OPERATIONS:
        return None
    a = _random(torch, *((k, m) if layout == "tn" else (m, k)), dtype=dtype)
    b = _random(torch, *((n, k) if layout == "nt" else (k, n)), dtype=dtype)
    left, right = (a.t() if layout == "tn" else a), (b.t() if layout == "nt" else b)
    a16, b16, bias16, out16 = (
        ArraySlot(0, its, in_c_order(its, 2), np.dtype("float16"))
        for its in ((*a.shape,), (*b.shape,), (n,), (m, n))
    )
    more = (bias16, None, out16, layout, function) if extra else (None, None, out16, layout)
    handed = gemm.ladder.best(GemmProblem.of(a16, b16, *more)) == "library"
    if not extra:
        return Drawn(
            f"{m}x{n}x{k} {layout}", dtype, lambda: gemm(a, b, layout),
            {"torch.matmul": lambda: torch.matmul(left, right)},
            lambda out: _relative(torch, out[:64], left[:64].double() @ right.double()),
            LIMITS[dtype], handed=handed,
        )  # fmt: skip
    bias = _random(torch, n, dtype=dtype)

    def error(out):
        right64, left64 = right.double(), left[:64].double()
        return _relative(torch, out[:64], _linear(bias.double(), left64, right64, function))

    given = bias, left, right, function
    peers = {"addmm, activation": lambda: _linear(*given)}
    if function:
        peers["compiled"] = lambda: _compiled_linear()(*given)
    if function == "gelu tanh":
        peers["_addmm_activation"] = lambda: torch._addmm_activation(
            bias, left, right, use_gelu=True
        )
    return Drawn(
        f"{m}x{n}x{k} {layout} {function}".strip(), dtype,
        lambda: gemm(a, b, layout, bias, function), peers, error, LIMITS[dtype],
        handed=handed,
    )  # fmt: skip


def _linear(bias: Any, left: Any, right: Any, function: str) -> Any:
    import torch

    sums, tanh = torch.addmm(bias, left, right), "tanh" if function == "gelu tanh" else "none"
    return torch.nn.functional.gelu(sums, approximate=tanh) if function else sums


@functools.cache
def _compiled_linear() -> Call:
    import torch

    return torch.compile(_linear, dynamic=True)


def _attention(rng, bench, torch, most) -> Drawn | None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION}  # fmt: skip
    batch, heads = side(rng, 1, 64), side(rng, 1, 32)
    tokens, size = side(rng, 16, most), int(rng.choice([32, 64, 80, 96, 128]))
    dtype = str(rng.choice(SIXTEEN_BITS))
    if 8 * batch * heads * tokens * size > MOST_BYTES:
        return None
    if 4 * batch * heads * tokens**2 * size > MOST_OPERATIONS:
        return None
    q, k, v = (_random(torch, batch, tokens, heads, size, dtype=dtype) for _ in range(3))

    def peer(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            )

    def error(out):
        rows = q[0, :64, 0].double() @ k[0, :, 0].double().t() * size**-0.5
        right = torch.softmax(rows, 1) @ v[0, :, 0].double()
        return _relative(torch, out[0, :64, :size], right)

    return Drawn(
        f"{batch}x{tokens}x{heads}x{size}", dtype, lambda: attention(q, k, v),
        {name: partial(peer, its) for name, its in backends.items()}, error, 4 * LIMITS[dtype],
    )  # fmt: skip


def _image(rng, bench, torch, stacked=False) -> Drawn | None:
    images = side(rng, 2, 4096) if stacked else 1
    m, n = side(rng, 8, 512 if stacked else 8192), side(rng, 8, 512 if stacked else 8192)
    r = min(m, n)
    k = side(rng, 1, r)
    if 4 * images * (m * r + r * n + m * n) > MOST_BYTES:
        return None
    shape = (images,) if stacked else ()
    u, s, vt = (_random(torch, *shape, *its) for its in ((m, r), (r,), (r, n)))
    peers = {}
    if cupy := bench.peer("cupy"):
        left, middle, right = map(cupy.asarray, (u, s, vt))
        peers["CuPy"] = lambda: (left[..., :k] * middle[..., None, :k]) @ right[..., :k, :]
    if stacked:
        peers["torch.bmm"] = lambda: torch.bmm(u[..., :k] * s[:, None, :k], vt[:, :k])

    def error(out):
        rows = u[..., :64, :k].double() * s[..., None, :k].double()
        return _relative(torch, out[..., :64, :], rows @ vt[..., :k, :].double())

    step, _ = reconstruct.ladder.choose("auto", ImageProblem.of_shape(m, n, k, *shape))
    return Drawn(
        f"{f'{images}x' if stacked else ''}{m}x{n}x{k}", "float32",
        lambda: reconstruct(u, s, vt, k), peers, error, LIMITS["float32"],
        handed=step == "library",
    )  # fmt: skip


def _rows(rng, bench, torch, norm=False) -> Iterator[Drawn | None]:
    functional, plain = torch.nn.functional, None
    if bench.peer("triton"):
        from course_recording.peers import triton as plain

    def one(x, gamma, beta, gelu):
        y = functional.layer_norm(x, x.shape[-1:], gamma, beta) if norm else torch.softmax(x, 1)
        return functional.gelu(y) if gelu else y

    compiled = torch.compile(one)

    def problem() -> Drawn | None:
        rows, columns = side(rng, 1, 200_000), side(rng, 8, 131_072)
        dtype, gelu = str(rng.choice(FLOATS)), norm and bool(rng.integers(2))
        if 2 * rows * columns * (4 if dtype == "float32" else 2) > MOST_BYTES / 2:
            return None
        x = _random(torch, rows, columns, dtype=dtype)
        gamma, beta = (_random(torch, columns, dtype=dtype) for _ in range(2))
        given, out = (x, gamma, beta, gelu), torch.empty_like(x)
        peers = {"eager": lambda: one(*given), "compiled": lambda: compiled(*given)}
        if plain and norm:
            peers["Triton"] = lambda: plain.layer_norm(x, gamma, beta, 1e-5, out, gelu)
        elif plain:
            peers["Triton"] = lambda: plain.softmax(x, out)

        def ours():
            if norm:
                return layer_norm(x, gamma, beta, activation="gelu" if gelu else None)
            return softmax(x)

        def error(out):
            rows, *parameters = (each.double() for each in (x[:64], gamma, beta))
            return _relative(torch, out[:64], one(rows, *parameters, gelu))

        limit = LIMITS[dtype]
        if dtype == "float16" and not norm:  # small shares are subnormal, 2**-24 apart
            limit += columns * 2.0**-25
        return Drawn(f"{rows}x{columns}{' gelu' if gelu else ''}", dtype, ours, peers, error, limit)

    return (problem() for _ in itertools.count())


def _activation(rng, bench, torch) -> Drawn:
    size, dtype = side(rng, 1, 250_000_000), str(rng.choice(FLOATS))
    x, name = _random(torch, size, dtype=dtype), str(rng.choice(["gelu", "silu", "relu"]))
    peer = getattr(torch.nn.functional, name)
    return Drawn(
        f"{size} {name}", dtype, lambda: activation(x, name), {"PyTorch": lambda: peer(x)},
        lambda out: _relative(torch, out[:65536], peer(x[:65536].double())), LIMITS[dtype],
    )  # fmt: skip


def _reduction(rng, bench, torch, what) -> Drawn:
    size, dtype = side(rng, 1, 250_000_000), str(rng.choice(FLOATS))
    x, result = _random(torch, size, dtype=dtype), torch.empty(1, device="cuda")
    named = {"sum": "sum", "max": "amax"}[what]
    peers = {"PyTorch": lambda: getattr(x, named)()}
    cupy = bench.peer("cupy")
    if cupy and dtype != "bfloat16":
        there = cupy.asarray(x)
        peers["CuPy"] = lambda: getattr(there, what)()

    def error(out):
        right = getattr(x.double(), named)()
        least = x.double().abs().sum() if what == "sum" else right.abs()
        return float((out.double() - right).abs().max() / least.clamp_min(1e-30))

    return Drawn(
        f"{size}", dtype, lambda: reduction(x, what, out=result), peers, error, LIMITS["float32"]
    )


def _transpose(rng, bench, torch) -> Drawn | None:
    m, n = side(rng, 1, 32_768), side(rng, 1, 32_768)
    if 8 * m * n > MOST_BYTES:
        return None
    x = _random(torch, m, n)
    peers = {"PyTorch": lambda: x.t().clone(memory_format=torch.contiguous_format)}
    if cupy := bench.peer("cupy"):
        there = cupy.asarray(x)
        peers["CuPy"] = lambda: there.T.copy()
    return Drawn(
        f"{m}x{n}", "float32", lambda: transpose(x), peers,
        lambda out: float((out != x.t()).sum()), 0.0,
    )  # fmt: skip


def _decomposition(rng, bench, torch, ranks=False) -> Drawn | None:
    batch, m, n = side(rng, 1, 4096), side(rng, 8, 1024), side(rng, 8, 1024)
    k = side(rng, 1, min(m, n) // 4)
    if batch * m * n > 30_000_000 or batch * max(m, n) * min(m, n) ** 2 > 1e11:
        return None
    a = _random(torch, batch, m, n)

    def peer(driver, some=a):
        return torch.linalg.svd(some, full_matrices=False, driver=driver)

    peers = {driver: partial(peer, driver) for driver in ("gesvda", "gesvdj", "gesvd")}
    foreseen = {
        driver: (partial(peer, driver, a[:1]), float(batch))
        for driver in ("gesvdj", "gesvd")
        # up to 32 rows and columns gesvdj decomposes all matrices at once, else one by one
        if batch > 2 and not (driver == "gesvdj" and max(m, n) <= 32)
    }
    if ranks:
        peers["svd_lowrank"] = lambda: torch.svd_lowrank(a, k, niter=2)

    def error(found):
        some = [0, batch // 2, -1]
        x, u, s, vt = (each[some].double() for each in (a, *found))
        one = torch.eye(s.shape[1], dtype=x.dtype, device=x.device).expand(3, -1, -1)
        product = (u * s[:, None]) @ vt
        errors = [_relative(torch, each, one) for each in (u.mT @ u, vt @ vt.mT)]
        errors.append(_relative(torch, u.mT @ x @ vt.mT, torch.diag_embed(s)))
        if not ranks:
            return max(*errors, _relative(torch, product, x))
        # the least squared error of rank k: eigenvalues of the smaller Gram matrix, in float64
        squares = torch.linalg.eigvalsh(x.mT @ x if m > n else x @ x.mT)[:, : min(m, n) - k]
        excess = (x - product).square().sum((1, 2)) / squares.sum(1).clamp_min(1e-30)
        return float(excess.max().sqrt()) - 1 if max(errors) <= 5e-6 else math.inf

    return Drawn(
        f"{batch}x{m}x{n}{f' k={k}' if ranks else ''}", "float32",
        (lambda: rank_k(a, k)) if ranks else (lambda: svd(a)), peers, error,
        0.1 if ranks else 5e-6, foreseen, library.takes((batch, m, n), k if ranks else None), True,
    )  # fmt: skip


#: Drawn problems without end, by the name of a part.
FUNCTIONS = {
    "product": _each(_product),
    "product with bias": _each(_product, True),
    "attention to 1,024": _each(_attention, 1024),
    "attention to 8,192": _each(_attention, 8192),
    "reconstruct": _each(_image),
    "reconstruct stacks": _each(_image, True),
    "layer_norm": lambda *given: _rows(*given, norm=True),
    "softmax": _rows,
    "sum": _each(_reduction, "sum"),
    "max": _each(_reduction, "max"),
    "activation": _each(_activation),
    "transpose": _each(_transpose),
    "svd": _each(_decomposition),
    "rank_k": _each(_decomposition, True),
}
