"""Wrong answers to the exercises of lesson 08 as students write them, and unusual right ones."""

import contextlib
import io
import math

import numpy as np

from bug_zoo import Answers

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right
STEPS = ("copy in", "kernel", "copy out")

# --- fill-the-queues ----------------------------------------------------------------------------


@wrong("fill-the-queues", "wrong-result", "You use 1 of 3 streams")
def queue_in_one_stream(images, streams):
    return [(step, image, 0) for image in range(images) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "overwrites image 0, which stream 0 has not copied out")
def queue_step_by_step(images, streams):
    return [(step, image, image % streams) for step in STEPS for image in range(images)]


@wrong("fill-the-queues", "wrong-result", "overwrites image 0")
def queue_copies_back_at_the_end(images, streams):
    queue = []
    for image in range(images):
        queue.append(("copy in", image, image % streams))
        queue.append(("kernel", image, image % streams))
    return queue + [("copy out", image, image % streams) for image in range(images)]


@wrong("fill-the-queues", "wrong-result", "nothing makes it wait")
def queue_a_stream_for_each_engine(images, streams):
    return [
        (step, image, place % streams)
        for image in range(images)
        for place, step in enumerate(STEPS)
    ]


@wrong("fill-the-queues", "wrong-result", "The copy out of image 0 is missing")
def queue_without_copies_out(images, streams):
    return [(step, image, image % streams) for image in range(images) for step in STEPS[:2]]


@wrong("fill-the-queues", "wrong-result", "is queued before its copy in")
def queue_kernel_first(images, streams):
    steps = ("kernel", "copy in", "copy out")
    return [(step, image, image % streams) for image in range(images) for step in steps]


@wrong("fill-the-queues", "wrong-result", "there is no stream 3; they are 0 to 2")
def queue_a_stream_for_each_image(images, streams):
    return [(step, image, image) for image in range(images) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "no whole number")
def queue_with_a_fraction(images, streams):
    return [(step, image, image / streams) for image in range(images) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "the step must be one of")
def queue_with_other_words(images, streams):
    steps = ("in", "kernel", "out")
    return [(step, image, image % streams) for image in range(images) for step in steps]


@wrong("fill-the-queues", "wrong-result", "it must have three parts")
def queue_of_pairs(images, streams):
    return [(step, image) for image in range(images) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "is queued 2 times")
def queue_twice(images, streams):
    once = [(step, image, image % streams) for image in range(images) for step in STEPS]
    return once + once


@wrong("fill-the-queues", "wrong-result", "there is no image 6")
def queue_from_1(images, streams):
    return [(step, n, n % streams) for n in range(1, images + 1) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "You use 2 of 3 streams")
def queue_in_two_streams(images, streams):
    return [(step, image, image % min(streams, 2)) for image in range(images) for step in STEPS]


@wrong("fill-the-queues", "wrong-result", "Give the streams an image each in turns|The busiest")
def queue_unevenly(images, streams):
    return [
        (step, image, max(image - images + streams, 0)) for image in range(images) for step in STEPS
    ]


