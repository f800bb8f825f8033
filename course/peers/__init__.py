"""The same work in CUDA C++ and in Triton, to be measured beside the course's kernels."""
