"""Wrong answers to the exercises of lesson 14 as students write them, and unusual right ones."""

import math

from numba import float32

from course import cuda
from course.kernels.activation import gelu
from tests.course_lessons.wrong_answers import answers_to

ALL = 0xFFFFFFFF


wrong, right = answers_to("fused-bytes")


def bytes_right(launches, of_a_sample, of_weights, results, batch):
    def size(name):
        return 4 * (of_weights[name] if name in of_weights else batch * of_a_sample[name])

    unfused, touched, made = 0, set(), set()
    for reads, written in launches:
        unfused += size(written)
        for name in reads:
            unfused += size(name)
            if name not in made:
                touched.add(name)
        made.add(written)
    return unfused, sum(map(size, touched)) + sum(map(size, results))


@wrong("wrong-result", "reads each name that no launch writes, once")
def bytes_read_twice(launches, of_a_sample, of_weights, results, batch):
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size.update({name: 4 * count for name, count in of_weights.items()})
    made = [written for _, written in launches]
    unfused = fused = 0
    for reads, written in launches:
        unfused += size[written] + sum(size[name] for name in reads)
        fused += sum(size[name] for name in reads if name not in made)
    return unfused, fused + sum(size[name] for name in results)


wrong("wrong-result", "result[0]", "Line 7 decides")(
    {"return": "unfused = sum(size[name] for name in (*read, *made))\n    return"}
)


def sizes_of(of_a_sample, of_weights, batch):
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    return size | {name: 4 * count for name, count in of_weights.items()}


wrong("raised", "a tuple of names, and one name")({"written)": "*written)"})
right(
    "size = sizes_of(of_a_sample, of_weights, batch)\n"
    "made = {written for _, written in launches}\n"
    "unfused = sum(sum(map(size.get, reads)) + size[written] for reads, written in "
    "launches)\n"
    "return np.array([unfused, sum(size[name] for name in size if name not in made "
    "or name in results)])"
)
right(bytes_right)


wrong, right = answers_to("time-of-launches")
wrong("raised", "it may be empty")(
    "done = launch + works[0]\nfor place, work in enumerate(works[1:], 2):\n"
    "    done = max(done, place * launch) + work\nreturn done"
)
wrong("input-modified", "leave the list")({"+ work": "+ works.pop(0)"})
wrong("wrong-shape", "Return one number")({"return": "return now,"})
wrong("wrong-result", "rounded to two digits")({"return done": "return round(done, 2)"})
wrong("wrong-result", "The fractions are lost")({"return done": "return int(done)"})
right(
    "now = [launch * (work + 1) + sum(works[work:]) for work in range(len(works))]\n"
    "return max(now, default=0)"
)


wrong, right = answers_to("normalise-frames")
wrong("not-parallel", "one warp does the work", "Five frames, five warps")(
    "row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32\n"
    "if cuda.threadIdx.x < 32:\n"
    "    for frame in range(5):\n"
    "        column = frame * 64 + lane\n"
    "        a, b = x[row, column], x[row, column + 32]\n"
    "        total = a + b\n"
    "        for step in range(5):\n"
    "            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)\n"
    "        mean = total / float32(64)\n"
    "        square = (a - mean) * (a - mean) + (b - mean) * (b - mean)\n"
    "        for step in range(5):\n"
    "            square += cuda.shfl_xor_sync(0xFFFFFFFF, square, 1 << step)\n"
    "        scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))\n"
    "        out[row, column] = (a - mean) * scale\n"
    "        out[row, column + 32] = (b - mean) * scale"
)
wrong("wrong-result", "E[x²] - mean² is the difference")(
    {"(a - mean) * (a - mean) + (b - mean) * (b - mean)": "a * a + b * b"},
    {"square / float32(64) +": "square / float32(64) - mean * mean +"},
)
wrong("wrong-result", "shfl_down_sync to lane 0 alone")(
    {"total += cuda.shfl_xor_sync": "total += cuda.shfl_down_sync", "total, 1 <<": "total, 16 >>"}
)
wrong("float64", "bare literals")({"total / float32(64)": "total / 64"})
wrong("uncoalesced|limit", "lane and lane + 32")(
    {"+ lane": "+ 2 * lane", "32]\n    total": "1]\n    total", "32] =": "1] ="}
)
wrong("limit", "keep it in a variable")(
    {"(a - mean) * scale": "(x[row, column] - mean) * scale"},
    {"(b - mean) * scale": "(x[row, column + 32] - mean) * scale"},
)


