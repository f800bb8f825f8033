"""What a user would write for the main job: NumPy, Pillow, scikit-image, a process for each core.

    python plain_script.py IMAGES OUT PROCESSES K [K ...]

It does the work of ``python -m course reconstruct IMAGES --k K [K ...] --out OUT``. Broken files,
equal names and stopped runs, which that command handles, are not handled here.
`course_recording.subjects.pipeline` times both as whole programs.
"""

import csv
import os
import sys
from functools import partial
from multiprocessing import Pool
from pathlib import Path

for library in ("OPENBLAS", "OMP", "MKL"):  # one thread a process: the processes share the cores
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

SIDE = 256
TOGETHER = 8  # images that a process is given at once


def rebuild(source: Path, out: Path, ranks: list[int]) -> list[tuple[str, int, float, float]]:
    """Rebuild an image for each k; its rows of the table."""
    from skimage.metrics import structural_similarity

    picture = Image.open(source).convert("L").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    exact = np.asarray(picture, dtype=np.float32) / 255
    u, s, vt = np.linalg.svd(exact, full_matrices=False)
    rows = []
    for k in ranks:
        rebuilt = np.clip((u[:, :k] * s[:k]) @ vt[:k], 0, 1)
        error = float(((rebuilt - exact) ** 2).mean())
        ssim = float(structural_similarity(exact, rebuilt, data_range=1.0))
        rows.append((source.name, k, 10 * np.log10(1 / max(error, 1e-12)), ssim))
        pixels = (rebuilt * 255).round().astype(np.uint8)
        Image.fromarray(pixels).save(out / f"{source.stem}_k{k}.png")
    return rows


def main(words: list[str]) -> None:
    """Rebuild all images of a folder."""
    folder, out, processes = Path(words[0]), Path(words[1]), int(words[2])
    out.mkdir(parents=True, exist_ok=True)
    work = partial(rebuild, out=out, ranks=[int(word) for word in words[3:]])
    with Pool(processes) as pool, open(out / "quality.csv", "w", newline="") as file:
        table = csv.writer(file)
        for rows in pool.imap_unordered(work, sorted(folder.iterdir()), chunksize=TOGETHER):
            table.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
