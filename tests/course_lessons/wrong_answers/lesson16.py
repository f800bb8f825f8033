"""Wrong answers to the exercises of lesson 16 as students write them, and unusual right ones."""

import math

from numba import float32

from course import cuda
from course_models.training.rng import normal4
from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("bce-of-logits")
LOSS = "max(logit, float32(0)) - logit * x + math.log(float32(1) + e)"


@wrong("wrong-result", "something overflows or rounds to 1", "1,003 logits")
@cuda.jit
def bce_by_the_sigmoid(logits, targets, scale, values, slopes):
    i = cuda.grid(1)
    if i < logits.size:
        s = float32(1) / (float32(1) + math.exp(-logits[i]))
        x = targets[i]
        values[i] = -x * math.log(s) - (float32(1) - x) * math.log(float32(1) - s)
        slopes[i] = scale * (s - x)


wrong("wrong-result", "Line 6 decides", "values[3] is inf")(
    {LOSS: "math.log(float32(1) + math.exp(logit)) - logit * x"}
)
wrong("float64", "1 beside a float32")({LOSS: "max(logit, 0) - logit * x + math.log(1 + e)"})
wrong("out-of-bounds", "logits[1003]")({"i < logits.size": "i <= logits.size"})
wrong("out-of-bounds", "guard it with `if i < logits.size:`")({"if i < logits.size": "if True"})
wrong("unwritten-output", "values[128]")({"cuda.grid(1)": "cuda.threadIdx.x"})
wrong("unwritten-output", "counts the threads of all blocks")({"cuda.grid(1)": "cuda.blockIdx.x"})
wrong("typing", "use abs")({"math.exp(-abs(logit))": "np.exp(-np.abs(logit))"})
wrong("race", "at its own place")({"values[i] =": "values[0] +="})
wrong("limit", "Load logit and target once")(
    {"- logit * x": "- logits[i] * targets[i]", "(share - x)": "(share - targets[i])"}
)


right({"(float32(1) if logit >= float32(0) else e) / (float32(1) + e)": (
    "float32(0.5) * (float32(1) + math.tanh(float32(0.5) * logit))"
)})  # fmt: skip
wrong("wrong-result", "values[5] is 100, right is 1000")(
    {LOSS: f"min({LOSS}, float32(100))"}  # PyTorch cuts BCE of a sigmoid there
)
wrong("wrong-result", "Line 8 decides", "another scale")(
    {"scale * (share - x)": "(share - x) * float32(1 / 32)"}
)


@right
@cuda.jit
def bce_by_two_cases(logits, targets, scale, values, slopes):
    """Above 0 l - l x + log(1 + exp(-l)), below it -l x + log(1 + exp(l))."""
    for i in range(cuda.grid(1), logits.size, cuda.gridsize(1)):
        logit = logits[i]
        x = targets[i]
        if logit > float32(0):
            e = math.exp(-logit)
            values[i] = logit * (float32(1) - x) + math.log1p(e)
            slopes[i] = (float32(1) / (float32(1) + e) - x) * scale
        else:
            e = math.exp(logit)
            values[i] = math.log1p(e) - logit * x
            slopes[i] = (e / (float32(1) + e) - x) * scale


wrong, right = answers_to("sample-code")
LOOP = "range(cuda.grid(1), groups, cuda.gridsize(1))"
HALF = "float32(0.5) * log_variance[i]"
wrong("float64", "write float32(0.5) * log_variance[i]")({HALF: "0.5 * log_variance[i]"})
wrong("float64", "log_variance[i] / 2")({HALF: "log_variance[i] / 2"})
wrong("not-parallel", "goes on by cuda.gridsize(1)")({LOOP: "range(cuda.grid(1), groups)"})
wrong("unwritten-output", "more groups than threads", "z[256]")(
    {LOOP: "range(cuda.grid(1), min(groups, cuda.grid(1) + 1))"}
)
wrong("unwritten-output", "the last of them not whole", "z[36]")(
    {"(z.size + 3) // 4": "z.size // 4"}
)
wrong("out-of-bounds", "ask if i < z.size")({"if i < z.size:": "if True:"})
wrong("typing", "normal4(group, step, seed)")(
    {"normal4(group, counter[1], counter[0])": "normal4(group, counter)"}
)
wrong("unwritten-output", "Nothing was written to noise")({"noise[i] = four[n]": "pass"})
wrong("wrong-result", "drawn")({HALF: f"min({HALF}, float32(10))"})  # as VAEs often clamp it
wrong("race|uninitialised-read", "noise[")({"* four[n]": "* noise[group]"})
wrong("limit", "One thread draws a group's four numbers, once")({"(z.size + 3) // 4": "z.size"})
wrong("limit", "calls of normal4")(
    "for i in range(cuda.grid(1), z.size, cuda.gridsize(1)):\n"
    "    e = normal4(i // 4, counter[1], counter[0])[i % 4]\n    noise[i] = e\n"
    "    z[i] = mean[i] + math.exp(float32(0.5) * log_variance[i]) * e"
)
wrong("not-parallel", "does the work")({LOOP: LOOP.replace("gridsize(1)", "gridDim.x")})
right({f"math.exp({HALF})": "math.sqrt(math.exp(log_variance[i]))"})