@wrong("limit", "Shuffles need no shared memory")
@cuda.jit
def frames_by_shared_memory(x, out):
    sums = cuda.shared.array((2, 160), float32)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    first, column = thread // 32 * 32, thread // 32 * 64 + thread % 32
    a, b = x[row, column], x[row, column + 32]
    sums[0, thread] = a + b
    cuda.syncthreads()
    total = float32(0)
    for other in range(32):
        total += sums[0, first + other]
    mean = total / float32(64)
    sums[1, thread] = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    cuda.syncthreads()
    square = float32(0)
    for other in range(32):
        square += sums[1, first + other]
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


wrong("race", "Warp f begins at column 64")(
    {"lane =": "column =", " % 32\n    column = cuda.threadIdx.x // 32 * 64 + lane": ""}
)
wrong("barrier-divergence", "All 32 lanes make a shuffle together")(
    {"total +=": "if lane < step:\n            total +="}
)
wrong("unwritten-output", "begins at column 64 * f")({" cuda.threadIdx.x // 32 * 64 +": ""})
wrong("not-parallel", "each thread does the work of many", "has one frame")(
    {
        "column = cuda.threadIdx.x // 32 * 64 + lane\n": (
            "for column in range(lane, 320, 64):\n    "
        )
    },
    {"total =": "    total =", "b\n    for": "b\n        for"},
    {"total +=": "    total +=", "mean =": "    mean ="},
    {"square =": "    square =", "mean)\n": "mean)\n    "},
    {"square +=": "    square +=", "scale =": "    scale ="},
    {")\n    out": ")\n        out", "scale\n    out": "scale\n        out"},
)


@cuda.jit(device=True)
def over_the_warp(number):
    for apart in (16, 8, 4, 2, 1):
        number += cuda.shfl_xor_sync(ALL, number, apart)
    return number


@right
@cuda.jit
def frames_by_a_device_function(x, out):
    frame, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    numbers = x[cuda.blockIdx.x, frame * 64 : (frame + 1) * 64]
    a, b = numbers[lane], numbers[lane + 32]
    mean = over_the_warp(a + b) / float32(64.0)
    a -= mean
    b -= mean
    deviation = math.sqrt(over_the_warp(a * a + b * b) / float32(64.0) + float32(1e-5))
    out[cuda.blockIdx.x, frame * 64 + lane] = a / deviation
    out[cuda.blockIdx.x, frame * 64 + lane + 32] = b / deviation


@right
@cuda.jit
def frames_by_shifted_squares(x, out):
    """One pass: sums of what lies beyond the frame's first number."""
    lane, frame = cuda.laneid, cuda.threadIdx.x // cuda.warpsize
    row = x[cuda.blockIdx.x, 64 * frame : 64 * frame + 64]
    result = out[cuda.blockIdx.x, 64 * frame : 64 * frame + 64]
    a, b = row[lane], row[lane + 32]
    shift = cuda.shfl_sync(ALL, a, 0)
    p, q = a - shift, b - shift
    total, square = p + q, p * p + q * q
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(ALL, total, step)
        square += cuda.shfl_down_sync(ALL, square, step)
    mean = cuda.shfl_sync(ALL, total, 0) * float32(1 / 64)
    variance = cuda.shfl_sync(ALL, square, 0) * float32(1 / 64) - mean * mean
    scale = float32(1) / math.sqrt(variance + float32(1e-5))
    result[lane] = (p - mean) * scale
    result[lane + 32] = (q - mean) * scale


wrong, right = answers_to("staged-weights")
wrong("limit", "128 shared stores in one of them", "All threads of the block copy weights")(
    {
        "    for n in range(cuda.threadIdx.x, 4096, cuda.blockDim.x):\n        shared": (
            "    for n in range(cuda.threadIdx.x, 4096 if cuda.threadIdx.x < 32 else 0, 32):\n"
            "        shared"
        )
    }
)
wrong("race", "between the copying and the loop")({"cuda.syncthreads()\n    ": ""})
wrong("barrier-divergence", "before")(
    {
        "for n": (
            "lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32\n"
            "    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):\n"
            "        for n"
        )
    },
    {":\n        shared": ":\n            shared", "]\n    cuda": "]\n        cuda"},
)
wrong("limit", "copy the weights to shared memory")(
    {"left += value * shared": "left += value * weight"}
)
wrong("unwritten-output", "every row")(
    {"lane =": "lane, row =", "\n    for row in range(cuda": ", cuda"},
    {", z.shape[0], cuda.gridsize(1) // 32)": "\n    if row < z.shape[0]"},
)
wrong("bank-conflict", "as they come")(
    {
        "// 64, n % 64] =": "% 64, n // 64] =",
        "value = z[row, k]\n            left += value * shared[k, lane": (
            "left += z[row, k] * shared[lane, k"
        ),
        "value * shared[k, lane + 32": "z[row, k] * shared[lane + 32, k",
    }
)


