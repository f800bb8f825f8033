"""Few blocks and arrays of the host are what these tests are made of: no warning of them."""

import pytest

from warpsim.host import settings


@pytest.fixture(autouse=True)
def quiet():
    """Numba's warnings of slow launches are asked for where they are tested."""
    with settings.quiet():
        yield
