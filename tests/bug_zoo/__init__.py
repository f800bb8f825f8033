"""Answers to the course's exercises as students write them, a module a lesson."""

from collections.abc import Callable


class Answers:
    """The answers of one lesson: wrong ones, and right ones that look unusual.

    Attributes
    ----------
    noted_wrong : list of (exercise, answer, kinds, words)
        `kinds` are those that the verdict may have, `words` what must stand in it; a word may be
        several with ``|`` between them, of which one must.
    noted_right : list of (exercise, answer)
    """

    def __init__(self) -> None:
        self.noted_wrong = []
        self.noted_right = []

    def wrong(self, exercise: str, kinds: str, *words: str) -> Callable:
        """Note the answer below as wrong, with what its verdict must be and say."""

        def note(answer):
            self.noted_wrong.append((exercise, answer, kinds.split("|"), words))
            return answer

        return note

    def right(self, *exercises: str) -> Callable:
        """Note the answer below as right, though it is not the one in the solution."""

        def note(answer):
            self.noted_right.extend((exercise, answer) for exercise in exercises)
            return answer

        return note
