"""What is read of arrays, and arrays that are refused for it."""

import numpy as np
import pytest

from course.kernels.norm import layer_norm
from course.kernels.softmax import softmax
from tests.course.dispatch.arrays import X, exact_norm, exact_softmax


def test_a_read_only_out_is_refused():
    out = np.zeros_like(X)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only: give memory that can be written"):
        softmax(X, out=out)
    read_only = X.copy()
    read_only.flags.writeable = False
    assert np.allclose(softmax(read_only), exact_softmax(X), atol=1e-6)


def test_tensors_that_require_gradients_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X.copy()).requires_grad_()
    with pytest.raises(ValueError, match=r"x requires a gradient, .* or give x.detach\(\)"):
        layer_norm(x)
    with torch.no_grad():
        assert np.allclose(layer_norm(x).numpy(), exact_norm(X), atol=2e-5)


def test_libraries_of_the_array_api_get_their_own_arrays_back():
    class Space:
        @staticmethod
        def from_dlpack(array):
            return Other(np.from_dlpack(array))

    class Other:  # as JAX's and others', on the host
        def __init__(self, values):
            self.values = values

        def __array_namespace__(self):
            return Space

        def __dlpack__(self, **given):
            return self.values.__dlpack__(**given)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    found = layer_norm(Other(X.copy()))
    assert isinstance(found, Other) and np.allclose(found.values, exact_norm(X), atol=2e-5)
    out = Other(np.zeros_like(X))
    if np.from_dlpack(out.values).flags.writeable:  # NumPy before 2.2 takes over to read alone
        assert softmax(Other(X.copy()), out=out) is out
        assert np.allclose(out.values, exact_softmax(X), atol=1e-6)
    else:
        with pytest.raises(ValueError, match="out is read-only"):
            softmax(Other(X.copy()), out=out)
