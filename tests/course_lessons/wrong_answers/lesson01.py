"""Wrong answers to the exercises of lesson 01 as students write them, and unusual right ones."""

import numpy as np
from numba import float32

from course import cuda
from tests.course_lessons.wrong_answers import answers_to

THREE = ["float32(float32, float32, float32)"]


wrong, right = answers_to("square-map")
wrong("unwritten-output", "out[128]", "reads cuda.threadIdx.x and not cuda.blockIdx.x")(
    {" cuda.blockIdx.x * cuda.blockDim.x +": ""}
)
wrong("unwritten-output", "is not the thread's number in the grid")({".x * cuda.blockDim": ""})
wrong("unwritten-output", "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x")(
    {"blockDim": "gridDim"}
)
wrong("out-of-bounds", "1,031 elements", "x[1031]")({"i < out.size": "True"})
wrong("typing", "cannot run this, though Numba may", "call of range", "compare: 0 <= i < n")(
    "i = cuda.grid(1)\nif i in range(x.size):\n    out[i] = x[i] * x[i]"
)
wrong("wrong-result", "Line 4 decides")({"x[i] * x[i]": "i * i"})
wrong("typing", "^ is no power")({"x[i] * x[i]": "x[i] ^ 2"})
wrong("wrong-result", "It holds x, unchanged|square roots of the right")({" * x[i]": ""})
wrong("wrong-result", "drawn")({"x[i] *": "x[i % 65536] *"})
right("i = cuda.grid(1)\nif i < x.size:\n    out[i] = x[i] ** 2")
right("i = cuda.grid(1)\nif i < x.size:\n    out[i] = math.pow(float64(x[i]), 2.0)")


wrong, right = answers_to("launch-1d")
wrong("wrong-result", "without a thread", "round up")("return n // 128, 128")
wrong("wrong-result", "whole numbers")("return n / 128, 128")
wrong("wrong-result", "1,024 are allowed")({"(n + threads - 1) // threads, threads": "1, n"})
wrong("wrong-result", "more than needed", "the grid first")("return 128, (n + 127) // 128")
wrong("wrong-result", "Return two things, grid and block")({"threads, threads": "128"})
wrong("wrong-result", "returns None", "return")("print((n + 127) // 128, 128)")
right({"= 128": "= min(n, 1024)", "(n + threads - 1) // threads": "int(np.ceil(n / threads))"})


wrong, right = answers_to("shift-right")
wrong("negative-index|wrong-result", "x[i - 1] is x[-1]|x[-1] would be the last element")(
    {" == 0:\n        out[0] = 0\n    elif i": ""}
)
wrong("unwritten-output", "out[0]", "Each element needs a value")(
    {"i == 0:\n        out[0] = 0\n    elif": "0 <"}
)
wrong("wrong-result", "Line 4 decides")({"0] = 0": "i] = x[0]"})
wrong("out-of-bounds", "writes out[8]", "Every index needs its own guard")({"] = x": " + 1] = x"})
wrong("unwritten-output", "1 element,", "out[0]")(
    "i = cuda.grid(1)\nif i < x.size - 1:\n    out[i + 1] = x[i]\nif i == 1:\n    out[0] = 0"
)
wrong("out-of-bounds", "reads x[8]", "Every index needs its own guard")({"i - 1": "i + 1"})
wrong("wrong-result", "drawn")({"x[i - 1]": "x[(i - 1) % 65536]"})
right({" == 0:\n        out[0] = 0\n    elif i": "", "i - 1]": "i - 1] if i > 0 else float32(0)"})


wrong, right = answers_to("add-images")
wrong("out-of-bounds", "axis 1 of a has size 37")({" and column < out.shape[1]": ""})
wrong("unwritten-output", "cuda.grid(2) gives x first, so `row`", "column, row = cuda.grid(2)")(
    {"column, row": "row, column"}
)
wrong("uncoalesced", "The result is right; the cost is not", "Let it be the column")(
    "first_row, first_column = cuda.grid(2)\n"
    "row_step, column_step = cuda.gridsize(2)\n"
    "for row in range(first_row, out.shape[0], row_step):\n"
    "    for column in range(first_column, out.shape[1], column_step):\n"
    "        out[row, column] = a[row, column] + b[row, column]"
)
wrong("wrong-result", "Line 5 decides")({"] + b": "] - b"})
wrong("typing", "cuda.grid(2) gives two numbers")({"column, row": "row"})
wrong("out-of-bounds", "13 x 37", "Guard each with its own axis")({"] and": "] or"})
right(
    {
        "column, row = cuda.grid(2)": (
            "column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x\n"
            "    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y"
        )
    }
)


