"""What ``python -m course bench`` measures: a file for each subject, named as the subject.

A subject's docstring says in its first line what it measures; its ``run(bench)`` gets a
`course_recording.frame.Bench` and adds rows to it. Example,
``course_recording/subjects/scale.py``::

    \"\"\"Multiply an array by a number.\"\"\"

    from course.kernels.scale import scale


    def run(bench):
        n = 1 << 24
        values = bench.random(n)                            # NumPy, seeded
        x, out = bench.cuda.to_device(values), bench.cuda.device_array(n, values.dtype)
        expected = 3 * values.astype("float64")
        work = dict(expected=expected, shape=f"{n}", bytes=8 * n, operations=n)
        bench.variant("scale", "scale", scale[n // 256, 256], (out, x, 3.0), out=out, **work)
        if cupy := bench.peer("cupy"):                      # None, with a note, where missing
            a = cupy.asarray(x)
            bench.variant("scale", "cupy", cupy.multiply, (a, 3), **work)

`Bench.variant` checks (poisoned output, float64, ``limit=``), times (events, cold data, queued
launches, refused above the measured roofs) and keeps rows: the time, the error, and of a Numba
kernel its registers and local memory. It returns the `Timing`, or None where the program failed;
the other programs still run, and the command ends with status 1. With ``expected`` a CuPy array the
comparison is done on the GPU. `Bench.check`, `time`, `row` and `figure` are the parts of it.

A subject that takes minutes goes through its sizes with ``for size in bench.parts(SIZES)``: what
was measured of one is kept, and the same command, stopped, goes on with the next.

Launches alternate between copies of the arrays that `args` holds; what a function captures instead
cannot, so hand arrays over as arguments.
"""

#: These run first, in this order; the others follow by name.
FIRST = ("roofs", "transfers", "launch")
