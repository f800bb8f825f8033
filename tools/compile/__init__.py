"""What NVIDIA's compilers make of the course's kernels: cases, PTX hashes, a record."""
