"""How arrays of any library reach a kernel: one entry point for all functions that users call.

Such a function, `course.kernels.norm.layer_norm` say, is given arrays of NumPy, CuPy, PyTorch or
Numba, and hands back one of the same library. What depends on shapes, types, strides, alignment and
device alone is decided in the first call, and kept as a plan; a later call writes the arrays'
addresses into it and launches, on the stream that the caller's library works on.

`course.dispatch.entry`        checks arguments; finds the plan of a call or makes it
`course.dispatch.plans`        what is done for arrays that look alike: prepared launches, Numba's,
                               or copies of the host's arrays
`course.dispatch.overlaps`     results whose memory overlaps an input's
`course.dispatch.array_facts`  what a plan depends on: an array's library, shape, device, stream
`course.dispatch.slots`        array slots: arrays without memory, of which plans are made
`course.dispatch.prepared`     the driver: prepared launches, events, shared memory
`course.dispatch.graphs`       CUDA graphs, and memory that belongs to one
"""
