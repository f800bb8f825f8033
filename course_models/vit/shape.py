"""A vision transformer's sizes, its parameters' names, and the implementation of each part.

An image's patches become tokens, with a class token before them. Then follow `depth` blocks,

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

EPSILON = 1e-6  # LayerNorm's, in timm and in torchvision


@dataclass(frozen=True)
class ViTShape:
    """A vision transformer's sizes; the defaults are ViT-Base with 100 classes.

    Attributes
    ----------
    image, patch : int
        Pixels of a side; `patch` divides `image`.
    width, heads : int
        Elements of a token, and attention's heads, among which they are divided.
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
        """Elements of a token in one head."""
        return self.width // self.heads

    @property
    def tokens(self) -> int:
        """Tokens of an image, the class token included."""
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
        """Operations of a forward pass's matrix products; a multiply-add counts as two."""
        d, tokens = self.width, self.tokens
        linear = 2 * tokens * d * (4 * d + 2 * self.mlp)
        attention = 4 * tokens * tokens * d
        patches = 2 * (tokens - 1) * d * self.channels * self.patch**2
        return batch * (patches + self.depth * (linear + attention) + 2 * d * self.classes)


#: Small enough for the simulator, with heads of a size that attention takes.
TOY = ViTShape(image=8, patch=4, width=128, depth=1, heads=2, mlp=192, classes=5)


@dataclass(frozen=True)
class Flags:
    """Which implementation each part of a vision transformer takes.

    All have inputs and outputs in float16 of the same layout, so that they can be combined freely.

    Attributes
    ----------
    patches : str
        One of `course_models.patches.WAYS`.
    norm : str
        "within": the fused products around it compute it, where they run by TMA ("roles", or "auto"
        with compute capability 9.0); elsewhere that is "auto". Others are methods of LayerNorm.
    attention, product : str
        The method of attention, and of all products but the last, whose columns are the classes.
    mlp : str
        "fused": bias and GELU in the product's epilogue; "unfused": in a kernel of their own.
    residual : str
        "epilogue": added in the product's epilogue; "apart": in a kernel of its own.
    gelu : str
        "gelu", with erf, which all trained ViTs here have, or "gelu tanh".
    last : str
        "all": all tokens go through the whole last block; "class": after its attention only the
        class tokens do, since nothing reads the others' results.
    buffers : str
        "arena": buffers that are not alive together share memory; "apart": each has its own;
        "asynchronous": allocated from the driver's pool and freed between launches.
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
        """The given flags, or the defaults.

        Raises
        ------
        TypeError
            For anything else, such as a dict of flags.
        """
        if not isinstance(flags, Flags | None):
            raise TypeError(
                f"flags are a {type(flags).__name__}; they must be Flags, such as "
                "Flags(last='class')"
            )
        return flags or cls()

    def within(self, shape: ViTShape) -> bool:
        """Whether products compute LayerNorm, if the GPU has compute capability 9.0."""
        fused = (self.norm, self.patches, self.mlp, self.residual)
        by_tma = self.product == "roles" or (self.product == "auto" and backend.gpu() is not None)
        fits = by_tma and not (shape.width | shape.mlp) % MULTIPLE
        return fits and fused == ("within", "gemm", "fused", "epilogue")

    @staticmethod
    def choices() -> dict[str, tuple[str, ...]]:
        """The values that each flag can have."""
        return {
            "patches": WAYS,
            "norm": ("within", *(its for its in LADDER.names if its != REGISTERS_AND_SHARED)),
            "attention": attention.ladder.names,
            "mlp": ("fused", "unfused"), "residual": ("epilogue", "apart"),
            "product": tuple(its for its in gemm.ladder.names if its not in LADDER_ONLY),
            "gelu": ("gelu", "gelu tanh"),
            "last": ("all", "class"), "buffers": ("arena", "apart", "asynchronous"),
        }  # fmt: skip
