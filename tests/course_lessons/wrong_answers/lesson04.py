"""Wrong answers to the exercises of lesson 04 as students write them, and unusual right ones."""

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("count-sectors")
wrong("wrong-shape", "Return one number")("return np.unique(indices * itemsize // 32)")
right("return len({int(sectors) * itemsize // 32 for sectors in indices})")
right(
    "sectors = np.zeros(100_000, dtype=bool)\nsectors[(indices * itemsize) >> 5] = True\n"
    "return sectors.sum()"
)


wrong, right = answers_to("total-by-strides")
wrong("wrong-result", "drawn")({"x.size": "min(x.size, 65536)"})
wrong("wrong-result", "drawn")({", part)": ", part % float32(65536))"})
wrong("limit", "32 sectors per request", "32 neighbours")(
    {"first, step = cuda.grid(1),": "chunk = (x.size + cuda.gridsize(1) - 1) //"},
    {"cuda.gridsize(1)\n    for": "cuda.gridsize(1)\n    first = cuda.grid(1) * chunk\n    for"},
    {"x.size, step": "min(first + chunk, x.size)"},
)
wrong("wrong-result", "Line 3 decides")({"cuda.grid(1)": "cuda.threadIdx.x"})
wrong("wrong-result", "Each element is added exactly once")(
    "i = cuda.grid(1)\nif i < x.size:\n    cuda.atomic.add(total, 0, x[i])"
)
wrong("limit", "add to total once", "128 are enough")({"part += x[i]\n    ": "", "part)": "x[i])"})
wrong("race", "cuda.atomic.add(total, 0, part)")(
    {"cuda.atomic.add(total, 0, part)": "total[0] += part"}
)
wrong("uninitialised-read", "part[0]", "set it first")(
    {"float32(0": "cuda.local.array(1, float32", "part +=": "part[0] +=", "part)": "part[0])"}
)
right({"+= x[i": "+= x[x.size - 1 - i"})


wrong, right = answers_to("strided-scale-add")
wrong("unwritten-output", "Each thread must go on")(
    {"out.size, ": "min(out.size, 6 * cuda.gridsize(1)), "}
)
wrong("not-parallel", "each thread does the work of many", "cuda.gridsize(1)")(
    {"cuda.gridsize(1)": "1"}
)
wrong("unwritten-output", "reads cuda.threadIdx.x and not cuda.blockIdx.x")(
    {"cuda.grid(1)": "cuda.threadIdx.x"}
)
wrong("unwritten-output", "out[8]", "cuda.gridsize(1)")(
    "i = cuda.grid(1)\nif i < out.size:\n    out[i] = a * x[i] + y[i]"
)
wrong("out-of-bounds|unwritten-output", "reads cuda.threadIdx.x and not cuda.blockIdx.x")(
    {"grid(1)": "threadIdx.x"}
)
wrong("out-of-bounds", "Let range stop at out.size")({"size,": "size + 1,"})
wrong("uncoalesced", "stride by the whole grid")(
    "length = (out.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)\n"
    "first = cuda.grid(1) * length\n"
    "for i in range(first, min(first + length, out.size)):\n    out[i] = a * x[i] + y[i]"
)
wrong("wrong-result", "a * x[i] + y[i]")({" + y[i]": ""})
right(
    "i = cuda.grid(1)\nwhile i < out.size:\n    out[i] = a * x[i] + y[i]\n    i += cuda.gridsize(1)"
)


wrong, right = answers_to("one-layer")
wrong(
    "limit",
    "global stores need 32 sectors per request",
    "its last index",
    "Neighbours in x should store neighbours",
)({"j, i =": "i, j ="})
wrong("typing", "it has no index")({" * row": "[i] * row"})
wrong("not-parallel", "each thread does the work of", "both indices from cuda.grid(2)")(
    "j, i = cuda.grid(2)\nif i < out.shape[0]:\n    for other in range(out.shape[1]):\n"
    "        out[i, other] = column[i] * weight * row[other]"
)
wrong("unwritten-output", "cuda.grid(2) gives both indices")(
    "n = cuda.grid(1)\nif n < out.size:\n    i, j = n // out.shape[1], n % out.shape[1]\n"
    "    out[i, j] = column[i] * weight * row[j]"
)
wrong("out-of-bounds", "13 x 37", "the column with out.shape[1]")(
    {"if i <": "if i >=", "j < out": "j >= out", "out[i": "return\n    out[i"}
)
wrong("uninitialised-read", "Store the result with `=`")({"= column": "+= column"})
right(
    {"j, i =": "first_column, first_row ="},
    {"if i <": "columns, rows = cuda.gridsize(2)\n    for i in range(first_row,"},
    {" and j <": ", rows):\n        for j in range(first_column,"},
    {":\n        out": ", columns):\n            out"},
)


