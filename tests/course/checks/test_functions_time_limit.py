"""Work that takes too long is stopped, and nothing else is."""

import subprocess
import sys
import time

import pytest

from course.checks.functions import OutOfTime, time_limit


def test_a_loop_without_an_end_is_stopped():
    start, steps = time.perf_counter(), 0
    with pytest.raises(OutOfTime), time_limit(0.05):
        while True:
            steps += 1
    assert steps and 0.04 < time.perf_counter() - start < 60  # 60: on a busy machine


def test_an_answers_own_except_does_not_swallow_it():
    with pytest.raises(OutOfTime), time_limit(0.05):
        while True:
            try:
                time.sleep(0.001)
            except Exception:
                pass


def test_what_is_ready_in_time_is_left_alone():
    for _ in range(200):
        with time_limit(60):
            time.sleep(0.0001)
    for limit in (0.0, 0.0005, 0.001):  # stopped inside, or not at all: never afterwards
        for _ in range(50):
            try:
                with time_limit(limit):
                    time.sleep(0.0005)
            except OutOfTime:
                pass
            sum(range(1000))


TRACED = """
import sys
from course.checks.functions import OutOfTime, time_limit
for _ in range(20):
    try:
        with time_limit(0.001):
            while True:
                pass
    except OutOfTime:
        pass
def traced():
    return 1
sys.settrace(lambda *given: None)
traced()
print("traced")
"""


def test_functions_can_be_traced_after_a_limit():
    """CPython 3.11 never begins one while the mark of an exception taken back by NULL is there."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, timeout=120)
    assert done.stdout.split() == [b"traced"], done.stderr.decode()
