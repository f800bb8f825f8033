"""Each question of a lesson says how it is judged, is answered once, and catches its slips."""

import ast
from dataclasses import dataclass

import pytest

from course.checks.guesses import Rule
from course.checks.predictions import HOW, Predictor
from tools.notebooks import lessons


@dataclass(frozen=True)
class Question:
    """A question of a lesson, as its text declares it."""

    lesson: str
    text: str
    samples: tuple
    declared: dict

    def __str__(self) -> str:
        return f"{self.lesson}-{self.text}"


def literal(node):
    """A constant of a lesson's text; ``float("inf")`` is one, too."""
    return float("inf") if isinstance(node, ast.Call) else ast.literal_eval(node)


def asked_in(path):
    return [
        Question(
            path.parent.name,
            literal(call.args[0]),
            tuple(literal(guess) for guess in call.args[1:]),
            {keyword.arg: literal(keyword.value) for keyword in call.keywords},
        )
        for cell in lessons.read(path)
        if cell.kind == "code"
        for call in lessons.predictions(cell.source)
    ]


def answered_in(path):
    """The questions that a lesson answers, each with its `how`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named, answers = "", []
    for node in ast.walk(tree):  # breadth first: statements of a notebook in their order
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "question":
            named = literal(node.value)
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("predict.answer("):
            first = node.value.args[0]
            how = {k.arg: k.value for k in node.value.keywords}.get("how", ast.Constant("measured"))
            answers.append((named if isinstance(first, ast.Name) else literal(first), literal(how)))
    return answers


PATHS = lessons.paths()
QUESTIONS = [question for path in PATHS for question in asked_in(path)]


def test_there_are_questions():
    assert len(QUESTIONS) > 180


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_question_says_how_it_is_judged_and_has_a_sample_guess(question):
    rule = Rule(**question.declared)  # refuses none, and two ways
    samples = question.samples if len(question.samples) > 1 else question.samples[0]
    assert rule.read(samples) is not None


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_speed_up_is_judged_as_an_effect(question):
    words = question.text.lower()
    if any(said in words for said in ("times as fast", "times faster", "times slower")):
        assert question.declared.get("no_effect") == 1


@pytest.mark.parametrize("path", PATHS, ids=lessons.name)
def test_what_is_asked_is_answered_once(path):
    answers = answered_in(path)
    assert sorted(text for text, _ in answers) == sorted(q.text for q in asked_in(path))
    assert {how for _, how in answers} <= set(HOW)


@pytest.mark.parametrize("path", PATHS, ids=lessons.name)
def test_students_get_dots_in_place_of_the_sample(path):
    for cell in lessons.read(path):
        if cell.kind == "code":
            for call in lessons.predictions(lessons.stub(cell.source)):
                assert [ast.unparse(guess) for guess in call.args[1:]] == ["..."]


def outcome_of(text, guess, truth):
    (question,) = (q for q in QUESTIONS if q.text == text)
    predictor = Predictor()
    predictor(text, *(guess if isinstance(guess, tuple) else (guess,)), **question.declared)
    return predictor.answer(text, truth)


@pytest.mark.parametrize(
    ("text", "guess", "truth"),
    [
        ("largest k that still compresses 256 x 256", 128, 127),
        ("ms between two readings around a launch", 2.3, 0.3),
        ("store requests of two warps, branch by warp", 4, 2),
        ("is the result right without the barrier?", "no", "yes"),
        ("1 KiB, each call against one buffer, times the wait", 1, 2.7),  # "memory costs nothing"
        ("wavefronts for an FMA, square", 0.25, 0.75),
        (  # a loss called a gain
            "buffered, asynchronous: times as fast as wide",
            (1.1, 0.82),
            (0.97, 0.82),
        ),
        ("% of the run before the second image", 50, 97),
        ("ms in turns, pageable", 14.5, 27.0),  # "it changes nothing"
        ("small images: the original's streams, times faster", 1.6, 0.83),
        ("images in a queue without a bound", 1000, 800),
        ("lane 31 after five times shfl_down", 496, 992),  # "it holds the sum"
        ("shuffles, times as fast as the tree", 2, 1.02),
        ("cos(0.0002) in float32", 0.99999998, 1.0),
        ("sweeps for the photograph, after QR twice", 12, 6),
        ("ms, the long ones last", 9, 11.0),
        ("times as fast, three GPUs more", 4, 1.0),
        ("published: rate of the fused Triton kernel / rate of PyTorch's pair", 1.2, 0.79),
        ("trained with ReLU, computed with GELU: % right", 98.3, 95.3),
        ("PyTorch with our ReLU against PyTorch, times the wait", 1, 4.5),
        ("round of four groups against round of one, times", 4, 2.4),
        ("barriers a tile, weights resident", 4, 2),
        ("bytes from m to m[1:3, 2:5]", 8, 32),  # "strides count elements"
        ("bytes from m to m[1:3, 2:5]", 12, 32),  # "rows are as long as the slice's"
        ("who is at the kept address", "a", "b"),  # "an address keeps memory alive"
        ("who is at the kept address", "nobody", "b"),
        ("microseconds of a launch by Numba", 5, 20.4),  # "a launch is the driver's"
        (
            "microseconds of a launch by Numba",
            0.1,
            20.4,
        ),  # "arrays are on the GPU: it costs nothing"
        ("where a bfloat16 sum of ones stops", 65504, 256),  # "it ends where float16 does"
        ("where a bfloat16 sum of ones stops", 128, 256),  # 7 bits, and none before the point
        ("128 rows, eager: how many times as fast is ours?", 1.5, 0.80),  # "one kernel beats two"
        ("128 rows, eager: how many times as fast is ours?", 1, 0.80),
        ("nearer to a real digit, half-way", "pixels", "codes"),
        ("first logit whose BCE is infinite", 89, 17),  # "where exp overflows"
        ("wavefronts, tiled / padded, nn and nt", (2, 4), (1.0, 1.74)),  # "padding always pays"
        ("bytes an element, generator with a state", 16, 80),  # "random numbers move nothing"
        ("bytes an element, generator with a state", 32, 80),  # "a state is read once"
        ("back and update in one launch", "nothing", "a race"),  # "nobody writes twice"
        ("launches, layered; bytes, layered / fused", (42, 20), (42, 2.6)),  # "bytes as launches"
        ("relative error of 1 - 0.999 in float32", 6e-8, 1.3e-5),  # "as any float32 number's"
        ("a warp's sum without a barrier", "nothing", "a race"),  # "a warp runs in step"
        ("weights after a stop", "close", "equal"),
        ("fused against the best PyTorch, times as fast", 1, 5.2),
        ("Adam, percent of an A100's bandwidth", 90, 207),  # "at most 100"
        ("numbers of a, of b, of c in a lane", (16, 8, 8), (8, 4, 4)),  # "a row each"
        ("products for a number: 16 x 8, 16 x 16, 128 x 128", (8, 16, 128), (5.3, 8.0, 64.0)),
        ("registers of the tile's place, by division", 12, 22),  # "it costs nothing"
        ("wavefronts of a fragment's register, rows of 128 bytes", 4, 8),  # "four words"
        ("share of the time at work: 128 x 256, 128 x 192", (1, 1), (0.75, 1.0)),
        ("strips of a wave: row by row, bands of 8", (132, 132), (37, 25)),
        ("cycles of shared memory for one of tensor cores, 64 x 64", 0.5, 1.0),  # "a alone"
        ("share of the cycles, wgmma of 64 x 256", 1, 0.625),  # "nothing changes"
        ("stages of 128 x 64 and 64 x 256 halves", 2, 4),  # "four bytes a number"
        ("4,000 ones, added in float16", 4000, 2048),  # "it only loses digits"
        ("768 squares near 3,600, summed in float16", "65504", "inf"),  # "it stays at the largest"
        (
            "launches for an image, a dot product each",
            150_528,
            7_225_344,
        ),  # "a token's number each"
        ("MB of scores, 4,096 tokens, 12 heads", 34, 403),  # "one head"
        ("bytes / result: apart, a matrix, a vector", (3, 2, 1), (3.0, 3.0, 1.0)),
        ("relative error of the scores", 0.01, 0.0009),  # "nineteen roundings add up"
        ("launches and weights, % at 1 image and at 64", (5, 5), (76, 5)),
        ("fewest launches", "gemm", "sorted"),
        ("units of memory for a block's buffers", 11, 5),
        ("the first factor that is handed over", "A", "B"),
    ],
)
def test_a_misconception_is_not_right(text, guess, truth):
    assert outcome_of(text, guess, truth).verdict.startswith("✗")


@pytest.mark.parametrize(
    ("text", "guess", "truth"),
    [
        ("are all pixels counted?", "No, some are lost", "no"),
        ("fewest load sectors: width of the block", 16, "16 x 16"),
        ("fewest load sectors: width of the block", "16 x 16", "16 x 16"),
        ("sectors per load and per store, x along the rows of the image", (4, 32), (4.0, 32.0)),
        ("lines for an i: original, naive", ((18, 4),), (18, 4)),
        ("ms in turns, pageable", 27, 27.0),
        ("the last warp without a barrier", "a race", "race"),
        ("several: ms", 0.06, 0.069),
        ("shuffles, times as fast as the tree", 1, 1.02),
        ("who is at the kept address", "B", "b"),
        ("microseconds of a launch by Numba", 15, 20.4),
        ("128 rows, eager: how many times as fast is ours?", 0.7, 0.80),
        ("first logit whose BCE is infinite", 16, 17),
        ("wavefronts, tiled / padded, nn and nt", (1, 1.7), (1.0, 1.74)),
        ("launches, layered; bytes, layered / fused", (40, 2.5), (42, 2.6)),
        ("relative error of 1 - 0.999 in float32", 1e-5, 1.3e-5),
        ("fused against the best PyTorch, times as fast", 4, 5.2),
        ("products for a number: 16 x 8, 16 x 16, 128 x 128", (5.33, 8, 64), (5.3, 8.0, 64.0)),
        ("registers of the tile's place, by division", 24, 22),
        ("launches for an image, a dot product each", 7e6, 7_225_344),
        ("launches and weights, % at 1 image and at 64", (70, 6), (76, 5)),
        ("MB of scores, 4,096 tokens, 12 heads", 384, 403),  # by 1,024
    ],
)
def test_a_good_guess_is_right(text, guess, truth):
    assert outcome_of(text, guess, truth).verdict.startswith("✓")
