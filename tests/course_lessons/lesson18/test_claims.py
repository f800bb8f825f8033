"""What lesson 18 says is so: its network, what its kernels are made of, what was recorded."""

import re
from dataclasses import replace
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
from numba import float32

from course import check, cuda, recorded, trace
from course.checks.exercises import find_exercise
from course.checks.judging import judge
from course.checks.verdicts import Failure
from course.compiler.facts import compiled
from course_lessons.edits import solution
from course_lessons.lesson18 import judges, machine, parts, pictures, toy_gemm
from course_models.vit import reference
from course_models.vit.buffers import lifetimes, packed
from course_models.vit.weights import initial
from tests.course.compiled_samples import needs_compiler
from tests.pictures import assert_drawn
from tools.notebooks import lessons
from tools.train import vit as train_vit

TEXT = (lessons.ROOT / "course_lessons/lesson18/a_vision_transformer.py").read_text(
    encoding="utf-8"
)
PLAIN = re.sub(r"\n# ?", " ", TEXT)
NAMES = "patch-rows", "norm-of-halves", "attention-in-tiles", "bias-gelu"


def answer(name):
    found = solution(name)
    return found.define(found.source, name)


# --- the network ----------------------------------------------------------------------------------


def test_the_weights_that_ship_are_of_the_training_and_recognise_unseen_digits():
    shape, weights = parts.trained()
    images, labels = parts.unseen()
    assert shape == train_vit.SHAPE and shape.head == parts.SIZE
    found = reference.forward(shape, weights, images).argmax(1)
    said = (lessons.ROOT / "data/README.md").read_text(encoding="utf-8")
    assert f"it recognises {(found == labels).mean():.1%}" in said
    assert f"{shape.count:,}" in train_vit.__doc__ + open(train_vit.__file__).read()


def forward(layers, images):
    """The lesson's own program."""
    cell = next(c.source for c in lessons.read(lessons.ROOT / "course_lessons/lesson18/"
                "a_vision_transformer.py") if "def forward" in c.source)  # fmt: skip
    names = {"shape": layers.shape, "layers": layers}
    exec(cell[cell.index("def forward") :], names)
    return names["forward"](images)


def test_the_students_kernels_give_float64s_scores_to_halves():
    shape, weights = parts.trained()
    images, _ = parts.unseen()
    layers = parts.Layers(shape, weights, *map(answer, NAMES))
    scores = forward(layers, images[:40]).astype(np.float64)
    exact = reference.forward(shape, weights, images[:40])
    error = np.linalg.norm(scores - exact) / np.linalg.norm(exact)
    assert 3e-4 < error < 2e-3  # "the error is that of two" roundings
    assert (scores.argmax(1) == exact.argmax(1)).all()
    assert layers.launches == 5 + 7 * shape.depth == 19


def test_a_kernel_that_is_not_written_gives_nan():
    shape, weights = parts.trained()

    @cuda.jit
    def nothing(x, gamma, beta, out):
        pass

    kernels = [*map(answer, NAMES)]
    kernels[1] = nothing
    layers = parts.Layers(shape, weights, *kernels)
    assert np.isnan(forward(layers, parts.unseen()[0][:1])).all()


def test_shares_of_the_class_token_are_those_of_the_attention():
    shape, weights = parts.trained()
    shares = parts.class_shares(shape, weights, parts.unseen()[0][3], block=1)
    assert shares.shape == (2, 4, 4) and (shares > 0).all()
    assert (shares.sum((1, 2)) < 1).all()  # the class token's own share is the rest


def test_gradients_of_the_training_are_those_of_differences():
    shape = train_vit.ViTShape(image=4, patch=2, width=8, depth=2, heads=2, mlp=12, classes=3,
                               channels=1)  # fmt: skip
    rng = np.random.default_rng(0)
    weights = {name: its.astype(float) + 0.3 * rng.standard_normal(its.shape)
               for name, its in initial(shape).items()}  # fmt: skip
    given = rng.standard_normal((3, 1, 4, 4)), np.array([0, 2, 1])
    gradient = train_vit.Step(shape, weights, *given).gradient
    assert gradient.keys() == weights.keys()
    for name, g in gradient.items():
        place, losses = tuple(int(rng.integers(n)) for n in g.shape), []
        for step in (1e-5, -1e-5):
            moved = {key: its.copy() for key, its in weights.items()}
            moved[name][place] += step
            losses.append(train_vit.Step(shape, moved, *given).loss)
        assert g[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-5, abs=1e-8), name


