"""Products past shared memory, and of copies: any tile, split, layout and alignment."""

import numpy as np
import pytest

from course import cuda, trace
from course.compiler.facts import compiled
from course.kernels.gemm import choice, half, padding, partial, thin, warp_specialised
from course.kernels.gemm.half import GemmProblem
from tests.course.compiled_samples import needs_compiler, needs_hopper
from tests.course.kernels.gemm.test_half import ERRORS, given, near, stored
from tools.compile import tensor_cases as cases
from warpsim.ptx.bfloat16 import BFLOAT16

TILES = [thin.ThinConfig(*its) for its in (
    (1, 1, 8, 1), (2, 1, 4, 2), (4, 1, 4, 1), (4, 2, 2, 2), (2, 2, 4, 2), (4, 4, 1, 4),
    (1, 2, 2, 2), (2, 4, 8, 1),
)]  # fmt: skip
pytestmark = pytest.mark.usefixtures("h200")


def empty(rows, columns, element):
    bits = np.full((rows, columns), 0x7FC0, np.uint16)  # NaN of either
    return cuda.to_device(bits.view(BFLOAT16 if element == "bfloat16" else np.float16))


def drawn(rng, sides, depths):
    """Sizes, half of them multiples of 8, a layout and a type of elements."""
    sizes = [int(rng.integers(1, most)) for most in (*sides, depths)]
    if rng.random() < 0.5:
        sizes = [8 * -(-n // 8) for n in sizes]
    return (
        *sizes,
        str(rng.choice(list(half.LAYOUTS))),
        str(rng.choice(half.HALF_TYPES[:1] + ("b",))),
    )


def run(launches, arrays, exact, factors, element):
    """Launch one after the other without a finding; the result is right."""
    for its in launches:
        report = trace(
            its.kernel, its.grid, its.block, *its.arguments, dynamic_shared=its.shared, gpu="H200"
        )
        assert not ERRORS & {finding.kind for finding in report.findings}, report.findings
    assert near(arrays[-1].copy_to_host(), exact, *factors, element)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("config", TILES)
def test_tiles_past_shared_memory_are_right(config, seed):
    rng = np.random.default_rng([seed, TILES.index(config)])
    rows, columns, depth, layout, kind = drawn(rng, (90, 40), 300)
    element = "bfloat16" if kind == "b" else "float16"
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, element, seed)
    bias, exact_bias = stored(rng.standard_normal(columns), element)
    out = empty(rows, columns, element)
    arrays = cuda.to_device(a), cuda.to_device(b), cuda.to_device(bias), None, out
    problem = GemmProblem.of(*arrays, layout)
    for splits, swapped in ((1, False), (3, True), (9, False)):
        launches = thin.launches(config, splits, swapped, problem, *arrays)
        exact = exact_a @ exact_b + exact_bias
        run(launches, arrays, exact, (exact_a, exact_b), element)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_products_of_copies_are_right(seed, swapped):
    rng = np.random.default_rng(seed)
    rows, columns, depth, layout, kind = drawn(rng, (200, 140), 400)
    element = "bfloat16" if kind == "b" else "float16"
    boxes = layout != "nt" and (layout, swapped) != ("nn", True)
    wide = int(rng.choice([64, 128, 192, 256])) if boxes else 112
    waves = 1 + 2 * (seed % 3 > 0)
    config = choice.partial_tile(1 + seed % 2, wide, waves, swapped)._replace(stages=2)
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, element, seed)
    out = empty(rows, columns, element)
    arrays = cuda.to_device(a), cuda.to_device(b), None, None, out
    problem = GemmProblem.of(*arrays, layout)
    splits = min(1 + seed % 3, -(-depth // 64))
    launches = half.partial_launches(config, splits, problem, *arrays)
    run(launches, arrays, exact_a @ exact_b, (exact_a, exact_b), element)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("waves", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_results_may_begin_anywhere(seed, waves):
    rng = np.random.default_rng([seed, waves])
    rows, columns, depth, layout, kind = drawn(rng, (200, 300), 200)
    element = "bfloat16" if kind == "b" else "float16"
    wide = int(rng.choice([64, 128, 256] if layout != "nt" else [80, 144, 256]))
    tile = choice.staged_config(1 + seed % 2, wide, waves)._replace(by_threads=True, stages=2)
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, element, seed)
    bias, exact_bias = stored(rng.standard_normal(columns), element)
    out = empty(rows, columns, element)
    arrays = cuda.to_device(a), cuda.to_device(b), cuda.to_device(bias), None, out
    problem = GemmProblem.of(*arrays, layout)
    launches = half.partial_launches(tile, 1, problem, *arrays)
    run(launches, arrays, exact_a @ exact_b + exact_bias, (exact_a, exact_b), element)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", ["stored", "threads", "partial", "added"])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_blocks_share_tiles_of_b(seed, kind):
    rng = np.random.default_rng([seed, len(kind)])
    layout, waves = ("nn", "nt", "tn")[seed], 1 + 2 * int(rng.integers(2))
    rows, columns, depth = (8 * int(rng.integers(*its)) for its in ((5, 60), (5, 50), (3, 30)))
    wide = int(rng.choice([128, 192, 256] if layout != "nt" else [80, 144, 256]))
    tile = choice.staged_config(1 + int(rng.integers(2)), wide, waves, kind == "added")
    if kind == "partial":
        tile = choice.partial_tile(tile.consumers, wide, waves)
    tile = tile._replace(paired=True, stages=2, by_threads=kind == "threads")
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, "float16", seed)
    more, exact = stored(rng.standard_normal((rows, columns)), "float16")
    residual = cuda.to_device(more) if kind == "added" else None
    out = empty(rows, columns, "float16")
    arrays = cuda.to_device(a), cuda.to_device(b), None, residual, out
    problem = GemmProblem.of(*arrays, layout)
    launches = half.partial_launches(tile, 1 + (kind == "partial"), problem, *arrays)
    exact = exact_a @ exact_b + exact * (kind == "added")
    run(launches, arrays, exact, (exact_a, exact_b), "float16")


def test_sums_of_an_odd_number_of_columns_are_stored_in_pairs():
    """The last tile's first column is even, though b's rows may begin anywhere."""
    a, b, exact_a, exact_b = given(70, 141, 72, "nt", "float16")
    arrays = cuda.to_device(a), cuda.to_device(b), None, None, empty(70, 141, "float16")
    problem = GemmProblem.of(*arrays, "nt")
    launches = half.partial_launches(choice.partial_tile(1, 64, 3), 1, problem, *arrays)
    run(launches, arrays, exact_a @ exact_b, (exact_a, exact_b), "float16")


def test_a_factor_that_is_aligned_may_be_copied_all_the_same():
    a, b, exact_a, exact_b = given(72, 64, 520, "nt", "float16")  # 1,040 bytes a row
    arrays = cuda.to_device(a), cuda.to_device(b), None, None, empty(72, 64, "float16")
    problem = GemmProblem.of(*arrays, "nt")
    launches = half.partial_launches(
        choice.staged_config(1, 64, 1), 1, problem, *arrays, copied=(True, False)
    )
    assert len(launches) == 2
    run(launches, arrays, exact_a @ exact_b, (exact_a, exact_b), "float16")


@pytest.mark.parametrize("begins", [0, 1, 2])
def test_factors_may_begin_anywhere(begins):
    a, b, exact_a, exact_b = given(24, 13, 70, "nt", "float16")
    memory = cuda.to_device(np.concatenate([np.zeros(begins, np.float16), a.ravel()]))
    there, out = memory[begins:].reshape(a.shape), empty(24, 13, "float16")
    arrays = there, cuda.to_device(b), None, None, out
    problem = GemmProblem.of(*arrays, "nt")
    for launches in (
        thin.launches(TILES[1], 1, False, problem, *arrays),
        half.partial_launches(choice.partial_tile(1, 64, 1), 1, problem, *arrays),
    ):
        run(launches, arrays, exact_a @ exact_b, (exact_a, exact_b), "float16")


@pytest.mark.parametrize("seed", range(3))
def test_any_size_has_a_plan_that_can_be_launched(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        rows, columns, depth = (int(np.exp(rng.uniform(0, 11.5))) for _ in range(3))
        aligned = tuple(bool(rng.integers(2)) for _ in range(3))
        layout = str(rng.choice(list(half.LAYOUTS)))
        sizes = choice.Sizes(layout, rows, columns, depth, 132, aligned)
        for plan in (choice.thin_plan(sizes), choice.partial_plan(sizes)):
            if plan.method == "thin":
                assert 1 <= plan.splits <= -(-depth // thin.CHUNK)
            else:
                assert 1 <= plan.splits <= -(-depth // 64) and plan.config.stages >= 3
                assert plan.config.shared <= choice.SHARED_LIMIT


def test_what_is_thin_or_unaligned_takes_another_way_than_what_is_neither():
    def plan(*sizes, aligned=(True, True, True)):
        methods = ("thin", "partial") + ("stored",) * all(aligned)
        return choice.plan_for(choice.Sizes(*sizes, 132, aligned), methods)

    assert plan("nt", 12608, 3072, 768).method == "roles"
    shared = plan("nt", 197, 768, 3072)
    assert shared.splits > 1 and not shared.config.partial
    assert plan("tn", 8, 6351, 14928, aligned=(True, False, False)).method == "thin"
    copied = plan("nn", 4636, 3472, 4961, aligned=(False, True, True))
    assert copied.method == "partial" and copied.copied == (True, False)


def test_rows_that_begin_anywhere_are_stored_by_threads_and_read_in_pairs_where_it_pays():
    def plan(*sizes, aligned):
        return choice.partial_plan(choice.Sizes(*sizes, 132, aligned))

    anywhere = plan("tn", 2928, 2195, 608, aligned=(True, False, False))
    assert anywhere.config.by_threads and anywhere.splits == 1
    crossing = plan("tn", 344, 5784, 17728, aligned=(True, True, True))  # rows of 688 bytes
    assert crossing.config.paired
    assert not plan("nt", 12608, 3072, 768, aligned=(True, True, True)).config.paired


@needs_compiler
@pytest.mark.parametrize(("along", "config"), cases.THIN)
def test_two_blocks_of_such_tiles_fit_a_multiprocessor(along, config):
    aligned, element = (along[0], along[1]), "bfloat16"
    kernel = thin.gemm(element, along, aligned, along[1], config, ("gelu", True, True))
    facts = compiled(kernel, cases.of_thin(element), "sm_80")
    assert facts.registers <= 65536 // (2 * 32 * config.warps)
    assert not facts.spills + facts.local_bytes and not facts.float64_lines


@needs_hopper
@pytest.mark.parametrize(("layout", "config"), cases.PARTIAL)
def test_partial_sums_are_in_registers(layout, config):
    kernel = warp_specialised.gemm(layout, "float16", config)
    facts = compiled(kernel, cases.of_partial(config, layout, "float16"), "sm_90a")
    assert facts.registers <= 65536 // config.threads and not facts.spills + facts.local_bytes
    assert "wgmma.mma_async" in facts.ptx and "call" not in facts.ptx


@needs_compiler
def test_what_copies_and_what_adds_partial_sums_need_few_registers():
    copies = compiled(padding.pad(), cases.of_copies(), "sm_80")
    kernel = partial.finish("float16", ("gelu", True, True), True)
    adds = compiled(kernel, cases.of_sums("float16"), "sm_80")
    assert all(its.registers <= 64 and not its.spills + its.local_bytes for its in (copies, adds))
