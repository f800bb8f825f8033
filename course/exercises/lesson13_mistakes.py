"""What typical wrong answers to lesson 13's kernels compute: a sentence, and the numbers."""

import numpy as np

from course.exercises.lesson13_numbers import (
    EPSILON,
    half_sums,
    normalised,
    parts,
    replaced,
    squares_of,
    summed,
    two_frames_a_warp,
)

#: Of "normalise-frames".
OF_FRAMES = {
    "each lane sums one of its two numbers only": half_sums,
    "the variance is not divided by 64": lambda x: normalised(x, share=64.0),
    "the variance is divided by 63: LayerNorm divides by 64": (
        lambda x: normalised(x, share=64 / 63)
    ),
    "the root is missing": lambda x: normalised(x, root=lambda variance: variance),
    "epsilon is missing": lambda x: normalised(x, epsilon=0.0),
    "epsilon is added to the root: it belongs under it, to the variance": (
        lambda x: normalised(x, epsilon=0.0, outside=EPSILON)
    ),
    "epsilon is added to the sum of the squares: divide by 64 first": (
        lambda x: normalised(x, epsilon=EPSILON / 64)
    ),
    "the sums are divided by 32 (a frame has 64 numbers), or a sixth step doubles them (a "
    "warp has 32 lanes, five steps)": (lambda x: normalised(x, mean=2.0, share=2.0)),
    "it is multiplied by the root, not divided": lambda x: normalised(
        x, root=lambda variance: 1 / np.sqrt(variance)
    ),
    "the sums stop at 16 lanes: it takes five steps, 1, 2, 4, 8, 16": (
        lambda x: summed(x, (1, 2, 4, 8))
    ),
    "lanes `step` apart are added: they must be 1 << step apart": (lambda x: summed(x, range(5))),
    "each half of a frame is normalised by itself": lambda x: normalised(x, count=10),
    "the sum is subtracted, not the mean: divide it by 64": (lambda x: normalised(x, mean=64.0)),
    "what a shuffle returns takes the place of the sum: add it, `+=`": replaced,
    "the squares of the values are summed: it is those of value - mean": squares_of,
    "of a lane's two numbers only the first one's square is summed": (
        lambda x: squares_of(x, of="half")
    ),
    "the squares are not summed over the warp": (
        lambda x: summed(x, (1, 2, 4, 8, 16), squares=False)
    ),
    "a thread takes columns t and t + 160, and a warp numbers of two frames: warp f has "
    "columns 64 f to 64 f + 63": two_frames_a_warp,
    "the mean is not subtracted in the result": lambda x: (
        parts(x) / np.sqrt(parts(x).var(axis=2, keepdims=True) + EPSILON)
    ).reshape(x.shape),
    "a spectrum is normalised as a whole: each frame has its own mean": (
        lambda x: normalised(x, axis=(1, 2))
    ),
    "the mean over the frames is taken, not over the bands": (lambda x: normalised(x, axis=1)),
}
