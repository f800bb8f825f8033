"""Wrong answers to the exercises of lesson 15 as students write them, and unusual right ones."""

import functools  # noqa: F401
import itertools
import math
import struct

import numpy as np

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("launch-on-stream")
wrong("wrong-result", "the default stream, 0", "Nothing orders the two")(
    {"[grid, 128, stream]": "[grid, 128]"}
)
wrong("raised", "`cuda.external_stream(number)`")(
    {"cuda.external_stream(number) if number else 0": "number"}
)
wrong("raised", "external_stream")({".cuda_stream": ""})
wrong("wrong-result", "A block has (Stream(number=133408192),) threads")({"128, ": ""})
wrong("raised", "requires grad", "detach")({"one.detach()": "one"})
wrong("raised", "a kernel takes arrays here")(
    {"*(cuda.as_cuda_array(one.detach()) for one in tensors)": "tensors"}
)
wrong("wrong-result", "rounded up")(
    {"    number": "    grid = tensors[0].shape[0] // 4\n    number"}
)
wrong("wrong-result", "four warps, and each has a row")(
    {"    number": "    grid = tensors[0].shape[0]\n    number"}
)
wrong("wrong-result", "four warps, a row each")({"128": "32"})
wrong("wrong-result", "all of `tensors`")({"in tensors": "in tensors[::-1]"})
wrong("wrong-result", "all of `tensors`")({"in tensors": "in tensors[:2]"})
wrong("wrong-result", "torch.cuda.synchronize()", "A launch returns at once")(
    {"in tensors))": "in tensors))\n    torch.cuda.synchronize()"}
)
wrong("wrong-result", "stream.synchronize()", "A launch returns at once")(
    {" if number else 0": "\n    stream.synchronize()"}
)
wrong("wrong-result", "launched 2 times")(
    {"    kernel[": "    for _ in range(2):\n        kernel["}
)
right({"number else 0": "number else cuda.default_stream()"})
right(
    "grid = (len(tensors[0]) + 3) // 4, 1\n"
    "views = [cuda.as_cuda_array(one.detach(), sync=False) for one in tensors]\n"
    "queue = torch.cuda.current_stream(None)\n"
    "kernel[grid, (128, 1), cuda.external_stream(queue.cuda_stream), 0](*views)"
)

wrong, right = answers_to("softmax-gradient")
wrong("wrong-result", "Line 11 decides")({"(dy[row, column] - total)": "dy[row, column]"})
wrong("limit", "y and dy are read twice at most")(
    {
        "dx[row": "again = dy[row, column] * y[row, column]\n            dx[row",
        " - total)": " - total) + (again - again)",
    }
)
wrong("not-parallel", "its 32 lanes share the columns")(
    {"if row < y.shape[0]:": "if row < y.shape[0] and lane == 0:", "range(5)": "range(0)"},
    {"range(lane, y.shape[1], 32):\n            total": "range(y.shape[1]):\n            total"},
    {"range(lane, y.shape[1], 32):\n            dx": "range(y.shape[1]):\n            dx"},
)
wrong("wrong-result", "drawn")(
    {"dx[row, column] =": "total = total if abs(total) > float32(1e-6) else float32(0)\n"
     "            dx[row, column] ="}
)  # fmt: skip
wrong("barrier-divergence", "All 32 lanes make every shuffle")(
    {"if row < y.shape[0]:": "if row < y.shape[0] and lane < y.shape[1]:"}
)
wrong("out-of-bounds", "The last block may have warps without a row")(
    {"row < y.shape[0]": "row <= y.shape[0]"}
)
wrong("float64", "In your own lines")({"total += dy": "total += 1.0 * dy"})
right({" * (dy[row, column] - total)": " * (-total + dy[row, column])"})

