"""How attention's blocks are cut."""

from course.heuristics.attention import Config, config_for
from course.kernels.attention import SIZES


def test_how_blocks_are_cut_follows_from_tokens_and_heads():
    assert config_for(197, 768, 132) == Config(4, 208, 2, 197)
    assert config_for(197, 12, 132).groups == 1
    assert config_for(50, 768, 132).groups == 1
    assert config_for(4096, 64, 132).held == 0
    for size in SIZES:
        for tokens in (1, 64, 197, 200, 201, 257, 4096):
            for heads in (1, 96, 768):
                its = config_for(tokens, heads, 132, size)
                assert its.size == size and its.blocks * its.shared <= 227 * 1024 - 1024
