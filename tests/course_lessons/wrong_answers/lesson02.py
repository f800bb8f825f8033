"""Wrong answers to the exercises of lesson 02 as students write them, and unusual right ones."""

from numba import float32

from course import cuda
from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("psnr")
wrong("wrong-shape", "one number")({"** 2)": "** 2, axis=0)"})
wrong("wrong-result", "return")("print(-10 * np.log10(np.mean((image - approximation) ** 2)))")
wrong("raised", "Line 2", "a square is x ** 2")({"** 2)": "^ 2)"})
wrong("input-modified", "image")("image -= approximation\nreturn -10 * np.log10(np.mean(image**2))")
wrong("wrong-result", "60")({"return -": "return min(60, -", "error)": "error))"})
right(
    "mean_squared_error = 0.0\n"
    "for a, b in zip(image.ravel(), approximation.ravel(), strict=True):\n"
    "    mean_squared_error += (a - b) ** 2\n"
    "return 10 * math.log10(image.size / mean_squared_error)"
)
right("return -20 * np.log10(np.linalg.norm(image - approximation) / np.sqrt(image.size))")


wrong, right = answers_to("break-even")
wrong("wrong-result")({"+ 1 +": "+ 2 +"})
wrong("wrong-arguments", "rows, columns")({"rows, columns": "shape"})
right("return math.ceil(rows * columns / (rows + columns + 1)) - 1")


wrong, right = answers_to("energy-rank")
wrong("wrong-shape", "one number, k")({"energy =": "return"})
wrong("wrong-result", "`return` in place of `yield`", "energy_rank>")({"return": "yield"})
wrong("wrong-result", "result is 1, right is 2")({"share *": "(share - 1e-6) *"})
right(
    {
        (" = np.cumsum(s**2)\n    return int(np.argmax(energy >= share * energy[-1])) + 1"): (
            ", sofar = share * float(np.sum(s.astype(np.float64) ** 2)), 0.0\n"
            "    for k, value in enumerate(s, start=1):\n"
            "        sofar += float(value) ** 2\n        if sofar >= energy:\n"
            "            return k\n    return len(s)"
        )
    }
)
right(
    "energy = np.cumsum(s.astype(np.float64) ** 2)\n"
    "return np.searchsorted(energy, share * energy[-1]) + 1"
)


wrong, right = answers_to("one-loop")
wrong("wrong-result", "transpose of the right one")({"u[:, i], vt[i]": "vt[i], u[:, i]"})
wrong("wrong-result", "transpose of the right one")({"return out": "return out.T"})
wrong("wrong-dtype", "float64", "dtype=np.float32")({", dtype=np.float32": ""})
wrong("raised", "Line 4", "the i-th row is vt[i]")({"(len(u), vt.shape[1])": "u.shape"})
wrong("input-modified", "u is an input")({"out += s[i] *": "u[:, i] *= s[i]\n        out +="})
wrong("wrong-result", "drawn")({"range(k)": "range(min(k, 128))"})
right("return np.array([(row[:k] * s[:k]) @ vt[:k] for row in u], dtype=np.float32)")
right(
    "out = np.zeros((u.shape[0], vt.shape[1]), dtype=np.float64)\n"
    "for i in reversed(range(k)):\n"
    "    out += np.outer(u[:, i].astype(np.float64) * s[i], vt[i])\n"
    "return out.astype(np.float32)"
)


wrong, right = answers_to("reconstruct")
wrong("out-of-bounds", "Compare row with")({"row < out.shape[0] and col < out.shape[1]": "True"})
wrong("unwritten-output", "the last 24 columns of 37", "col with out.shape[1]")(
    {"shape[1": "shape[0"}
)
wrong("out-of-bounds", "shape")({"shape[1": "shape[0", "0] and": "1] and"})
wrong("out-of-bounds", "out")({"row <": "row <=", "col <": "col <="})
wrong("wrong-result", "transpose of the right one")({"row, col]": "col, row]"})
wrong("wrong-result", "drawn")({"range(k)": "range(min(k, 128))"})
wrong("uninitialised-read", "do not add to it")(
    {"total +=": "out[row, col] +=", "\n        out[row, col] = total": ""}
)
wrong("input-modified", "u is an input")(
    {"= total": "= total\n        if col == 0:\n            u[row, 0] = total"}
)
wrong("not-parallel", "each thread does the work of many", "take both indices")(
    {"col, row =": "row =", "grid(2": "grid(1"},
    {
        " and col < out.shape[1]:\n        total = 0.0\n": (
            ":\n        for col in range(out.shape[1]):\n            total = float32(0)\n    "
        )
    },
    {"total +=": "    total +=", "]\n        out": "]\n            out"},
)
wrong("typing", "Line 7", "A kernel works on single numbers")(
    {"= total": "= (u[row, :k] * s[:k]) @ vt[:k, col]"}
)
wrong("typing", "Line 6")({"row, i": "row"})
wrong("wrong-arguments", "this exercise gives 5 arguments: u, s, vt, k, out")({"vt, k": "vt"})
wrong("not-a-kernel", "@cuda.jit")({"@cuda.jit\n": ""})
wrong("uninitialised-read", "total[0]", "starts at 0")(
    {"= 0.0": "= cuda.local.array(1, float32)", "total +=": "total[0] +=", "= total": "= total[0]"}
)
wrong("typing", "'total' is used before it is set")({"total = 0.0\n        ": ""})
right({"col, row =": "row, col =", "= 0.0": "= np.float32(0)", "total +=": "total = total +"})


