"""The exercises of the course, one module a lesson; each calls `course.checks.register`."""
