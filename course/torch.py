"""The course's kernels as operators of PyTorch: for autograd, torch.compile, autocast and graphs.

>>> from course.torch import layer_norm, softmax, gelu, silu, reconstruct
>>> y = layer_norm(x, gamma, beta, activation="gelu")    # y.backward() works

Each is registered with `torch.library.custom_op`: a kernel, what its result looks like (for
torch.compile, which calls it without numbers), and a gradient. Gradients are kernels of the course,
too, but for `reconstruct`, whose are three products. Types are float32 and float16; under autocast
`layer_norm` and `softmax` work in float32, as PyTorch's do. Without a GPU the simulator computes.

A call through PyTorch's dispatcher costs the host more than the front door itself
(`course.kernels.norm.layer_norm` takes tensors, too, where no gradient is wanted); `python -m
course bench door` says how much.

Source: PyTorch, "torch.library"; "The Custom Operators Manual".
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op

from course.kernels import activation as activations
from course.kernels import norm
from course.kernels.reconstruct.ladder import reconstruct as rebuild
from course.kernels.softmax import softmax as softmax_of
from course.kernels.softmax import softmax_backward as softmax_gradient_of

__all__ = ["activation", "gelu", "layer_norm", "reconstruct", "silu", "softmax"]


def _rows(x: Tensor) -> Tensor:
    """A tensor whose rows kernels can read as they lie, or a copy."""
    if x.dim() == 2 and x.stride(1) == 1:
        return x
    return x.contiguous()


def _empty(x: Tensor, *shape: int) -> Tensor:
    """What a result looks like: side by side in memory, of x's type and device."""
    return x.new_empty(shape or x.shape)


# --- LayerNorm ------------------------------------------------------------------------------------


@custom_op("course::layer_norm", mutates_args=())
def _layer_norm(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float, activation: str | None
) -> Tensor:
    with torch.no_grad():
        return norm.layer_norm(_rows(x), gamma, beta, eps, activation=activation)


_layer_norm.register_fake(lambda x, gamma, beta, eps, activation: _empty(x))


@custom_op("course::layer_norm_backward", mutates_args=())
def _layer_norm_backward(
    dy: Tensor, x: Tensor, gamma: Tensor | None, eps: float, parameters: bool
) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        found = norm.layer_norm_backward(
            dy.contiguous(), x.contiguous(), gamma, eps, parameters=parameters
        )
    like = x if gamma is None else gamma
    dx, dgamma, dbeta = (_empty(like, 0) if one is None else one for one in found)
    return dx, dgamma, dbeta


@_layer_norm_backward.register_fake
def _gradients_look_like(dy, x, gamma, eps, parameters):
    like = x if gamma is None else gamma
    sums = x.shape[-1] if parameters else 0
    return _empty(x), _empty(like, sums), _empty(like, sums)


def _save_layer_norm(ctx, inputs, output):
    x, gamma, beta, ctx.eps, ctx.activation = inputs
    ctx.save_for_backward(x, gamma, beta)


def _layer_norm_gradients(ctx, dy):
    x, gamma, beta = ctx.saved_tensors
    if ctx.activation is not None:  # what it was given is computed once more, and not kept
        before = _layer_norm(x, gamma, beta, ctx.eps, None)
        dy = _activation_gradient(dy, before, ctx.activation)
    parameters = any(ctx.needs_input_grad[1:3])
    dx, dgamma, dbeta = _layer_norm_backward(dy, x, gamma, ctx.eps, parameters)
    wanted = ctx.needs_input_grad
    return dx, dgamma if wanted[1] else None, dbeta if wanted[2] else None, None, None


