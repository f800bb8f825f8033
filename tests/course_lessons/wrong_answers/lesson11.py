"""Wrong answers to the exercises of lesson 11 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from course import cuda
from course.kernels.svd.rotate import partners
from course.kernels.svd.rotate import rotation as rotation_on_gpu
from course_lessons.lesson11.toy_svd import rotate_two, rotation
from tests.course_lessons.wrong_answers import answers_to

ALL = 0xFFFFFFFF


wrong, right = answers_to("jacobi-rotation")
wrong("wrong-result", "two nearly equal numbers", "nearly orthogonal")(
    {"math.copysign(1 / (abs(tau)": "-tau"},
    {"), tau": " if tau >= 0 else -tau - math.sqrt(1 + tau * tau"},
)
wrong("wrong-result", "np.sign", "equal lengths")({"math.copysign(1": "np.sign(tau)", "), tau": ""})


def from_tau(tau):
    t = math.copysign(1 / (abs(tau) + math.sqrt(1 + tau * tau)), tau)
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c


wrong("raised", "g = 0", "orthogonal already")("return from_tau((b - a) / (2 * g))")
wrong("wrong-result", "g = 0", "stay as they are")(
    'with np.errstate(all="ignore"):\n'
    "    return tuple(np.multiply(from_tau(np.float64(b - a) / np.float64(2 * g)), g "
    "/ np.float64(g)))"
)
wrong("wrong-result", "sign of tau|in this order", "second row longer")(
    "return from_tau((a - b) / (2 * g)) if g else (1.0, 0.0)"
)
wrong("wrong-result", "changed places")("c, tau = rotation(a, b, g)\nreturn tau, c")
wrong("wrong-result", "degrees", "smaller one")(
    "c, tau = rotation(a, b, g)\nreturn (-tau, c) if g else (c, tau)"
)
wrong("wrong-result", "lengths change", "s = t")("c, tau = rotation(a, b, g)\nreturn c, tau / c")
wrong("wrong-result", "Return two numbers")("c, tau = rotation(a, b, g)\nreturn math.atan2(tau, c)")
wrong("wrong-result", "tau is (b - a) / (2 g), where a and b are squared", "first row longer")(
    {"if g == 0:\n        return 1.0, 0.0\n    tau = (b - a) / (2": ("return from_tau((b - a) / 2")}
)
wrong("wrong-result", "Line 5 decides")({"+ math.sqrt(1": "+ 1", "tau))": "tau)"})
wrong("wrong-result", "compare g with 0", "nearly orthogonal")(
    "return (1.0, 0.0) if abs(g) < 1e-8 else rotation(a, b, g)"
)
wrong("wrong-result", "not with a small number", "short rows")({"g == 0": "abs(g) < 1e-12"})
wrong("wrong-result", "nor by g <= 0", "negative product")({"g == 0": "g <= 0"})
wrong("wrong-result", "it is |tau|, not tau", "first row longer")(
    {"math.copysign(1 / (abs(tau)": "1 / (tau", ", tau)": ""}
)
wrong("raised", "With a = b", "equal lengths")(
    "tau = 0.5 * math.atan(2 * g / (b - a))\nreturn math.cos(tau), math.sin(tau)"
)
wrong("wrong-result", "With g = 0", "(1, 0)", "orthogonal already")(
    "return from_tau((b - a) / (2 * g)) if g else (0.0, 1.0)"
)
right(
    "tau = math.copysign(0.5 * math.atan2(2 * abs(g), abs(b - a)), g * (b - a) if b "
    "!= a else g)\n"
    "return math.cos(tau), math.sin(tau)"
)
right(
    "if abs(g) < 1e-300:\n    return np.float32(1), np.float32(0)\ntau = (b - a) / (2 * g)\n"
    "t = (1 if tau > 0 else -1) / (abs(tau) + np.hypot(1, tau))\n"
    "return 1 / np.sqrt(1 + t**2), t / np.sqrt(1 + t**2)"
)


wrong, right = answers_to("jacobi-sweep")


def sweep_of(rows, pairs=None, view=False, sign=1):
    rows, largest, n = rows.copy(), 0.0, len(rows)
    every = [(first, second) for first in range(n) for second in range(first + 1, n)]
    for i, j in every if pairs is None else pairs:
        x, y = (rows[i], rows[j]) if view else (rows[i].copy(), rows[j].copy())
        a, b, g = x @ x, y @ y, x @ y
        if g:
            largest = max(largest, abs(g) / math.sqrt(a * b))
        c, s = rotation(a, b, g)
        rows[i] = c * x - sign * s * y
        rows[j] = sign * s * x + c * y
    return rows, largest


wrong("wrong-result|raised", "zeros|length 0|divide")(
    {"if g != 0:\n                ": "", "(g) /": "(float(g)) /"}
)
sweep_with_products = wrong("wrong-result", "Line 7 decides")(
    {
        (
            "if g != 0:\n"
            "                largest = max(largest, abs(g) / math.sqrt(a) / math.sqrt(b))"
        ): "largest = max(largest, abs(g))"
    }
)
wrong("input-modified", "copy")({"rows, largest = rows.copy(),": "largest ="})
wrong("raised", "x @ x")({"b, g)": "b, x * y)"})


def every_cosine(rows):
    rows, met = rows.copy(), []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            met.append(abs(g) / math.sqrt(a * b) if g else 0.0)
            c, s = rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, met


wrong("wrong-shape", "the largest cosine is one number")("return every_cosine(rows)")
right("return sweep_of(rows, [(i, j) for j in range(len(rows)) for i in range(j)])")


@right
def sweep_by_matrices(rows):
    rows, largest = np.array(rows), 0.0
    for i in range(len(rows) - 1):
        for j in range(i + 1, len(rows)):
            (a, g), (_, b) = rows[[i, j]] @ rows[[i, j]].T
            if a > 0 and b > 0:
                largest = max(largest, abs(g) / np.sqrt(a) / np.sqrt(b))
            c, s = rotation(a, b, g)
            rows[[i, j]] = np.array([[c, -s], [s, c]]) @ rows[[i, j]]
    return rows, largest


@right
def sweep_with_combinations(rows):
    from itertools import combinations

    rows, met = rows.copy(), [0.0]
    for pair in combinations(range(len(rows)), 2):
        x, y = rows[list(pair)]
        a, b, g = x @ x, y @ y, x @ y
        met.append(abs(g) / max(math.sqrt(a) * math.sqrt(b), 1e-300))
        c, s = rotation(a, b, g)
        rows[pair[0]], rows[pair[1]] = c * x - s * y, s * x + c * y
    return rows, max(met)


wrong, right = answers_to("tournament")
wrong("wrong-result", "is in")(
    "return [[(p, turn) for turn in range(p + 1, n)] for p in range(n - 1)]"
)
wrong("wrong-result", "other pairs")(
    "rounds = [(p, p + 1) for p in range(0, n, 2)]\n"
    "pairs = [(p, p + 1) for p in range(1, n - 1, 2)]\nreturn [rounds, pairs]"
)
wrong("wrong-result", "in 6 rounds")(
    "return [[(turn, ring)] for turn in range(n) for ring in range(turn + 1, n)]"
)
wrong("wrong-result", "again in round")(
    "return [[((p + turn) % n, (n - 1 - p + turn) % n) for p in range(n // 2)] for "
    "turn in range(n - 1)]"
)


def tournament_that_is_right(n):
    ring = n - 1
    return [
        [(turn, ring), *(((turn + p) % ring, (turn - p) % ring) for p in range(1, n // 2))]
        for turn in range(ring)
    ]


wrong("wrong-result", "never meet")("return tournament_that_is_right(n)[:-1]")
wrong("wrong-result", "rows go from 0 to")(
    "ring = n - 1\n"
    "return [[(turn, ring), *(((turn + p) % ring, turn - p) for p in range(1, n // "
    "2))] for turn in range(ring)]"
)
wrong("wrong-result", "meets itself|is in")(
    "ring = n - 1\n"
    "return [[((turn + p) % ring, (turn - p) % ring) for p in range(n // 2)] for "
    "turn in range(ring)]"
)
wrong("wrong-result", "list of rounds|no pair")(
    "return [p for pairs in tournament_that_is_right(n) for p in pairs]"
)
wrong("wrong-result", "3 are enough")({"return rounds": "return rounds + rounds[:1]"})
wrong("wrong-result", "7 rounds. 5 are enough", "6 rows")(
    {
        "ring = n - 1\n    rounds = []\n    for": (
            "left, rounds = [(ring, turn) for ring in range(n) for"
        ),
        "ring):": "ring)], []\n    while left:",
        "pairs = [(turn, ring)": "taken, pairs = set(), [",
        "range(1, n // 2):\n": "left:\n            if not taken & set(p):\n    ",
        "((turn + p) % ring, (turn - p) % ring))": (
            "p)\n                taken |= set(p)\n"
            "        left = [p for p in left if p not in pairs]"
        ),
    }
)
wrong("wrong-result", "rows go from 0 to 5", "6 rows")(
    "return [[(ring, ring ^ turn) for ring in range(n) if ring < ring ^ turn] for "
    "turn in range(1, n)]"
)
wrong("wrong-result", "divide with //", "2 rows")(
    "return [[(0, n / 2)]] if n == 2 else tournament_that_is_right(n)"
)
wrong("wrong-result", "begin a new one in each round")(
    {"rounds = []": "rounds, pairs = [], []"},
    {"pairs = [(turn, ring)]": "pairs.append((turn, ring))"},
)
wrong("wrong-result", "got (None, None, None)|got [None, None, None]")(
    "return [[].extend(turn) for turn in tournament_that_is_right(n)]"
)
right("for turn in tournament_that_is_right(n):\n    yield [set(pairs) for pairs in turn]")
right(
    "players, rounds = list(range(n)), []\nfor _ in range(n - 1):\n"
    "    rounds.append([(players[p], players[n - 1 - p]) for p in range(n // 2)])\n"
    "    players = [players[0], players[-1], *players[1:-1]]\nreturn rounds"
)
right("return np.array(tournament_that_is_right(n))[::-1, :, ::-1]")


wrong, right = answers_to("rotate-pairs")
pairs_of_32_columns = wrong("wrong-result", "Line 5 decides")(
    {"range(lane, w.shape[2], 32):\n        x, y": "range(lane, 32, 32):\n        x, y"},
    {"range(lane, w.shape[2], 32):\n            x, y": "range(lane, 32, 32):\n            x, y"},
)
wrong("race", "A row belongs to one pair")(
    {", warp": ", i", "i, j = pairs[warp, 0], pairs[warp, 1]": "j = i + 1"}
)
wrong("float64", "float32(0)")({", float32(0),": ", 0.0,"})
wrong("uncoalesced", "Neighbouring lanes take neighbouring columns")(
    {
        "]\n    a": "]\n    each = (w.shape[2] + 31) // 32\n    a",
        ", w.shape[2], 32):\n        x": (
            " * each, min(lane * each + each, w.shape[2])):\n        x"
        ),
        ", w.shape[2], 32):\n            x": (
            " * each, min(lane * each + each, w.shape[2])):\n            x"
        ),
    }
)
wrong("same-value-race|race", "columns among them")(
    {"lane, w.shape[2], 32):\n        x": "w.shape[2]):\n        x"}
)
wrong("wrong-result", "unchanged", "small numbers")({"g != float32(0": "abs(g) > float32(1e-12"})
wrong("wrong-result", "unchanged|as it was before", "as long,")({"g != float32(0)": "a != b"})
wrong("typing", "rotate.rotation")({"rotate.rotation": "toy_svd.rotation"})
wrong("uninitialised-read", "which has returned", "6 x 7")(
    {"]\n    a": "]\n    if lane >= w.shape[2]:\n        return\n    a"}
)


@right
@cuda.jit
def pairs_with_shuffles_down(w, pairs):
    """Sums go to lane 0, and from there to all."""
    lane, mine = cuda.laneid, w[cuda.blockIdx.x]
    warp = cuda.threadIdx.x // 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    x_row, y_row = mine[i], mine[j]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, x_row.size, 32):
        a += x_row[column] * x_row[column]
        b += y_row[column] * y_row[column]
        g += x_row[column] * y_row[column]
    step = 16
    while step > 0:
        a += cuda.shfl_down_sync(ALL, a, step)
        b += cuda.shfl_down_sync(ALL, b, step)
        g += cuda.shfl_down_sync(ALL, g, step)
        step //= 2
    a, b = cuda.shfl_sync(ALL, a, 0), cuda.shfl_sync(ALL, b, 0)
    g = cuda.shfl_sync(ALL, g, 0)
    if g == float32(0):
        return
    s, d = rotation_on_gpu(a, b, g)
    c = float32(1) - d
    for column in range(lane, x_row.size, 32):
        x, y = x_row[column], y_row[column]
        x_row[column], y_row[column] = c * x - s * y, s * x + c * y


wrong, right = answers_to("sweep-shared")
wrong("barrier-divergence", "behind the loop over pairs")(
    {")\n        cuda": ")\n            cuda"}
)
wrong("race|same-value-race|wrong-result", "matrix 0|copied by one thread|block b has matrix b")(
    {"cuda.blockIdx.x": "0"}
)


@wrong("limit", "copy the matrix to shared memory")
@cuda.jit
def sweep_in_device_memory(w):
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n = w.shape[1]
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(w[matrix], i, j)
        cuda.syncthreads()


wrong("limit", "All threads of a block copy")(
    {", threads):\n        rows": " if thread == 0 else 0):\n        rows"}
)
wrong("limit", "after the last round")(
    {")\n    for e": ")\n        for e", ":\n        w": ":\n            w"},
    {
        "= rows[e // columns, e % columns]": (
            "= rows[e // columns, e % columns]\n        cuda.syncthreads()"
        )
    },
)
wrong("uninitialised-read", "goes through cuda.shared.array")({"shared.": "local."})
wrong("uninitialised-read", "rows[:n, :columns]")({", :columns": ""})
wrong("out-of-bounds", "the shared array is (32, 32)", "32 x 32")({"32, 32": "16, 32"})
wrong("out-of-bounds", "row e // columns, column e % columns")(
    {"= w[matrix, e // columns": "= w[matrix, e // n"}
)
wrong("typing", "(32, 32) holds every matrix")({"32, 32": "w.shape[1], w.shape[2]"})
right({", 32)": ", 33)"})


@right
@cuda.jit
def sweep_copied_by_warps(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for row in range(t // 32, n, threads // 32):
        if t % 32 < columns:
            rows[row, t % 32] = w[matrix, row, t % 32]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


wrong, right = answers_to("range-finder")
wrong("wrong-result", "not orthonormal")({"np.linalg.qr(a @ random)[0]": "a @ random"})
wrong("wrong-result", "make the columns orthonormal", "40 x 40")(
    "z = a @ random\nfor _ in range(power):\n    z = a @ (a.T @ z)\nreturn np.linalg.qr(z)[0]"
)
wrong("wrong-result", "the singular vectors themselves")(
    "return np.ascontiguousarray(np.linalg.svd(a)[0][:, : random.shape[1]])"
)
wrong("wrong-result", "a tuple", "q and r")({"random)[0]": "random)"})
wrong("wrong-result", "'reduced'")(
    "q = np.linalg.qr(a @ random)[0]\nfor _ in range(power):\n"
    "    q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]\n"
    'return np.linalg.qr(q, mode="complete")[0]'
)
wrong("wrong-result", "as long as a column of a")(
    "q = np.linalg.qr(a @ random)[0]\nreturn np.linalg.qr(a.T @ q)[0]"
)
wrong("wrong-result", "let all stay float32")(
    "z = a.astype(float) @ random\nfor _ in range(power):\n    z = a @ (a.T @ z)\n"
    "return np.linalg.qr(z)[0]"
)
wrong("wrong-result", "Line 4 decides", "19 x 16")({"T @ q": "T @ (a @ random)"})
wrong("wrong-result", "Begin with y = a @ random")(
    {"random)": "np.random.default_rng(0).standard_normal(random.shape).astype(np.float32))"}
)
wrong("raised", "`power` may be 0")({":\n    q": ":\n    z"})
wrong("wrong-result", "[0] is q, [1] is r")({"random)[0": "random)[1"})
wrong("wrong-result", "Return one array, q; got ((")("return np.linalg.qr(a @ random)[0].tolist()")
right(
    "z = a @ random\nfor _ in range(power):\n"
    "    z = a @ np.linalg.qr(a.T @ np.linalg.qr(z)[0])[0]\n"
    "return np.linalg.svd(z, full_matrices=False)[0]"
)
right(
    "q, _ = np.linalg.qr(a @ random)\nfor _ in range(power):\n"
    "    q, _ = np.linalg.qr(a @ (a.T @ q))\nreturn -q[:, ::-1]"
)
