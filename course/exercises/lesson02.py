"""Exercises of lesson 02: quality of an image, and programs that rebuild it from its SVD."""

import numpy as np

from course.checks import Case, FunctionExercise, KernelExercise, Limit, Tolerance, register

# --- how good is an image? ----------------------------------------------------------------------


def _two_images(rows, columns, error):
    """A case: a random image, and a copy with an error of about that size."""

    def arguments(rng):
        image = rng.random((rows, columns))
        return {"image": image, "approximation": image + error * rng.standard_normal(image.shape)}

    return Case(f"{rows} x {columns}, error about {error:g}", arguments)


def _bytes(image):
    """An image as bytes, 0 to 255, as students convert it."""
    return (image * 255).astype(np.uint8)


def _decibel(error):
    return -10 * np.log10(error)


register(
    FunctionExercise(
        name="psnr",
        lesson=2,
        title="Peak signal-to-noise ratio",
        reference=lambda image, approximation: _decibel(np.mean((image - approximation) ** 2)),
        cases=[
            _two_images(8, 8, 0.1),
            _two_images(13, 37, 0.01),
            _two_images(1, 1, 0.3),
            _two_images(5, 3, 2),
        ],
        tolerance=Tolerance(1000, "a mean of 481 squares and a logarithm"),
        hints={
            "wrong-result": "First the error of each pixel, then its square, then the mean over "
            "all pixels. That is the MSE; the PSNR is -10 times its log10.",
            "wrong-shape": "The mean over all pixels is one number: np.mean without an axis.",
            "raised": "In Python a square is x ** 2 (^ is something else), the mean is np.mean(x), "
            "the logarithm np.log10(x).",
        },
        mistakes={
            "you return the MSE itself, without the logarithm": lambda image, approximation: (
                np.mean((image - approximation) ** 2)
            ),
            "the sign is lost: a small error must give a large PSNR": lambda image, approximation: (
                -_decibel(np.mean((image - approximation) ** 2))
            ),
            "the logarithm is the natural one, not log10": lambda image, approximation: (
                -10 * np.log(np.mean((image - approximation) ** 2))
            ),
            "you take the sum of the squares instead of their mean": lambda image, approximation: (
                _decibel(np.sum((image - approximation) ** 2))
            ),
            "you take the absolute error instead of its square": lambda image, approximation: (
                _decibel(np.mean(np.abs(image - approximation)))
            ),
            "you square the mean of the errors: errors of opposite sign cancel": (
                lambda image, approximation: _decibel(np.mean(image - approximation) ** 2)
            ),
            "the pixels are bytes (uint8): their differences and squares wrap around at 256": (
                lambda image, approximation: (
                    -10 * np.log10(np.mean((_bytes(image) - _bytes(approximation)) ** 2) / 255**2)
                )
            ),
            "the factor is 20 instead of 10 (20 belongs to the root of the MSE)": (
                lambda image, approximation: 2 * _decibel(np.mean((image - approximation) ** 2))
            ),
        },
    )
)

register(
    FunctionExercise(
        name="break-even",
        lesson=2,
        title="Where compression ends",
        reference=lambda rows, columns: (rows * columns - 1) // (rows + columns + 1),
        cases=[
            Case(f"{rows} x {columns}", lambda rng, r=rows, c=columns: {"rows": r, "columns": c})
            for rows, columns in ((256, 256), (7, 10), (1, 1), (2, 3), (37, 1000))
        ],
        hints={
            "wrong-result": "k columns of u, k numbers of s, k rows of vt: how many numbers is "
            "that? It must be less than rows * columns, not equal."
        },
        mistakes={
            "you allow equally many numbers; the factors must hold fewer": lambda rows, columns: (
                rows * columns // (rows + columns + 1)
            ),
            "you forget the k numbers of s": lambda rows, columns: (
                (rows * columns - 1) // (rows + columns)
            ),
            "you return at least 1, where not even one layer is smaller": lambda rows, columns: max(
                1, (rows * columns - 1) // (rows + columns + 1)
            ),
            "you round up: with that many, the factors are the larger": lambda rows, columns: (
                (rows * columns - 1) // (rows + columns + 1) + 1
            ),
            "you leave the division as a fraction; k is a whole number": lambda rows, columns: (
                rows * columns / (rows + columns + 1)
            ),
            "you count the whole of u and vt, not k columns and k rows": lambda rows, columns: (
                rows * columns - rows * rows - columns * columns
            ),
        },
    )
)


def _rank(values, share):
    energy = np.cumsum(np.asarray(values) ** 2)
    return int(np.argmax(energy >= share * energy[-1])) + 1


