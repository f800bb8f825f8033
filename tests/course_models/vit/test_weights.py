"""A vision transformer's files: weights by timm's and torchvision's names, images; errors."""

import sys

import numpy as np
import pytest
from PIL import Image

from course_models.vit import TOY, ViT, ViTShape, initial, load, reference, save
from course_models.vit.images import LIKE, Preprocessing, read_images
from course_models.vit.weights import checked, read, shape_of, timms, torchvisions

WEIGHTS = initial(TOY, 3)
#: Of torchvision's vit_b_16, as its published file has them, and as its newer releases save them.
TORCHVISION = {
    "class_token": "cls_token", "conv_proj.weight": "patch_embed.proj.weight",
    "conv_proj.bias": "patch_embed.proj.bias", "encoder.pos_embedding": "pos_embed",
    "encoder.layers.encoder_layer_11.ln_1.weight": "blocks.11.norm1.weight",
    "encoder.layers.encoder_layer_0.self_attention.in_proj_weight": "blocks.0.attn.qkv.weight",
    "encoder.layers.encoder_layer_0.self_attention.in_proj_bias": "blocks.0.attn.qkv.bias",
    "encoder.layers.encoder_layer_0.self_attention.out_proj.weight": "blocks.0.attn.proj.weight",
    "encoder.layers.encoder_layer_0.ln_2.bias": "blocks.0.norm2.bias",
    "encoder.layers.encoder_layer_0.mlp.0.weight": "blocks.0.mlp.fc1.weight",
    "encoder.layers.encoder_layer_0.mlp.3.bias": "blocks.0.mlp.fc2.bias",
    "encoder.ln.weight": "norm.weight", "heads.head.weight": "head.weight",
}  # fmt: skip
OLDER = {
    "encoder.layers.encoder_layer_0.mlp.linear_1.weight": "blocks.0.mlp.fc1.weight",
    "encoder.layers.encoder_layer_0.mlp.linear_2.bias": "blocks.0.mlp.fc2.bias",
}


@pytest.mark.parametrize(("theirs", "ours"), (TORCHVISION | OLDER).items())
def test_names_of_torchvision_are_known(theirs, ours):
    assert timms(theirs) == ours
    if theirs in TORCHVISION:
        assert torchvisions(ours) == theirs


def test_vit_base_has_the_names_and_shapes_of_timms():
    shapes = ViTShape(classes=1000).parameters
    assert len(shapes) == 152 and ViTShape(classes=1000).count == 86_567_656
    assert shapes["blocks.11.attn.qkv.weight"] == (2304, 768)
    assert shapes["pos_embed"] == (1, 197, 768) and shapes["head.weight"] == (1000, 768)
    assert len({torchvisions(name) for name in shapes}) == 152
    assert all(timms(torchvisions(name)) == name for name in shapes)


@pytest.mark.drawn(11)
@pytest.mark.parametrize(
    ("given", "heads"),
    [({"width": 192, "mlp": 768}, 3), ({"width": 384, "mlp": 1536, "image": 384}, 6),
     ({"patch": 32}, 12), ({"classes": 21843}, 12), ({"classes": 10, "channels": 1}, 12),
     ({"width": 1024, "depth": 24, "mlp": 4096}, 16),
     ({"width": 1280, "depth": 32, "mlp": 5120, "patch": 14}, 16)],
)  # fmt: skip
def test_the_shape_is_that_of_the_arrays(given, heads):
    shape = ViTShape(**given, heads=heads)
    found = {name: np.broadcast_to(np.float32(0), its) for name, its in shape.parameters.items()}
    assert shape_of(found) == shape
    assert list(checked(shape, found)) == list(found)


