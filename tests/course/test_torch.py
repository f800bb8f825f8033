"""The kernels as PyTorch's operators: gradients, opcheck, torch.compile, graphs, autocast."""

import contextlib
import functools
import gc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from course import backend  # noqa: E402
from course import torch as operators  # noqa: E402

F = torch.nn.functional
DEVICE = "cuda" if backend.gpu() is not None and torch.cuda.is_available() else "cpu"
on_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
ROWS, COLUMNS = 9, 52


@pytest.fixture(autouse=True)
def nothing_handed(monkeypatch):
    """The course's kernels compute, however few elements there are; no tensors are known."""
    hand_over(monkeypatch, 0)
    for operator in (one for one in vars(operators).values() if hasattr(one, "own")):
        operator.calls.clear()
        monkeypatch.setattr(operator.own, "calls", {})


def hand_over(monkeypatch, most):
    """Hand tensors of up to so many bytes to PyTorch's own operators, activations `CHEAP` times."""
    for bounds, times in ((operators.MOST_HANDED, 1), (operators.MOST_CHEAP, operators.CHEAP)):
        for dtype in bounds:
            monkeypatch.setitem(bounds, dtype, times * most)


def tensor(*shape, seed=0, dtype=torch.float32, grad=True):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, device=DEVICE).requires_grad_(grad)


def factors(seed=0):
    u, s, vt = tensor(12, 10, seed=1), tensor(10, seed=2, grad=False).abs(), tensor(10, 8, seed=3)
    return u, s.requires_grad_(), vt


