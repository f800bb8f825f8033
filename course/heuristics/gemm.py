"""Which tile a product of 16 bits takes, and how many blocks share its depth: models of the time.

>>> plan_for(layout, rows, columns, depth, blocks, aligned).method
'thin'

Times are sums of what is counted, each with a factor: fitted to 1,100 plans of 470 drawn shapes, on
an H200, to 13 in a hundred.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from course.heuristics.device import ceil_div, round_up

DEPTH = 64  # of a tile by wgmma: 128 bytes of a row
CHUNK = 32  # of the depth, that a warp of a thin product takes at a time
GROUP = 128  # threads of a warpgroup
PAIR = 2  # numbers of a column, at most, that its results need
MOST = 65_535  # blocks of a grid's y and z

SHARED_LIMIT = 226 * 1024  # bytes of shared memory for a block's tiles, beside its barriers
STAGES = 3, 8  # at least and at most
SPLITS = (2, 4)  # blocks of a cluster; a whole number of warps for each
#: Of `config_for`, by measurements on an H200, in cycles of one multiprocessor.
TILE_CYCLES = 6  # that a tile takes besides its steps, for each of its columns
ADD_CYCLES = 1000, 10  # to add the sums of a cluster's blocks: once, and bytes in a cycle
SLOWER = 1.025  # a narrower tile than 256 is read more often
SHARED = 0.75  # what is seen of shared memory's time, on an H200


class GemmConfig(NamedTuple):
    """How a block's tile is made."""

    consumers: int  # warpgroups that multiply, 64 rows of results each
    columns: int  # of the tile: 64 to 256, a multiple of 16
    stages: int  # tiles of both factors, 64 deep, that are in flight
    # tiles of the results that a block takes, one after the other; 3 for more. Results of an only
    # tile lie where the factors' tiles were; of one or two a box is stored when it is there
    waves: int = 3
    # a residual is added. It is prefetched, so no tile of the factors can lie there
    added: bool = False
    # sums are stored as they are, see `course.kernels.gemm.partial`: parts of the depth are tiles
    partial: bool = False
    swapped: bool = False  # partial sums are stored transposed: the factors have changed places
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
    own_results = property(  # beside the factors' tiles
        lambda self: not self.partial and (self.waves > 1 or self.added)
    )
    results = property(lambda self: self.own_results * self.stages * self.stage)  # begin there
    tiled = property(
        lambda self: 2 * max(
            self.stages * self.stage,
            not self.partial and self.results + self.rows * 64 * self.boxes,
        )
    )  # fmt: skip
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
    consumers: int, columns: int, waves: int, added: bool = False, splits: int = 1
) -> GemmConfig:
    """A tile with as many stages as fit beside its results; those of a split one lie there, too."""
    bare = GemmConfig(consumers, columns, 0, waves, added)
    results = bare.rows // splits * 64 * bare.boxes if bare.own_results or splits > 1 else 0
    stages = (SHARED_LIMIT - 2 * results - 8 * bare.consumers * columns) // (2 * bare.stage)
    return bare._replace(stages=min(stages, STAGES[1]))


def step_cycles(consumers: int, wide: int, seen: float = SHARED) -> float:
    """Of a step of a tile: the tensor cores' 2,048 multiplications a cycle, or shared memory's."""
    return max(2 * consumers * wide, seen * (128 * consumers + wide * (consumers + 1)))


@functools.lru_cache(maxsize=1024)
def config_for(
    layout: str, rows: int, columns: int, depth: int, blocks: int,
    shared_by: tuple[int, ...] = (1, *SPLITS), added: bool = False,
) -> tuple[GemmConfig, int]:  # fmt: skip
    """The tile of a product, and how many blocks share its depth: one of `shared_by`.

    Counted are a block's cycles, which says better than the time below which of such tiles is best:
    its tiles, times their steps, times what takes longest in a step: the tensor cores or shared
    memory. TMA writes it once; each consumer reads its part of a, and all of b.

    Clusters lie in a part of the GPU each: pairs of multiprocessors are everywhere, of fours only
    three quarters are sure. Where blocks must share, there may be more clusters than that.
    """
    p = Sizes(layout, rows, columns, depth, blocks, (True, True, True), added)

    def cycles(its: tuple[GemmConfig, int]) -> tuple:
        (config, splits), wide = its, its[0].columns
        tiles = ceil_div(rows, config.rows) * ceil_div(columns, wide)
        step = step_cycles(config.consumers, wide, 0.92) * (SLOWER if wide < 256 else 1)
        found = ceil_div(ceil_div(depth, DEPTH), splits) * step + TILE_CYCLES * wide
        if splits > 1:
            given = 4 * config.rows * wide * (splits - 1) // splits
            return found + ADD_CYCLES[0] + given / ADD_CYCLES[1], its
        return ceil_div(tiles, blocks) * found, its

    return min((its for its in _stored_tiles(p, shared_by) if not its[0].paired), key=cycles)