@wrong("fill-the-queues", "wrong-result", "The copy in of image 6 is missing")
def queue_whole_rounds_only(images, streams):
    return [
        (step, first * streams + stream, stream)
        for first in range(images // streams)
        for stream in range(streams)
        for step in STEPS
    ]


@wrong("fill-the-queues", "wrong-result", "leave `yield` out")
def queue_by_yield(images, streams):
    for image in range(images):
        for step in STEPS:
            yield step, image, image % streams


@wrong("fill-the-queues", "wrong-result", "The copy in of image 1 is missing")
def queue_returned_too_early(images, streams):
    queue = []
    for image in range(images):
        queue += [(step, image, image % streams) for step in STEPS]
        return queue
    return queue


@wrong("fill-the-queues", "wrong-result", "You use 2 of 3 streams")
def queue_by_whole_division(images, streams):
    return [(step, image, image // streams) for image in range(images) for step in STEPS]


@right("fill-the-queues")
def queue_a_piece_for_each_stream(images, streams):
    each = -(-images // streams)
    return [(step, image, image // each) for image in range(images) for step in STEPS]


@right("fill-the-queues")
def queue_stream_by_stream(images, streams):
    return [
        (step, image, stream)
        for stream in range(streams)
        for image in range(stream, images, streams)
        for step in STEPS
    ]


@right("fill-the-queues")
def queue_in_groups(images, streams):
    queue = []
    for first in range(0, images, streams):
        group = range(first, min(first + streams, images))
        for step in STEPS:
            queue += [[step, image, image - first] for image in group]
    return tuple(queue)


# --- enough-streams -----------------------------------------------------------------------------


@wrong("enough-streams", "wrong-result", "you take one stream for each engine")
def enough_three(copy_in, kernel, copy_out):
    return 3


@wrong("enough-streams", "wrong-result", "you round to the nearest number")
def enough_rounded(copy_in, kernel, copy_out):
    return round((copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out))


@wrong("enough-streams", "wrong-result", "you round down")
def enough_rounded_down(copy_in, kernel, copy_out):
    return (copy_in + kernel + copy_out) // max(copy_in, kernel, copy_out)


@wrong("enough-streams", "wrong-result", "you do not round up")
def enough_as_a_fraction(copy_in, kernel, copy_out):
    return (copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out)


@wrong("enough-streams", "wrong-result", "its own time belongs")
def enough_for_the_others(copy_in, kernel, copy_out):
    times = sorted((copy_in, kernel, copy_out))
    return math.ceil((times[0] + times[1]) / times[2])


@wrong("enough-streams", "wrong-result", "one stream more than needed")
def enough_and_one(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / max(copy_in, kernel, copy_out)) + 1


@wrong("enough-streams", "wrong-result", "you divide by the shortest time")
def enough_by_the_shortest(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / max(min(copy_in, kernel, copy_out), 0.25))


@wrong("enough-streams", "wrong-result", "you count the engines")
def enough_engines(copy_in, kernel, copy_out):
    return sum(time > 0 for time in (copy_in, kernel, copy_out))


@wrong("enough-streams", "wrong-result", "divide by the kernel's time")
def enough_by_the_kernel(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / kernel)


@wrong("enough-streams", "wrong-result", "divide by the copy out's time")
def enough_by_the_copy_out(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / copy_out)


@wrong("enough-streams", "wrong-result", "one stream more than needed")
def enough_and_equal(copy_in, kernel, copy_out):
    streams = 1
    while streams * max(copy_in, kernel, copy_out) <= copy_in + kernel + copy_out:
        streams += 1
    return streams


@wrong("enough-streams", "wrong-result", "the average of the three")
def enough_on_average(copy_in, kernel, copy_out):
    return math.ceil((copy_in + kernel + copy_out) / 3)


@wrong("enough-streams", "wrong-shape", "one whole number")
def enough_in_a_list(copy_in, kernel, copy_out):
    return [enough_by_trying(copy_in, kernel, copy_out)]


@right("enough-streams")
def enough_by_trying(copy_in, kernel, copy_out):
    streams = 1
    while streams * max(copy_in, kernel, copy_out) < copy_in + kernel + copy_out:
        streams += 1
    return streams


@right("enough-streams")
def enough_from_the_model(copy_in, kernel, copy_out):
    from course.overlap import Stage, length, schedule, with_its_ends

    stage = Stage(copy_in, kernel, copy_out)
    return next(
        n for n in range(1, 9) if length(schedule(stage, 30, n)) < 1.0001 * with_its_ends(stage, 30)
    )


# --- pack-factors -------------------------------------------------------------------------------


@wrong("pack-factors", "wrong-result", "You never called take()")
def pack_into_new_memory(u, s, vt, k, take):
    return np.concatenate([u[:, :k].ravel(), s[:k], vt[:k].ravel()]).astype(np.float32)


@wrong("pack-factors", "wrong-result", "new memory, and that is pageable")
def pack_by_rebinding(u, s, vt, k, take):
    buffer = take(u.shape[0] * k + k + k * vt.shape[1])
    buffer = np.concatenate([u[:, :k].ravel(), s[:k], vt[:k].ravel()])
    return buffer


@wrong("pack-factors", "wrong-result", "You copy the whole factors")
def pack_whole_factors(u, s, vt, k, take):
    buffer = take(u.size + s.size + vt.size)
    buffer[:] = np.concatenate([u.ravel(), s, vt.ravel()])
    return buffer


@wrong("pack-factors", "wrong-result", "You took 3 buffers")
def pack_into_three_buffers(u, s, vt, k, take):
    buffers = []
    for part in (u[:, :k], s[:k], vt[:k]):
        buffers.append(take(part.size))
        buffers[-1][:] = part.ravel()
    return buffers[0]


@wrong("pack-factors", "wrong-result", "Nothing was written to|were never written")
def pack_without_s(u, s, vt, k, take):
    rows, columns = u.shape[0], vt.shape[1]
    buffer = take(rows * k + k + k * columns)
    buffer[: rows * k] = u[:, :k].ravel()
    buffer[rows * k + k :] = vt[:k].ravel()
    return buffer


@wrong("pack-factors", "wrong-result", "Where u[:, :k] belongs stands vt[:k]|the order is u, s, vt")
def pack_the_other_way_round(u, s, vt, k, take):
    parts = (vt[:k], s[:k], u[:, :k])
    buffer = take(sum(part.size for part in parts))
    buffer[:] = np.concatenate([part.ravel() for part in parts])
    return buffer


@wrong("pack-factors", "wrong-result", "Where u[:, :k] belongs stands u[:k].")
def pack_the_first_numbers_of_u(u, s, vt, k, take):
    rows, columns = u.shape[0], vt.shape[1]
    buffer = take(rows * k + k + k * columns)
    buffer[: rows * k] = u.ravel()[: rows * k]
    buffer[rows * k : rows * k + k] = s[:k]
    buffer[rows * k + k :] = vt.ravel()[: k * columns]
    return buffer


@wrong("pack-factors", "wrong-result", "column by column; it must be row by row")
def pack_u_by_columns(u, s, vt, k, take):
    parts = (u[:, :k].T, s[:k], vt[:k])
    buffer = take(sum(part.size for part in parts))
    buffer[:] = np.concatenate([part.ravel() for part in parts])
    return buffer


@wrong("pack-factors", "wrong-result", "Where u[:, :k] belongs stands u[:k].")
def pack_rows_of_u(u, s, vt, k, take):
    rows, columns = u.shape[0], vt.shape[1]
    buffer = take(rows * k + k + k * columns)
    buffer[: rows * k] = u[:k].ravel()
    buffer[rows * k : rows * k + k] = s[:k]
    buffer[rows * k + k :] = vt[:k].ravel()
    return buffer


@wrong("pack-factors", "wrong-result", "not n bytes")
def pack_bytes(u, s, vt, k, take):
    parts = (u[:, :k], s[:k], vt[:k])
    buffer = take(4 * sum(part.size for part in parts))
    buffer[: sum(part.size for part in parts)] = np.concatenate([part.ravel() for part in parts])
    return buffer


@wrong("pack-factors", "wrong-result", "Return the buffer, an array; got tuple")
def pack_with_the_size(u, s, vt, k, take):
    buffer = take(u.shape[0] * k + k + k * vt.shape[1])
    return buffer, buffer.size


@wrong("pack-factors", "wrong-result", "Nothing was written to numbers 0 to 11")
def pack_nothing(u, s, vt, k, take):
    return take(u.shape[0] * k + k + k * vt.shape[1])


@wrong("pack-factors", "wrong-result", "A part begins where the one before it ends")
def pack_all_to_the_beginning(u, s, vt, k, take):
    parts = (u[:, :k], s[:k], vt[:k])
    buffer = take(sum(part.size for part in parts))
    start = 0
    for part in parts:
        buffer[start : start + part.size] = part.ravel()
    return buffer


@wrong("pack-factors", "wrong-result", "lends n numbers, not n bytes")
def pack_into_as_many_as_bytes(u, s, vt, k, take):
    parts = (u[:, :k], s[:k], vt[:k])
    buffer = take(sum(part.size * 4 for part in parts))
    start = 0
    for part in parts:
        buffer[start : start + part.size] = part.ravel()
        start += part.size
    return buffer


@wrong("pack-factors", "wrong-result", "return the part that you filled, buffer[:26]")
def pack_and_return_too_much(u, s, vt, k, take):
    packed = np.concatenate([u[:, :k].ravel(), s[:k], vt[:k].ravel()])
    buffer = take(packed.size + 100)
    buffer[: packed.size] = packed
    return buffer


@wrong("pack-factors", "wrong-result", "Where u[:, :k] belongs stands u[:, :k] * s[:k]")
def pack_scaled(u, s, vt, k, take):
    return pack_part_by_part(u * s, s, vt, k, take)


@wrong("pack-factors", "wrong-result", "new memory, and that is pageable")
def pack_and_copy(u, s, vt, k, take):
    return pack_part_by_part(u, s, vt, k, take).copy()


@wrong("pack-factors", "raised", "could not broadcast", "rows · k of them")
def pack_without_ravel(u, s, vt, k, take):
    buffer = take(u.shape[0] * k + k + k * vt.shape[1])
    buffer[: u.shape[0] * k] = u[:, :k]
    return buffer


@right("pack-factors")
def pack_part_by_part(u, s, vt, k, take):
    rows, columns = u.shape[0], vt.shape[1]
    buffer = take((rows + 1 + columns) * k)
    there = 0
    for part in (u[:, :k], s[:k], vt[:k]):
        np.copyto(buffer[there : there + part.size].reshape(part.shape), part, casting="same_kind")
        there += part.size
    return buffer


@right("pack-factors")
def pack_into_a_larger_one(u, s, vt, k, take):
    parts = [u[:, :k].ravel(), s[:k], vt[:k].ravel()]
    used = sum(map(len, parts))
    buffer = take(used + 100)[:used]
    np.concatenate(parts, out=buffer, casting="same_kind")
    return buffer


# --- serial-fractions ---------------------------------------------------------------------------


def by_rule(rule):
    def answer(workers, milliseconds):
        return [
            rule(milliseconds[0] / time, count)
            for count, time in zip(workers[1:], milliseconds[1:], strict=True)
        ]

    return answer


@wrong("serial-fractions", "wrong-result", "the speed-up is upside down")
def fractions_upside_down(workers, milliseconds):
    return by_rule(lambda speedup, n: (speedup - 1 / n) / (1 - 1 / n))(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "you do not divide by 1 - 1 / workers")
def fractions_without_the_divisor(workers, milliseconds):
    return by_rule(lambda speedup, n: 1 / speedup - 1 / n)(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "the efficiency that is lost")
def fractions_of_lost_efficiency(workers, milliseconds):
    return by_rule(lambda speedup, n: 1 - speedup / n)(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "you return the speed-up itself")
def fractions_as_speedups(workers, milliseconds):
    return by_rule(lambda speedup, n: speedup)(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "the part that is parallel")
def fractions_that_are_parallel(workers, milliseconds):
    return by_rule(lambda speedup, n: 1 - (1 / speedup - 1 / n) / (1 - 1 / n))(
        workers, milliseconds
    )


@wrong("serial-fractions", "wrong-result", "Gustafson's fraction")
def fractions_by_gustafson(workers, milliseconds):
    return by_rule(lambda speedup, n: (n - speedup) / (n - 1))(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "you return percent")
def fractions_in_percent(workers, milliseconds):
    return by_rule(lambda speedup, n: 100 * (1 / speedup - 1 / n) / (1 - 1 / n))(
        workers, milliseconds
    )


@wrong("serial-fractions", "wrong-shape|raised", "One fraction for each|begin at the second")
def fractions_with_the_first(workers, milliseconds):
    count, time = np.array(workers, float), np.array(milliseconds)
    with np.errstate(all="ignore"):
        return (time / time[0] - 1 / count) / (1 - 1 / count)


@wrong("serial-fractions", "raised", "begin at the second")
def fractions_that_divide_by_zero(workers, milliseconds):
    return [
        (time / milliseconds[0] - 1 / n) / (1 - 1 / n)
        for n, time in zip(workers, milliseconds, strict=True)
    ]


@wrong("serial-fractions", "wrong-result", "with the one before it")
def fractions_of_the_time_before(workers, milliseconds):
    return [
        (milliseconds[i] / milliseconds[i - 1] - 1 / workers[i]) / (1 - 1 / workers[i])
        for i in range(1, len(workers))
    ]


@wrong("serial-fractions", "wrong-result", "put brackets around")
def fractions_without_brackets(workers, milliseconds):
    return by_rule(lambda speedup, n: 1 / speedup - 1 / n / (1 - 1 / n))(workers, milliseconds)


@wrong("serial-fractions", "wrong-result", "stands in `workers`")
def fractions_by_the_index(workers, milliseconds):
    return [
        (milliseconds[i] / milliseconds[0] - 1 / (i + 1)) / (1 - 1 / (i + 1))
        for i in range(1, len(workers))
    ]


@wrong("serial-fractions", "wrong-result", "cut off what is above 1")
def fractions_cut_at_1(workers, milliseconds):
    return np.minimum(fractions_by_the_other_form(workers, milliseconds), 1)


@wrong("serial-fractions", "wrong-result", "round to two digits")
def fractions_in_two_digits(workers, milliseconds):
    return [round(float(f), 2) for f in fractions_by_the_other_form(workers, milliseconds)]


@wrong("serial-fractions", "input-modified", "belongs to the caller")
def fractions_by_popping(workers, milliseconds):
    first = milliseconds.pop(0)
    workers.pop(0)
    return [
        (time / first - 1 / n) / (1 - 1 / n) for n, time in zip(workers, milliseconds, strict=True)
    ]


@wrong("serial-fractions", "wrong-shape", "One fraction for each")
def fraction_of_the_last(workers, milliseconds):
    return fractions_by_the_other_form(workers, milliseconds)[-1]


@right("serial-fractions")
def fractions_by_the_other_form(workers, milliseconds):
    count, time = np.array(workers[1:]), np.array(milliseconds[1:])
    return (count * time / milliseconds[0] - 1) / (count - 1)


# --- graph-pays ---------------------------------------------------------------------------------


def saved_by(kernels, launch, replay, node):
    return kernels * launch - replay - kernels * node


@wrong("graph-pays", "wrong-result", "you round down")
def pays_rounded_down(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return int(capture / saved) if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "both cost the same; it must cost less")
def pays_when_equal(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return math.ceil(capture / saved) if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "you do not round up|half a run saves nothing")
def pays_as_a_fraction(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return capture / saved if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "replay is left out")
def pays_without_replay(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, 0, node)
    return int(capture / saved) + 1 if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "node is left out")
def pays_without_nodes(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, 0)
    return int(capture / saved) + 1 if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "node is counted once")
def pays_with_one_node(kernels, launch, capture, replay, node):
    saved = kernels * launch - replay - node
    return int(capture / saved) + 1 if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "where the graph never pays; return 0")
def pays_minus_1_for_never(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return int(capture / saved) + 1 if saved > 0 else -1


@wrong("graph-pays", "wrong-result", "capture is left out")
def pays_at_once(kernels, launch, capture, replay, node):
    return 1 if saved_by(kernels, launch, replay, node) > 0 else 0


@wrong("graph-pays", "raised", "meet a 0")
def pays_if_a_replay_costs_as_much(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return int(capture // saved) + 1 if saved >= 0 else 0


@wrong("graph-pays", "wrong-result", "though it saves nothing")
def pays_a_negative_number(kernels, launch, capture, replay, node):
    return int(capture // saved_by(kernels, launch, replay, node)) + 1


@wrong("graph-pays", "wrong-result", "a run with the graph costs nothing")
def pays_if_replays_were_free(kernels, launch, capture, replay, node):
    return int(capture // (kernels * launch)) + 1


@wrong("graph-pays", "wrong-result", "one run too many")
def pays_after_the_capture(kernels, launch, capture, replay, node):
    saved = saved_by(kernels, launch, replay, node)
    return int(capture // saved) + 2 if saved > 0 else 0


@wrong("graph-pays", "wrong-result", "you launch one kernel a run")
def pays_for_one_launch(kernels, launch, capture, replay, node):
    saved = launch - replay - node * kernels
    return int(capture // saved) + 1 if saved > 0 else 0


@right("graph-pays")
def pays_by_counting(kernels, launch, capture, replay, node):
    if replay + kernels * node >= kernels * launch:
        return 0
    runs = 1
    while capture + runs * (replay + kernels * node) >= runs * kernels * launch:
        runs += 1
    return runs


# --- stale-outputs ------------------------------------------------------------------------------


def printed(source, names):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        exec(source, names)
    return text.getvalue()


@wrong("stale-outputs", "raised", "images")
def stale_with_a_namespace_each(cells):
    return [place for place, (source, saved) in enumerate(cells) if printed(source, {}) != saved]


@wrong("stale-outputs", "wrong-result", "you count from 1")
def stale_from_1(cells):
    names = {}
    return [n for n, (source, saved) in enumerate(cells, 1) if printed(source, names) != saved]


@wrong("stale-outputs", "wrong-result", "which are the cells that do print what is saved")
def stale_the_good_ones(cells):
    names = {}
    return [n for n, (source, saved) in enumerate(cells) if printed(source, names) == saved]


@wrong("stale-outputs", "wrong-result", "does not print what is saved")
def stale_nothing(cells):
    return []


@wrong("stale-outputs", "wrong-result", "Run the cells in the order|compare each with its own")
def stale_after_all_have_run(cells):
    names = {}
    for source, _ in cells:
        printed(source, names)
    return [n for n, (source, saved) in enumerate(cells) if printed(source, names) != saved]


@wrong("stale-outputs", "wrong-result", "compare each with its own output alone")
def stale_by_everything_printed(cells):
    names, everything, found = {}, "", []
    for place, (source, saved) in enumerate(cells):
        everything += printed(source, names)
        if everything != saved:
            found.append(place)
    return found


@wrong("stale-outputs", "wrong-result", "Return a list of places")
def stale_as_a_number(cells):
    names = {}
    return sum(printed(source, names) != saved for source, saved in cells)


@wrong("stale-outputs", "wrong-result", "compare the whole text")
def stale_if_not_within(cells):
    names = {}
    return [n for n, (source, saved) in enumerate(cells) if saved not in printed(source, names)]


SESSION = {}


@wrong("stale-outputs", "wrong-result", "a new one for each notebook")
def stale_in_one_namespace_for_ever(cells):
    SESSION.pop("square", None)  # as in the first check of a session
    return [n for n, (source, saved) in enumerate(cells) if printed(source, SESSION) != saved]


@wrong("stale-outputs", "raised", "comes before the loop")
def stale_where_cells_without_output_are_left_out(cells):
    names = {}
    return [
        n for n, (source, saved) in enumerate(cells) if saved and printed(source, names) != saved
    ]


@wrong("stale-outputs", "input-modified", "belongs to the caller")
def stale_and_mended(cells):
    names, found = {}, []
    for place, (source, saved) in enumerate(cells):
        text = printed(source, names)
        if text != saved:
            cells[place] = (source, text)
            found.append(place)
    return found


@wrong("stale-outputs", "wrong-result", "Places are whole numbers")
def stale_sources(cells):
    names = {}
    return [source for source, saved in cells if printed(source, names) != saved]


@wrong("stale-outputs", "wrong-result", "does not print what is saved")
def stale_the_first_one(cells):
    names = {}
    for place, (source, saved) in enumerate(cells):
        if printed(source, names) != saved:
            return [place]
    return []


@right("stale-outputs")
def stale_by_running_all_before_anew(cells):
    found = []
    for place, (source, saved) in enumerate(cells):
        names = {}
        for earlier, _ in cells[:place]:
            printed(earlier, names)
        if printed(source, names) != saved:
            found.append(place)
    return found


@right("stale-outputs")
def stale_as_an_array(cells):
    names = {"__name__": "__main__"}
    return np.flatnonzero([printed(source, names) != saved for source, saved in cells])
