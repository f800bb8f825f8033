"""The bench of the first launches times a right kernel, in the four launches of lesson 00."""

import inspect

import pytest

from course_recording.frame import Bench, WrongResult
from course_recording.subjects import first_launches


class Judge(Bench):
    """A bench that checks every program and times none; it takes what a bench takes, no more."""

    def variant(self, kernel, variant, call, args, *, expected, out=None, limit=1e-6, **said):
        inspect.signature(Bench.variant).bind(self, kernel, variant, call, args, expected=0, **said)
        self.check(call, args, expected + self.wrong, out=out, limit=limit)
        self.rows.append((kernel, variant, said["shape"], said["bytes"]))


def judge(monkeypatch, wrong):
    monkeypatch.setattr(first_launches, "SIZE", 37)
    bench = Judge("first_launches", None, say=lambda _: None)
    bench.wrong = wrong
    first_launches.run(bench)
    return bench.rows


def test_the_bench_times_a_right_kernel(monkeypatch):
    launches = ("1, 1", "1, 32", "1, 256", "256, 256")
    expected = [("glow", launch, "37x37", 8 * 37 * 37) for launch in launches]
    assert judge(monkeypatch, wrong=0) == expected


def test_a_wrong_result_is_refused(monkeypatch):
    with pytest.raises(WrongResult):
        judge(monkeypatch, wrong=1)
