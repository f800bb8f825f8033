"""Benches that check each program, time none, and say nothing."""

import inspect
from types import SimpleNamespace

from course.measure import event_clock
from course_recording.frame import FLOAT32_LIMIT, Bench, poison
from tests.course_recording.fake_gpu import ROOFS


class Untimed(Bench):
    """Keeps each program's error and bytes; it takes what a bench takes, no more; no frameworks."""

    def __init__(self):
        super().__init__("untimed", ROOFS, say=lambda _: None)

    def variant(
        self, kernel, variant, call, args, *, expected, shape, bytes, out=None, dtype="float32",
        limit=FLOAT32_LIMIT, **more,
    ):  # fmt: skip
        inspect.signature(Bench.variant).bind(
            self, kernel, variant, call, args, expected=0, shape=shape, bytes=bytes, **more
        )
        error = self.check(call, args, expected, out=out, limit=limit)
        self.check_elsewhere(call, args, expected, out=out, limit=limit)
        self.figure(kernel, variant, shape, dtype, f"{bytes} bytes", "relative", error)

    def check_elsewhere(self, call, args, expected, *, out, limit):
        """The clock hands alternating copies: the program must read and write those."""
        kept = [(one, one.copy_to_host()) for one in args if hasattr(one, "copy_to_host")]
        copies = {id(array): self.cuda.to_device(values) for array, values in kept}
        for array, _ in kept:
            poison(array, self.cuda)
        given = [copies.get(id(one), one) for one in args]
        self.check(call, given, expected, out=copies.get(id(out)), limit=limit)
        for array, values in kept:
            array.copy_to_device(values)

    def peer(self, name):
        return None

    def measured(self):
        """Programs that were checked: kernel, variant, shape, type."""
        return [(row.kernel, row.variant, row.shape, row.dtype) for row in self.rows]


def clocked(monkeypatch, subject):
    """A bench without frameworks; its clock says that each call takes 2 ms."""
    clock = SimpleNamespace(wall=lambda call: (call(), 2.0)[1])
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    made = Bench(subject, ROOFS, say=lambda _: None)
    monkeypatch.setattr(made, "peer", lambda name: None)
    return made
