"""The sizes of a vision transformer, what its parameters are called, and which way each part goes.

An image's patches become tokens, a class token goes before them; then `depth` blocks,

    x += proj(attention(qkv(norm1(x)))),   x += fc2(gelu(fc1(norm2(x)))),

and the class token, normalised, gives a score for each class. Names are timm's.

Source: Dosovitskiy et al., "An image is worth 16x16 words", arXiv:2010.11929.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields

from course import backend
from course.kernels.attention import attention
from course.kernels.gemm.half import LADDER_ONLY, gemm
from course.kernels.norm import LADDER, REGISTERS_AND_SHARED
from course_models import is_whole
from course_models.patches import WAYS
from course_models.vit.normed import MULTIPLE

EPSILON = 1e-6  # of both timm's and torchvision's LayerNorm


@dataclass(frozen=True)
class ViTShape:
    """A vision transformer's sizes; ViT-Base of 100 classes without others.

    Attributes
    ----------
    image, patch : int
        Pixels of a side; patches fill the image.
    width, heads : int
        Elements of a token; attention's heads share them.
    depth, mlp : int
        Blocks, and elements of a token between a block's last two layers.
    classes, channels : int
    """

    image: int = 224
    patch: int = 16
    width: int = 768
    depth: int = 12
    heads: int = 12
    mlp: int = 3072
    classes: int = 100
    channels: int = 3

    def __post_init__(self) -> None:
        for its in fields(self):
            size = getattr(self, its.name)
            if not is_whole(size) or size < 1:
                raise ValueError(f"{its.name} is {size!r}; it must be a whole number of at least 1")
            object.__setattr__(self, its.name, int(size))  # NumPy's become Python's
        for whole, part in (("image", "patch"), ("width", "heads")):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(
                    f"{whole} is {getattr(self, whole)}; it must be a multiple of {part}, "
                    f"{getattr(self, part)}"
                )

    @property
    def head(self) -> int:
        """Elements of a token that one head has."""
        return self.width // self.heads

    @property
    def tokens(self) -> int:
        """Of an image, the class token among them."""
        return (self.image // self.patch) ** 2 + 1

    @functools.cached_property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter by timm's name: weights (outputs, inputs)."""
        d, found = self.width, {}
        found["cls_token"], found["pos_embed"] = (1, 1, d), (1, self.tokens, d)
        found["patch_embed.proj.weight"] = (d, self.channels, self.patch, self.patch)
        found["patch_embed.proj.bias"] = (d,)
        layers = {f"blocks.{n}.{name}": size for n in range(self.depth) for name, size in (
            ("norm1", (d,)), ("attn.qkv", (3 * d, d)), ("attn.proj", (d, d)), ("norm2", (d,)),
            ("mlp.fc1", (self.mlp, d)), ("mlp.fc2", (d, self.mlp)),
        )}  # fmt: skip
        for name, size in (layers | {"norm": (d,), "head": (self.classes, d)}).items():
            found[f"{name}.weight"], found[f"{name}.bias"] = size, size[:1]
        return found

    @property
    def count(self) -> int:
        """How many parameters are learned."""
        return sum(map(math.prod, self.parameters.values()))

    def operations(self, batch: int = 1) -> int:
        """Of the products of a forward pass, a multiplication and an addition each."""
        d, tokens = self.width, self.tokens
        linear = 2 * tokens * d * (4 * d + 2 * self.mlp)
        attention = 4 * tokens * tokens * d
        patches = 2 * (tokens - 1) * d * self.channels * self.patch**2
        return batch * (patches + self.depth * (linear + attention) + 2 * d * self.classes)


#: Small enough for the simulator, with heads of the size that attention takes.
TOY = ViTShape(image=8, patch=4, width=128, depth=1, heads=2, mlp=192, classes=5)


@dataclass(frozen=True)
class Flags:
    """Which implementation each part of a vision transformer takes.

    All take and give the same, float16 of the same layout: any goes with any.

    Attributes
    ----------
    patches : str
        Of `course_models.patches.WAYS`.
    norm : str
        "within": by the products around it, where they are fused, and by TMA: "roles", or "auto"
        on a GPU of compute capability 9.0; else by "auto", a method of LayerNorm as others are.
    attention, product : str
        The method of attention, of products but the last, of any number of classes.
    mlp : str
        "fused": bias and GELU within the product; "unfused": a kernel of their own.
    residual : str
        "epilogue": added within the product; "apart": by a kernel of its own.
    gelu : str
        "gelu", with erf, as all trained ViTs here have it, or "gelu tanh".
    last : str
        "all": all tokens go through the last block, as through others; "class": after its attention
        the class tokens alone, since nothing reads what becomes of the others.
    buffers : str
        "arena": buffers that are not alive together share memory; "apart": each has its own;
        "asynchronous": taken from the driver's pool and given back between launches.
    """

    patches: str = "gemm"
    norm: str = "within"
    attention: str = "auto"
    mlp: str = "fused"
    residual: str = "epilogue"
    product: str = "auto"
    gelu: str = "gelu"
    last: str = "all"
    buffers: str = "arena"

    def __post_init__(self) -> None:
        for name, choices in self.choices().items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"there is no {name} {getattr(self, name)!r}: choose {', '.join(choices)}"
                )

    @classmethod
    def given(cls, flags: Flags | None) -> Flags:
        """Those that were given, or the usual ones.

        Raises
        ------
        TypeError
            For anything else, such as a dict of them.
        """
        if not isinstance(flags, Flags | None):
            raise TypeError(
                f"flags are a {type(flags).__name__}; they must be Flags, such as "
                "Flags(last='class')"
            )
        return flags or cls()

    def within(self, shape: ViTShape) -> bool:
        """Whether products do LayerNorm, if the GPU has what they need."""
        fused = (self.norm, self.patches, self.mlp, self.residual)
        by_tma = self.product == "roles" or (self.product == "auto" and backend.gpu() is not None)
        fits = by_tma and not (shape.width | shape.mlp) % MULTIPLE
        return fits and fused == ("within", "gemm", "fused", "epilogue")

    @staticmethod
    def choices() -> dict[str, tuple[str, ...]]:
        """What each flag can be."""
        return {
            "patches": WAYS,
            "norm": ("within", *(its for its in LADDER.names if its != REGISTERS_AND_SHARED)),
            "attention": attention.ladder.names,
            "mlp": ("fused", "unfused"), "residual": ("epilogue", "apart"),
            "product": tuple(its for its in gemm.ladder.names if its not in LADDER_ONLY),
            "gelu": ("gelu", "gelu tanh"),
            "last": ("all", "class"), "buffers": ("arena", "apart", "asynchronous"),
        }  # fmt: skip
