"""TIFF files as grey levels: each sample by what the file's own tags say of it.

tifffile reads the tags, and with imagecodecs the samples. What they would fill up or guess, since
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
NONE, LZW, OLD_JPEG, JPEG = 1, 5, 6, 7
FAX = {2: "ccittrle_decode", 3: "ccittfax3_decode", 4: "ccittfax4_decode"}
PREDICTED = (LZW, 8, 32946, 34925, 50000, JPEG)  # Deflate, LZMA, Zstandard; JPEG has no use of it
ASSOCIATED, UNASSOCIATED = 1, 2  # kinds of alpha
LAST_CODE = 532  # of the tags that say what samples are
END_OF_FAX = re.compile("(?:0{11,}1[01]?)+0*$")


def levels(file: BinaryIO, background: float, largest: float) -> np.ndarray | None:
    """Grey levels of a file's first page, as `grey_levels` has them, upright.

    None for what Pillow reads rightly: JPEG, and what imagecodecs, or an older one, does not have.
    Refused where the tags say too little, or something that is not read, or samples are missing.
    """
    with TiffFile(file) as tiff:
        page, codecs = tiff.pages[0], imagecodecs()
        sides = page.imagewidth, page.imagelength
        refuse_large(*sides, largest)
        for columns, rows in (sides, (page.tilewidth, page.tilelength)):
            refuse_large(columns * math.ceil(page.samplesperpixel / 4), rows, largest)
        if page.subfiletype & 5 and (page.subifds or len(tiff.pages) > 1):
            raise Refused("begins with a thumbnail or a mask: save the image by itself")
        _refuse_damaged(page, file, tiff.tiff)
        _refuse_unknown(page)
        places = _places(page, tiff.filehandle.size)
        fax = page.compression in FAX
        lossy = page.compression in (OLD_JPEG, JPEG)
        lacks = fax and (page.is_tiled or not hasattr(codecs, FAX[page.compression]))
        if lossy or lacks or (codecs is None and page.compression != NONE):
            usual = page.sampleformat == UNSIGNED and page.bitspersample == (1 if fax else 8)
            if not usual or (page.photometric == YCBCR and not lossy):
                raise Refused(f"is compressed ({_name(page.compression)}): install imagecodecs")
            for offset, count in places if page.compression == JPEG else ():
                file.seek(offset + max(count - 3, 0))
                if b"\xff\xd9" not in file.read(min(count, 3)):
                    raise Refused("ends early: a strip or tile of JPEG has no end")
            return None
        planes = np.empty(page.shaped, page.dtype)[:, 0]  # (planes, rows, columns, samples there)
        for number, (offset, count) in enumerate(places):
            file.seek(offset)
            block, (plane, _, top, left, _), shape = (
                _fax(page, file.read(count), number)
                if fax
                else page.decode(file.read(count), number)
            )
            if block.shape != shape:
                raise Refused("ends early: a strip or tile has too few samples")
            part = planes[plane, top : top + shape[1], left : left + shape[2]]
            part[...] = block[0, : part.shape[0], : part.shape[1]]
        samples = planes[0] if len(planes) == 1 else np.moveaxis(planes[..., 0], 0, -1)
        samples = samples.view(np.uint8) if samples.dtype == bool else samples
        return upright(_grey(page, samples, background), page.tags.valueof(274, 1))


def _refuse_damaged(page: Any, file: BinaryIO, form: Any) -> None:
    """Refuse a page with tags that cannot be read, which tifffile leaves out."""
    file.seek(page.offset)
    (count,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
    tags = file.read(count * form.tagsize)
    for place in range(0, len(tags), form.tagsize):
        (code,) = struct.unpack_from(f"{form.byteorder}H", tags, place)
        if code <= LAST_CODE and code not in page.tags:
            raise Refused(f"is damaged: its tag {code} cannot be read")


def _refuse_unknown(page: Any) -> None:
    """Refuse samples of which the tags say too little, or that are not read."""
    tag, photometric, kinds = page.tags.valueof, page.photometric, page.extrasamples
    bits, kind, alphas = page.bitspersample, page.sampleformat, [its for its in kinds if its]
    told = "nothing" if tag(262) is None else _name(photometric)
    if tag(262) is None or photometric not in COLOURS or page.imagedepth != 1:
        raise Refused(f"has samples that are not read: PhotometricInterpretation says {told}")
    unsigned = kind == UNSIGNED and bits in BITS[UNSIGNED] and bits <= 16
    if (
        not isinstance(bits, int)
        or bits not in BITS.get(kind, ())
        or (photometric in (PALETTE, CMYK) and not unsigned)
        or (photometric == YCBCR and (kind, bits) != (UNSIGNED, 8))
        or (photometric == CMYK and tag(332, 1) != 1)  # inks of other colours
        or page.predictor not in (1, 2, 3)
        or (page.predictor != 1 and bits not in (8, 16, 32, 64))
        or (page.predictor != 1 and page.compression not in PREDICTED)
    ):
        raise Refused(f"has samples that are not read: {told} of {bits} bits ({_name(kind)})")
    if page.samplesperpixel - COLOURS[photometric] != len(kinds) or not {*kinds} <= {0, 1, 2}:
        raise Refused(
            f"has {page.samplesperpixel} samples a pixel for {told}, and does not say what the "
            f"others are: ExtraSamples {[*map(int, kinds)]}"
        )
    multiplied = ASSOCIATED in alphas and photometric not in (BLACK_IS_ZERO, RGB)
    if len(alphas) > 1 or multiplied or (alphas and kind == SIGNED):
        raise Refused("has alpha channels of which it is not clear what they mean")
    for code, usual in ((529, (0.299, 0.587, 0.114)), (532, (0, 255, 128, 255, 128, 255))):
        told = tag(code) if photometric == YCBCR else None
        if told and not np.allclose(np.divide(told[::2], told[1::2]), usual, atol=1e-3):
            raise Refused("has luma and chroma of another kind than JPEG's")


def _name(value: int) -> str:
    return getattr(value, "name", str(value))


def _places(page: Any, size: int) -> list[tuple[int, int]]:
    """Where each strip or tile begins in the file, and how long it is, in bytes."""
    count = 1 if page.planarconfig == 1 else page.samplesperpixel
    if page.is_tiled:
        count *= math.ceil(page.imagewidth / page.tilewidth)
    count *= math.ceil(page.imagelength / (page.tilelength or page.rowsperstrip))
    places = [*zip(page.dataoffsets, page.databytecounts)][:count]
    guessed = page.compression in FAX and page.tags.valueof(279) in (None, (0,))  # by tifffile
    if guessed or len(places) < count or not all(map(all, places)):
        raise Refused("lacks strips or tiles")
    if any(offset + length > size for offset, length in places):
        raise Refused("ends early: strips or tiles are behind the end of the file")
    return places


def _fax(page: Any, data: bytes, number: int) -> tuple[np.ndarray, tuple, tuple]:
    """A strip as fax machines send it: what `page.decode` gives, if it has all of its rows.

    Decoders make missing rows white, and say nothing. A complete strip stays the same whatever bits
    come where its end was.
    """
    codecs, rng = imagecodecs(), np.random.default_rng(0)
    top = number * page.rowsperstrip
    shape = (1, min(page.rowsperstrip, page.imagelength - top), page.imagewidth, 1)
    options = {"t4options": page.tags.valueof(292, 0)} if page.compression == 3 else {}
    if page.fillorder == 2:
        data = codecs.bitorder_decode(data)
    kept, found = END_OF_FAX.sub("", "".join(f"{byte:08b}" for byte in data[-32:])), []
    for begin in 4 * ["", "000000000001"]:  # a line of some begins like that
        tail = kept + "".join(begin + f"{its:020b}" for its in rng.integers(0, 1 << 20, 8))
        longer = data[:-32] + int(tail.ljust(512, "0"), 2).to_bytes(64, "big")
        decode = getattr(codecs, FAX[page.compression])
        found.append(decode(longer, shape[1], shape[2], **options))
    if not all(np.array_equal(found[0], other) for other in found):
        raise Refused("ends early: rows of a strip are missing")
    return found[0].reshape(shape), (0, 0, top, 0, 0), shape


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
        papers = 1 - colours.astype(np.float32) / white
        colours = np.rint(papers[..., :3] * papers[..., 3:] * white).astype(colours.dtype)
    elif photometric != RGB:
        colours = colours[..., 0]  # of YCbCr the luma
    return grey_levels(
        colours, white, alpha, background=background, associated=associated,
        inverted=photometric == WHITE_IS_ZERO,
    )  # fmt: skip
