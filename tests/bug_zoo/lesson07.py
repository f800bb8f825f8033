"""Wrong answers to the exercises of lesson 07 as students write them, and unusual right ones."""

import numpy as np

from bug_zoo import Answers

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

# --- busy-time ----------------------------------------------------------------------------------


@wrong("busy-time", "wrong-result", "counts twice", "two that overlap")
def lengths_added(spans):
    total = 0
    for start, end in spans:
        total += end - start
    return total


@wrong("busy-time", "wrong-result", "gaps included")
def from_first_to_last(spans):
    return max(end for _, end in spans) - min(start for start, _ in spans)


@wrong("busy-time", "wrong-result", "latest end of all")
def compared_with_the_one_before(spans):
    spans = sorted(spans)
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = end
    return total


@wrong("busy-time", "wrong-result", "sort them first")
def not_sorted(spans):
    total, until = 0.0, 0.0
    for start, end in spans:
        if end > until:
            total += end - max(start, until)
            until = end
    return total


@wrong("busy-time", "raised", "may be empty")
def fails_on_an_empty_row(spans):
    spans = sorted(spans)
    total, until = 0.0, spans[0][0]
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


@wrong("busy-time", "wrong-result", "longest span alone")
def only_the_longest(spans):
    return max(end - start for start, end in spans)


@right("busy-time")
def busy_by_merging(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return sum(end - start for start, end in merged)


@right("busy-time")
def busy_by_counting_levels(spans):
    marks = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    total, level, last = 0.0, 0, 0.0
    for time, step in marks:
        total += (time - last) * (level > 0)
        level, last = level + step, time
    return total


# --- together -----------------------------------------------------------------------------------


@wrong("together", "wrong-result", "negative times")
def negative_times_counted(first, second):
    return sum(min(a[1], b[1]) - max(a[0], b[0]) for a in first for b in second)


@wrong("together", "wrong-result", "compare each with each")
def in_pairs(first, second):
    return sum(
        max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in zip(first, second, strict=False)
    )


@wrong("together", "wrong-result", "at least one of the two")
def either_of_them(first, second):
    return busy_by_merging(first + second)


@wrong("together", "wrong-result", "the other way round")
def hull_of_both(first, second):
    return sum(max(0.0, max(a[1], b[1]) - min(a[0], b[0])) for a in first for b in second)


@wrong("together", "raised", "may be empty")
def from_the_first_spans(first, second):
    total, i, j = 0.0, 0, 0
    while i < len(first) or j < len(second):
        a, b = first[i], second[j]
        total += max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
        if a[1] < b[1]:
            i = min(i + 1, len(first))
        else:
            j = min(j + 1, len(second))
    return total


@right("together")
def both_less_either(first, second):
    sums = [busy_by_merging(spans) for spans in (first, second, first + second)]
    return sums[0] + sums[1] - sums[2]


# --- lines-of-a-load ----------------------------------------------------------------------------


@wrong("lines-of-a-load", "wrong-result", "count sectors")
def sectors_counted(elements):
    return len({int(e) // 8 for e in elements})


@wrong("lines-of-a-load", "wrong-result", "different numbers")
def numbers_counted(elements):
    return len(np.unique(elements))


@wrong("lines-of-a-load", "wrong-result", "it has 128 bytes")
def lines_of_128_numbers(elements):
    return len(np.unique(elements // 128))


@wrong("lines-of-a-load", "wrong-result", "between the first and the last")
def from_the_first_line_to_the_last(elements):
    return elements.max() // 32 - elements.min() // 32 + 1


@wrong("lines-of-a-load", "wrong-result", "wherever they lie")
def as_if_neighbours(elements):
    return int(np.ceil(len(np.unique(elements)) / 32))


@wrong("lines-of-a-load", "wrong-result", "share it")
def a_line_for_each_lane(elements):
    return 32


@right("lines-of-a-load")
def lines_by_byte(elements):
    return len({int(e) * 4 >> 7 for e in elements})


# --- speed-of-light -----------------------------------------------------------------------------


@wrong("speed-of-light", "wrong-result", "neither roof is near")
def never_waiting(sm, memory):
    return "compute" if sm > memory else "memory"


@wrong("speed-of-light", "wrong-result", "only if both are below")
def waiting_if_one_is_low(sm, memory):
    if sm < 60 or memory < 60:
        return "waiting"
    return "compute" if sm > memory else "memory"


@wrong("speed-of-light", "wrong-result", "larger of the two has the word")
def words_swapped(sm, memory):
    if sm < 60 and memory < 60:
        return "waiting"
    return "memory" if sm > memory else "compute"


@wrong("speed-of-light", "wrong-result", "60 itself is enough")
def more_than_sixty(sm, memory):
    if sm <= 60 and memory <= 60:
        return "waiting"
    return "compute" if sm > memory else "memory"


@wrong("speed-of-light", "wrong-result", "larger of the two has the word")
def memory_first(sm, memory):
    if memory >= 60:
        return "memory"
    return "compute" if sm >= 60 else "waiting"


@wrong("speed-of-light", "wrong-result", "in lower case")
def words_capitalised(sm, memory):
    if sm < 60 and memory < 60:
        return "Waiting"
    return "Compute" if sm > memory else "Memory"


@right("speed-of-light")
def by_a_table(sm, memory):
    share, word = max((sm, "compute"), (memory, "memory"))
    return word if share >= 60 else "waiting"


# --- main-stall ---------------------------------------------------------------------------------


@wrong("main-stall", "wrong-result", "or it could")
def not_selected_is_waiting(clocks):
    waits = {name: value for name, value in clocks.items() if name != "selected"}
    name = max(waits, key=waits.get)
    return name, waits[name] / sum(clocks.values())


@wrong("main-stall", "wrong-result", "of the waiting alone")
def share_of_the_waiting(clocks):
    waits = {k: v for k, v in clocks.items() if k not in ("selected", "not_selected")}
    name = max(waits, key=waits.get)
    return name, waits[name] / sum(waits.values())


@wrong("main-stall", "wrong-result", "divide them by the sum")
def clocks_returned(clocks):
    waits = {k: v for k, v in clocks.items() if k not in ("selected", "not_selected")}
    name = max(waits, key=waits.get)
    return name, waits[name]


@wrong("main-stall", "wrong-result", "between 0 and 1")
def percent_returned(clocks):
    name, share = by_sorting(clocks)
    return name, 100 * share


@wrong("main-stall", "wrong-result", "taken as waiting")
def everything_is_waiting(clocks):
    name = max(clocks, key=clocks.get)
    return name, clocks[name] / sum(clocks.values())


@wrong("main-stall", "wrong-result", "Return two things")
def only_the_name(clocks):
    return by_sorting(clocks)[0]


@right("main-stall")
def by_sorting(clocks):
    ordered = sorted(((v, k) for k, v in clocks.items() if not k.endswith("selected")))
    return ordered[-1][1], ordered[-1][0] / sum(clocks.values())