@right
@cuda.jit
def sample_from_the_last_group(mean, log_variance, counter, z, noise):
    groups = (z.size + 3) // 4
    for back in range(cuda.grid(1), groups, cuda.gridsize(1)):
        group = groups - 1 - back
        for n, e in enumerate(normal4(group, counter[1], counter[0])):
            if 4 * group + n < z.size:
                noise[4 * group + n] = e
                deviation = math.exp(log_variance[4 * group + n]) ** float32(0.5)
                z[4 * group + n] = mean[4 * group + n] + e * deviation


wrong, right = answers_to("adam-step")


@wrong("race", "not even to read it", "[999]")
@cuda.jit
def adam_with_idle_threads_that_read(w, gradient, first, second, corrected):
    """The race of the first fused step: idle threads read a weight that another one changes."""
    i = min(cuda.grid(1), w.size - 1)
    m = first[i] + float32(0.1) * (gradient[i] - first[i])
    v = second[i] + float32(0.001) * (gradient[i] * gradient[i] - second[i])
    old = w[i]
    if cuda.grid(1) < w.size:
        first[i], second[i] = m, v
        w[i] = old - corrected[0] * m / (math.sqrt(v * corrected[1]) + float32(1e-8))


@wrong("race", "Each thread has one weight")
@cuda.jit
def adam_each_thread_all(w, gradient, first, second, corrected):
    for i in range(w.size):
        g, m, v = gradient[i], first[i], second[i]
        m += float32(0.1) * (g - m)
        v += float32(0.001) * (g * g - v)
        w[i] -= corrected[0] * m / (math.sqrt(v * corrected[1]) + float32(1e-8))
        first[i], second[i] = m, v


@wrong("wrong-result", "First the moments")
@cuda.jit
def adam_with_the_weight_first(w, gradient, first, second, corrected):
    i = cuda.grid(1)
    if i < w.size:
        g = gradient[i]
        w[i] -= corrected[0] * first[i] / (math.sqrt(second[i] * corrected[1]) + float32(1e-8))
        first[i] += float32(0.1) * (g - first[i])
        second[i] += float32(0.001) * (g * g - second[i])


wrong("limit", "Store weight and moments once each")(
    {"m += float32(0.1) * (g - m)": "first[i] *= float32(0.9)\n        m += float32(0.1) * (g - m)"}
)
wrong("float64", "write float32(0.1)")({"float32(0.1)": "0.1"})
wrong("float64", "1e-8")({"float32(1e-8)": "1e-8"})
wrong("out-of-bounds", "threads without a weight")({"if i < w.size:": "if True:"})
wrong("input-modified", "the gradient stays")({"w[i] -=": "gradient[i] ="})
right({"m += float32(0.1) * (g - m)": "m = float32(0.9) * m + float32(0.1) * g"})


wrong("wrong-result", "Line 7 decides", "near 1e-07")(
    {"corrected[0] * m / (math.sqrt(v * corrected[1]) + float32(1e-8))": (
        "corrected[0] / math.sqrt(corrected[1]) * m / (math.sqrt(v) + float32(1e-8))"
    )}
)  # fmt: skip
wrong("wrong-result", "First the moments")(
    {"i < w.size": "i < w.size and gradient[i] != float32(0)"}
)
wrong("wrong-result", "near 1e-07")({"+ float32(1e-8)": "+ float32(1e-8) * corrected[1]"})


