"""TIFF files as grey levels: each sample by what the file's own tags say of it.

tifffile reads the tags, and with imagecodecs the samples. What it would fill up or guess, since
strips are missing or end early or tags say too little, is refused.

Source: Adobe, "TIFF, Revision 6.0" (1992), with Technical Note 3 on predictors.
"""

import math
import re
import struct
from typing import Any, BinaryIO

import numpy as np
from tifffile import TiffFile

from course.images.samples import Refused, grey_levels, imagecodecs, refuse_large, upright

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
COLOURS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, PALETTE: 1, CMYK: 4, YCBCR: 3}
UNSIGNED, SIGNED, FLOATING = 1, 2, 3
BITS = {  # that tifffile unpacks; programs differ over the order of 24 bits' bytes
    UNSIGNED: {*range(1, 33), 64} - {24},
    SIGNED: {8, 16, 32, 64},
    FLOATING: {16, 32, 64},
}
NONE, FAX, LZW, OLD_JPEG, JPEG, PACKBITS = 1, (2, 3, 4), 5, 6, 7, 32773
PREDICTED = (LZW, 8, 32946, 34925, 50000)  # LZW, Deflate, LZMA, Zstandard
ASSOCIATED, UNASSOCIATED = 1, 2  # kinds of alpha
LAST_CODE = 532  # of tags that say what samples are
END_OF_FAX = re.compile("(?:0{11,}1[01]?)+0*$")


