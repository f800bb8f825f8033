"""The spectral autoencoder's weights: shapes, seed, file, and one array for the fused kernel."""

from __future__ import annotations

import dataclasses

import numpy as np

from course.files import data_path
from course_models.common import StoredWeights
from course_models.spectral.data import BANDS, FRAMES, POINTS

CODE = 32  # elements that a spectrum is reduced to
EPSILON = 1e-5  # added to a variance, as PyTorch's LayerNorm does

SHAPES: dict[str, tuple[int, ...]] = {
    "encode_gamma": (BANDS,),
    "encode_beta": (BANDS,),
    "encode_weight": (BANDS, BANDS),
    "encode_bias": (BANDS,),
    "basis": (CODE, POINTS),
    "code_gamma": (CODE,),
    "code_beta": (CODE,),
    "code_weight": (CODE, CODE),
    "code_bias": (CODE,),
    "decode_weight": (BANDS, BANDS),
    "decode_bias": (BANDS,),
}

# --- one array for the fused kernel: where each part begins, in elements -------------------------
BASIS_PITCH = POINTS + 4  # row pitch: 8 lanes that read 4 elements of 8 rows do not conflict
PACKED_ENCODE = 0  # encode_weight transposed, (input, output): 64 x 64
PACKED_BIASES = PACKED_ENCODE + BANDS * BANDS  # encode_bias, code_bias, decode_bias
CODE_BIAS, DECODE_BIAS, BIASES = BANDS, BANDS + CODE, 2 * BANDS + CODE  # within the biases
PACKED_BASIS = PACKED_BIASES + BIASES  # 32 rows of BASIS_PITCH
PACKED_CODE = PACKED_BASIS + CODE * BASIS_PITCH  # code_weight transposed: 32 x 32
PACKED_DECODE = PACKED_CODE + CODE * CODE  # decode_weight transposed: 64 x 64; or folded, a basis
PACKED = PACKED_DECODE + BANDS * BANDS  # elements in all
PACKED_FOLDED = PACKED_DECODE + CODE * BASIS_PITCH  # elements in all, folded


@dataclasses.dataclass(frozen=True)
class Weights(StoredWeights):
    """Weights of the spectral autoencoder, float32, each of the shape in `SHAPES`.

    A Linear's weight is (outputs, inputs), as in PyTorch. The five frames share one encoder and one
    decoder. Rows of `basis` have length 1.

    Raises
    ------
    ValueError
        For another shape or dtype, weights that are not finite, or a basis whose rows have another
        length.
    """

    encode_gamma: np.ndarray
    encode_beta: np.ndarray
    encode_weight: np.ndarray
    encode_bias: np.ndarray
    basis: np.ndarray
    code_gamma: np.ndarray
    code_beta: np.ndarray
    code_weight: np.ndarray
    code_bias: np.ndarray
    decode_weight: np.ndarray
    decode_bias: np.ndarray

    def __post_init__(self):
        self.check(SHAPES)
        lengths = np.linalg.norm(self.basis.astype(np.float64), axis=1)
        if np.abs(lengths - 1).max() > 1e-5:
            raise ValueError(
                f"rows of basis have lengths from {lengths.min():.6g} to {lengths.max():.6g}; "
                "they must be 1: divide each row by its length"
            )

    @classmethod
    def random(cls, seed: int) -> Weights:
        """Random weights from a seed, with which a training starts."""
        rng = np.random.default_rng(seed)
        made = {}
        for name, shape in SHAPES.items():
            if name.endswith("gamma"):
                values = 1 + 0.1 * rng.standard_normal(shape)
            else:
                values = rng.standard_normal(shape) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.1)
            if name == "basis":
                values /= np.linalg.norm(values, axis=1, keepdims=True)
            made[name] = values.astype(np.float32)
        return cls(**made)

    @classmethod
    def trained(cls) -> Weights:
        """The weights that come with the course; ``python -m tools.train.spectral`` makes them."""
        return cls.load(data_path("models", "spectral.npz"))

    def packed(self, folded: bool = False) -> np.ndarray:
        """All weights as one array in the order in which the fused kernel takes them.

        A launch then has one argument instead of eleven, and copies one run of bytes. Each
        LayerNorm's gamma and beta are folded into the Linear that follows it:
        W (gamma z + beta) + b is (W gamma) z + (W beta + b), computed here in float64.

        Parameters
        ----------
        folded : bool
            Multiply the decoder's W into the basis of each frame, in float64, as there is no layer
            between them: W (P' h) = (W P') h. That saves a third of all products for each spectrum.
            The encoder still takes P as it is.

        Returns
        -------
        ndarray, shape (PACKED,) or (PACKED_FOLDED,), float32
        """
        wide = {name: array.astype(np.float64) for name, array in self.as_dict().items()}
        weights, biases = {}, {}
        for name in ("encode", "code"):
            weight = wide[f"{name}_weight"]
            weights[name] = weight * wide[f"{name}_gamma"]
            biases[name] = weight @ wide[f"{name}_beta"] + wide[f"{name}_bias"]

        def rows(matrix: np.ndarray) -> np.ndarray:
            return np.pad(matrix, ((0, 0), (0, BASIS_PITCH - POINTS)))

        frames = wide["basis"].reshape(CODE, FRAMES, BANDS)
        decoder = (frames @ wide["decode_weight"].T).reshape(CODE, POINTS)
        parts = (
            weights["encode"].T, biases["encode"], biases["code"], wide["decode_bias"],
            rows(wide["basis"]), weights["code"].T,
            rows(decoder) if folded else wide["decode_weight"].T,
        )  # fmt: skip
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def multiplications(batch: int, folded: bool = False) -> int:
    """Multiply-adds in one forward pass of a batch."""
    linears = 1 if folded else 2  # with 64 x 64 weights
    each = linears * FRAMES * BANDS * BANDS + 2 * CODE * POINTS + CODE * CODE
    return batch * each
