"""A hundred further kernels, all different programs, whose counters were read on a GPU.

`accesses` has one access pattern in each kernel. These are small whole programs as people write
them, with features from all parts of the language. ``python -m
course_recording.profiling.hardware_counters --further
data/measurements/<gpu>-further_counters.csv`` reads their counters.
"""

from course_recording.profiling.cases import arrays, atomics, loops, shared, warps

CASES = [*arrays.CASES, *loops.CASES, *atomics.CASES, *shared.CASES, *warps.CASES]
