"""A vision transformer, simulated: every flag against float64, blocks, buffers, what is refused."""

import itertools
import math

import numpy as np
import pytest
from numba import float32

from course import backend, cuda
from course.dispatch.slots import ArraySlot, planning
from course.kernels.steps import Launch
from course_models.vit import TOY, Flags, Graph, ViT, ViTShape, initial, reference, unfused_epilogue
from course_models.vit.buffers import lifetimes, packed

#: Of float16 in a dozen steps; what is wrong is wrong by much more.
LIMIT = 2e-3
CHOICES = {name: its for name, its in Flags.choices().items() if name != "product"}
pytestmark = pytest.mark.usefixtures("h200")


def some(shape=TOY, n=1, seed=1):
    """Weights that float16 holds, and far from 0; images."""
    rng = np.random.default_rng(seed)
    weights = {
        name: (its + 0.1 * rng.standard_normal(its.shape)).astype(np.float16).astype(np.float32)
        for name, its in initial(shape, seed).items()
    }
    side = shape.image
    return weights, rng.standard_normal((n, shape.channels, side, side)).astype(np.float16)


def error(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


WEIGHTS, IMAGES = some()
EXACT = reference.forward(TOY, WEIGHTS, IMAGES)
GROUPS = (
    ("patches", "mlp", "residual", "last"),
    ("norm", "buffers"),
    ("attention", "gelu", "last"),
)


def combinations(names):
    every = itertools.product(*(CHOICES[name] for name in names))
    return [dict(zip(names, values, strict=True)) for values in every]


#: What a step of LayerNorm is given does not depend on these.
INDEPENDENT = ({"norm", "patches"}, {"norm", "attention"})


def pairs():
    """Combinations of all flags, so few that any two values of two flags are in one of them."""
    two = [each for each in itertools.combinations(CHOICES, 2) if set(each) not in INDEPENDENT]
    left = {
        frozenset(zip(names, values, strict=True))
        for names in two
        for values in itertools.product(*(CHOICES[name] for name in names))
    }
    found = []
    while left:
        row = dict(min(left, key=sorted))
        for name in sorted(CHOICES.keys() - row.keys()):
            new = {
                value: sum({(name, value), one} in left for one in row.items())
                for value in CHOICES[name]
            }
            row[name] = max(new, key=new.get)
        left -= set(map(frozenset, itertools.combinations(row.items(), 2)))
        found.append({name: row[name] for name in CHOICES})
    return found


WHOLE = [pytest.param(its, marks=pytest.mark.slow) for its in sum(map(combinations, GROUPS), [])]


@pytest.mark.drawn(9)
@pytest.mark.parametrize("given", pairs() + WHOLE, ids=str)
def test_every_combination_gives_float64s_scores(given):
    found = ViT(TOY, WEIGHTS, Flags(**given))(IMAGES)
    assert found.dtype == np.float16 and found.shape == EXACT.shape
    # GELU by tanh is another function, by at most 5e-4
    assert error(found, EXACT) < LIMIT * (2 if given.get("gelu") == "gelu tanh" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["plain", "roles"])
@pytest.mark.parametrize("given", [{}, {"mlp": "unfused", "residual": "apart", "patches": "kept"}])
def test_products_of_any_method_give_float64s_scores(method, given):
    shape = ViTShape(image=8, patch=4, width=128, depth=2, heads=2, mlp=192, classes=7)
    weights, images = some(shape, n=2)
    found = ViT(shape, weights, Flags(product=method, **given))(images)
    assert error(found, reference.forward(shape, weights, images)) < LIMIT


@pytest.mark.parametrize("given", [{}, {"last": "class", "gelu": "gelu tanh"},
    {"buffers": "asynchronous"}], ids=str)  # fmt: skip
def test_norms_within_products_need_no_launch_of_their_own(given):
    shape = ViTShape(image=8, patch=4, width=64, depth=3, heads=1, mlp=96, classes=7)
    weights, images = some(shape, n=3)
    vit = ViT(shape, weights, Flags(product="roles", **given))
    names = [step.name for step in vit.steps() if "norm" in step.name]
    assert names == ["blocks.2.norm2"] * ("last" in given) + ["norm"]
    assert error(vit(images), reference.forward(shape, weights, images)) < 2 * LIMIT
    x = np.random.default_rng(2).standard_normal((3, shape.tokens, 64)).astype(np.float16)
    assert error(vit.block(1, x), reference.block(shape, weights, 1, x.astype(float))) < LIMIT


@pytest.mark.parametrize(("image", "few"), [(224, True), (384, False)])
def test_blocks_of_few_heads_find_multiprocessors_beside_the_product_before(image, few):
    """48 of attention, or 120, beside which no product of 132 would be as fast."""
    shape = ViTShape(image=image, depth=1, mlp=16, channels=1, classes=2)
    vit = ViT(shape, *some(shape)[:1], Flags(product="roles", attention="wgmma"))
    given = (cuda.to_device(np.zeros(its, np.float16)) for its in ((1, 1, image, image), (1, 2)))
    qkv, attention = (math.prod(np.atleast_1d(its.grid)) for its in vit._all_launches(*given)[2:4])
    assert (qkv + attention <= 132) == few and qkv > 66


def test_a_block_gives_float64s_tokens_and_leaves_its_input():
    shape = ViTShape(image=8, patch=4, width=64, depth=np.int64(2), heads=1, mlp=24, classes=3)
    assert type(shape.depth) is int
    weights, _ = some(shape)
    x = np.random.default_rng(2).standard_normal((3, shape.tokens, 64)).astype(np.float16)
    there = cuda.to_device(x)
    found = ViT(shape, weights).block(1, there).copy_to_host()
    assert error(found, reference.block(shape, weights, 1, x.astype(float))) < LIMIT
    assert np.array_equal(there.copy_to_host(), x)
    assert np.array_equal(ViT(shape, weights).block(np.int64(1), x), found)


@cuda.jit
def attention_of_a_thread(q, k, v, scale, out):
    """Attention of a query by one thread, for heads of any size and at most 8 tokens."""
    query, head, image = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
    weights, total = cuda.local.array(8, float32), float32(0)
    for key in range(q.shape[1]):
        score = float32(0)
        for e in range(q.shape[3]):
            score += float32(q[image, query, head, e]) * float32(k[image, key, head, e])
        weights[key] = math.exp(scale * score)
        total += weights[key]
    for e in range(q.shape[3]):
        value = float32(0)
        for key in range(q.shape[1]):
            value += weights[key] * float32(v[image, key, head, e])
        out[image, query, head * q.shape[3] + e] = value / total


@pytest.mark.parametrize("flags", [Flags(), Flags(last="class", buffers="asynchronous")], ids=str)
def test_an_own_attention_takes_heads_of_any_size(flags):
    shape = ViTShape(image=8, patch=4, width=16, depth=1, heads=2, mlp=24, classes=3)
    weights, images = some(shape, n=2)
    launched = []

    def own(q, k, v, out):
        launched.append((q.shape, k.shape, v.shape, out.shape))
        scale = np.float32(q.shape[3] ** -0.5)
        grid = (q.shape[2], q.shape[0])
        return [Launch(attention_of_a_thread, grid, q.shape[1], (q, k, v, scale, out))]

    found = ViT(shape, weights, flags, attention=own)(images)
    assert error(found, reference.forward(shape, weights, images)) < LIMIT
    assert launched == [((2, 5, 2, 8),) * 3 + ((2, 5, 16),)]


def test_weights_of_any_order_are_taken():
    """As those that are transposed views of another library's."""
    turned = {name: np.asfortranarray(its)[::-1][::-1] for name, its in WEIGHTS.items()}
    for its in turned.values():
        its.flags.writeable = False
    assert np.array_equal(ViT(TOY, turned)(IMAGES), ViT(TOY, WEIGHTS)(IMAGES))


def test_tokens_are_those_of_the_reference():
    vit = ViT(TOY, WEIGHTS)
    assert error(vit.tokens(IMAGES), reference.tokens(TOY, WEIGHTS, IMAGES)) < LIMIT
    with pytest.raises(ValueError, match="come by way of the host"):
        ViT(TOY, WEIGHTS, Flags(patches="sorted")).tokens(IMAGES)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("flags", [{"buffers": its} for its in CHOICES["buffers"]] + [
    {"patches": "sorted"}, {"patches": "channels"}], ids=str)  # fmt: skip
def test_images_of_any_strides_and_none_are_taken(flags):
    vit, turned = ViT(TOY, WEIGHTS, Flags(**flags)), IMAGES.transpose(0, 1, 3, 2)
    assert error(vit(turned), reference.forward(TOY, WEIGHTS, turned)) < LIMIT
    assert vit(IMAGES[:0]).shape == (0, 5)
    with pytest.raises(ValueError, match=r"out is float16 of shape \(1, 4\)"):
        vit(IMAGES, np.zeros((1, 4), np.float16))


STRIDES = r"has the strides \(2560, 512, 4\) bytes; its elements must lie side by side"


def strided():
    return cuda.to_device(np.zeros((1, 5, 256), np.float16))[:, :, ::2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: ViT(TOY, WEIGHTS)(IMAGES.astype(np.float32)), "images hold float32"),
        (lambda: ViT(TOY, WEIGHTS)(IMAGES[..., :4]), r"it must be \(n, 3, 8, 8\)"),
        (lambda: ViT(TOY, WEIGHTS)(IMAGES.reshape(1, 3, 4, 16)), r"it must be \(n, 3, 8, 8\)"),
        (lambda: ViT(TOY, WEIGHTS).embedding.embed(IMAGES, "streams", 0), "streams is 0"),
        (lambda: ViT(TOY, WEIGHTS).block(False, IMAGES), "block is False; it must be from 0 to 0"),
        (lambda: ViT(TOY, WEIGHTS).block(1, IMAGES), "block is 1; it must be from 0 to 0"),
        (lambda: ViT(TOY, WEIGHTS).block(0, IMAGES), r"x has the shape .* must be \(n, 5, 128\)"),
        (lambda: ViT(TOY, WEIGHTS).block(0, strided()), rf"x {STRIDES}"),
        (lambda: ViT(TOY, WEIGHTS).tokens(cuda.to_device(IMAGES), strided()), rf"out {STRIDES}"),
        (lambda: ViT(TOY, WEIGHTS, {"mlp": "fused"}), "flags are a dict; they must be Flags"),
        (lambda: Flags(mlp="split"), "no mlp 'split': choose fused, unfused"),
        (lambda: ViTShape(image=30), "image is 30; it must be a multiple of patch, 16"),
        (lambda: ViTShape(depth=0), "depth is 0"),
        (lambda: ViT(ViTShape(width=576), {}), r"heads have 48 numbers; .* 128\): give your own"),
    ],
)
def test_refusals_name_what_was_given(change, words):
    with pytest.raises((TypeError, ValueError), match=words):
        change()


