"""All that Numba's own simulator answers is there, or a sentence says why not."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpsim.front.numba_typing import has_numba_cuda
from warpsim.redirect import redirected

ROOT = Path(__file__).resolve().parents[2]

#: Prints each public name of Numba's own simulator, but for Python's and NumPy's that it imports.
ASK = """
import importlib, pkgutil, types
from numba.cuda import simulator

def own(value):
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(
        value, "__module__", None)
    return not isinstance(module, str) or module.startswith(("numba", "__"))

print("numba.cuda", *(n for n in vars(simulator) if n[0] != "_" and own(getattr(simulator, n))))
for found in pkgutil.walk_packages(simulator.__path__, "numba.cuda.simulator."):
    if ".tests" in found.name:
        continue
    module = importlib.import_module(found.name)
    names = [n for n, value in vars(module).items() if n[0] != "_" and own(value)]
    print(found.name, *names)
    if not found.name.endswith(("kernel", "kernelapi", "vector_types")):
        print(found.name.replace(".simulator", ""), *names)
"""
#: How it runs threads and makes types, which nobody asks who only runs kernels.
REFUSED = {
    "BlockManager", "BlockThread", "FakeCUDAAtomic", "FakeCUDACg", "FakeCUDAConst", "FakeCUDAFp16",
    "FakeCUDALocal", "FakeCUDAModule", "FakeCUDAShared", "FakeOverload", "FakeOverloadDict",
    "FakeWithinKernelCUDAArray", "GridGroup", "SimulatedVectorType", "kernel", "kernelapi",
    "make_simulated_vector_type", "normalize_kernel_dimensions", "numpy_support", "numpy_version",
    "swapped_cuda_module", "simulator",
}  # fmt: skip
ELSEWHERE = {"ArgHint", "FakeCUDAArray", "InOut", "types", "vector_types"}  # imported, not its own


@pytest.mark.skipif(not has_numba_cuda(), reason="the names are numba-cuda's")
def test_every_name_of_numbas_simulator_is_there():
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-c", ASK]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = [line.split() for line in asked.stdout.splitlines()]
    assert len(lines) > 30 and sum(map(len, lines)) > 300
    missing = {}
    with redirected():
        for name, *names in lines:
            module = importlib.import_module(name)
            lacks = {one for one in names if not hasattr(module, one)} - REFUSED
            if name.endswith(("kernel", "kernelapi", "vector_types")):
                lacks -= ELSEWHERE | {one for one in lacks if one.endswith("lock")}
            if lacks:
                missing[name] = sorted(lacks)
        assert not missing
        with pytest.raises(ImportError, match="BlockThread: threads run in step here"):
            exec("from numba.cuda.simulator.kernel import BlockThread", {"__name__": "somebodys"})


def test_what_host_code_does_with_them():
    with redirected():
        names = {"__name__": "somebodys", "np": np}
        exec(
            "from numba import cuda\n"
            "from numba.cuda.simulator.cudadrv import driver\n"
            "from numba.cuda.cudadrv.devicearray import (\n"
            "    array_core, check_array_compatibility, is_contiguous, sentry_contiguous)\n",
            names,
        )
        cuda, driver = names["cuda"], names["driver"]
        array, other = cuda.to_device(np.arange(6.0).reshape(2, 3)), cuda.device_array((2, 3))
        driver.device_to_device(other, array, driver.device_memory_size(array))
        assert (other.copy_to_host() == array.copy_to_host()).all()
        driver.device_memset(other, 0, 8)
        assert other.copy_to_host().tolist() == [[0, 1, 2], [3, 4, 5]]
        host = np.empty((2, 3))
        driver.device_to_host(host, array, host.nbytes)
        assert host[1, 2] == 5
        with pytest.raises(
            NotImplementedError, match=r"no numba.cuda.cudadrv.driver.launch_kernel"
        ):
            driver.launch_kernel()
        wide = np.broadcast_to(np.arange(3.0), (4, 3))
        assert names["array_core"](wide).shape == (3,) and names["is_contiguous"](wide)
        names["sentry_contiguous"](wide)
        with pytest.raises(ValueError, match="non-contiguous"):
            names["sentry_contiguous"](np.zeros((4, 4))[:, 1])
        with pytest.raises(TypeError, match="incompatible dtype: float64 vs. float32"):
            names["check_array_compatibility"](np.zeros(3), np.zeros(3, np.float32))
        with pytest.raises(ValueError, match=r"incompatible shape: \(3,\) vs. \(4,\)"):
            names["check_array_compatibility"](np.zeros(3), np.zeros(4))
        assert cuda.gpus[0].device.uuid and cuda.gpus.current.get_memory_info().free > 0
        assert cuda.current_context().compute_capability == cuda.gpus[0].compute_capability
        with pytest.raises(AttributeError, match="no memalloc: use cuda.device_array"):
            cuda.current_context().memalloc(8)
        added = cuda.declare_device("added", "float32(float32)")
        with pytest.raises(NotImplementedError, match="makes no machine code"):
            added(1)
