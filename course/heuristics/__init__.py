"""How work is cut for a GPU: from sizes, types and multiprocessors to a plan or a config.

A module for each family of kernels, with what was measured for it. Nothing here launches or is a
kernel, and nothing is imported from `course.kernels`, which imports from here.
"""
