"""Pages and pictures that are generated: tracks, plans for a class, tables of kernels."""
