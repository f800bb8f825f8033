"""How fast warpsim is, and the kernels that it is timed with."""
