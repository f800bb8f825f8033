"""How work is cut for a GPU: from sizes, types and multiprocessors to a plan or a config.

Each family of kernels has a module, with the limits and times that were measured for it. Nothing
here is a kernel or a launch, and nothing is imported from `course.kernels`, which imports it.
"""