@pytest.mark.parametrize("names", ["timm", "torchvision"])
def test_somebodys_trained_vit_runs(tmp_path, names, h200):
    pytest.importorskip("safetensors")
    save(tmp_path / "vit.safetensors", TOY, WEIGHTS, names)
    there, told = read(tmp_path / "vit.safetensors")
    assert ("class_token" in there) == (names == "torchvision") and told == {"heads": "2"}
    shape, weights = load(tmp_path / "vit.safetensors")
    assert shape == TOY and all(np.array_equal(weights[name], WEIGHTS[name]) for name in WEIGHTS)
    assert load(tmp_path / "vit.safetensors", heads=4)[0].heads == 4
    with pytest.raises(ValueError, match="heads is 0; it must be a whole number of at least 1"):
        load(tmp_path / "vit.safetensors", heads=0)
    images = read_images([Image.effect_noise((20, 13), 50)], side=8)
    exact = reference.forward(shape, weights, images)
    found = ViT(shape, weights)(images)
    assert np.linalg.norm(found - exact) < 2e-3 * np.linalg.norm(exact)


def test_names_of_pytorchs_wrappers_are_known(tmp_path):
    library, path = pytest.importorskip("safetensors.numpy"), tmp_path / "f"
    for before, named in (("module.", str), ("_orig_mod.module.", torchvisions)):
        library.save_file({before + named(name): its for name, its in WEIGHTS.items()}, path)
        shape, weights = load(path, heads=2)
        assert shape == TOY and list(weights) == list(TOY.parameters)
    library.save_file(WEIGHTS | {"module.norm.bias": WEIGHTS["norm.bias"] + 1}, path)
    with pytest.raises(ValueError, match="f: two arrays are norm.bias, "):
        load(path, heads=2)


@pytest.mark.parametrize(
    ("told", "words"),
    [("0", "f: heads is 0; it must be"), ("5", "f: width is 128; it must be a multiple of heads"),
     ("9" * 5000, "f: nothing says how many heads"), ("two", "f: nothing says how many heads")],
)  # fmt: skip
def test_heads_that_a_file_tells_are_checked(tmp_path, told, words):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file(WEIGHTS, tmp_path / "f", {"heads": told})
    with pytest.raises(ValueError, match=words):
        load(tmp_path / "f")


def bfloat16_file(path):
    """Of 1 and -3, as no NumPy writes it."""
    header = b'{"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}'
    bits = np.array([0x3F80, 0xC040], np.uint16).tobytes()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bits)