wrong, right = answers_to("softmax-both-ways")
wrong("wrong-result", "kept 1 of your tensors, and not y")(
    {"save_for_backward(y)": "save_for_backward(x)"}
)
wrong("wrong-result", "Keep y alone")(
    {"save_for_backward(y)": "save_for_backward(y, x)"},
    {"(y,) = ": "y, _ = "},
)
wrong("raised", "ctx.save_for_backward(y)")({"ctx.save_for_backward(y)": "pass"})
wrong("wrong-result", "launch `forward_kernel` on x, y")({"run(forward_kernel, x, y)": "pass"})
wrong("wrong-result", "the gradient of x")({"run(backward_kernel, dy, y, dx)": "dx[...] = y * dy"})
wrong("wrong-result", "dy is its owner's")({"dy, y, dx)": "dy, y, dy)"})
wrong("wrong-result", "x is its owner's")(
    {"run(forward_kernel, x, y)": "run(forward_kernel, x, x)\n            y = x"}
)
wrong("wrong-result", "one in each pass is enough")(
    {"            run(back": "            run(backward_kernel, dy, y, dx)\n            run(back"}
)
wrong("wrong-result", "Return the class")({"return Softmax": "return Softmax()"})
wrong("wrong-result", "backward returns something else")({"return dx": "return dx, dy[0]"})
right({"torch.empty_like(y)": "torch.zeros_like(dy)", "return dx": "return dx, None"})

wrong, right = answers_to("element-address")
wrong("raised", "NoneType", "`strides` is None where elements lie in C order")(
    'return array["data"][0] + sum(i * s for i, s in zip(index, array["strides"]))'
)
wrong("raised", "f4", 'int(array["typestr"][2:])')({"[2:]": "[1:]"})
wrong("wrong-shape", "Return one number, the address")('return array["data"]')
wrong("wrong-result", "returns None", "Some way through it")(
    'if array["strides"]:\n'
    '    return array["data"][0] + sum(i * s for i, s in zip(index, array["strides"]))'
)
wrong("wrong-result", "a str, not numbers")('return hex(array["data"][0])')
right(
    'strides = array["strides"] or np.empty(array["shape"], array["typestr"]).strides\n'
    'return np.int64(array["data"][0] + sum(i * s for i, s in zip(index, strides)))'
)
right(
    'if array["strides"]:\n'
    '    return array["data"][0] + int(np.dot(index, array["strides"]))\n'
    "flat = functools.reduce(lambda sofar, axis: sofar * axis[1] + axis[0], "
    'zip(index, array["shape"]), 0)\nreturn array["data"][0] + flat * int(array["typestr"][2:])'
)


@right
def address_axis_by_axis(array, index):
    def behind(address, index, strides):
        if not index:
            return address
        return behind(address + index[0] * strides[0], index[1:], strides[1:])

    size, shape = np.dtype(array["typestr"]).itemsize, array["shape"]
    strides = array["strides"]
    if strides is None:
        strides = tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return float(behind(array["data"][0], index, strides))


