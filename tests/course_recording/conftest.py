"""A machine whose GPU is a fake one, for tests of the bench."""

from types import SimpleNamespace

import pytest

from course import backend
from course.measure import event_clock, measured_roofs
from tests.course_recording.fake_gpu import ROOFS, FakeGPU


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose GPU is the fake one."""
    fake = FakeGPU()
    clock = event_clock.EventClock(fake, busy=fake.busy, empty_l2=fake.empty_l2, now=fake.now)
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA Fake 1")
    monkeypatch.setattr(backend, "_cuda", lambda: fake)
    monkeypatch.setattr(measured_roofs, "measure_roofs", lambda: ROOFS)
    fake.runtime = SimpleNamespace(get_version=lambda: (13, 0))
    device = fake.get_current_device()
    device.compute_capability = (9, 9)
    monkeypatch.setattr(fake, "get_current_device", lambda: device)
    return fake
