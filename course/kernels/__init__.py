"""The course's reusable kernels, a file for each family, written to be read."""
