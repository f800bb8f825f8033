"""Image files that are drawn: each with the grey levels that its samples mean, in NumPy.

`drawn(seed)` gives a file of any format, written here byte by byte where that can be, sound or
damaged. `python -m tests.course_app.pipeline.drawn_pictures 10000` reads so many, from
another seed on with `python -m tests.course_app.pipeline.drawn_pictures 10000 5000`.
"""

import io
import struct
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from course.images.reading import UnreadableImage, load_image

LUMA = np.array([0.299, 0.587, 0.114])
ORIENTATIONS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.T,
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].T,
    8: lambda a: np.rot90(a),
}
ADAM7 = [
    (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
]  # fmt: skip
EIGHT_BITS = 0.51 / 255  # colours of 8 bits become luma of 8 bits, rounded
EXACT = 2e-6  # float32, a few operations


@dataclass
class Drawn:
    """A file: its content, its grey levels, how far off reading may be, and what was drawn.

    Of a damaged one, or one that says too little, `sound` is False: refused or right.
    """

    content: bytes
    grey: np.ndarray
    bound: float
    words: str
    sound: bool = True


def wrong(drawn: Drawn, path: Path) -> str | None:
    """What is wrong with how a file is read, in words; None if nothing is."""
    path.write_bytes(drawn.content)
    try:
        found = load_image(path)
    except UnreadableImage as error:
        return f"{drawn.words}: refused, {error.reason}" if drawn.sound else None
    if found.shape != drawn.grey.shape:
        return f"{drawn.words}: of {found.shape}, not {drawn.grey.shape}"
    off = np.abs(found - drawn.grey).max()
    return None if off <= drawn.bound else f"{drawn.words}: off by {off:.2g}"


def drawn(seed: int) -> Drawn:
    """A file of a random kind."""
    rng = np.random.default_rng(seed)
    kind = rng.choice([a_tiff, a_png, a_bmp, a_lossy, a_palette], p=[0.5, 0.25, 0.1, 0.1, 0.05])
    return kind(rng)


def size_of(rng):
    return tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 13, 16, 17, 19, 24, 33], 2))


def over(grey, alpha):
    return grey * alpha + 1 - alpha  # on white


def packed(values, bits):
    """Samples (rows, n) of so many bits, the highest first, each row in whole bytes."""
    places = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    those = values.astype(np.int64).view(np.uint64)[..., None] >> places & np.uint64(1)
    return np.packbits(those.astype(np.uint8).reshape(len(values), -1), axis=1)


def cut_off(rng, content):
    return content[: int(rng.integers(0, len(content)))]


# --- TIFF -----------------------------------------------------------------------------------------


