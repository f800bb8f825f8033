"""The program to point Nsight Systems and Nsight Compute at: `course.phases`.

It lies in the package, so that it is there where only the package is installed, as in Colab.
``python -m profiling.phases`` and ``python profiling/phases.py`` do the same.
"""

from course.phases import main

if __name__ == "__main__":
    main()
