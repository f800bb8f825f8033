"""Copy the digits that come with scikit-learn into ``data/digits/digits.npz``.

    python -m tools.train.make_digits

needs scikit-learn, which neither the course nor its training does. The same file comes out each
time: pixels as the whole numbers from 0 to 16 that they are, and labels, nothing pickled.
"""

from __future__ import annotations

import numpy as np

from tools.notebooks.lessons import ROOT

FILE = ROOT / "data" / "digits" / "digits.npz"


def main() -> None:
    """Write the file, and say what is in it."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)
    if not np.array_equal(images, bunch.images):
        raise SystemExit("this scikit-learn's digits are not whole numbers: nothing was written")
    FILE.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FILE, images=images, labels=labels)
    print(f"{FILE.name}: {len(labels):,} images, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
