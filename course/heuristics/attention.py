"""How blocks of attention's "wgmma" work, by tokens, heads and their size: measured on an H200.

Up to 256 tokens a block has all scores of its queries in registers, whose number decides how many
blocks a multiprocessor has. With more tokens keys and values come in steps. The best config then
follows from the measured time of a step, and from how many waves of blocks there are.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from course.heuristics.device import ceil_div, round_up

WIDE = 64  # elements of a row of a box: 128 bytes, swizzled
BOX = 64 * WIDE  # elements of a box of 64 queries
REGISTERS, SHARED = 65_536, 227 * 1024  # of a multiprocessor of 9.0; SHARED in bytes
#: Tokens up to which the scores of all keys are in registers, and up to which they are where 512
#: threads share a multiprocessor.
HELD_TOKENS, HELD_BY_512 = 256, 200
#: In place of 256, where many heads have more than 64 elements: their sums take registers, too.
HELD_WIDE_HEADS = 192


class HeadsProblem(NamedTuple):
    """What decides between the steps."""

    batch: int
    tokens: int
    heads: int
    size: int
    aligned: bool  # images, tokens and heads begin at multiples of 16 bytes in q, k and v
    contiguous: bool  # in these a token's heads lie side by side, and images one after another
    beyond: int  # bytes by which the output begins beyond a multiple of 8

    keys_and_values = property(lambda self: 4 * self.tokens * self.size)  # bytes, of a head


class Config(NamedTuple):
    """How a block works."""

    groups: int  # warpgroups, 64 queries each
    keys: int  # of a step, a multiple of 16, at most 256
    stages: int  # steps that shared memory holds; with 1, a block takes one part of a head alone
    held: int = 0  # all tokens, if one step has their keys; else 0
    blocks: int = 1  # of a multiprocessor
    size: int = 64  # of a head, a multiple of 16, at most 128
    # one of two warpgroups multiplies while the other computes weights; a third one is the producer
    pingpong: bool = False

    threads = property(lambda self: 128 * (self.groups + self.pingpong))
    box = property(lambda self: self.held or self.keys)  # rows of keys or values in a TMA copy
    boxes = property(lambda self: ceil_div(self.size, WIDE))  # side by side, of a head
    stage = property(lambda self: 2 * self.keys * self.boxes * WIDE)  # elements
    tile = property(lambda self: self.boxes * BOX)  # of 64 queries
    columns = property(lambda self: round_up(self.held, 8) or self.keys)  # of scores
    buffers = property(lambda self: self.stages if self.held else 2)  # of queries
    shared = property(
        lambda self: 2 * (self.stages * self.stage + self.buffers * self.groups * self.tile)
    )
    ahead = property(lambda self: self.stages - 1)  # steps whose copies are prefetched


LONG, LONGER = Config(2, 128, 2, 0, 2), Config(3, 208, 2)


def pingpong(keys: int) -> Config:
    """The config of two warpgroups that alternate on the tensor cores."""
    return Config(2, keys, 2, pingpong=True)


#: Microseconds of a step, by a head's size, on an H200 that is full: 64 heads of 5,000 tokens.
STEP_US = {
    32: {Config(1, 192, 2, 0, 2): 1.89, LONG: 2.34, Config(3, 160, 2): 2.22, LONGER: 2.63,
         Config(4, 128, 2): 2.25},
    64: {Config(1, 192, 2): 1.77, Config(1, 128, 2, 0, 2): 1.74, LONG: 2.72,
         Config(3, 160, 2): 2.44, LONGER: 3.03, pingpong(144): 1.42, pingpong(176): 1.65,
         pingpong(208): 1.93},
    80: {Config(1, 64, 2, 0, 2): 1.35, Config(1, 128, 2): 1.63, Config(3, 112, 2): 2.10,
         pingpong(112): 1.27, pingpong(128): 1.42, pingpong(144): 1.55, pingpong(160): 1.65},
    96: {Config(1, 64, 2, 0, 2): 1.41, Config(1, 128, 2): 1.71, Config(3, 112, 2): 2.24,
         pingpong(112): 1.35, pingpong(128): 1.50, pingpong(144): 1.61, pingpong(160): 1.77},
    128: {Config(1, 64, 2, 0, 2): 1.56, Config(1, 128, 2): 1.83, Config(3, 96, 2): 2.24,
          pingpong(112): 1.60, pingpong(128): 1.81, pingpong(144): 1.88, pingpong(160): 2.10},
}  # fmt: skip
LAUNCH_US, ITEM_US = 4.0, 1.0  # of a launch, and of a block's part of a head, without its steps


def microseconds(config: Config, step: float, tokens: int, heads: int, processors: int) -> float:
    """The modelled time in steps, which are shorter where fewer blocks share a multiprocessor."""
    items = heads * ceil_div(tokens, 64 * config.groups)
    beside = min(config.blocks, ceil_div(items, processors)) / config.blocks
    waves = ceil_div(items, processors * config.blocks)
    return LAUNCH_US + waves * (ceil_div(tokens, config.keys) * step * beside**0.3 + ITEM_US)


def _fitting(config: Config) -> Config:
    """The config with as many blocks a multiprocessor as its registers and shared memory allow."""
    scores, values = config.columns // 2, config.keys // 4 + config.size // 2
    threads = (max(scores, values) + 40) * config.threads
    fit = min(REGISTERS // threads, SHARED // (config.shared + 1024))
    return config._replace(blocks=max(1, min(config.blocks, fit)))


def _held(tokens: int, heads: int, processors: int, size: int) -> Config:
    """The config where one step has the keys of all tokens."""
    keys, tiles = round_up(tokens, 16), ceil_div(tokens, 64)
    if size == 64 and heads >= processors and tokens <= HELD_BY_512:
        return Config(tiles, keys, 2, tokens, max(1, 4 // tiles))
    if (heads if size == 64 else heads * tiles) < processors:
        return _fitting(Config(1, keys, 1, tokens, 3, size))
    if tiles <= 2:
        return _fitting(Config(tiles, keys, 2, tokens, 3, size))
    if size > 64:
        return Config(1, keys, 2, tokens, 1, size)
    return Config(3 if tokens <= HELD_WIDE_HEADS else 2, keys, 2, tokens, 1, size)


@functools.lru_cache(maxsize=4096)
def config_for(tokens: int, heads: int, processors: int, size: int = 64) -> Config:
    """How blocks work; heads: those of all images."""
    few = heads * ceil_div(tokens, 64) < processors
    if tokens <= (HELD_TOKENS if size <= 64 or few else HELD_WIDE_HEADS):
        return _held(tokens, heads, processors, size)
    steps = {its: time for its, time in STEP_US[size].items() if its.keys <= tokens}
    best = min(steps, key=lambda its: microseconds(its, steps[its], tokens, heads, processors))
    return best._replace(size=size)
