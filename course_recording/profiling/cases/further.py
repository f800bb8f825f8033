"""A hundred further kernels, each another program, whose counters a GPU read.

`accesses` tries one access after another; these are small whole programs of the kind that
people write, from all corners of the language. ``python -m
course_recording.profiling.hardware_counters --further
data/measurements/<gpu>-further_counters.csv`` reads their counters.
"""

from course_recording.profiling.cases import arrays, atomics, loops, shared, warps

CASES = [*arrays.CASES, *loops.CASES, *atomics.CASES, *shared.CASES, *warps.CASES]
