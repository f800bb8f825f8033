"""An exercise of lesson 06: which row and column of a warp's tile a lane has in section 7."""

import numpy as np

from course.checks.exercises import Case


def _place(lane):
    """First row and column of a lane's pixels; of an array of lanes, a row for each."""
    return np.stack([4 * (lane // 16 * 2 + lane % 2), 4 * (lane // 2 % 8)], axis=-1)


def _lane_by_lane(answer, arguments):
    """What an answer returns for each lane, one after the other."""
    (lanes,) = arguments
    found = [answer(int(lane)) for lane in lanes]
    if all(place is None for place in found):
        return None
    for lane, place in zip(lanes, found, strict=True):
        if not isinstance(place, tuple | list | np.ndarray) or len(place) != 2:
            raise ValueError(f"of lane {lane} it returns {place!r}, not a row and a column")
    return np.array(found)


def _half(first):
    lanes = np.arange(first, first + 16)
    return Case(f"lanes {first} to {first + 15}", lambda rng: {"lane": lanes.copy()})


def _in_any_order(rng):
    lanes = rng.permutation(32)[:8]
    return Case(f"lanes {lanes.tolist()}", lambda rng: {"lane": lanes.copy()})


#: The fields of its declaration.
EXERCISE = {
    "name": "lane-place",
    "lesson": 6,
    "title": "Which row and column a lane has",
    "reference": _place,
    "caller": _lane_by_lane,
    "cases": [_half(0), _half(16)],
    "drawer": _in_any_order,
    "hints": {
        "wrong-result": "First the place among the lanes, 4 down and 8 across, then times 4. Lane "
        "1 stands below lane 0, lane 2 to the right of lane 0, and lane 8 behind the first eight, "
        "4 to the right. From lane 16 on it is the lower half.",
        "raised": "Return two numbers for each lane, its row and its column.",
        "wrong-dtype": "Rows and columns are whole numbers: divide with //.",
    },
}
