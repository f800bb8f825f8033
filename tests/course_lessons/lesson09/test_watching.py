"""A function whose threads never end is told who waits for whom, and leaves no thread behind."""

import linecache
import queue
import textwrap
import threading
import time
from functools import partial

import pytest

from course.checks.exercises import Case, FunctionExercise
from course.checks.judging import judge
from course.checks.verdicts import Failure
from course_lessons.lesson09 import watching
from course_lessons.lesson09.watching import call_watched

SECONDS = 0.4  # of what never ends
PLENTY = 300  # of what ends by itself, on a busy machine as well


@pytest.fixture(autouse=True)
def patience_with_a_busy_machine(monkeypatch):
    monkeypatch.setattr(watching, "GRACE", 60)


def failure_of(function, *arguments, seconds=PLENTY):
    """What the watch says of a call; no thread of it is left."""
    before = set(threading.enumerate())  # one of an earlier test may be about to end
    with pytest.raises(Failure) as caught:
        call_watched(function, arguments, seconds)
    assert set(threading.enumerate()) <= before
    return caught.value


def started(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def test_a_call_that_ends_gives_its_value_and_its_exception():
    def adds(a, b):
        found = []
        for thread in started(lambda: found.append(a + b)):
            thread.join()
        return found[0]

    assert call_watched(adds, (2, 3), PLENTY) == 5
    with pytest.raises(ZeroDivisionError):
        call_watched(lambda: 1 / 0, (), PLENTY)


def test_one_end_marker_for_three_workers():
    def one_end():
        waiting = queue.Queue(maxsize=2)

        def worker():
            while waiting.get() is not None:
                pass

        threads = started(worker, worker, worker)
        waiting.put(None)
        for thread in threads:
            thread.join()

    start = time.monotonic()
    failure = failure_of(one_end)
    assert time.monotonic() - start < PLENTY / 3  # told from what waits, not from the time
    assert failure.kind == "deadlock"
    for words in (
        "Your function waits in join() for the end of worker",
        "2 threads, worker, wait in waiting.get()",
        "the queue is empty",
    ):
        assert words in str(failure)
    assert failure.code == "thread.join()"


def test_a_full_queue_that_nobody_empties():
    def no_consumer():
        waiting = queue.Queue(maxsize=3)
        for number in range(10):
            waiting.put(number)

    failure = failure_of(no_consumer)
    assert failure.kind == "deadlock"
    assert "in waiting.put(...) for room: the queue is full, 3 of 3" in str(failure)
    assert failure.line == 4


def test_a_thread_that_died_is_named_where_others_wait_for_it():
    def producer_waits():
        waiting = queue.Queue(maxsize=1)

        def consumer():
            while True:
                waiting.get()[0]

        started(consumer)
        for number in range(5):
            waiting.put(number)

    failure = failure_of(producer_waits)
    assert failure.kind == "deadlock"
    assert "1 thread died: consumer of TypeError" in str(failure)


def test_a_death_that_nobody_heard_of_is_told_though_the_call_ended():
    def says_nothing():
        for thread in started(lambda: 1 / 0):
            thread.join()
        return 7

    failure = failure_of(says_nothing)
    assert failure.kind == "raised"
    assert "ZeroDivisionError" in str(failure) and "Nobody heard of it" in str(failure)


def test_a_thread_that_is_left_behind_waiting():
    def leaves():
        waiting = queue.Queue()
        started(waiting.get)
        return 7

    failure = failure_of(leaves)
    assert failure.kind == "deadlock"
    assert "has ended, but not all of its threads have ended" in str(failure)


@pytest.mark.parametrize("polls", [False, True])
def test_a_loop_without_an_end_is_stopped_when_time_is_up(polls):
    def endless():
        waiting = queue.Queue()
        while True:
            if polls:
                try:
                    waiting.get(timeout=0.05)
                except queue.Empty:
                    pass

    failure = failure_of(endless, seconds=SECONDS)
    assert failure.kind == "endless-loop"
    assert "After 0.4 seconds" in str(failure)


def test_other_ways_to_wait_for_good():
    def event():
        threading.Event().wait()

    def tasks():
        waiting = queue.Queue()
        waiting.put(1)
        waiting.join()

    assert "nobody set it" in str(failure_of(event))
    assert "waiting.join() for 1 task_done() more" in str(failure_of(tasks))


def test_slow_threads_are_no_deadlock():
    def slow():
        waiting, found = queue.Queue(maxsize=1), []

        def worker():
            while (item := waiting.get()) is not None:
                time.sleep(0.05)
                found.append(item)

        threads = started(worker, worker)
        for item in (1, 2, 3, 4, 5, 6, None, None):
            waiting.put(item)
        for thread in threads:
            thread.join()
        return sorted(found)

    assert call_watched(slow, (), PLENTY) == [1, 2, 3, 4, 5, 6]


def test_a_check_takes_the_time_limit_of_its_exercise():
    exercise = FunctionExercise(
        name="waits", lesson=99, title="", reference=lambda n: n,
        caller=partial(call_watched, seconds=PLENTY),
        cases=[Case("one", lambda rng: {"n": 1})], hints={"deadlock": "Think."},
    )  # fmt: skip

    def answer(n):
        return queue.Queue().get()

    def fine(n):
        return n

    def stub(n):
        pass

    verdict = judge(exercise, answer)
    assert verdict.kind == "deadlock" and "Hint: Think." in verdict.message
    assert judge(exercise, fine).status == "passed"
    assert judge(exercise, stub).status == "not started"


def test_an_endless_loop_is_shown_where_the_answer_is_not_inside_what_it_calls():
    source = textwrap.dedent(
        """
        def answer(work):
            while True:
                work()
        """
    )
    name = "<an answer of its own file>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {}
    exec(compile(source, name, "exec"), names)
    failure = failure_of(names["answer"], lambda: time.sleep(0.01), seconds=SECONDS)
    assert failure.kind == "endless-loop"
    assert "Your function is at `work()`" in failure.message
    assert failure.line == 3