wrong, right = answers_to("rotate-image")
wrong("wrong-result", "Line 4 decides")({"image.shape[0] - 1 - column": "column"})
wrong("negative-index", "counts from the end", "Count from the front")({"image.shape[0] - 1": "-1"})
wrong("out-of-bounds", "reads image[3, 0]", "image.shape[0] - 1")({"- 1 -": "-"})
wrong("unwritten-output", "a thread for each pixel of out")(
    {"out[row": "if row < image.shape[0] and column < image.shape[1]:\n            out[row"}
)
right(
    "column, row = cuda.grid(2)\nif column < image.shape[0] and row < image.shape[1]:\n"
    "    out[row, image.shape[0] - 1 - column] = image[column, row]"
)


wrong, right = answers_to("clip")


@wrong("wrong-result", "Only values below low are changed.")
@cuda.vectorize(THREE)
def clip_below(x, low, high):
    return max(x, low)


wrong("wrong-result", "Only values above high are changed.")(
    {" < low:\n        return low\n    if x": ""}
)
wrong("wrong-result", "low and high are mixed up.")(
    {
        "return low\n    if x > high:\n        return high": (
            "return high\n    if x > high:\n        return low"
        )
    }
)
wrong("wrong-result", "you return 0, right is")({"return low": "return float32(0)"})
wrong("raised", "exact types")(
    {'"float32(float32, float32, float32)"': '"float64(float64, float64, float64)"'}
)
wrong("typing", "no index, no x.size")({"return x": "return min(max(x[i], low), high)"})
wrong("not-a-function", "clip runs in Python", "Write @cuda.vectorize([...])")(
    {'@cuda.vectorize(["float32(float32, float32, float32)"])\n': ""}
)
wrong("not-a-function", "is a kernel or device")(
    {'vectorize(["float32(float32, float32, float32)"])': "jit(device=True)"}
)


wrong("not-a-function", "clip runs on the CPU")(
    {"@cuda.vectorize": "from numba import vectorize\n\n\n@vectorize"}
)


@wrong("not-a-function", "clip_on_the_host runs in Python, on the host")
def clip_on_the_host(x, low, high):
    return np.clip(x, low, high)


@right
@cuda.vectorize(THREE)
def clip_by_expression(x, low, high):
    return low if x < low else (high if x > high else x)


wrong, right = answers_to("to-grey")
wrong("limit", "no function of yours is called", "device function")(
    "column, row = cuda.grid(2)\nif row < out.shape[0] and column < out.shape[1]:\n"
    "    pixel = rgb[row, column]\n"
    "    out[row, column] = float32(0.299) * pixel[0] + float32(0.587) * pixel[1] "
    "+ float32(0.114) * pixel[2]"
)


@cuda.jit(device=True)
def grey_in_float64(red, green, blue):
    return 0.299 * red + 0.587 * green + 0.114 * blue


wrong("float64", "The result is right; the cost is not", "float32(0.299)")(
    {"= luminance": "= grey_in_float64"}
)
wrong("wrong-result", "Line 5 decides")(
    {"pixel[0], pixel[1], pixel[2]": "pixel[2], pixel[1], pixel[0]"}
)
wrong("out-of-bounds", "axis 2 of rgb has size 3")({"pixel[2": "rgb[row, column, 3"})


@cuda.jit(device=True)
def grey_of(red, green, blue):
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


@wrong("out-of-bounds", "13 x 37 x 3")
@cuda.jit
def to_grey_without_guard(out, rgb):
    column, row = cuda.grid(2)
    out[row, column] = grey_of(rgb[row, column, 0], rgb[row, column, 1], rgb[row, column, 2])


def plain_grey(red, green, blue):
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


wrong("typing", "@cuda.jit(device=True)")({"= luminance": "= plain_grey"})


@cuda.jit(device=True)
def grey_without_return(red, green, blue):
    float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


wrong("typing", "and a return")({"= luminance": "= grey_without_return"})


@cuda.jit(device=True)
def grey_of_a_row(out, row, pixels, first, step):
    for column in range(first, out.shape[1], step):
        pixel = pixels[column]
        out[row, column] = grey_of(pixel[0], pixel[1], pixel[2])


right(
    "column, row = cuda.grid(2)\nwide, high = cuda.gridsize(2)\n"
    "for i in range(row, out.shape[0], high):\n"
    "    grey_of_a_row(out, i, rgb[i], column, wide)"
)


