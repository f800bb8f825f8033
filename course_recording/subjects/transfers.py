"""Transfers between host and device: in and out, pinned and pageable, small and large."""

from course.measure.transfers import transfers

SIZES = (4 * 1024, 64 * 1024, 1024**2, 16 * 1024**2, 256 * 1024**2)  # bytes


def run(bench):
    """Time the four ways for each size."""
    for size in SIZES:
        for timing in transfers(size):
            bench.row("transfer", timing.name, f"{size}", "uint8", timing)
