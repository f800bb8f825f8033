"""Reading a real GPU's counters, to hold the simulator to them."""
