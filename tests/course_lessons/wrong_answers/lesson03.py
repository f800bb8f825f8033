"""Wrong answers to the exercises of lesson 03 as students write them, and unusual right ones."""

from statistics import median  # noqa: F401

from course.measure.occupancy import occupancy
from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("time-a-launch")
WAIT, START, LAUNCH = "synchronize()", "start = clock()", "launch()"
KEEP = "times.append(1e3 * (clock() - start))"


def loop(*statements):
    """The exercise's frame around statements."""
    lines = ["launch()", "times = []", "for _ in range(21):", *(f"    {s}" for s in statements)]
    return "\n".join([*lines, "return np.median(times)"])


for order in (
    (WAIT, START, LAUNCH, KEEP, WAIT),
    (WAIT, WAIT, START, LAUNCH, KEEP),
    (START, WAIT, LAUNCH, KEEP, WAIT),
):
    wrong("wrong-result", "You timed the launch, not the work")(loop(*order))
for order in ((LAUNCH, WAIT, START, WAIT, KEEP), (WAIT, START, KEEP, LAUNCH, WAIT)):
    wrong("wrong-result", "Nothing happens between your readings")(loop(*order))
wrong("wrong-result", "the launch before that you time")(loop(START, WAIT, WAIT, LAUNCH, KEEP))
for order in ((WAIT, LAUNCH, WAIT, KEEP, START), (KEEP, WAIT, START, LAUNCH, WAIT)):
    wrong("raised", "`start = clock()` stands above it")(loop(*order))
wrong("statements", "`synchronize()` is given twice, and stands once")(
    loop(WAIT, START, LAUNCH, KEEP)
)
wrong("statements", "`launch()` is given once, and stands twice")(
    loop(WAIT, LAUNCH, START, LAUNCH, WAIT, KEEP)
)
wrong("wrong-result", "Keep the lines around the five", "their median")({"np.median": "np.mean"})
wrong("wrong-result", "Return one number", "got 21 values")({"np.median(times)": "times"})
for order in ((START, LAUNCH, WAIT, KEEP, WAIT), (WAIT, LAUNCH, START, WAIT, KEEP)):
    right(loop(*order))


wrong, right = answers_to("report-line")
wrong("wrong-result", "drawn")({"least / median": "min(1, least / median)"})
wrong("wrong-result", "Line 2 decides")({"np.median": "min"})
wrong("wrong-shape", "return median, share, times")({"median, least": "least"})
wrong("wrong-result", "not numbers")({"return median": 'return f"{median:.3g} ms"'})
right("return np.array([np.median(samples) ** 2, least, other]) / np.median(samples)")


wrong, right = answers_to("effective-rates")
wrong("wrong-result", "Return two values")({"* 1e-6, 2 * rows * columns * k / moved": "/ 1e6"})


def effective(moved, operations, milliseconds):
    return moved / milliseconds / 1e6, operations / moved


wrong("wrong-result", "1000 x 700", "Line 2 decides")(
    "moved = 4 * (2 * rows * k + k + rows * rows)\n"
    "return effective(moved, 2 * rows * rows * k, milliseconds)"
)
wrong("wrong-result", "is 1000 times the right one", "1 GB = 10⁹ bytes")(
    {"milliseconds * 1e-6": "1e6 / (milliseconds / 1e3)"}
)
wrong("wrong-result", "is 1e-06 times the right one")(
    {"milliseconds * 1e-6": "1e9 / (milliseconds * 1e3)"}
)


right(
    "moved = k * (rows + 1 + columns) + rows * columns\n"
    "return np.array([moved / (milliseconds * 250_000), k * rows * columns / (2 * "
    "moved)])"
)


