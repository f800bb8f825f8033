"""Wrong answers to the exercises of lesson 12 as students write them, and unusual right ones."""

import heapq  # noqa: F401
import math
from fractions import Fraction  # noqa: F401

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("network-bytes")
wrong("wrong-shape", "Return one number|2")({" + passes": ", passes"})
wrong("raised", "UnboundLocalError|NameError|there")(
    {"there =": 'if plan == "sent":\n        there ='}
)
wrong("wrong-result", "returns None")("print(images * factors + passes * images * back)")
WHOLE = "-(-images // batch) * batch"
wrong("wrong-result", "drawn")({"passes * images * factors": f"passes * {WHOLE} * factors"})
wrong("wrong-result", "drawn")({'"keep": images': f'"keep": {WHOLE}'})


@wrong("wrong-result", "if, elif, else")
def bytes_without_elif(plan, images, batch, factors, back, passes):
    if plan == "send":
        there = passes * images * factors
    if plan == "keep":
        there = images * factors
    else:
        there = 64 * math.ceil(images / batch)
    return there + passes * images * back


@right
def bytes_counted_one_by_one(plan, images, batch, factors, back, passes):
    total = 0
    for turn in range(passes):
        for first in range(0, images, batch):
            count = min(batch, images - first)
            if plan == "send" or (plan == "keep" and turn == 0):
                total += count * factors
            if plan == "make" and turn == 0:
                total += 64
            total += count * back
    return total


@right
def bytes_by_match(plan, images, batch, factors, back, passes):
    match plan:
        case "make":
            there = -(-images // batch) * 64
        case "keep":
            there = factors * images
        case _:
            there = factors * images * passes
    return float(there + back * images * passes)


wrong, right = answers_to("steady-sum")
wrong("wrong-result", "the order in which they arrive", "float64")(
    # from Python 3.12 on, sum() makes up for rounding
    {"sorted(arrivals)": "arrivals", "np.float32(0)": "0.0", "+= value": "+= float(value)"},
    {"return total": "return np.float32(total)"},
)
wrong("wrong-result", "who did which batch")(
    {"sorted(arrivals": "sorted(arrivals, key=lambda one: (one[1], one[0])"}
)
wrong("wrong-result", "That is the mean")(
    "return math.fsum(value for _worker, _worker, value in arrivals) / len(arrivals)"
)
wrong("wrong-result", "the sum of the numbers 0, 1, 2")(
    "return float(sum(_number for _number, _worker, _worker in arrivals))"
)
wrong("wrong-result", "The first batch is missing")(
    {"total =": "values = [value for _, _, value in sorted(arrivals)]\n    total ="},
    {", _worker, value in sorted(arrivals": " in range(1, len(values)"},
    {"+= value": "+= values[_number]"},
)
wrong("wrong-result", "the first batch alone")({"return": "    return"})
wrong("wrong-result", "Return one number")(
    "return [value for _worker, _worker, value in sorted(arrivals)]"
)
wrong("wrong-result", "a set drops repetitions")(
    {"_number": "value in sorted({value for _worker", "sorted(arrivals": "arrivals}"}
)
wrong("wrong-result", "Rounding a total hides most differences")(
    "return round(sum(float(value) for _worker, _worker, value in arrivals), 3)"
)
wrong("wrong-result", "digits were lost")(
    {"float32": "float16", "+= value": "+= np.float16(value)"}
)
wrong("wrong-result", "The third entry of a triple is the value")(
    "return sum(_worker for value, _worker, value in sorted(arrivals))"
)
wrong("wrong-result", "whole numbers")(
    "return sum(int(value) for _worker, _worker, value in arrivals)"
)
wrong("wrong-result", "That is the largest of them")(
    "return max(value for _worker, _worker, value in arrivals)"
)
wrong("raised", "arrivals.sort() returns None")(
    "return sum(value for _worker, _worker, value in list(arrivals).sort())"
)
wrong("input-modified", "sorted(arrivals) makes a new one")({"+= value": "+= arrivals.pop(0)[2]"})
wrong("wrong-result", "The first batch counts twice")({"np.float32(0)": "arrivals[0][2]"})
right("return math.fsum(value for _worker, _worker, value in arrivals)")
right(
    "total = np.sort(np.array([value for _worker, _worker, value in arrivals], "
    "np.float32))\n"
    "return total.sum()"
)
right(
    "total = [value for _worker, _worker, value in sorted(arrivals)]\n"
    "while len(total) > 1:\n"
    "    total = [sum(total[place : place + 2]) for place in range(0, len(total), 2)]\n"
    "return total[0]"
)
right({"float32(0": "zeros((), np.float32", "_number": "_worker"})


wrong, right = answers_to("last-batch")
wrong("wrong-result", "goes to the smallest of them")(
    "free = math.ceil(len(milliseconds) / workers)\n"
    "return max(sum(milliseconds[i : i + free]) for i in range(0, len(milliseconds), "
    "free))"
)
wrong("input-modified", "leave it as it is")(
    {"for time in": "while", "+= time": "+= milliseconds.pop(0)"}
)
wrong("wrong-shape", "Return one number")({"max(free)": "free + [0.0]"})
wrong("raised", "free.index")({"free.index(min(free)": "min(free"})
right(
    {"[0.0] * workers": "np.zeros(workers)"},
    {"free.index(min(free))] += time": "0] += time\n        free.sort()", "max(free)": "free[-1]"},
)


wrong, right = answers_to("two-laws")
wrong("wrong-shape", "must be 2 values")({"same_work =": "return"})
right(
    "serial = (start + gathering) / (start + working + gathering)\n"
    "return [workers / (1 + serial * (workers - 1)), serial + workers * (1 - serial)]"
)


wrong, right = answers_to("batch-size")
wrong("wrong-result", "returns None")("print(math.ceil(cost * (1 - share) / (share * image)))")
wrong("wrong-result", "the same in every case that is wrong")({"cost >": "cost <="})
wrong("wrong-shape", "Return one whole number")(
    "return [images for images in range(1, 1000) if cost <= share * (cost + images * image)]"
)
wrong("wrong-result", "drawn")("return round(cost * (1 - share) / (share * image) + 0.5) or 1")
wrong("wrong-result", "Solve it for n")("return math.ceil(cost * (1 - share) / share * image)")
right("images = 1\nwhile cost > share * (cost + images * image):\n    images += 1\nreturn images")
