"""In place of the package of this name, for the processes of `make test` (Makefile).

nbformat takes it for addresses, which no notebook here has, and it takes two seconds to import.
"""

raise ImportError("left out of the tests")
