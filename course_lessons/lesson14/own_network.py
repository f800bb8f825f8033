"""The exercise of lesson 14's end: the whole autoencoder in one kernel, a spectrum a block."""

import functools

import numpy as np

from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case, Limit, Tolerance
from course_models import spectral
from course_models.common import gelu
from course_models.spectral.weights import CODE, EPSILON, Weights

#: Stores of a block that the exercise needs: the code, the rebuilt spectrum, the error.
STORES = 32 + 320 + 1


def layers_of(weights):
    """The network's weights as `one_kernel` takes them, by name, float32 and in C order.

    A Linear's weight is (inputs, outputs): neighbouring lanes read neighbouring numbers. Gamma and
    beta of a LayerNorm are in the Linear that follows, multiplied and added in float64. The basis
    is there twice, turned for the way down to the code.
    """
    w = {name: array.astype(np.float64) for name, array in weights.as_dict().items()}
    encode, middle = (w[f"{name}_weight"] * w[f"{name}_gamma"] for name in ("encode", "code"))
    found = {
        "encode": encode.T,
        "encode_bias": w["encode_weight"] @ w["encode_beta"] + w["encode_bias"],
        "to_code": w["basis"].T,
        "middle": middle.T,
        "middle_bias": w["code_weight"] @ w["code_beta"] + w["code_bias"],
        "from_code": w["basis"],
        "decode": w["decode_weight"].T,
        "decode_bias": w["decode_bias"],
    }
    return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def arguments_of(x, weights):
    """All arguments of `one_kernel` for some spectra, by name; arrays for its results, too."""
    results = {
        "code": np.empty((len(x), CODE), np.float32),
        "y": np.empty_like(x),
        "errors": np.empty(len(x), np.float32),
    }
    return {"x": x, **layers_of(weights), **results}


# --- the network in NumPy, and what slips make of it ----------------------------------------------


def _normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)


def _without_mean(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)


def _as_of_64(h):
    """LayerNorm of 32 numbers that divides both of its sums by 64."""
    centred = h - h.mean(-1, keepdims=True) / 2
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) / 2 + EPSILON)


def _of_code(h, middle, bias):
    return gelu(_normalised(h) @ middle + bias)


def _normalised_late(h, middle, bias):
    return gelu(_normalised(h @ middle + bias))


def _up(code, from_code):
    return (code @ from_code).reshape(len(code), 5, 64)


def _mean_square(y, x, z):
    return ((y - x) ** 2).mean(1)


def _of_first_frame(code, from_code):
    return np.repeat(_up(code, from_code)[:, :1], 5, axis=1)


def _one_frame_s_share(frames):
    return frames * (np.arange(5) == 0)[:, None]


def _half_of_square(y, x, z):
    kept = (np.arange(320) % 64 < 32)[None]
    return ((y - x) ** 2 * kept).mean(1)


def rebuilt(
    x, encode, encode_bias, to_code, middle, middle_bias, from_code, decode, decode_bias, *,
    norm=_normalised, first=lambda z, weight, bias: gelu(z @ weight + bias), shares=lambda z: z,
    of_code=_of_code, up=_up, last=lambda r, weight, bias: r @ weight + bias, error=_mean_square,
):  # fmt: skip
    """What the kernel must store, in the precision of its arguments.

    What stands behind the star takes the place of a step, for what slips make of it.
    """
    z = norm(x.reshape(len(x), 5, 64))
    frames = shares(first(z, encode, encode_bias))
    code = of_code(frames.reshape(len(x), 320) @ to_code, middle, middle_bias)
    y = last(up(code, from_code), decode, decode_bias).reshape(len(x), 320)
    return {"code": code, "y": y, "errors": error(y, x, z.reshape(len(x), 320))}


