"""The course's kernels as operators of PyTorch: for autograd, torch.compile, autocast and graphs.

>>> from course.torch import layer_norm, softmax, gelu, silu, reconstruct
>>> y = layer_norm(x, gamma, beta, activation="gelu")    # y.backward() works

Each is registered with `torch.library`, as `torch.ops.course.layer_norm`, say: a kernel, what its
result looks like (for torch.compile, which calls it without elements), and a gradient.
Gradients are kernels of the course, too, but for `reconstruct`, whose are three products. Types are
float32, float16 and bfloat16; under autocast `layer_norm` and `softmax` work in float32, as
PyTorch's do. Without a GPU the simulator computes.

Where x requires a gradient and has few elements, up to 32,768 for each multiprocessor of the GPU,
PyTorch's own operators are called for `softmax`, `layer_norm` without an activation (up to 4,096
rows) and, up to four times as many, activations that it has: one waits for the host, which they
cost less.

`torch.library.custom_op` is the short way to the same. PyTorch calls what it makes by way of a
dozen other functions, which costs the host more than the call itself. So where nothing but
tensors is at work (see `_is_recorded`), the same functions are called without the dispatcher, from
torch.compile's programs, too. Where tensors look like those of an earlier call, which one guard of
torch.compile's tells, the launch that was prepared for them is all that is called.
`python -m course bench door` and `bench training` time both.

Not offered, unless PyTorch's own operator is called: forward gradients, which are refused; second
derivatives, which are refused, too, but for `reconstruct`; derivatives by `torch.func`, which
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

#: Holds what is registered, which lives as long as it does.
LIBRARY = torch.library.Library("course", "FRAGMENT")
__all__ = ["activation", "gelu", "layer_norm", "reconstruct", "silu", "softmax"]


def _rows(x: Tensor) -> Tensor:
    """A tensor whose rows kernels can read as they lie, or a copy."""
    if x.dim() == 2 and x.stride(1) == 1:
        return x
    return x.contiguous()


def _empty(x: Tensor, *shape: int) -> Tensor:
    """What a result looks like: side by side in memory, of x's type and device."""
    return x.new_empty(shape or x.shape)


# --- operators --------------------------------------------------------------------------------

_FUNCTORCH = getattr(torch._C, "_functorch", None)
#: What tells that a part of PyTorch wants to see operators: modes, transforms such as vmap, a
#: tracer. Where one of these functions is gone, an operator is called always.
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)
_tracer = getattr(torch._C, "_get_tracing_state", lambda: 1)
_transform = getattr(_FUNCTORCH, "maybe_current_level", lambda: 1)
#: Whether a tensor stands for a batch of them, as in `torch.autograd.grad(is_grads_batched=True)`.
_is_batch = getattr(_FUNCTORCH, "is_legacy_batchedtensor", lambda tensor: True)
_TENSORS = frozenset((Tensor, torch.nn.Parameter))  # and no other subclass
_forward_ad = torch.autograd.forward_ad
_is_grad_enabled = torch.is_grad_enabled
_is_compiling = torch.compiler.is_dynamo_compiling  # other tracers have modes
#: A guard of torch.compile's: whether tensors are as those it was made of, in type, layout, device,
#: `requires_grad`, and in what the dispatcher must know of: modes, transforms, tracers, autocast.
_Guard = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)
if not hasattr(_forward_ad, "_current_level"):
    _Guard = None
#: Sizes of the first tensor that a thread knows, calls of each; then one of 64 misses is learned.
MOST_KNOWN, MOST_ALIKE, EACH_MISS = 64, 8, 64


