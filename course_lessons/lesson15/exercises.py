"""Exercises of lesson 15: a launch, a softmax both ways, a gradient's check, a plan, addresses."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Tolerance
from course.dispatch.slots import in_c_order
from course_lessons.cases import drawn, extent, fixed, normal, row_sizes, table
from course_lessons.edits import LessonFunction, LessonKernel
from course_lessons.lesson10.exercises import SHUFFLE_HINTS, row_limits
from course_lessons.lesson15 import rivals, toy_torch
from course_lessons.lesson15.judges import (
    call_both_ways,
    find_each,
    judge_bits,
    judge_both_ways,
    judge_launch,
    judge_order,
    judge_plans,
    note_launch,
)
from course_lessons.lesson15.toy_door import Tensor

# --- a launch on PyTorch's stream -----------------------------------------------------------------


def _launch(rows, columns, number, requires_grad=False, names=("x", "y")):
    def arguments(rng):
        torch, cuda, kernel = toy_torch.stand_ins(number)
        tensors = tuple(
            toy_torch.Tensor(name, (rows, columns), requires_grad and name != names[-1])
            for name in names
        )
        return {"torch": torch, "cuda": cuda, "kernel": kernel, "tensors": tensors}

    where = f"PyTorch works on stream {number:#x}" if number else "on the default stream"
    recorded = f", {names[0]} requires a gradient" if requires_grad else ""
    return Case(f"{rows} x {columns}, {where}{recorded}", arguments)


def _any_launch(rng):
    number = int(rng.integers(1, 1 << 40)) * 16 * int(rng.random() < 0.8)
    rows, columns = extent(rng, 1, 5000), extent(rng, 1, 5000)
    names = ("dy", "y", "x", "dx")[-int(rng.integers(1, 5)) :]
    return _launch(rows, columns, number, bool(rng.integers(2)), names)


LessonFunction.declare(
    name="launch-on-stream",
    lesson=15,
    title="A launch on PyTorch's current stream",
    caller=note_launch,
    judge=judge_launch,
    cases=[
        _launch(64, 768, 0x7F3A5C0),
        _launch(64, 768, 0),
        _launch(13, 77, 0x52D1E90, requires_grad=True),
        _launch(1, 32, 0x52D1E90, names=("dy", "y", "dx")),
    ],
    drawer=_any_launch,
    drawn=10,
    hints={
        "raised": "`torch.cuda.current_stream().cuda_stream` is the stream's number, "
        "`cuda.external_stream(number)` Numba's stream of that number. "
        "`cuda.as_cuda_array(one.detach())` is Numba's view of a tensor, for each of `tensors`.",
    },
)

# --- the backward pass of a softmax ---------------------------------------------------------------


def softmax_of(x):
    """Each row's softmax."""
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _backward_case(rows, columns, spread=1.0, measured=False, of_dy=1.0):
    def arguments(rng):
        x, dy = (rng.standard_normal((rows, columns), dtype=np.float32) for _ in range(2))
        y = softmax_of(x * np.float32(spread))
        return {"dy": dy * np.float32(of_dy), "y": y, "dx": np.empty_like(y)}

    name = f"{rows} x {columns}"
    return Case(name, arguments, 32 * toy_torch.WARPS, -(-rows // 4), measured=measured)


def _any_backward(rng):
    return _backward_case(*row_sizes(rng), rng.uniform(0, 8), of_dy=10 ** rng.uniform(-9, 3))


LessonKernel.declare(
    name="softmax-gradient",
    rivals=rivals.of_gradient(_backward_case(4096, 1024)),
    lesson=15,
    title="The backward pass of a softmax, a warp a row",
    outputs=("dx",),
    reference=lambda dy, y: y * (dy - (y * dy).sum(1, keepdims=True)),
    cases=[
        _backward_case(8, 128),
        _backward_case(13, 77, spread=4),
        _backward_case(3, 7),
        _backward_case(32, 128, measured=True),
    ],
    drawer=_any_backward,
    drawn=5,
    tolerance=Tolerance(
        1,
        "one addition in a lane for 32 columns, five between lanes, and three roundings after them",
        magnitude=lambda dy, y: (
            y * (4 * np.abs(dy) + (40 + y.shape[1] / 32) * (y * np.abs(dy)).sum(1, keepdims=True))
        ),
    ),
    forbidden={"float64", "negative-index", "uncoalesced", "same-value-race"},
    limits=row_limits(
        4, "y and dy are read twice at most: once for the sum, once to write the row."
    ),
    hints=SHUFFLE_HINTS
    | {
        "wrong-result": "First the sum of y * dy over the whole row: each lane adds its columns, "
        "then five shuffles by shfl_xor_sync give all lanes the row's sum. After that "
        "dx = y * (dy - sum), column by column.",
    },
)

# --- a softmax both ways --------------------------------------------------------------------------


def _both_ways(rows, columns):
    def arguments(rng):
        x, dy = (rng.standard_normal((rows, columns), dtype=np.float32) for _ in range(2))
        kernels = {name: name.replace("_", " ") for name in ("forward_kernel", "backward_kernel")}
        return {"torch": toy_torch.Torch(x, dy), "run": toy_torch.Launcher(), **kernels}

    return Case(f"{rows} x {columns}", arguments)


LessonFunction.declare(
    name="softmax-both-ways",
    lesson=15,
    title="An autograd.Function of two kernels",
    caller=call_both_ways,
    judge=judge_both_ways,
    cases=[_both_ways(3, 5), _both_ways(4, 4), _both_ways(1, 70)],
    drawer=lambda rng: _both_ways(extent(rng, 1, 40), extent(rng, 2, 200)),
    hints={
        "raised": "In forward: run(forward_kernel, x, y), then ctx.save_for_backward(y), which "
        "backward finds in ctx.saved_tensors. In backward: run(backward_kernel, dy, y, dx).",
    },
)

# --- the address of an element --------------------------------------------------------------------


def _interface(address, shape, strides, typestr="<f4"):
    return {
        "data": (address, False),
        "shape": shape,
        "strides": strides,
        "typestr": typestr,
        "version": 3,
    }


def _address(array, index):
    size = int(array["typestr"][2:])
    strides = array["strides"] or in_c_order(array["shape"], size)
    return array["data"][0] + sum(i * step for i, step in zip(index, strides, strict=True))


def _any_element(rng):
    """In any order of axes, each longer than the array has elements, from either end, or 0."""
    size = int(rng.choice([1, 2, 4, 8, 16, 128]))
    shape = tuple(extent(rng, 1, 40) for _ in range(rng.integers(0, 5)))
    index, strides = tuple(int(rng.integers(length)) for length in shape), None
    if rng.random() < 0.5:
        wider = in_c_order(tuple(length + int(rng.integers(3)) for length in shape), size)
        steps = rng.permutation(wider).tolist()
        strides = tuple(int(rng.choice([1, 2, -1, 0])) * step for step in steps)
    return fixed(
        f"shape {shape}, {size} bytes an element, strides {strides}",
        array=_interface(int(rng.integers(1 << 40)) * 16, shape, strides, f"|V{size}"),
        index=index,
    )


FunctionExercise.declare(
    name="element-address",
    lesson=15,
    title="Where an element lies",
    reference=_address,
    cases=table(
        "array index",
        ("one axis, no strides given", _interface(4096, (100,), None), (7,)),
        ("float64, no strides given", _interface(8192, (10, 30), None, "<f8"), (3, 4)),
        ("three axes of float16", _interface(65536, (5, 7, 11), None, "<f2"), (2, 3, 4)),
        ("a slice of wider rows", _interface(4112, (10, 30), (400, 4)), (3, 4)),
        ("rows from the last to the first", _interface(5200, (10, 30), (-120, 4)), (3, 4)),
    ),
    drawer=_any_element,
    drawn=40,
    hints={
        "wrong-result": "Each index goes with the stride of its axis, in bytes; their products are "
        'added to the first address, `array["data"][0]`.',
        "raised": "`strides` is None where elements lie in C order: work them out then, from the "
        'last axis to the first. `int(array["typestr"][2:])` is the size of an element. Arrays '
        "have any number of axes, or none: go through `zip(index, strides)`.",
        "wrong-shape": "Return one number, the address.",
    },
)

# --- two streams ----------------------------------------------------------------------------------


def _any_streams(rng):
    names = ["CuPy", "PyTorch", "Numba", "JAX", "Warp", "done", "ready"]
    mine, *others = map(str, rng.permutation(names)[: rng.integers(1, 8)])
    others += [mine] * int(rng.integers(2))
    return fixed(f"launched on {mine}, arrays of {others}", mine=mine, others=others)


FunctionExercise.declare(
    name="ordered-streams",
    lesson=15,
    title="Work between two libraries' streams",
    judge=judge_order,
    cases=table(
        "mine others",
        ("PyTorch's result, CuPy's array", "PyTorch", ["CuPy"]),
        ("three libraries", "PyTorch", ["CuPy", "Numba"]),
        ("all on one stream", "PyTorch", []),
        ("one array names our own stream", "PyTorch", ["CuPy", "PyTorch"]),
    ),
    drawer=_any_streams,
    drawn=10,
    hints={
        "raised": 'Start with an empty list; append ("record", event, stream), ("wait", stream, '
        'event) and ("launch", stream). An event may have any name, such as the stream\'s.',
    },
)

# --- a plan ---------------------------------------------------------------------------------------

_ROWS = (64, 768)
_X = Tensor(0x7F0000000000, _ROWS, in_c_order(_ROWS, 4))


def _calls(name, *changes):
    """Calls with this tensor and with others, each of which is told by what is different."""
    return fixed(
        name, x=[_X, *(_X._replace(**change) for change in changes)], plans={}, prepare=None
    )


def _any_calls(rng):
    """Tensors of which each differs in one thing from the first or from the one before."""
    others = {
        "address": [_X.address + n for n in (0, 4, 8, 12, 176, 4096, 4100, 1 << 20)],
        "shape": [_ROWS, (32, 768), (64, 384), (32, 1536), (768, 64), (49152,)],
        "strides": [_X.strides, (4096, 4), (8192, 4), (4096, 8), (4, 4096)],
        "dtype": ["float32", "int32", "float64", "float16"],
        "device": [0, 1, 2],
    }
    changes = [{}]
    for _ in range(extent(rng, 9, 60)):
        name = str(rng.choice(list(others)))
        new = {name: others[name][rng.integers(len(others[name]))]}
        changes.append(changes[rng.choice([0, -1])] | new)
    return _calls(f"{len(changes)} tensors", *changes[1:])


FunctionExercise.declare(
    name="find-a-plan",
    lesson=15,
    title="The plan for arrays that look alike",
    judge=judge_plans,
    caller=find_each,
    cases=[
        _calls("twice the same", {}),
        _calls("other memory", {"address": _X.address + 4096}, {"address": _X.address + (1 << 20)}),
        _calls("fewer rows, and fewer columns", {"shape": (32, 768)}, {"shape": (64, 384)}),
        _calls(
            "rows of a wider matrix, every second column, columns for rows",
            *({"strides": strides} for strides in ((4096, 4), (8192, 4), (4096, 8), (4, 4096))),
        ),
        _calls("another GPU", {"device": 1}, {"device": 0}, {"device": 1}),
        _calls("4 bytes farther", {"address": _X.address + 4}, {"address": _X.address + 4100}),
    ],
    drawer=_any_calls,
    drawn=20,
    hints={
        "wrong-result": "A key of all that the compiled launch depends on: shape, strides, type, "
        "device, and what the address leaves over 16 bytes. Not the address itself.",
        "raised": "`plans` is a dict: `if key not in plans: plans[key] = prepare(x)`, then "
        "`return plans[key]`. Keys must be hashable: a tuple, not a list.",
    },
)

# --- a gradient's check ---------------------------------------------------------------------------


def _gap(forward, backward, x, dy, direction, h):
    numbers = ((forward(x + h * direction) - forward(x - h * direction)) * dy).sum() / (2 * h)
    ours = (backward(dy, x) * direction).sum()
    return abs(numbers - ours) / max(abs(numbers), abs(ours))


def _checked(name, forward, backward, shape=(3, 5), h=1e-4):
    def arguments(rng):
        x, dy, direction = (normal(*shape)(rng).astype(np.float64) for _ in range(3))
        return {
            "forward": forward, "backward": backward, "x": x, "dy": dy, "direction": direction,
            "h": h,
        }  # fmt: skip

    return Case(name, arguments)


_CUBE = _checked("a cube with half its gradient", lambda x: x**3, lambda dy, x: 1.5 * x**2 * dy)


def _any_gradient(rng):
    """A cube and a wave, and a gradient that is wrong, or almost right, in each element.

    Or a listed case with other numbers: what an answer has kept is wrong then.
    """
    if rng.random() < 0.2:
        return _CUBE
    shape = tuple(extent(rng, 2, 9) for _ in range(rng.integers(1, 4)))
    a, b, c = rng.uniform(0.5, 2, 3)
    wrong = 1 + rng.choice([1, 1e-3]) * rng.uniform(-0.75, 2, shape)
    return _checked(
        f"a x³ + b sin(c x) of shape {shape}",
        lambda x: a * x**3 + b * np.sin(c * x),
        lambda dy, x: wrong * (3 * a * x**2 + b * c * np.cos(c * x)) * dy,
        shape,
        float(rng.choice([1e-4, 1e-3, 0.1, 0.5])),
    )


FunctionExercise.declare(
    name="gradient-gap",
    lesson=15,
    title="How far a gradient is from what numbers say",
    reference=_gap,
    cases=[
        _CUBE,
        _checked("a square that forgets dy", lambda x: x**2, lambda dy, x: 2 * x, (4,)),
        _checked("exp with a wide step", np.exp, lambda dy, x: 1.25 * np.exp(x) * dy, (7,), 0.125),
        _checked("a gradient of 0", np.sin, lambda dy, x: 0 * x, (6,)),
    ],
    drawer=_any_gradient,
    drawn=20,
    dtype=np.float64,
    tolerance=Tolerance(
        2**26, "the difference of two near numbers loses half of the digits", lambda h: 1.0
    ),
    hints={
        "wrong-result": "Two numbers: ((forward(x + h d) - forward(x - h d)) dy), summed, by 2 h; "
        "and (backward(dy, x) d), summed. Return |one - other| by the larger size.",
        "wrong-shape": "Return one number, not an array: both are sums over all elements.",
        "raised": "`forward(x)` and `backward(dy, x)` are functions; x, dy and direction are "
        "arrays of one shape. Sum over all elements before you compare: abs and max are for the "
        "two numbers.",
    },
)

# --- bfloat16 -------------------------------------------------------------------------------------


def _from_bits(*bits):
    return np.array(bits, np.uint32).view(np.float32)


def _any_floats(rng):
    """Any bits above, and below those that are half-way, just off it, or any."""
    shape = tuple(extent(rng, 1, 40) for _ in range(rng.integers(1, 4)))
    below = np.array([0x0000, 0x7FFF, 0x8000, 0x8001, rng.integers(1 << 16)], np.uint32)
    above = rng.integers(0, 1 << 16, shape).astype(np.uint32) << 16
    x = (above | rng.choice(below, shape)).view(np.float32)
    return fixed(f"any bits, of shape {shape}", x=x)


FunctionExercise.declare(
    name="bfloat16-bits",
    lesson=15,
    title="Round float32 to bfloat16",
    judge=judge_bits,
    cases=[
        fixed("numbers that fit", x=np.float32([0, 1, -2, 0.5, 96, -0.0])),
        Case("random numbers", drawn(x=normal(500))),
        fixed("half-way between two", x=_from_bits(0x3F808000, 0x3F818000, 0xBF808000, 0xC0038000)),
        fixed("tiny ones", x=_from_bits(0x00000001, 0x00008000, 0x00018000, 0x807FFFFF)),
        fixed("infinite, and rounded up to it", x=_from_bits(0x7F800000, 0xFF800000, 0x7F7FFFFF)),
        fixed("not a number", x=_from_bits(0x7FC00000, 0x7F800001, 0xFFFFFFFF)),
    ],
    drawer=_any_floats,
    drawn=10,
    hints={
        "wrong-result": "Take the bits as uint32, add 0x7fff and the last bit that stays (of two "
        "that are as near, the even one is wanted), and shift by 16: sign, infinity and the "
        "smallest numbers need nothing of their own. Mind that uint16 cannot hold a sum.",
        "raised": "`x.view(np.uint32)` are the bits of float32 numbers; shift them with >> 16, and "
        "return them with .astype(np.uint16).",
    },
)
