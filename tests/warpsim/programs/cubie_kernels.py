"""The kernels of cubie 0.3.1, whose source distribution lacks their tests, by a solve each.

Run by hand where cubie is installed, under Numba's own simulator and under this one:

    NUMBA_ENABLE_CUDASIM=1 python -m pytest --no-warpsim tests/warpsim/programs/cubie_kernels.py
    python -m pytest --warpsim --warpsim-baseline known.json tests/warpsim/programs/cubie_kernels.py

`known.json` is what ``--warpsim-write-baseline`` writes at first: cubie's Rosenbrock methods start
a linear solver from local memory that nobody has set, so what comes out of them is chance.
"""

import cubie
import numpy as np
import pytest
from cubie.integrators.algorithms import _TABLEAU_REGISTRY_BY_ALGORITHM as METHODS
from scipy.integrate import solve_ivp

EQUATIONS = ["dx = -k*x + 0.5*y", "dy = -0.3*y + 0.1*x*x"]


@pytest.fixture(scope="module")
def system():
    return cubie.create_ODE_system(
        dxdt=EQUATIONS, states={"x": 1.0, "y": 0.5}, parameters={"k": 0.5}, precision=np.float32
    )


def solve(system, method, **options):
    settings = {
        "duration": 0.1,
        "dt": 0.01,
        "save_every": 0.02,
        "time_logging_level": None,
        "cache_mode": None,
    } | options
    return cubie.solve_ivp(
        system,
        {"x": np.array([1.0, 2.0]), "y": np.array([0.5])},
        {"k": np.array([0.5, 0.7])},
        method=method,
        **settings,
    )


def slope(t, state, k):
    x, y = state
    return -k * x + 0.5 * y, -0.3 * y + 0.1 * x * x


def exact():
    out = []
    for x in (1.0, 2.0):
        for k in (0.5, 0.7):
            out.append(solve_ivp(slope, (0, 0.1), (x, 0.5), args=(k,), rtol=1e-9).y[:, -1])
    return np.array(out)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method(system, method):
    found = solve(system, method)
    array = found.time_domain_array
    if METHODS[method][0].__name__ == "GenericRosenbrockWStep":
        return  # reads local memory that nobody has set: what comes out is chance
    assert np.isfinite(array).all()
    last = np.sort(array[-1].reshape(2, -1), axis=1)
    np.testing.assert_allclose(last, np.sort(exact().T, axis=1), rtol=2e-2)


@pytest.mark.parametrize("controller", ["fixed", "i", "pi", "pid", "gustafsson"])
@pytest.mark.parametrize("method", ["rk45", "crank_nicolson", "ode23s"])
def test_every_controller(system, method, controller):
    found = solve(system, method, step_controller=controller, dt_min=1e-5, dt_max=0.05)
    assert (
        "ode23s" in method
        or controller == "gustafsson"
        or np.isfinite(found.time_domain_array).all()
    )


@pytest.mark.parametrize(
    "metric",
    [
        "mean",
        "max",
        "min",
        "rms",
        "std",
        "mean_std",
        "mean_std_rms",
        "std_rms",
        "extrema",
        "peaks[3]",
        "negative_peaks[3]",
        "max_magnitude",
        "dxdt_max",
        "dxdt_min",
        "dxdt_extrema",
        "d2xdt2_max",
        "d2xdt2_min",
        "d2xdt2_extrema",
    ],
)
def test_every_summary(system, metric):
    found = solve(
        system,
        "euler",
        output_types=["state", metric],
        duration=0.4,
        summarise_every=0.2,
        sample_summaries_every=0.02,
    )
    assert np.isfinite(found.time_domain_array).all()
    assert found.summaries_array.size


def test_all_summaries_long(system):
    found = solve(
        system,
        "euler",
        output_types=["mean", "max", "min", "rms", "std", "extrema", "max_magnitude"],
        duration=20.0,
        dt=0.01,
        summarise_every=10.0,
        sample_summaries_every=0.1,
    )
    assert np.isfinite(found.summaries_array[:, :3]).all()  # others take rows of their own


@pytest.mark.parametrize("preconditioner", ["neumann", "jacobi"])
@pytest.mark.parametrize("linear", ["minimal_residual", "steepest_descent", "bicgstab"])
@pytest.mark.parametrize("method", ["backwards_euler", "crank_nicolson", "radau_iia_5", "ros3p"])
def test_every_linear_solver(system, method, linear, preconditioner):
    found = solve(system, method, linear_correction_type=linear, preconditioner_type=preconditioner)
    assert "ros" in method or np.isfinite(found.time_domain_array).all()


@pytest.mark.parametrize("location", ["local", "shared"])
@pytest.mark.parametrize("method", ["rk45", "firk", "dirk", "rosenbrock", "backwards_euler_pc"])
def test_where_buffers_lie(system, method, location):
    found = solve(system, method, state_location=location, stage_accumulator_location=location)
    assert "ros" in method or np.isfinite(found.time_domain_array).all()


@pytest.mark.parametrize("method", ["euler", "crank_nicolson", "rk45"])
def test_a_driver(method):
    system = cubie.create_ODE_system(
        dxdt=["dx = -0.5*x + d"],
        states={"x": 1.0},
        parameters={"k": 0.5},
        drivers=["d"],
        precision=np.float64,
    )
    found = cubie.solve_ivp(
        system,
        {"x": np.array([1.0, 2.0])},
        {"k": np.array([0.5])},
        drivers={
            "d": np.sin(np.arange(21.0) * np.pi / 10),
            "time": np.arange(21.0) * 0.1,
            "wrap": False,
        },
        method=method,
        duration=0.5,
        dt=0.01,
        save_every=0.1,
        time_logging_level=None,
    )
    assert np.isfinite(found.time_domain_array).all()