def _is_recorded(tensors: Sequence[Tensor | None]) -> bool | None:
    """Whether autograd has to record a call; None where other parts of PyTorch must know of it."""
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
    """Refuse forward gradients, of which PyTorch would lose those of an operator in silence."""
    forward = torch.autograd.forward_ad
    if getattr(forward, "_current_level", -1) >= 0 and any(
        one is not None and forward.unpack_dual(one).tangent is not None for one in tensors
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
        Of the same arguments: empty tensors as the results.
    gradients : callable, optional
        ``gradients(ctx, dy)``: those of all tensors, by operators, of `ctx.options` and of what is
        kept, `ctx.saved_tensors`: the tensors.
    keeps_result : bool
        The result is kept instead.
    entry : EntryPoint, optional
        What `function` calls with the same tensors.
    entry_options : callable
        ``entry_options(*options)``: the options that `entry` is called with.

    Attributes
    ----------
    call : callable
        ``call(tensors, options)``: the operator, or what it stands for where nobody can tell.
    now : callable
        The function itself.
    recorded, seen : callable
        ``recorded(*tensors, *options, how)``: what ``how(tensors, options)`` returns, its gradient
        recorded by autograd; the same for transforms.
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
        self.own = _Known()
        self.call = self._called()
        schema = torch.library.infer_schema(function, mutates_args=())
        LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))  # as opcheck finds
        # where autograd is done gradients may still be on, and the function refuses
        LIBRARY.impl(name, torch.no_grad()(function), "CompositeExplicitAutograd")
        torch.library.register_fake(f"course::{name}", looks_like, lib=LIBRARY)
        self.registered = getattr(torch.ops.course, name).default
        LIBRARY.impl(name, self._from_dispatcher, "Autograd", with_keyset=True)
        #: The dispatcher. torch.compile's programs call `registered`, which calls this: they go the
        #: short way, too. Where PyTorch has it under another name, they go through the dispatcher.
        self._dispatch = getattr(self.registered, "_op", None)
        if self._dispatch is not None:
            self.registered._op = self._from_program

    def _called(self) -> Callable[..., Any]:
        """`Operator.call`: a function with all that it needs at hand, since each step counts."""
        own, unknown = self.own, self._call_unknown

        def call(tensors: tuple, options: tuple = ()) -> Any:
            if not _is_compiling() and type(size := tensors[0].numel()) is int:  # or a symbol
                for is_known, known_options, recorded, how in own.calls.get(size, ()):
                    if known_options == options and is_known(*tensors):
                        if _function_modes() or _forward_ad._current_level >= 0:
                            break
                        if recorded is not None and _is_grad_enabled():
                            return recorded(*tensors)
                        return how(*tensors)
            return unknown(tensors, options)

        return call

    def _call_unknown(self, tensors: tuple, options: tuple) -> Any:
        """The same with tensors that this thread does not know, or whom nobody may know of."""
        recorded = _is_recorded(tensors)
        if recorded is None:
            if not _is_compiling():
                _check_tangents(tensors)
            return self.registered(*tensors, *options)
        if recorded:
            return self.recorded(*tensors, *options, self.call)
        found = self.now(*tensors, *options)
        if self.entry is not None and _Guard is not None:
            self._learn(tensors, options)
        return found

    def _learn(self, tensors: Sequence[Tensor], options: tuple) -> None:
        """Know such tensors in this thread's next call."""
        own, size = self.own, tensors[0].numel()
        own.misses += 1
        alike, full = own.calls.get(size, []), len(own.calls) >= MOST_KNOWN
        if own.misses % EACH_MISS and (len(alike) >= MOST_ALIKE or (full and not alike)):
            return
        if any(one is None for one in tensors):
            return
        facts = (reader_of(one)(one)[0] for one in tensors)
        plan = self.entry.plans.get((self.entry_options(*options), *facts))
        if plan is not None:
            guard = _Guard(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            how, recorded = self._planned(plan, options), None
            if any(one.requires_grad for one in tensors):
                recorded, _ = self._recorded(how, options)
            if full and not alike:
                own.calls.pop(next(iter(own.calls)))
            known = guard.check, options, recorded, how
            own.calls[size] = [*alike[1 - MOST_ALIKE :], known]

    def _planned(self, plan: Callable[..., Any], options: tuple) -> Callable[..., Any]:
        """A plan as a function of an operator's tensors."""
        address_of, now = Tensor.data_ptr, self.now
        launched = plan.own() if hasattr(plan, "own") else plan
        if not hasattr(launched, "parts"):
            return lambda *tensors: now(*tensors, *options)
        slots, quick, is_captured = launched.parts

        def known(*tensors: Tensor) -> Any:
            together = n = 0
            for one in tensors:
                slots[n] = address = address_of(one)
                together |= address
                n += 1
            if together & ALIGNMENT_MASK or (is_captured is not None and is_captured()):
                return now(*tensors, *options)
            return quick()

        return known

    def _from_program(self, *inputs: Any, **named: Any) -> Any:
        """The same for who calls `registered`: gradients that are wanted are the dispatcher's."""
        if not named and len(inputs) >= self.count and _is_recorded(inputs[: self.count]) is False:
            return self.now(*inputs)
        return self._dispatch(*inputs, **named)

    def _from_dispatcher(self, keys: Any, *inputs: Any) -> Any:
        """The same from within the dispatcher."""
        below = functools.partial(_below_autograd, self.registered, keys)
        tensors, options = inputs[: self.count], inputs[self.count :]
        wanted = any(one is not None and one.requires_grad for one in tensors)
        if wanted and torch.is_grad_enabled():
            return self.seen(*inputs, below)
        return below(tensors, options)

    def _recorded(
        self, how: Callable[..., Any] | None = None, options: tuple = ()
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What records gradients, and the same for transforms; of tensors alone if `how` is given,
        or of tensors, options and how.
        """
        gradients, keeps_result, count = self.gradients, self.keeps_result, self.count

        class Recorded(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                tensors, ctx.options, how = inputs[:count], inputs[count:-1], inputs[-1]
                result = how(tensors, ctx.options)
                ctx.save_for_backward(*((result,) if keeps_result else tensors))
                return result

            @staticmethod
            def backward(ctx, *dy):
                found = gradients(ctx, *dy)
                found = found if isinstance(found, tuple) else (found,)
                return *found, *(None for _ in ctx.options), None

        class Known(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                result = how(*tensors)
                if keeps_result:
                    ctx.save_for_backward(result)
                else:
                    ctx.save_for_backward(*tensors)
                return result

            backward = staticmethod(gradients)

        chosen = Recorded
        if how is not None:
            chosen = Known
            Known._backward_cls.options = options
            Known._backward_cls.apply = gradients  # Function's would look for `vjp` first
        # Function.apply would look for transforms, which nobody calls this with, then do the same
        return getattr(super(torch.autograd.Function, chosen), "apply", chosen.apply), chosen.apply


class _Known(threading.local):
    """What a thread knows of an operator's calls, by the elements of the first tensor: guards of
    tensors, options, what is called where a gradient may be wanted and is, what is called else.
    """

    def __init__(self) -> None:
        self.calls: dict[int, list[tuple[Callable[..., bool], tuple, Any, Callable]]] = {}
        self.misses = 0


def _refusal(name: str) -> Callable[..., Any]:
    """The gradient of what has none."""

    def refuse(ctx: Any, *dy: Tensor) -> None:
        raise RuntimeError(f"course::{name} has no autograd formula: its gradient is not offered")

    return refuse


def _below_autograd(operator: Any, keys: Any, tensors: tuple, options: tuple) -> Any:
    """What the dispatcher calls when autograd is done."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *tensors, *options)


# --- small tensors --------------------------------------------------------------------------------

#: Elements up to which PyTorch's own operator is called where a gradient may be asked for: the GPU
#: is done with both before the host is, which a gradient in Python costs 20 to 50 µs more. On an
#: H200 these are 4.3 million: of 4,096 rows of 1,024 in float32 a softmax and its gradient take the
#: host 111 µs of PyTorch's own and 134 of ours, the GPU 38 and 22.
MOST_HANDED = 2**15 * cuda.get_current_device().MULTIPROCESSOR_COUNT if backend.gpu() else 0
CHEAP = 4  # times as many of an activation, whose kernels take PyTorch little longer than ours
FIRST_DEVICE = 0  # a tensor's of the host is -1
MOST_ROWS = 4096  # of LayerNorm's, whose gradient PyTorch adds up row by row
_TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))


