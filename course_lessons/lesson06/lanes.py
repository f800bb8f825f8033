"""An exercise of lesson 06: which row and column of a warp's tile a lane has in section 7."""

import numpy as np

from course.checks.exercises import Case
from course_lessons.edits import edits


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
    "mistakes": edits("""
        the lanes are laid out row by row, 8 across: eight in a row are 1 down and 8 across, and
        read more different numbers than 2 down and 4 across
            lane // 16 * 2 + lane % 2 -> lane // 8
            lane // 2 % 8 -> lane % 8
        the lanes are laid out column by column, 4 down: eight in a row are then 4 down and 2 across
            lane // 16 * 2 + lane % 2 -> lane % 4
            lane // 2 % 8 -> lane // 4
        row and column are exchanged: the row comes first
            return 4 * down, 4 * across -> return 4 * across, 4 * down
        the place among the lanes is returned: a place is 4 pixels high and wide
            4 * down, 4 * across -> down, across
        a place is taken to be 8 pixels high and wide; a lane's squares are 4 x 4, four of them
        apart
            4 * down, 4 * across -> 8 * down, 8 * across
        the lower half begins again at the top: from lane 16 on there are 2 rows of lanes more
            lane // 16 * 2 + lane % 2 -> lane % 2
        the lower half is 1 row of lanes lower: the upper one has 2
            lane // 16 * 2 + -> lane // 16 +
        the column goes on with each lane, not with every second one
            lane // 2 % 8 -> lane % 8
        you divide with /: // rounds down, so that lanes share a row
            lane // 16 * 2 -> lane / 16 * 2
    """),
}