def _stored_tiles(
    p: Sizes, shared_by: tuple[int, ...], by_threads: bool = False
) -> Iterator[tuple[GemmConfig, int]]:
    """Tiles whose results are stored, and by how many blocks each is shared."""
    widths = range(64, 257, 16 if p.layout == "nt" else 64)
    for consumers, wide, splits in itertools.product((1, 2), widths, shared_by):
        tiles = ceil_div(p.rows, 64 * consumers) * ceil_div(p.columns, wide)
        waves = ceil_div(tiles, p.blocks) if splits == 1 else 1
        config = staged_config(consumers, wide, min(waves, 3), p.added, splits)
        config = config._replace(by_threads=by_threads)
        if splits == 1:
            fits = config.stages >= STAGES[0]
        else:
            fits = tiles * splits <= (p.blocks if splits == 2 else 3 * p.blocks // 4)
            fits |= 1 not in shared_by
            fits &= config.split(splits)[2] <= SHARED_LIMIT
        if fits:
            yield config, splits
            yield from ((its, 1) for its in _paired(p, config) if splits == 1)


# --- microseconds ---------------------------------------------------------------------------------

MEGA = 1e-6
#: Of a launch, more with barriers and tensor maps; few blocks begin beside the launch in front, as
#: many as fill the GPU wait for it. Of one behind, which adds, of one that copies, and its bytes.
LAUNCH, TILES, FULL, BEHIND, COPY, COPIED = 1.13, 0.304, 0.88, 1.55, 1.68, 0.493 * MEGA
WARPS = 5  # of a thin product that fill a multiprocessor
#: Of "thin": what a warp waits for in a round, for an access, for one of two and shifted, for those
#: of eight lines, and for a result at the end.
ROUND, ACCESS, SHIFT, EIGHT, FINISH = 0.204, 0.0119, 0.0587, 0.442, 2.26e-3
#: A byte of the matrices, one that warps read; an access, a result of a multiprocessor's warps.
BYTE, L2_BYTE, ISSUED, LEFT = 0.127 * MEGA, 0.047 * MEGA, 0.566e-3, 1.87e-4
#: Of tiles by wgmma: a cycle of a step, a step, and where boxes lie outside of a factor, but for
#: some columns; a column of a tile's end; a byte that is copied to shared memory.
CYCLE, STEP, OUTSIDE, END, FETCHED = 0.384e-3, 0.0534, 0.152, 6.08e-3, 0.0343 * MEGA
CROSSED, MET = 0.0841 * MEGA, 0.3  # more, where the bytes begin between sectors; of a pair
FAR, OF_SUMS, NEAR = 0.32 * MEGA, 0.256 * MEGA, 45e6  # a byte of memory; what lies in L2
RESULT, BY_THREADS = 0.31 * MEGA, 0.855 * MEGA  # stored by TMA, or by threads
NARROW, ROWS = 2.85e-3, 0.0266  # of few columns, a row that TMA stores; of threads, a tile's column
ADDED = 1.23  # of a cluster's blocks
FINISHED, SUMMED = 1.52 * MEGA, 2.11 * MEGA  # a result that is finished, a partial sum
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
    there is a residual. `in_words`: whether the results begin at a multiple of 4 bytes.
    """

    layout: str
    rows: int
    columns: int
    depth: int
    blocks: int
    aligned: tuple[bool, bool, bool]
    added: bool = False
    in_words: bool = True


def _paired(p: Sizes, config: GemmConfig) -> Iterator[GemmConfig]:
    """The tile in pairs of blocks, where it may pay: L2 is asked twice for what it has in parts."""
    if any(_crossing(p)) and (p.columns if config.swapped else p.rows) > config.rows:
        yield config._replace(paired=True)


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


def _launched(p: Sizes, work: float, blocks: float, sums: int, far: float) -> float:
    """Of so many blocks: work beside what memory takes, about the longer; of adding `sums`."""
    memory = far * _read(p) if _read(p) > NEAR else 0
    behind = BEHIND + (FINISHED + SUMMED * sums) * p.rows * p.columns if sums else 0
    return LAUNCH + FULL * min(1, blocks / p.blocks) + (work**3 + memory**3) ** (1 / 3) + behind


def _read(p: Sizes) -> int:
    return 2 * (p.rows * p.depth + p.columns * p.depth + p.rows * p.columns)


def _accesses(lines: int, along: bool, aligned: bool) -> tuple[int, int]:
    """Accesses that load a warp's part of a factor, 32 deep, and how many of four words shift."""
    if aligned or not along and lines == 1:
        return (lines if along else 8), 0
    return (2 * lines, lines) if along else (16, 2 * max(lines // 2, 1))


def _tile_time(p: Sizes, config: GemmConfig, splits: int) -> float:
    """Of a launch of tiles by wgmma, and of one behind it that adds partial sums."""
    wide, steps, results = config.columns, ceil_div(p.depth, DEPTH), p.rows * p.columns
    rows, columns = (p.columns, p.rows) if config.swapped else (p.rows, p.columns)
    tiles = round_up(ceil_div(rows, config.rows), 1 + config.paired) * ceil_div(columns, wide)
    waves = ceil_div(tiles * splits, p.blocks) if splits == 1 or config.partial else 1
    in_order = waves * ceil_div(steps, splits)
    odd_a, odd_b = _crossing(p)[:: -1 if config.swapped else 1]
    fetched = config.rows * (FETCHED + CROSSED * odd_a)
    fetched += (wide / (1 + config.paired)) * (FETCHED + CROSSED * odd_b)
    outside = (p.layout[0] == "t" and p.rows < 32) + (p.layout[1] == "n" and p.columns < 32)
    time = in_order * (CYCLE * step_cycles(config.consumers, wide) + STEP + OUTSIDE * outside)
    time += END * waves * wide + 2 * DEPTH * tiles * steps * fetched + MET * config.paired
    if config.by_threads:
        time += BY_THREADS * results + ROWS * waves * wide
    elif not config.partial:
        time += RESULT * results + ADDED * (splits > 1)
        time += NARROW * (p.columns < 64) * waves * config.rows * config.boxes
    sums, far = (splits, OF_SUMS) if config.partial else (0, FAR)
    return TILES + _launched(p, time, tiles * splits, sums, far)


def _crossing(p: Sizes) -> tuple[bool, bool]:
    """Whether rows of 128 bytes of a, of b begin between sectors of 32, which TMA reads as five."""
    pitches = (
        p.rows if p.layout[0] == "t" else p.depth,
        p.depth if p.layout[1] == "t" else p.columns,
    )
    a, b = (is_aligned and pitch % 16 != 0 for is_aligned, pitch in zip(p.aligned, pitches))
    return a, b


def _copy_time(p: Sizes) -> float:
    sides = zip((p.rows, p.columns), p.aligned)
    copied = sum(2 * p.depth * side for side, is_aligned in sides if not is_aligned)
    return (copied > 0) * COPY + COPIED * copied


def _partial_tiles(p: Sizes) -> Iterator[tuple[GemmConfig, int]]:
    """Tiles whose sums are stored as they are, and by how many blocks each is shared."""
    steps = ceil_div(p.depth, DEPTH)
    for swapped, consumers in itertools.product((False, True), (1, 2)):
        rows, columns = (p.columns, p.rows) if swapped else (p.rows, p.columns)
        boxes = p.layout == "tn" or (p.layout == "nn" and not swapped)  # of 64 columns
        narrow = round_up(ceil_div(columns, ceil_div(columns, 256)), 64 if boxes else 16)
        for wide in sorted({64, 128, 192, 256, narrow}):
            tiles = ceil_div(rows, 64 * consumers) * ceil_div(columns, wide)
            for n in (1, 2, 3):
                splits = min(max(1, steps // 4), max(1, n * p.blocks // tiles))
                config = partial_tile(consumers, wide, ceil_div(tiles * splits, p.blocks), swapped)
                yield config, splits
                yield from ((its, splits) for its in _paired(p, config))


def partial_tile(consumers: int, columns: int, waves: int, swapped: bool = False) -> GemmConfig:
    """A tile whose sums are stored as they are, with as many stages as fit."""
    bare = GemmConfig(consumers, columns, 0, 1 if waves == 1 else 3, False, True, swapped)
    return bare._replace(stages=min(SHARED_LIMIT // (2 * bare.stage), STAGES[1]))


@functools.lru_cache(maxsize=1024)
def thin_plan(p: Sizes) -> Plan:
    """The best that goes past shared memory."""
    return min(Plan(_thin_time(p, *its), "thin", *its) for its in _thin_tiles(p))


@functools.lru_cache(maxsize=1024)
def stored_plan(p: Sizes) -> Plan:
    """The best whose results TMA stores, of factors that it takes."""
    config, splits = config_for(*p[:5], added=p.added)
    method = "roles" if splits == 1 else "split"
    return Plan(_tile_time(p, config, splits), method, config, splits)


@functools.lru_cache(maxsize=1024)
def partial_plan(p: Sizes) -> Plan:
    """The best of copies: results stored by TMA, where it can, by threads, or of partial sums.

    What TMA does not take is copied, and what it reads slowly, if that pays.
    """
    plans = []
    a, b, stored = p.aligned
    odd = _crossing(p)
    for left in itertools.product((True, False), repeat=2):  # whether what is read slowly is
        aligned = a and (left[0] or not odd[0]), b and (left[1] or not odd[1]), stored
        q = p._replace(aligned=aligned)
        copies, copied = _copy_time(q), (not aligned[0], not aligned[1])
        tiles = [*_partial_tiles(q)]
        if stored or (p.in_words and not p.added):
            tiles += _stored_tiles(q, (1, *SPLITS) if stored else (1,), not stored)
        for config, splits in tiles:
            time = copies + _tile_time(q, config, splits)
            plans.append(Plan(time, "partial", config, splits, copied=copied))
    return min(plans)


def plan_for(p: Sizes, methods: tuple[str, ...]) -> Plan:
    """The best of some of "thin", "partial" and "stored"; the last where it is as good, about."""
    plans = {"thin": thin_plan, "partial": partial_plan, "stored": stored_plan}
    sure = 1 if any(_crossing(p)) else SURE
    return min(
        (plans[method](p) for method in methods),
        key=lambda plan: plan.time * (sure if plan.method in ("roles", "split") else 1),
    )