# --- after a product ------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [40, 7])
def test_what_is_apart_is_what_the_epilogue_does(columns):
    rng = np.random.default_rng(3)
    x, residual = (rng.standard_normal((5, columns)).astype(np.float16) for _ in range(2))
    bias = rng.standard_normal(columns).astype(np.float16)
    given = [cuda.to_device(one) for one in (x, bias, residual)]
    out = cuda.to_device(np.full_like(x, np.nan))
    for launch in unfused_epilogue.launches(*given, out, "gelu"):
        launch.on()
    exact = reference.gelu(x.astype(float) + bias) + residual
    assert np.allclose(out.copy_to_host(), exact, rtol=2.0**-10, atol=1e-6)


# --- memory ---------------------------------------------------------------------------------------


def test_buffers_that_live_together_do_not_overlap_and_others_do():
    rng = np.random.default_rng(5)
    for _ in range(30):
        names = [f"b{n}" for n in range(12)]
        steps = [tuple(rng.choice(names, 3, replace=False)) for _ in range(10)]
        lives = lifetimes(steps)
        sizes = {name: int(rng.integers(1, 5000)) for name in names}
        arena = packed(lives, sizes)
        for one, other in itertools.combinations(lives, 2):
            if lives[one][0] <= lives[other][1] and lives[other][0] <= lives[one][1]:
                first, second = sorted((one, other), key=arena.offsets.get)
                assert arena.offsets[first] + sizes[first] <= arena.offsets[second]
        assert all(arena.offsets[name] + sizes[name] <= arena.size for name in lives)
        assert arena.least <= arena.size <= arena.apart