def levels(file: BinaryIO, background: float, largest: float) -> np.ndarray | None:
    """Grey levels of a file's first page, as `grey_levels` has them, upright.

    None for what Pillow reads rightly: JPEG, compressed YCbCr and, without imagecodecs, other
    compressed samples of 8 bits.

    Raises
    ------
    Refused
        Where the tags say too little, or something that is not read, or the samples end early.
    """
    with TiffFile(file) as tiff:
        page = tiff.pages[0]
        wide = math.ceil(page.samplesperpixel / 4)
        for columns, rows in (
            (page.imagewidth, page.imagelength),
            (page.imagewidth * wide, page.imagelength),
            (page.tilewidth * wide, page.tilelength),
        ):
            refuse_large(columns, rows, largest)
        if page.subfiletype & 5 and (page.subifds or len(tiff.pages) > 1):
            raise Refused("begins with a thumbnail or a mask: save the image by itself")
        form = tiff.tiff
        file.seek(page.offset)
        (count,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
        tags = file.read(count * form.tagsize)
        for place in range(0, len(tags), form.tagsize):
            (code,) = struct.unpack_from(f"{form.byteorder}H", tags, place)
            if code <= LAST_CODE and code not in page.tags:
                raise Refused(f"is damaged: its tag {code} cannot be read")
        _refuse_unknown(page)
        places = _places(page, tiff.filehandle.size)
        if page.compression in (OLD_JPEG, JPEG) or (
            page.compression != NONE and (page.photometric == YCBCR or imagecodecs() is None)
        ):
            if page.bitspersample != 8 or page.sampleformat != UNSIGNED:
                raise Refused(f"is compressed ({_name(page.compression)}): install imagecodecs")
            for offset, count in places if page.compression == JPEG else ():
                file.seek(offset + max(count - 3, 0))
                if b"\xff\xd9" not in file.read(min(count, 3)):
                    raise Refused("ends early: a strip or tile of JPEG has no end")
            return None
        samples = _samples(page, file, places)
        return upright(_grey(page, samples, background), page.tags.valueof(274, 1))


def _refuse_unknown(page: Any) -> None:
    """Refuse samples of which the tags say too little, or that are not read."""
    tag, photometric = page.tags.valueof, page.photometric
    bits, kind, kinds = page.bitspersample, page.sampleformat, page.extrasamples
    if tag(262) is None or photometric not in COLOURS or page.imagedepth != 1:
        told = "nothing" if tag(262) is None else _name(photometric)
        raise Refused(f"has samples that are not read; PhotometricInterpretation says {told}")
    if not isinstance(bits, int) or bits not in BITS.get(kind, ()):
        raise Refused(f"has samples that are not read: {_name(kind)} of {bits} bits")
    extra = page.samplesperpixel - COLOURS[photometric]
    if extra != len(kinds) or not {*kinds} <= {0, ASSOCIATED, UNASSOCIATED}:
        raise Refused(
            f"has {page.samplesperpixel} samples a pixel for {_name(photometric)}; ExtraSamples "
            f"does not say what the others are: {[*map(int, kinds)]}"
        )
    alphas = [its for its in kinds if its]
    if alphas and (
        len(alphas) > 1
        or kind == SIGNED
        or (ASSOCIATED in alphas and photometric not in (BLACK_IS_ZERO, RGB))
    ):
        raise Refused("has alpha channels of which it is not clear what they mean")
    indices = photometric == PALETTE and (kind != UNSIGNED or bits > 16)
    inks = photometric == CMYK and (kind != UNSIGNED or bits > 16 or tag(332, 1) != 1)
    if indices or inks or (photometric == YCBCR and (kind, bits) != (UNSIGNED, 8)):
        raise Refused(f"has {_name(photometric)} of samples that are not read: {bits} bits")
    for code, usual in ((529, (0.299, 0.587, 0.114)), (532, (0, 255, 128, 255, 128, 255))):
        told = tag(code) if photometric == YCBCR else None
        if told and not np.allclose(np.divide(told[::2], told[1::2]), usual, atol=1e-3):
            raise Refused("has luma and chroma of another kind than JPEG's")
    if page.predictor != 1 and page.compression not in (*PREDICTED, JPEG):
        raise Refused("has a predictor, but no compression that goes with one")
    if page.predictor not in (1, 2, 3) or (page.predictor != 1 and bits not in (8, 16, 32, 64)):
        raise Refused(f"has samples of {bits} bits predicted in a way that is not read")


def _name(value: int) -> str:
    return getattr(value, "name", str(value))


def _places(page: Any, size: int) -> list[tuple[int, int]]:
    """Where each strip or tile begins in the file, and how long it is, in bytes."""
    count = 1 if page.planarconfig == 1 else page.samplesperpixel
    if page.is_tiled:
        count *= math.ceil(page.imagewidth / page.tilewidth)
    count *= math.ceil(page.imagelength / (page.tilelength or page.rowsperstrip))
    places = [*zip(page.dataoffsets, page.databytecounts)][:count]
    if len(places) < count or not all(map(all, places)):
        raise Refused("lacks strips or tiles")
    if any(offset + length > size for offset, length in places):
        raise Refused("ends early: strips or tiles are behind the end of the file")
    return places


def _samples(page: Any, file: BinaryIO, places: list[tuple[int, int]]) -> np.ndarray:
    """All samples, (rows, columns, samples), each strip and tile whole."""
    planes = np.empty(page.shaped, page.dtype)[:, 0]  # (planes, rows, columns, samples together)
    for number, (offset, count) in enumerate(places):
        file.seek(offset)
        data = file.read(count)
        block, (plane, _, top, left, _), shape = page.decode(data, number)
        if block.shape != shape:
            raise Refused("ends early: a strip or tile has too few samples")
        if page.compression in FAX:
            _refuse_short_fax(page, data, number)
        part = planes[plane, top : top + shape[1], left : left + shape[2]]
        part[...] = block[0, : part.shape[0], : part.shape[1]]
    samples = planes[0] if len(planes) == 1 else np.moveaxis(planes[..., 0], 0, -1)
    return samples.view(np.uint8) if samples.dtype == bool else samples


def _refuse_short_fax(page: Any, data: bytes, number: int) -> None:
    """Refuse a strip as fax machines send it that has too few rows.

    Decoders make the missing ones white, and say nothing. A complete strip stays the same whatever
    bits come where its end was.
    """
    if page.fillorder == 2:
        data = imagecodecs().bitorder_decode(data)
    kept = END_OF_FAX.sub("", "".join(f"{byte:08b}" for byte in data[-32:]))
    found, rng = [], np.random.default_rng(0)
    for begin in 4 * ["", "000000000001"]:  # a line of some begins like that
        tail = kept + "".join(begin + f"{its:020b}" for its in rng.integers(0, 1 << 20, 8))
        other = data[:-32] + int(tail.ljust(512, "0"), 2).to_bytes(64, "big")
        if page.fillorder == 2:
            other = imagecodecs().bitorder_decode(other)
        found.append(page.decode(other, number)[0])
    if not all(np.array_equal(found[0], other) for other in found):
        raise Refused("ends early: rows of a strip are missing")


def _grey(page: Any, samples: np.ndarray, background: float) -> np.ndarray:
    """Grey levels of samples, (rows, columns, samples), by what the tags say they are."""
    photometric, bits = page.photometric, page.bitspersample
    white = 2**bits - 1 if page.sampleformat == UNSIGNED and bits <= 16 else None
    colours, alpha = samples[..., : COLOURS[photometric]], None
    kinds = [*map(int, page.extrasamples)]
    associated = ASSOCIATED in kinds
    if any(kinds):
        alpha = samples[..., COLOURS[photometric] + kinds.index(max(kinds))].astype(np.float32)
        alpha /= np.float32(2.0**bits - 1 if page.sampleformat == UNSIGNED else 1)
        if not (alpha.min() >= 0 and alpha.max() <= 1):  # NaN is neither
            raise Refused("has an alpha channel that leaves [0, 1]")
    if photometric == PALETTE:
        palette = np.array(page.tags.valueof(320), np.uint16).reshape(3, 2**bits)
        colours, white = palette.T[colours[..., 0]], 65535
    elif photometric == CMYK:
        inks = 1 - colours.astype(np.float32) / white
        colours, white = inks[..., :3] * inks[..., 3:], 1
    elif photometric != RGB:
        colours = colours[..., 0]  # of YCbCr the luma
    return grey_levels(
        colours, white, alpha, background=background, associated=associated,
        inverted=photometric == WHITE_IS_ZERO,
    )  # fmt: skip