@wrong("wrong-result", "and then gelu")
@cuda.jit
def staged_with_tanh(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in range(lane, 64, 32):
            a = bias[column]
            for k in range(64):
                a += z[row, k] * shared[k, column]
            cubed = a + float32(0.044715) * a * a * a
            t = math.tanh(float32(0.7978845608) * cubed)
            out[row, column] = float32(0.5) * a * (float32(1) + t)


wrong("uninitialised-read", "Each block copies all 4,096")({"threadIdx.x,": "grid(1),"})
wrong("not-parallel", "each thread does the work of many", "has rows of its own")(
    {"gridsize(1)": "blockDim.x"}
)
wrong(
    "same-value-race|limit|not-parallel",
    "by one thread of the block|All threads of the block|All threads of a block",
)(
    {
        "for n in range(cuda.threadIdx.x, 4096, cuda.blockDim.x": (
            "lane, n = cuda.threadIdx.x % 32, cuda.grid(1) // 32\n    for k in range(64"
        ),
        "n // 64, n % 64] = weight[n // 64, n % 64": (
            "k, lane] = weight[k, lane]\n        shared[k, lane + 32] = weight[k, lane + 32"
        ),
    }
)
wrong("limit", "keep the sum in a variable")(
    {
        "left, right = bias[lane], bias[lane + 32]\n": (
            "for right in range(lane, 64, 32):\n            out[row, right] = bias[right]\n    "
        ),
        "value = z[row, k]\n            left += value * shared[k, lane": (
            "    out[row, right] += z[row, k] * shared[k, right"
        ),
        (
            "right += value * shared[k, lane + 32]\n        out[row, lane] = gelu(left)\n"
            "        out[row, lane + 32] = gelu(right"
        ): "out[row, right] = gelu(out[row, right]",
    }
)


wrong("out-of-bounds", "The weights are 64 x 64, in shared memory, too")({", 64)": ", 32)"})
wrong("float64", "let the shared array hold float32")({"float32": "np.float64"})


right(
    {"4096,": "64 * 64,", "lane =": "lane, row ="},
    {
        ("32\n    for row in range(cuda.grid(1) // 32, z.shape[0], cuda.gridsize(1) // 32)"): (
            "64, cuda.grid(1) // 64\n    while row < z.shape[0]"
        ),
        ", right = bias[lane], bias[lane + 32": " = bias[lane",
        "value = z[row, k]\n            left += value": "left += z[row, k]",
        "]\n            right += value * shared[k, lane + 32": "",
        "out[row, lane + 32] = gelu(right)": "row += cuda.gridsize(1) // 64",
    },
)


wrong, right = answers_to("folded-decoder")
wrong("raised", "weight.shape[0] columns for each frame")({" = basis": ", out = basis"})
wrong("wrong-shape", "for each frame")({"reshape(len(basis), -1)": "sum(axis=1)"})
right(
    "frames = basis.shape[1] // weight.shape[1]\n"
    "return basis @ np.kron(np.eye(frames, dtype=np.float32), weight.T)"
)
right(
    "outputs, wide = weight.shape\n"
    "out = np.empty((len(basis), basis.shape[1] // wide * outputs), np.float64)\n"
    "for frame in range(basis.shape[1] // wide):\n"
    "    part = basis[:, frame * wide : (frame + 1) * wide].astype(np.float64)\n"
    "    out[:, frame * outputs : (frame + 1) * outputs] = part @ weight.astype(np.float64).T\n"
    "return out"
)
right({"(frames @ weight.T": 'np.einsum("rfb,ob->rfo", frames, weight', ", -1)": ", -1).tolist()"})


wrong, right = answers_to("one-kernel")
wrong("race", "put cuda.syncthreads() between the two", "Other warps: cuda.syncthreads()")(
    {"= share\n    cuda.syncthreads()": "= share"}
)
wrong("barrier-divergence", "keep it out of `if warp == 0`")(
    {"codes[lane]\n    cuda.syncthreads()": "codes[lane]\n        cuda.syncthreads()"}
)
wrong("limit", "3 are enough", "cuda.syncwarp() is enough there")(
    {"scale, q * scale\n    cuda.syncwarp()": "scale, q * scale\n    cuda.syncthreads()"},
    {"gelu(q)\n    cuda.syncwarp()": "gelu(q)\n    cuda.syncthreads()"},
)
wrong("limit", "What a layer hands to the next stays in the block")(
    {"frames[column], frames[column + 32] = p, q": "y[row, column], y[row, column + 32] = p, q"},
    {"p += frames[first + k] * decode": "p += y[row, first + k] * decode"},
    {"q += frames[first + k] * decode": "q += y[row, first + k] * decode"},
    {"* decode[k, lane + 32]\n": "* decode[k, lane + 32]\n    cuda.syncwarp()\n"},
)
wrong("uninitialised-read", "Each frame writes its 32 shares|a lane writes two")(
    {"frames[column], frames[column + 32] = p * scale, q * scale": "frames[column] = p * scale"}
)
wrong("unwritten-output", "one of `errors`")({"        errors[row]": "        total"})
wrong("float64", "Begin sums with float32(0)")({"share = float32(0)": "share = 0.0"})
wrong("uncoalesced|limit", "weight[k, lane]")(
    {"bias[lane], encode_bias[lane + 32]": "bias[2 * lane], encode_bias[2 * lane + 1]"},
    {
        "encode[k, lane]\n": "encode[k, 2 * lane]\n",
        "encode[k, lane + 32]": "encode[k, 2 * lane + 1]",
    },
    {"frames[column + 32] = gelu": "frames[column + 1] = gelu"},
    {
        "cuda.syncwarp()\n    frames[column], frames[column + 1]": "cuda.syncwarp()\n    "
        "column += lane\n    frames[column], frames[column + 1]"
    },
    {"share = float": "column -= lane\n    share = float"},
)
wrong("out-of-bounds", "which all frames share")({"encode[k, lane]\n": "encode[first + k, lane]\n"})
wrong("wrong-result", "near 60", "LayerNorm with (value - mean)²", "Line 16 decides")(
    {"over_warp(p * p + q * q) / float32(64)": (
        "over_warp(a * a + b * b) / float32(64) - mean * mean"
    )}
)  # fmt: skip


@right
@cuda.jit
def network_of_five_equal_warps(
    x, encode, encode_bias, to_code, middle, middle_bias, from_code, decode, decode_bias,
    code, y, errors,
):  # fmt: skip
    """Numbers go from lane to lane, and every warp makes the whole code."""
    shares = cuda.shared.array((5, 32), float32)
    squares = cuda.shared.array(5, float32)
    row, lane, warp = cuda.blockIdx.x, cuda.laneid, cuda.threadIdx.x // 32
    frame = x[row, 64 * warp : 64 * warp + 64]
    p, q = frame[lane], frame[lane + 32]
    mean = over_the_warp(p + q) / float32(64)
    p -= mean
    q -= mean
    deviation = math.sqrt(over_the_warp(p * p + q * q) / float32(64) + float32(1e-5))
    left, right = encode_bias[lane], encode_bias[lane + 32]
    for k in range(32):
        one, other = cuda.shfl_sync(ALL, p, k) / deviation, cuda.shfl_sync(ALL, q, k) / deviation
        left += one * encode[k, lane] + other * encode[k + 32, lane]
        right += one * encode[k, lane + 32] + other * encode[k + 32, lane + 32]
    left, right = gelu(left), gelu(right)
    share = float32(0)
    for k in range(32):
        share += cuda.shfl_sync(ALL, left, k) * to_code[64 * warp + k, lane]
        share += cuda.shfl_sync(ALL, right, k) * to_code[64 * warp + k + 32, lane]
    shares[warp, lane] = share
    cuda.syncthreads()
    h = shares[0, lane] + shares[1, lane] + shares[2, lane] + shares[3, lane] + shares[4, lane]
    h -= over_the_warp(h) * float32(1 / 32)
    h /= math.sqrt(over_the_warp(h * h) * float32(1 / 32) + float32(1e-5))
    total = middle_bias[lane]
    for k in range(32):
        total += cuda.shfl_sync(ALL, h, k) * middle[k, lane]
    h = gelu(total)
    if warp == 4:
        code[row, lane] = h
    p = q = float32(0)
    for k in range(32):
        number = cuda.shfl_sync(ALL, h, k)
        p += number * from_code[k, 64 * warp + lane]
        q += number * from_code[k, 64 * warp + lane + 32]
    left, right = decode_bias[lane], decode_bias[lane + 32]
    for k in range(32):
        one, other = cuda.shfl_sync(ALL, p, k), cuda.shfl_sync(ALL, q, k)
        left += one * decode[k, lane] + other * decode[k + 32, lane]
        right += one * decode[k, lane + 32] + other * decode[k + 32, lane + 32]
    y[row, 64 * warp + lane], y[row, 64 * warp + lane + 32] = left, right
    left -= frame[lane]
    right -= frame[lane + 32]
    square = over_the_warp(left * left + right * right)
    if lane == 0:
        squares[warp] = square
    cuda.syncthreads()
    if warp == 0:
        square = over_the_warp(squares[lane] if lane < 5 else float32(0))
        if lane == 0:
            errors[row] = square / float32(320)