wrong, right = answers_to("fix-the-access")
wrong("wrong-result")({"lengths[row]": "dots[row, row]"})
guilty = wrong("limit", "16.5 sectors per request", "may be swapped")(
    {"dots[row, col]": "dots[col, row]"}
)
wrong("limit", "stores need 32 sectors", "Keep x on the columns", base=guilty)(
    {"col, row = cuda": "row, col = cuda"}
)
wrong("wrong-result", "Line 5 decides")({"lengths[row]": "lengths[col]"})
wrong("out-of-bounds", "37 x 37", "Guard the row")({"col < out.shape[1]": "col <= out.shape[1]"})
right({"product / length": "dots[row, col] / lengths[row]"})
right({"out.shape[0]": "lengths.size", "out.shape[1]": "lengths.size"})


wrong, right = answers_to("two-jobs")
jobs_by_lane = wrong("limit", "128 requests per launch", "Give whole warps one job")(
    {"i = cuda": "thread = cuda", ")\n    if": ")\n    i = thread // 2\n    if"},
    {"squares[": "if thread % 2 == 0:\n            squares["},
    {
        "elif i < 2 * x.size:\n": "    else:\n    ",
        "roots[i - x.size": "roots[i",
        "y[i - x.size": "y[i",
    },
)
wrong("out-of-bounds", "y[", "i - x.size")({"elif i < 2 * x.size": "else", " - x.size])": "])"})
wrong("out-of-bounds", "Threads from 2 * x.size on have no job")({"elif i < 2 * x.size": "else"})
wrong("unwritten-output", "roots", "which the roots?")(
    {"\n    elif i < 2 * x.size:\n        roots[i - x.size] = math.sqrt(y[i - x.size])": ""}
)
wrong("wrong-result", "Line 6 decides")({"sqrt(y": "sqrt(x"})
wrong("typing", "math.sqrt(number)")({"[i - x.size])": ")"})
wrong("unwritten-output", "roots[0]")({"elif i": "if i > x.size and i"})
wrong("limit", "Give whole warps one job", base=jobs_by_lane)(
    {"thread // 2": "thread // 32 * 16 + thread % 16", "2 == 0": "32 < 16"}
)
right(
    {
        "i = cuda": "warp, lane = cuda",
        ")\n    if": ") // 32, cuda.laneid\n    i = warp // 2 * 32 + lane\n    if",
        "squares[": "if warp % 2 == 0:\n            squares[",
        "elif i < 2 * x.size:\n        roots[i - x.size": "    else:\n            roots[i",
        " - x.size])": (
            "])\n"
            "    if i < x.size and warp % 2 == 0 and (warp + 1) * 32 >= "
            "cuda.gridsize(1):\n        roots[i] = math.sqrt(y[i])"
        ),
    }
)


wrong, right = answers_to("block-shape")
right({"return grid, block": "return (*grid, 1), block"})


def ceiling(a, b):
    return (a + b - 1) // b


wrong("wrong-result", "has 32 threads", "is never full")(
    "return (ceiling(columns, 32), rows), (32, 1)"
)
wrong("wrong-result", "without a thread|more than needed")(
    {"block =": "return (ceiling(rows, 32), ceiling(columns, 8)),"}
)
wrong("wrong-result", "at most 1,024 are allowed")(
    "return (ceiling(columns, 64), ceiling(rows, 32)), (64, 32)"
)
wrong("wrong-result", "give 2 numbers")("return ceiling(columns * rows, 256), 256")
wrong("wrong-result", "the last block has nothing to do")(
    {"block =": "return (columns // 32 + 1, rows // 8 + 1),"}
)
wrong("wrong-result", "24 active lanes", "lies over several rows")(
    "return ((columns + 47) // 48, (rows + 1) // 2), (48, 2)"
)
wrong("wrong-result", "Grid and block are exchanged")(
    "return (32, 8), ((columns + 31) // 32, (rows + 7) // 8)"
)
right("return (ceiling(columns, 256), rows), (256, 1)")
right("return [-(-columns // 64), -(-rows // 16)], [64, 16]")


wrong, right = answers_to("split-records")
wrong("wrong-result", "still 12 bytes", "a view into the records")(
    'return points["x"], points["y"], points["z"]'
)
wrong("wrong-result", "Return three arrays")('return np.ascontiguousarray(points["x"])')
wrong("wrong-dtype", "float64")(
    {"points[name]) for": "[float(point[name]) for point in points]) for"}
)
wrong("wrong-result", "must be an array")(
    {"np.ascontiguousarray(points[name])": "[point[name] for point in points]"}
)
wrong("raised", "points['x']")({"tuple": "points.x.copy"})
wrong("wrong-result", "x[1] is", "points[1].x")(
    "return tuple(points.view(np.float32).reshape(3, -1))"
)
right('return points["x"].copy(), points["y"].copy(), points["z"].copy()')
right("return np.ascontiguousarray(points.view(np.float32).reshape(-1, 3).T)")