def _spectrum(values, share):
    text = ", ".join(f"{value:g}" for value in values[:4]) + (", …" if len(values) > 4 else "")
    return Case(
        f"s = [{text}], share {share:g}",
        lambda rng: {"s": np.asarray(values, dtype=np.float32), "share": share},
    )


register(
    FunctionExercise(
        name="energy-rank",
        lesson=2,
        title="Choose k by energy",
        reference=lambda s, share: _rank(s, share),
        cases=[
            _spectrum([8, 6, 4, 2, 1, 1], 0.9),
            _spectrum([1, 1, 1, 1], 0.5),
            _spectrum([4, 3, 0, 0], 1.0),
            _spectrum([7], 0.25),
            _spectrum(list(range(97, 0, -1)), 0.99),
        ],
        hints={
            "wrong-result": "np.cumsum(s ** 2) is the energy of the first 1, 2, 3, … values. "
            "How many values are needed until it reaches share times its last element?",
            "wrong-shape": "Return one number, k.",
        },
        mistakes={
            "you return an index, which counts from 0, instead of how many": lambda s, share: (
                _rank(s, share) - 1
            ),
            "you add up s instead of its squares": lambda s, share: _rank(np.sqrt(s), share),
            "you ask for more than the share, where exactly the share is enough": (
                lambda s, share: min(
                    int(np.sum(np.cumsum(s**2) <= share * np.sum(s**2))) + 1, len(s)
                )
            ),
            "you compare with share itself, not with share times the whole energy": (
                lambda s, share: int(np.argmax(np.cumsum(s**2) >= share)) + 1
            ),
            "you take the share of how many values there are, not of their energy": (
                lambda s, share: int(np.ceil(share * len(s)))
            ),
        },
    )
)

# --- rebuild it ---------------------------------------------------------------------------------


def _factors(rng, rows, columns, values, k):
    """Random factors of a rows x columns image with `values` singular values, largest first."""
    return {
        "u": rng.standard_normal((rows, values), dtype=np.float32),
        "s": np.sort(rng.random(values, dtype=np.float32) + np.float32(0.5))[::-1].copy(),
        "vt": rng.standard_normal((values, columns), dtype=np.float32),
        "k": k,
    }


def _reconstruction(u, s, vt, k):
    return (u[:, :k] * s[:k]) @ vt[:k]


def _square_only(wrong):
    """A mistake that only square factors allow; elsewhere it matches nothing."""

    def mistaken(u, s, vt, k):
        if u.shape == vt.shape == (len(s), len(s)):
            return wrong(u, s, vt, k)
        return np.full((len(u), vt.shape[1]), np.nan)

    return mistaken


_ROUNDING = Tolerance(
    24,
    "two products and a sum for each of up to 16 singular values",
    magnitude=lambda u, s, vt, k: (np.abs(u[:, :k]) * s[:k]) @ np.abs(vt[:k]),
)

_MISTAKES = {
    "k is ignored: all singular values are used": lambda u, s, vt, k: (u * s) @ vt,
    "s is left out": lambda u, s, vt, k: u[:, :k] @ vt[:k],
    "s is multiplied in twice": lambda u, s, vt, k: (u[:, :k] * s[:k] ** 2) @ vt[:k],
    "the last of the k singular values is left out": lambda u, s, vt, k: _reconstruction(
        u, s, vt, k - 1
    ),
    "one singular value too many is used": lambda u, s, vt, k: _reconstruction(
        u, s, vt, min(k + 1, len(s))
    ),
    "the first singular value is left out: the count starts at 0": lambda u, s, vt, k: (
        (u[:, 1:k] * s[1:k]) @ vt[1:k]
    ),
    "each singular value replaces the sum (=) instead of adding to it (+=)": (
        lambda u, s, vt, k: np.outer(u[:, k - 1] * s[k - 1], vt[k - 1])
    ),
    "vt is read as if it were V, vt[col, i] instead of vt[i, col]": _square_only(
        lambda u, s, vt, k: (u[:, :k] * s[:k]) @ vt[:, :k].T
    ),
    "u is read as if it were transposed, u[i, row] instead of u[row, i]": _square_only(
        lambda u, s, vt, k: (u[:k].T * s[:k]) @ vt[:k]
    ),
    "u and vt have changed places": _square_only(lambda u, s, vt, k: (vt[:, :k] * s[:k]) @ u[:k]),
}