_layer_norm.register_autograd(_layer_norm_gradients, setup_context=_save_layer_norm)


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    eps: float = 1e-5,
    activation: str | None = None,
) -> Tensor:
    """Normalise rows, along the last axis, and apply an activation to the result, in one kernel.

    Parameters
    ----------
    x : tensor, shape (..., columns), float32 or float16
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
    return _layer_norm(x, gamma, beta, eps, activation)


# --- softmax --------------------------------------------------------------------------------------


@custom_op("course::softmax", mutates_args=())
def _softmax(x: Tensor) -> Tensor:
    with torch.no_grad():
        return softmax_of(_rows(x))


_softmax.register_fake(lambda x: _empty(x))


@custom_op("course::softmax_backward", mutates_args=())
def _softmax_backward(dy: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return softmax_gradient_of(dy.contiguous(), y.contiguous())


_softmax_backward.register_fake(lambda dy, y: _empty(y))


_softmax.register_autograd(
    lambda ctx, dy: _softmax_backward(dy, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)


def softmax(x: Tensor) -> Tensor:
    """The softmax along the last axis, of float32 or float16; as `course.kernels.softmax`."""
    return _softmax(x)


# --- activations ----------------------------------------------------------------------------------


@custom_op("course::activation", mutates_args=())
def _activation(x: Tensor, name: str) -> Tensor:
    with torch.no_grad():
        return activations.activation(x.contiguous(), name)


_activation.register_fake(lambda x, name: _empty(x))


@custom_op("course::activation_gradient", mutates_args=())
def _activation_gradient(dy: Tensor, x: Tensor, name: str) -> Tensor:
    with torch.no_grad():
        return activations.activation_gradient(dy.contiguous(), x.contiguous(), name)


_activation_gradient.register_fake(lambda dy, x, name: _empty(x))


def _save_activation(ctx, inputs, output):
    x, ctx.name = inputs
    ctx.save_for_backward(x)


_activation.register_autograd(
    lambda ctx, dy: (_activation_gradient(dy, *ctx.saved_tensors, ctx.name), None),
    setup_context=_save_activation,
)


def activation(x: Tensor, name: str = "gelu") -> Tensor:
    """Apply a function of `course.kernels.activation.FUNCTIONS` to every element."""
    return _activation(x, name)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU, as `torch.nn.functional.gelu`; `approximate` is "none" or "tanh"."""
    names = {"none": "gelu", "tanh": "gelu tanh"}
    if approximate not in names:
        raise ValueError(f"approximate is {approximate!r}: choose 'none' or 'tanh'")
    return _activation(x, names[approximate])


def silu(x: Tensor) -> Tensor:
    """SiLU (Swish), as `torch.nn.functional.silu`."""
    return _activation(x, "silu")


# --- reconstruction -------------------------------------------------------------------------------


@custom_op("course::reconstruct", mutates_args=())
def _reconstruct(u: Tensor, s: Tensor, vt: Tensor, k: int) -> Tensor:
    with torch.no_grad():
        return rebuild(*(_rows(factor) for factor in (u, s, vt)), k)


_reconstruct.register_fake(lambda u, s, vt, k: _empty(u, *u.shape[:-1], vt.shape[-1]))


def _save_factors(ctx, inputs, output):
    *factors, ctx.k = inputs
    ctx.save_for_backward(*factors)


def _reconstruct_gradients(ctx, dy):
    u, s, vt = ctx.saved_tensors
    few, values, rows = u[..., : ctx.k], s[..., : ctx.k], vt[..., : ctx.k, :]
    along = dy @ rows.mT  # of u, before its scale
    du = along * values.unsqueeze(-2)
    ds = (few * along).sum(-2)
    dvt = (few * values.unsqueeze(-2)).mT @ dy
    more = s.shape[-1] - ctx.k
    pad = torch.nn.functional.pad
    return pad(du, (0, more)), pad(ds, (0, more)), pad(dvt, (0, 0, 0, more)), None


_reconstruct.register_autograd(_reconstruct_gradients, setup_context=_save_factors)


def reconstruct(u: Tensor, s: Tensor, vt: Tensor, k: int) -> Tensor:
    """Rebuild an image, or a stack, from its k largest singular values.

    Parameters and errors are those of `course.kernels.reconstruct.ladder.reconstruct`; types are
    float32.
    """
    return _reconstruct(u, s, vt, k)


# --- autocast -------------------------------------------------------------------------------------

for _name in ("layer_norm", "softmax", "reconstruct"):
    if hasattr(torch.library, "register_autocast"):
        torch.library.register_autocast(f"course::{_name}", "cuda", torch.float32)
