"""How arrays of any library reach a kernel: one way in for all front doors.

A front door is a function such as `course.kernels.norm.layer_norm`. It is given arrays of NumPy,
CuPy, PyTorch or Numba, and hands back one of the same kind. What depends on shapes, types, strides,
alignment and device alone is decided in the first call, and kept as a plan; a later call writes the
arrays' addresses into it and launches, on the stream that the caller's library works on.

`course.door.door`       the way in: what is given, checked; plans found or made
`course.door.plans`      what is done for arrays that look alike: launches packed, by Numba, or
                         through copies of the host's arrays
`course.door.overlaps`   results that lie over what they are computed from
`course.door.libraries`  what is to be known of an array: of which library, where, on which stream
`warpsim.ptx.bfloat16`     how Numba compiles a type that it has not
`course.door.layout`     an array without its memory: what plans are made of
`course.door.launches`   the driver: packed launches, events, graphs
`course.door.disk`       compiled kernels, kept for the next process
"""
