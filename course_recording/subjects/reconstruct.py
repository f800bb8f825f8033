"""Rebuilding images from their SVD: every step of the ladder beside CuPy and PyTorch.

The peers compute the whole expression ``(u[:, :k] * s[:k]) @ vt[:k]`` on the device, the product
in float32 without TF32. "cuBLAS alone" is the product of factors that were scaled by s before.
"yours" is lesson 06's last rung, as in its solution. "as called" is the public function with
arrays of CuPy, which chooses the step ("auto").
"""

import numpy as np

from course.kernels.reconstruct.ladder import LADDER, ImageProblem, reconstruct
from course_lessons.lesson06.ladder import OWN, SHAPE, own_rung, prepared, work_of

#: rows, columns, r, k where the last steps are compared with the peers.
SHAPES = (
    (8192, 8192, 8192, 2048),
    (4096, 4096, 4096, 1024),
    (2048, 2048, 2048, 256),
    (4096, 4096, 4096, 64),
    (4096, 4096, 4096, 50),
    (4093, 4099, 4093, 1021),
)
LAST = ("warp tiles", "tensor cores", "warpgroups", "tf32")
#: images, rows, columns, k of a stack.
STACK = (1024, 256, 256, 50)
TF32_LIMIT = 1e-3


def run(bench):
    """Check and time the steps and their peers."""
    for rows, columns, r, k in bench.parts(SHAPES):
        whole = (rows, columns, k) == SHAPE
        one_image(bench, rows, columns, r, k, LADDER if whole else LAST)
    a_stack(bench, *STACK)


def one_image(bench, rows, columns, r, k, steps):
    """The steps and the peers on one image."""
    u, s, vt = bench.random(rows, r), bench.random(r) + np.float32(0.5), bench.random(r, columns)
    there = [bench.cuda.to_device(array) for array in (u, s, vt)]
    out = bench.cuda.device_array((rows, columns), np.float32)
    expected = exact(bench, u[:, :k], s[:k], vt[:k])
    shape = f"{rows}x{columns}x{k}"
    if cupy := bench.peer("cupy"):
        pair = tuple(map(cupy.asarray, there))
        bench.variant("reconstruct", "cupy", lambda u, s, vt: (u[:, :k] * s[:k]) @ vt[:k], pair,
                      expected=expected, shape=shape, **work_of("", rows, columns, k))  # fmt: skip
        scaled = cupy.ascontiguousarray(pair[0][:, :k] * pair[1][:k])
        bench.variant("reconstruct", "cuBLAS alone", lambda us, vt: us @ vt, (scaled, pair[2][:k]),
                      expected=expected, shape=shape, **work_of("", rows, columns, k))  # fmt: skip
    for name in steps:
        call = prepared(name, *there, k, out)
        limit = {"limit": TF32_LIMIT} if name == "tf32" else {}
        bench.variant("reconstruct", name, call, (*there, k, out), out=out, expected=expected,
                      shape=shape, **limit, **work_of(name, rows, columns, k))  # fmt: skip
    if steps is LADDER:
        bench.variant("reconstruct", OWN, own_rung(rows, columns), (*there, k, out), out=out,
                      expected=expected, shape=shape,
                      **work_of("", rows, columns, k))  # fmt: skip
    if cupy:
        name, _ = LADDER.choose("auto", ImageProblem.of_shape(rows, columns, k))
        bench.variant("reconstruct", "as called", reconstruct, (*pair, k), expected=expected,
                      shape=shape, **work_of(name, rows, columns, k))  # fmt: skip


def exact(bench, u, s, vt):
    """The result in float64: on the GPU where CuPy is there."""
    module = bench.peer("cupy") or np
    u, s, vt = (module.asarray(array).astype(np.float64) for array in (u, s, vt))
    return (u * s[..., None, :]) @ vt


def a_stack(bench, images, rows, columns, k):
    """Many images at once."""
    u, s = bench.random(images, rows, columns), bench.random(images, columns)
    vt = bench.random(images, columns, columns)
    there = [bench.cuda.to_device(array) for array in (u, s, vt)]
    out = bench.cuda.device_array((images, rows, columns), np.float32)
    expected = exact(bench, u[..., :k], s[..., :k], vt[:, :k])
    shape = f"{images}x{rows}x{columns}x{k}"
    if cupy := bench.peer("cupy"):
        three = tuple(map(cupy.asarray, there))
        bench.variant(
            "reconstruct", "cupy", lambda u, s, vt: (u[..., :k] * s[:, None, :k]) @ vt[:, :k],
            three, expected=expected, shape=shape, **work_of("", rows, columns, k, images),
        )  # fmt: skip
    if torch := bench.peer("torch"):
        three = tuple(torch.as_tensor(array, device="cuda") for array in (u, s, vt))
        bench.variant(
            "reconstruct", "torch.bmm",
            lambda u, s, vt: torch.bmm(u[..., :k] * s[:, None, :k], vt[:, :k]),
            three, expected=expected, shape=shape, **work_of("", rows, columns, k, images),
        )  # fmt: skip
    for name in ("warp tiles", "tensor cores"):
        call = prepared(name, *there, k, out)
        bench.variant("reconstruct", name, call, (*there, k, out), out=out, expected=expected,
                      shape=shape, **work_of(name, rows, columns, k, images))  # fmt: skip
