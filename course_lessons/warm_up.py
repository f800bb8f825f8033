"""Two questions of earlier lessons at the head of each lesson: `warm_up`.

What was wrong is asked again, in a later session, too (`course.progress` keeps it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course.checks import progress
from course.checks.verdicts import Verdict
from warpsim.core.words import wrapped

GROUND = range(6)  # lessons that everybody takes; others are asked about once they were begun
LETTERS = "abc"


@dataclass(frozen=True)
class Question:
    """A question with three choices, of which `right` is the letter of one; `why` in a sentence."""

    lesson: int
    text: str
    choices: tuple[str, str, str]
    right: str
    why: str

    @property
    def name(self) -> str:
        """By which progress knows it."""
        return f"warm-up-{self.lesson:02d}-{QUESTIONS.index(self)}"


QUESTIONS = (
    Question(
        0,
        "What keeps a thread whose index lies past the array from storing?",
        ("the GPU", "an `if` in the kernel", "the launch"),
        "b",
        "The GPU does not stop it: it would write elsewhere.",
    ),
    Question(
        0,
        "Why does a GPU want thousands of threads?",
        ("others work while some wait", "each thread is fast", "memory is large"),
        "a",
        "A thread that waits for memory costs nothing while others compute.",
    ),
    Question(
        1,
        "What is a thread's index over all blocks of a 1-D grid?",
        (
            "threadIdx.x",
            "blockIdx.x + threadIdx.x",
            "blockIdx.x * blockDim.x + threadIdx.x",
        ),
        "c",
        "Each block before it has blockDim.x threads.",
    ),
    Question(
        1,
        "How many blocks of 128 threads cover 1,000 elements?",
        ("7", "8", "9"),
        "b",
        "7 blocks are 896 threads; 8 are 1,024, and a guard keeps 24 of them idle.",
    ),
    Question(
        2,
        "A kernel adds in float64, where float32 is meant. What does it give?",
        ("the right image, slowly", "a wrong image", "an error"),
        "a",
        "On most GPUs float64 has a fraction of float32's rate.",
    ),
    Question(
        2,
        "x is the column. Which index changes between neighbours in memory?",
        ("the row", "the column", "both"),
        "b",
        "Rows lie one behind the other: neighbours in a row are neighbours in memory.",
    ),
    Question(
        3,
        "You time a launch without waiting for the GPU. What do you measure?",
        ("the kernel", "the cost of launching", "the copy"),
        "b",
        "A launch returns at once: synchronize, then look at the clock.",
    ),
    Question(
        3,
        "A kernel moves 1 GB on a GPU of 1 TB/s. What is its least time?",
        ("1 ms", "1 s", "1 µs"),
        "a",
        "10⁹ bytes at 10¹² bytes a second take 10⁻³ s.",
    ),
    Question(
        4,
        "32 lanes load 32 neighbouring float32. How many sectors of 32 bytes are that, at best?",
        ("1", "4", "32"),
        "b",
        "128 bytes are four sectors.",
    ),
    Question(
        4,
        "Half of a warp takes the `if`, half the `else`. What does the warp run?",
        ("both, one after the other", "both at the same time", "the longer one"),
        "a",
        "One instruction serves the active lanes; the others wait.",
    ),
    Question(
        5,
        "A tile is filled by all threads of a block. What must stand before it is read?",
        ("a copy", "nothing", "cuda.syncthreads()"),
        "c",
        "A thread reads what another one stored: without a barrier that is a race.",
    ),
    Question(
        5,
        "32 lanes read a column of a 32 × 32 tile of float32. How many wavefronts are that?",
        ("1", "2", "32"),
        "c",
        "All 32 are in one bank. A row of 33 spreads them.",
    ),
    Question(
        6,
        "Why does a thread compute a square of results in registers?",
        (
            "each number that it loads serves several FMA",
            "registers are larger than shared memory",
            "it needs fewer barriers",
        ),
        "a",
        "8 + 8 loaded numbers serve 64 FMA.",
    ),
    Question(
        6,
        "A kernel uses more registers a thread. What may fall?",
        ("the warps that an SM can hold", "the rate of an FMA", "the bytes moved"),
        "a",
        "An SM's registers are shared among its warps.",
    ),
    Question(
        7,
        "Memory throughput is 95%, DRAM throughput 2%. Where do you look?",
        ("at the copies", "at L1 and shared memory", "at the grid"),
        "b",
        "Uncoalesced loads or bank conflicts keep L1 busy.",
    ),
    Question(
        7,
        "Both throughputs are 30%. What do you read next?",
        ("stall reasons", "the clock rate", "the PTX"),
        "a",
        "Nothing is busy, so the warps wait for something.",
    ),
    Question(
        8,
        "A copy from pageable memory names a stream. Does it overlap with the next copy?",
        ("yes", "no", "only on some GPUs"),
        "b",
        "The driver copies through its own pinned buffer, and the host waits.",
    ),
    Question(
        8,
        "Copies out take 80% of a serial program. How many times as fast can streams make it?",
        ("1.25", "5", "1.8"),
        "a",
        "1 / 0.8: the busiest engine stays.",
    ),
    Question(
        9,
        "The queue before a stage is always full. What is the bottleneck?",
        ("the stage before it", "that stage", "the queue"),
        "b",
        "A longer queue needs more memory, and no less time.",
    ),
    Question(
        9,
        "Why is the file written before the journal's line?",
        (
            "it is faster",
            "a crash between them costs one image again, and loses none",
            "the journal needs its size",
        ),
        "b",
        "The other way round an image would be missing, and nobody would know.",
    ),
    Question(
        10,
        "How many steps of shuffles add up the 32 numbers of a warp?",
        ("5", "31", "32"),
        "a",
        "Each step halves how many sums are left.",
    ),
    Question(
        10,
        "The largest number of an online softmax grows. What becomes of the running sum?",
        (
            "it stays",
            "it is multiplied by exp(old - new)",
            "it begins at 0 again",
        ),
        "b",
        "All powers are relative to the largest so far.",
    ),
    Question(
        11,
        "Which pairs of rows may be rotated at the same time?",
        ("any", "those that share no row", "neighbours"),
        "b",
        "Two rotations of one row would be a race.",
    ),
    Question(
        12,
        "10% of a program stays serial. What is the most that many workers can reach?",
        ("10 times", "90 times", "no bound"),
        "a",
        "Amdahl: 1 / 0.1.",
    ),
    Question(
        13,
        "Why is a fused kernel faster than two?",
        (
            "it computes less",
            "what lies between them never goes through memory",
            "it has more threads",
        ),
        "b",
        "Both are bound by bytes.",
    ),
    Question(
        13,
        "Why is no variance computed as mean of squares less square of the mean?",
        ("it is slower", "it needs float64", "two large numbers cancel"),
        "c",
        "Around a mean of 10,000 nothing of a spread of 1 is left in float32.",
    ),
    Question(
        14,
        "A time does not grow with the batch. What do you suspect?",
        ("that launches are timed", "a fast kernel", "a large cache"),
        "a",
        "If nothing grows with the work, the work is not what is timed.",
    ),
    Question(
        15,
        "On which stream must your kernel run inside PyTorch?",
        ("the default one", "a new one", "PyTorch's current one"),
        "c",
        "Its neighbours in the program are queued there.",
    ),
    Question(
        16,
        "Where does a product's epilogue work?",
        ("on sums in registers, before the store", "in a second launch", "on the host"),
        "a",
        "So the product goes through memory once.",
    ),
    Question(
        17,
        "Tensor cores multiply float16. In which type do they add here?",
        ("float16", "float32", "float64"),
        "b",
        "Sums of many float16 would stop growing.",
    ),
    Question(
        18,
        "What does attention in tiles never store?",
        ("the keys", "the scores", "its result"),
        "b",
        "Scores live in registers, with a running maximum and sum.",
    ),
)
_asked: dict[int, tuple[Question, ...]] = {}


def warm_up(lesson: int, *answers: object) -> None:
    """Ask two questions of lessons before this one, or judge the answers.

    Parameters
    ----------
    lesson : int
        The lesson at whose head it stands.
    answers : str
        A letter for each question: ``warm_up(5, "a", "c")``; ``...`` where there is none yet.

    Raises
    ------
    ValueError
        If an answer is no letter of a choice, or the lesson has none before it.
    """
    if lesson not in _asked:
        _asked[lesson] = chosen(lesson, progress.known())
    given = [answer for answer in answers if answer not in (..., None)]
    if not given:
        for number, question in enumerate(_asked[lesson], 1):
            print(_said(number, question))
            for letter, choice in zip(LETTERS, question.choices, strict=True):
                print(f"   {letter}  {choice}")
        return
    for answer in given:
        if answer not in tuple(LETTERS):
            raise ValueError(f"warm_up: an answer is 'a', 'b' or 'c'; got {answer!r}")
    for number, (question, answer) in enumerate(zip(_asked[lesson], answers, strict=False), 1):
        if answer in tuple(LETTERS):
            print(_judged(number, question, answer))


def _judged(number: int, question: Question, answer: str) -> str:
    right = answer == question.right
    status = "passed" if right else "failed"
    progress.record(question, Verdict(question.name, status, status, ""), None)
    choice = question.choices[LETTERS.index(question.right)]
    mark = f"✓ {answer}" if right else f"✗ {answer}; right is {question.right}"
    return f"{_said(number, question)}\n" + wrapped(f"   {mark}: {choice}. {question.why}")


def _said(number: int, question: Question) -> str:
    return wrapped(f"{number}. {question.text} (lesson {question.lesson:02d})")


def chosen(lesson: int, known: Mapping[str, progress.Record]) -> tuple[Question, ...]:
    """Two questions of lessons before this one: what was wrong first, then what is new."""
    begun = {*GROUND, *(record.lesson for record in known.values())}
    at_hand = [each for each in QUESTIONS if each.lesson < lesson and each.lesson in begun]
    if not at_hand:
        raise ValueError(f"warm_up: no lesson stands before lesson {lesson}")
    missed = {record.lesson for record in known.values() if record.status == "failed"}

    def order(question: Question) -> tuple[int, int]:
        record = known.get(question.name)
        wrong = record is not None and record.status == "failed"
        rank = 0 if wrong else 3 if record else 1 if question.lesson in missed else 2
        return rank, (at_hand.index(question) - 5 * lesson) % len(at_hand)

    first, *rest = sorted(at_hand, key=order)
    others = [each for each in rest if each.lesson != first.lesson or order(each)[0] == 0]
    return (first, *(others or rest)[:1])


def right_answers(lesson: int) -> list[str]:
    """The right answers to the questions of a reader of whom nothing is known."""
    return [question.right for question in chosen(lesson, {})]
