"""Wrong answers to the exercises of lesson 17 as students write them, and unusual right ones."""

import numpy as np

from tests.lessons.wrong_answers import answers_to

# --- split-in-halves -------------------------------------------------------------------------

wrong, right = answers_to("split-in-halves")
wrong("wrong-result", "no better than upper alone")({"lower,": "np.zeros_like(upper),"})
wrong("wrong-result", "near 2^13", "a millionth")(
    "upper = x.astype(np.float16)\n"
    "return upper, (x - upper.astype(np.float32)).astype(np.float16), 1.0"
)


def power_of(x):
    """A power of two that brings the largest number near 2**13."""
    return np.float32(2.0) ** np.float32(14 - np.frexp(np.abs(x).max())[1])


wrong("wrong-result", "no better than upper alone")(
    "lower = x * power_of(x)\nupper = lower.astype(np.float16)\n"
    "return upper, lower.astype(np.float16) - upper, power_of(x)"
)
wrong("wrong-result", "one power of two")(
    "power = 1e4 / np.abs(x).max()\nscaled = x * power\n"
    "upper = scaled.astype(np.float16)\n"
    "return upper, (scaled - upper).astype(np.float16), power"
)
wrong("wrong-result", "it must be float16")(
    {"\n    lower = (x * power - upper": "", ")).astype(np.float16)": ")"}
)
wrong("wrong-result", "a half ends at 65,504")({"(2.0)": "(2.0**18)"})
wrong("wrong-result", "power is turned round")(
    "_ = x * power_of(x)\nupper = _.astype(np.float16)\n"
    "return upper, (_ - upper.astype(np.float32)).astype(np.float16), 1 / power_of(x)"
)
wrong("wrong-result", "upper + lower is x itself")(
    "upper = x.astype(np.float16)\n"
    "return upper, (x - upper.astype(np.float32)).astype(np.float16), power_of(x)"
)
wrong("wrong-result", "three things")({"lower =": "return upper,"})
right(
    "power = 2.0 ** np.floor(15 - np.log2(np.abs(x).max()))\n"
    "wide = x.astype(np.float64) * power\nupper = wide.astype(np.float16)\n"
    "return upper, (wide - upper).astype(np.float16), power"
)
