"""The program to point Nsight Systems and Nsight Compute at: `course_lessons.lesson07.phases`.

It is part of the package, so that it exists where only the package is installed, as in Colab.
``python -m course_recording.profiling.phases`` and ``python course_recording/profiling/phases.py``
do the same.
"""

from course_lessons.lesson07.phases import main

if __name__ == "__main__":
    main()
