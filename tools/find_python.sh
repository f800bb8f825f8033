#!/bin/sh
# Prints the path of a Python that the course runs on (3.11 to 3.13, with venv), or says what to do.
# A name on PATH may be a shim of a version manager that does not work: each candidate is run.
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
        >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys; print(sys.executable)'
    exit 0
done
if [ -n "$PYTHON" ]; then
    echo "PYTHON=$PYTHON is no Python 3.11, 3.12 or 3.13 with the modules venv and ensurepip." >&2
    echo "Give the path of one, as in: make PYTHON=/usr/bin/python3.12 setup" >&2
    exit 1
fi
echo "No Python 3.11, 3.12 or 3.13 with the modules venv and ensurepip was found on PATH." >&2
echo "Install one (Debian and Ubuntu: python3 and python3-venv; macOS and Windows: python.org)," >&2
echo "or name one: make PYTHON=/path/to/python3.12 setup" >&2
exit 1