def test_all_types_of_floats_are_read(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    rng, path = np.random.default_rng(0), tmp_path / "f"
    arrays = {"a": rng.random((3, 5)), "b": rng.random(7, np.float32), "c": np.float16([[0.1]])}
    library.save_file(arrays, path, {"format": "pt"})
    found, told = read(path)
    assert told == {"format": "pt"} and {its.dtype for its in found.values()} == {np.dtype("f4")}
    assert all(np.array_equal(found[name], its.astype("f4")) for name, its in arrays.items())
    bfloat16_file(path)
    assert read(path)[0]["x"].tolist() == [1, -3]


def test_files_are_of_c_order_and_whole(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    name, path = "blocks.0.mlp.fc1.weight", tmp_path / "vit.safetensors"
    turned = WEIGHTS | {name: np.asfortranarray(WEIGHTS[name])}
    save(path, TOY, turned)
    assert np.array_equal(load(path)[1][name], WEIGHTS[name])
    with pytest.raises(ValueError, match="norm.bias has numbers that are not finite"):
        save(path, TOY, changed(norm__bias=np.full(128, np.inf)))
    assert len(load(path)[1]) == len(WEIGHTS) and [*tmp_path.iterdir()] == [path]


def test_without_biases_of_qkv_they_are_zeros(tmp_path):
    library, path = pytest.importorskip("safetensors.numpy"), tmp_path / "vit.safetensors"
    library.save_file(changed(blocks__0__attn__qkv__bias=None), path)
    assert not load(path, heads=2)[1]["blocks.0.attn.qkv.bias"].any()
    deep = ViTShape(image=8, patch=4, width=128, depth=2, heads=2, mlp=192, classes=5)
    one = initial(deep)
    del one["blocks.1.attn.qkv.bias"]
    library.save_file(one, path)
    with pytest.raises(ValueError, match="it lacks blocks.1.attn.qkv.bias, unlike a plain ViT"):
        load(path, heads=2)


def test_without_the_library_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: load(tmp_path / "a"), lambda: save(tmp_path / "a", TOY, WEIGHTS)):
        with pytest.raises(ImportError, match=r"safetensors cannot be imported .* pip install"):
            call()


def changed(**arrays):
    found = dict(WEIGHTS)
    for name, its in arrays.items():
        name = name.replace("__", ".")
        if its is None:
            del found[name]
        else:
            found[name] = its
    return found


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (changed(norm__bias=None), "it lacks norm.bias, unlike a plain ViT"),
        (changed(blocks__0__ls1__gamma=np.ones(3)), "it has blocks.0.ls1.gamma, unlike a plain"),
        (changed(norm__bias=np.ones(3)), r"norm.bias has the shape \(3,\); it must be \(128,\)"),
        (changed(norm__bias=np.full(128, np.nan)), "not finite"),
        (changed(norm__bias=np.full(128, 7e4)), "above 65504, the largest of float16: 70000"),
    ],
)
def test_weights_that_do_not_fit_are_named(weights, words):
    with pytest.raises(ValueError, match=words):
        checked(TOY, weights, "file")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (changed(head__weight=None, head__bias=None), "it lacks head.bias, head.weight, unlike"),
        (changed(dist_token=np.ones((1, 1, 128))), "it has dist_token, unlike a plain ViT"),
        ({"conv1.weight": np.ones(3)}, "it has conv1.weight, unlike a plain ViT"),
        (changed(pos_embed=np.ones((1, 4, 128))), "4 tokens; it must be a square and 1 more"),
        (changed(pos_embed=np.ones(4)), r"pos_embed has the shape \(4,\), not 3 axes"),
        (changed(blocks__99__norm1__bias=np.ones(128)), "it has blocks.99.norm1.bias, unlike a"),
        (WEIGHTS, "nothing says how many heads a width of 128 has: give heads"),
    ],
)
def test_what_is_no_vit_is_named(weights, words):
    with pytest.raises(ValueError, match=words):
        shape_of(weights)


def with_header(text, data=b""):
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "f is no safetensors file, or is cut off"),
        (b"PK\x03\x04 a zip of PyTorch's", "safetensors.torch.save_file"),
        (with_header(b'{"x": 3}'), "f is no safetensors file"),
        (with_header(b"[1]"), "f is no safetensors file"),
        (with_header(b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', b"1234"),
         "f is no safetensors file, or is cut off"),
        (with_header(b'{"x": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}', b"1"),
         "f: x holds I8; it must be one of F64, F32, F16, BF16"),
    ],
)  # fmt: skip
def test_files_that_are_none_are_refused(tmp_path, content, words):
    pytest.importorskip("safetensors")
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        load(tmp_path / "f")
    with pytest.raises(FileNotFoundError, match="nothing"):
        load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no names 'keras'"):
        save(tmp_path / "g", TOY, WEIGHTS, "keras")


# --- images ---------------------------------------------------------------------------------------


