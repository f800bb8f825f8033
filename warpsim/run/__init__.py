"""Lanes, masks, memory, barriers, shuffles, atomics."""
