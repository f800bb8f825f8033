"""What numba-cuda's successor makes of the course's kernels."""
