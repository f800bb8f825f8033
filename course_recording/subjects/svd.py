"""The singular value decomposition of many matrices, whole and of rank 50, beside four libraries.

A time is that between two events around a call, with the data on the GPU. The host's work is
included, since all of these calls wait for the GPU in between. NumPy is timed by the host's clock.
The course's solvers allocate before the clock starts; the libraries have workspaces and pools.

Left out: a peer's call that would take longer than `LONGEST` seconds, judged by its call for the
batch before; the ladder's steps but for a batch of `STEPS_BATCH`; accuracy but for the first
`JUDGED` matrices of a batch; large batches of large matrices (`MOST` elements). A note says so.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from course.images import images
from course.kernels.svd import LADDER, RankSolver, Solver
from course.measure import event_clock
from course.measure.timing import Timing, timing_of

SIZES = (64, 128, 256, 512)
BATCHES = (1, 8, 64, 256, 1024)
MOST = 1 << 26  # elements of a batch
STEPS_BATCH = 64
OURS = (256, 64)  # size and batch where all kinds of matrices, and rank 50, are timed
KINDS = ("normal", "image", "deficient")
RANK = 50
JUDGED, LONGEST = 4, 2.5
SAMPLES, SECONDS = 7, 0.5
#: Largest errors: residual; singular value, relative to the largest one; orthogonality.
LIMITS = {"residual": 1e-6, "sigma": 5e-7, "orthogonality": 2e-6}
WORST = 1.05  # times the error of the best approximation of this rank, in each matrix


def run(bench):
    """Check and time steps and peers."""
    peers = peers_of(bench)
    for size in bench.parts(SIZES):
        before: dict[str, tuple[int, float]] = {}
        for batch in BATCHES:
            if batch * size * size > MOST:
                bench.notes.append(f"{batch} matrices of {size}x{size} left out: too many numbers")
                continue
            kinds = KINDS if (size, batch) == OURS else KINDS[:1]
            for kind in kinds:
                a = matrices(bench, kind, batch, size)
                whole(bench, kind, a, steps_of(batch, size))
                if kind == "normal" or size == OURS[0]:
                    beside(bench, kind, a, peers, before)
    for kind in KINDS:
        largest(bench, kind, matrices(bench, kind, OURS[1], OURS[0]))


def matrices(bench: Any, kind: str, batch: int, size: int) -> np.ndarray:
    """A batch of square matrices: noise, parts of photographs, or of a quarter of full rank."""
    if kind == "normal":
        return bench.rng.standard_normal((batch, size, size), dtype=np.float32)
    if kind == "deficient":
        rank = max(1, size // 4)
        left = bench.rng.standard_normal((batch, size, rank), dtype=np.float32)
        return left @ bench.rng.standard_normal((batch, rank, size), dtype=np.float32)
    photographs = [images.photograph(name) for name in images.photographs()]
    large = [image for image in photographs if min(image.shape) >= size]
    parts = []
    for i in range(batch):
        image = large[i % len(large)]
        row, column = (int(bench.rng.integers(0, side - size + 1)) for side in image.shape)
        parts.append(image[row : row + size, column : column + size])
    return np.stack(parts)


def steps_of(batch: int, size: int) -> list[str]:
    """The steps of the ladder that are timed."""
    if batch != STEPS_BATCH or size > OURS[0]:
        return ["auto"]
    return ["auto", *(name for name, step in LADDER.items() if size <= step.largest)]


# --- accuracy ------------------------------------------------------------------------------------


def accuracy(a: np.ndarray, factors: tuple[Any, Any, Any]) -> dict[str, float]:
    """The largest errors of u, s, vt in a batch, computed in float64: see `LIMITS`."""
    a, u, s, vt = (np.asarray(x, np.float64) for x in (a, *factors))
    exact = np.linalg.svd(a, compute_uv=False)
    one = np.eye(s.shape[-1])
    residual = np.linalg.norm(a - (u * s[:, None]) @ vt, axis=(1, 2))
    orthogonality = max(
        float(np.abs(u.swapaxes(1, 2) @ u - one).max()),
        float(np.abs(vt @ vt.swapaxes(1, 2) - one).max()),
    )
    return {
        "residual": float((residual / np.linalg.norm(a, axis=(1, 2))).max()),
        "sigma": float((np.abs(s - exact).max(1) / exact[:, 0]).max()),
        "orthogonality": orthogonality,
    }


def above_best(a: np.ndarray, factors: tuple[Any, Any, Any]) -> float:
    """A rank-k result's error over the best rank-k approximation's; the largest of a batch."""
    a, u, s, vt = (np.asarray(x, np.float64) for x in (a, *factors))
    exact = np.linalg.svd(a, compute_uv=False)[:, s.shape[1] :]
    error = np.linalg.norm(a - (u * s[:, None]) @ vt, axis=(1, 2))
    return float((error / np.sqrt((exact**2).sum(1))).max())


# --- clocks --------------------------------------------------------------------------------------


def timed(call: Callable[[], Any], clock: Callable[[Callable[[], Any]], float]) -> Timing:
    """Time a few calls after a first one, which does not count; only one where calls are slow."""
    first = clock(call)
    samples = [clock(call)]
    while len(samples) < SAMPLES and sum(samples) < 1e3 * SECONDS:
        samples.append(clock(call))
    return timing_of(samples, first_call=first)


def device_clock(call: Callable[[], Any]) -> float:
    """The time between two events around a call [ms]."""
    return event_clock.clock().between_events(call)


def host_clock(call: Callable[[], Any]) -> float:
    """The host's time of a call [ms]."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


