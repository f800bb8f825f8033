"""What NVIDIA's compilers make of a kernel, on a machine without a GPU, too."""
