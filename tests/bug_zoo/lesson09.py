"""Wrong answers to the exercises of lesson 09 as students write them, and unusual right ones."""

import os
import queue
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Thread

from numba import float32

from bug_zoo import Answers
from course import cuda

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

# --- rebuild-many -------------------------------------------------------------------------------


@wrong("rebuild-many", "wrong-result|unwritten-output", "factors of the first")
@cuda.jit
def many_of_the_first(u, s, vt, k, out):
    col, row, image = cuda.grid(3)
    if image < out.shape[0] and row < out.shape[1] and col < out.shape[2]:
        total = float32(0)
        for i in range(k):
            total += u[0, row, i] * s[0, i] * vt[0, i, col]
        out[image, row, col] = total


@wrong("rebuild-many", "wrong-result", "s of the first")
@cuda.jit
def many_with_one_s(u, s, vt, k, out):
    col, row, image = cuda.grid(3)
    if image < out.shape[0] and row < out.shape[1] and col < out.shape[2]:
        total = float32(0)
        for i in range(k):
            total += u[image, row, i] * s[0, i] * vt[image, i, col]
        out[image, row, col] = total


@wrong("rebuild-many", "out-of-bounds", "Three guards")
@cuda.jit
def many_without_the_third_guard(u, s, vt, k, out):
    col, row, image = cuda.grid(3)
    if row < out.shape[1] and col < out.shape[2]:
        total = float32(0)
        for i in range(k):
            total += u[image, row, i] * s[image, i] * vt[image, i, col]
        out[image, row, col] = total


@wrong("rebuild-many", "float64", "float32(0)")
@cuda.jit
def many_in_float64(u, s, vt, k, out):
    col, row, image = cuda.grid(3)
    if image < out.shape[0] and row < out.shape[1] and col < out.shape[2]:
        total = 0.0
        for i in range(k):
            total += u[image, row, i] * s[image, i] * vt[image, i, col]
        out[image, row, col] = total


@wrong("rebuild-many", "uncoalesced", "walks along the columns")
@cuda.jit
def many_down_the_rows(u, s, vt, k, out):
    row, col, image = cuda.grid(3)
    while row < out.shape[1] and image < out.shape[0]:
        c = col
        while c < out.shape[2]:
            total = float32(0)
            for i in range(k):
                total += u[image, row, i] * s[image, i] * vt[image, i, c]
            out[image, row, c] = total
            c += cuda.gridsize(3)[1]
        row += cuda.gridsize(3)[0]


@wrong("rebuild-many", "limit|race", "Store each pixel once|Is the image an index")
@cuda.jit
def many_by_every_image_thread(u, s, vt, k, out):
    col, row, image = cuda.grid(3)
    if image < out.shape[0] and row < out.shape[1] and col < out.shape[2]:
        for n in range(out.shape[0]):
            total = float32(0)
            for i in range(k):
                total += u[n, row, i] * s[n, i] * vt[n, i, col]
            out[n, row, col] = total