# --- programs ------------------------------------------------------------------------------------


def keep(bench: Any, key: tuple[str, str, str], timing: Timing, figures: dict[str, float]) -> None:
    """Keep a program's rows: its time and the errors of its result."""
    bench.row(*key, "float32", timing)
    for metric, value in figures.items():
        bench.figure(*key, "float32", metric, "relative", value)


def device_factors(bench: Any, a: np.ndarray, k: int) -> list[Any]:
    """Memory on the GPU for factors, poisoned."""
    batch, m, n = a.shape
    shapes = (batch, m, k), (batch, k), (batch, k, n)
    return [bench.cuda.to_device(np.full(shape, np.nan, np.float32)) for shape in shapes]


def whole(bench: Any, kind: str, a: np.ndarray, steps: list[str]) -> None:
    """Check and time steps of the ladder; a wrong result gets no time."""
    shape, there = "x".join(map(str, a.shape)), bench.cuda.to_device(a)
    factors = device_factors(bench, a, min(a.shape[1:]))
    for name in steps:
        try:
            solver = Solver(*a.shape, name)
            solver(there, *factors)
            found = accuracy(a[:JUDGED], tuple(x[:JUDGED].copy_to_host() for x in factors))
            wrong = [metric for metric, limit in LIMITS.items() if not found[metric] <= limit]
            if wrong:
                raise ValueError(", ".join(f"{metric} {found[metric]:.2g}" for metric in wrong))
            timing = timed(lambda s=solver: s(there, *factors), device_clock)
        except Exception as problem:  # whatever it is, the others are still measured
            bench.fail(f"svd {kind} {name} {shape}", problem)
            continue
        keep(bench, (f"svd {kind}", name, shape), timing, found)
        bench.figure(f"svd {kind}", name, shape, "float32", "sweeps", "calls", solver.sweeps)


def peers_of(bench: Any) -> dict[str, tuple[Callable, Callable, Callable]]:
    """By name: a copy of a batch to the library, the call, and a copy of a result to the host."""
    found: dict[str, tuple[Callable, Callable, Callable]] = {}
    if cupy := bench.peer("cupy"):
        found["cupy"] = (
            cupy.asarray,
            lambda a: cupy.linalg.svd(a, full_matrices=False),
            cupy.asnumpy,
        )
    if torch := bench.peer("torch"):
        for driver in ("gesvdj", "gesvda"):

            def call(a, driver=driver):
                return torch.linalg.svd(a, full_matrices=False, driver=driver)

            found[f"torch {driver}"] = (
                lambda a: torch.from_numpy(a).cuda(), call, lambda x: x.cpu().numpy(),
            )  # fmt: skip
    found["numpy"] = np.asarray, lambda a: np.linalg.svd(a, full_matrices=False), np.asarray
    return found


def beside(
    bench: Any, kind: str, a: np.ndarray, peers: dict[str, tuple[Callable, Callable, Callable]],
    before: dict[str, tuple[int, float]],
) -> None:  # fmt: skip
    """Time the libraries; `before` has the batch and time [ms] of each one's last call."""
    shape = "x".join(map(str, a.shape))
    for name, (load, call, back) in peers.items():
        if name in before:
            batch, took = before[name]
            if took * len(a) / batch > 1e3 * LONGEST:
                bench.notes.append(f"{name} left out for {shape}: longer than {LONGEST} s")
                continue
        try:
            there = load(a)
            clock = host_clock if name == "numpy" else device_clock
            timing = timed(lambda c=call, x=there: c(x), clock)
            found = accuracy(a[:JUDGED], tuple(back(x)[:JUDGED] for x in call(there)))
        except Exception as problem:  # a library may fail in its own way
            bench.notes.append(f"{name} left out for {shape}: {problem}")
            continue
        before[name] = len(a), timing.median
        keep(bench, (f"svd {kind}", name, shape), timing, found)


def largest(bench: Any, kind: str, a: np.ndarray) -> None:
    """Time the 50 largest singular values, by a sketch, beside PyTorch's."""
    shape = "x".join(map(str, (*a.shape, RANK)))
    key, there = f"rank {RANK} {kind}", bench.cuda.to_device(a)
    factors = device_factors(bench, a, RANK)
    judged = kind != "deficient" or RANK < a.shape[1] // 4
    for power in (1, 2):
        solver = RankSolver(*a.shape, RANK, power)
        solver(there, *factors)
        found = tuple(x[:JUDGED].copy_to_host() for x in factors)
        figures = {"above best": above_best(a[:JUDGED], found)} if judged else {}
        if judged and power == 2 and not figures["above best"] <= WORST:
            bench.failures.append(
                f"{key} {shape}: {figures['above best']:.3f} times the best error"
            )
        timing = timed(lambda s=solver: s(there, *factors), device_clock)
        keep(bench, (key, f"{power} power steps", shape), timing, figures)
    if torch := bench.peer("torch"):
        tensor = torch.from_numpy(a).cuda()

        def lowrank():
            return torch.svd_lowrank(tensor, q=64, niter=2)

        timing = timed(lowrank, device_clock)
        u, s, v = (x.cpu().numpy()[:JUDGED] for x in lowrank())
        found = u[:, :, :RANK], s[:, :RANK], v[:, :, :RANK].swapaxes(1, 2)
        figures = {"above best": above_best(a[:JUDGED], found)} if judged else {}
        keep(bench, (key, "torch svd_lowrank", shape), timing, figures)