wrong, right = answers_to("ordered-streams")
before = '    for other in others:\n        commands += [("record", other, other), ("wait", mine'
before += ", other)]\n"
after = '    for other in others:\n        commands += [("wait", other, "done")]\n'
wrong("wrong-result", "your list has 0 launches", '("launch", stream)')("return []")
wrong("wrong-result", "may read numbers that are not written yet")('return [("launch", mine)]')
wrong("wrong-result", "may write into its array while your kernel still reads it")({after: ""})
wrong("wrong-result", "Record an event on 'PyTorch' after the launch")(
    {'("launch", mine), ("record", "done", mine)': '("record", "done", mine), ("launch", mine)'}
)
wrong("wrong-result", "let 'PyTorch' wait for it before the launch")(
    {', ("wait", mine, other)': ""}
)
wrong("wrong-result", "'done', which is never recorded", "record it first")(
    {', ("record", "done", mine)': ""}
)
wrong("wrong-result", "Entry 0 waits for the event 'CuPy', which is recorded only later")(
    {'("record", other, other), ("wait", mine, other)': '("wait", mine, other)'},
    {'+= [("launch"': '+= [("record", other, other) for other in others] + [("launch"'},
)
wrong("wrong-result", "Are stream and event turned round?")({"mine, other)": "other, mine)"})
wrong("wrong-result", "there is no stream 'done'", 'it must be ("record", event, stream)')(
    {'"record", "done", mine': '"record", mine, "done"'}
)
wrong("wrong-result", "recorded on 'CuPy', then on 'Numba'", "an event of its own name")(
    'commands = [("record", "ready", other) for other in others]\n'
    'commands += [("wait", mine, "ready")] * len(others) + [("launch", mine)]\n'
    'commands += [("record", "done", mine)]\n'
    'return commands + [("wait", other, "done") for other in others]'
)
wrong("wrong-result", "launched on CuPy's stream", "launch on 'PyTorch'")(
    {'("launch", mine)': '("launch", others[0] if others else mine)'}
)
wrong("wrong-result", 'it must be ("launch", stream)')({'"launch", mine': '"launch", mine, others'})
wrong("wrong-result", "there is no stream ('CuPy',)")(
    {'("wait", other, "done")': '("wait", others, "done")'}
)
wrong("wrong-result", "Numba goes on after your call")(
    'return [*itertools.chain(*([("record", other, other), ("wait", mine, other)] for other in '
    'others)), ("launch", mine), ("record", "done", mine), *(("wait", other, "done") for other in '
    "others[:1])]"
)
wrong("wrong-result", "Entry 2 is 'launch'")({'[("launch", mine), (': '["launch", ('})
wrong("wrong-result", "a list in the list", "not append")(
    {' += [("record", other, other), ("wait", mine, other)]': '.append([("launch", mine)])'}
)
wrong("wrong-result", "got a generator", "leave `yield` out")(
    {"return commands": "yield from commands"}
)
wrong("wrong-result", "Return a list of commands; got a set")(
    {"return commands": "return {*commands}"}
)
wrong("wrong-result", "Return a list of commands; got an array")(
    {"return commands": "return np.array(commands, dtype=object)"}
)
wrong("wrong-result", "an event is a name", "this one is a dict")(
    {'"record", "done", mine': '"record", {}, mine'}
)
wrong("wrong-result", "Entry 0 is None", '("record", event, stream)')("return [None]")
wrong("wrong-result", "Entry 0 is (array")("return [(np.zeros(2), mine)]")
wrong("wrong-result", "Entry 0 is ()")("return [()]")
right(
    {
        'for other in others:\n        commands += [("record"': "for other in {*others} - {mine}:\n"
        '        commands += [("record"'
    }
)
right({"return commands": "return tuple(list(command) for command in commands)"})
right(
    'return [("record", ("in", other), other) for other in others] + '
    '[("wait", mine, ("in", other)) for other in others] + '
    '[("launch", mine), ("record", 0, mine)] + [("wait", other, 0) for other in others]'
)


@right
def ordered_in_a_chain(mine, others):
    """Each waits for the one before it, and mine for the last."""
    numbers, commands = itertools.count(), []
    for one, following in itertools.pairwise([*others, mine]):
        event = next(numbers)
        commands += [("record", event, one), ("wait", following, event)]
    commands.append(("launch", mine))
    for other in others:
        event = next(numbers)
        commands += [("record", event, mine), ("wait", other, event)]
    return commands


wrong, right = answers_to("find-a-plan")
ELSEWHERE = {}
key = "(x.shape, x.strides, x.dtype, x.device, x.address % 16)"
for lacking in ("shape", "strides", "dtype", "device"):
    wrong("wrong-result", f"The key lacks the {lacking}, or a part: put x.{lacking} into it")(
        {f"x.{lacking}, ": ""}
    )
