"""How threads share rows of LayerNorm: they hold them, as was measured."""

from course.heuristics.norm import (
    FEW,
    LONGEST_IN_CLUSTER,
    NormProblem,
    RowConfig,
    Variant,
    backward_config,
    block_config,
    cluster_config,
    longest_in_registers,
    row_config,
    several_config,
    short_config,
)
from course.kernels.norm import LADDER


def best(columns, aligned=True):
    """The step that "auto" takes for rows of float32."""
    return LADDER.best(NormProblem(FEW, columns, aligned=aligned, limits=(64 * 1024, False)))


def test_the_chosen_shapes_hold_their_rows_and_fit_a_multiprocessor():
    for aligned in (True, False):
        for columns in (*range(1, 260), 768, 1024, 4093, 4096, 16_384):
            found = [row_config(columns, aligned, kind) for kind in ("float32", "float16")]
            found += [backward_config(columns, aligned)] if columns <= 4096 else []
            for shape in found:
                assert shape.longest >= columns
                assert shape.threads * shape.max_registers <= 65_536
    assert all(short_config(columns).longest >= columns for columns in range(1, 1025))


def test_shapes_that_were_measured():
    """On an H200; who changes one measures again."""
    few, every = 32, 255  # registers
    for columns, sizes in {
        768: (96, 1, 8, few), 1024: (128, 1, 8, few), 2048: (256, 1, 8, few),
        4096: (512, 1, 8, few), 5000: (320, 1, 16, every), 8192: (512, 1, 16, every),
        12_288: (512, 1, 24, every),
    }.items():  # fmt: skip
        assert best(columns) == "registers" and row_config(columns) == RowConfig(*sizes)
    for columns in (257, 384):
        assert best(columns) == best(columns, False) == "several rows"
        assert short_config(columns) == RowConfig(32, 4, 12)
    assert best(385) == "registers"
    for columns in (4097, 4099, 4224):
        assert row_config(columns, aligned=False) == RowConfig(352, 1, 12, 64)


def test_a_few_rows_take_more_threads_and_their_factors_ahead():
    """On an H200; who changes one measures again."""
    plain, gelu, bare = Variant(), Variant(activation="gelu"), Variant("bfloat16", aligned=False)
    assert several_config(5, 115, bare) == RowConfig(32, 2, 4, ahead=True)
    assert several_config(FEW, 192, plain) == short_config(192)
    assert block_config(24, 937, bare) == RowConfig(128, 1, 8, ahead=True)
    for columns in (*range(1, 1025), 8193, 16_384, 16_385, longest_in_registers(True)):
        found = [block_config(n, columns, one) for n in (1, 200, 500) for one in (plain, gelu)]
        found += [several_config(1, columns, plain)] if columns <= 1024 else []
        assert all(config.longest >= columns for config in found)


def test_every_length_has_a_config_that_holds_it():
    for aligned, most in LONGEST_IN_CLUSTER.items():
        for columns in (*range(1, most, 997), most):
            found = [cluster_config(rows, columns, aligned) for rows in (1, 17, 5000)]
            assert all(its.longest >= columns and its.elements <= 32 for its in found)
