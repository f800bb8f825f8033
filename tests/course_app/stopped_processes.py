"""Processes that tests stop with a signal."""

import signal


def hear() -> None:
    """Let a new process hear signals that this one was told to ignore, as by nohup or by `&`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