@pytest.mark.slow
def test_training_learns():
    images, labels = train_vit.pixels(train_vit.digits(True)), train_vit.digits(True).labels
    few = train_vit.train(epochs=4)
    before = train_vit.Step(train_vit.SHAPE, initial(train_vit.SHAPE, 18), images, labels).loss
    assert train_vit.Step(train_vit.SHAPE, few, images, labels).loss < before - 0.1


# --- kernels --------------------------------------------------------------------------------------

HALVES = "float16[:, ::1]"
TYPES = {
    "patch-rows": f"void(float16[:, :, :, ::1], int64, {HALVES})",
    "norm-of-halves": f"void({HALVES}, float16[::1], float16[::1], {HALVES})",
    "attention-in-tiles": f"void({', '.join(['float16[:, :, :, :]'] * 3)}, float32, "
    "float16[:, :, ::1])",
    "bias-gelu": f"void({HALVES}, {HALVES}, float16[::1], {HALVES})",
}


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_a_solution_compiles_without_spills_and_float64(name, target):
    facts = compiled(answer(name), TYPES[name], target)
    assert not facts.float64_lines and not facts.spills


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_kernels_that_are_given_compile(target):
    product = f"{HALVES}, {HALVES}, float16[::1]"
    for kernel, types in (
        (parts.linear, f"void({product}, {HALVES})"),
        (parts.linear_added, f"void({product}, {HALVES}, {HALVES})"),
        (parts.with_positions, f"void({HALVES}, float16[::1], {HALVES}, {HALVES})"),
    ):
        facts = compiled(kernel, types, target)
        assert not facts.float64_lines and not facts.spills


def test_the_products_that_are_given_are_right_where_blocks_stick_out():
    rng = np.random.default_rng(2)
    x, weight, bias, before = (rng.standard_normal(n).astype(np.float16)
                               for n in ((19, 21), (35, 21), 35, (19, 35)))  # fmt: skip
    exact = x.astype(float) @ weight.T.astype(float) + bias
    for kernel, more, right in ((parts.linear, (), exact),
                                (parts.linear_added, (before,), exact + before)):  # fmt: skip
        out = np.full((19, 35), np.nan, np.float16)
        report = trace(kernel, (3, 2), (16, 16), x, weight, bias, *more, out)
        assert np.abs(out - right).max() <= 2.0**-10 * np.abs(right).max()
        kinds = {finding.kind for finding in report.findings}
        assert kinds <= {"bank-conflict"}  # two rows of 17 that a warp fills meet in one bank


def test_a_sum_of_ones_in_halves_stops_at_2048():
    @cuda.jit
    def summed(x, out):
        half = x[0] - x[0]
        for n in range(x.size):
            half += x[n]
        out[0] = float32(half)

    out = np.zeros(1, np.float32)
    summed[1, 1](np.ones(4000, np.float16), out)
    assert out[0] == 2048
    assert "From 2,048 on float16 counts in twos" in PLAIN


def test_the_two_gelus_differ_by_less_than_the_text_says():
    z = np.linspace(-8, 8, 4001)
    tanh = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    assert 4e-4 < np.abs(tanh - reference.gelu(z)).max() < 0.0005
    assert "They differ by less than 0.0005" in PLAIN and "0.79788 is the root" in PLAIN


# --- what judges say ------------------------------------------------------------------------------


def test_tiles_are_gone_when_the_next_one_comes():
    tiles = [[np.ones(3), np.ones((3, 2))], [np.ones(2), np.ones((2, 2))]]
    kept = list(judges.each_once(tiles))
    assert all(np.isnan(array).all() for pair in kept for array in pair)
    assert np.array_equal(tiles[0][0], np.ones(3))


def test_what_other_threads_allocate_is_not_the_answers():
    tiles = [(np.ones(64), np.ones((64, 16))) for _ in range(64)]
    stopped = Event()

    def allocate():
        kept = []
        while not stopped.wait(0.001):
            kept = [*kept[-20:], np.ones(100_000)]

    def careful(tiles):
        return sum(values.sum() for _, values in tiles)

    def keeping(tiles):
        kept = [values.copy() for _, values in tiles]
        return sum(values.sum() for values in kept)

    other = Thread(target=allocate)
    other.start()
    try:
        assert judges.call_with_tiles(careful, (tiles,)) == 64 * 64 * 16
        with pytest.raises(Failure, match=r"(?s)kB before the last tile.*to be read again"):
            judges.call_with_tiles(keeping, (tiles,))
    finally:
        stopped.set()
        other.join()


