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


@wrong("busy-time", "wrong-result", "leave out a span that overlaps")
def overlapping_left_out(spans):
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        if start >= until:
            total += end - start
            until = end
    return total


@wrong("busy-time", "wrong-result", "negative time for a span that lies inside")
def without_the_max(spans):
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += end - max(start, until)
        until = max(until, end)
    return total


@wrong("busy-time", "wrong-result", "as if `return` stood inside the loop")
def returned_too_early(spans):
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
        return total
    return total


@wrong("busy-time", "input-modified", "belongs to the caller")
def sorted_in_place(spans):
    spans.sort()
    return busy_by_merging(spans)


@wrong("busy-time", "wrong-result", "result is 5, right is 5.5")
def in_whole_milliseconds(spans):
    return len({t for start, end in spans for t in range(int(start), int(end))})


@wrong("busy-time", "wrong-result", "result is 4.3, right is 4.25")
def on_a_grid_of_tenths(spans):
    times = np.arange(0, 20, 0.1)
    return 0.1 * sum(any(start <= time < end for start, end in spans) for time in times)


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


@wrong("together", "wrong-result", "only if it begins inside")
def begins_inside(first, second):
    total = 0.0
    for a in first:
        for b in second:
            if a[0] <= b[0] < a[1]:
                total += min(a[1], b[1]) - b[0]
    return total


@wrong("together", "wrong-result", "each row for one span")
def rows_without_gaps(first, second):
    if not first or not second:
        return 0.0
    return max(0.0, min(first[-1][1], second[-1][1]) - max(first[0][0], second[0][0]))


@wrong("together", "wrong-shape", "One number")
def a_list_of_pairs(first, second):
    return [max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second]


@wrong("together", "wrong-result", "how long each was busy")
def sum_of_both(first, second):
    return sum(end - start for start, end in first + second)


@wrong("together", "wrong-result", "wholly inside")
def only_what_lies_inside(first, second):
    return sum(b[1] - b[0] for a in first for b in second if a[0] <= b[0] and b[1] <= a[1])


@wrong("together", "wrong-result", "share nothing")
def without_signs(first, second):
    return sum(abs(min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)


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


@wrong("lines-of-a-load", "wrong-result", "you count banks")
def banks_counted(elements):
    return len(np.unique(elements % 32))


@wrong("lines-of-a-load", "wrong-result", "from lane to lane")
def changes_counted(elements):
    lines = elements // 32
    return 1 + int((lines[1:] != lines[:-1]).sum())


@wrong("lines-of-a-load", "wrong-result", "lines begin at multiples of 32")
def lines_from_the_first_element(elements):
    return len(np.unique((elements - elements[0]) // 32))


@wrong("lines-of-a-load", "wrong-result", "one line too few")
def changes_of_the_sorted(elements):
    return int((np.diff(np.sort(elements // 32)) > 0).sum())


@wrong("lines-of-a-load", "wrong-shape", "not the lines")
def the_lines_themselves(elements):
    return np.unique(elements // 32)


@wrong("lines-of-a-load", "wrong-result", "different numbers")
def by_division_with_a_fraction(elements):
    return len(np.unique(elements / 32))


@right("lines-of-a-load")
def places_where_the_sorted_change(elements):
    return 1 + np.count_nonzero(np.diff(np.sort(elements >> 5)))


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


@wrong("speed-of-light", "wrong-result", "only if both are below")
def by_the_average(sm, memory):
    if (sm + memory) / 2 < 60:
        return "waiting"
    return "compute" if sm >= memory else "memory"


@wrong("speed-of-light", "wrong-result", "neither roof is near")
def as_if_a_fraction(sm, memory):
    if sm < 0.6 and memory < 0.6:
        return "waiting"
    return "compute" if sm >= memory else "memory"


@wrong("speed-of-light", "wrong-result", "Does it end with `return`")
def word_printed(sm, memory):
    print(by_a_table(sm, memory))


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


@wrong("main-stall", "input-modified", "belongs to the caller")
def removed_from_the_dictionary(clocks):
    clocks.pop("selected", None)
    clocks.pop("not_selected", None)
    name = max(clocks, key=clocks.get)
    return name, clocks[name] / sum(clocks.values())


@wrong("main-stall", "raised", "changed size during iteration")
def deleted_while_looking(clocks):
    for name in clocks:
        if name in ("selected", "not_selected"):
            del clocks[name]
    return by_sorting(clocks)


@wrong("main-stall", "wrong-result", "other way round")
def share_first(clocks):
    return by_sorting(clocks)[::-1]


@wrong("main-stall", "wrong-result", "taken as waiting")
def or_instead_of_and(clocks):
    waits = [name for name in clocks if name != "selected" or name != "not_selected"]
    name = max(waits, key=clocks.get)
    return name, clocks[name] / sum(clocks.values())


@wrong("main-stall", "wrong-result", "rounded: return it as it comes")
def share_in_two_digits(clocks):
    name, share = by_sorting(clocks)
    return name, round(share, 2)


@wrong("main-stall", "wrong-result", "It waits most for")
def largest_name(clocks):
    name = max(name for name in clocks if not name.endswith("selected"))
    return name, clocks[name] / sum(clocks.values())


@wrong("main-stall", "wrong-result", "must be a number, the share")
def share_as_text(clocks):
    name, share = by_sorting(clocks)
    return name, f"{share:.0%}"


@wrong("main-stall", "raised", "clocks.get(state, 0)")
def as_if_every_state_were_there(clocks):
    waiting = sum(clocks.values()) - clocks["selected"] - clocks["not_selected"]
    name, share = by_sorting(clocks)
    return name, share if waiting else 0.0


@right("main-stall")
def in_a_list_with_four_digits(clocks):
    name, share = by_sorting(clocks)
    return [name, np.round(share, 4)]


@right("main-stall")
def by_sorting(clocks):
    ordered = sorted(((v, k) for k, v in clocks.items() if not k.endswith("selected")))
    return ordered[-1][1], ordered[-1][0] / sum(clocks.values())
