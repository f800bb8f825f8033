"""The Python source of the program that runs a kernel's lanes."""