def _is_handed(x: Tensor, times: int = 1) -> bool:
    """Whether PyTorch's own operator is called: a bound `times` as large, gradients required."""
    return (
        not _is_compiling()
        and x.get_device() >= FIRST_DEVICE
        and 0 < x.numel() <= times * MOST_HANDED
        and x.dtype in _TYPES
        and x.is_contiguous()
    )


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
    if activation is None and x.requires_grad and eps >= 0 and _is_handed(x):
        columns = x.shape[-1:]
        alike = gamma is None or gamma.dtype == x.dtype or torch.is_autocast_enabled()
        if alike and x.numel() <= MOST_ROWS * columns.numel():
            try:
                return torch.layer_norm(x, columns, gamma, beta, eps)
            except RuntimeError:
                pass  # ours can do it, or says what is wrong
    return LAYER_NORM.call((x, gamma, beta), (eps, activation))


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


def softmax(x: Tensor) -> Tensor:
    """The softmax along the last axis, of any of the three types; as `course.kernels.softmax`.

    Small tensors that require a gradient go to `torch.softmax`, see `MOST_HANDED`.
    """
    if x.requires_grad and _is_handed(x) and x.dim():
        return torch.softmax(x, -1)
    return SOFTMAX.call((x,))


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


_GELUS = {"none": "gelu", "tanh": "gelu tanh"}
_OWN = {
    "gelu": torch.nn.functional.gelu,
    "gelu tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


def activation(x: Tensor, name: str = "gelu") -> Tensor:
    """Apply a function of `course.kernels.activation.FUNCTIONS` to every element.

    Small tensors that require a gradient go to PyTorch's own function, if it has one, see
    `MOST_HANDED`: at minus infinity its GELU and SiLU are NaN, ours are -0.
    """
    if x.requires_grad and name in _OWN and _is_handed(x, CHEAP):
        return _OWN[name](x)
    return ACTIVATION.call((x,), (name,))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU, as `torch.nn.functional.gelu`; `approximate` is "none" or "tanh"; see `activation`."""
    name = _GELUS.get(approximate)
    if name is None:
        raise ValueError(f"approximate is {approximate!r}: choose 'none' or 'tanh'")
    return activation(x, name)


def silu(x: Tensor) -> Tensor:
    """SiLU (Swish), as `torch.nn.functional.silu`; see `activation`."""
    return activation(x, "silu")


# --- reconstruction -------------------------------------------------------------------------------


def _reconstruct(u: Tensor, s: Tensor, vt: Tensor, k: int) -> Tensor:
    return rebuild(*(_rows(factor) for factor in (u, s, vt)), k)


def _reconstruct_gradients(ctx, dy):
    (u, s, vt), (k,) = ctx.saved_tensors, ctx.options
    few, values, rows = u[..., :k], s[..., :k], vt[..., :k, :]
    along = dy @ rows.mT  # of u, before its scale
    du = along * values.unsqueeze(-2)
    ds = (few * along).sum(-2)
    dvt = (few * values.unsqueeze(-2)).mT @ dy
    more = s.shape[-1] - k
    pad = torch.nn.functional.pad
    return pad(du, (0, more)), pad(ds, (0, more)), pad(dvt, (0, 0, 0, more))


RECONSTRUCT = Operator(
    _reconstruct,
    lambda u, s, vt, k: _empty(u, *u.shape[:-1], vt.shape[-1]),
    _reconstruct_gradients,
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
