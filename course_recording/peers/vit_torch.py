"""PyTorch's vision transformer: the course's model and weights, of PyTorch's own layers.

Its parameters have timm's names, so that the course's weights can be loaded as they are.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from course_models.vit.shape import EPSILON, ViTShape
from course_models.vit.weights import Weights


def network(torch: ModuleType, shape: ViTShape, weights: Weights, device: str = "cuda") -> Any:
    """The model in float16, for inference; called with images, it returns scores."""
    nn, functional = torch.nn, torch.nn.functional
    d = shape.width

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            qkv = self.qkv(x).view(*x.shape[:2], 3, shape.heads, shape.head)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            heads = functional.scaled_dot_product_attention(q, k, v)
            return self.proj(heads.transpose(1, 2).reshape(x.shape))

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(d, shape.mlp), nn.Linear(shape.mlp, d)

        def forward(self, x):
            return self.fc2(functional.gelu(self.fc1(x)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(d, EPSILON), nn.LayerNorm(d, EPSILON)
            self.attn, self.mlp = Attention(), Perceptron()

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class PatchEmbed(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Conv2d(shape.channels, d, shape.patch, shape.patch)

        def forward(self, x):
            """Embed by a matrix product: cuDNN's convolution takes ten times as long."""
            n, side = shape.image // shape.patch, shape.patch
            cells = x.view(-1, shape.channels, n, side, n, side).permute(0, 2, 4, 1, 3, 5)
            rows = cells.reshape(len(x), n * n, shape.channels * side * side)
            return functional.linear(rows, self.proj.weight.flatten(1), self.proj.bias)

    class VisionTransformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.cls_token = nn.Parameter(torch.empty(1, 1, d))
            self.pos_embed = nn.Parameter(torch.empty(1, shape.tokens, d))
            self.patch_embed = PatchEmbed()
            self.blocks = nn.Sequential(*(Block() for _ in range(shape.depth)))
            self.norm, self.head = nn.LayerNorm(d, EPSILON), nn.Linear(d, shape.classes)

        def tokens(self, x):
            x = self.patch_embed(x)
            return torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.tokens(x)))[:, 0])

    model = VisionTransformer()
    model.load_state_dict({name: torch.from_numpy(its) for name, its in weights.items()})
    return model.to(device).half().eval().requires_grad_(False)
