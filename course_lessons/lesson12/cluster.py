"""Workers as lesson 12 uses them: those of `course_app.cluster`, and what more of them gain."""

from course_app.cluster import ClusterError, Recipe, cluster, rebuilt_digests, recipes, work
from course_lessons.lesson12 import scaling

__all__ = ["ClusterError", "Recipe", "cluster", "rebuilt_digests", "recipes", "scaling", "work"]