wrong, right = answers_to("product-epilogue")
BENT = "out[row, column] = y if y > float32(0) else float32(0.2) * y"
GUARD = "if row < out.shape[0] and column < out.shape[1]:"
wrong("race", "between reading them and filling them again")(
    {"* w_tile[i, n]\n        cuda.syncthreads()": "* w_tile[i, n]"}
)
wrong("limit", "Each result is stored once")(
    {BENT: "out[row, column] = y\n        if y < float32(0):\n"
           "            out[row, column] = out[row, column] * float32(0.2)"}
)  # fmt: skip
wrong("float64", "write float32(0.2)")({"float32(0.2) * y": "0.2 * y"})
wrong("out-of-bounds", "bias[37]")({GUARD: "if True:"})
wrong("out-of-bounds", "below 32")({"range(TILE)": "range(x.shape[1])"})
wrong("wrong-result", "transpose")({"out[row, column]": "out[column, row]"})
wrong("limit", "A round has two", "barriers")(
    {"* w_tile[i, n]": "* w_tile[i, n]\n            cuda.syncthreads()"}
)
wrong("uninitialised-read", "beyond that is padding")({"range(TILE)": "range(PITCH)"})
wrong("race", "put cuda.syncthreads()")(
    {"cuda.syncthreads()\n        for n": "cuda.syncwarp()\n        for n"}
)
wrong("barrier-divergence", "guard the store alone")(
    {"y = total": "cuda.syncthreads()\n        y = total"}
)
right({"y if y > float32(0) else float32(0.2) * y": "float32(0.6) * y + float32(0.4) * abs(y)"})


wrong, right = answers_to("order-the-launches")
APART = "set(writes) & {*others_reads, *others_writes} or set(reads) & {*others_writes}"
wrong("borrowed", "uses `fewest`, which is a solution of the course")(
    "numbers = fewest(work)\n"
    "return [[w[0] for w, n in zip(work, numbers) if n == k] for k in sorted(set(numbers))]"
)
wrong("wrong-result", "A race in launch 1", "'d_y' needs a later launch")(
    "return [[name for name, _, _ in work]]"
)
wrong("wrong-result", "3 launches, and 1 suffices", "must come after nothing")(
    "return [[name] for name, _, _ in work]"
)
wrong("wrong-result", "each launch is a list")("return [name for name, _, _ in work]")
wrong("wrong-result", "A race in launch")(
    {APART: "set(writes) & {*others_reads} or set(reads) & {*others_writes}"}
)
wrong("wrong-result", "'product' reads it")({APART: "{*reads, *writes} & {*others_writes}"})
wrong("wrong-result", "only read an array may share")(
    {APART: "{*reads, *writes} & {*others_reads, *others_writes}"}
)
wrong("wrong-result", "give the name alone")(
    {"return [[name for name, _, _ in launch] for launch in launches]": "return launches"}
)


wrong("wrong-result", "1 suffices")({APART: f"{APART} or len(launch) > 3"})
wrong("wrong-result", "'tell' reads v")({APART: APART.replace("_writes}", "_writes[:1]}")})


@wrong("wrong-result", "A race in launch 2: 'change' writes v, and 'look' reads it")
def after_the_reader_that_stands_last(work):
    """The reader that stands last in `work` is not always the one that is launched last."""
    wrote, read, launches = {}, {}, {}
    for name, reads, writes in work:
        at = 1 + max([wrote.get(a, 0) for a in reads + writes] + [read.get(a, 0) for a in writes])
        read |= dict.fromkeys(reads, at)
        wrote |= dict.fromkeys(writes, at)
        launches.setdefault(at, []).append(name)
    return [launches[at] for at in sorted(launches)]


@right
def round_by_round_as_sets(work):
    left, rounds = list(work), []
    while left:
        now = [
            (name, reads, writes)
            for n, (name, reads, writes) in enumerate(left)
            if not any({*writes} & {*r, *w} or {*reads} & {*w} for _, r, w in left[:n])
        ]
        rounds.append({name for name, _, _ in now})
        left = [its for its in left if its not in now]
    return rounds


@wrong("wrong-result", "Nothing changes before its last reader")
def first_launch_without_a_clash(work):
    """Into the first launch where nothing clashes, also before what it must come after."""
    launches = []
    for name, reads, writes in work:
        for launch in launches:
            if not any(set(writes) & {*r, *w} or set(reads) & {*w} for _, r, w in launch):
                launch.append((name, reads, writes))
                break
        else:
            launches.append([(name, reads, writes)])
    return [[name for name, _, _ in launch] for launch in launches]


@wrong("wrong-result", "it would read what was there before")
def updates_at_the_end(work):
    """All weights change in a launch of their own, also those that somebody reads again."""
    late = [name for name, _, _ in work if "update" in name]
    return [[name] for name, _, _ in work if name not in late] + [late]


@right
def by_levels_from_the_end(work):
    """Each as late as it can be: the fewest launches, but other ones."""
    level = {}
    for n in reversed(range(len(work))):
        _, reads, writes = work[n]
        later = [
            level[m]
            for m in range(n + 1, len(work))
            if {*writes} & {*work[m][1], *work[m][2]} or {*reads} & {*work[m][2]}
        ]
        level[n] = max(later, default=0) + 1
    most = max(level.values())
    return tuple(
        tuple(work[n][0] for n in range(len(work)) if level[n] == most - number)
        for number in range(most)
    )