#: Operators: arguments, ours, PyTorch's own.
OPERATORS = {
    "layer_norm": (
        lambda: (tensor(ROWS, COLUMNS), tensor(COLUMNS, seed=1), tensor(COLUMNS, seed=2)),
        operators.layer_norm,
        lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b),
    ),
    "layer_norm, gelu": (
        lambda: (tensor(ROWS, COLUMNS), tensor(COLUMNS, seed=1), tensor(COLUMNS, seed=2)),
        lambda x, g, b: operators.layer_norm(x, g, b, activation="gelu"),
        lambda x, g, b: F.gelu(F.layer_norm(x, x.shape[-1:], g, b)),
    ),
    "layer_norm, no factors": (
        lambda: (tensor(2, 3, 7),),
        operators.layer_norm,
        lambda x: F.layer_norm(x, x.shape[-1:]),
    ),
    "layer_norm, silu, no beta": (
        lambda: (tensor(2, 3, COLUMNS), tensor(COLUMNS, seed=1)),
        lambda x, g: operators.layer_norm(x, g, activation="silu"),
        lambda x, g: F.silu(F.layer_norm(x, x.shape[-1:], g)),
    ),
    "softmax": (
        lambda: (tensor(ROWS, COLUMNS),), operators.softmax, lambda x: F.softmax(x, -1)
    ),
    "gelu": (lambda: (tensor(ROWS, COLUMNS),), operators.gelu, F.gelu),
    "gelu, tanh": (
        lambda: (tensor(ROWS, COLUMNS),),
        lambda x: operators.gelu(x, "tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "silu": (lambda: (tensor(ROWS, COLUMNS),), operators.silu, F.silu),
    "reconstruct": (
        factors,
        lambda u, s, vt: operators.reconstruct(u, s, vt, 4),
        lambda u, s, vt: (u[:, :4] * s[:4]) @ vt[:4],
    ),
}  # fmt: skip
of_each = pytest.mark.parametrize(
    ("name", "dtype"),
    [(each, torch.float32) for each in OPERATORS]
    + [(each, torch.bfloat16) for each in OPERATORS if each != "reconstruct"],
)


def check(given, y, theirs, told, limit=None, of_gradients=4):
    """A result, and the gradients that are recorded, beside PyTorch's in float64."""
    exact = [one.detach().double().requires_grad_() for one in given]
    wanted, limit = theirs(*exact), limit or (4e-5 if given[0].dtype == torch.float32 else 2**-7)
    assert torch.allclose(y.double(), wanted, atol=limit, rtol=limit), told
    if y.requires_grad:
        dy = tensor(*y.shape, seed=9, dtype=y.dtype, grad=False)
        y.backward(dy)
        wanted.backward(dy.double())
        for one, right in zip(given, exact, strict=True):
            assert (one.grad is None) != one.requires_grad, told
            if one.grad is not None:
                most = of_gradients * limit * max(1, right.grad.abs().max())
                assert (one.grad.double() - right.grad).abs().max() <= most, told
                one.grad = None


class Seeing(TorchDispatchMode):
    """Notes the operators that it sees, and what they are given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append((function, args))
        return function(*args, **(kwargs or {}))


@of_each
def test_results_and_gradients_are_pytorchs_in_float64(name, dtype):
    given, ours, theirs = OPERATORS[name]
    inputs = [x.detach().to(dtype).requires_grad_() for x in given()]
    # of bfloat16 a rounding for each step; softmax's gradient is of a result that was rounded, too
    limit = 3e-6 if dtype == torch.float32 else 2**-8 * (3 if name == "softmax" else 1)
    check(inputs, ours(*inputs), theirs, name, limit, of_gradients=1)


@of_each
def test_opcheck_finds_nothing(name, dtype):
    given, ours, _ = OPERATORS[name]
    inputs = [x.detach().to(dtype).requires_grad_() for x in given()]
    with Seeing() as mode:
        ours(*inputs)
    operator, arguments = mode.seen[0]
    torch.library.opcheck(operator, (*inputs, *arguments[len(inputs) :]))


# --- small tensors --------------------------------------------------------------------------------

MOST, ROWS_HANDED = 600, 40


AROUND = {
    "nothing": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode,
    "mode": Seeing, "function mode": torch.overrides.BaseTorchFunctionMode,
    "autocast": lambda: torch.autocast(DEVICE, torch.bfloat16),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_small_tensors_with_a_gradient_go_to_pytorchs_own(seed, monkeypatch):
    """Sizes around the bounds; called again when they are known; the host's are taken, too."""
    hand_over(monkeypatch, 4 * MOST)
    monkeypatch.setattr(operators, "MOST_ROWS", ROWS_HANDED)
    rng, seen = np.random.default_rng(seed), set()
    for number in range(30):
        name, columns = rng.choice([*OPERATORS][:-1]), int(rng.choice([1, 7, 8, 30]))
        first, ours, theirs = OPERATORS[name]
        dtype = getattr(torch, rng.choice(["float32", "float16", "bfloat16"]))
        most = 4 * MOST // dtype.itemsize * (operators.CHEAP if "lu" in name[:4] else 1)
        some = most // columns, ROWS_HANDED
        rows = max(1, int(rng.choice(some) + rng.integers(-1, 2)))
        wanted, contiguous = (bool(one) for one in rng.random(2) < (0.6, 0.8))
        shapes = (rows, columns), *[(columns,)] * (len(first()) - 1)
        given = [tensor(*its, seed=number, grad=False, dtype=dtype) for its in shapes]
        if not contiguous:
            given[0] = given[0].T.contiguous().T
        for one in given:
            one.requires_grad_(wanted if one is given[0] else bool(rng.integers(2)))
        few = rows <= ROWS_HANDED or name[:4] != "laye"
        handed = wanted and 4 < given[0].nbytes and rows * columns <= most and few
        handed = handed and name not in ("layer_norm, gelu", "layer_norm, silu, no beta")
        for around in ("nothing", rng.choice([*AROUND]), "nothing", "mode"):
            with AROUND[around]() as context:
                y = ours(*given)
            kind = type(y.grad_fn).__name__
            told = f"{number}: {name} {rows}x{columns} {dtype}, {contiguous=}, {around}, {kind}"
            recorded = around not in ("no_grad", "inference")
            recorded = recorded and any(one.requires_grad for one in given)
            assert y.requires_grad == recorded, told
            assert not recorded or (kind[-9:] == "Backward0") == handed, told
            in_float32 = around == "autocast" and DEVICE == "cuda" and name[:4] in ("laye", "soft")
            assert y.dtype == (torch.float32 if in_float32 else dtype), told
            assert y.is_inference() == (around == "inference"), told
            assert around != "mode" or ("course::" in context.seen[0][0].name()) != handed, told
            check(given, y, theirs, told)
        seen.add((name, handed))
    assert len(seen) >= 9 and operators.LAYER_NORM.own.calls


def test_what_pytorch_refuses_or_does_otherwise_is_not_handed_over(monkeypatch):
    hand_over(monkeypatch, 4 * MOST)
    x = tensor(3, 8)
    for refused, match in {
        lambda: operators.softmax(x.double()): r"x holds float64; .* x.to\(torch.float32\)",
        lambda: operators.softmax(x.sum()): "x has no axis",
        lambda: operators.layer_norm(x, tensor(7)): r"gamma has the shape \(7,\)",
        lambda: operators.layer_norm(x[:, :0]): "its rows",
        lambda: operators.layer_norm(x, eps=-1.0): "eps is -1.0",
        lambda: operators.activation(x, "swoosh"): "there is no function 'swoosh'",
        lambda: operators.gelu(x, "erf"): "choose 'none' or 'tanh'",
        lambda: operators.layer_norm(x.detach().short()): "x holds int16; it must hold float32",
    }.items():
        with pytest.raises((TypeError, ValueError), match=match):
            refused()
    half = x.detach().half().requires_grad_()
    mixed = operators.layer_norm(half, gamma := tensor(8, seed=1))
    assert mixed.dtype == torch.float16 and "Native" not in type(mixed.grad_fn).__name__
    check((half, gamma), mixed, lambda x, gamma: F.layer_norm(x, (8,), gamma), "mixed")
    assert "Backward0" not in type(operators.activation(x, "leaky relu").grad_fn).__name__


def test_compiled_programs_hold_our_operators_instead(monkeypatch):
    hand_over(monkeypatch, 4 * MOST)
    x, called = tensor(3, 8), []

    def backend(program, inputs):
        called.extend(node.target for node in program.graph.nodes if node.op == "call_function")
        return program

    for ours in (operators.layer_norm, operators.softmax, operators.silu):
        assert "Backward0" in type(ours(x).grad_fn).__name__
        torch.compile(ours, backend=backend, fullgraph=True)(x)
    assert all("course." in str(one) for one in called) and len(called) == 3


def test_backward_of_a_layer_with_an_activation_is_one_call(monkeypatch):
    called = []
    for name in ("LAYER_NORM", "LAYER_NORM_BACKWARD", "ACTIVATION_GRADIENT"):
        operator = getattr(operators, name)
        noted = functools.partial(lambda name, now, *its: called.append(name) or now(*its), name)
        monkeypatch.setattr(operator, "now", functools.partial(noted, operator.now))
    given, ours, _ = OPERATORS["layer_norm, gelu"]
    ours(*given()).sum().backward()
    assert called == ["LAYER_NORM", "LAYER_NORM_BACKWARD"]


@pytest.mark.parametrize("seed", range(2))
def test_what_a_thread_knows_has_a_bound(seed, monkeypatch):
    for name, most in (("MOST_KNOWN", 3), ("MOST_ALIKE", 2), ("EACH_MISS", 4)):
        monkeypatch.setattr(operators, name, most)
    rng, known = np.random.default_rng(seed), operators.ACTIVATION.own
    for number in range(60):
        x = tensor(int(rng.integers(1, 7)), seed=number, grad=False)
        name = rng.choice(["silu", "relu", "sigmoid"])
        assert torch.allclose(operators.activation(x, name), operators._OWN[name](x), atol=1e-6)
        sizes = [len(calls) for calls in known.calls.values()]
        assert len(sizes) <= 3 and max(sizes, default=0) <= 2
    assert len(sizes) == 3 and max(sizes) == 2


def test_what_is_prepared_is_called_with_tensors_as_those_known_alone(monkeypatch):
    x, gamma, slots = tensor(3, 8, grad=False), tensor(8, seed=1, grad=False), [0, 0, 0]
    plan, names = (
        SimpleNamespace(parts=(slots, lambda: tuple(slots), None)),
        ("SOFTMAX", "LAYER_NORM"),
    )
    for one in names:
        operator = getattr(operators, one)
        monkeypatch.setattr(
            operator, "entry", SimpleNamespace(plans=SimpleNamespace(get=lambda key: plan))
        )
    operators.softmax(x), operators.layer_norm(x)
    assert operators.softmax(x) == operators.layer_norm(x) == (x.data_ptr(), 0, 0)
    for its, options in (((gamma,), {}), ((None, gamma), {}), ((), {"activation": "gelu"})):
        y = F.layer_norm(x, (8,), *its)
        found = operators.layer_norm(x, *its, **options)
        assert torch.allclose(found, F.gelu(y) if options else y, atol=1e-5)
    assert operators.layer_norm(x, gamma) == (x.data_ptr(), gamma.data_ptr(), 0)
    with torch.overrides.BaseTorchFunctionMode(), torch.no_grad():
        assert torch.allclose(operators.softmax(x), x.softmax(1), atol=1e-6)
    with ThreadPoolExecutor(1) as thread:  # which knows no call yet
        assert torch.allclose(thread.submit(operators.softmax, x).result(), x.softmax(1), atol=1e-6)
        y = thread.submit(operators.layer_norm, x).result()
    assert torch.allclose(y, F.layer_norm(x, (8,)), atol=1e-5)


def test_programs_go_without_the_dispatcher_unless_someone_must_know():
    operator, asked = operators.LAYER_NORM, []
    dispatch = operator._dispatch

    def noted(*inputs, **named):
        asked.append(inputs)
        return dispatch(*inputs, **named)

    call = torch.ops.course.layer_norm.default
    x, gamma = tensor(3, 8, grad=False), tensor(8, seed=1, grad=False)
    wanted = F.gelu(F.layer_norm(x, (8,), gamma))
    operator._dispatch = noted
    try:
        assert torch.allclose(call(x, gamma, None, 1e-5, "gelu"), wanted, atol=1e-5)
        assert not asked  # as torch.compile's programs call it
        with torch.no_grad():
            call(x.clone().requires_grad_(), gamma, None, 1e-5, "gelu")
        assert not asked
        named = {"x": x, "gamma": gamma, "beta": None, "eps": 1e-5, "activation": "gelu"}
        assert torch.allclose(call(**named), wanted, atol=1e-5) and len(asked) == 1
        y = call(x.clone().requires_grad_(), gamma, None, 1e-5, "gelu")
        assert len(asked) == 2 and y.requires_grad
        with Seeing() as mode:
            operators.layer_norm(x, gamma, activation="gelu")
        assert [one for one, _ in mode.seen] == [call]
    finally:
        operator._dispatch = dispatch


def test_parts_of_rows_are_taken():
    wide = tensor(ROWS, 80, grad=False)[:, 3:55]
    assert torch.allclose(operators.layer_norm(wide), F.layer_norm(wide, (52,)), atol=2e-5)


def test_second_derivatives_are_refused_or_right():
    h = tensor(3, 8) * 1.0
    y = operators.gelu(h)
    (gradient,) = torch.autograd.grad(y.sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        (gradient**2).sum().backward()
    found = []
    for rebuild in (operators.reconstruct, lambda u, s, vt, k: (u[:, :k] * s[:k]) @ vt[:k]):
        u, s, vt = factors()
        (gradient,) = torch.autograd.grad((rebuild(u, s, vt, 4) ** 2).sum(), u, create_graph=True)
        (gradient**2).sum().backward()
        found.append(s.grad)
    assert torch.allclose(*found, rtol=1e-4)


def test_forward_gradients_are_refused():
    operators.layer_norm(torch.ones(3, 8, device=DEVICE))  # is known now
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(3, 8), torch.ones(3, 8))
        with pytest.raises(NotImplementedError, match="take backward ones"):
            operators.layer_norm(dual.to(DEVICE))  # without gamma and beta
    x = tensor(3, 8, grad=False)
    for call in (torch.func.jvp, lambda f, x, v: torch.func.jacfwd(f)(*x)):
        with pytest.raises(NotImplementedError, match="take backward ones"):
            call(operators.softmax, (x,), (torch.ones_like(x),))


def test_tracers_batches_and_subclasses_see_operators():
    x, other = tensor(3, 8, grad=False), tensor(3, 8, seed=1, grad=False)
    traced = torch.jit.trace(lambda x: operators.softmax(x) * 1, (x,), check_trace=False)
    assert torch.allclose(traced(other), other.softmax(1), atol=1e-6)
    leaf, dy = tensor(3, 8), tensor(2, 3, 8, seed=2, grad=False)
    (found,) = torch.autograd.grad(operators.softmax(leaf), leaf, dy, is_grads_batched=True)
    (wanted,) = torch.autograd.grad(leaf.softmax(1), leaf, dy, is_grads_batched=True)
    assert torch.allclose(found, wanted, atol=1e-6)
    two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    ones = torch.ones(8, device=DEVICE)
    assert isinstance(operators.layer_norm(x, two(ones, ones.clone())), two)


def test_one_number_keeps_its_shape():
    x = torch.tensor(1.0, device=DEVICE, requires_grad=True)
    operators.gelu(x).backward()
    assert x.grad.shape == () and abs(x.grad.item() - 1.0833) < 1e-3


class Block(torch.nn.Module):
    """Two layers with LayerNorm and GELU in between: PyTorch's own, or ours."""

    def __init__(self, ours, width=256):
        super().__init__()
        torch.manual_seed(0)
        self.ours, self.width = ours, width
        self.first, self.norm = torch.nn.Linear(64, self.width), torch.nn.LayerNorm(self.width)
        self.last = torch.nn.Linear(self.width, 10)

    def forward(self, x):
        x, n = self.first(x), self.norm
        if self.ours:
            x = operators.layer_norm(x, n.weight, n.bias, n.eps, "gelu")
        else:
            x = F.gelu(n(x))
        return self.last(x)


def losses(ours, compiled, steps=20, batch=128):
    model = Block(ours).to(DEVICE)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.compile(model, fullgraph=True, mode=compiled) if compiled else model
    x, labels = tensor(batch, 64, grad=False), torch.arange(batch, device=DEVICE) % 10
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.cross_entropy(forward(x), labels)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return np.array(found)


@on_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [None, "default", "reduce-overhead"])
def test_training_has_pytorchs_losses(compiled):
    torch._dynamo.reset()
    assert np.abs(losses(True, compiled) - losses(False, compiled)).max() < 1e-5


