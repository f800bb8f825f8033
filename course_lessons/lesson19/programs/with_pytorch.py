"""SiLU in PyTorch: an operator that is there."""

import torch
from torch.nn import functional


def silu(x):
    """Return the SiLU of every element."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    return functional.silu(torch.from_numpy(x).to(where)).cpu().numpy()
