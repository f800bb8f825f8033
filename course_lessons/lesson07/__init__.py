"""Reading a profiler."""
