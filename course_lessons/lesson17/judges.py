"""How an answer of lesson 17 is judged that has no one right value."""

import numpy as np


def split(answer, x):
    """Whether (upper, lower, power) hold x: halves, a power of two, to 2^-22 of the largest."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        return f"Return three things, upper, lower and power; got {type(answer).__name__}."
    upper, lower, power = (np.asarray(part) for part in answer)
    for name, part in (("upper", upper), ("lower", lower)):
        if part.dtype != np.float16 or part.shape != x.shape:
            return (
                f"{name} is {part.dtype} of shape {part.shape}; it must be float16 of shape "
                f"{x.shape}. array.astype(np.float16) rounds to halves."
            )
        if not np.isfinite(part).all():
            return f"{name} has infinite elements: a half ends at 65,504. Choose a smaller power."
    if power.shape != () or not power > 0 or np.frexp(float(power))[0] != 0.5:
        return f"power is {answer[2]}: it must be one power of two, so that no bit is lost by it."
    largest = float(np.abs(x).max())
    back = (upper.astype(np.float64) + lower.astype(np.float64)) / float(power)
    off = float(np.abs(back - x.astype(np.float64)).max()) / largest
    if off <= 2.0**-22:
        return None
    held = upper.astype(np.float64) + lower.astype(np.float64)
    if np.abs(held * float(power) - x).max() <= 2.0**-22 * largest:
        return "power is turned round: return the number that x was multiplied by."
    if np.abs(held - x).max() <= 2.0**-7 * largest:
        return f"upper + lower is x itself, but power is {power}: halve x * power, not x."
    single = float(np.abs(upper.astype(np.float64) / float(power) - x).max()) / largest
    if off >= 0.9 * single and largest * float(power) > 1:
        return (
            f"(upper + lower) / power is off by {off:.1e} of the largest number, no better than "
            "upper alone. lower must hold what rounding to upper left over: x * power - upper, "
            "taken in float32."
        )
    return (
        f"(upper + lower) / power is off by {off:.1e} of the largest number; 2^-23, 1.2e-07, is "
        "possible. What is below 6e-8 is lost in a half: choose a power that brings the largest "
        f"number, here {largest:.2g}, near 2^13."
    )
