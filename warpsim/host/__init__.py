"""The host side of cuda: device arrays, streams, events; the GPUs that can be simulated."""
