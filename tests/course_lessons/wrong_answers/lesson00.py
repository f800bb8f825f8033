"""Wrong answers to the exercises of lesson 00 as students write them, and unusual right ones."""

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("spotlight")
GUARD = {"if row < out.shape[0] and column < out.shape[1]": "if True"}
wrong("out-of-bounds", "photo[13, 0]", "13 x 37", "if row < photo.shape[0]")(GUARD)
wrong("wrong-result", "Line 5 decides")({"* light": "+ light"})
wrong("out-of-bounds", "photo[13, 0]|reads photo")({"photo[row, column]": "photo[column, row]"})
wrong("out-of-bounds", "out[", "the row first: [row, column]")(
    {"out[row, column] = photo": "out[column, row] = photo"}
)
wrong("input-modified", "photo is an input")(
    {"out[row, column] = photo": "photo[row, column] = photo"}
)
wrong("uninitialised-read", "Store the result with `=`")(
    {"= photo[row, column] * light": "*= light"}
)
wrong("typing", "`photo` stands for a whole array")({"photo[row, column] *": "photo *"})
wrong("typing", "lite")({"* light(": "* lite("})
wrong("unwritten-output", "Each thread stores its own pixel")(
    {"out[row, column] = photo": "pixel = photo"}
)
wrong("not-parallel|unwritten-output|wrong-result")(
    "if cuda.grid(1) == 0:\n    for row in range(out.shape[0]):\n"
    "        for column in range(out.shape[1]):\n"
    "            out[row, column] = photo[row, column] * light(row, column, out)"
)
right({"photo[row, column] * light": "photo[row, column]\n        out[row, column] *= light"})

wrong, right = answers_to("mirror")
wrong("out-of-bounds", "photo[37, 4]", "Line 5 decides", "37 x 5")(
    {"inside and row < out.shape[0]": "inside"}
)
wrong("out-of-bounds", "photo[37, 4]")({"row < out": "row <= out"})
wrong("unwritten-output", "Each pixel of out needs its thread")({"row < out": "row + 1 < out"})
right({"inside and row < out.shape[0]": "inside & (row < photo.shape[0])"})

wrong, right = answers_to("rebuild")
wrong("out-of-bounds", "u[13, 0]", "Line 5 decides")({"1] and row < out.shape[0]": "1]"})
wrong("out-of-bounds", "u[13, 0]")({"row < out.shape[0]": "row <= out.shape[0]"})
wrong("unwritten-output", "stores its pixel where inside is true")(
    {"inside = column < out.shape[1] and row < out.shape[0]": "pass"}
)
wrong("wrong-result", "Line 10 decides")({"+= u": "= u"})
wrong("wrong-result", "line 10 stores over what line 9 has added to out[row, column]")(
    {"total += u": "out[row, column] += u", "            # total += ...\n": ""}
)
wrong("wrong-result", "drawn")({"range(k)": "range(k if s[0] > float32(1e-3) else 0)"})
wrong("wrong-result", "drawn")({"range(k)": "range(min(k, 128))"})
wrong("typing", "take one element of")({"u[row, i] * s[i] * vt[i, column]": "u * s * vt"})
wrong("uninitialised-read")({"u[row, i] * s[i] * vt[i, column]": "out[row, column]"})
right({"and row < out.shape[0]": "and row < u.shape[0]"})


wrong, right = answers_to("fill-index")
wrong("unwritten-output", "out[4]", "all 3 blocks do the same")({"grid(1)": "threadIdx.x"})
wrong("out-of-bounds", "writes out[8]", "size 8", "Thread (7, 0, 0)")(
    {")\n    out": ") + 1\n    out"}
)
wrong("wrong-result", "An index is off by one", "out[0] is 1, right is 0")({"] = i": "] = i + 1"})
wrong("uninitialised-read", "Store the result with `=`")({"] = i": "] += i"})
wrong("wrong-result", "out[4] is 0, right is 4")({"] = i": "] = cuda.threadIdx.x"})
wrong("wrong-result", "drawn")({"] = i": "] = i % 65536"})
wrong("not-a-kernel", "plain Python function", "@cuda.jit")({"@cuda.jit\n": ""})
wrong("not-a-kernel", "compiled for the CPU")({"cuda.jit": "njit"})
wrong("typing", "a kernel returns nothing", "Store the value")({"i = cuda": "return cuda"})
wrong("typing", "did you mean cuda.grid?", "Line 2: i = cuda.gird(1)")({"grid(": "gird("})
wrong("wrong-arguments", "takes no argument|takes 0 arguments", "1 argument: out")({"out):": "):"})
wrong("unwritten-output", "Nothing was written to out")({"\n    out[i] = i": ""})
right(
    "i = cuda.threadIdx.x + cuda.blockDim.x * cuda.blockIdx.x\nif i >= out.shape[0]:\n"
    "    return\nout[i] = i"
)
wrong("not-parallel", "one of 8 threads does the work")(
    "if cuda.grid(1) == 0:\n    for i in range(len(out)):\n        out[i] = i"
)


wrong, right = answers_to("scale-add")
wrong("out-of-bounds", "3 elements", "x[3]", "more threads than")({"i < out.size": "True"})
wrong("wrong-result", "Line 4 decides")({" + y[i]": ""})
wrong("typing", "a is float32, not an array")({"a * x": "a[i] * x"})
wrong("typing", "out[i] = a * x + y")({"[i] +": " +"})
wrong("wrong-arguments", "in that order", "out, a, x, y")({"out, a, x, y": "a, x, y, out"})
wrong("unwritten-output", "out[64]")({"grid(1)": "threadIdx.x"})
wrong("input-modified", "y is an input", "write to out instead")({"out[i": "y[i"})
wrong("wrong-result", "drawn")({"x[i]": "x[i % 65536]"})
right({"< out": "< x.size and i < y", "] + y": "]\n        out[i] += y"})
right({"a * x[i] + y[i]": "cuda.fma(a, x[i], y[i])"})