def test_an_arena_for_vit_base_is_as_small_as_can_be():
    deep = ViTShape(image=8, patch=4, width=128, depth=3, heads=2, mlp=512, classes=5)
    vit = ViT(deep, initial(deep))
    arena = vit.arena(batch=64)
    assert arena.size == arena.least  # x, its normalised copy and 4 x its width at a time
    assert arena.size == 2 * 64 * deep.tokens * (128 + 128 + 512)
    assert arena.apart > 3 * 2 * 64 * deep.tokens * (128 + 3 * 128 + 128 + 128 + 512)


@pytest.mark.parametrize("given", [{}, {"last": "class", "residual": "apart", "mlp": "unfused"},
                                   {"patches": "kept", "buffers": "apart"}])  # fmt: skip
def test_launches_can_be_prepared_without_memory(given):
    """As a plan does for a GPU: the same kernels with arrays of the same shapes and strides."""
    vit = ViT(TOY, WEIGHTS, Flags(**given))
    x = np.zeros((1, TOY.tokens, TOY.width), np.float16)

    def prepared(launches, *arrays):
        def of(one):
            if not hasattr(one, "strides"):
                return type(one)
            # along an axis of one element nobody steps, and Numba and NumPy name other strides
            return [(size, size > 1 and step) for size, step in zip(one.shape, one.strides)]

        return [
            (its.kernel, its.grid, its.block, list(map(of, its.arguments)))
            for its in launches(*arrays)
        ]

    for launches, first, out in (
        (vit._all_launches, IMAGES, EXACT.astype(np.float16)),
        (vit._token_launches, IMAGES, x),
        (lambda *two: vit._of_block(*two, number=0), x, x),
    ):
        there = prepared(launches, cuda.to_device(first), cuda.to_device(out))
        layouts = [ArraySlot(n, one.shape, one.strides, one.dtype) for n, one in
                   enumerate((first, out))]  # fmt: skip
        with planning(2):
            assert prepared(launches, *layouts) == there


