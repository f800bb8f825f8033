"""Which tile a product of 16 bits takes, and how many blocks share its depth: models of the time.

>>> plan_for(Sizes(layout, rows, columns, depth, blocks, aligned), ("thin", "stored")).method
'thin'

The models count a plan's steps, bytes, loads and results, and multiply each count by a coefficient.
They were fitted on an H200 to products in a row: of tiles to 2,700 plans, to 11%, of "thin" to 730,
to 12%. Times of 111 plans of other shapes are within 8 to 12% (standard deviation) of the model's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course.heuristics.device import ceil_div

DEPTH = 64  # elements of the depth in a stage of a wgmma tile: 128 bytes of a row
CHUNK = 32  # elements of the depth that a warp of "thin" loads and multiplies at a time
GROUP = 128  # threads of a warpgroup
PAIR = 2  # float32 that the epilogue keeps for a column, at most: the bias, and a sum of weights
MAX_GRID_YZ = 65_535  # blocks along a grid's y and z

SHARED_LIMIT = 226 * 1024  # bytes of shared memory for a block's tiles, beside its barriers
STAGES = 3, 8  # of the ring in shared memory, at least and at most
SPLITS = (2, 4)  # blocks of a cluster that shares a depth: each reduces a whole number of warps
CLUSTER_SHARE = {2: 1, 4: 0.75}  # of the multiprocessors that are sure to hold such clusters
#: For `config_for` alone: cycles of one multiprocessor, measured on an H200.
COLUMN_CYCLES = 6  # of a tile beside its steps, for each of its columns
REDUCE_CYCLES = 1000, 10  # to reduce a cluster's sums: fixed cycles; bytes that a cycle adds
NARROW_TILE_FACTOR = 1.025  # steps are longer below 256 columns, where a is loaded more often
SMEM_CYCLES_SHARE = 0.92  # of shared memory's cycles that other work does not hide


class GemmConfig(NamedTuple):
    """A block's tile by wgmma, and its ring of stages in shared memory."""

    consumers: int  # warpgroups that multiply, 64 rows of results each
    columns: int  # of the tile: 16 to 256, a multiple of 16
    stages: int  # of the ring: tiles of both factors, 64 deep, that are in flight
    # tiles that a block computes one after the other; 3 stands for more. The results of an only
    # tile reuse the ring's memory. Up to two tiles are stored box by box, more as a whole
    waves: int = 3
    added: bool = False  # a residual is added: it is prefetched to memory beside the ring
    # float32 sums are stored, and `course.kernels.gemm.partial` reduces them: split-K
    partial: bool = False
    swapped: bool = False  # a and b have changed places: results or sums are stored transposed
    by_threads: bool = False  # threads store the results, whose rows TMA cannot address
    # two blocks, a cluster, have tiles one below the other. Each loads half of the tile of b that
    # both need, and multicasts it, so that L2 is read less
    paired: bool = False
    boxed: bool = False  # b is contiguous along its columns, so TMA loads whole boxes of 64

    rows = property(lambda self: 64 * self.consumers)
    threads = property(lambda self: GROUP * self.consumers + 32)
    boxes = property(lambda self: ceil_div(self.columns, 64))
    loaded = property(lambda self: 64 * self.boxes if self.boxed else self.columns)  # columns of b
    stage = property(lambda self: (self.rows + self.loaded) * DEPTH)  # elements
    own_results = property(lambda self: not self.partial and (self.waves > 1 or self.added))
    results = property(lambda self: self.own_results * self.stages * self.stage)  # first element
    tiled = property(lambda self: 2 * max(
        self.stages * self.stage, not self.partial and self.results + self.rows * 64 * self.boxes
    ))  # fmt: skip
    shared = property(  # bytes: ring and results, then `PAIR` values of each warpgroup's columns
        lambda self: self.tiled + (not self.partial) * 4 * PAIR * self.consumers * self.columns
    )

    def split(self, splits: int) -> tuple[int, int, int]:
        """A cluster block's first element of results, first byte of column values, and bytes."""
        results = max(self.stages * self.stage, 2 * self.rows * self.columns)  # behind its sums
        behind = 2 * (results + self.rows // splits * 64 * self.boxes)
        return results, behind, behind + 4 * PAIR * self.consumers * self.columns


class ThinConfig(NamedTuple):
    """A block's tiles by mma.sync. Their wide side is the rows of results, or, swapped, columns."""

    down: int  # mma fragments, 16 x 8, of a warp along the wide side: 1, 2 or 4
    across: int  # and along the thin side
    deep: int  # warps that share the depth of a tile
    beside: int  # tiles of a block, side by side along the wide side

    warps = property(lambda self: self.deep * self.beside)
    wide = property(lambda self: 16 * self.down)  # results of a tile
    thin = property(lambda self: 8 * self.across)


def staged_config(
    consumers: int, columns: int, waves: int, added: bool = False, splits: int = 1, **more: bool
) -> GemmConfig:
    """A tile with as many stages as fit into shared memory, beside results that need their own.

    `more` are its other fields. Stages are 0 where the float32 sums of a split tile do not fit.
    """
    bare = GemmConfig(consumers, columns, 0, waves, added, **more)
    results = bare.rows // splits * 64 * bare.boxes if bare.own_results or splits > 1 else 0
    behind = 0 if bare.partial else 8 * bare.consumers * columns
    stages = (SHARED_LIMIT - 2 * results - behind) // (2 * bare.stage)
    config = bare._replace(stages=min(stages, STAGES[1]))
    return config if splits == 1 or config.split(splits)[2] <= SHARED_LIMIT else bare


@functools.lru_cache(maxsize=1024)
def config_for(
    layout: str, rows: int, columns: int, depth: int, blocks: int,
    shared_by: tuple[int, ...] = (1, *SPLITS), added: bool = False,
) -> tuple[GemmConfig, int]:  # fmt: skip
    """The tile of a product, and how many blocks share its depth: one of `shared_by`.

    The plan with the fewest cycles of a block is best: tiles x steps x cycles of a step. Among
    these tiles that ranks better than the microseconds below. A step takes as long as the slower of
    two: tensor cores do 2,048 multiply-adds a cycle, shared memory moves 128 bytes. TMA writes each
    stage once; each consumer warpgroup reads its rows of a and all columns of b.

    A cluster runs within one GPC. Pairs find place on all multiprocessors, clusters of four surely
    on three quarters only. More clusters than that are taken only where `shared_by` lacks 1.
    """
    widths = range(64, 257, 16 if layout == "nt" else 64)

    def cycles(its: tuple[GemmConfig, int]) -> tuple:
        (config, splits), (consumers, wide, *_) = its, its[0]
        tiles = ceil_div(rows, config.rows) * ceil_div(columns, wide)
        loads = SMEM_CYCLES_SHARE * (128 * consumers + wide * (consumers + 1))
        step = max(2 * consumers * wide, loads) * (NARROW_TILE_FACTOR if wide < 256 else 1)
        found = ceil_div(ceil_div(depth, DEPTH), splits) * step + COLUMN_CYCLES * wide
        if splits > 1:
            given = 4 * config.rows * wide * (splits - 1) // splits
            return found + REDUCE_CYCLES[0] + given / REDUCE_CYCLES[1], its
        return ceil_div(tiles, blocks) * found, its

    found = []
    for consumers, wide, splits in itertools.product((1, 2), widths, shared_by):
        tiles = ceil_div(rows, 64 * consumers) * ceil_div(columns, wide)
        waves = min(ceil_div(tiles, blocks), 3) if splits == 1 else 1
        config = staged_config(consumers, wide, waves, added, splits)
        fits = splits == 1 or tiles * splits <= CLUSTER_SHARE[splits] * blocks or 1 not in shared_by
        if fits and config.stages >= (STAGES[0] if splits == 1 else 1):
            found.append((config, splits))
    return min(found, key=cycles)


# --- microseconds ---------------------------------------------------------------------------------

# Fitted on an H200 as said above: each is in microseconds, unless it is a factor or a share.
PS = 1e-6  # a picosecond
#: A launch; its tensor maps and mbarriers; if it fills the GPU, its wait for the launch in front,
#: beside which few blocks begin; the launch that copies factors first, and a byte that it copies.
LAUNCH, SETUP, FULL_GPU, COPY, COPY_BYTE = 1.13, 0.37, 0.88, 1.47, 0.494 * PS
#: Launches of one kernel that run beside each other, at most; the share of that wait that each has;
#: the share of a main loop that does not overlap with those beside it.
MOST_AT_ONCE, OWN_WAIT, OWN_LOOP = 4, 0.65, 0.55
REDUCE, REDUCE_RESULT, REDUCE_SUM = 1.55, 1.74 * PS, 1.59 * PS  # a reduction of partial sums
THIN_FULL_WARPS = 5  # warps of "thin" that fill a multiprocessor
#: In flight on a multiprocessor, beyond which latencies add up: warps x loads ** 0.5; results.
THIN_LOADS, THIN_RESULTS = 81, 2048
#: Latencies of "thin": a chunk, a load, a shift of unaligned words, a result at the end; a chunk of
#: lines that are not contiguous along the depth, for 1, 2 and 4 fragments down.
THIN_CHUNK, THIN_LOAD, THIN_SHIFT, THIN_RESULT = 0.271, 7.9e-3, 0.0469, 2.54e-3
THIN_LINES = 0, 0.164, 0.409
#: Throughput of "thin": bytes of matrices, of sectors that are loaded; a warp's loads, its sums.
THIN_BYTE, THIN_L2_BYTE, THIN_ISSUE, THIN_WARP_SUM = 0.0518 * PS, 0.0456 * PS, 0.458e-3, 1.25e-4
#: wgmma: a cycle, a step, a column's epilogue; a further warpgroup, and its epilogue of a column.
CYCLE, STEP, EPILOGUE, EXTRA_GROUP, EXTRA_END = 0.48e-3, 0.05, 5.17e-3, 0.114, 4.16e-3
PAIRING, SMEM_SHARE = 0.296, 0.857  # a pair of blocks; as `SMEM_CYCLES_SHARE`, fitted here
#: A byte that TMA loads; how much longer it takes where 128 bytes of a row lie in two lines of L2,
#: or begin between sectors. Main loop and loads overlap: the p of the p-norm that adds them.
TMA_BYTE, OFF_LINE, OFF_SECTOR, P_NORM = 0.0436 * PS, 0.55, 2.2, 1.5
#: Matrices of more bytes are read from DRAM: a byte of it, and where partial sums are stored.
L2_CAPACITY, DRAM_BYTE, SUMS_DRAM_BYTE = 45e6, 0.274 * PS, 0.237 * PS
THREAD_STORE, THREAD_WAVE = 0.181 * PS, 1.21  # threads store: a result; a wave's ends of rows
#: A tile's row that TMA stores of fewer than 64 columns. One at a time are loaded: a factor's rows
#: below 64 elements, a box's rows outside. A split step whose factor has rows below 32 elements.
TMA_ROW, SHORT_ROW, OUTSIDE_ROW, SHORT_STEP = 1.3e-3, 53 * PS, 0.86 * PS, 0.173
CLUSTER_SUM, CLUSTER_FACTOR = 1.08, 1.05  # a cluster's reduction; how much longer all takes
COPY_FACTOR = 0.94  # a copy that TMA can do without must cut the time below this share
STORED_FACTOR, THIN_FACTOR = 0.87, 1.03  # weigh times of "roles" and "split", and of "thin"


class Plan(NamedTuple):
    """What a method launches for a product."""

    time: float  # microseconds, by the model
    method: str  # a step of the ladder
    config: ThinConfig | GemmConfig
    splits: int  # blocks that share the depth of a tile
    swapped: bool = False  # of "thin": a and b change places. A `GemmConfig` has its own field
    copied: tuple[bool, bool] = (False, False)  # whether a and b are copied to aligned rows first


class Sizes(NamedTuple):
    """A product as the models see it, and the `blocks` that run at once: one a multiprocessor.

    `aligned`: whether rows of a, of b and of the results begin at multiples of 16 bytes. `added`:
    there is a residual. `begins_aligned`: the first result lies at a multiple of 16 bytes.
    """

    layout: str
    rows: int
    columns: int
    depth: int
    blocks: int
    aligned: tuple[bool, bool, bool]
    added: bool = False
    begins_aligned: bool = True


def _thin_tiles(p: Sizes) -> Iterator[tuple[ThinConfig, int, bool]]:
    """Candidates: a config, how many blocks share a tile's depth, whether columns are wide."""
    chunks = ceil_div(p.depth, CHUNK)
    for swapped, down, across in itertools.product((False, True), (1, 2, 4), (1, 2, 4)):
        wide, narrow = (p.columns, p.rows) if swapped else (p.rows, p.columns)
        empty = 8 * across >= 2 * narrow > 16 or 16 * down >= 2 * wide > 32
        if empty or ceil_div(narrow, 8 * across) > MAX_GRID_YZ or across > 2 * down:
            continue
        most = 4 if down * across == 16 else 8
        for deep in (1, 2, 4, 8):
            if deep > min(most, chunks) or 8 * deep < min(chunks, 9):
                continue
            beside = min(most // deep, ceil_div(wide, 16 * down))
            tiles = ceil_div(wide, 16 * down * beside) * ceil_div(narrow, 8 * across)
            most_splits = max(1, chunks // (2 * deep))
            shares = {min(ceil_div(p.blocks * n, tiles), most_splits) for n in (1, 2, 4)}
            for splits in sorted({1, *shares}):
                yield ThinConfig(down, across, deep, beside), splits, swapped


def _thin_time(p: Sizes, config: ThinConfig, splits: int, swapped: bool) -> float:
    factors = [*zip((p.rows, p.columns), (p.layout[0] == "n", p.layout[1] == "t"), p.aligned)]
    (wide, *how_wide), (narrow, *how_narrow) = factors[::-1] if swapped else factors
    down, across = ceil_div(wide, config.wide), ceil_div(narrow, config.thin)
    rounds = ceil_div(ceil_div(p.depth, CHUNK), splits * config.deep)
    blocks = ceil_div(down, config.beside) * across * splits
    each = ceil_div(blocks, p.blocks)
    loads, shifts = map(sum, zip(
        _accesses(2 * config.down, *how_wide), _accesses(config.across, *how_narrow)
    ))  # fmt: skip
    results = config.wide * config.thin
    pitch, crossed = (p.depth, config.wide / 2) if how_wide[0] else (wide, 16)
    fetched = 2 * p.depth * down * across * (config.wide + config.thin + crossed * (pitch % 16 > 0))
    issued = each * config.warps * (THIN_WARP_SUM * results + THIN_ISSUE * rounds * loads)
    lines = 0 if how_wide[0] else THIN_LINES[config.down // 2]
    waits = rounds * (THIN_CHUNK + THIN_LOAD * loads + THIN_SHIFT * shifts + lines)
    waits += THIN_RESULT * results / config.deep
    waits *= max(1, each * config.warps * loads**0.5 / THIN_LOADS, each * results / THIN_RESULTS)
    time = THIN_BYTE * _read(p) + THIN_L2_BYTE * fetched + issued + waits
    byte = DRAM_BYTE * (across if 2 * p.depth * wide > L2_CAPACITY else 1)  # of each tile across
    used = min(1, blocks * config.warps / THIN_FULL_WARPS / p.blocks)
    return _launched(p, time, used, splits * (splits > 1), byte)


def _launched(p, work, used, sums, byte):
    """Microseconds of a launch with `used`, a share of the GPU, then of reducing `sums`."""
    memory = byte * _read(p) * (_read(p) > L2_CAPACITY)
    behind = (REDUCE + (REDUCE_RESULT + REDUCE_SUM * sums) * p.rows * p.columns) * (sums > 0)
    return LAUNCH + FULL_GPU * used + (work**3 + memory**3) ** (1 / 3) + behind


def _read(p: Sizes) -> int:
    return 2 * (p.rows * p.depth + p.columns * p.depth + p.rows * p.columns)


def _accesses(lines: int, along: bool, aligned: bool) -> tuple[int, int]:
    """A warp's loads for its part of a factor, `CHUNK` deep, and shifts, counted by four words."""
    if aligned or not along and lines == 1:
        return (lines if along else 8), 0
    return (2 * lines, lines) if along else (16, 2 * max(lines // 2, 1))


class Tiles(NamedTuple):
    """Candidate plans of tiles by wgmma: entry n of all arrays is plan n."""

    consumers: np.ndarray
    columns: np.ndarray
    swapped: np.ndarray
    paired: np.ndarray
    splits: np.ndarray
    partial: np.ndarray


def _tile_times(p: Sizes, its: Tiles, copied: tuple[bool, bool] = (False, False)) -> np.ndarray:
    """Microseconds of each plan, with the launches that copy factors first and reduce sums last."""
    wide, partial, high = its.columns, its.partial, 64 * its.consumers
    rows, columns = np.where(its.swapped, ((p.columns,), (p.rows,)), ((p.rows,), (p.columns,)))
    tiles = -(-rows // high) * -(-columns // wide)
    tiles += its.paired * -(-columns // wide) * (-(-rows // high) % 2)
    steps, results = ceil_div(p.depth, DEPTH), p.rows * p.columns
    blocks = tiles * its.splits
    waves = np.where(partial | (its.splits == 1), -(-blocks // p.blocks), 1)
    cost_a, cost_b = (1 if copy else more for copy, more in zip(copied, _lines(p)))
    lines = np.where(its.swapped, ((cost_b,), (cost_a,)), ((cost_a,), (cost_b,)))
    boxes = -(-wide // 64)
    loaded = np.where(_boxed(p, its.swapped), 64 * boxes, wide)
    fetched = 2 * DEPTH * tiles * steps * (high * lines[0] + loaded * lines[1] / (1 + its.paired))
    sides = (p.rows, p.layout[0] == "t", cost_a), (p.columns, p.layout[1] == "n", cost_b)
    short = [(side, more) for side, along, more in sides if along and side < 64]
    outside = (p.layout[0] == "n") * np.maximum(np.where(its.swapped, wide, high) - p.rows, 0)
    outside += (p.layout[1] == "t") * np.maximum(np.where(its.swapped, high, wide) - p.columns, 0)
    outside *= np.where(partial, 1, its.splits)  # blocks of a cluster wait for each other
    serial = SHORT_ROW * sum(more / (1 + n // 32) for n, more in short) + OUTSIDE_ROW * outside
    waiting = serial * tiles * p.depth / np.where(partial, its.splits, 1 + its.paired)
    short_rows = (its.splits > 1) * sum(n < 32 for n, _ in short)
    cycles = np.maximum(
        2 * its.consumers * wide, SMEM_SHARE * (128 * its.consumers + loaded + its.consumers * wide)
    )
    main_loop = waves * -(-steps // its.splits) * (CYCLE * cycles + STEP + SHORT_STEP * short_rows)
    # in a row of launches the next ones begin where multiprocessors are free, unless kernels that
    # copy or reduce come between; multiprocessors that stay idle nevertheless do not load
    one_kernel = ~(partial | any(copied))
    available = np.where(~partial & (its.splits == 4), int(CLUSTER_SHARE[4] * p.blocks), p.blocks)
    at_once = np.clip(one_kernel * available // blocks, 1, MOST_AT_ONCE)
    idle = one_kernel * (1 + its.paired) * np.clip(p.blocks / (at_once * blocks) - 1, 0, 1)
    main_loop = main_loop * (OWN_LOOP + (1 - OWN_LOOP) / at_once)
    work = np.hypot((main_loop**P_NORM + (TMA_BYTE * fetched) ** P_NORM) ** (1 / P_NORM), waiting)
    more = its.consumers - 1
    work += (EPILOGUE + EXTRA_END * more) * waves * wide + EXTRA_GROUP * more + PAIRING * its.paired
    stored = THREAD_STORE * results + THREAD_WAVE * waves
    if p.aligned[2]:
        stored = CLUSTER_SUM * (its.splits > 1) + TMA_ROW * (p.columns < 64) * waves * high * boxes
    once = 2 * p.depth * (p.rows * cost_a + p.columns * cost_b)  # bytes, which few load slowly
    work += ~partial * stored + idle * TMA_BYTE * once
    used = np.where(one_kernel, OWN_WAIT / at_once, np.minimum(1, blocks / p.blocks))
    copies = sum(2 * p.depth * side for side, copy in zip((p.rows, p.columns), copied) if copy)
    sums, byte = partial * its.splits, np.where(partial, SUMS_DRAM_BYTE, DRAM_BYTE)
    time = SETUP + _launched(p, work, used, sums, byte) + (copies > 0) * COPY + COPY_BYTE * copies
    return time * np.where(~partial & (its.splits > 1), CLUSTER_FACTOR, 1)


def _lines(p: Sizes) -> list[float]:
    """Relative time of a byte of a and of b: above 1 where rows begin within a line of L2."""
    a = p.rows if p.layout[0] == "t" else p.depth
    b = p.depth if p.layout[1] == "t" else p.columns
    return [1 + OFF_LINE * (n % 64 > 0) + (OFF_SECTOR - OFF_LINE) * (n % 16 > 0) for n in (a, b)]


def _boxed(p: Sizes, swapped):
    """Whether the kernel's second factor, which is a if swapped, is contiguous along columns."""
    return (p.layout == "tn") | ((p.layout == "nn") & ~np.asarray(swapped))


@functools.cache
def _grid() -> tuple[np.ndarray, ...]:
    """Consumers, columns, swapped, paired, splits; -n: sums of n blocks a multiprocessor, about."""
    sums = itertools.product((1, 2, 3), range(16, 257, 16), (0, 1), (0, 1), (-1, -2, -3))
    stored = itertools.product((1, 2, 3), range(64, 257, 16), (0, 1), (0, 1), (1,))
    clusters = itertools.product((1, 2), range(64, 257, 16), (0,), (0,), SPLITS)
    # columns whose sums fit the registers; fewer where results are stored transposed
    most = ((256, 256), (256, 240), (192, 176))
    found = (
        (high, wide, swapped, paired, shares)
        for high, wide, swapped, paired, shares in (*sums, *stored, *clusters)
        if wide <= most[high - 1][swapped and shares > 0]
    )
    return tuple(np.array([*found]).T)


def _tiles(p: Sizes) -> Tiles:
    """The plans of `_grid` that can be launched for these sizes, and may pay."""
    consumers, wide, swapped, paired, shares = _grid()
    swapped, partial, high = swapped > 0, shares < 0, 64 * consumers
    rows, columns = np.where(swapped, ((p.columns,), (p.rows,)), ((p.rows,), (p.columns,)))
    tiles = -(-rows // high) * -(-columns // wide)
    most = max(1, ceil_div(p.depth, DEPTH) // 4)
    splits = np.where(partial, np.clip(-shares * p.blocks // tiles, 1, most), shares)
    limit = np.select([splits == n for n in SPLITS], [CLUSTER_SHARE[n] for n in SPLITS], np.inf)
    taken = partial | (tiles * splits <= limit * p.blocks)
    if not p.aligned[2] or p.added:  # stored by threads, or beside a residual
        stored = p.aligned[2] if p.added else (splits == 1) & p.begins_aligned
        taken &= partial | (~swapped & stored)
    taken &= (wide >= 32) | ~_boxed(p, swapped)
    pays = (rows > high) & (max(_lines(p)) > 1)
    pays &= (wide >= 80) | (columns < 64) & (columns % 16 > 0) & _boxed(p, swapped) & ~partial
    taken &= (pays & (p.blocks > 1)) | (paired == 0)
    return Tiles(*(its[taken] for its in (consumers, wide, swapped, paired > 0, splits, partial)))


def _tile(p: Sizes, its: Tiles, n: int) -> tuple[GemmConfig, int]:
    """The config of a plan, with the stages that fit, and its splits."""
    consumers, wide, swapped, paired, splits, partial = (one[n].item() for one in its)
    rows, columns = (p.columns, p.rows) if swapped else (p.rows, p.columns)
    tiles = ceil_div(rows, 64 * consumers) * ceil_div(columns, wide)
    boxed = wide % 64 > 0 and bool(_boxed(p, swapped))
    if partial:
        waves = ceil_div(tiles * splits, p.blocks)
        return partial_tile(consumers, wide, waves, swapped, paired=paired, boxed=boxed), splits
    waves = min(ceil_div(tiles, p.blocks), 3) if splits == 1 else 1
    more = {"by_threads": not p.aligned[2], "swapped": swapped, "paired": paired, "boxed": boxed}
    return staged_config(consumers, wide, waves, p.added, splits, **more), splits


def partial_tile(
    consumers: int, columns: int, waves: int, swapped: bool = False, **more: bool
) -> GemmConfig:
    """A tile whose float32 sums are stored for another launch, with as many stages as fit."""
    waves = 1 if waves == 1 else 3
    return staged_config(consumers, columns, waves, partial=True, swapped=swapped, **more)


@functools.lru_cache(maxsize=1024)
def thin_plan(p: Sizes) -> Plan:
    """The fastest plan of "thin", which loads the factors straight into registers."""
    return min(Plan(_thin_time(p, *its), "thin", *its) for its in _thin_tiles(p))


@functools.lru_cache(maxsize=1024)
def stored_plan(p: Sizes) -> Plan:
    """The best of "roles" and "split": TMA loads factors as they lie, and stores the results."""
    config, splits = config_for(*p[:5], added=p.added)
    fields = config.consumers, config.columns, False, False, splits, False
    time = _tile_times(p, Tiles(*(np.array([its]) for its in fields)))
    return Plan(time.item(), "roles" if splits == 1 else "split", config, splits)


@functools.lru_cache(maxsize=1024)
def partial_plan(p: Sizes) -> Plan:
    """The fastest of "partial": results are stored by TMA or by threads, or sums are reduced.

    A factor whose rows TMA cannot address is copied first; one that it reads slowly, if that pays.
    """
    its, plans = _tiles(p), []
    # if contiguous along the depth, a slow factor may be copied: a box has 128 bytes of each row.
    # Boxes of others lie side by side; these are copied if rows of 16 bytes are read from DRAM
    ways = []
    for aligned, more, along, side in zip(
        p.aligned, _lines(p), (p.layout != "tn", p.layout == "nt"), (p.rows, p.columns)
    ):
        must = not aligned or (not along and side <= 8 and _read(p) > L2_CAPACITY)
        ways.append((False, True)[must : 1 + (must or (more > 1 and along))])
    for copied in itertools.product(*ways):
        times = _tile_times(p, its, copied)
        for n in np.argsort(times, kind="stable"):
            config, splits = _tile(p, its, n)
            # with three stages, three warpgroups would wait for the next tile's loads
            stored = config.own_results and not config.by_threads
            if config.stages >= STAGES[0] + (stored and config.consumers == 3):
                plans.append(Plan(times[n].item(), "partial", config, splits, copied=copied))
                break
    return min(plans, key=lambda plan: plan.time / COPY_FACTOR ** (sum(plan.copied)))


def plan_for(p: Sizes, methods: tuple[str, ...]) -> Plan:
    """The best of some of "thin", "partial" and "stored", which wins unless clearly slower."""
    plans = {"thin": thin_plan, "partial": partial_plan, "stored": stored_plan}
    stored = 1 if max(_lines(p)) > 1 else STORED_FACTOR
    weights = {"thin": THIN_FACTOR, "partial": 1, "roles": stored, "split": stored}
    found = (plans[method](p) for method in methods)
    return min(found, key=lambda plan: plan.time * weights[plan.method])