wrong, right = answers_to("least-time")
wrong("wrong-result", "a softmax", "Line 4 decides")({"memory > arithmetic": "bytes > operations"})
wrong("raised", "Line 4", "A copy has 0 operations")({"memory >": "bytes / operations >"})
wrong("wrong-result", "a copy", "GB are 10⁹")(
    "memory, arithmetic = 1e3 * bytes / (bandwidth * 2**30), operations / rate / 1e9\n"
    'return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"'
)
wrong("wrong-result", "1e+09 times the right one", "1 TFLOP = 10¹²")({" * 1e-9": ""})
wrong("wrong-result", "0.27 is rounded")(
    {"return max": "return round(max", "arithmetic)": "arithmetic), 2)"}
)
wrong("wrong-result", "'compute' is none of 'memory', 'arithmetic'")({'"arithmetic"': '"compute"'})
wrong("wrong-result", "is none of 'memory', 'arithmetic'")(
    {"memory =": "return", "* 1e-6\n    arithmetic =": "/ 1e6,"}
)
wrong("wrong-result", "is none of 'memory', 'arithmetic'")(
    "memory = np.array([bytes / bandwidth / 1e6, operations / rate / 1e9])\n"
    "return memory.max(), memory"
)
wrong("wrong-result", "got {'milliseconds'", "'arithmetic…")(
    {
        "max(memory, arithmetic),": '{"milliseconds": max(memory, arithmetic), "binding":',
        'else "arithmetic"': 'else "arithmetic"}',
    }
)
wrong("wrong-result", "inf is no figure")({"max(memory, arithmetic": 'float("inf"'})
wrong("wrong-result", "'memory' is no number")(
    'memory = {"memory": bytes / bandwidth / 1e6, "arithmetic": operations / rate / '
    "1e9}\n"
    "return max(memory), max(memory.values())"
)
wrong("wrong-result", "The two have changed places")(
    {" max(memory, arithmetic),": "", '"arithmetic"': '"arithmetic", max(memory, arithmetic)'}
)
right('return max((bytes / bandwidth / 1e6, "memory"), (operations / rate / 1e9, "arithmetic"))')


wrong, right = answers_to("impossible-figures")
wrong("wrong-result", "'my matmul'", "not in your list")({"operations / rate": "0 / rate"})
wrong("wrong-result", "'better copy'", "Line 4 decides")({"max(": "min("})
wrong("wrong-result", "none of the names")(
    "return [name for name, (_, operations, milliseconds, found) in "
    "enumerate(figures) if operations / found / 1e6 > bandwidth]"
)
wrong("wrong-result", "'image of 16 layers'", "One roof is enough")(
    {"max(": "sum([", "-9)": "-9])"}
)
wrong("wrong-result", "'fast image' is 2 times in your list")(
    "found = [name for name, bytes, operations, milliseconds in figures if bytes / "
    "milliseconds / 1e6 > bandwidth]\n"
    "return found + [name for name, operations, f, milliseconds in figures if f / "
    "milliseconds / 1e9 > rate]"
)
wrong("wrong-result", "'fast copy'", "not in your list", "return behind the loop")(
    {"found.append(name)": "return [name]"}
)


def least_as_the_larger_pair(bytes, operations, bandwidth, rate):
    return max((bytes / bandwidth / 1e6, "memory"), (operations / rate / 1e9, "arithmetic"))


wrong("raised", "'float' and 'str'", "least_time(...)[0]")(
    "return [name for name, bytes, operations, milliseconds in figures if "
    "milliseconds < least_as_the_larger_pair(bytes, operations, bandwidth, rate)[1]]"
)


def impossible_as_a_set(figures, bandwidth, rate):
    found = set()
    for name, count, operations, milliseconds in figures:
        least = max(count / bandwidth / 1e6, operations / rate / 1e9)
        if milliseconds < least:
            found.add(name)
    return found


wrong("wrong-result", "figures of a T4, all possible", "returns None")(
    "return [*impossible_as_a_set(figures, bandwidth, rate)] or None"
)
wrong("wrong-result", "got a dict")(
    {"return found": "return {name: name in found for name, *_ in figures}"}
)
wrong("wrong-result", "Return a list of names", "got 'better copy, ")(
    {"return found": 'return ", ".join(name for name, *_ in figures if name in found)'}
)
wrong("wrong-result", "('better copy', 536870912, 0, 0.1235) is none of")(
    {"return found": "return [figure for figure in figures if figure[0] in found]"}
)
wrong("wrong-result", "'copy', in 138 µs", "It is possible, but")({"< max": "< 2 * max"})
wrong("wrong-result", "none of the names")({"append(name": "append(name.lower()"})
right(
    {"found = []": "found = set()", "* 1e-6": "/ 1000000.0"},
    {"* 1e-9": "/ 1000000000.0", "append": "add"},
)
right(
    "found = impossible_as_a_set(figures, bandwidth, rate)\n"
    "return np.array([name for name, *_ in reversed(figures) if name in found])"
)


