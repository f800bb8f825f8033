"""Lesson 15's toys behave as libraries do, its judge rounds as bfloat16, its pictures say it."""

import contextlib
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from course.dispatch.slots import in_c_order
from course_lessons.lesson15 import pictures, toy_torch
from course_lessons.lesson15.judges import FORMS, judge_bits, judge_order, rounded
from course_lessons.lesson15.toy_door import Plan, Tensor, Workshop
from course_lessons.lesson15.toy_streams import Streams
from tests.pictures import assert_drawn, picture_texts

# --- streams --------------------------------------------------------------------------------------


def filled_and_read(*, reader="mine", event=False, before=0.0):
    """A stream fills x in 3 ms, and a kernel reads it; the kernel's stream is busy before."""
    toy = Streams()
    toy.launch("theirs", "fill", writes=["x"], ms=3)
    if before:
        toy.launch(reader, "other work", ms=before)
    if event:
        toy.record("filled", "theirs")
        toy.wait(reader, "filled")
    toy.launch(reader, "read", reads=["x"], writes=["y"], ms=1)
    return toy


def test_works_of_one_stream_take_turns_and_those_of_two_overlap():
    assert [(span.start, span.end) for span in filled_and_read(reader="theirs").spans] == [
        (0, 3),
        (3, 4),
    ]
    assert [(span.stream, span.start) for span in filled_and_read().spans] == [
        ("theirs", 0),
        ("mine", 0),
    ]


def test_one_stream_or_an_event_orders_works():
    assert filled_and_read().races == [("fill", "read", "x")]
    assert filled_and_read(reader="theirs").races == []
    waited = filled_and_read(event=True)
    assert waited.races == [] and waited.spans[-1].start == 3


def test_works_in_the_right_order_by_luck_are_a_race_all_the_same():
    late = filled_and_read(before=5.0)
    assert late.spans[-1].start >= late.spans[0].end
    assert late.races == [("fill", "read", "x")]


def test_an_event_is_of_what_its_stream_was_given_so_far():
    toy = Streams()
    toy.record("early", "theirs")
    toy.launch("theirs", "fill", writes=["x"])
    toy.wait("mine", "early")
    toy.launch("mine", "read", reads=["x"])
    assert toy.races == [("fill", "read", "x")] and toy.spans[1].start == 0


def test_a_wait_is_for_the_last_record_before_it():
    toy = Streams()
    toy.launch("a", "fill x", writes=["x"], ms=2)
    toy.launch("b", "fill z", writes=["z"], ms=1)
    toy.record("ready", "a")
    toy.record("ready", "b")
    toy.wait("mine", "ready")
    toy.record("ready", "a")
    toy.launch("mine", "read", reads=["x", "z"])
    assert toy.races == [("fill x", "read", "x")] and toy.spans[-1].start == 1


def test_an_event_that_was_never_recorded_is_not_waited_for():
    toy = Streams()
    toy.launch("theirs", "fill", writes=["x"], ms=3)
    toy.wait("mine", "nobody's")
    toy.launch("mine", "read", reads=["x"])
    assert toy.spans[-1].start == 0 and toy.races


def test_order_is_handed_on_through_a_third_stream():
    toy = Streams()
    toy.launch("a", "fill", writes=["x"], ms=2)
    toy.record(1, "a")
    toy.wait("b", 1)
    toy.record(2, "b")
    toy.wait("c", 2)
    toy.launch("c", "read", reads=["x"])
    assert toy.races == [] and toy.spans[-1].start == 2


def test_two_that_read_need_no_order_and_two_that_write_do():
    toy = Streams()
    toy.launch("a", "read", reads=["x"])
    toy.launch("b", "read, too", reads=["x"])
    assert toy.races == []
    toy.launch("c", "write", writes=["x", "a"])
    toy.launch("d", "write, too", writes=["x", "a"])
    assert ("read", "write", "x") in toy.races
    assert ("write", "write, too", "a") in toy.races  # of several arrays the first by name


