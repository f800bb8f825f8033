"""The second launch of a VAE's training step: the weights' gradients, and Adam's step of them.

Where the GPU can begin it beside the first launch, each block waits for its own numbers, and the
last layers come first, since their gradients are known first: much of it is done while the first
launch goes back through the other layers. Three layers share one tile's code, whose sizes come with
the call: instructions that are used once come from far, see `forward`. What Adam needs is under way
to shared memory while a block waits. The last block adds up the loss.
"""

from __future__ import annotations

import functools
import itertools
import operator

from numba import float32, int32

from course.backend import cuda
from course.kernels.intrinsics import load, store, store4
from course.kernels.layer_tiles import taken_by
from course.kernels.split_factors import parts_of
from course.kernels.warps import WARP, lanes_sum
from course.models.vae.forward import Forward
from course.models.vae.gradients import SIDE, Layer, tiles_of
from course.models.vae.meeting import MEETINGS, MISSING
from course.models.vae.packed import I4, F, Launch, Layout, between, lead, up
from course.models.vae.shape import VAEShape

ZERO, ONE, LEVELS = float32(0), float32(1), float32(1 / 255)
NONE_YET = (int32(MISSING),) * 4
WARPS = 4  # of a block: so few that one fits beside one of the first launch
THREADS = WARP * WARPS
CLEARING = 128  # blocks that prepare the next step
warp_sum = lanes_sum(WARP)
TYPES = f"void({F}, {F}, {F}, {F}, {F}, {I4}, {F}, uint8[::1], {I4}, {F}, {I4}, {I4})"


@functools.cache
def update_of(shape: VAEShape, batch: int, precision: str, first: Forward, meeting: str) -> Launch:
    """The launch for one shape and batch, behind its first, as `forward_of` has it."""
    W1, W2, W3, W4 = (begin for begin, _ in Layout(shape).places.values())
    D, H, Z, B = map(up, (shape.pixels, shape.hidden, shape.latent, batch))
    H_AT, _, Z_AT, _, G_AT, LOGITS_AT, DG_AT, DCODE_AT, DH_AT, _ = between(shape, batch)
    LOSSES_AT, END, BATCH = first.losses, first.end, batch
    INVERSE = float32(1 / batch)
    its = MEETINGS[meeting]
    awaits, done, let_next = its.later, its.done, its.let_next
    take4, is_missing = taken_by(awaits)

    layers = (
        Layer(D, H, W4, lead(H), LOGITS_AT, G_AT),
        Layer(H, Z, W3, lead(Z), DG_AT, Z_AT),
        Layer(2 * Z, H, W2, lead(H), DCODE_AT, H_AT),
        Layer(H, D, W1, lead(D), DH_AT, 0),
    )
    tiles = tiles_of(B, precision, WARPS, awaits, layers[3])
    fetch, multiply, multiply_first, learn = tiles[:4]
    LAYER4, LAYER3, LAYER2, LAYER1 = (tuple(map(int32, its)) for its in layers)
    downs, acrosses = ([-(-size // SIDE) for size in sizes] for sizes in (
        [its.rows for its in layers], [its.columns + 4 for its in layers]))  # fmt: skip
    of4, of3, of2, of1 = map(parts_of, acrosses)
    # blocks: the last layer's first
    UNTIL4, UNTIL3, UNTIL2, LAST = itertools.accumulate(map(operator.mul, downs, acrosses))
    CLEAR = min(CLEARING, LAST)

    @cuda.jit(device=True)
    def read4(S, at):
        """Four neighbours, read until all are there: each is another warp's."""
        of = take4(S, at)
        while is_missing(of[0]) or is_missing(of[1]) or is_missing(of[2]) or is_missing(of[3]):
            of = take4(S, at)
        return of

    @cuda.jit(device=True)
    def book(shared, S, history, step):
        """One block: the step's loss."""
        t = int32(cuda.threadIdx.x)
        total = ZERO
        for n in range(LOSSES_AT + 4 * t, END, 4 * THREADS):
            of = read4(S, n)
            total += of[0] + of[1] + of[2] + of[3]
        total = warp_sum(total)
        if t % WARP == 0:
            store(shared, t // WARP, total)
        cuda.syncthreads()
        if t == 0:
            total = ZERO
            for w in range(WARPS):
                total += load(shared, w)
            store(history, step % history.size, total * INVERSE)
        done()

    @cuda.jit(max_registers=255 if precision == "float32" else 128)  # 128: it fits beside `forward`
    def update(P, Q, M, V, S, bits, history, data, order, corrected, now, then):
        shared = cuda.shared.array(0, float32)
        i = int32(cuda.blockIdx.x)
        four = take4(now, 0)
        step, place = four[0], four[1]
        if i == 0:  # what the launch behind has to know before this one is done
            if cuda.threadIdx.x == 0:
                following = int32(place + 1)
                if following == corrected.size // 2:
                    following = int32(0)
                store4(then, 0, (int32(step + 1), following, int32(0), int32(0)))
                cuda.threadfence()
            cuda.syncthreads()
        let_next()
        if i < CLEAR:  # for the next step
            for n in range(cuda.grid(1), END // 4, CLEAR * THREADS):
                store4(bits, 4 * n, NONE_YET)
        size, spread = load(corrected, 2 * place), load(corrected, 2 * place + 1)
        if i < LAST:
            if i < UNTIL4:
                at, of = of4(i), LAYER4
            elif i < UNTIL3:
                at, of = of3(i - int32(UNTIL4)), LAYER3
            elif i < UNTIL2:
                at, of = of2(i - int32(UNTIL3)), LAYER2
            else:
                at, of = of1(i - int32(UNTIL2)), LAYER1
            fetch(at, of, shared, P, M, V)
            rows, columns, _, _, above, below = of
            above, factor = (above, rows, int32(rows - 4)), ONE
            if i < UNTIL2:
                multiply(at, shared, S, above, S, (below, columns, int32(columns - 4)))
            else:
                images, factor = (order, int32(place * BATCH)), LEVELS
                multiply_first(at, shared, S, int32(DH_AT), data, images)
            learn(at, of, factor, shared, Q, M, V, size, spread)
        else:
            book(shared, S, history, step)

    return Launch(update, TYPES, LAST + 1, THREADS, 4 * tiles.numbers)
