"""Wrong answers to the exercises of lesson 11 as students write them, and unusual right ones."""

import heapq
import math
from fractions import Fraction

import numpy as np

from bug_zoo import Answers

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

# --- network-bytes --------------------------------------------------------------------------------


@wrong("network-bytes", "wrong-result", "the results are missing")
def bytes_there_only(plan, images, batch, factors, back, passes):
    if plan == "make":
        return 64 * math.ceil(images / batch)
    return images * factors * (passes if plan == "send" else 1)


@wrong("network-bytes", "wrong-result", "only the results are counted")
def bytes_back_only(plan, images, batch, factors, back, passes):
    return passes * images * back


@wrong("network-bytes", "wrong-result", "the results of one pass only")
def bytes_of_results_once(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * math.ceil(images / batch)
    return there[plan] + images * back


@wrong("network-bytes", "wrong-result", "everything is counted in one pass only")
def bytes_of_one_pass(plan, images, batch, factors, back, passes):
    there = 64 * math.ceil(images / batch) if plan == "make" else images * factors
    return there + images * back


@wrong("network-bytes", "wrong-result", "what is kept is counted in each pass")
def bytes_without_keeping(plan, images, batch, factors, back, passes):
    there = 64 * math.ceil(images / batch) if plan == "make" else passes * images * factors
    return there + passes * images * back


@wrong("network-bytes", "wrong-result", "what is kept is counted in each pass")
def bytes_of_sending(plan, images, batch, factors, back, passes):
    return passes * images * (factors + back)


@wrong("network-bytes", "wrong-result", "this plan is counted as 'keep'")
def bytes_of_keeping(plan, images, batch, factors, back, passes):
    return images * factors + passes * images * back


@wrong("network-bytes", "wrong-result", "a recipe at least")
def bytes_without_recipes(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors, "make": 0}
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "the last, shorter batch has no recipe")
def bytes_of_whole_batches(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * (images // batch)
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "a recipe is counted for each image")
def bytes_of_a_recipe_an_image(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors, "make": 64 * images}
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "one recipe is counted for all batches")
def bytes_of_one_recipe(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors, "make": 64}
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "recipes are sent in each pass")
def bytes_of_recipes_again(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = passes * 64 * math.ceil(images / batch)
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "you count one batch")
def bytes_of_one_batch(plan, images, batch, factors, back, passes):
    there = {"send": passes * batch * factors, "keep": batch * factors, "make": 64}
    return there[plan] + passes * batch * back


@wrong("network-bytes", "wrong-result", "are bytes already")
def bytes_of_float32(plan, images, batch, factors, back, passes):
    there = {"send": 4 * passes * images * factors, "keep": 4 * images * factors}
    there["make"] = 64 * math.ceil(images / batch)
    return there[plan] + 4 * passes * images * back


@wrong("network-bytes", "wrong-result", "are those of an image")
def bytes_of_batches(plan, images, batch, factors, back, passes):
    batches = math.ceil(images / batch)
    there = {"send": passes * batches * factors, "keep": batches * factors, "make": 64 * batches}
    return there[plan] + passes * batches * back