#: Mistakes and what they give. As edits of the solution they take too long: each is a kernel of
#: many lines. tests/course_lessons/lesson14/test_own_network.py has the edits, and holds these to
#: them.
SLIPS = {
    said: functools.partial(rebuilt, **step)
    for said, step in {
        "the frames are not normalised": {"norm": lambda x: x},
        "the mean of a frame is not subtracted": {"norm": _without_mean},
        "the encoder's bias is missing": {"first": lambda z, weight, bias: gelu(z @ weight)},
        "the encoder's weights are turned: they are (inputs, outputs), encode[k, lane]": {
            "first": lambda z, weight, bias: gelu(z @ weight.T + bias)
        },
        "the encoder's GELU is missing": {"first": lambda z, weight, bias: z @ weight + bias},
        "the encoder's GELU comes before its Linear: first the sum, then GELU": {
            "first": lambda z, weight, bias: gelu(z) @ weight + bias
        },
        "the code has the share of one frame only: it is the sum of five": {
            "shares": _one_frame_s_share
        },
        "the code is not normalised": {"of_code": lambda h, weight, bias: gelu(h @ weight + bias)},
        "the code's LayerNorm does not subtract the mean": {
            "of_code": lambda h, weight, bias: gelu(_without_mean(h) @ weight + bias)
        },
        "the code's LayerNorm divides by 64: a code has 32 numbers": {
            "of_code": lambda h, weight, bias: gelu(_as_of_64(h) @ weight + bias)
        },
        "the code's LayerNorm comes after its Linear: first LayerNorm, then Linear, then GELU": {
            "of_code": _normalised_late
        },
        "the code's Linear is missing": {"of_code": lambda h, weight, bias: gelu(_normalised(h))},
        "the code's bias is missing": {
            "of_code": lambda h, weight, bias: gelu(_normalised(h) @ weight)
        },
        "the code's GELU is missing": {
            "of_code": lambda h, weight, bias: _normalised(h) @ weight + bias
        },
        "the code's GELU comes before its Linear": {
            "of_code": lambda h, weight, bias: gelu(_normalised(h)) @ weight + bias
        },
        "every frame is rebuilt with the basis of the first: its columns begin at 64 * warp": {
            "up": _of_first_frame
        },
        "the decoder is missing: after the basis comes a Linear": {
            "last": lambda r, weight, bias: r
        },
        "the decoder's bias is missing": {"last": lambda r, weight, bias: r @ weight},
        "there is a GELU after the decoder, where the network has none": {
            "last": lambda r, weight, bias: gelu(r @ weight + bias)
        },
        "the differences are not squared": {"error": lambda y, x, z: (y - x).mean(1)},
        "the absolute differences are summed, not the squares": {
            "error": lambda y, x, z: np.abs(y - x).mean(1)
        },
        "of a lane's two columns only the first counts for the error": {"error": _half_of_square},
        "the error is the sum of the squares: divide by 320": {
            "error": lambda y, x, z: ((y - x) ** 2).sum(1)
        },
        "the error is divided by 64: a spectrum has 320 numbers": {
            "error": lambda y, x, z: ((y - x) ** 2).sum(1) / 64
        },
        "the error has the root of the mean; it is the mean itself": {
            "error": lambda y, x, z: np.sqrt(_mean_square(y, x, z))
        },
        "the error is that of one frame alone": {
            "error": lambda y, x, z: ((y - x) ** 2)[:, :64].sum(1) / 320
        },
        "the error compares with the normalised frame: it is the spectrum itself that is rebuilt": {
            "error": lambda y, x, z: ((y - z) ** 2).mean(1)
        },
    }.items()
}


def _spectra(batch, *, level=0.0, spread=1.0, basis=1.0, common=0.0, trained=False, measured=False):
    """So many spectra; weights from training, or others in each case.

    What the basis has in common, the numbers of a code have: their mean is far from 0. With a small
    basis epsilon counts for the code, too.
    """

    def arguments(rng):
        weights = Weights.trained() if trained else Weights.random(int(rng.integers(1 << 30)))
        x = rng.standard_normal((batch, 320), dtype=np.float32) * np.float32(spread)
        given = arguments_of(x + np.float32(level), weights)
        return given | {"to_code": np.float32(basis) * given["to_code"] + np.float32(common)}

    at = f", all levels near {level:g}" if level else ""
    at += f", spread about {spread:g}" if spread < 1 else ""
    at += ", a small basis" if basis < 1 else ""
    its = "trained" if trained else "random"
    spectra = "1 spectrum" if batch == 1 else f"{batch} spectra"
    name = f"{spectra}{at}, {its} weights"
    return Case(name, arguments, block=160, grid=batch, measured=measured)


def _any_spectra(rng):
    spread = rng.choice([1, 0.003])
    level = spread * rng.choice([0, 20])
    basis, common = ((1, 0), (1, 0.25), (0.003, 0))[rng.integers(3)]
    return _spectra(int(rng.integers(1, 8)), level=level, spread=spread, basis=basis, common=common)


# --- what it is shown beside ----------------------------------------------------------------------


def _fused(x, errors, **_):
    """The launch of the package's fused kernel, as on an H200."""
    batch = len(x)
    shape = spectral.config_for(batch, 132, 227 * 1024, (9, 0))
    packed = Weights.trained().packed(shape.folded)
    given = x, packed, np.empty_like(x), np.empty_like(errors)
    kernel = spectral.kernel_of(shape)
    return [Launch(kernel, shape.blocks(batch, 132), shape.threads, given, shape.dynamic_shared)]


def _fused_on_gpu(x, y, errors, **_):
    model = spectral.Autoencoder(Weights.trained())
    return model.configured(x.shape[0], "fused"), (x, y, errors)


