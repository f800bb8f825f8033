"""Read a real GPU's hardware counters, to compare the simulator's counts with them."""
