"""Synthetic log-mel spectra of a machine, sound and faulty, and how well a score separates them.

A spectrum is 5 frames of 64 bands. A sound machine has six resonances, which are bumps at fixed
bands. Their strengths vary from one spectrum to the next by up to 30% and swing over the frames
with one common phase. A tilt and noise in every band are added; each frame's mean is subtracted.
That makes 6 + 6 + 2 + 1 parameters for 320 levels, so that a code of 32 elements can hold all of
them, but none of the faults.
"""

from __future__ import annotations

import numpy as np

FRAMES, BANDS = 5, 64
POINTS = FRAMES * BANDS

CENTRES = np.array([5.0, 13.0, 22.0, 33.0, 45.0, 57.0])  # of the resonances [bands]
WIDTHS = np.array([1.5, 2.0, 2.0, 2.5, 3.0, 3.0])  # standard deviations [bands]
STRENGTHS = np.array([3.0, 2.5, 2.0, 2.0, 1.5, 1.5])  # [arbitrary units of level]
SPREAD = 0.3  # largest relative deviation of a strength
SWING = 0.3  # largest relative depth of a strength's swing over the frames
NOISE = 0.1  # standard deviation in each band [same units]

#: What can be wrong, and what it does to a spectrum.
FAULTS = {
    "whistle": "a narrow line where there is none",
    "click": "one frame is full of noise",
    "shift": "all resonances lie 2 to 4 bands higher",
    "loss": "one resonance is gone",
}


def spectra(count: int, seed: int, fault: str | None = None) -> np.ndarray:
    """Return random spectra, always the same for a seed.

    Parameters
    ----------
    count : int
        How many, 0 or more.
    seed : int
    fault : str, optional
        One of `FAULTS`; without it the machine is sound.

    Returns
    -------
    ndarray, shape (count, 320), float32
        Frame after frame.

    Raises
    ------
    ValueError
        For a negative count, or a fault that does not exist.
    """
    if count < 0:
        raise ValueError(f"count is {count}; it must be 0 or more")
    if fault is not None and fault not in FAULTS:
        raise ValueError(f"there is no fault {fault!r}: choose None or {', '.join(FAULTS)}")
    rng = np.random.default_rng(seed)
    peaks = len(CENTRES)
    bands, frames = np.arange(BANDS), np.arange(FRAMES)
    strength = STRENGTHS * (1 + SPREAD * rng.uniform(-1, 1, (count, peaks)))
    depth = SWING * rng.uniform(0, 1, (count, peaks, 1))
    phase = rng.uniform(0, 2 * np.pi, (count, 1, 1))
    swing = 1 + depth * np.sin(phase + 2 * np.pi * frames / FRAMES)
    tilt = rng.uniform(-0.5, 0.5, (count, 1, 1)) * (bands / (BANDS - 1))
    noise = NOISE * rng.standard_normal((count, FRAMES, BANDS))
    where = np.broadcast_to(CENTRES, (count, peaks)).copy()
    if fault == "shift":
        where += rng.uniform(2, 4, (count, 1))
    if fault == "loss":
        strength[np.arange(count), rng.integers(0, peaks, count)] = 0
    bumps = np.exp(-0.5 * ((bands - where[:, :, None]) / WIDTHS[:, None]) ** 2)
    level = np.einsum("cp,cpf,cpb->cfb", strength, swing, bumps) + tilt + noise
    if fault == "whistle":
        line = rng.uniform(0, BANDS, (count, 1))
        level += 1.5 * np.exp(-0.5 * ((bands - line) / 0.7) ** 2)[:, None, :]
    if fault == "click":
        frame = rng.integers(0, FRAMES, count)
        level[np.arange(count), frame] += 0.5 * rng.standard_normal((count, BANDS))
    level -= level.mean(axis=2, keepdims=True)
    return level.reshape(count, POINTS).astype(np.float32)


def held_out(count: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Return spectra that no training has seen, half of them faulty, and which are faulty.

    Parameters
    ----------
    count : int
        How many are sound; as many are faulty, equally many of each fault.

    Returns
    -------
    spectra : ndarray, shape (2 count, 320), float32
    is_faulty : ndarray of bool, shape (2 count,)
    """
    each = [spectra(count, 1_000_001)]
    for number, fault in enumerate(FAULTS):
        share = count * (number + 1) // len(FAULTS) - count * number // len(FAULTS)
        each.append(spectra(share, 1_000_002 + number, fault))
    return np.concatenate(each), np.arange(2 * count) >= count


def area_under_curve(scores: np.ndarray, is_faulty: np.ndarray) -> float:
    """The probability that a faulty spectrum's score is above a sound one's; a tie counts half.

    That is the area under the ROC curve: 1 for a score that separates all, 0.5 for a useless one.
    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating
    characteristic (ROC) curve", Radiology 143, 1982.

    Raises
    ------
    ValueError
        When shapes differ, a score is NaN, or one of the two kinds is missing.
    """
    scores, is_faulty = np.asarray(scores, np.float64), np.asarray(is_faulty, bool)
    if scores.shape != is_faulty.shape or scores.ndim != 1:
        raise ValueError(
            f"scores and is_faulty have the shapes {scores.shape} and {is_faulty.shape}; "
            "they must be one-dimensional and as long as each other"
        )
    if np.isnan(scores).any():
        raise ValueError(
            "a score is NaN and has no rank: leave such spectra out, or call them faulty"
        )
    faulty, sound = scores[is_faulty], np.sort(scores[~is_faulty])
    if not faulty.size or not sound.size:
        raise ValueError("is_faulty must hold both True and False: there is nothing to tell apart")
    below = np.searchsorted(sound, faulty, "left") + np.searchsorted(sound, faulty, "right")
    return float(below.sum() / (2 * faulty.size * sound.size))