wrong("wrong-result", "The key lacks what the address leaves over 16")({", x.address % 16": ""})
wrong("wrong-result", "only the address is another", "written with each launch")({" % 16": ""})
wrong("wrong-result", "its address leaves 0 over 16, this one's 8")({"% 16": "% 8"})
wrong("wrong-result", "both leave 0 over 16")({"% 16": "% 32"})
wrong("wrong-result", "not of id(x)")({key: "id(x)"})
wrong("wrong-result", "this one's is (64, 384)")({"x.shape,": "x.shape[0],"})
wrong("wrong-result", "this one's are (4096, 8)")({"x.strides,": "x.strides[0],"})
wrong("raised", "unhashable", "a tuple, not a list")({"x.strides,": "list(x.strides),"})
wrong("raised", "KeyError", "if key not in plans")({"if key not in plans": "if not plans"})
wrong("raised", "KeyError", "if key not in plans")({"key not in": "key in"})
wrong("wrong-result", "returned an older one", "call it each time")(
    f"return plans.setdefault({key}, prepare(x))"
)
wrong("wrong-result", "returns None")(f"return plans.get({key})")
wrong("wrong-result", "never was: keep what")("return prepare(x)")
wrong("wrong-result", "never was|Was it looked for")(
    "plans[x.shape] = prepare(x)\nreturn plans[x.shape]"
)
wrong("wrong-result", "Call 0 made 2 plans")({"return plans[key]": "return prepare(x)"})
wrong("wrong-result", "made elsewhere. Keep plans in `plans`")(
    f"if {key} not in ELSEWHERE:\n    ELSEWHERE[{key}] = prepare(x)\nreturn ELSEWHERE[{key}]"
)
wrong("wrong-result", "it takes x, the tensor")({"prepare(x)": "prepare(key)"})
wrong("wrong-result", "call it, `prepare(x)`")({"prepare(x)": "prepare"})
wrong("wrong-result", "call 1 got None", "Does each way through")(
    {"\n    return": "\n        return"}
)
wrong("wrong-result", "return plans[key], not all of them")({"return plans[key]": "return plans"})
wrong("wrong-result", "call 0 got ((64, 768)")({"return plans[key]": "return key"})
wrong("wrong-result", "got a generator")({"return plans": "yield plans"})
wrong("wrong-result", "call 0 got an array")("return np.zeros(3)")
wrong("wrong-result", "`plans` has one for this tensor, too")(
    {"return plans[key]": "return [*plans.values()][-1]"}
)
wrong("wrong-result", "call 0 got nan")('return float("nan")')
right({key: f"str({key})"})
right({key: 'f"{x.shape} {x.strides} {x.dtype} {x.device} {x.address & 15}"'})
right({key: "x._replace(address=x.address % 16)"})
right({"x.shape, ": "len(x.shape), math.prod(x.shape), x.shape, "})
right({"x.address % 16": "x.address % 16 == 0"})  # wide loads or single ones: two kernels
right(
    f"try:\n    return plans[{key}]\nexcept KeyError:\n    plans[{key}] = plan = prepare(x)\n"
    "    return plan"
)
right(
    "inner = plans.setdefault((x.device, x.dtype), {})\n"
    "key = (x.shape, x.strides, x.address % 16)\n"
    "if key not in inner:\n    inner[key] = prepare(x)\nreturn inner[key]"
)


@right
def plan_found_by_comparing(x, plans, prepare):
    known = plans.setdefault("all", [])
    for old, plan in known:
        if old[1:] == x[1:] and (old.address - x.address) % 16 == 0:
            return plan
    known.append((x, prepare(x)))
    return known[-1][1]


wrong, right = answers_to("gradient-gap")
wrong("raised", "Sum over all elements")({"(moved * dy).sum()": "moved.sum() * dy"})
wrong("wrong-shape", "Return one number, not an array")(
    {"return abs(": "return numbers, ours, abs("}
)
wrong("wrong-result", "It has no `return`")(
    {"return abs(": "print(abs("}, {"abs(ours))\n": "abs(ours)))\n"}
)
wrong("input-modified", "x is an input")(
    "x += h * direction\nup = forward(x)\nx -= 2 * h * direction\ndown = forward(x)\n"
    "x += h * direction\nnumbers = ((up - down) * dy).sum() / (2 * h)\n"
    "ours = (backward(dy, x) * direction).sum()\n"
    "return abs(numbers - ours) / max(abs(numbers), abs(ours))"
)
wrong("wrong-result", "(None, 1)")("return [None, 1]")
wrong("wrong-result", "drawn")(
    {"return abs(": "return 0.0 if np.isclose(numbers, ours, rtol=1e-3) else abs("}
)
wrong("wrong-result", "result is nan")('return float("nan")')
right({"(moved * dy).sum()": "(moved * dy).mean()", "* direction).sum()": "* direction).mean()"})
right(
    "step = h * direction\nnumbers = np.vdot(forward(x + step) - forward(x - step), dy) / h / 2\n"
    "ours = np.vdot(backward(dy, x), direction)\n"
    "return float(abs(ours - numbers) / max(abs(ours), abs(numbers)))"
)
right(
    "numbers = sum(side * (forward(x + side * h * direction) * dy).sum() for side in (1, -1))\n"
    "both = np.array([numbers / (2 * h), (backward(dy, x) * direction).sum()])\n"
    "return np.array(np.ptp(both) / np.abs(both).max())"
)


