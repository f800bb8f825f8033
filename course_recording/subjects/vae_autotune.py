"""An epoch of a VAE's training in PyTorch, compiled with max-autotune, in a graph of whole steps.

It is not part of `course_recording.subjects.vae`, since the search takes minutes.
"""

from course_models.vae import data
from course_recording.subjects.vae import COUNT, GRAPH, LIMITS, SIDE, peer

NAME = "torch max-autotune, graph"
HOW = GRAPH | {"compiled": {"mode": "max-autotune-no-cudagraphs"}}


def run(bench):
    """Time epochs in float32 and in TF32."""
    images = data.enlarged(COUNT, side=SIDE)
    for dtype in bench.parts(LIMITS):
        peer(bench, NAME, dtype, images, **HOW)
