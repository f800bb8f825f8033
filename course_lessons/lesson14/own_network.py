"""The whole autoencoder in one kernel: the package's, traced, and lesson 14's last exercise."""

import numpy as np

from course import trace
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


def traced(shape, x, weights):
    """The fused kernel in a shape, traced in one block: the report, and the rebuilt spectra."""
    y, errors = np.empty_like(x), np.empty(len(x), np.float32)
    report = trace(
        spectral.kernel_of(shape), 1, shape.threads, x, weights.packed(shape.folded), y, errors,
        dynamic_shared=shape.dynamic_shared, gpu="H200",
    )  # fmt: skip
    return report, y


# --- the network in NumPy -------------------------------------------------------------------------


def _normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)


def rebuilt(x, encode, encode_bias, to_code, middle, middle_bias, from_code, decode, decode_bias):
    """What the kernel must store, in the precision of its arguments."""
    z = _normalised(x.reshape(len(x), 5, 64))
    frames = gelu(z @ encode + encode_bias)
    code = gelu(_normalised(frames.reshape(len(x), 320) @ to_code) @ middle + middle_bias)
    y = (code @ from_code).reshape(len(x), 5, 64) @ decode + decode_bias
    y = y.reshape(len(x), 320)
    return {"code": code, "y": y, "errors": ((y - x) ** 2).mean(1)}


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
        _spectra(3, level=60.0, common=0.25),
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