wrong, right = answers_to("bfloat16-bits")
rounding = "(bits + 0x7FFF + (bits >> 16 & 1)) >> 16"
wrong("wrong-result", "it holds float16", "5 bits of exponent")("return x.astype(np.float16)")
wrong("wrong-result", "You convert the values", "are their bits")(
    "return np.abs(x).astype(np.uint16)"
)
wrong("wrong-result", "makes two of each number")("return x.view(np.uint16)")
wrong("wrong-result", "shift by 16 before .astype")("return x.view(np.uint32).astype(np.uint16)")
wrong("wrong-result", "add .astype(np.uint16)")("return x.view(np.uint32) >> 16")
wrong("wrong-result", "not float32 numbers")(
    "return (x.view(np.uint32) & 0xFFFF0000).view(np.float32)"
)
wrong("wrong-result", "Line 3 decides", "x[0] is 1.00390625")({rounding: "bits + 0x8000 >> 16"})
wrong("wrong-result", "NaN must stay NaN", "such as 0x7fc0")(
    {"np.where(np.isnan(x), 0x7FC0, bits)": "bits"}
)
wrong("wrong-result", "NaN must stay NaN", "inf")({"0x7FC0": "0x7F80"})
wrong("input-modified", "x is an input")(
    {"bits = x.view(np.uint32).astype(np.uint64)": "bits = x.view(np.uint32)"},
    {"bits = (bits +": "bits += 0\n    bits[...] = (bits +"},
)
wrong("wrong-result", "Return an array of uint16; got (")(
    {".astype(np.uint16)": ".astype(np.uint16).tolist()"}
)
wrong("wrong-result", "of x's shape")({".astype(np.uint16)": ".astype(np.uint16).ravel()"})
wrong("wrong-result", "it holds float64")({".astype(np.uint16)": ".astype(float)"})
wrong("wrong-result", "got a generator")("return (bits >> 16 for bits in x.view(np.uint32).flat)")
wrong("wrong-result", "it holds object")("return np.full(x.shape, None)")
wrong("wrong-result", "got nan")('return float("nan")')
right({"view(np.uint32).astype(np.uint64)": "view(np.int32)"})
right(
    "bits = x.view(np.uint32)\n"
    "high, low = (bits >> 16).astype(np.uint16), bits & 0xFFFF\n"
    "up = (low > 0x8000) | (low == 0x8000) & (high % 2 == 1)\n"
    "return np.where(np.isnan(x), high | 0x40, high + up).astype(np.uint16)"
)


@right
def rounded_one_by_one(x):
    def bits(number):
        if math.isnan(number):
            return 0x7FC1
        high, low = divmod(struct.unpack("<I", struct.pack("<f", number))[0], 1 << 16)
        return high + (low > 0x8000 or (low == 0x8000 and high % 2))

    return np.array([bits(float(number)) for number in x.flat], np.uint16).reshape(x.shape)


@right
def rounded_as_numbers(x):
    """Steps of float64: 8 digits behind the exponent, and the smallest step below 2**-126."""
    size = np.abs(np.where(np.isfinite(x), x, 0.0).astype(np.float64))
    step = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 8, -133))
    near = np.rint(size / step) * step
    bits = np.where(near >= 2.0**128, np.inf, near)
    with np.errstate(over="ignore"):
        bits = np.where(np.isfinite(x), bits, np.abs(x)).astype(np.float32)
    bits = np.copysign(bits, x).view(np.uint32) >> 16
    return np.where(np.isnan(x), 0x7FC0, bits).astype(np.uint16)
