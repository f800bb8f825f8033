"""A kernel's names and types, by Numba's rules; what is refused."""