def test_the_forms_are_those_that_the_toy_understands():
    commands = [("record", "there", "theirs"), ("wait", "mine", "there"), ("launch", "mine")]
    assert [command[0] for command in commands] == list(FORMS)
    assert "goes on after your call" in judge_order(commands, "mine", ["theirs"])
    commands += [("record", "read", "mine"), ("wait", "theirs", "read")]
    assert judge_order(commands, "mine", ["theirs"]) is None


# --- a door ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 5)], ids=str)
@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64], ids=lambda kind: kind.__name__
)
def test_strides_in_c_order_are_numpys(shape, kind):
    array = np.empty(shape, kind)
    assert in_c_order(shape, array.itemsize) == array.strides


def test_a_workshop_remembers_what_it_made_and_prints_no_address():
    prepare = Workshop()
    x = Tensor(64, (2, 3), in_c_order((2, 3), 4))
    plan = prepare(x)
    assert isinstance(plan, Plan) and plan.x is x and prepare.made == [plan]
    assert repr(prepare) == "prepare" and repr(plan).startswith("a plan for Tensor(address=64")


# --- bfloat16 -------------------------------------------------------------------------------------


def exactly(bits):
    """What 16 bits of a finite, positive bfloat16 stand for."""
    exponent, fraction = bits >> 7, bits & 0x7F
    if exponent == 0:
        return Fraction(fraction) * Fraction(2) ** -133
    return Fraction(128 + fraction) * Fraction(2) ** (exponent - 134)


def nearest(number):
    """The bits of the bfloat16 that is nearest to a float32 >= 0, by fractions."""
    value = Fraction(float(number))
    low, high = 0, 0x7F80  # 0x7f80 would be 2**128: infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exactly(middle) <= value else (low, middle)
    below, above = value - exactly(low), exactly(high) - value
    return low if below < above or (below == above and low % 2 == 0) else high


def test_the_judges_rounding_is_exact_at_every_exponent():
    exponents = np.arange(255, dtype=np.uint32) << 23
    fractions = [0, 1, 0x7FFF, 0x8000, 0x8001, 0x17FFF, 0x18000, 0x18001, 0x7F7FFF, 0x7F8000]
    fractions += [0x7FFFFF, *np.random.default_rng(15).integers(1 << 23, size=6).tolist()]
    bits = (exponents[:, None] | np.array(fractions, np.uint32)).ravel()
    found = rounded(bits.view(np.float32))
    assert found.tolist() == [nearest(number) for number in bits.view(np.float32)]
    assert (rounded((bits | 0x80000000).view(np.float32)) == found | 0x8000).all()


def test_infinity_stays_and_nan_is_nan():
    odd = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert rounded(odd).tolist() == [0x7F80, 0xFF80, 0x7FC0, 0x7FC0]
    for nan in (0x7F81, 0x7FFF, 0xFFC0):
        assert judge_bits(np.array([0x7F80, 0xFF80, nan, nan], np.uint16), odd) is None
    assert "NaN must stay NaN" in judge_bits(np.array([0x7F80, 0xFF80, 0, 0], np.uint16), odd)


# --- pictures -------------------------------------------------------------------------------------


def test_views_are_numbered_where_their_elements_lie():
    memory = np.arange(12, dtype=np.float32).reshape(3, 4)
    places = pictures._places(memory.T, memory.__array_interface__["data"][0])
    assert places == {int(value): number for number, value in enumerate(memory.T.flat)}
    picture = pictures.views({"m": memory, "m[::-1, 2:]": memory[::-1, 2:]}, memory)
    assert_drawn(picture, "m[::-1, 2:]", most_bytes=60_000)
    assert "A memory of 12 elements" in picture.alternative
    assert [text for text in picture_texts(picture) if text == "11"] == ["11"]  # in m alone


def test_timelines_say_whether_works_are_ordered():
    wrong, right = filled_and_read(), filled_and_read(event=True)
    picture = pictures.timelines({"no event": wrong, "an event": right})
    assert_drawn(picture, "fill", "read", "theirs", "mine", most_bytes=60_000)
    assert picture.alternative.endswith("are in no order: no event.")
    assert "All works that touch the same array are ordered" in (
        pictures.timelines({"an event": right}).alternative
    )