register(
    FunctionExercise(
        name="one-loop",
        lesson=2,
        title="Rebuild an image layer by layer",
        reference=_reconstruction,
        cases=[
            Case(f"{m} x {n}, k = {k}", lambda rng, a=(m, n, r, k): _factors(rng, *a))
            for m, n, r, k in (
                (8, 8, 8, 3),
                (13, 37, 13, 5),
                (29, 11, 11, 11),
                (7, 5, 5, 1),
                (1, 1, 1, 1),
            )
        ],
        tolerance=_ROUNDING,
        dtype=np.float32,
        hints={
            "wrong-result": "Layer i is the column u[:, i] times the row vt[i], times the number "
            "s[i]. Add the layers 0 to k - 1.",
            "wrong-dtype": "np.zeros makes float64 unless you name the type: "
            "np.zeros((rows, columns), dtype=np.float32).",
            "wrong-shape": "The image has as many rows as u and as many columns as vt: "
            "np.outer(column, row), in that order.",
            "raised": "u is (rows, r), vt is (r, columns): the i-th column is u[:, i], the i-th "
            "row is vt[i].",
        },
        mistakes={
            **_MISTAKES,
            "column and row are multiplied element by element: a layer needs np.outer": (
                _square_only(
                    lambda u, s, vt, k: (
                        np.ones((len(u), 1)) * np.sum(u[:, :k].T * s[:k, None] * vt[:k], axis=0)
                    )
                )
            ),
        },
    )
)


def _kernel_case(rows, columns, values, k, block=(16, 16), measured=False):
    """Factors, and a grid that covers the image whichever way x walks."""
    longest = max(rows, columns)

    def arguments(rng):
        factors = _factors(rng, rows, columns, values, k)
        return {**factors, "out": np.empty((rows, columns), np.float32)}

    return Case(
        f"{rows} x {columns}, k = {k}",
        arguments,
        block=block,
        grid=tuple(-(-longest // threads) for threads in block),
        measured=measured,
    )


_KERNEL_CASES = [
    _kernel_case(16, 16, 16, 5),
    _kernel_case(13, 37, 13, 7),
    _kernel_case(41, 17, 17, 16, block=(8, 4)),
    _kernel_case(5, 3, 3, 1, block=(32, 2)),
    _kernel_case(1, 1, 1, 1),
    _kernel_case(64, 96, 16, 8, measured=True),
]

_KERNEL_HINTS = {
    "out-of-bounds": "The grid has more threads than the image has pixels. Compare row with "
    "out.shape[0] and col with out.shape[1] before you touch memory, and read u[row, i], "
    "s[i], vt[i, col].",
    "unwritten-output": "Every pixel needs its thread: row and col come from cuda.grid(2), and the "
    "guard compares row with out.shape[0], col with out.shape[1].",
    "uninitialised-read": "out holds nothing yet, so do not add to it. Add up in a variable of "
    "your own that starts at 0, and store it once, after the loop.",
    "race": "Each pixel belongs to one thread: take both indices from cuda.grid(2).",
    "typing": "A kernel works on single numbers: u[row, i] * s[i] * vt[i, col], each with all its "
    "indices, added up in a loop over i.",
    "wrong-result": "For each pixel: the sum over i from 0 to k - 1 of u[row, i] * s[i] * "
    "vt[i, col].",
    "float64": "Start the sum with float32(0): total = 0.0 is float64, and so is total = 0, "
    "because an integer and a float32 meet in float64.",
}

_ONE_THREAD_A_PIXEL = Limit(
    "global",
    "store",
    "lanes",
    per="element",
    at_most=9,
    why="Many threads compute the same pixel: take both indices, row and col, from cuda.grid(2).",
)

for _name, _title, _forbidden, _limits in (
    ("reconstruct", "Your first image from a kernel", set(), [_ONE_THREAD_A_PIXEL]),
    ("reconstruct-float32", "The sum in float32", {"float64"}, [_ONE_THREAD_A_PIXEL]),
    (
        "reconstruct-columns",
        "x walks along the columns",
        {"float64"},
        [
            Limit(
                "global",
                "store",
                "lanes",
                per="element",
                at_most=1,
                why="Each pixel is stored once: add up in a variable, and store it after the loop.",
            ),
            Limit(
                "global",
                "load",
                "sectors",
                per="request",
                at_most=2,
                why="Threads that are neighbours in x should read neighbours in memory: let x "
                "be the column, col, row = cuda.grid(2).",
            ),
            Limit(
                "global",
                "store",
                "sectors",
                per="request",
                at_most=4,
                why="Threads that are neighbours in x should write neighbours in memory: let x "
                "be the column, col, row = cuda.grid(2).",
            ),
        ],
    ),
):
    register(
        KernelExercise(
            name=_name,
            lesson=2,
            title=_title,
            outputs=("out",),
            reference=_reconstruction,
            cases=_KERNEL_CASES,
            tolerance=_ROUNDING,
            forbidden=_forbidden,
            limits=_limits,
            hints=_KERNEL_HINTS,
            mistakes=_MISTAKES,
        )
    )