def test_gemm_goes_by_columns_and_refuses_what_does_not_fit():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 5))
    out = np.zeros((5, 4))  # by columns 4 x 5
    toy_gemm.gemm(4, 5, 3, a.T.copy(), 4, b.T.copy(), 3, out, 4)
    assert np.allclose(out.T, a @ b)
    with pytest.raises(ValueError, match="ld_second is 2: a column of this matrix has 3 numbers"):
        toy_gemm.gemm(4, 5, 3, a, 4, b, 2, out, 4)
    with pytest.raises(
        ValueError, match="ld_first is 9: 3 columns of 4 numbers would end at number 22"
    ):
        toy_gemm.gemm(4, 5, 3, a, 9, b, 3, out, 4)


def test_the_greedy_bytes_of_the_judge_are_those_of_the_package():
    for case in ("a gap between two others", "a block of a transformer"):
        exercise = judges_exercise()
        number = next(n for n, its in enumerate(exercise.cases) if its.name == case)
        steps, sizes = exercise.arguments(number).values()
        wide = {name: 256 * size for name, size in sizes.items()}  # packed goes by 256 bytes
        places = packed(lifetimes(steps), wide).offsets
        assert judges.judge_buffers(places, steps, wide) is None


def judges_exercise():
    from course.checks.exercises import find_exercise

    return find_exercise("buffers-by-lifetimes")


# --- pictures -------------------------------------------------------------------------------------


def drawn():
    image = parts.unseen()[0][8, 0].astype(float)
    counts = np.arange(1, 9)
    lives = {"a": (0, 1), "b": (1, 2)}
    yield pictures.patches(image), ("row 15",)
    yield pictures.network(parts.trained()[0]), ("attention", "17 × 32")
    yield pictures.running_sums(counts, {"float16": counts, "float32": 2 * counts}), ("float16",)
    yield pictures.shares(image, [np.eye(4), np.ones((4, 4))], ["one", "two"]), ("one", "two")
    yield pictures.tiles(11, 4), ("× exp(old − new)",)
    yield pictures.readings(), ("in memory",)
    yield pictures.arena(lives, {"a": 8, "b": 4}, {"a": 0, "b": 8}), ("a", "b", "12")
    yield pictures.parts({"norm": {"ours": 1.0, "PyTorch": 2.5}}, "one"), ("2.5 PyTorch",)


@pytest.mark.parametrize(("picture", "words"), [*drawn()])
def test_a_picture_fits_a_notebook_and_shows_its_words(picture, words):
    assert_drawn(picture, *words, most_bytes=60_000)


# --- recorded -------------------------------------------------------------------------------------


def test_the_text_repeats_what_is_computed():
    assert machine.launches_of_dots() == 7_225_344
    (launch,) = recorded("launch", variant="no arguments", metric="host", gpu="H200")
    assert machine.launches_of_dots() * launch.median > 60e3  # "More than a minute"
    assert round(machine.BASE.count / 1e6) == 86 and "86 million weights" in PLAIN
    assert machine.BASE.tokens == 197 and "196 patches" in PLAIN


def test_one_image_is_bound_by_launches_and_weights_and_many_by_operations():
    count = 5 + 7 * machine.BASE.depth
    shares = [machine.floors(batch, count).fixed for batch in (1, 8, 64)]
    assert shares[0] > 0.6 and shares[2] < 0.1 and shares[0] > shares[1] > shares[2]
    for batch in (1, 64):
        assert sum(machine.floors(batch, count)) < machine.whole(batch).median
    for name in machine.PARTS[1:]:
        what, least = machine.bound(name, 1)
        assert what == "memory"  # "All are bound by memory"
        assert least < 0.5 * machine.parts(1)[name]["ours"]  # "And none is near its bound"
    assert 12 < machine.whole(64).median / machine.whole(1).median < 14  # "a thirteenth"
    for name in ("qkv", "proj + residual", "fc1 + GELU", "fc2 + residual"):
        assert machine.bound(name, 64)[0] == "tensor cores"


def test_what_is_gained_is_gained_between_products():
    ratios = {name: its["PyTorch"] / its["ours"] for name, its in machine.parts(64).items()}
    assert max(ratios, key=ratios.get) in ("norm", "patch embedding")
    assert min(ratios["norm"], ratios["patch embedding"]) > 2.4
    assert 0.9 < ratios["qkv"] < 1.15  # "both are near each other"
    for name in ("norm", "attention", "fc1 + GELU"):
        assert ratios[name] > 1.15
    assert machine.whole(64, "compiled").median > 1.1 * machine.whole(64).median


