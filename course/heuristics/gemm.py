"""Which tile a product of 16 bits takes, and how many blocks share its depth: models of the time.

>>> plan_for(layout, rows, columns, depth, blocks, aligned).method
'thin'

Times follow from what is counted, each with a factor: fitted to 2,700 plans of 900 drawn shapes, on
an H200, to 11 in a hundred.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course.heuristics.device import ceil_div

DEPTH = 64  # of a tile by wgmma: 128 bytes of a row
CHUNK = 32  # of the depth, that a warp of a thin product takes at a time
GROUP = 128  # threads of a warpgroup
PAIR = 2  # numbers of a column, at most, that its results need
MOST = 65_535  # blocks of a grid's y and z

SHARED_LIMIT = 226 * 1024  # bytes of shared memory for a block's tiles, beside its barriers
STAGES = 3, 8  # at least and at most
SPLITS = (2, 4)  # blocks of a cluster; a whole number of warps for each
CLUSTERED = {2: 1, 4: 0.75}  # of the multiprocessors, that clusters can surely have
#: Of `config_for`, by measurements on an H200, in cycles of one multiprocessor.
TILE_CYCLES = 6  # that a tile takes besides its steps, for each of its columns
ADD_CYCLES = 1000, 10  # to add the sums of a cluster's blocks: once, and bytes in a cycle
SLOWER = 1.025  # a narrower tile than 256 is read more often
SEEN = 0.92  # of shared memory's time


class GemmConfig(NamedTuple):
    """How a block's tile is made."""

    consumers: int  # warpgroups that multiply, 64 rows of results each
    columns: int  # of the tile: 16 to 256, a multiple of 16
    stages: int  # tiles of both factors, 64 deep, that are in flight
    # tiles of the results that a block takes, one after the other; 3 for more. Results of an only
    # tile lie where the factors' tiles were; of one or two a box is stored when it is there
    waves: int = 3
    # a residual is added. It is prefetched, so no tile of the factors can lie there
    added: bool = False
    # sums are stored as they are, see `course.kernels.gemm.partial`: parts of the depth are tiles
    partial: bool = False
    swapped: bool = False  # the factors have changed places: sums or results are stored transposed
    by_threads: bool = False  # rows of results begin anywhere, where TMA does not store them
    # two blocks, a cluster, have tiles one below the other. Each loads half of their common tile
    # of b, to both: L2 is read less
    paired: bool = False
    boxed: bool = False  # neighbours of b lie along the columns: they come in whole boxes of 64

    rows = property(lambda self: 64 * self.consumers)
    threads = property(lambda self: GROUP * self.consumers + 32)
    boxes = property(lambda self: ceil_div(self.columns, 64))
    loaded = property(lambda self: 64 * self.boxes if self.boxed else self.columns)  # of b
    stage = property(lambda self: (self.rows + self.loaded) * DEPTH)  # elements
    own_results = property(lambda self: not self.partial and (self.waves > 1 or self.added))
    results = property(lambda self: self.own_results * self.stages * self.stage)  # begin there
    tiled = property(lambda self: 2 * max(
        self.stages * self.stage, not self.partial and self.results + self.rows * 64 * self.boxes
    ))  # fmt: skip
    shared = property(  # bytes; behind the tiles is what columns need, float32, of each warpgroup
        lambda self: self.tiled + (not self.partial) * 4 * PAIR * self.consumers * self.columns
    )

    def split(self, splits: int) -> tuple[int, int, int]:
        """Of a cluster's block: the results' first element, the columns' first byte, and bytes."""
        results = max(self.stages * self.stage, 2 * self.rows * self.columns)  # beyond its sums
        behind = 2 * (results + self.rows // splits * 64 * self.boxes)
        return results, behind, behind + 4 * PAIR * self.consumers * self.columns


class ThinConfig(NamedTuple):
    """How a block's tiles are made."""

    down: int  # products of 16 x 8 of a warp along the wide side, 1, 2 or 4
    across: int  # and along the other
    deep: int  # warps that share the depth of a tile
    beside: int  # tiles of a block, along the wide side

    warps = property(lambda self: self.deep * self.beside)
    wide = property(lambda self: 16 * self.down)  # results of a tile
    thin = property(lambda self: 8 * self.across)


def staged_config(
    consumers: int, columns: int, waves: int, added: bool = False, splits: int = 1, **more: bool
) -> GemmConfig:
    """A tile with as many stages as fit beside its results; those of a split one lie there, too.

    `more` are its other fields. Where it is split, sums may need more than fits: stages are 0 then.
    """
    bare = GemmConfig(consumers, columns, 0, waves, added, **more)
    results = bare.rows // splits * 64 * bare.boxes if bare.own_results or splits > 1 else 0
    behind = 0 if bare.partial else 8 * bare.consumers * columns
    stages = (SHARED_LIMIT - 2 * results - behind) // (2 * bare.stage)
    config = bare._replace(stages=min(stages, STAGES[1]))
    fits = splits == 1 or config.split(splits)[2] <= SHARED_LIMIT
    return config if fits else bare


@functools.lru_cache(maxsize=1024)
def config_for(
    layout: str, rows: int, columns: int, depth: int, blocks: int,
    shared_by: tuple[int, ...] = (1, *SPLITS), added: bool = False,
) -> tuple[GemmConfig, int]:  # fmt: skip
    """The tile of a product, and how many blocks share its depth: one of `shared_by`.

    Counted are a block's cycles, which says better than the time below which of such tiles is best:
    its tiles, times their steps, times what takes longest in a step: the tensor cores, of 2,048
    multiplications a cycle, or shared memory. TMA writes it once; each consumer reads its part of
    a, and all of b.

    Clusters lie in a part of the GPU each: pairs of multiprocessors are everywhere, of fours only
    three quarters are sure. Where blocks must share, there may be more clusters than that.
    """
    widths = range(64, 257, 16 if layout == "nt" else 64)

    def cycles(its: tuple[GemmConfig, int]) -> tuple:
        (config, splits), wide = its, its[0].columns
        tiles = ceil_div(rows, config.rows) * ceil_div(columns, wide)
        consumers = config.consumers
        loads = SEEN * (128 * consumers + wide * (consumers + 1))
        step = max(2 * consumers * wide, loads) * (SLOWER if wide < 256 else 1)
        found = ceil_div(ceil_div(depth, DEPTH), splits) * step + TILE_CYCLES * wide
        if splits > 1:
            given = 4 * config.rows * wide * (splits - 1) // splits
            return found + ADD_CYCLES[0] + given / ADD_CYCLES[1], its
        return ceil_div(tiles, blocks) * found, its

    found = []
    for consumers, wide, splits in itertools.product((1, 2), widths, shared_by):
        tiles = ceil_div(rows, 64 * consumers) * ceil_div(columns, wide)
        waves = min(ceil_div(tiles, blocks), 3) if splits == 1 else 1
        config = staged_config(consumers, wide, waves, added, splits)
        fits = splits == 1 or tiles * splits <= CLUSTERED[splits] * blocks or 1 not in shared_by
        if fits and config.stages >= (STAGES[0] if splits == 1 else 1):
            found.append((config, splits))
    return min(found, key=cycles)


# --- microseconds ---------------------------------------------------------------------------------

MEGA = 1e-6
#: Of a launch, more with barriers and tensor maps; few blocks begin beside the launch in front, as
#: many as fill the GPU wait for it. Of one behind, which adds, of one that copies, and its bytes.
LAUNCH, TILES, FULL, BEHIND, COPY, COPIED = 1.13, 0.37, 0.88, 1.71, 1.47, 0.494 * MEGA
WARPS = 5  # of a thin product that fill a multiprocessor
#: Of "thin": what a warp waits for in a round, for an access, for one of two and shifted, for those
#: of eight lines, and for a result at the end.
ROUND, ACCESS, SHIFT, EIGHT, FINISH = 0.204, 0.0119, 0.0587, 0.442, 2.26e-3
#: A byte of the matrices, one that warps read; an access, a result of a multiprocessor's warps.
BYTE, L2_BYTE, ISSUED, LEFT = 0.127 * MEGA, 0.047 * MEGA, 0.566e-3, 1.87e-4
#: Of tiles by wgmma: a cycle of a step, a step; a column of a tile's end; of a pair of blocks; of a
#: warpgroup beside the first, and a column of its end.
CYCLE, STEP, END, MET, GROUPS, ENDS = 0.48e-3, 0.05, 5.17e-3, 0.296, 0.114, 4.16e-3
SHARED = 0.857  # of shared memory's time, what is seen beside the tensor cores'
#: A byte that is copied to shared memory; how much more where 128 bytes of a row lie in two lines
#: of L2, or begin between its sectors. Steps and copies overlap: the power of their norm.
FETCHED, LINES, CROSSED, NORM = 0.0436 * MEGA, 0.55, 2.2, 1.5
FAR, OF_SUMS, NEAR = 0.274 * MEGA, 0.237 * MEGA, 45e6  # a byte of memory; what lies in L2
BY_THREADS, ROWS = 0.181 * MEGA, 1.21  # a result that threads store, the ends of a tile's rows
#: Of few columns, a row that TMA stores. One by one come short rows of a factor that all tiles
#: read, and a box's rows outside of it. A step of shared depth, of boxes of less than 32 columns.
NARROW, SAME, OUTSIDE, EMPTY = 1.3e-3, 53 * MEGA, 0.86 * MEGA, 0.173
ADDED, TOGETHER = 1.08, 1.05  # of a cluster's blocks; how much longer they take
FINISHED, SUMMED = 1.74 * MEGA, 1.59 * MEGA  # a result that is finished, a partial sum
WORTH = 0.94  # of the time without a copy that TMA could do without
SURE = 0.87  # of the time of what TMA stores at once, beside the others'


class Plan(NamedTuple):
    """What a method launches for a product."""

    time: float  # microseconds, about
    method: str  # a step of the ladder
    config: ThinConfig | GemmConfig
    splits: int  # blocks that share the depth of a tile
    swapped: bool = False  # the factors change places; a config that has it says so itself
    copied: tuple[bool, bool] = (False, False)  # whether a, whether b is copied first


class Sizes(NamedTuple):
    """What the models count.

    `aligned`: whether rows of a, of b and of the results begin at multiples of 16 bytes. `added`:
    there is a residual. `begins_aligned`: whether the results begin at a multiple of 16 bytes.
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
    """Tiles that are worth a thought, by how many blocks each is shared, and the wide side."""
    chunks = ceil_div(p.depth, CHUNK)
    for swapped, down, across in itertools.product((False, True), (1, 2, 4), (1, 2, 4)):
        wide, narrow = (p.columns, p.rows) if swapped else (p.rows, p.columns)
        if ceil_div(narrow, 8 * across) > MOST or across > 2 * down:
            continue
        if 8 * across >= 2 * narrow > 16 or 16 * down >= 2 * wide > 32:
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
    factors = [
        (p.rows, p.layout[0] == "n", p.aligned[0]),
        (p.columns, p.layout[1] == "t", p.aligned[1]),
    ]
    (wide, *how_wide), (narrow, *how_narrow) = factors[::-1] if swapped else factors
    down, across = ceil_div(wide, config.wide), ceil_div(narrow, config.thin)
    rounds = ceil_div(ceil_div(p.depth, CHUNK), splits * config.deep)
    blocks = ceil_div(down, config.beside) * across * splits
    each = ceil_div(blocks, p.blocks)
    loads, shifts = map(sum, zip(
        _accesses(2 * config.down, *how_wide), _accesses(config.across, *how_narrow)
    ))  # fmt: skip
    results = config.wide * config.thin
    fetched = 2 * p.depth * down * across * (config.wide + config.thin)
    issued = each * config.warps * (LEFT * results + ISSUED * rounds * loads)
    eight = config.down == 4 and not how_wide[0]
    waits = rounds * (ROUND + ACCESS * loads + SHIFT * shifts + EIGHT * eight)
    waits += FINISH * results / config.deep
    time = BYTE * _read(p) + L2_BYTE * fetched + issued + max(1, each / 2) * waits
    far = FAR * (across if 2 * p.depth * wide > NEAR else 1)  # those beside come much later
    sums = splits if splits > 1 else 0
    return _launched(p, time, blocks * config.warps / WARPS, sums, far)


def _launched(p, work, blocks, sums, far):
    """Of so many blocks: work beside what memory takes, about the longer; of adding `sums`."""
    memory = far * _read(p) * (_read(p) > NEAR)
    behind = (BEHIND + (FINISHED + SUMMED * sums) * p.rows * p.columns) * (sums > 0)
    full = np.minimum(1, blocks / p.blocks)
    return LAUNCH + FULL * full + (work**3 + memory**3) ** (1 / 3) + behind


def _read(p: Sizes) -> int:
    return 2 * (p.rows * p.depth + p.columns * p.depth + p.rows * p.columns)


def _accesses(lines: int, along: bool, aligned: bool) -> tuple[int, int]:
    """Accesses that load a warp's part of a factor, 32 deep, and how many of four words shift."""
    if aligned or not along and lines == 1:
        return (lines if along else 8), 0
    return (2 * lines, lines) if along else (16, 2 * max(lines // 2, 1))


class Tiles(NamedTuple):
    """Kernels of tiles by wgmma, an element of each array a plan."""

    consumers: np.ndarray
    columns: np.ndarray
    swapped: np.ndarray
    paired: np.ndarray
    splits: np.ndarray
    partial: np.ndarray


def _tile_times(p: Sizes, its: Tiles, copied: tuple[bool, bool] = (False, False)) -> np.ndarray:
    """Of launches of tiles by wgmma, of what copies factors before, what adds sums behind."""
    wide, partial, high = its.columns, its.partial, 64 * its.consumers
    rows, columns = np.where(its.swapped, ((p.columns,), (p.rows,)), ((p.rows,), (p.columns,)))
    tiles = -(-rows // high) * -(-columns // wide)
    tiles += its.paired * -(-columns // wide) * (-(-rows // high) % 2)
    steps, results = ceil_div(p.depth, DEPTH), p.rows * p.columns
    blocks = tiles * its.splits
    waves = np.where(partial | (its.splits == 1), -(-blocks // p.blocks), 1)
    of_a, of_b = (1 if copy else more for copy, more in zip(copied, _lines(p)))
    lines = np.where(its.swapped, ((of_b,), (of_a,)), ((of_a,), (of_b,)))
    boxes = -(-wide // 64)
    loaded = np.where(_boxed(p, its.swapped), 64 * boxes, wide)
    fetched = 2 * DEPTH * tiles * steps * (high * lines[0] + loaded * lines[1] / (1 + its.paired))
    sides = (p.rows, p.layout[0] == "t", of_a), (p.columns, p.layout[1] == "n", of_b)
    short = [(side, more) for side, along, more in sides if along and side < 64]
    beyond = (p.layout[0] == "n") * np.maximum(np.where(its.swapped, wide, high) - p.rows, 0)
    beyond += (p.layout[1] == "t") * np.maximum(np.where(its.swapped, high, wide) - p.columns, 0)
    beyond *= np.where(partial, 1, its.splits)  # blocks of a cluster wait for each other
    same = SAME * sum(more / (1 + n // 32) for n, more in short) + OUTSIDE * beyond
    waiting = same * tiles * p.depth / np.where(partial, its.splits, 1 + its.paired)
    empty = (its.splits > 1) * sum(n < 32 for n, _ in short)
    cycles = np.maximum(
        2 * its.consumers * wide, SHARED * (128 * its.consumers + loaded + its.consumers * wide)
    )
    in_order = waves * -(-steps // its.splits) * (CYCLE * cycles + STEP + EMPTY * empty)
    work = np.hypot((in_order**NORM + (FETCHED * fetched) ** NORM) ** (1 / NORM), waiting)
    more = its.consumers - 1
    work += (END + ENDS * more) * waves * wide + GROUPS * more + MET * its.paired
    if p.aligned[2]:
        stored = ADDED * (its.splits > 1) + NARROW * (p.columns < 64) * waves * high * boxes
    else:
        stored = BY_THREADS * results + ROWS * waves
    work += ~partial * stored
    copies = sum(2 * p.depth * side for side, copy in zip((p.rows, p.columns), copied) if copy)
    sums, far = partial * its.splits, np.where(partial, OF_SUMS, FAR)
    time = TILES + _launched(p, work, blocks, sums, far) + (copies > 0) * COPY + COPIED * copies
    return time * np.where(~partial & (its.splits > 1), TOGETHER, 1)


def _lines(p: Sizes) -> list[float]:
    """How much longer a byte of a, of b takes where rows of 128 bytes lie in two lines of L2."""
    pitches = (
        p.rows if p.layout[0] == "t" else p.depth,
        p.depth if p.layout[1] == "t" else p.columns,
    )
    return [1 + LINES * (n % 64 > 0) + (CROSSED - LINES) * (n % 16 > 0) for n in pitches]


def _boxed(p: Sizes, swapped):
    """Whether neighbours of what is b lie along its columns."""
    return (p.layout == "tn") | ((p.layout == "nn") & ~np.asarray(swapped))


@functools.cache
def _grid() -> tuple[np.ndarray, ...]:
    """Consumers, columns, swapped, paired, splits; of sums -n: for n blocks a multiprocessor."""
    sums = itertools.product((1, 2, 3), range(16, 257, 16), (0, 1), (0, 1), (-1, -2, -3))
    stored = itertools.product((1, 2, 3), range(64, 257, 16), (0, 1), (0, 1), (1,))
    clusters = itertools.product((1, 2), range(64, 257, 16), (0,), (0,), SPLITS)
    # columns for whose sums there are registers, and beside them for results stored transposed
    most = ((256, 256), (256, 240), (192, 176))
    found = (
        (high, wide, swapped, paired, shares)
        for high, wide, swapped, paired, shares in (*sums, *stored, *clusters)
        if wide <= most[high - 1][swapped and shares > 0]
    )
    return tuple(np.array([*found]).T)


def _tiles(p: Sizes) -> Tiles:
    """Those that are worth a thought."""
    consumers, wide, swapped, paired, shares = _grid()
    swapped, partial, high = swapped > 0, shares < 0, 64 * consumers
    rows, columns = np.where(swapped, ((p.columns,), (p.rows,)), ((p.rows,), (p.columns,)))
    tiles = -(-rows // high) * -(-columns // wide)
    most = max(1, ceil_div(p.depth, DEPTH) // 4)
    splits = np.where(partial, np.clip(-shares * p.blocks // tiles, 1, most), shares)
    limit = np.select([splits == n for n in SPLITS], [CLUSTERED[n] for n in SPLITS], np.inf)
    taken = partial | (tiles * splits <= limit * p.blocks)
    if not p.aligned[2] or p.added:  # stored by threads, or beside a residual
        taken &= partial | (~swapped & (p.added | (splits == 1) & p.begins_aligned))
    if not p.aligned[2] and p.added:
        taken &= partial
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
    more = {
        "by_threads": not p.aligned[2], "swapped": swapped, "paired": paired, "boxed": boxed,
    }  # fmt: skip
    return staged_config(consumers, wide, waves, p.added, splits, **more), splits


def partial_tile(
    consumers: int, columns: int, waves: int, swapped: bool = False, **more: bool
) -> GemmConfig:
    """A tile whose sums are stored as they are, with as many stages as fit."""
    waves = 1 if waves == 1 else 3
    return staged_config(consumers, columns, waves, partial=True, swapped=swapped, **more)


@functools.lru_cache(maxsize=1024)
def thin_plan(p: Sizes) -> Plan:
    """The best that goes past shared memory."""
    return min(Plan(_thin_time(p, *its), "thin", *its) for its in _thin_tiles(p))


@functools.lru_cache(maxsize=1024)
def stored_plan(p: Sizes) -> Plan:
    """The best whose results TMA stores, of factors that it takes."""
    config, splits = config_for(*p[:5], added=p.added)
    method = "roles" if splits == 1 else "split"
    fields = config.consumers, config.columns, False, False, splits, False
    time = _tile_times(p, Tiles(*(np.array([its]) for its in fields)))
    return Plan(time.item(), method, config, splits)


@functools.lru_cache(maxsize=1024)
def partial_plan(p: Sizes) -> Plan:
    """The best of copies: results stored by TMA, where it can, by threads, or of partial sums.

    What TMA does not take is copied, and what it reads slowly, if that pays.
    """
    its, plans = _tiles(p), []
    # neighbours along the depth are read by lines of a box; others side by side, so they are copied
    # where lines are of 16 bytes alone, beside a factor that memory has
    ways = []
    for aligned, more, along, side in zip(
        p.aligned, _lines(p), (p.layout != "tn", p.layout == "nt"), (p.rows, p.columns)
    ):
        must = not aligned or (not along and side <= 8 and _read(p) > NEAR)
        ways.append((False, True)[must : 1 + (must or (more > 1 and along))])
    for copied in itertools.product(*ways):
        times = _tile_times(p, its, copied)
        for n in np.argsort(times):
            config, splits = _tile(p, its, n)
            # three warpgroups wait for the next tile's copies, where few are in flight
            stored = config.own_results and not config.by_threads
            if config.stages >= STAGES[0] + (stored and config.consumers == 3):
                plans.append(Plan(times[n].item(), "partial", config, splits, copied=copied))
                break
    return min(plans, key=lambda plan: plan.time / WORTH ** (sum(plan.copied)))


def plan_for(p: Sizes, methods: tuple[str, ...]) -> Plan:
    """The best of some of "thin", "partial" and "stored"; the last where it is as good, about."""
    plans = {"thin": thin_plan, "partial": partial_plan, "stored": stored_plan}
    sure = 1 if max(_lines(p)) > 1 else SURE
    return min(
        (plans[method](p) for method in methods),
        key=lambda plan: plan.time * (sure if plan.method in ("roles", "split") else 1),
    )