def a_tiff(rng):
    """A TIFF of any samples, written by hand."""
    rows, columns = size_of(rng)
    photometric = int(rng.choice([0, 1, 2, 3, 5, 6], p=[0.25, 0.25, 0.3, 0.1, 0.05, 0.05]))
    kind = int(rng.choice([1, 2, 3], p=[0.6, 0.15, 0.25])) if photometric < 3 else 1
    bits = int(
        rng.choice([8, 16, *((32, 64) if kind > 1 or photometric < 3 else ())])
        if rng.random() < 0.6 or kind > 1
        else rng.choice([1, 2, 4, 12, *range(1, 17), *(range(17, 33) if photometric < 3 else ())])
    )
    bits = {3: max(bits, 16)}.get(kind, bits)
    bits = {3: min(bits, 16), 5: 8 * (1 + (bits > 8)), 6: 8}.get(photometric, bits)
    known = [0, 1, 2] if photometric in (1, 2) else [0, 2]
    known = [0] if kind == 2 or photometric == 6 else known
    extras = [int(rng.choice(known)) for _ in range(rng.integers(0, 3))]
    if sum(its > 0 for its in extras) > 1 or rng.random() < 0.5:
        extras = []
    count = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3}[photometric]
    shape = (rows, columns, count + len(extras))
    planar, order = int(rng.choice([1, 2])), str(rng.choice(["<", ">"]))
    if kind == 3:
        scale = rng.choice([1, 1, 255]) if 1 not in extras else 1
        samples = (rng.random(shape) * scale).astype(f"f{bits // 8}")
        samples[..., count:] = rng.random(shape[:2] + (len(extras),))
    else:
        samples = rng.integers(0, 2**bits, shape, dtype=np.uint64)
        samples[rng.random(shape) < 0.2] = 0
        samples[rng.random(shape) < 0.2] = 2**bits - 1
        if kind == 2:
            samples = samples.astype(f"u{bits // 8}").view(f"i{bits // 8}")
    white = 2**bits - 1 if kind == 1 else 1
    level = samples.astype(np.float64) / white
    alpha = None
    for place, its in enumerate(extras, count):
        if its:
            alpha = level[..., place]
        if its == 1:  # no colour is brighter than its alpha
            samples[..., :count] = np.minimum(samples[..., :count], samples[..., place : place + 1])
            level = samples.astype(np.float64) / white
    tags = {262: (3, [photometric])}
    colours = level[..., :count]
    if (kind == 1 and bits > 16) or kind == 2 or (kind == 3 and colours.max() > 1):
        if 1 in extras:
            extras = [0 if its == 1 else its for its in extras]
            alpha = None
        colours = samples[..., :count].astype(np.float64)
        colours = colours - min(colours.min(), 0)
        colours = colours / (colours.max() or 1)
    if photometric == 3:
        palette = rng.integers(0, 65536, (3, 2**bits))
        tags[320] = (3, palette.ravel().tolist())
        colours = palette.T[samples[..., 0].astype(int)] / 65535
    if photometric == 5:
        colours = (1 - colours[..., :3]) * (1 - colours[..., 3:])
    if photometric == 6:
        tags |= {530: (3, [1, 1]), 532: (5, [0, 1, 255, 1, 128, 1, 255, 1, 128, 1, 255, 1])}
        grey = colours[..., 0]
    else:
        grey = colours @ LUMA if colours.shape[-1] == 3 else colours[..., 0]
    grey = 1 - grey if photometric == 0 else grey
    if alpha is not None:
        grey = np.minimum(grey + 1 - alpha, 1) if 1 in extras else over(grey, alpha)
    bound = EIGHT_BITS if photometric == 2 and kind == 1 and bits in (1, 2, 4, 8) else EXACT
    if photometric == 5:
        bound = 1.01 / 255 if bits == 8 else 2 / 65535  # red, green and blue are rounded, too
    orientation = int(rng.integers(1, 9))
    compression = int(rng.choice([1, 1, 5, 8, 32946, 32773, 50000, 34925]))
    if bits == 1 and count == 1 and not extras:
        compression = int(rng.choice([1, 5, 2, 3, 4]))
    predictor = 1
    if compression in (5, 8, 32946, 50000, 34925) and bits in (8, 16, 32, 64):
        predictor = int(rng.choice([1, 3 if kind == 3 else 2]))
    fill = int(rng.choice([1, 1, 1, 2]))
    tile = [16 * int(n) for n in rng.integers(1, 3, 2)] if rng.random() < 0.3 else None
    if compression in (2, 3, 4):
        tile = None
    strip = int(rng.integers(1, rows + 1))
    parts = parts_of(samples, planar, tile, strip)
    coded = [coding(its, bits, kind, order, compression, predictor, columns) for its in parts]
    tags |= {
        256: (4, [columns]), 257: (3, [rows]), 258: (3, [bits] * shape[2]),
        259: (3, [compression]), 277: (3, [shape[2]]), 284: (3, [planar]),
        339: (3, [kind] * shape[2]), 274: (3, [orientation]), 317: (3, [predictor]),
        266: (3, [fill]),
    }  # fmt: skip
    if extras:
        tags[338] = (3, extras)
    if tile:
        tags |= {322: (4, [tile[1]]), 323: (4, [tile[0]])}
    else:
        tags[278] = (4, [strip])
    words = (
        f"TIFF {order} {rows}x{columns} photometric {photometric} kind {kind} bits {bits} extras "
        f"{extras} planar {planar} compression {compression} predictor {predictor} fill {fill} "
        f"tile {tile} strip {strip} orientation {orientation}"
    )
    damage = str(
        rng.choice(["", "count", "none", "half", "say", "cut", "nan"], p=[0.7] + [0.05] * 6)
    )
    wide = bool(rng.random() < 0.3)
    pages = int(rng.choice([1, 1, 2]))
    place = int(rng.integers(len(coded)))
    if damage == "half":  # the stream itself ends early, whole as a stream
        part = parts[place]
        coded[place] = coding(
            part[: len(part) // 2], bits, kind, order, compression, predictor, columns
        )
    elif damage == "count":
        coded[place] = coded[place][: len(coded[place]) // 2]
    elif damage == "say":
        spoiled = rng.choice([262, 338, 339, 258])
        if spoiled == 262:
            del tags[262]
        elif spoiled == 338:
            tags[277] = (3, [shape[2] + 1])
        elif spoiled == 339:
            tags[339] = (3, [int(rng.choice([4, 5, 6]))] * shape[2])
        elif shape[2] > 1:
            tags[258] = (3, [bits] * (shape[2] - 1) + [bits - 1])
        else:
            damage = ""
    elif damage == "nan":
        damage = ""
        if kind == 3 and compression == 1:
            place = np.nan if not tile else damage
            if not tile:
                bad = samples.copy()
                bad[rng.integers(rows), rng.integers(columns), 0] = place
                parts = parts_of(bad, planar, tile, strip)
                coded = [coding(p, bits, kind, order, 1, 1, columns) for p in parts]
                damage, grey = "NaN", grey * np.nan
    if fill == 2:
        coded = [bytes(int(f"{b:08b}"[::-1], 2) for b in part) for part in coded]
    content = tiff_file(tags, coded, order, wide, pages, bool(tile), damage == "none")
    if damage == "cut":
        content = cut_off(rng, content)
    words += f" {'BigTIFF ' * wide}pages {pages} {damage}"
    sound = not damage and bits != 24  # over whose order of bytes programs differ
    return Drawn(content, ORIENTATIONS[orientation](grey), bound, words, sound)


def parts_of(samples, planar, tile, strip):
    """The strips or tiles, (rows, columns, samples together), in the order of the file."""
    rows, columns, count = samples.shape
    planes = [samples] if planar == 1 else [samples[..., n : n + 1] for n in range(count)]
    if tile is None:
        return [plane[top : top + strip] for plane in planes for top in range(0, rows, strip)]
    down, across = (-(-n // side) * side for n, side in zip((rows, columns), tile))
    full = [np.pad(its, ((0, down - rows), (0, across - columns), (0, 0))) for its in planes]
    return [
        its[top : top + tile[0], left : left + tile[1]]
        for its in full
        for top in range(0, down, tile[0])
        for left in range(0, across, tile[1])
    ]


def coding(part, bits, kind, order, compression, predictor, width):
    """The bytes of a strip or tile."""
    import imagecodecs

    if not part.size:
        return b""
    if compression in (2, 3, 4):
        names = {2: "tiff_ccitt", 3: "group3", 4: "group4"}
        return of_pillow(part[..., 0].astype(bool), names[compression])
    rows = len(part)
    if predictor == 2:
        steps = part.view(f"u{bits // 8}") if kind > 1 else part.astype(f"u{bits // 8}")
        part = np.diff(steps, axis=1, prepend=steps[:, :1] * 0)
    if predictor == 3:
        raw = part.astype(f">f{bits // 8}").reshape(rows, -1)[..., None].view(np.uint8)
        raw = np.ascontiguousarray(raw.swapaxes(1, 2)).reshape(rows, -1, part.shape[2])
        data = np.diff(raw, axis=1, prepend=raw[:, :1] * 0).tobytes()
    elif bits in (8, 16, 32, 64):
        letter = "u" if predictor == 2 else {1: "u", 2: "i", 3: "f"}[kind]
        data = part.astype(f"{order}{letter}{bits // 8}").tobytes()
    else:
        data = packed(part.reshape(rows, -1), bits).tobytes()
    if compression in (8, 32946):
        return zlib.compress(data)
    name = {1: None, 5: "lzw", 32773: "packbits", 50000: "zstd", 34925: "lzma"}[compression]
    return bytes(getattr(imagecodecs, f"{name}_encode")(data)) if name else data


def of_pillow(bits, compression):
    """What Pillow writes of black and white pixels: a strip."""
    file = io.BytesIO()
    Image.fromarray(bits).save(file, "TIFF", compression=compression, strip_size=1 << 20)
    with Image.open(file) as image:
        (offset,), (count,) = image.tag_v2[273], image.tag_v2[279]
    return file.getvalue()[offset : offset + count]


def tiff_file(tags, coded, order, wide, pages, tiled, without):
    """A TIFF or BigTIFF, its tags behind the strips; further pages have another size."""
    offset, entry, head = ("Q", "HHQ", 16) if wide else ("I", "HHI", 8)
    data, places = b"", []
    for part in coded:
        places.append(head + len(data))
        data += part + b"\0" * (len(part) % 2)
    counts = [len(part) for part in coded]
    if without:
        counts[-1] = places[-1] = 0
    codes = (324, 325) if tiled else (273, 279)
    tags = dict(tags) | {codes[0]: (4, places), codes[1]: (4, counts)}
    formats = {3: "H", 4: "I", 5: "I"}
    out = bytearray(data)
    links = []
    for page in range(pages):
        start = head + len(out)
        links.append(start)
        size_of_link = struct.calcsize("<" + offset)
        after = start + (8 if wide else 2) + len(tags) * (20 if wide else 12) + size_of_link
        entries, behind = b"", b""
        for code, (kind, values) in sorted(tags.items()):
            if page and code == 262:
                values = [1 - min(values[0], 1)]
            value = struct.pack(f"{order}{len(values)}{formats[kind]}", *values)
            entries += struct.pack(order + entry, code, kind, len(values) // (1 + (kind == 5)))
            if len(value) <= size_of_link:
                entries += value.ljust(size_of_link, b"\0")
            else:
                entries += struct.pack(order + offset, after + len(behind))
                behind += value + b"\0" * (len(value) % 2)
        end = after + len(behind)
        following = end if page + 1 < pages else 0
        out += struct.pack(order + ("Q" if wide else "H"), len(tags)) + entries
        out += struct.pack(order + offset, following) + behind
    begin = (b"II" if order == "<" else b"MM") + (
        struct.pack(order + "HHHQ", 43, 8, 0, links[0])
        if wide
        else struct.pack(order + "HI", 42, links[0])
    )
    return begin + bytes(out)


# --- PNG ------------------------------------------------------------------------------------------


def a_png(rng):
    """A PNG of any colour type, depth and filter, with or without tRNS."""
    rows, columns = size_of(rng)
    kind = int(rng.choice([0, 2, 3, 4, 6]))
    bits = int(rng.choice({0: [1, 2, 4, 8, 16], 3: [1, 2, 4, 8]}.get(kind, [8, 16])))
    white, count = 2**bits - 1, {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    values = rng.integers(0, 2**bits, (rows, columns, count))
    if rng.random() < 0.5:
        values[-int(rng.integers(1, rows + 1)) :] = 0  # black below, as what is missing
    level, chunks, alpha = values / white, b"", None
    if kind == 3:
        palette = rng.integers(0, 256, (2**bits, 3))
        chunks += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        level = palette[values[..., 0]] / 255
    if rng.random() < 0.5 and kind in (0, 2, 3):
        if kind == 3:
            clear = rng.integers(0, 256, int(rng.integers(1, 2**bits + 1)))
            chunks += chunk(b"tRNS", clear.astype(np.uint8).tobytes())
            alpha = np.append(clear, [255] * 2**bits)[values[..., 0]] / 255
        else:
            key = values[rng.integers(rows), rng.integers(columns)]
            chunks += chunk(b"tRNS", key.astype(">u2").tobytes())
            alpha = (values != key).any(axis=-1) * 1.0
    elif kind in (4, 6):
        alpha = level[..., -1]
    grey = level[..., :3] @ LUMA if level.shape[-1] > 2 else level[..., 0]
    colours = level.shape[-1] > 2
    grey = grey if alpha is None else over(grey, alpha)
    if rng.random() < 0.3:
        chunks = chunk(b"gAMA", struct.pack(">I", 100000)) + chunks
    orientation = int(rng.integers(1, 9)) if rng.random() < 0.3 else 1
    exif = b"MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHHI", 274, 3, 1, orientation, 0, 0)
    chunks += chunk(b"eXIf", exif) * (orientation > 1)
    laced = int(rng.random() < 0.3)
    lines = b"".join(
        filtered(rng, packed(part.reshape(len(part), -1), bits), max(1, bits * count // 8))
        for left, top, across, down in (ADAM7 if laced else [(0, 0, 1, 1)])
        if (part := values[top::down, left::across]).size
    )
    damage = str(rng.choice(["", "short", "flip", "cut"], p=[0.7, 0.1, 0.1, 0.1]))
    if damage == "short":
        lines = lines[: int(rng.integers(0, len(lines)))]
    content = png_file(columns, rows, bits, kind, lines, chunks, laced, rng.random())
    if damage == "flip":  # a bit of what the checksums are of
        place = int(rng.integers(content.find(b"IDAT"), len(content) - 12))
        content = content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :]
    if damage == "cut":
        content = cut_off(rng, content)
    words = (
        f"PNG {rows}x{columns} type {kind} bits {bits} alpha {alpha is not None} laced {laced} "
        f"orientation {orientation} {damage}"
    )
    bound = EIGHT_BITS if colours and bits < 16 else EXACT
    return Drawn(content, ORIENTATIONS[orientation](grey), bound, words, not damage)


def png_file(columns, rows, bits, kind, lines, chunks=b"", laced=0, where=0.5):
    """A PNG whose stream lies in two chunks."""
    squeezed = zlib.compress(lines)
    middle = int(where * len(squeezed))
    about = struct.pack(">IIBBBBB", columns, rows, bits, kind, 0, 0, laced)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", about) + chunks
    content += chunk(b"IDAT", squeezed[:middle]) + chunk(b"IDAT", squeezed[middle:])
    return content + chunk(b"IEND", b"")


def chunk(name, content):
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def filtered(rng, lines, step):
    """PNG's scan lines, each with a filter drawn."""
    above, found = np.zeros(lines.shape[1], np.int64), b""
    for line in lines.astype(np.int64):
        left = np.concatenate([np.zeros(step, np.int64), line])[: len(line)]
        corner = np.concatenate([np.zeros(step, np.int64), above])[: len(line)]
        off = np.abs(np.array([above - corner, left - corner, left + above - 2 * corner]))
        paeth = np.choose(off.argmin(axis=0), [left, above, corner])
        which = int(rng.integers(5))
        guess = [0 * line, left, above, (left + above) // 2, paeth][which]
        found += bytes([which]) + ((line - guess) % 256).astype(np.uint8).tobytes()
        above = line
    return found


# --- BMP, JPEG, GIF, WebP -------------------------------------------------------------------------


def a_bmp(rng):
    """A BMP of any depth, from the bottom up or from the top down."""
    rows, columns = size_of(rng)
    bits = int(rng.choice([1, 4, 8, 16, 24, 32]))
    masks, palette, bound = b"", b"", EIGHT_BITS
    if bits <= 8:
        values = rng.integers(0, 2**bits, (rows, columns))
        colours = rng.integers(0, 256, (2**bits, 3))
        palette = np.pad(colours[:, ::-1], ((0, 0), (0, 1))).astype(np.uint8).tobytes()
        level, lines = colours[values] / 255, packed(values, bits)
    elif bits == 16:
        green = int(rng.choice([5, 6]))
        values = rng.integers(0, [32, 2**green, 32], (rows, columns, 3))
        level = values / [31, 2**green - 1, 31]
        lines = (values @ [1 << 5 + green, 32, 1]).astype("<u2").view(np.uint8)
        masks = struct.pack("<III", 31 << 5 + green, (2**green - 1) << 5, 31) * (green == 6)
        bound = 1.51 / 255  # 5 or 6 bits become 8
    else:
        values = rng.integers(0, 256, (rows, columns, bits // 8))
        if bits == 32:
            values[..., 3] = 0  # reserved
        level, lines = values[..., 2::-1] / 255, values.astype(np.uint8).reshape(rows, -1)
    lines = np.pad(lines, ((0, 0), (0, -lines.shape[1] % 4)))
    downwards = bool(rng.random() < 0.3)
    data = (lines if downwards else lines[::-1]).tobytes()
    place = 54 + len(masks) + len(palette)
    content = struct.pack("<2sIII", b"BM", place + len(data), 0, place)
    content += struct.pack(
        "<IiiHHIIiiII", 40, columns, rows * (1 - 2 * downwards), 1, bits, 3 if masks else 0,
        len(data), 0, 0, 0, 0,
    )  # fmt: skip
    content += masks + palette + data
    damage = "cut" if rng.random() < 0.3 else ""
    content = cut_off(rng, content) if damage else content
    words = f"BMP {rows}x{columns} bits {bits} {len(masks)} downwards {downwards} {damage}"
    return Drawn(content, level @ LUMA, bound, words, not damage)


def a_lossy(rng):
    """A smooth JPEG or WebP, or a JPEG in a TIFF, as Pillow writes it."""
    rows, columns = size_of(rng)
    y, x = np.mgrid[:rows, :columns]
    waves = rng.random((3, 3)) * [0.1, 0.1, 6]
    rgb = np.stack([np.sin(a * y + b * x + c) for a, b, c in waves], axis=-1) * 60 + 128
    mode = str(rng.choice(["L", "RGB", "CMYK"]))
    name = str(rng.choice(["JPEG", "WEBP", "TIFF"]))
    rgb = rgb.round().astype(np.uint8)
    grey = rgb @ LUMA / 255
    if mode == "L":
        rgb, grey = rgb[..., 0], rgb[..., 0] / 255
    image = Image.fromarray(rgb).convert("RGB" if mode == "CMYK" and name != "JPEG" else mode)
    orientation, exif = int(rng.integers(1, 9)), Image.Exif()
    exif[0x0112] = orientation
    more = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}.get(
        name, {"compression": "jpeg", "quality": 100}
    )
    file = io.BytesIO()
    image.save(file, name, exif=exif, **more)
    content = file.getvalue()
    damage = str(rng.choice(["", "cut", "end", "marker"], p=[0.6, 0.2, 0.1, 0.1]))
    if damage == "cut":
        content = cut_off(rng, content)
    elif damage == "marker" and (place := content.find(b"\xff\xee")) > 0 and mode == "CMYK":
        content = content[:place] + content[place + 16 :]  # Adobe's, of 14 bytes
    elif damage == "end" and name == "JPEG" and rows * columns > 300:
        begin = content.rfind(b"\xff\xda") + 10
        # a block more is not seen
        content = content[: int(rng.integers(begin, (begin + len(content)) // 2 + 1))] + b"\xff\xd9"
    else:
        damage = ""
    words = f"{name} {rows}x{columns} {mode} orientation {orientation} {damage}"
    return Drawn(content, ORIENTATIONS[orientation](grey), 4 / 255, words, not damage)


def a_palette(rng):
    """A GIF of one frame or several, with or without a transparent colour."""
    rows, columns = size_of(rng)
    colours = rng.integers(0, 256, (256, 3)).astype(np.uint8)
    frames = []
    for _ in range(int(rng.integers(1, 4))):
        frame = Image.fromarray(rng.integers(0, 256, (rows, columns)).astype(np.uint8), "P")
        frame.putpalette(colours.tobytes())
        frames.append(frame)
    first = np.asarray(frames[0])
    grey, more = colours[first] @ LUMA / 255, {}
    if rng.random() < 0.5:
        more["transparency"] = int(first[0, 0])
        grey = over(grey, (first != first[0, 0]) * 1.0)
    file = io.BytesIO()
    frames[0].save(
        file, "GIF", save_all=len(frames) > 1, append_images=frames[1:], duration=9,
        disposal=2, optimize=False, interlace=int(rng.integers(2)), **more,
    )  # fmt: skip
    damage = "cut" if rng.random() < 0.3 else ""
    content = cut_off(rng, file.getvalue()) if damage else file.getvalue()
    words = f"GIF {rows}x{columns} frames {len(frames)} {more} {damage}"
    return Drawn(content, grey, EIGHT_BITS, words, not damage)


if __name__ == "__main__":
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        found = {
            seed: wrong(drawn(seed), Path(folder) / "a") for seed in range(first, first + count)
        }
    for seed, words in found.items():
        if words:
            print(seed, words)
    print(f"{count} files, {sum(map(bool, found.values()))} read wrongly")