def test_pages_repeat_what_was_recorded():
    def page(name):
        return " ".join((lessons.ROOT / name).read_text(encoding="utf-8").split())

    ours, peers = ([machine.whole(n, its).median for n in (64, 1)] for its in ("ours", "compiled"))
    best = min(machine.whole(64, peer).median for peer in machine.PEERS)
    assert f"a vision transformer {best / ours[0]:.2f} times as fast as" in page("README.md")
    assert (
        f"64 images in {ours[0]:.1f} ms and one in {ours[1]:.2f} ms, `torch.compile` in a CUDA "
        f"graph in {peers[0]:.1f} and {peers[1]:.2f}"
    ) in page("site/functions.md")


def test_of_the_patches_ways_one_product_is_fastest_and_streams_do_not_help():
    lines = [line.split() for line in machine.table_of_patches().splitlines()[3:]]
    ways = {line[0]: [float(number) for number in line[1:]] for line in lines}
    assert list(ways) == list(machine.WAYS)
    time = {way: its[0] for way, its in ways.items()}
    assert min(time, key=time.get) == "gemm" and 5.5 < time["channels"] / time["gemm"] < 7
    assert ways["gemm"][3] == pytest.approx(ways["channels"][3], rel=0.01)  # "the same bytes"
    assert ways["kept"][1] == ways["channels"][1] and 0.2 < time["kept"] / time["channels"] < 0.3
    assert time["sorted"] - time["gemm"] > time["gemm"]  # "longer than all else"
    assert time["streams"] > time["sorted"]  # "slower than none"


def test_a_process_that_kept_kernels_waits_for_a_dozen_passes_and_files_take_fifty():
    lines = machine.table_of_waiting().splitlines()[1:]
    first, kept, eager, compiled, traced, again, files = (float(line.split()[-1]) for line in lines)
    assert first > 20 * kept and 11 < kept / again < 15 and 45 < files / again < 60
    assert compiled > traced > eager > kept  # "PyTorch's compiler traces the network anew"


def test_attention_is_a_hundred_times_faster_than_with_scores_in_memory():
    given = {"kernel": "attention", "metric": machine.METRIC, "gpu": "H200"}
    times = {its.variant: its.median for its in recorded("attention", **given)
             if its.shape.startswith("8x12x197") and its.dtype == "float16"}  # fmt: skip
    assert 80 < times["scores"] / times["ours"] < 150
    assert times["scores"] > times["fused"] > 10 * times["online"] > 10 * times["ours"]


def test_tables_have_what_was_recorded(monkeypatch):
    assert re.search(r"\n +64 +\d\.\d\d ms", machine.table_of_wholes())
    assert "fc2 + residual   memory" in machine.table_of_parts(1)
    monkeypatch.setattr(machine, "recorded", lambda *a, **more: [])
    assert machine.table_of_patches() == "" and machine.table_of_waiting() == ""


# --- the given norm, and whose time it is ---------------------------------------------------------


def test_the_given_norm_passes_the_exercises_cases_and_is_refused_as_an_answer():
    exercise = find_exercise("norm-of-halves")
    assert check("norm-of-halves", parts.norm_rows).kind == "borrowed"
    assert bool(judge(replace(exercise, solved_by=()), parts.norm_rows))


def test_shares_are_of_a_pass_alone(monkeypatch):
    monkeypatch.setattr(parts.cuda, "event", lambda: SimpleNamespace(
        record=lambda: None, synchronize=lambda: None))  # fmt: skip
    times = iter([3.0, 1.0, 4.0])
    monkeypatch.setattr(parts.cuda, "event_elapsed_time", lambda before, after: next(times))
    layers = parts.Layers(*parts.trained(), *[None] * 4)

    def forward():
        for name in ("slow", "quick", "slow"):
            layers._launch(FakeKernel(name), 1, 1)

    forward()
    assert layers.shares(forward) == {"slow": 7 / 8, "quick": 1 / 8}
    assert layers.milliseconds is None and layers.launches == 6


class FakeKernel:
    """A kernel that does nothing, of a name."""

    def __init__(self, name):
        self.__name__ = name

    def __getitem__(self, configuration):
        return lambda *arguments: None
