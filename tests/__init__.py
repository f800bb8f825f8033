"""The tests; a package, since one of this name that others install would be found before it."""
