"""What right and wrong answers to lesson 13's exercises compute, in float64."""

import numpy as np

EPSILON = 1e-5

# --- launches in time -----------------------------------------------------------------------------


def until_done(launch, works):
    """When the last kernel is done."""
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
    return done


def first_or_last(launch, works):
    """The same, if only the first or the last launch could decide it."""
    if not works:
        return 0.0
    return max(launch + sum(works), launch * len(works) + works[-1])


def held_back(launch, works):
    """The same, if the host waited for the kernel before, once its launch is made."""
    now = done = 0.0
    for work in works:
        now = max(now + launch, done)
        done = now + work
    return done


def larger_of_each(launch, works):
    """Of each kernel the larger of launch and work, after the first launch."""
    return launch + sum(max(launch, work) for work in works) if works else 0.0


# --- LayerNorm of frames --------------------------------------------------------------------------


def parts(x, count=5):
    """Spectra as (batch, 5 frames, 64)."""
    return x.reshape(len(x), count, -1)


def normalised(x, axis=2, epsilon=EPSILON, root=np.sqrt, share=1.0, mean=1.0, outside=0.0, count=5):
    """LayerNorm of each frame; with other arguments, what typical mistakes make of it."""
    frames = parts(x, count)
    centred = frames - mean * frames.mean(axis=axis, keepdims=True)
    variance = share * (centred**2).mean(axis=axis, keepdims=True)
    return (centred / (root(variance + epsilon) + outside)).reshape(x.shape)


def summed(x, partners, squares=True):
    """What comes out where each step adds the sums of other lanes than 1, 2, 4, 8, 16 away."""

    def over_warp(numbers):
        for lanes in partners:
            numbers = numbers + numbers[..., np.arange(32) ^ lanes]
        return np.concatenate([numbers, numbers], axis=-1)

    def pairs(frames):
        return frames[..., :32] + frames[..., 32:]

    frames = parts(x)
    centred = frames - over_warp(pairs(frames)) / 64
    square = pairs(centred**2)
    square = over_warp(square) if squares else np.concatenate([square, square], axis=-1)
    return (centred / np.sqrt(square / 64 + EPSILON)).reshape(x.shape)


def replaced(x):
    """What comes out where a shuffle's result takes the place of the sum: that of lane 31 - l."""

    def from_the_last_lane(pairs):
        return np.concatenate([pairs[..., ::-1], pairs[..., ::-1]], axis=-1)

    frames = parts(x)
    centred = frames - from_the_last_lane(frames[..., :32] + frames[..., 32:]) / 64
    squares = centred**2
    square = from_the_last_lane(squares[..., :32] + squares[..., 32:])
    return (centred / np.sqrt(square / 64 + EPSILON)).reshape(x.shape)


def squares_of(x, of="values"):
    """What comes out where squares are those of the values, or of half of the differences."""
    frames = parts(x)
    centred = frames - frames.mean(axis=2, keepdims=True)
    squared = frames**2 if of == "values" else centred**2 * (np.arange(64) < 32)
    return (centred / np.sqrt(squared.mean(axis=2, keepdims=True) + EPSILON)).reshape(x.shape)


def two_frames_a_warp(x):
    """What comes out where a thread takes columns t and t + 160."""
    mixed = np.stack([x[:, :160].reshape(-1, 5, 32), x[:, 160:].reshape(-1, 5, 32)], axis=2)
    whole = normalised(mixed.reshape(x.shape)).reshape(mixed.shape)
    return np.concatenate([whole[:, :, n].reshape(-1, 160) for n in range(2)], axis=1)


def half_sums(x):
    """What comes out where only one of a lane's two numbers is in the sums."""
    frames = parts(x)
    centred = frames - frames[..., :32].mean(axis=2, keepdims=True)
    variance = (centred[..., :32] ** 2).mean(axis=2, keepdims=True)
    return (centred / np.sqrt(variance + EPSILON)).reshape(x.shape)


# --- a Linear and GELU ----------------------------------------------------------------------------


def linear(z, weight, bias):
    """A Linear; weight is (inputs, outputs)."""
    return z @ weight + bias


def gelu_by_tanh(z, weight, bias):
    """A Linear and the other GELU."""
    x = z @ weight + bias
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


# --- two Linears folded into one ------------------------------------------------------------------


def folded(basis, weight):
    """The basis with the decoder multiplied into each frame."""
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).reshape(len(basis), -1)


def by_columns(basis, weight):
    """Frames taken from every so-manyth column of the basis, not from neighbours."""
    wide = weight.shape[1]
    frames = basis.reshape(len(basis), wide, -1).swapaxes(1, 2)
    return (frames @ weight.T).reshape(len(basis), -1)


def first_frame_everywhere(basis, weight):
    """The first frame in the place of each."""
    wide = weight.shape[1]
    return np.tile(basis[:, :wide] @ weight.T, basis.shape[1] // wide)


def frames_last(basis, weight):
    """Columns by output, and within that by frame."""
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).swapaxes(1, 2).reshape(len(basis), -1)
