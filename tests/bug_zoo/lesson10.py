"""Wrong answers to the exercises of lesson 10 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from bug_zoo import Answers
from course import cuda
from course.kernels.svd_rotate import partners
from course.kernels.svd_rotate import rotation as rotation_on_gpu
from course.toy_svd import rotate_two, rotation

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

ALL = 0xFFFFFFFF

# --- jacobi-rotation ------------------------------------------------------------------------------


def from_tau(tau):
    t = math.copysign(1 / (abs(tau) + math.sqrt(1 + tau * tau)), tau)
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c


@wrong("jacobi-rotation", "wrong-result", "two nearly equal numbers", "nearly orthogonal")
def rotation_by_a_difference(a, b, g):
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = -tau + math.sqrt(1 + tau * tau) if tau >= 0 else -tau - math.sqrt(1 + tau * tau)
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c


@wrong("jacobi-rotation", "wrong-result", "np.sign", "equal lengths")
def rotation_with_sign_zero(a, b, g):
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = np.sign(tau) / (abs(tau) + math.sqrt(1 + tau * tau))
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c


@wrong("jacobi-rotation", "raised", "g = 0", "orthogonal already")
def rotation_that_divides_by_zero(a, b, g):
    return from_tau((b - a) / (2 * g))


@wrong("jacobi-rotation", "wrong-result", "g = 0", "stay as they are")
def rotation_that_divides_by_zero_in_numpy(a, b, g):
    with np.errstate(all="ignore"):
        return tuple(
            np.multiply(from_tau(np.float64(b - a) / np.float64(2 * g)), g / np.float64(g))
        )


@wrong("jacobi-rotation", "wrong-result", "sign of tau|in this order", "second row longer")
def rotation_the_other_way(a, b, g):
    return from_tau((a - b) / (2 * g)) if g else (1.0, 0.0)


@wrong("jacobi-rotation", "wrong-result", "changed places")
def rotation_as_sine_and_cosine(a, b, g):
    c, s = rotation(a, b, g)
    return s, c


@wrong("jacobi-rotation", "wrong-result", "degrees", "smaller one")
def rotation_by_the_larger_angle(a, b, g):
    c, s = rotation(a, b, g)
    return (-s, c) if g else (c, s)


@wrong("jacobi-rotation", "wrong-result", "lengths change", "s = t")
def rotation_with_t_for_s(a, b, g):
    c, s = rotation(a, b, g)
    return c, s / c


@wrong("jacobi-rotation", "wrong-result", "divided by 2 g, not by g")
def rotation_without_the_two(a, b, g):
    return from_tau((b - a) / g) if g else (1.0, 0.0)


@wrong("jacobi-rotation", "wrong-result", "no root")
def rotation_of_lengths(a, b, g):
    return from_tau((math.sqrt(b) - math.sqrt(a)) / (2 * g)) if g else (1.0, 0.0)


@wrong("jacobi-rotation", "wrong-result", "twice the angle")
def rotation_by_twice_the_angle(a, b, g):
    angle = math.atan2(2 * g, b - a) if b >= a else math.atan2(-2 * g, a - b)
    return math.cos(angle), math.sin(angle)


@wrong("jacobi-rotation", "wrong-result", "Return two numbers")
def rotation_as_an_angle(a, b, g):
    c, s = rotation(a, b, g)
    return math.atan2(s, c)


@wrong("jacobi-rotation", "wrong-result", "put 2 * g in brackets", "first row longer")
def rotation_without_brackets(a, b, g):
    return from_tau((b - a) / 2 * g) if g else (1.0, 0.0)


@wrong("jacobi-rotation", "wrong-result", "left out the root")
def rotation_without_the_root(a, b, g):
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = math.copysign(1 / (abs(tau) + 1 + tau * tau), tau)
    return 1 / math.sqrt(1 + t * t), t / math.sqrt(1 + t * t)


@wrong("jacobi-rotation", "wrong-result", "compare g with 0", "nearly orthogonal")
def rotation_with_a_threshold(a, b, g):
    return (1.0, 0.0) if abs(g) < 1e-8 else rotation(a, b, g)


@wrong("jacobi-rotation", "wrong-result", "it is |tau|, not tau", "first row longer")
def rotation_without_the_magnitude(a, b, g):
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = 1 / (tau + math.sqrt(1 + tau * tau))
    return 1 / math.sqrt(1 + t * t), t / math.sqrt(1 + t * t)


@wrong("jacobi-rotation", "raised", "With a = b", "equal lengths")
def rotation_by_a_plain_arctangent(a, b, g):
    angle = 0.5 * math.atan(2 * g / (b - a))
    return math.cos(angle), math.sin(angle)


@wrong("jacobi-rotation", "wrong-result", "With g = 0", "(1, 0)", "orthogonal already")
def rotation_by_nothing_with_c_for_s(a, b, g):
    return from_tau((b - a) / (2 * g)) if g else (0.0, 1.0)


@wrong("jacobi-rotation", "wrong-result", "radians, not degrees")
def rotation_in_degrees(a, b, g):
    if g == 0:
        return 1.0, 0.0
    c, s = from_tau((b - a) / (2 * g))
    angle = math.degrees(math.atan2(s, c))
    return math.cos(angle), math.sin(angle)


@wrong("jacobi-rotation", "wrong-result", "with a square", "second row longer")
def rotation_without_the_square(a, b, g):
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = math.copysign(1 / (abs(tau) + math.sqrt(1 + tau)), tau)
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c


@wrong("jacobi-rotation", "wrong-result", "not atan2 of two", "first row longer")
def rotation_by_an_arctangent_of_two(a, b, g):
    if g == 0:
        return 1.0, 0.0
    angle = math.atan2(2 * g, b - a) / 2
    return math.cos(angle), math.sin(angle)


@right("jacobi-rotation")
def rotation_by_an_arctangent(a, b, g):
    angle = math.copysign(0.5 * math.atan2(2 * abs(g), abs(b - a)), g * (b - a) if b != a else g)
    return math.cos(angle), math.sin(angle)


@right("jacobi-rotation")
def rotation_in_numpy(a, b, g):
    if abs(g) < 1e-300:
        return np.float32(1), np.float32(0)
    tau = (b - a) / (2 * g)
    t = (1 if tau > 0 else -1) / (abs(tau) + np.hypot(1, tau))
    return 1 / np.sqrt(1 + t**2), t / np.sqrt(1 + t**2)


@right("jacobi-rotation")
def rotation_turned_over(a, b, g):
    c, s = rotation(a, b, g)
    return np.array([-c, -s])


# --- jacobi-sweep ---------------------------------------------------------------------------------


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


@wrong("jacobi-sweep", "wrong-result", "new first one")
def sweep_of_views(rows):
    return sweep_of(rows, view=True)


@wrong("jacobi-sweep", "wrong-result", "the other way")
def sweep_backwards(rows):
    return sweep_of(rows, sign=-1)


@wrong("jacobi-sweep", "wrong-result", "only neighbours")
def sweep_of_neighbours(rows):
    return sweep_of(rows, [(i, i + 1) for i in range(len(rows) - 1)])


@wrong("jacobi-sweep", "wrong-result", "rotated twice")
def sweep_of_all_ordered_pairs(rows):
    n = len(rows)
    return sweep_of(rows, [(i, j) for i in range(n) for j in range(n) if i != j])


@wrong("jacobi-sweep", "wrong-result", "before the sweep")
def sweep_by_a_stale_gram_matrix(rows):
    gram, new = rows @ rows.T, rows.copy()
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            c, s = rotation(gram[i, i], gram[j, j], gram[i, j])
            new[i], new[j] = c * new[i] - s * new[j], s * new[i] + c * new[j]
    return new, sweep_of(rows)[1]


@wrong("jacobi-sweep", "wrong-result|raised", "zeros|length 0|divide")
def sweep_that_divides_by_zero(rows):
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            largest = max(largest, abs(float(g)) / float(math.sqrt(a * b)))
            c, s = rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


@wrong("jacobi-sweep", "wrong-result", "largest product")
def sweep_with_products(rows):
    new, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = new[i].copy(), new[j].copy()
            largest = max(largest, abs(x @ y))
            c, s = rotation(x @ x, y @ y, x @ y)
            new[i], new[j] = c * x - s * y, s * x + c * y
    return new, largest


@wrong("jacobi-sweep", "wrong-result", "after the sweep")
def sweep_measured_afterwards(rows):
    new, _ = sweep_of(rows)
    unit = new / np.maximum(np.linalg.norm(new, axis=1), 1e-300)[:, None]
    return new, np.abs(unit @ unit.T - np.diag(np.diag(unit @ unit.T))).max()


@wrong("jacobi-sweep", "input-modified", "copy")
def sweep_in_place(rows):
    largest = 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            c, s = rotation(x @ x, y @ y, x @ y)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


@wrong("jacobi-sweep", "wrong-shape|wrong-result|wrong-dtype", "")
def sweep_without_the_cosine(rows):
    return sweep_of(rows)[0]


@wrong("jacobi-sweep", "wrong-result", "behind both loops")
def sweep_returned_too_early(rows):
    return sweep_of(rows, [(0, j) for j in range(1, len(rows))])


@wrong("jacobi-sweep", "wrong-result", "read it again for each j")
def sweep_with_a_stale_row(rows):
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        x = rows[i].copy()
        for j in range(i + 1, len(rows)):
            y = rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            if g:
                largest = max(largest, abs(g) / math.sqrt(a * b))
            c, s = rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


@wrong("jacobi-sweep", "wrong-result", "copy that changes")
def sweep_that_reads_the_old_rows(rows):
    new, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i], rows[j]
            a, b, g = x @ x, y @ y, x @ y
            if g:
                largest = max(largest, abs(g) / math.sqrt(a * b))
            c, s = rotation(a, b, g)
            new[i], new[j] = c * x - s * y, s * x + c * y
    return new, largest


@wrong("jacobi-sweep", "wrong-result", "with itself")
def sweep_with_itself(rows):
    n = len(rows)
    return sweep_of(rows, [(i, j) for i in range(n) for j in range(i, n)])


@wrong("jacobi-sweep", "wrong-result", "the last row meets nobody")
def sweep_without_the_last_row(rows):
    n = len(rows) - 1
    return sweep_of(rows, [(i, j) for i in range(n) for j in range(i + 1, n)])


@wrong("jacobi-sweep", "raised", "x @ x")
def sweep_with_rows_for_products(rows):
    rows = rows.copy()
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            c, s = rotation(x * x, y * y, x * y)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, 0.0


@wrong("jacobi-sweep", "wrong-result", "only then the rotation")
def sweep_measured_after_each_rotation(rows):
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            c, s = rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
            if g:
                largest = max(largest, abs(rows[i] @ rows[j]) / math.sqrt(a * b))
    return rows, largest


@wrong("jacobi-sweep", "wrong-result", "second row has a wrong sign")
def sweep_with_a_minus(rows):
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            if g:
                largest = max(largest, abs(g) / math.sqrt(a * b))
            c, s = rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x - c * y
    return rows, largest


@wrong("jacobi-sweep", "wrong-result", "lengths from before the sweep")
def sweep_by_lengths_from_before(rows):
    rows, largest, lengths = rows.copy(), 0.0, np.linalg.norm(rows, axis=1)
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            g = x @ y
            if g:
                largest = max(largest, abs(g) / (lengths[i] * lengths[j]))
            c, s = rotation(x @ x, y @ y, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


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


@wrong("jacobi-sweep", "wrong-result", "cosines are added up")
def sweep_with_a_sum(rows):
    rows, met = every_cosine(rows)
    return rows, sum(met)


@wrong("jacobi-sweep", "wrong-shape", "the largest cosine is one number")
def sweep_with_every_cosine(rows):
    return every_cosine(rows)


@right("jacobi-sweep")
def sweep_column_by_column(rows):
    """(0, 1), (0, 2), (1, 2), (0, 3): what changes places with one another has no common row."""
    return sweep_of(rows, [(i, j) for j in range(len(rows)) for i in range(j)])


@right("jacobi-sweep")
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


@right("jacobi-sweep")
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


# --- tournament -----------------------------------------------------------------------------------


@wrong("tournament", "wrong-result", "is in")
def tournament_of_one_round_a_row(n):
    return [[(i, j) for j in range(i + 1, n)] for i in range(n - 1)]


@wrong("tournament", "wrong-result", "other pairs")
def tournament_of_neighbours(n):
    even = [(i, i + 1) for i in range(0, n, 2)]
    odd = [(i, i + 1) for i in range(1, n - 1, 2)]
    return [even, odd]


@wrong("tournament", "wrong-result", "in 6 rounds")
def tournament_of_single_pairs(n):
    return [[(i, j)] for i in range(n) for j in range(i + 1, n)]


@wrong("tournament", "wrong-result", "again in round")
def tournament_where_all_move(n):
    return [
        [((p + turn) % n, (n - 1 - p + turn) % n) for p in range(n // 2)] for turn in range(n - 1)
    ]


@wrong("tournament", "wrong-result", "is in|meets itself|rows go from")
def tournament_modulo_n(n):
    return [
        [(turn, n - 1), *(((turn + p) % n, (turn - p) % n) for p in range(1, n // 2))]
        for turn in range(n - 1)
    ]


@wrong("tournament", "wrong-result", "never meet")
def tournament_without_the_middle(n):
    ring = n - 1
    return [
        [((turn + p) % ring, (turn - p) % ring) for p in range(1, n // 2)] for turn in range(ring)
    ]


@wrong("tournament", "wrong-result", "never meet")
def tournament_a_round_short(n):
    return tournament_that_is_right(n)[:-1]


@wrong("tournament", "wrong-result", "rows go from 0 to")
def tournament_with_negative_rows(n):
    ring = n - 1
    return [
        [(turn, ring), *(((turn + p) % ring, turn - p) for p in range(1, n // 2))]
        for turn in range(ring)
    ]


@wrong("tournament", "wrong-result", "meets itself|is in")
def tournament_from_p_zero(n):
    ring = n - 1
    return [[((turn + p) % ring, (turn - p) % ring) for p in range(n // 2)] for turn in range(ring)]


@wrong("tournament", "wrong-result", "both|twice|again in round")
def tournament_in_both_orders(n):
    rounds = tournament_that_is_right(n)
    return rounds + [[(j, i) for i, j in pairs] for pairs in rounds]


@wrong("tournament", "wrong-result", "list of rounds|no pair")
def tournament_flat(n):
    return [pair for pairs in tournament_that_is_right(n) for pair in pairs]


@wrong("tournament", "wrong-result", "3 are enough")
def tournament_of_n_rounds(n):
    rounds = tournament_that_is_right(n)
    return rounds + rounds[:1]


@wrong("tournament", "wrong-result", "7 rounds. 5 are enough", "6 rows")
def tournament_by_the_first_that_fits(n):
    left, rounds = [(i, j) for i in range(n) for j in range(i + 1, n)], []
    while left:
        taken, pairs = set(), []
        for pair in left:
            if not taken & set(pair):
                pairs.append(pair)
                taken |= set(pair)
        left = [pair for pair in left if pair not in pairs]
        rounds.append(pairs)
    return rounds


@wrong("tournament", "wrong-result", "rows go from 0 to 5", "6 rows")
def tournament_by_exclusive_or(n):
    return [[(i, i ^ turn) for i in range(n) if i < i ^ turn] for turn in range(1, n)]


@wrong("tournament", "wrong-result", "divide with //", "2 rows")
def tournament_with_a_half(n):
    return [[(0, n / 2)]] if n == 2 else tournament_that_is_right(n)


@wrong("tournament", "wrong-result", "again in round")
def tournament_of_neighbours_in_a_list(n):
    players, rounds = list(range(n)), []
    for _ in range(n - 1):
        rounds.append([(players[2 * p], players[2 * p + 1]) for p in range(n // 2)])
        players = [players[0], *players[2:], players[1]]
    return rounds


def tournament_that_is_right(n):
    ring = n - 1
    return [
        [(turn, ring), *(((turn + p) % ring, (turn - p) % ring) for p in range(1, n // 2))]
        for turn in range(ring)
    ]


@wrong("tournament", "wrong-result", "begin a new one in each round")
def tournament_in_one_list(n):
    pairs, rounds = [], []
    for turn in tournament_that_is_right(n):
        pairs.extend(turn)
        rounds.append(pairs)
    return rounds


@wrong("tournament", "wrong-result", "got (None, None, None)|got [None, None, None]")
def tournament_of_what_extend_returns(n):
    return [[].extend(turn) for turn in tournament_that_is_right(n)]


@right("tournament")
def tournament_as_it_goes(n):
    for turn in tournament_that_is_right(n):
        yield [set(pair) for pair in turn]


@right("tournament")
def tournament_by_moving_a_list(n):
    players, rounds = list(range(n)), []
    for _ in range(n - 1):
        rounds.append([(players[p], players[n - 1 - p]) for p in range(n // 2)])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


@right("tournament")
def tournament_as_an_array(n):
    return np.array(tournament_that_is_right(n))[::-1, :, ::-1]


# --- rotate-pairs ---------------------------------------------------------------------------------


@wrong("rotate-pairs", "wrong-result", "new first one")
@cuda.jit
def pairs_overwritten(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        a += w[matrix, i, column] * w[matrix, i, column]
        b += w[matrix, j, column] * w[matrix, j, column]
        g += w[matrix, i, column] * w[matrix, j, column]
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x = w[matrix, i, column]
            w[matrix, i, column] = x - (d * x + s * w[matrix, j, column])
            y = w[matrix, j, column]
            w[matrix, j, column] = y + (s * w[matrix, i, column] - d * y)


@wrong("rotate-pairs", "wrong-result", "never added over the warp")
@cuda.jit
def pairs_without_shuffles(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "g was 0|g is 0")
@cuda.jit
def pairs_without_the_guard(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    s, d = rotation_on_gpu(a, b, g)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        w[matrix, i, column] = x - (d * x + s * y)
        w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "it is 1 - c")
@cuda.jit
def pairs_with_d_for_c(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, c = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = c * x - s * y
            w[matrix, j, column] = s * x + c * y


@wrong("rotate-pairs", "wrong-result|out-of-bounds", "matrix is cuda.blockIdx.x|block's matrix")
@cuda.jit
def pairs_of_matrix_0(w, pairs):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.blockIdx.x > 0:
        return
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[0, i, column], w[0, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[0, i, column], w[0, j, column]
            w[0, i, column] = x - (d * x + s * y)
            w[0, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "first 32")
@cuda.jit
def pairs_of_32_columns(w, pairs):
    matrix, warp, column = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    x, y = w[matrix, i, column], w[matrix, j, column]
    a, b, g = x * x, y * y, x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        w[matrix, i, column] = x - (d * x + s * y)
        w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "first 32 columns|only the first 32|first 32")
@cuda.jit
def pairs_of_32_guarded_columns(w, pairs):
    matrix, warp, column = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    x, y = float32(0), float32(0)
    if column < w.shape[2]:
        x, y = w[matrix, i, column], w[matrix, j, column]
    a, b, g = x * x, y * y, x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0) and column < w.shape[2]:
        s, d = rotation_on_gpu(a, b, g)
        w[matrix, i, column] = x - (d * x + s * y)
        w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "race", "A row belongs to one pair")
@cuda.jit
def pairs_that_overlap(w, pairs):
    """Warp p takes rows p and p + 1."""
    matrix, i, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    j = i + 1
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "float64", "float32(0)")
@cuda.jit
def pairs_in_float64(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = 0.0, 0.0, 0.0
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != 0:
        s, d = rotation_on_gpu(float32(a), float32(b), float32(g))
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "uncoalesced", "Neighbouring lanes take neighbouring columns")
@cuda.jit
def pairs_in_chunks(w, pairs):
    """A lane has neighbouring columns."""
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    each = (w.shape[2] + 31) // 32
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane * each, min(lane * each + each, w.shape[2])):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane * each, min(lane * each + each, w.shape[2])):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "same-value-race|race", "columns among them")
@cuda.jit
def pairs_by_every_lane(w, pairs):
    """Each lane goes through all columns."""
    matrix, warp = cuda.blockIdx.x, cuda.threadIdx.x // 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(w.shape[2]):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(w.shape[2]):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "returns (s, d)")
@cuda.jit
def pairs_with_s_and_d_swapped(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        d, s = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "takes five")
@cuda.jit
def pairs_with_four_shuffles(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(4):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "only lane 0 has the sums")
@cuda.jit
def pairs_with_sums_in_lane_0(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_down_sync(ALL, a, 1 << step)
        b += cuda.shfl_down_sync(ALL, b, 1 << step)
        g += cuda.shfl_down_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "once, after it", "8 x 64")
@cuda.jit
def pairs_with_shuffles_in_the_loop(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
        for step in range(5):
            a += cuda.shfl_xor_sync(ALL, a, 1 << step)
            b += cuda.shfl_xor_sync(ALL, b, 1 << step)
            g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "g was not added up")
@cuda.jit
def pairs_without_the_shuffle_of_g(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "negative g")
@cuda.jit
def pairs_of_positive_products(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g > float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "unchanged", "small numbers")
@cuda.jit
def pairs_of_large_products(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if abs(g) > float32(1e-3):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "typing", "rotation_on_gpu")
@cuda.jit
def pairs_with_the_rotation_of_numpy(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        c, s = rotation(a, b, g)
        d = float32(1) - c
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "brackets are missing")
@cuda.jit
def pairs_without_brackets(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - d * x + s * y
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "a row of `pairs`")
@cuda.jit
def pairs_by_columns(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[0, warp], pairs[1, warp]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "left too early", "6 x 7")
@cuda.jit
def pairs_where_lanes_leave(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    if lane >= w.shape[2]:
        return
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "sign is wrong in the first row")
@cuda.jit
def pairs_with_a_plus_in_x(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x + (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "sign is wrong in the second row")
@cuda.jit
def pairs_with_a_minus_in_y(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y - (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "signs in both brackets")
@cuda.jit
def pairs_with_other_signs(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x - s * y)
            w[matrix, j, column] = y + (s * x + d * y)


@wrong("rotate-pairs", "wrong-result", "in the other one's place")
@cuda.jit
def pairs_that_change_places(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, j, column] = x - (d * x + s * y)
            w[matrix, i, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "that of columns is w.shape[2]")
@cuda.jit
def pairs_of_as_many_columns_as_rows(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[1], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[1], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "add them up, `+=`")
@cuda.jit
def pairs_of_the_last_columns(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a = x * x
        b = y * y
        g = x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 1 << step)
        b += cuda.shfl_xor_sync(ALL, b, 1 << step)
        g += cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@wrong("rotate-pairs", "wrong-result", "takes the place of the sum")
@cuda.jit
def pairs_that_keep_what_came_last(w, pairs):
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a = cuda.shfl_xor_sync(ALL, a, 1 << step)
        b = cuda.shfl_xor_sync(ALL, b, 1 << step)
        g = cuda.shfl_xor_sync(ALL, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)


@right("rotate-pairs")
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


# --- sweep-shared ---------------------------------------------------------------------------------


@wrong("sweep-shared", "race", "after each round")
@cuda.jit
def sweep_without_a_barrier(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "race|uninitialised-read", "after the copying|not yet")
@cuda.jit
def sweep_without_a_barrier_after_copying(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "barrier-divergence", "behind the loop over pairs")
@cuda.jit
def sweep_with_the_barrier_inside(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
            cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "last round is missing")
@cuda.jit
def sweep_a_round_short(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 2):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "each warp rotates one pair")
@cuda.jit
def sweep_of_one_pair_a_warp(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        pair = t // 32
        if pair < n // 2:
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "unwritten-output|wrong-result", "copied back")
@cuda.jit
def sweep_never_copied_back(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()


@wrong("sweep-shared", "uninitialised-read|wrong-result", "rows[:n, :columns]")
@cuda.jit
def sweep_of_the_whole_array(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows, i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong(
    "sweep-shared",
    "race|same-value-race|wrong-result",
    "matrix 0|copied by one thread|block b has matrix b",
)
@cuda.jit
def sweep_of_matrix_zero(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = 0, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "limit", "copy the matrix to shared memory")
@cuda.jit
def sweep_in_device_memory(w):
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n = w.shape[1]
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(w[matrix], i, j)
        cuda.syncthreads()


@wrong("sweep-shared", "wrong-result|race|barrier-divergence", "lanes|All lanes")
@cuda.jit
def sweep_by_one_thread_a_pair(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t, n // 2, threads):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "a round too many")
@cuda.jit
def sweep_a_round_too_long(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "counted from 1")
@cuda.jit
def sweep_of_rounds_from_1(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(1, n):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "same pairs meet")
@cuda.jit
def sweep_of_the_same_pairs(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for _ in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = 2 * pair, 2 * pair + 1
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "race", "n / 2 pairs")
@cuda.jit
def sweep_of_n_pairs(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "limit", "All threads of a block copy")
@cuda.jit
def sweep_copied_by_one_thread(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(n * columns if thread == 0 else 0):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "limit", "after the last round")
@cuda.jit
def sweep_copied_back_each_round(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
        for e in range(thread, n * columns, threads):
            w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]
        cuda.syncthreads()


@wrong("sweep-shared", "uninitialised-read", "never copied")
@cuda.jit
def sweep_in_local_memory(w):
    rows = cuda.local.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "uninitialised-read", "rows[:n, :columns]", "6 x 17")
@cuda.jit
def sweep_of_all_32_columns(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "out-of-bounds", "the shared array is (32, 32)", "32 x 32")
@cuda.jit
def sweep_of_16_rows_at_most(w):
    rows = cuda.shared.array((16, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "out-of-bounds", "row e // columns, column e % columns")
@cuda.jit
def sweep_copied_by_n(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // n, e % n] = w[matrix, e // n, e % n]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "typing", "(32, 32) holds every matrix")
@cuda.jit
def sweep_in_an_array_of_n(w):
    rows = cuda.shared.array((w.shape[1], w.shape[2]), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "too few rounds")
@cuda.jit
def sweep_of_half_the_rounds(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n // 2):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "only the first n columns")
@cuda.jit
def sweep_of_a_turned_view(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:columns, :n], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "or its pairs meet in each")
@cuda.jit
def sweep_across(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for _ in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = pair, n - 1 - pair
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@wrong("sweep-shared", "wrong-result", "rotate the rows of the shared array")
@cuda.jit
def sweep_beside_the_shared_array(w):
    rows = cuda.shared.array((32, 32), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(w[matrix], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@right("sweep-shared")
@cuda.jit
def sweep_with_rows_of_33(w):
    rows = cuda.shared.array((32, 33), float32)
    matrix, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(t, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(t // 32, n // 2, threads // 32):
            i, j = partners(turn, pair, n)
            rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(t, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]


@right("sweep-shared")
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


# --- range-finder ---------------------------------------------------------------------------------


@wrong("range-finder", "wrong-result", "not orthonormal")
def range_as_it_comes(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ (a.T @ y)
    return y


@wrong("range-finder", "wrong-result", "make the columns orthonormal", "40 x 40")
def range_orthonormal_at_the_end(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ (a.T @ y)
    return np.linalg.qr(y)[0]


@wrong("range-finder", "wrong-result", "Yours is that of 0")
def range_without_power(a, random, power):
    return np.linalg.qr(a @ random)[0]


@wrong("range-finder", "wrong-result", "Yours is that of 1|Yours is that of 2")
def range_with_a_step_more(a, random, power):
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power + 1):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]
    return q


@wrong("range-finder", "wrong-result", "the singular vectors themselves")
def range_by_svd(a, random, power):
    return np.ascontiguousarray(np.linalg.svd(a)[0][:, : random.shape[1]])


@wrong("range-finder", "wrong-result", "a tuple", "q and r")
def range_with_r(a, random, power):
    q, r = np.linalg.qr(a @ random)
    for _ in range(power):
        q, r = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])
    return q, r


@wrong("range-finder", "wrong-result", "'reduced'")
def range_complete(a, random, power):
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]
    return np.linalg.qr(q, mode="complete")[0]


@wrong("range-finder", "raised", "a.T")
def range_without_transpose(a, random, power):
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a @ q)[0])[0]
    return q


@wrong("range-finder", "wrong-result", "as long as a column of a")
def range_of_the_rows(a, random, power):
    """Columns that span rows of a: a step too many, or too few."""
    q = np.linalg.qr(a @ random)[0]
    return np.linalg.qr(a.T @ q)[0]


@wrong("range-finder", "wrong-result", "not orthonormal")
def range_of_unit_columns(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ np.linalg.qr(a.T @ np.linalg.qr(y)[0])[0]
    return y / np.linalg.norm(y, axis=0)


@wrong("range-finder", "wrong-result", "let all stay float32")
def range_in_float64(a, random, power):
    y = a.astype(float) @ random
    for _ in range(power):
        y = a @ (a.T @ y)
    return np.linalg.qr(y)[0]


@wrong("range-finder", "wrong-result", "Yours is that of 1", "19 x 16")
def range_that_begins_anew(a, random, power):
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ (a @ random))[0])[0]
    return q


@wrong("range-finder", "wrong-result", "Yours is that of 4", "19 x 16")
def range_with_all_steps_twice(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ (a.T @ y)
    q = np.linalg.qr(y)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ (a.T @ q))[0]
    return q


@wrong("range-finder", "wrong-result", "Begin with y = a @ random")
def range_of_columns_of_its_own(a, random, power):
    mine = np.random.default_rng(0).standard_normal(random.shape).astype(np.float32)
    q = np.linalg.qr(a @ mine)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]
    return q


@wrong("range-finder", "wrong-result", "make the columns orthonormal", "40 x 40")
def range_of_scaled_columns(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ (a.T @ (y / np.linalg.norm(y, axis=0)))
    return np.linalg.qr(y)[0]


@wrong("range-finder", "raised", "`power` may be 0")
def range_made_in_the_loop(a, random, power):
    y = a @ random
    for _ in range(power):
        q = np.linalg.qr(y)[0]
        y = a @ np.linalg.qr(a.T @ q)[0]
    return q


@wrong("range-finder", "wrong-result", "`**` takes each number of a matrix by itself")
def range_of_powers_of_numbers(a, random, power):
    return np.linalg.qr(a ** (2 * power + 1) @ random)[0]


@wrong("range-finder", "wrong-result", "[0] is q, [1] is r")
def range_as_r(a, random, power):
    return np.linalg.qr(a @ random)[1]


@wrong("range-finder", "wrong-result", "Return one array, q; got ((")
def range_as_a_list(a, random, power):
    return np.linalg.qr(a @ random)[0].tolist()


@right("range-finder")
def range_by_svd_of_the_sketch(a, random, power):
    y = a @ random
    for _ in range(power):
        y = a @ np.linalg.qr(a.T @ np.linalg.qr(y)[0])[0]
    return np.linalg.svd(y, full_matrices=False)[0]


@right("range-finder")
def range_with_one_qr_a_step(a, random, power):
    """Orthonormal once in a step is enough here."""
    q, _ = np.linalg.qr(a @ random)
    for _ in range(power):
        q, _ = np.linalg.qr(a @ (a.T @ q))
    return -q[:, ::-1]
