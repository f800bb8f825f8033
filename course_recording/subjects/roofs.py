"""Roofs: the GPU's highest rates, each by a program that does nothing else.

They are: copying and reading device memory, reading from L2, multiply-adds in registers, matrix
products on tensor cores; also cuBLAS's product in float32, which stays below its roof.
"""

import numpy as np

from course.measure.measured_roofs import roof_kernels, roof_timings

MATRIX = 8192
DTYPES = {"tensor_float16": "float16", "tensor_float32": "tfloat32"}


def run(bench):
    """Measure each roof again, with its spread."""
    values = bench.random(1_000_003, dtype=np.float64)
    source = bench.cuda.to_device(values)
    target = bench.cuda.device_array_like(source)
    copy, *_ = roof_kernels()
    bench.check(copy[100, 512], (target, source), values, out=target, limit=0)
    for name, timing in roof_timings():
        if timing.operations:
            size = timing.name.partition(", ")[2]  # the side of a product's matrices
            shape = "x".join([size] * 3) if size else ""
            bench.row("roof", name, shape, DTYPES.get(name, name), timing)
        else:
            bench.row("roof", name, f"{timing.bytes:.0f}", "float64", timing)

    cupy = bench.peer("cupy")
    if cupy is None:
        return
    left, right = (cupy.asarray(bench.random(MATRIX, MATRIX)) for _ in range(2))
    expected = left.astype(cupy.float64) @ right.astype(cupy.float64)
    bench.variant(
        "matmul", "cupy", lambda a, b, out: cupy.matmul(a, b, out=out),
        (left, right, out := cupy.empty_like(left)), out=out, expected=expected,
        shape=f"{MATRIX}x{MATRIX}x{MATRIX}", limit=1e-5,
        bytes=3 * 4 * MATRIX**2, operations=2 * MATRIX**3,
    )  # fmt: skip
