"""Wrong answers to the exercises of lesson 00 as students write them, and unusual right ones."""

from tests.course_lessons.wrong_answers import answers_to

# --- fill-index ------------------------------------------------------------------------------

wrong, right = answers_to("fill-index")
wrong("unwritten-output", "out[4]", "all 3 blocks do the same")({"grid(1)": "threadIdx.x"})
wrong("out-of-bounds", "writes out[8]", "size 8", "Thread (7, 0, 0)")(
    {")\n    out": ") + 1\n    out"}
)
wrong("wrong-result", "An index is off by one", "out[0] is 1, right is 0")({"] = i": "] = i + 1"})
wrong("uninitialised-read", "Use `=`, not `+=`")({"] = i": "] += i"})
wrong("wrong-result", "out[4] is 0, right is 4")({"] = i": "] = cuda.threadIdx.x"})
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


# --- fix-the-guard ---------------------------------------------------------------------------

wrong, right = answers_to("fix-the-guard")
wrong("out-of-bounds", "reads x[10]", "10 elements, grid 3, block 4")({"i < out.size": "True"})
wrong("out-of-bounds", "x[10]", "i < out.size")({"< out": "<= out"})
wrong("unwritten-output", "out[9]", "Your guard stops too many threads")({"size:": "size - 1:"})
wrong("out-of-bounds", "reads x[11]", "i < out.size")({"< out": "> out"})
wrong("out-of-bounds", "x[10]", "size 10")({"if i <": "value = x[i] + 1\n    if i <"})
wrong("out-of-bounds", "x[10]")({"if i <": "if cuda.threadIdx.x <"})
wrong("wrong-result|input-modified", "out holds|x is an input|It holds x")({"] + 1": "]"})
wrong("input-modified", "x is an input", "write to out instead")(
    {"out[i": "x[i] += 1\n        out[i"}
)
right({"i < out.size": "not i < x.shape[0]", "out[i] = x[i] + 1": "return\n    out[i] = 1 + x[i]"})
right("for i in range(cuda.grid(1), len(x), cuda.gridsize(1)):\n    out[i] = x[i] + 1")


# --- scale-add -------------------------------------------------------------------------------

wrong, right = answers_to("scale-add")
wrong("out-of-bounds", "3 elements", "x[3]", "more threads than")({"i < out.size": "True"})
wrong("wrong-result", "That is what you get when y is left out")({" + y[i]": ""})
wrong("wrong-result", "when a scales the sum of x and y")({"x[i] + y[i]": "(x[i] + y[i])"})
wrong("wrong-result", "when a scales y instead of x")({"a * x[i] +": "x[i] + a *"})
wrong("typing", "a is one number, not an array")({"a * x": "a[i] * x"})
wrong("typing", "out[i] = a * x + y")({"[i] +": " +"})
wrong("wrong-arguments", "in that order", "out, a, x, y")({"out, a, x, y": "a, x, y, out"})
wrong("unwritten-output", "out[64]")({"grid(1)": "threadIdx.x"})
wrong("input-modified", "y is an input", "write to out instead")({"out[i": "y[i"})
right({"< out": "< x.size and i < y", "] + y": "]\n        out[i] += y"})
right({"a * x[i] + y[i]": "cuda.fma(a, x[i], y[i])"})
