"""Images of the pipeline's tests."""

import pytest

from tests.course_app.pipeline_parts import some_images


@pytest.fixture
def folder(request, tmp_path):
    """As many images as the file of tests says; one is none."""
    folder = some_images(tmp_path / "in", request.module.COUNT)
    (folder / "image02.png").write_bytes(b"no image")
    return folder