@wrong("rebuild-many", "out-of-bounds|typing", "image")
@cuda.jit
def many_in_two_dimensions(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@right("rebuild-many")
@cuda.jit
def many_by_block_index(u, s, vt, k, out):
    image = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if image >= out.shape[0]:
        return
    if row < out.shape[1] and col < out.shape[2]:
        its_u, its_s, its_vt = u[image], s[image], vt[image]
        total = float32(0)
        for i in range(k):
            total += its_u[row, i] * (its_s[i] * its_vt[i, col])
        out[image, row, col] = total


# --- run-workers --------------------------------------------------------------------------------


def workers_of(
    ends="one each", room_of="room", joins=True, threads_of="workers", late=False, one_item=False
):
    """The solution with one thing changed."""

    def run_workers(items, work, workers, room):
        waiting = queue.Queue(maxsize={"room": room, "none": 0}[room_of])
        results = []

        def worker():
            while (item := waiting.get()) is not None:
                results.append(work(item))
                if one_item:
                    return

        number = {"workers": workers, "one": 1, "more": workers + 3}[threads_of]
        threads = [threading.Thread(target=worker) for _ in range(number)]
        if not late:
            for thread in threads:
                thread.start()
        for item in items:
            waiting.put(item)
        if ends != "none":
            for _ in range(number if ends == "one each" else 1):
                waiting.put(None)
        if late:
            for thread in threads:
                thread.start()
        if joins:
            for thread in threads:
                thread.join()
        return list(results)

    return run_workers


wrong("run-workers", "deadlock", "in join() for the end of worker", "as many as there are workers")(
    workers_of(ends="one")
)
wrong("run-workers", "deadlock", "in waiting.get() for something to come", "queue is empty")(
    workers_of(ends="none")
)
wrong("run-workers", "deadlock", "the queue is full", "Start the workers first")(
    workers_of(late=True)
)
wrong("run-workers", "wrong-result", "maxsize=room")(workers_of(room_of="none"))
wrong("run-workers", "wrong-result", "only 1 thread did the work")(workers_of(threads_of="one"))
wrong("run-workers", "wrong-result", "7 threads|8 threads|threads did the work")(
    workers_of(threads_of="more")
)
wrong("run-workers", "deadlock", "the queue is full")(workers_of(one_item=True))


@wrong("run-workers", "wrong-result", "only 1 thread did the work")
def workers_nobody(items, work, workers, room):
    return [work(item) for item in items]


@wrong("run-workers", "raised|deadlock", "end marker|TypeError")
def workers_that_work_on_the_end(items, work, workers, room):
    waiting, results = queue.Queue(maxsize=room), []

    def worker():
        item = 0
        while item is not None:
            item = waiting.get()
            results.append(work(item))

    threads = [threading.Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return results


@wrong("run-workers", "wrong-result", "were taken from items")
def workers_of_a_pool(items, work, workers, room):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


@wrong("run-workers", "deadlock|wrong-result", "No other thread is left|waiting.get()|missing")
def workers_that_look_whether_it_is_empty(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while not waiting.empty():
            results.append(work(waiting.get()))

    threads = [Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for thread in threads:
        thread.join()
    return results


@wrong("run-workers", "endless-loop", "has not ended")
def workers_that_ask_again_and_again(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while True:
            try:
                results.append(work(waiting.get(timeout=0.05)))
            except queue.Empty:
                pass

    threads = [Thread(target=worker, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for thread in threads:
        thread.join()
    return results


@wrong("run-workers", "wrong-result", "do you wait, with join")
def workers_that_nobody_waits_for(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while (item := waiting.get()) is not None:
            results.append(work(item))

    for _ in range(workers):
        Thread(target=worker).start()
    for item in [*items, *[None] * workers]:
        waiting.put(item)
    return results


@wrong("run-workers", "deadlock", "No other thread is left", "0 is an item")
def workers_that_end_at_a_zero(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while item := waiting.get():
            results.append(work(item))

    threads = [Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return results


@wrong("run-workers", "deadlock", "Your function waits in waiting.get()", "without brackets")
def workers_called_at_once(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while (item := waiting.get()) is not None:
            results.append(work(item))

    threads = [Thread(target=worker()) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    return results


@wrong("run-workers", "deadlock|wrong-result", "the queue is full|missing")
def workers_that_lose_patience(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while True:
            try:
                item = waiting.get(timeout=0.1)
            except queue.Empty:
                return
            results.append(work(item))

    threads = [Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for thread in threads:
        thread.join()
    return results


@wrong("run-workers", "wrong-result", "yours has a yield")
def workers_asked_one_by_one(items, work, workers, room):
    yield from map(work, items)


@right("run-workers")
def workers_that_pass_the_end_on(items, work, workers, room):
    """One None goes from worker to worker."""
    waiting, done = Queue(room), Queue()

    def worker():
        while True:
            item = waiting.get()
            if item is None:
                waiting.put(None)
                return
            done.put(work(item))

    threads = [Thread(target=worker, daemon=True) for _ in range(workers)]
    [thread.start() for thread in threads]
    for item in items:
        waiting.put(item)
    waiting.put(None)
    [thread.join() for thread in threads]
    return [done.get() for _ in range(done.qsize())]


@right("run-workers")
def workers_counted_by_task_done(items, work, workers, room):
    waiting, results = Queue(maxsize=room), []

    def worker():
        while True:
            item = waiting.get()
            if item is not None:
                results.append(work(item))
            waiting.task_done()
            if item is None:
                break

    for _ in range(workers):
        Thread(target=worker).start()
    for item in items:
        waiting.put(item)
    for _ in range(workers):
        waiting.put(None)
    waiting.join()
    return tuple(results)


# --- errors-travel ------------------------------------------------------------------------------


@wrong("errors-travel", "raised", "not an image", "must not leave the loop")
def errors_not_caught(waiting, done, work):
    while (entry := waiting.get()) is not None:
        number, image = entry
        done.put((number, work(image), None))
    return 0


@wrong("errors-travel", "raised", "the file is gone")
def errors_of_one_kind(waiting, done, work):
    bad = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            done.put((number, work(image), None))
        except ValueError as error:
            bad += 1
            done.put((number, None, str(error)))
    return bad


@wrong("errors-travel", "wrong-result", "Image 2 is lost", "number and the reason")
def errors_passed_over(waiting, done, work):
    bad = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            done.put((number, work(image), None))
        except Exception:
            bad += 1
    return bad


@wrong("errors-travel", "wrong-result", "Image 3 is lost")
def errors_end_the_loop(waiting, done, work):
    bad = 0
    try:
        while (entry := waiting.get()) is not None:
            number, image = entry
            done.put((number, work(image), None))
    except Exception as error:
        bad += 1
        done.put((number, None, str(error)))
    return bad


@wrong("errors-travel", "deadlock", "in waiting.get()", "Take it out and end")
def errors_without_an_end(waiting, done, work):
    bad = 0
    while True:
        entry = waiting.get()
        if entry is None:
            continue
        number, image = entry
        try:
            done.put((number, work(image), None))
        except Exception as error:
            bad += 1
            done.put((number, None, str(error)))


@wrong("errors-travel", "wrong-result", "take str(error)")
def errors_without_a_reason(waiting, done, work):
    bad = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            done.put((number, work(image), None))
        except Exception:
            bad += 1
            done.put((number, None, "bad image"))
    return bad


@wrong("errors-travel", "wrong-result", "None was put into done")
def errors_and_the_end_handed_on(waiting, done, work):
    bad = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            done.put((number, work(image), None))
        except Exception as error:
            bad += 1
            done.put((number, None, str(error)))
    done.put(None)
    return bad


@wrong("errors-travel", "wrong-result", "Return the number of bad images")
def errors_counted_among_all(waiting, done, work):
    count = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        count += 1
        try:
            done.put((number, work(image), None))
        except Exception as error:
            done.put((number, None, str(error)))
    return count


@wrong("errors-travel", "wrong-result", "Hand on each as soon as it is ready")
def errors_handed_on_at_the_end(waiting, done, work):
    triples = []
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            triples.append((number, work(image), None))
        except Exception as error:
            triples.append((number, None, str(error)))
    for triple in triples:
        done.put(triple)
    return sum(reason is not None for _, _, reason in triples)


@right("errors-travel")
def errors_as_they_are(waiting, done, work):
    bad = []
    for number, image in iter(waiting.get, None):
        result = reason = None
        try:
            result = work(image)
        except BaseException as error:
            reason = error
            bad.append(number)
        finally:
            done.put((number, result, reason))
    return len(bad)


# --- write-in-order -----------------------------------------------------------------------------


@wrong("write-in-order", "wrong-result", "the order in which they came")
def order_as_it_comes(pairs, write):
    for _, result in pairs:
        write(result)
    return 0


@wrong("write-in-order", "wrong-result", "as soon as its turn comes")
def order_by_sorting_all(pairs, write):
    everything = sorted(pairs)
    for _, result in everything:
        write(result)
    return len(everything)


@wrong("write-in-order", "wrong-result", "a while, not an if")
def order_one_for_each_arrival(pairs, write):
    early, turn, most = {}, 0, 0
    for number, result in pairs:
        early[number] = result
        if turn in early:
            write(early.pop(turn))
            turn += 1
        most = max(most, len(early))
    return most


@wrong("write-in-order", "wrong-result", "count after writing")
def order_counted_before(pairs, write):
    early, turn, most = {}, 0, 0
    for number, result in pairs:
        early[number] = result
        most = max(most, len(early))
        while turn in early:
            write(early.pop(turn))
            turn += 1
    return most


@wrong("write-in-order", "wrong-result", "Give it the result")
def order_writes_pairs(pairs, write):
    early, turn, most = {}, 0, 0
    for number, result in pairs:
        early[number] = result
        while turn in early:
            write((turn, early.pop(turn)))
            turn += 1
        most = max(most, len(early))
    return most


@wrong("write-in-order", "wrong-result", "which counts as false")
def order_while_true(pairs, write):
    early, turn, most = {}, 0, 0
    for number, result in pairs:
        early[number] = result
        while early.get(turn):
            write(early.pop(turn))
            turn += 1
        most = max(most, len(early))
    return most


@wrong("write-in-order", "wrong-result", "Number 0 never was")
def order_from_one_on(pairs, write):
    early, turn, most = {}, 1, 0
    for number, result in pairs:
        early[number] = result
        while turn in early:
            write(early.pop(turn))
            turn += 1
        most = max(most, len(early))
    return most


@right("write-in-order")
def order_with_a_heap(pairs, write):
    import heapq

    heap, turn, most = [], 0, 0
    for pair in pairs:
        heapq.heappush(heap, pair)
        while heap and heap[0][0] == turn:
            write(heapq.heappop(heap)[1])
            turn += 1
        most = max(most, len(heap))
    return most


# --- slowest-stage ------------------------------------------------------------------------------


@wrong("slowest-stage", "wrong-result", "workers of a stage are left out")
def slowest_of_one_worker(stages):
    name = max(stages, key=lambda stage: stages[stage][0])
    return name, 1000 / stages[name][0]


@wrong("slowest-stage", "wrong-result", "whatever its workers")
def slowest_by_time_alone(stages):
    name = max(stages, key=lambda stage: stages[stage][0])
    return name, 1000 * stages[name][1] / stages[name][0]


@wrong("slowest-stage", "wrong-result", "one after the other")
def slowest_of_a_sum(stages):
    name = min(stages, key=lambda stage: stages[stage][1] / stages[stage][0])
    return name, 1000 / sum(ms / workers for ms, workers in stages.values())


@wrong("slowest-stage", "wrong-result", "the fastest")
def slowest_the_wrong_way_round(stages):
    rates = {name: 1000 * workers / ms for name, (ms, workers) in stages.items()}
    name = max(rates, key=rates.get)
    return name, rates[name]


@wrong("slowest-stage", "wrong-result", "0.001 times")
def slowest_in_milliseconds(stages):
    rates = {name: workers / ms for name, (ms, workers) in stages.items()}
    name = min(rates, key=rates.get)
    return name, rates[name]


@wrong("slowest-stage", "wrong-result", "changed places")
def slowest_turned(stages):
    rates = {name: 1000 * workers / ms for name, (ms, workers) in stages.items()}
    name = min(rates, key=rates.get)
    return rates[name], name


@right("slowest-stage")
def slowest_by_sorting(stages):
    times = sorted((ms / workers, name) for name, (ms, workers) in stages.items())
    return [times[-1][1], 1 / (times[-1][0] / 1e3)]


# --- save-whole ---------------------------------------------------------------------------------


@wrong("save-whole", "wrong-result", "holds 0 of 65 bytes", "takes it for a whole image")
def saved_at_once(path, data):
    path.write_bytes(data)


@wrong("save-whole", "wrong-result", "holds 0 of 65 bytes")
def saved_with_fsync(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@wrong("save-whole", "wrong-result", "is still there", "Rename it")
def saved_by_copy(path, data):
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    shutil.copyfile(part, path)


@wrong("save-whole", "wrong-result", "no 0007.png at all", "remove nothing")
def saved_where_the_old_was_removed(path, data):
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    path.unlink(missing_ok=True)
    os.rename(part, path)


@wrong("save-whole", "wrong-result", "holds 0 of 65 bytes")
def saved_before_it_was_closed(path, data):
    part = path.with_name(path.name + ".part")
    file = open(part, "wb")
    file.write(data)
    os.replace(part, path)
    file.close()


@wrong("save-whole", "wrong-result", "lies in another folder")
def saved_from_another_folder(path, data):
    number, name = tempfile.mkstemp()
    with os.fdopen(number, "wb") as file:
        file.write(data)
    os.replace(name, path)


@wrong("save-whole", "wrong-result", "there is no 0007.png")
def saved_under_the_second_name(path, data):
    path.with_name(path.name + ".part").write_bytes(data)


@wrong("save-whole", "wrong-result", "still has its older content")
def saved_only_where_nothing_is(path, data):
    if not path.exists():
        part = path.with_name(path.name + ".part")
        part.write_bytes(data)
        os.replace(part, path)


@wrong("save-whole", "wrong-result", "the next run's call", "FileExistsError")
def saved_where_nothing_was_left(path, data):
    part = path.with_name(path.name + ".part")
    with open(part, "xb") as file:
        file.write(data)
    os.replace(part, path)


@wrong("save-whole", "wrong-result", "the next run's call", "97 bytes")
def saved_behind_what_was_left(path, data):
    part = path.with_name(path.name + ".part")
    with open(part, "ab") as file:
        file.write(data)
    os.replace(part, path)


@right("save-whole")
def saved_by_path(path, data):
    part = path.with_suffix(".unfinished")
    part.write_bytes(data)
    part.replace(path)


@right("save-whole")
def saved_by_mkstemp(path, data):
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


# --- left-to-do ---------------------------------------------------------------------------------


@wrong("left-to-do", "wrong-result", "has no newline")
def left_by_every_line(names, journal):
    return [name for name in names if name not in journal.splitlines()]


@wrong("left-to-do", "wrong-result", "anywhere in the text|has no newline")
def left_by_text(names, journal):
    return [name for name in names if name not in journal]


@wrong("left-to-do", "wrong-result", "is in '12")
def left_by_text_and_newline(names, journal):
    return [name for name in names if name + "\n" not in journal]


@wrong("left-to-do", "wrong-result", "do not finish in their order")
def left_by_count(names, journal):
    return names[journal.count("\n") :]


@wrong("left-to-do", "wrong-result", "keep the order")
def left_as_a_set(names, journal):
    return sorted(set(names) - set(journal.split("\n")[:-1]), reverse=True)


@wrong("left-to-do", "wrong-result", "the images that are done")
def left_the_done(names, journal):
    return [name for name in names if name in journal.split("\n")[:-1]]


@wrong("left-to-do", "wrong-result", "cuts at blanks")
def left_by_words(names, journal):
    done = journal[: journal.rfind("\n") + 1].split()
    return [name for name in names if name not in done]


@right("left-to-do")
def left_line_by_line(names, journal):
    left = dict.fromkeys(names)
    for line in journal.splitlines(keepends=True):
        if line.endswith("\n"):
            left.pop(line[:-1], None)
    return tuple(left)
