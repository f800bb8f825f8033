"""The course's kernels as operators of PyTorch: for autograd, torch.compile, autocast and graphs.

>>> from course.torch import layer_norm, softmax, gelu, silu, reconstruct
>>> y = layer_norm(x, gamma, beta, activation="gelu")    # y.backward() works

Each function is registered with `torch.library`, for example as `torch.ops.course.layer_norm`: its
kernel, a fake implementation (shapes and dtypes, for torch.compile) and a gradient. The gradients
are kernels of the course, too; that of `reconstruct` is three matrix products. Dtypes are float32,
float16 and bfloat16. Under autocast `layer_norm` and `softmax` compute in float32, as PyTorch's do.
Without a GPU the simulator computes.

Small tensors that require a gradient go to PyTorch's own `softmax`, `layer_norm` (without an
activation, up to 4,096 rows) and activations. There the host is the bottleneck, and PyTorch's
operators cost it less. Small is up to 128 KiB for each SM of the GPU, for activations four times
as much.

`torch.library.custom_op` is the usual way to register an operator. PyTorch calls such an operator
through a dozen other functions, which costs the host more than the call itself. So a call that only
plain tensors take part in (see `_is_recorded`) skips the dispatcher, in torch.compile's programs,
too. Tensors that match an earlier call, by one guard of torch.compile's, go straight to the launch
that was prepared for them. `python -m course bench door` and `bench training` time both.

Not offered, unless PyTorch's own operator is called: forward-mode gradients, which are refused;
second derivatives, which are refused except for `reconstruct`; derivatives by `torch.func`, which
PyTorch refuses.

Source: PyTorch, "torch.library"; "The Custom Operators Manual".
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course import backend
from course.backend import cuda
from course.dispatch.array_facts import reader_of
from course.dispatch.entry import ALIGNMENT_MASK, EntryPoint
from course.kernels import activation as activations
from course.kernels import norm
from course.kernels.norm import backward as norm_backward
from course.kernels.norm import ladder as norm_forward
from course.kernels.reconstruct.ladder import reconstruct as rebuild
from course.kernels.softmax import backward as softmax_gradient
from course.kernels.softmax import forward as softmax_forward

#: Holds the registered operators, which live as long as this object does.
LIBRARY = torch.library.Library("course", "FRAGMENT")
__all__ = ["activation", "gelu", "layer_norm", "reconstruct", "silu", "softmax"]


def _rows(x: Tensor) -> Tensor:
    """A matrix with contiguous rows as it is, any other tensor made contiguous."""
    if x.dim() == 2 and x.stride(1) == 1:
        return x
    return x.contiguous()


def _empty(x: Tensor, *shape: int) -> Tensor:
    """An uninitialised, contiguous tensor of x's dtype and device; without `shape` of x's shape."""
    return x.new_empty(shape or x.shape)


# --- operators --------------------------------------------------------------------------------

_FUNCTORCH = getattr(torch._C, "_functorch", None)
#: Each says whether a part of PyTorch must see all operators: modes, a tracer, transforms such as
#: vmap. A PyTorch that lacks one of these functions sends all calls through the dispatcher.
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)
_tracer = getattr(torch._C, "_get_tracing_state", lambda: 1)
_transform = getattr(_FUNCTORCH, "maybe_current_level", lambda: 1)
#: Whether a tensor stands for a batch of them, as in `torch.autograd.grad(is_grads_batched=True)`.
_is_batch = getattr(_FUNCTORCH, "is_legacy_batchedtensor", lambda tensor: True)
_TENSORS = frozenset((Tensor, torch.nn.Parameter))  # and no other subclass
_forward_ad = torch.autograd.forward_ad
_is_grad_enabled, _get_ident = torch.is_grad_enabled, threading.get_ident
_is_compiling = torch.compiler.is_dynamo_compiling  # other tracers have modes
#: A guard of torch.compile's: whether tensors match those that it was made of. It compares dtype,
#: layout, device, `requires_grad`, and what the dispatcher heeds: modes, transforms, autocast.
_Guard = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)
if not hasattr(_forward_ad, "_current_level"):
    _Guard = None
#: How many sizes (bytes of the first tensor) a thread knows, and calls of each size; when these are
#: full, only each 64th miss is learned.
MOST_KNOWN, MOST_ALIKE, EACH_MISS = 64, 8, 64


def _is_recorded(tensors: Sequence[Tensor | None]) -> bool | None:
    """Whether autograd must record a call; None where the call must go through the dispatcher."""
    if (
        _is_compiling()
        or torch.is_autocast_enabled()
        or _modes()
        or _function_modes()
        or _tracer()
        or _transform()
        or getattr(_forward_ad, "_current_level", 0) >= 0
    ):
        return None
    recorded = False
    for one in tensors:
        if one is not None:
            if type(one) not in _TENSORS or _is_batch(one):
                return None
            recorded = recorded or one.requires_grad
    return recorded and torch.is_grad_enabled()


def _check_tangents(tensors: Sequence[Tensor | None]) -> None:
    """Refuse forward-mode gradients: PyTorch would silently drop those of an operator."""
    if getattr(_forward_ad, "_current_level", -1) >= 0 and any(
        one is not None and _forward_ad.unpack_dual(one).tangent is not None for one in tensors
    ):
        raise NotImplementedError(
            "forward gradients (jvp, jacfwd, dual numbers) are not offered: take backward ones, "
            "tensor.backward() or torch.autograd.grad"
        )


class Operator:
    """A function of the course as an operator of PyTorch.

    Parameters
    ----------
    function : callable
        ``function(*tensors, *options)``, annotated as `torch.library.infer_schema` wants it.
    looks_like : callable
        The fake implementation: of the same arguments, empty tensors like the results.
    gradients : callable, optional
        ``gradients(ctx, dy)`` returns the gradients of all tensors, computed by operators. It reads
        `ctx.options` and `ctx.saved_tensors`, which hold the tensors.
    keeps_result : bool
        The result is saved for backward instead of the tensors.
    entry : EntryPoint, optional
        The entry point that `function` calls with the same tensors.
    entry_options : callable
        ``entry_options(*options)``: the options that `entry` is called with.

    Attributes
    ----------
    calls : dict
        Known calls of any thread. The public functions read this: a thread's own dict costs more.
    now : callable
        The function itself, without the dispatcher.
    recorded, seen : callable
        ``recorded(*tensors, *options, how)`` returns what ``how(tensors, options)`` does and lets
        autograd record its gradient. `seen` does the same where transforms may be active.
    registered : torch._ops.OpOverload
        What PyTorch's dispatcher calls.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        looks_like: Callable[..., Any],
        gradients: Callable[..., Any] | None = None,
        keeps_result: bool = False,
        entry: EntryPoint | None = None,
        entry_options: Callable[..., tuple] = lambda: ("auto",),
    ):
        name = function.__name__.strip("_")
        #: How many of the arguments are tensors, or None in place of one; they come first.
        given = inspect.signature(function).parameters.values()
        self.count = sum("Tensor" in str(one.annotation) for one in given)
        self.gradients, self.keeps_result = gradients or _refusal(name), keeps_result
        self.now, self.entry, self.entry_options = function, entry, entry_options
        self.recorded, self.seen = self._recorded()
        self.own, self.calls = _Known(), {}
        schema = torch.library.infer_schema(function, mutates_args=())
        LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))  # as opcheck finds
        # grad mode may still be on below autograd, and the function refuses such tensors
        LIBRARY.impl(name, torch.no_grad()(function), "CompositeExplicitAutograd")
        torch.library.register_fake(f"course::{name}", looks_like, lib=LIBRARY)
        self.registered = getattr(torch.ops.course, name).default
        LIBRARY.impl(name, self._from_dispatcher, "Autograd", with_keyset=True)
        #: The dispatcher, which `registered` calls, as torch.compile's programs do. In its place
        #: `registered` gets a function that skips it; a PyTorch without `_op` keeps its own.
        self._dispatch = getattr(self.registered, "_op", None)
        if self._dispatch is not None:
            self.registered._op = self._from_program

    def call(self, tensors: tuple, options: tuple = ()) -> Any:
        """Call the operator; without the dispatcher where PyTorch cannot tell the difference."""
        try:
            if not _is_compiling():
                for is_known, known_options, how in self.own.calls.get(tensors[0].nbytes, ()):
                    if known_options == options and is_known(*tensors):
                        return how(*tensors)
        except RuntimeError:  # sizes are symbolic
            pass
        return self._call_unknown(tensors, options)

    def _call_unknown(self, tensors: tuple, options: tuple) -> Any:
        """The same for tensors without a known call, and where a mode or forward AD forbids one."""
        recorded = _is_recorded(tensors)
        if recorded is None:
            if not _is_compiling():
                _check_tangents(tensors)
            return self.registered(*tensors, *options)
        if recorded:
            return self.recorded(*tensors, *options, self.call)
        found = self.now(*tensors, *options)
        if self.entry is not None:
            self.learn(tensors, options)
        return found

    def learn(self, tensors: Sequence[Tensor | None], options: tuple, how: Any = None) -> None:
        """Store what this thread's next call with such tensors calls: `how`, or the plan."""
        own, size = self.own, tensors[0].nbytes
        own.misses += 1
        alike, full = own.calls.get(size, []), len(own.calls) >= MOST_KNOWN
        if own.misses % EACH_MISS and (len(alike) >= MOST_ALIKE or (full and not alike)):
            return
        given = [one for one in tensors if one is not None]
        n = len(given)  # the tensors that are None come last
        if _Guard is None or any(type(one) not in _TENSORS for one in tensors[:n]):
            return
        how = how or self._planned(tensors, options)
        if how is not None:
            check = _Guard(*given, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
            if full and not alike:
                self.calls.pop(gone := next(iter(own.calls)), None)
                own.calls.pop(gone)
            if n == 1 and len(tensors) == 3:
                is_known = lambda x, gamma, beta: gamma is beta is None and check(x)  # noqa: E731
            else:
                is_known = lambda *its: its[n] is its[-1] is None and check(*its[:n])  # noqa: E731
            known = check if n == len(tensors) else is_known, options, how
            self.calls[size] = own.calls[size] = [*alike[1 - MOST_ALIKE :], known]

    def _planned(self, given: Sequence[Tensor | None], options: tuple) -> Any:
        """The entry point's plan of such tensors as a function of tensors; None without one."""
        facts = (reader_of(one)(one)[0] for one in given)
        plan = self.entry.plans.get((self.entry_options(*options), *facts))
        if plan is None:
            return None
        address_of, now, call, unknown = Tensor.data_ptr, self.now, self.call, self._call_unknown
        thread = _get_ident()
        launched = plan.own() if hasattr(plan, "own") else plan
        slots, quick, is_captured = getattr(launched, "parts", ({}, None, lambda: True))

        def known(*tensors: Tensor) -> Any:
            if _get_ident() != thread:
                return call(tensors, options)
            if _function_modes() or _forward_ad._current_level >= 0:
                return unknown(tensors, options)
            if recorded is not None and _is_grad_enabled():
                return recorded(*tensors)
            together = n = 0
            for one in tensors:
                slots[n] = address = 0 if one is None else address_of(one)
                together |= address
                n += 1
            if together & ALIGNMENT_MASK or (is_captured is not None and is_captured()):
                return now(*tensors, *options)
            return quick()

        def one_known(x: Tensor) -> Any:
            if _get_ident() != thread or _function_modes() or _forward_ad._current_level >= 0:
                return known(x)
            slots[0] = address = address_of(x)
            if address & ALIGNMENT_MASK or (is_captured is not None and is_captured()):
                return now(x, *options)
            return quick()

        wanted = any(one is not None and one.requires_grad for one in given)
        recorded = self._recorded(known, options)[0] if wanted else None
        return known if wanted or len(given) > 1 else one_known

    def _from_program(self, *inputs: Any, **named: Any) -> Any:
        """Called for `registered`: the function itself, or the dispatcher where it must record."""
        if not named and len(inputs) >= self.count and _is_recorded(inputs[: self.count]) is False:
            return self.now(*inputs)
        return self._dispatch(*inputs, **named)

    def _from_dispatcher(self, keys: Any, *inputs: Any) -> Any:
        """Called by the dispatcher for autograd: record if need be, then redispatch below it."""

        def below(tensors: tuple, options: tuple) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                rest = keys & torch._C._after_autograd_keyset
                return self.registered.redispatch(rest, *tensors, *options)

        tensors, options = inputs[: self.count], inputs[self.count :]
        wanted = any(one is not None and one.requires_grad for one in tensors)
        if wanted and torch.is_grad_enabled():
            return self.seen(*inputs, below)
        return below(tensors, options)

    def _recorded(
        self, how: Callable[..., Any] | None = None, options: tuple = ()
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Two functions that record gradients, the second one also under transforms. If `how` is
        given, they take the tensors alone, else tensors, options and how.
        """
        gradients, keeps_result, count = self.gradients, self.keeps_result, self.count

        class Recorded(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                tensors = inputs[:count]
                if how is None:
                    ctx.options = inputs[count:-1]
                result = how(*tensors) if how is not None else inputs[-1](tensors, ctx.options)
                ctx.save_for_backward(*((result,) if keeps_result else tensors))
                return result

            @staticmethod
            def backward(ctx, *dy):
                found = gradients(ctx, *dy)
                found = found if isinstance(found, tuple) else (found,)
                return *found, *(None for _ in ctx.options), None

        if how is not None:
            Recorded._backward_cls.options = options
            Recorded._backward_cls.apply = gradients  # Function's would look for `vjp` first
        # Function.apply first looks for transforms; nobody calls `quick` under one, so skip that
        quick = getattr(super(torch.autograd.Function, Recorded), "apply", Recorded.apply)
        return quick, Recorded.apply


class _Known(threading.local):
    """A thread's known calls of an operator, by the bytes of the first tensor: for each the guard
    of its tensors, the options and the function to call.
    """

    def __init__(self) -> None:
        self.calls: dict[int, list[tuple[Callable[..., bool], tuple, Callable]]] = {}
        self.misses = 0


def _refusal(name: str) -> Callable[..., Any]:
    """The gradient function of an operator without a gradient: it raises."""

    def refuse(ctx: Any, *dy: Tensor) -> None:
        raise RuntimeError(f"course::{name} has no autograd formula: its gradient is not offered")

    return refuse


# --- small tensors --------------------------------------------------------------------------------

_BYTES = 2**17 * cuda.get_current_device().MULTIPROCESSOR_COUNT if backend.gpu() else 0
CHEAP = 4  # times this bound for activations, as PyTorch's kernels take little longer than ours
#: Bytes, by dtype, up to which PyTorch's own operator serves tensors that require a gradient. There
#: the host is the bottleneck, and a gradient in Python costs it 20 to 50 µs more.
#: On an H200 these are 17 MB, such as 4,096 rows of 1,024 in float32.
MOST_HANDED = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), _BYTES)
MOST_CHEAP = dict.fromkeys(MOST_HANDED, CHEAP * _BYTES)
MOST_ROWS = 4096  # for LayerNorm: in its gradient PyTorch adds up row by row


def _at_once(operator: Operator, options: tuple, theirs: Callable, bounds: dict, like: Any) -> Any:
    """A public function of one tensor, named like `like`; up to a dtype's bound it calls `theirs`.

    Every step counts: PyTorch's own operator takes the host 8 µs, one more test or call 0.1 to 0.2.
    """
    calls, bound_of = operator.calls, bounds.get

    @functools.wraps(like)
    def quick(x: Tensor) -> Tensor:
        try:
            if not _is_compiling():
                size = x.nbytes
                if x.requires_grad and 4 < size <= bound_of(x.dtype, 0):  # no scalar: x has an axis
                    return theirs(x)
                for is_known, known_options, how in calls.get(size, ()):
                    if known_options == options and is_known(x):
                        return how(x)
        except RuntimeError:  # sizes are symbolic; any other error is raised again below
            pass
        return operator.call((x,), options)

    return quick


# --- LayerNorm ------------------------------------------------------------------------------------


def _layer_norm(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float, activation: str | None
) -> Tensor:
    return norm.layer_norm(_rows(x), gamma, beta, eps, activation=activation)


def _layer_norm_backward(
    dy: Tensor, x: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float,
    activation: str | None, parameters: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    found = norm.layer_norm_backward(
        dy.contiguous(), x.contiguous(), gamma, eps, parameters, beta=beta, activation=activation
    )
    if parameters:
        return found
    like = x if gamma is None else gamma
    return found[0], _empty(like, 0), _empty(like, 0)


def _gradients_look_like(dy, x, gamma, beta, eps, activation, parameters):
    like = x if gamma is None else gamma
    sums = x.shape[-1] if parameters else 0
    return _empty(x), _empty(like, sums), _empty(like, sums)


def _layer_norm_gradients(ctx, dy):
    wanted = ctx.needs_input_grad
    parameters = wanted[1] or wanted[2]
    dx, dgamma, dbeta = LAYER_NORM_BACKWARD.call(
        (dy, *ctx.saved_tensors), (*ctx.options, parameters)
    )
    return dx, dgamma if wanted[1] else None, dbeta if wanted[2] else None


def _layer_norm_theirs(x: Tensor, gamma: Tensor | None, eps: float) -> Callable | None:
    """PyTorch's own layer_norm where it serves such tensors, see `MOST_HANDED`; else None."""
    columns = x.shape[-1:]
    alike = gamma is None or gamma.dtype == x.dtype or torch.is_autocast_enabled()
    small = x.requires_grad and 4 < x.nbytes <= MOST_HANDED.get(x.dtype, 0)
    if small and alike and x.numel() <= MOST_ROWS * columns[0]:
        return lambda x, gamma, beta: torch.layer_norm(x, columns, gamma, beta, eps)
    return None


LAYER_NORM_BACKWARD = Operator(
    _layer_norm_backward,
    _gradients_look_like,
    entry=norm_backward._ENTRY,
    entry_options=lambda eps, activation, parameters: (eps, parameters, "auto", activation),
)
LAYER_NORM = Operator(
    _layer_norm,
    lambda x, gamma, beta, eps, activation: _empty(x),
    _layer_norm_gradients,
    entry=norm_forward._ENTRY,
    entry_options=lambda eps, activation: (eps, "auto", activation),
)


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    eps: float = 1e-5,
    activation: str | None = None,
) -> Tensor:
    """Normalise rows, along the last axis, and apply an activation to the result, in one kernel.

    Small tensors that require a gradient go to `torch.layer_norm` where there is no activation, see
    `MOST_HANDED` and `MOST_ROWS`.

    Parameters
    ----------
    x : tensor, shape (..., columns), float32, float16 or bfloat16
    gamma, beta : tensor, shape (columns,), optional
    eps : float
    activation : str, optional
        Of `course.kernels.activation.FUNCTIONS`, such as "gelu".

    Returns
    -------
    tensor, of x's shape and type

    Raises
    ------
    TypeError, ValueError
        As `course.kernels.norm.layer_norm`.
    """
    options = eps, activation
    try:
        if not _is_compiling():
            for is_known, known_options, how in LAYER_NORM.calls.get(x.nbytes, ()):
                if known_options == options and is_known(x, gamma, beta):
                    return how(x, gamma, beta)
            how = _layer_norm_theirs(x, gamma, eps) if activation is None and eps >= 0 else None
            if how is not None:
                y = how(x, gamma, beta)
                LAYER_NORM.learn((x, gamma, beta), options, how)
                return y
    except RuntimeError:  # sizes are symbolic; or ours can do it, or says what is wrong
        pass
    return LAYER_NORM.call((x, gamma, beta), options)


# --- softmax --------------------------------------------------------------------------------------


def _softmax(x: Tensor) -> Tensor:
    return softmax_forward.softmax(_rows(x))


def _softmax_backward(dy: Tensor, y: Tensor) -> Tensor:
    return softmax_gradient.softmax_backward(dy.contiguous(), y.contiguous())


SOFTMAX_BACKWARD = Operator(
    _softmax_backward, lambda dy, y: _empty(y), entry=softmax_gradient._ENTRY
)
SOFTMAX = Operator(
    _softmax,
    _empty,
    lambda ctx, dy: SOFTMAX_BACKWARD.call((dy, *ctx.saved_tensors)),
    keeps_result=True,
    entry=softmax_forward._ENTRY,
)


@functools.partial(_at_once, SOFTMAX, (), lambda x: torch.softmax(x, -1), MOST_HANDED)
def softmax(x: Tensor) -> Tensor:
    """Softmax along the last axis, of float32, float16 or bfloat16; as `course.kernels.softmax`.

    Small tensors that require a gradient go to `torch.softmax`, see `MOST_HANDED`.
    """


# --- activations ----------------------------------------------------------------------------------


def _activation(x: Tensor, name: str) -> Tensor:
    return activations.activation(x.contiguous(), name)


def _activation_gradient(dy: Tensor, x: Tensor, name: str) -> Tensor:
    return activations.activation_gradient(dy.contiguous(), x.contiguous(), name)


ACTIVATION_GRADIENT = Operator(
    _activation_gradient,
    lambda dy, x, name: _empty(x),
    entry=activations._GRADIENT,
    entry_options=lambda name: (name, "auto"),
)
ACTIVATION = Operator(
    _activation,
    lambda x, name: _empty(x),
    lambda ctx, dy: ACTIVATION_GRADIENT.call((dy, *ctx.saved_tensors), ctx.options),
    entry=activations._ENTRY,
    entry_options=lambda name: (name, "auto"),
)


_OWN = {  # what `torch.nn.functional`'s functions call
    "gelu": torch._C._nn.gelu,
    "gelu tanh": functools.partial(torch._C._nn.gelu, approximate="tanh"),
    "silu": torch._C._nn.silu,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
_QUICK = {
    name: _at_once(ACTIVATION, (name,), theirs, MOST_CHEAP, _activation)
    for name, theirs in _OWN.items()
}
_GELUS = {"none": _QUICK["gelu"], "tanh": _QUICK["gelu tanh"]}
_gelu, _gelu_bound = _OWN["gelu"], MOST_CHEAP.get


def activation(x: Tensor, name: str = "gelu") -> Tensor:
    """Apply a function of `course.kernels.activation.FUNCTIONS` to every element.

    Small tensors that require a gradient go to PyTorch's own function, if it has one, see
    `MOST_CHEAP`. At minus infinity PyTorch's GELU and SiLU are NaN, the course's are -0.
    """
    return _QUICK[name](x) if name in _QUICK else ACTIVATION.call((x,), (name,))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU, as `torch.nn.functional.gelu`; `approximate` is "none" or "tanh"; see `activation`."""
    try:
        small = not _is_compiling() and x.requires_grad and 4 < x.nbytes <= _gelu_bound(x.dtype, 0)
        if small and approximate == "none":
            return _gelu(x)  # what `quick` would call, with one call less
    except RuntimeError:
        pass
    if approximate not in _GELUS:
        raise ValueError(f"approximate is {approximate!r}: choose 'none' or 'tanh'")
    return _GELUS[approximate](x)


@functools.partial(_at_once, ACTIVATION, ("silu",), _OWN["silu"], MOST_CHEAP)
def silu(x: Tensor) -> Tensor:
    """SiLU (Swish), as `torch.nn.functional.silu`; see `activation`."""


# --- reconstruction -------------------------------------------------------------------------------


def _reconstruct(u: Tensor, s: Tensor, vt: Tensor, k: int) -> Tensor:
    return rebuild(*(_rows(factor) for factor in (u, s, vt)), k)


def _reconstruct_gradients(ctx, dy):
    (u, s, vt), (k,) = ctx.saved_tensors, ctx.options
    few, values, rows = u[..., :k], s[..., :k], vt[..., :k, :]
    along = dy @ rows.mT  # the gradient of u * s
    du = along * values.unsqueeze(-2)
    ds = (few * along).sum(-2)
    dvt = (few * values.unsqueeze(-2)).mT @ dy
    more = s.shape[-1] - k
    pad = torch.nn.functional.pad
    return pad(du, (0, more)), pad(ds, (0, more)), pad(dvt, (0, 0, 0, more))


RECONSTRUCT = Operator(
    _reconstruct, lambda u, s, vt, k: _empty(u, *u.shape[:-1], vt.shape[-1]), _reconstruct_gradients
)


def reconstruct(u: Tensor, s: Tensor, vt: Tensor, k: int) -> Tensor:
    """Rebuild an image, or a stack, from its k largest singular values.

    Parameters and errors are those of `course.kernels.reconstruct.ladder.reconstruct`; types are
    float32.
    """
    return RECONSTRUCT.call((u, s, vt), (k,))


# --- autocast -------------------------------------------------------------------------------------

for _name in ("layer_norm", "softmax", "reconstruct"):
    if hasattr(torch.library, "register_autocast"):
        torch.library.register_autocast(f"course::{_name}", "cuda", torch.float32)