def test_shares_are_as_long_as_their_microseconds():
    calls = {"ours": {"looking": 1.0, "launching": 2.5}, "theirs": {"all of it": 4.0}}
    picture = pictures.shares(calls)
    assert_drawn(picture, "looking", "2.5", "host time of a call [µs]", most_bytes=60_000)
    assert picture.alternative.endswith("ours 3.5; theirs 4.0.")
    widths = [patch.get_width() for patch in picture.axes[0].patches]
    assert widths == [1.0, 2.5, 4.0]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.views({}, np.zeros(3)),
        lambda: pictures.timelines({}),
        lambda: pictures.shares({}),
    ],
)
def test_a_picture_of_nothing_is_refused_with_what_to_give(draw):
    with pytest.raises(ValueError, match="is empty: give at least one"):
        draw()


# --- torch and numba.cuda -------------------------------------------------------------------------


def test_a_stand_in_notes_a_launch_and_what_the_host_waits_for():
    torch, cuda, kernel = toy_torch.stand_ins(0x40)
    x = toy_torch.Tensor("x", (7, 5))
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    kernel[2, 128, stream](cuda.as_cuda_array(x), x)
    torch.cuda.synchronize()
    assert kernel.log.launches == [(2, 128, 0x40, ["x", "x"])]
    assert kernel.log.waits == ["torch.cuda.synchronize()"]


@pytest.mark.parametrize("stream", [0x40, "PyTorch's", None])
def test_a_stand_in_refuses_a_stream_that_numba_refuses(stream):
    _, _, kernel = toy_torch.stand_ins(0)
    with pytest.raises(TypeError, match="one of Numba's streams, or 0"):
        kernel[2, 128, stream]


def test_a_tensor_that_requires_a_gradient_gives_its_address_only_detached():
    _, cuda, kernel = toy_torch.stand_ins(0)
    recorded = toy_torch.Tensor("x", (7, 5), requires_grad=True)
    for use in (cuda.as_cuda_array, kernel[2, 128]):
        with pytest.raises(RuntimeError, match="use var.detach()"):
            use(recorded)
    kernel[2, 128](cuda.as_cuda_array(recorded.detach()))
    assert kernel.log.launches == [(2, 128, 0, ["x"])]


def test_the_launchers_gradient_is_what_the_differences_of_its_softmax_say():
    rng = np.random.default_rng(15)
    x, dy, step = (rng.standard_normal((3, 7)) for _ in range(3))
    run, y, dx = toy_torch.Launcher(), np.empty_like(x), np.empty_like(x)
    up, down = np.empty_like(x), np.empty_like(x)
    for moved, out in ((x, y), (x + 1e-5 * step, up), (x - 1e-5 * step, down)):
        run("forward kernel", moved, out)
    run("backward kernel", dy, y, dx)
    assert np.isclose((dx * step).sum(), ((up - down) * dy).sum() / 2e-5, rtol=1e-6)
    assert run.launched == ["forward kernel"] * 3 + ["backward kernel"]


def test_behind_work_says_when_the_call_came_back_and_whether_it_is_right():
    calls = []
    said = toy_torch.behind_work(FakeTorch(right=True), lambda *given: calls.append(given), "k")
    assert "the launch came back after" in said and said.endswith("the result is right")
    assert calls[0][0] == "k" and len(calls) == 1
    assert toy_torch.behind_work(FakeTorch(right=False), lambda *given: None, "k").endswith(
        "is not right"
    )


class FakeTorch:
    """What `behind_work` calls of torch, without a GPU."""

    def __init__(self, right):
        self.allclose = lambda *given, **more: right
        self.cuda = SimpleNamespace(
            synchronize=lambda: None,
            Stream=lambda: None,
            stream=lambda side: contextlib.nullcontext(),
            _sleep=lambda cycles: None,
        )

    def randn(self, *shape, device):
        return SimpleNamespace(copy_=lambda other: None)

    def zeros_like(self, tensor):
        return tensor

    empty_like = zeros_like

    def softmax(self, tensor, axis):
        return tensor
