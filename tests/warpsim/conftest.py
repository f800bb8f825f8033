"""Few blocks and arrays of the host are what these tests are made of: no warning of them."""

import pytest

from tests.warpsim.the_course import ABOUT_THE_COURSE, HERE
from warpsim.core import settings

collect_ignore = [] if HERE else list(ABOUT_THE_COURSE)


@pytest.fixture(autouse=True)
def quiet():
    """Numba's warnings of slow launches are asked for where they are tested."""
    with settings.quiet():
        yield