@wrong("network-bytes", "wrong-shape", "Return one number|2")
def bytes_there_and_back(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * math.ceil(images / batch)
    return np.array([there[plan], passes * images * back])


@wrong("network-bytes", "raised", "UnboundLocalError|NameError|there")
def bytes_of_another_word(plan, images, batch, factors, back, passes):
    if plan == "sent":
        there = passes * images * factors
    elif plan == "kept":
        there = images * factors
    return there + passes * images * back


@wrong("network-bytes", "wrong-result", "returns None")
def bytes_printed(plan, images, batch, factors, back, passes):
    print(images * factors + passes * images * back)


@wrong("network-bytes", "wrong-result", "one batch too many where nothing is left over")
def bytes_of_one_batch_more(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * (images // batch + 1)
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "a recipe replaces them")
def bytes_of_recipes_and_factors(plan, images, batch, factors, back, passes):
    there = images * factors * (passes if plan == "send" else 1)
    if plan == "make":
        there += 64 * math.ceil(images / batch)
    return there + passes * images * back


@wrong("network-bytes", "wrong-result", "counted as a full one")
def bytes_of_a_full_last_batch(plan, images, batch, factors, back, passes):
    batches = math.ceil(images / batch)
    there = {"send": passes * batches * batch * factors, "keep": batches * batch * factors}
    there["make"] = 64 * batches
    return there[plan] + passes * batches * batch * back


@wrong("network-bytes", "wrong-result", "of an image, not of a batch: times the images")
def bytes_of_factors_a_batch(plan, images, batch, factors, back, passes):
    batches = math.ceil(images / batch)
    there = {"send": passes * batches * factors, "keep": batches * factors, "make": 64 * batches}
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "`back` is the result of an image")
def bytes_of_a_result_a_batch(plan, images, batch, factors, back, passes):
    batches = math.ceil(images / batch)
    there = {"send": passes * images * factors, "keep": images * factors, "make": 64 * batches}
    return there[plan] + passes * batches * back


@wrong("network-bytes", "wrong-result", "needs `elif`")
def bytes_without_elif(plan, images, batch, factors, back, passes):
    if plan == "send":
        there = passes * images * factors
    if plan == "keep":
        there = images * factors
    else:
        there = 64 * math.ceil(images / batch)
    return there + passes * images * back


@wrong("network-bytes", "wrong-result", "passes are counted twice")
def bytes_of_passes_squared(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * math.ceil(images / batch)
    return passes * (there[plan] + images * back)


@wrong("network-bytes", "wrong-result", "by the images of a batch")
def bytes_of_a_recipe_an_image_of_a_batch(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors, "make": 64 * batch}
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "is always true")
def bytes_of_an_or_that_is_always_true(plan, images, batch, factors, back, passes):
    if plan == "send" or "keep":
        there = passes * images * factors
    else:
        there = 64 * math.ceil(images / batch)
    return there + passes * images * back


@wrong("network-bytes", "wrong-result", "a part of a recipe")
def bytes_of_a_part_of_a_recipe(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * images / batch
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "this plan is counted as 'keep'")
def bytes_of_plans_swapped(plan, images, batch, factors, back, passes):
    there = {"send": images * factors, "keep": passes * images * factors}
    there["make"] = 64 * math.ceil(images / batch)
    return there[plan] + passes * images * back


@wrong("network-bytes", "wrong-result", "below 0")
def bytes_of_batches_below_0(plan, images, batch, factors, back, passes):
    there = {"send": passes * images * factors, "keep": images * factors}
    there["make"] = 64 * -images // batch
    return there[plan] + passes * images * back


@right("network-bytes")
def bytes_counted_one_by_one(plan, images, batch, factors, back, passes):
    total = 0
    for turn in range(passes):
        for first in range(0, images, batch):
            count = min(batch, images - first)
            if plan == "send" or (plan == "keep" and turn == 0):
                total += count * factors
            if plan == "make" and turn == 0:
                total += 64
            total += count * back
    return total


@right("network-bytes")
def bytes_by_match(plan, images, batch, factors, back, passes):
    match plan:
        case "make":
            there = -(-images // batch) * 64
        case "keep":
            there = factors * images
        case _:
            there = factors * images * passes
    return float(there + back * images * passes)


# --- steady-sum -----------------------------------------------------------------------------------


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_as_they_arrive(arrivals):
    total = np.float32(0)
    for _, _, value in arrivals:
        total += value
    return total


@wrong("steady-sum", "wrong-result", "the order in which they arrive", "float64")
def sum_in_float64(arrivals):
    return np.float32(sum(float(value) for _, _, value in arrivals))


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_by_numpy(arrivals):
    return np.sum(np.array([value for _, _, value in arrivals], np.float32))


@wrong("steady-sum", "wrong-result", "who did which batch")
def sum_of_workers_sums(arrivals):
    of_worker = {}
    for _, worker, value in sorted(arrivals):
        of_worker[worker] = of_worker.get(worker, np.float32(0)) + value
    total = np.float32(0)
    for worker in sorted(of_worker):
        total += of_worker[worker]
    return total


@wrong("steady-sum", "wrong-result", "who did which batch")
def sum_worker_by_worker(arrivals):
    total = np.float32(0)
    for _, _, value in sorted(arrivals, key=lambda one: (one[1], one[0])):
        total += value
    return total


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_of_a_dict(arrivals):
    by_number = {number: value for number, _, value in arrivals}
    total = np.float32(0)
    for value in by_number.values():
        total += value
    return total


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_sorted_by_nothing(arrivals):
    arrivals = sorted(arrivals, key=lambda one: 0)
    total = np.float32(0)
    for _, _, value in arrivals:
        total += value
    return total


@wrong("steady-sum", "wrong-result", "That is the mean")
def sum_as_a_mean(arrivals):
    return math.fsum(value for _, _, value in arrivals) / len(arrivals)


@wrong("steady-sum", "wrong-result", "the sum of the numbers 0, 1, 2")
def sum_of_numbers(arrivals):
    return float(sum(number for number, _, _ in arrivals))


@wrong("steady-sum", "wrong-result", "The first batch is missing")
def sum_from_1(arrivals):
    values = [value for _, _, value in sorted(arrivals)]
    total = values[0] if len(values) == 1 else np.float32(0)
    for place in range(1, len(values)):
        total += values[place]
    return total


@wrong("steady-sum", "wrong-result", "the first batch alone")
def sum_returned_in_the_loop(arrivals):
    total = np.float32(0)
    for _, _, value in sorted(arrivals):
        total += value
        return total


@wrong("steady-sum", "wrong-result", "the last batch alone")
def sum_that_replaces(arrivals):
    for _, _, value in sorted(arrivals):
        total = value
    return total


@wrong("steady-sum", "input-modified", "sorted(arrivals)")
def sum_that_sorts_the_list(arrivals):
    arrivals.sort()
    total = np.float32(0)
    for _, _, value in arrivals:
        total += value
    return total


@wrong("steady-sum", "wrong-result", "Return one number")
def sum_of_each(arrivals):
    return [value for _, _, value in sorted(arrivals)]


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_by_size(arrivals):
    total = np.float32(0)
    for _, _, value in sorted(arrivals, key=lambda one: abs(one[2])):
        total += value
    return total


@wrong("steady-sum", "wrong-result", "a set drops repetitions")
def sum_of_a_set(arrivals):
    total = np.float32(0)
    for value in sorted({value for _, _, value in arrivals}):
        total += value
    return total


@wrong("steady-sum", "wrong-result", "Rounding a total hides most differences")
def sum_rounded(arrivals):
    return round(sum(float(value) for _, _, value in arrivals), 3)


@wrong("steady-sum", "wrong-result", "digits were lost")
def sum_in_float16(arrivals):
    total = np.float16(0)
    for _, _, value in sorted(arrivals):
        total += np.float16(value)
    return total


@wrong("steady-sum", "wrong-result", "The third entry of a triple is the value")
def sum_of_workers(arrivals):
    return sum(worker for _, worker, _ in sorted(arrivals))


@wrong("steady-sum", "wrong-result", "whole numbers")
def sum_of_whole_numbers(arrivals):
    return sum(int(value) for _, _, value in arrivals)


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_sorted_and_forgotten(arrivals):
    sorted(arrivals)
    total = np.float32(0)
    for _, _, value in arrivals:
        total += value
    return total


@wrong("steady-sum", "wrong-result", "the order in which they arrive")
def sum_with_what_was_lost(arrivals):
    total = lost = np.float32(0)
    for _, _, value in arrivals:
        more = value - lost
        lost, total = (total + more - total) - more, total + more
    return total


@wrong("steady-sum", "wrong-result", "That is the largest of them")
def sum_as_the_largest(arrivals):
    return max(value for _, _, value in arrivals)


@wrong("steady-sum", "wrong-result", "2145.3799999999987|99999", "the order in which they arrive")
def sum_of_rounded_values(arrivals):
    return sum(round(float(value), 2) for _, _, value in arrivals)


@wrong("steady-sum", "raised", "arrivals.sort() returns None")
def sum_of_what_sort_returns(arrivals):
    return sum(value for _, _, value in list(arrivals).sort())


@wrong("steady-sum", "input-modified", "sorted(arrivals) makes a new one")
def sum_that_takes_them_out(arrivals):
    total = np.float32(0)
    while arrivals:
        total += arrivals.pop(0)[2]
    return total


@wrong("steady-sum", "wrong-result", "The first batch counts twice")
def sum_that_starts_with_the_first(arrivals):
    arrivals = sorted(arrivals)
    total = arrivals[0][2]
    for _, _, value in arrivals:
        total += value
    return total


@right("steady-sum")
def sum_exactly(arrivals):
    return math.fsum(value for _, _, value in arrivals)


@right("steady-sum")
def sum_of_fractions(arrivals):
    return np.float32(float(sum(Fraction(float(value)) for _, _, value in arrivals)))


@right("steady-sum")
def sum_by_value(arrivals):
    values = np.sort(np.array([value for _, _, value in arrivals], np.float32))
    return values.sum()


@right("steady-sum")
def sum_in_places(arrivals):
    values = np.empty(len(arrivals), np.float32)
    for number, _, value in arrivals:
        values[number] = value
    return values.sum()


@right("steady-sum")
def sum_in_a_tree(arrivals):
    values = [value for _, _, value in sorted(arrivals)]
    while len(values) > 1:
        values = [sum(values[place : place + 2]) for place in range(0, len(values), 2)]
    return values[0]


@right("steady-sum")
def sum_in_an_array_of_no_axis(arrivals):
    total = np.zeros((), np.float32)
    for _, _, value in sorted(arrivals):
        total += value
    return total


# --- last-batch -----------------------------------------------------------------------------------


@wrong("last-batch", "wrong-result", "a batch cannot be cut")
def last_by_division(milliseconds, workers):
    return sum(milliseconds) / workers


@wrong("last-batch", "wrong-result", "two bounds|That is a bound")
def last_by_the_bound(milliseconds, workers):
    return max(sum(milliseconds) / workers, max(milliseconds))


@wrong("last-batch", "wrong-result", "one after the other")
def last_of_one_worker(milliseconds, workers):
    return sum(milliseconds)


@wrong("last-batch", "wrong-result", "the longest batch is taken")
def last_is_the_longest(milliseconds, workers):
    return sum(milliseconds) if workers == 1 else max(milliseconds)


@wrong("last-batch", "wrong-result", "batches are dealt in turns")
def last_in_turns(milliseconds, workers):
    free = [0.0] * workers
    for number, time in enumerate(milliseconds):
        free[number % workers] += time
    return max(free)


@wrong("last-batch", "wrong-result", "each worker gets a share beforehand")
def last_of_shares(milliseconds, workers):
    each = math.ceil(len(milliseconds) / workers)
    return max(sum(milliseconds[i : i + each]) for i in range(0, len(milliseconds), each))


@wrong("last-batch", "wrong-result", "wait for each other after each round")
def last_of_rounds(milliseconds, workers):
    return sum(max(milliseconds[i : i + workers]) for i in range(0, len(milliseconds), workers))


@wrong("last-batch", "wrong-result", "the longest first")
def last_of_sorted(milliseconds, workers):
    free = [0.0] * workers
    for time in sorted(milliseconds, reverse=True):
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "the shortest first")
def last_of_sorted_up(milliseconds, workers):
    free = [0.0] * workers
    for time in sorted(milliseconds):
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "the first worker has nothing left|given out last")
def last_is_the_earliest(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
    return min(free)


@wrong("last-batch", "wrong-result", "given out last")
def last_given_out(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        who = free.index(min(free))
        free[who] += time
    return free[who]


@wrong("last-batch", "input-modified", "leave it as it is")
def last_that_empties_the_list(milliseconds, workers):
    free = [0.0] * workers
    while milliseconds:
        free[free.index(min(free))] += milliseconds.pop(0)
    return max(free)


@wrong("last-batch", "wrong-shape", "Return one number")
def last_of_each_worker(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
    return free + [0.0]


@wrong("last-batch", "wrong-result", "`return` stands in the loop")
def last_returned_in_the_loop(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
        return max(free)


@wrong("last-batch", "wrong-result", "add with `+=`")
def last_that_replaces(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] = time
    return max(free)


@wrong("last-batch", "wrong-result", "cut to whole milliseconds")
def last_in_whole_numbers(milliseconds, workers):
    free = np.zeros(workers, int)
    for time in milliseconds:
        free[np.argmin(free)] += int(time)
    return free.max()


@wrong("last-batch", "wrong-result", "leaves over are forgotten")
def last_without_the_rest(milliseconds, workers):
    each = len(milliseconds) // workers
    return max(sum(milliseconds[w * each : (w + 1) * each]) for w in range(workers))


@wrong("last-batch", "wrong-result", "the longest batch of all")
def last_of_longest_rounds(milliseconds, workers):
    return math.ceil(len(milliseconds) / workers) * max(milliseconds)


@wrong("last-batch", "wrong-result", "you return the start of the batch")
def last_start(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        start = min(free)
        free[free.index(start)] = start + time
    return start


@wrong("last-batch", "wrong-result", "one for each worker, are forgotten")
def last_without_the_first(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds[workers:]:
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "raised", "free.index")
def last_by_a_time_as_an_index(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[min(free)] += time
    return max(free)


@wrong("last-batch", "wrong-result", "all lists are the same one")
def last_of_one_list(milliseconds, workers):
    lists = [[]] * workers
    for time in milliseconds:
        min(lists, key=sum).append(time)
    return max(sum(each) for each in lists)


@wrong("last-batch", "wrong-result", "each goes to the `min` of the list")
def last_of_who_is_busiest(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(max(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "and the `max` of it is the answer")
def last_of_all_ends(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
    return sum(free)


@wrong("last-batch", "wrong-result", "the list stays as it was")
def last_of_a_number_taken_out(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        first = min(free)
        first += time
    return max(free)


@wrong("last-batch", "wrong-result", "are counted twice")
def last_of_the_first_ones_twice(milliseconds, workers):
    free = list(milliseconds[:workers])
    for time in milliseconds:
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "always three workers")
def last_of_three_workers(milliseconds, workers):
    free = [0.0, 0.0, 0.0]
    for time in milliseconds:
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "as long as the first batch")
def last_of_equal_rounds(milliseconds, workers):
    return math.ceil(len(milliseconds) / workers) * milliseconds[0]


@wrong("last-batch", "wrong-result", "a place in the list")
def last_of_a_place(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
    return free.index(max(free))


@wrong("last-batch", "wrong-result", "one worker too many")
def last_of_one_more_worker(milliseconds, workers):
    free = [0.0] * (workers + 1)
    for time in milliseconds:
        free[free.index(min(free))] += time
    return max(free)


@wrong("last-batch", "wrong-result", "the last of a sorted list")
def last_of_a_list_sorted_too_early(milliseconds, workers):
    free = [0.0] * workers
    for time in milliseconds:
        free.sort()
        free[0] += time
    return free[-1]


@right("last-batch")
def last_by_a_heap(milliseconds, workers):
    free = [0.0] * workers
    end = 0.0
    for time in milliseconds:
        end_of_this = heapq.heappop(free) + time
        heapq.heappush(free, end_of_this)
        end = max(end, end_of_this)
    return end


@right("last-batch")
def last_by_sorting(milliseconds, workers):
    free = np.zeros(workers)
    for time in milliseconds:
        free[0] += time
        free.sort()
    return free[-1]


# --- two-laws -------------------------------------------------------------------------------------


@wrong("two-laws", "wrong-result", "gathering is left out")
def laws_without_gathering(start, working, gathering, workers):
    f = start / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "start is left out")
def laws_without_start(start, working, gathering, workers):
    f = gathering / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "divided by the working time")
def laws_of_the_working_time(start, working, gathering, workers):
    f = (start + gathering) / working
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "the part that is divided")
def laws_of_the_other_part(start, working, gathering, workers):
    f = working / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "the two are swapped")
def laws_swapped(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return workers - f * (workers - 1), 1 / (f + (1 - f) / workers)


@wrong("two-laws", "wrong-result", "the second is the first")
def laws_one_twice(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return (1 / (f + (1 - f) / workers),) * 2


@wrong("two-laws", "wrong-result", "you return milliseconds")
def laws_as_times(start, working, gathering, workers):
    return start + working / workers + gathering, start + working + gathering


@wrong("two-laws", "wrong-result", "you return efficiencies")
def laws_as_efficiencies(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f * workers + 1 - f), (workers - f * (workers - 1)) / workers


@wrong("two-laws", "wrong-result", "you return the ideal")
def laws_ideal(start, working, gathering, workers):
    return workers, workers


@wrong("two-laws", "wrong-result", "the serial part is forgotten in the second")
def laws_without_the_serial_work(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers * (1 - f)


@wrong("two-laws", "wrong-shape", "must be 2 values")
def laws_one_only(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers)


@wrong("two-laws", "wrong-result", "you return the limits")
def laws_of_the_limit(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / f, workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "has the serial part once")
def laws_of_separate_runs(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), float(workers)


@wrong("two-laws", "wrong-result", "brackets are missing")
def laws_without_brackets(start, working, gathering, workers):
    f = start + gathering / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "in percent")
def laws_of_percent(start, working, gathering, workers):
    f = 100 * (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "turned over")
def laws_turned_over(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return f + (1 - f) / workers, workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "a sign or a bracket")
def laws_with_another_sign(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (1 - workers)


@wrong("two-laws", "wrong-result", "a sign or a bracket")
def laws_without_the_second_bracket(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * workers - 1


@wrong("two-laws", "wrong-result", "you rounded")
def laws_rounded(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return round(1 / (f + (1 - f) / workers), 1), round(workers - f * (workers - 1), 1)


@wrong("two-laws", "wrong-result", "multiplied by the workers in f")
def laws_of_a_run_that_grew(start, working, gathering, workers):
    f = (start + gathering) / (start + workers * working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "brackets are missing in the first")
def laws_of_two_terms(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / f + (1 - f) / workers, workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "brackets are missing around 1 - f")
def laws_without_the_inner_bracket(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + 1 - f / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "divided by all three together")
def laws_without_any_bracket_in_f(start, working, gathering, workers):
    f = start + gathering / start + working + gathering
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "brackets are missing in the second")
def laws_of_a_product(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), (workers - f) * (workers - 1)


@wrong("two-laws", "wrong-result", "the second is turned over")
def laws_with_the_second_turned_over(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), 1 / (workers - f * (workers - 1))


@wrong("two-laws", "wrong-result", "divided by the time of the same work")
def laws_by_one_time(start, working, gathering, workers):
    all_of_them = start + working / workers + gathering
    one = start + working + gathering
    return one / all_of_them, (start + workers * working + gathering) / all_of_them


@wrong("two-laws", "wrong-result", "you return percent")
def laws_in_percent(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 100 / (f + (1 - f) / workers), 100 * (workers - f * (workers - 1))


@wrong("two-laws", "wrong-result", "`//` makes a share 0")
def laws_of_whole_shares(start, working, gathering, workers):
    f = (start + gathering) // (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "a bracket ends too early in the first")
def laws_with_an_early_bracket(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f)) / workers, workers - f * (workers - 1)


@wrong("two-laws", "wrong-result", "resolved wrongly in the second")
def laws_with_a_bracket_resolved(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return 1 / (f + (1 - f) / workers), workers - f * workers + 1


@right("two-laws")
def laws_from_times(start, working, gathering, workers):
    serial = start + gathering
    one = serial + working
    return one / (serial + working / workers), (serial + workers * working) / one


@right("two-laws")
def laws_as_an_array(start, working, gathering, workers):
    f = (start + gathering) / (start + working + gathering)
    return [workers / (1 + f * (workers - 1)), f + workers * (1 - f)]


# --- batch-size -----------------------------------------------------------------------------------


@wrong("batch-size", "wrong-result", "the whole time, the cost included")
def size_by_the_work(image, cost, share):
    return math.ceil(cost / (share * image))


@wrong("batch-size", "wrong-result", "you round down")
def size_rounded_down(image, cost, share):
    return int(cost * (1 - share) / (share * image))


@wrong("batch-size", "wrong-result", "or to the nearest number")
def size_rounded(image, cost, share):
    return round(cost * (1 - share) / (share * image))


@wrong("batch-size", "wrong-result", "you do not round up")
def size_as_a_fraction(image, cost, share):
    return cost * (1 - share) / (share * image)


@wrong("batch-size", "wrong-result", "one image more than needed|off by one|1 more")
def size_and_one(image, cost, share):
    n = 1
    while cost / (cost + n * image) > share:
        n += 1
    return n + 1


@wrong("batch-size", "wrong-result", "the batch's milliseconds")
def size_in_ms(image, cost, share):
    return cost / share


@wrong("batch-size", "wrong-result", "the milliseconds of the images")
def size_of_the_work_in_ms(image, cost, share):
    return cost * (1 - share) / share


@wrong("batch-size", "wrong-result", "what the images get")
def size_for_the_images_share(image, cost, share):
    return math.ceil(cost * share / ((1 - share) * image))


@wrong("batch-size", "wrong-result", "a costlier batch must be larger")
def size_upside_down(image, cost, share):
    return math.ceil(image * (1 - share) / (share * cost))


@wrong("batch-size", "wrong-result", "you leave the image's time out")
def size_without_the_image(image, cost, share):
    return math.ceil(cost * (1 - share) / share)


@wrong("batch-size", "wrong-result", "is no percentage")
def size_of_percent(image, cost, share):
    share = share / 100
    return math.ceil(cost * (1 - share) / (share * image))


@wrong("batch-size", "wrong-result", "returns None")
def size_printed(image, cost, share):
    print(math.ceil(cost * (1 - share) / (share * image)))


@wrong("batch-size", "wrong-result", "is at most the share, too")
def size_below_the_share(image, cost, share):
    n = 1
    while cost / (cost + n * image) >= share:
        n += 1
    return n


@wrong("batch-size", "wrong-result", "is at most the share, too")
def size_cut_and_one_more(image, cost, share):
    return int(cost * (1 - share) / (share * image)) + 1


@wrong("batch-size", "wrong-result", "go on *while*")
def size_by_the_other_condition(image, cost, share):
    n = 1
    while cost / (cost + n * image) <= share:
        n += 1
    return n


@wrong("batch-size", "wrong-result", "returns None", "give the loop no end")
def size_from_a_range(image, cost, share):
    for n in range(1, 10_000):
        if cost <= share * (cost + n * image):
            return n


@wrong("batch-size", "wrong-shape", "Return one whole number")
def size_all_that_do(image, cost, share):
    return [n for n in range(1, 1000) if cost <= share * (cost + n * image)]


@wrong("batch-size", "wrong-result", "Solve it for n")
def size_without_brackets(image, cost, share):
    return math.ceil(cost * (1 - share) / share * image)


@wrong("batch-size", "wrong-result", "you divide by 1 - share")
def size_by_the_other_share(image, cost, share):
    return math.ceil(cost / ((1 - share) * image))


@wrong("batch-size", "wrong-result", "a sign is wrong")
def size_with_another_sign(image, cost, share):
    return math.ceil(cost * (1 + share) / (share * image))


@wrong("batch-size", "wrong-result", "with a share of the cost")
def size_by_a_share_of_the_cost(image, cost, share):
    n = 1
    while n * image < share * cost:
        n += 1
    return n


@wrong("batch-size", "wrong-result", "you double the number")
def size_by_doubling(image, cost, share):
    n = 1
    while cost > share * (cost + n * image):
        n *= 2
    return n


@wrong("batch-size", "wrong-result", "in steps of 10")
def size_in_steps(image, cost, share):
    n = 1
    while cost > share * (cost + n * image):
        n += 10
    return n


@wrong("batch-size", "wrong-result", "give the loop no end")
def size_of_a_loop_that_ends_early(image, cost, share):
    for n in range(1, 1000):
        if cost <= share * (cost + n * image):
            break
    return n


@wrong("batch-size", "wrong-result", "you leave the share out")
def size_where_both_take_as_long(image, cost, share):
    n = 1
    while n * image < cost:
        n += 1
    return n


@right("batch-size")
def size_by_counting(image, cost, share):
    n = 1
    while cost > share * (cost + n * image):
        n += 1
    return n


@right("batch-size")
def size_by_numpy(image, cost, share):
    return np.ceil((cost / share - cost) / image)