@on_gpu
@pytest.mark.gpu
def test_a_training_step_goes_into_a_graph(monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", "off")
    model = Block(True, width=248).to(DEVICE)  # whose kernels no other test compiles
    x, labels = tensor(128, 64, grad=False), torch.arange(128, device=DEVICE) % 10
    stream = torch.cuda.Stream()
    gc.disable()
    try:  # what compiles must hold nothing of a step on the stream that none is captured on
        F.cross_entropy(model(x), labels).backward()
    finally:
        gc.enable()
    model.zero_grad(set_to_none=True)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            F.cross_entropy(model(x), labels).backward()
    torch.cuda.current_stream().wait_stream(stream)
    wanted = {name: p.grad / 3 for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        F.cross_entropy(model(x), labels).backward()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    for name, p in model.named_parameters():
        assert torch.allclose(p.grad, wanted[name], rtol=1e-4, atol=1e-6), name


@on_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_works_in_float32_as_pytorch_does(dtype):
    model = Block(True).to(DEVICE)
    own = Block(False).to(DEVICE)
    x = tensor(128, 64, grad=False)
    with torch.autocast("cuda", dtype):
        ours, theirs = model(x), own(x)
        assert operators.softmax(ours).dtype == F.softmax(theirs, -1).dtype == torch.float32
    assert ours.dtype == theirs.dtype and torch.allclose(ours, theirs, atol=0.05)
    ours.float().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