@pytest.mark.skipif(backend.gpu() is None, reason="a CUDA graph needs a GPU")
def test_a_graph_of_the_whole_and_of_a_block_replays_what_is_launched():
    cupy = pytest.importorskip("cupy")
    for flags in (Flags(), Flags(buffers="asynchronous")):
        vit = ViT(TOY, WEIGHTS, flags)
        images = cupy.asarray(IMAGES)
        replay = Graph(vit, images)
        for _ in range(3):
            images[:] = cupy.random.standard_normal(images.shape).astype(np.float16)
            exact = reference.forward(TOY, WEIGHTS, images.get())
            assert error(replay().get(), exact) < LIMIT
    x = cupy.random.standard_normal((2, TOY.tokens, TOY.width)).astype(np.float16)
    block = Graph(lambda x, out=None: vit.block(0, x, out), x)
    assert error(block().get(), reference.block(TOY, WEIGHTS, 0, x.get().astype(float))) < LIMIT


@pytest.mark.skipif(backend.gpu() is None, reason="streams and graphs need a GPU")
@pytest.mark.parametrize("buffers", CHOICES["buffers"])
def test_pytorchs_streams_and_graphs_take_it_in(buffers):
    torch = pytest.importorskip("torch")
    vit, images = ViT(TOY, WEIGHTS, Flags(buffers=buffers)), torch.from_numpy(IMAGES).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = vit(images)
        vit(images, found.zero_())  # compiles, or makes its plan; PyTorch loads what it needs
        torch.cuda._sleep(1)
        stream.synchronize()
        torch.cuda._sleep(10**9)  # about half a second
        vit(images, found.zero_())
        assert not stream.query()  # no call waits for the GPU
    stream.synchronize()
    assert error(found.cpu().numpy(), EXACT) < LIMIT
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = vit(images)
    for seed in range(3):
        new = some(seed=seed)[1]
        images.copy_(torch.from_numpy(new))
        graph.replay()
        exact = reference.forward(TOY, WEIGHTS, new)
        assert error(found.cpu().numpy(), exact) < LIMIT
