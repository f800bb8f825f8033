"""Networks built from the course's own kernels."""