wrong, right = answers_to("fullest-block")
wrong("wrong-result", "No block of 1024 threads can start: too much is asked of registers")(
    "return 64 if registers == 44 else 1024"
)
wrong("wrong-result", "24 warps", "There is a size that gives 28")("return 256")
wrong("wrong-result", "limited by shared memory", "whole block, `shared * threads`")(
    {"warps)": 'lambda n: occupancy("H200", n, registers, 0).warps)'}
)
wrong("wrong-result", "Return one whole number")("return (16, 16)")


def warps_of(threads, registers, shared):
    return occupancy("H200", threads, registers, shared * threads).warps


wrong("wrong-result", "24 registers", "There is a size that gives 36")(
    "return max((32, 64, 128, 256, 512, 1024), key=lambda n: warps_of(n, registers, shared))"
)
wrong("wrong-result", "limited by blocks", "compare .warps, and not .blocks")(
    "sizes = range(warps, 1025, warps)\n"
    'return max(sizes, key=lambda n: occupancy("H200", n, registers, shared * n).blocks)'
)
wrong("wrong-result", "There is a size that gives", "Line 6 decides")(
    {"warps)": 'lambda n: occupancy("T4", n, registers, shared * n).warps)'}
)
wrong("wrong-result", "40 threads", "Or are these warps? Return the threads")(
    "return max(warps_of(n, registers, shared) for n in range(32, 1025, 32))"
)
wrong("raised", "block 0 has 0 threads", "Line 4", "shared * block")({"32, 1025": "0, 1025"})
wrong("raised", "'Occupancy' and 'Occupancy'", "Line 6")(
    {"warps)": 'lambda n: occupancy("H200", n, registers, shared * n))'}
)
right(
    "best, warps = 32, 0\nfor threads in range(32, 1025, 32):\n"
    '    found = occupancy("H200", threads, registers, threads * shared)\n'
    "    if found.fraction >= warps:\n        best, warps = threads, found.fraction\nreturn best"
)
right(
    "sizes = np.arange(1024, 0, -32)\n"
    "return sizes[np.argmax([warps_of(int(n), registers, shared) for n in sizes])]"
)


wrong, right = answers_to("crossing")
wrong("wrong-result", "result is 0")({"in sizes": "in sizes[:-1]"})


def times_of(n, cpu, gpu, link, start, moved):
    k = n // 8
    operations = 2 * n * n * k
    on_gpu = start + moved(n, k) / link / 1e6 + operations / gpu / 1e6
    return operations / cpu / 1e6, on_gpu


def first_where(sizes, *rates, moved):
    for n in sizes:
        on_cpu, on_gpu = times_of(n, *rates, moved)
        if on_gpu < on_cpu:
            return n
    return 0


wrong("wrong-result", "returns None")(
    "operations = lambda n, k: 4 * (2 * n * k + k + n * n)\n"
    "return first_where(sizes, cpu, gpu, link, start, moved=operations) or None"
)


def needed_by(n, k):
    return 4 * (2 * n * k + k + n * n)


wrong("wrong-result", "Line 5 decides")({"= 4": "= 8"})
wrong("wrong-result", "right is 0", "Line 2 decides")(
    "return first_where(sizes, cpu, gpu, link, start, moved=needed_by) or -1"
)
wrong("wrong-shape", "Return one number, the first size")(
    "wins = [n for n in sizes if np.diff(times_of(n, cpu, gpu, link, start, needed_by))[0] < 0]\n"
    "return wins"
)
right(
    "n = np.array(sizes, dtype=np.float64)\nk = n // 8\n"
    "work, data = 2 * n**2 * k, 4 * (n * n + 2 * n * k + k)\n"
    "wins = start / 1e3 + data / (link * 1e9) + work / (gpu * 1e9) < work / (cpu * 1e9)\n"
    "return int(n[wins.argmax()]) if wins.any() else 0"
)
right(
    "wins = (n for n in sizes if np.diff(times_of(n, cpu, gpu, link, start, needed_by))[0] < 0)\n"
    "return min(wins, default=0)"
)