wrong, right = answers_to("histogram")
wrong("wrong-result", "drawn")({"values[i]": "values[i] % 1024"})
wrong("wrong-result", "drawn")({"values.size": "min(values.size, 65536)"})
wrong("typing", "the index is one number, values[i]")({"values[i]": "values"})
wrong("out-of-bounds", "values[40]", "guard i with values.size")({"i < values.size": "True"})
wrong("wrong-result", "Line 4 decides")({"], 1)": "], values[i])"})
wrong("out-of-bounds", "counts[4]", "The index into counts is values[i], not i")({"values[i]": "i"})
wrong("wrong-result|race", "`counts[i] = 1` in line 4 throws away what counts holds")(
    {"values.": "counts.size:\n        counts[i] = 1\n    if i < values."}
)
right(
    "for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):\n"
    "    cuda.atomic.add(counts, values[i], 1)"
)
wrong("not-parallel", "one warp does the work")(
    "for bin_number in range(cuda.grid(1), counts.size, cuda.gridsize(1)):\n"
    "    for i in range(values.size):\n        if values[i] == bin_number:\n"
    "            counts[bin_number] += 1"
)
RETRY = (
    "while True:\n{0}    old = counts[values[i]]\n"
    "{0}    if cuda.atomic.cas(counts, values[i], old, old + 1) == old:\n{0}        break"
)
ADD = "cuda.atomic.add(counts, values[i], 1)"
right({ADD: RETRY.format(" " * 8)})
wrong("not-parallel", "one of 64 threads does the work")(
    "for i in range(values.size if cuda.grid(1) == 0 else 0):\n    " + RETRY.format(" " * 4)
)

wrong("race|wrong-result", "returns what was there before", "Call it without the assignment")(
    {"cuda.atomic": "counts[values[i]] = cuda.atomic"}
)
wrong("typing", "write cuda.atomic.add(counts, values[i], 1)")(
    {"counts, values[i], 1": "counts[values[i]], 0, 1"}
)


wrong, right = answers_to("keep-it-there")
FIRST = "cuda.to_device(photo), cuda.device_array_like(photo)"
wrong("wrong-result", "12 copies: 12 by launches that were given NumPy arrays", "2 are enough")(
    {FIRST: "photo.copy(), np.zeros_like(photo)", "b.copy_to_host()": "b"}
)
wrong("wrong-result", "3 copies: 2 by to_device, 1 by copy_to_host")(
    {"cuda.device_array_like(photo)": "cuda.to_device(np.zeros_like(photo))"}
)
wrong("wrong-result", "9 copies: 2 by to_device, 6 by launches that were given NumPy arrays")(
    {
        "cuda.device_array_like(photo)": "np.zeros_like(photo)",
        "return b.copy_to_host()": "return cuda.to_device(b).copy_to_host()",
    }
)
wrong("wrong-result", "4 copies: 1 by to_device, 3 by copy_to_host")(
    {
        "contrast(a, b)\n    contrast(b, a)": "contrast(a, b)\n    a.copy_to_host()\n"
        "    contrast(b, a)\n    b.copy_to_host()"
    }
)
wrong("wrong-result", "You return an array on the device", "copy_to_host")({".copy_to_host()": ""})
wrong("wrong-result", "2 of the 3 launches", "what the last one wrote")({"return b": "return a"})
wrong("wrong-result", "nobody stored")(
    {FIRST: "cuda.device_array_like(photo), cuda.to_device(photo)"}
)
wrong("wrong-result", "launches 2 times; 3")(
    {"    contrast(a, b)\n    contrast(b, a)": "    contrast(b, a)"}
)
wrong("input-modified", "photo")({"cuda.to_device(photo), cuda": "photo, cuda"})
wrong("raised", "copy_to_device|to_host")(
    {"cuda.to_device(photo), cuda": "photo.to_device(), cuda"}
)
wrong("wrong-result", "dtype float64")({"device_array_like(photo)": "device_array(photo.shape)"})
right({"b.copy_to_host()": "np.array(b)"})
right({"device_array_like(photo)": "device_array(photo.shape, photo.dtype)"})
right(
    "a, b = cuda.to_device(photo), cuda.device_array_like(photo)\n"
    "for _ in range(3):\n    contrast(b, a)\n    a, b = b, a\n"
    "result = np.empty_like(photo)\na.copy_to_host(result)\nreturn result"
)