def test_an_image_is_resized_cut_and_normalised(tmp_path):
    grey = Image.new("L", (500, 300), 128)
    grey.save(tmp_path / "grey.png")
    x = read_images([tmp_path / "grey.png", grey])
    assert x.shape == (2, 3, 224, 224) and x.dtype == np.float16 and np.array_equal(x[0], x[1])
    wanted = (128 / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert np.allclose(x[0].reshape(3, -1), wanted[:, None], atol=1e-3)
    assert np.allclose(read_images([grey], "timm"), 128 / 255 * 2 - 1, atol=1e-3)


def test_images_of_any_mode_and_one_alone_are_taken(tmp_path):
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"):
        image = Image.new("RGB", (31, 17), "white").convert(mode)
        assert np.allclose(read_images(image, "timm", 8), 1, atol=0.02)
    Image.new("L", (1, 1)).save(tmp_path / "dot.png")
    one = read_images(str(tmp_path / "dot.png"), "timm", 8)
    assert one.shape == (1, 3, 8, 8) and (one == -1).all()


def test_the_middle_is_cut_out():
    levels = np.zeros((256, 512, 3), np.uint8)
    levels[16:240, 144:368] = 255
    x = Preprocessing(mean=(0, 0, 0), deviation=(1, 1, 1))(Image.fromarray(levels))
    assert (x == 1).all()
    assert LIKE["torchvision"].resample == "bilinear" and LIKE["timm"].resize == 248


def test_sizes_grow_with_the_model():
    long = Image.new("RGB", (10, 1000))
    assert read_images([long], side=384).shape == (1, 3, 384, 384)
    assert read_images([], side=8).shape == (0, 3, 8, 8)


def test_of_a_very_long_image_only_the_middle_is_resized(tmp_path, monkeypatch):
    sizes, resize = [], Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda self, size, how: sizes.append(size) or resize(self, size, how)
    )
    levels = np.zeros((2, 40_001, 3), np.uint8)
    levels[:, 19_990:20_011] = 255
    for long in (Image.fromarray(levels), Image.fromarray(levels.transpose(1, 0, 2))):
        assert np.allclose(read_images(long, "timm", 32), 1)
    assert max(map(max, sizes)) < 17 * 36
    # up to 16 times the shorter side is resized whole, as timm and torchvision do it
    noise = Image.effect_noise((160, 10), 90).convert("RGB")
    whole = resize(noise, (36 * 16, 36), Image.Resampling.BICUBIC).crop((272, 2, 304, 34))
    given = Preprocessing(36, 32, (0,) * 3, (1,) * 3)(noise).transpose(1, 2, 0)
    assert np.array_equal(given, np.asarray(whole, np.float32) / 255)


def test_an_image_that_pillow_holds_for_a_bomb_is_refused(tmp_path, monkeypatch):
    Image.new("L", (100, 100)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ValueError, match="a.png is too large for Pillow: .* exceeds limit"):
        read_images(tmp_path / "a.png")


def test_what_is_no_image_is_named(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="a.png is no image that Pillow can read"):
        read_images([tmp_path / "a.png"])
    Image.effect_noise((64, 64), 50).save(tmp_path / "b.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes()[:900])
    with pytest.raises(ValueError, match="b.png is a broken image"):
        read_images([tmp_path / "b.png"])
    with pytest.raises(FileNotFoundError):
        read_images([tmp_path / "c.png"])
    with pytest.raises(ValueError, match="no preprocessing 'keras'"):
        read_images([], "keras")
    with pytest.raises(TypeError, match=r"an image is ndarray: give .* Image.fromarray"):
        read_images([np.zeros((9, 9, 3), np.uint8)])
    deep = Image.fromarray(np.full((9, 9), 30_000, np.uint16))
    with pytest.raises(ValueError, match="mode 'I;16': Pillow would cut its levels off"):
        read_images([deep])
    deep.save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep.png has the mode 'I;16'"):
        read_images(tmp_path / "deep.png")
    with pytest.raises(ValueError, match="no pixels: 0 x 5"):
        read_images(Image.new("RGB", (0, 5)))
    with pytest.raises(ValueError, match="side is 300"):
        Preprocessing(side=300)
    for wrong in ({"deviation": (1, 1, 0)}, {"mean": (0.5, 0.5)}, {"mean": (0, 0, np.nan)}):
        with pytest.raises(ValueError, match="they must be three numbers each"):
            Preprocessing(**wrong)
