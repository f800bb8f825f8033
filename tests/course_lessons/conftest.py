"""What holds for all tests of the lessons."""

import pytest

from course_lessons import edits


@pytest.fixture(autouse=True, scope="session")
def patience():
    """What a verdict says of a mistake does not depend on what else the machine does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits, "MOST_SECONDS", 60.0)
        yield