def _by_torch(
    torch, x, encode, encode_bias, to_code, middle, middle_bias, from_code, decode, decode_bias
):
    of = torch.nn.functional
    frames = of.layer_norm(x.view(-1, 5, 64), (64,), eps=EPSILON)
    frames = of.gelu(frames @ encode + encode_bias).view(-1, 320)
    code = of.layer_norm(frames @ to_code, (CODE,), eps=EPSILON)
    code = of.gelu(code @ middle + middle_bias)
    y = ((code @ from_code).view(-1, 5, 64) @ decode + decode_bias).view(-1, 320)
    return code, y, ((y - x) ** 2).mean(1)


def _least_bytes(to_code, code, **others):
    """Each array once, of the basis one of two; the package's kernel keeps its code to itself."""
    return sum(array.nbytes for array in others.values())


RIVALS = Rivals(
    package=_fused,
    called=_fused_on_gpu,
    torch=_by_torch,
    bytes=_least_bytes,
    operations=lambda x, **_: 2 * spectral.multiplications(len(x)),
    traced=_spectra(32, trained=True),
    timed=_spectra(4096, trained=True),
    recorded={
        "package": {"subject": "spectral", "variant": "fused", "shape": "4096"},
        "PyTorch": {"subject": "spectral", "variant": "torch", "shape": "4096"},
    },
)

# --- the exercise ---------------------------------------------------------------------------------

_BLOCKS_OWN = (
    "What a layer hands to the next stays in the block: in shared memory, or in registers. "
    "Device memory gets the code, the rebuilt spectrum and the error, each number once."
)
_WHO_WAITS = (
    "A frame's numbers are made and read by one warp: cuda.syncwarp() is enough there. All warps "
    "wait for each other where numbers of all frames meet: at the code's shares, at the code, at "
    "the errors' shares."
)

EXERCISE = dict(  # noqa: C408 - read as a call of `declare`
    name="one-kernel",
    lesson=14,
    title="A network in one kernel, your own",
    outputs=("code", "y", "errors"),
    reference=rebuilt,
    cases=[
        _spectra(1, basis=0.003),
        _spectra(3, level=20.0, common=0.25),
        _spectra(5, trained=True, measured=True),
    ],
    drawer=_any_spectra,
    drawn=2,
    tolerance=Tolerance(
        256,
        "eight layers of sums of up to 320 products, two roots, two GELUs; what a level is "
        "rounded by is divided by the frame's spread; a serial sum in 200 drawn cases needs 150",
    ),
    forbidden={"float64", "uncoalesced", "bank-conflict"},
    limits=[
        Limit("global", "store", "lanes", "launch", 5 * STORES, _BLOCKS_OWN),
        Limit(
            "global",
            "load",
            "lanes",
            "thread",
            600,
            "Each warp does the layers of its own frame: none does those of all five.",
        ),
    ],  # fmt: skip
    barriers=_WHO_WAITS,
    rivals=RIVALS,
    hints={
        "race": "Who reads these numbers, and who wrote them? The same warp: cuda.syncwarp() "
        "between the two. Other warps: cuda.syncthreads(). And before a warp writes new numbers "
        "over old ones, all of its lanes must have read the old ones: a barrier there, too.",
        "barrier-divergence": "All threads of the block pass cuda.syncthreads(): keep it out of "
        "`if warp == 0`. All lanes of a warp pass a shuffle: keep `over_warp` out of "
        "`if lane == 0`.",
        "uninitialised-read": "Each frame has 64 numbers, and a lane writes two: lane and "
        "lane + 32 of its own frame. Each frame writes its 32 shares of the code and its share of "
        "the error, and only then somebody adds up five.",
        "unwritten-output": "Block b has spectrum b, row cuda.blockIdx.x. It stores 32 numbers of "
        "`code`, 320 of `y`, and one of `errors`.",
        "out-of-bounds": "The row is cuda.blockIdx.x. A frame's number is column 64 * warp + lane "
        "or 32 more in x, y, to_code and from_code. In encode and decode, which all frames share, "
        "it is lane or lane + 32.",
        "wrong-result": "`code`, `y` and `errors` are compared in this order, so look behind the "
        "last one that is right. First the frames: LayerNorm with (value - mean)², Linear, GELU. "
        "The code: five shares, LayerNorm, Linear, GELU. The way back: basis, Linear. The error: "
        "the mean of 320 squares.",
        "wrong-dtype": "All arrays are float32.",
        "float64": "Begin sums with float32(0) or a bias, and divide by float32(64), float32(32), "
        "float32(320): a float32 / 64 is float64.",
        "uncoalesced": "Neighbouring lanes take neighbouring numbers of a row: weight[k, lane], "
        "not weight[lane, k], and columns lane and lane + 32.",
        "bank-conflict": "Let the lanes of a warp read one number of shared memory together, or "
        "neighbouring ones.",
        "same-value-race": "Several threads store the same number. One warp stores the code, one "
        "thread the error, and each number of y has a thread of its own.",
        "not-parallel": "Five warps do five frames at the same time, and each lane has two of the "
        "64 results of its frame, one of the 32 shares of the code.",
    },
)
