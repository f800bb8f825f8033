"""How arrays of any library reach a kernel: one entry point for all functions that users call.

Such a function, `course.kernels.norm.layer_norm` say, is given arrays of NumPy, CuPy, PyTorch or
Numba, and hands back one of the same library. What depends on shapes, types, strides, alignment and
device alone is decided in the first call, and kept as a plan; a later call writes the arrays'
addresses into it and launches, on the stream that the caller's library works on.

`course.dispatch.entry`        what is given, checked; plans found or made
`course.dispatch.plans`        what is done for arrays that look alike: prepared launches, Numba's,
                               or copies of the host's arrays
`course.dispatch.overlaps`     results that lie over what they are computed from
`course.dispatch.array_facts`  of an array: of which library, where, on which stream
`course.dispatch.slots`        an array without its memory: what plans are made of
`course.dispatch.prepared`     the driver: prepared launches, events, shared memory
`course.dispatch.graphs`       CUDA graphs, and memory that belongs to one
"""