wrong, right = answers_to("reconstruct-columns")
wrong("float64", "float32(0)")({"float32(0)": "0.0"})
wrong("limit", "6 sectors per request", "col, row = cuda.grid(2)")({"col, row": "row, col"})
wrong("typing", "cuda.grid(2) gives two numbers, x first")({"grid(2)": "grid(1)"})
wrong("wrong-result", "transpose of the right one")({"row, col": "col, row"})
wrong("out-of-bounds", "Compare row with")({"row <": "col <"})
wrong("limit", "Each pixel is stored once")(
    {"total =": "out[row, col] ="},
    {"total +=": "out[row, col] +=", "\n        out[row, col] = total": ""},
)


wrong, right = answers_to("reconstruct-float32")
wrong("float64", "Line 6: total += ", "float32(0)", "Line 6")({"float32(0)": "0.0"})
wrong("float64", "so is total = 0")({"float32(0)": "0"})
wrong("float64", "Line 6")({"total +=": "total += 1.0 *"})
wrong("typing", "Only the zero is missing: call float32")({"float32(0)": "float32"})
wrong("wrong-result", "fractions are lost")({"= total": "= int32(total)"})


_, right = answers_to("reconstruct", "reconstruct-float32", "reconstruct-columns")


@cuda.jit(device=True)
def pixel(u, s, vt, k, row, col):
    """Sum of the first k layers at one pixel."""
    total = float32(0)
    for i in range(k):
        total += u[row, i] * s[i] * vt[i, col]
    return total


@right
@cuda.jit
def kernel_with_device_function(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = pixel(u, s, vt, k, row, col)


wrong, right = answers_to("needed-factors")
wrong("wrong-result", "u is float64, not float32")(
    "return np.ascontiguousarray(u[:, :k]), s[:k].copy(), vt[:k].copy()"
)
wrong("wrong-result", "u is a view of a larger array")(
    "return u.astype(np.float32)[:, :k], s.astype(np.float32)[:k], vt.astype(np.float32)[:k]"
)
wrong("wrong-result", "vt has the shape (8, 3)")({"parts)": "(u[:, :k], s[:k], vt[:, :k]))"})
wrong("wrong-result", "u has other values", "Line 2 decides")({"k], s": "k] * s[:k], s"})


wrong("wrong-result", "s has the shape (8,); (3,) is needed")({"[:k],": ","})
wrong("wrong-result", "u has the shape (8, 2); (8, 3) is needed")({"k], s": " k - 1], s"})
wrong("wrong-result", "got 2 values")({", s[:": " * s[:"})
wrong("raised", "s has one: s[:k]")({"s[:k]": "s[:, :k]"})
wrong("wrong-result", "got one ndarray")(
    "return np.ascontiguousarray((u[:, :k] * s[:k]) @ vt[:k], dtype=np.float32)"
)
wrong("wrong-result", "u is no NumPy array")(
    {"parts = (u[:, :k]": "return u[:, :k].tolist()", ")\n    return": ".tolist()\n    return"}
)
right(
    "parts = np.empty((len(u), k), np.float32), np.empty(k, np.float32), None\n"
    "parts[0][:], parts[1][:] = u[:, :k], s[:k]\n"
    "return parts[0], parts[1], vt[:k].astype(np.float32)"
)
right("return tuple(part.copy().astype(np.float32) for part in (u[:, :k], s[:k], vt[:k]))")
