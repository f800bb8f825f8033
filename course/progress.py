"""Where `from course import progress` finds the function; what it does stands in course/session.py.

Nothing in the package imports this module under its own name: that would put the module where the
function belongs.
"""

from course.session import Progress, progress

__all__ = ["Progress", "progress"]
