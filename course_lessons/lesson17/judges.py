"""How an answer of lesson 17 is judged that has no one right value."""

from typing import Any

import numpy as np

from course.checks.verdicts import brief


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
        power = brief(answer[2])
        return f"power is {power}: it must be one power of two, so that no bit is lost by it."
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


# --- steps to wgmma and TMA -----------------------------------------------------------------------

FIELDS = {"address": (0, 14), "leading": (16, 14), "stride": (32, 14), "swizzle": (62, 2)}


def descriptor(answer: Any, address: int, leading: int, stride: int, swizzle: int) -> str | None:
    """Judge a descriptor's 64 bits, field by field."""
    if not isinstance(answer, int | np.integer):
        return f"Return one whole number; got {brief(answer)}."
    given = {"address": address >> 4, "leading": leading >> 4, "stride": stride >> 4}
    right, left = given | {"swizzle": swizzle}, int(answer)
    for name, (first, width) in FIELDS.items():
        found = left >> first & (1 << width) - 1
        left -= found << first
        if found != right[name]:
            unit = "" if name == "swizzle" else " x 16 bytes"
            return (
                f"{name} is {found}{unit} in your bits {first} to {first + width - 1}, right is "
                f"{right[name]}{unit}."
            )
    return f"Bits of no field are set: {left:#x} is left over." if left else None
