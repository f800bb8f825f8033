"""Arithmetic of the ladder to wgmma: clocks, registers, stages, waves; and what was recorded of it.

Sources: NVIDIA, "H100 Tensor Core GPU Architecture" (products a clock); PTX ISA, "Asynchronous
warpgroup level matrix instructions", "Matrix descriptor format".
"""

from __future__ import annotations

from course import known_gpu, recorded

#: Of one multiprocessor of an H200: products of halves that its tensor cores make in a clock, bytes
#: that its shared memory gives in a clock, bytes of it that a block can have.
PRODUCTS_A_CLOCK, SHARED_BYTES_A_CLOCK = 2048, 128
SHARED_BYTES = 227 * 1024
HALF = 2  # bytes
SWIZZLES = {"none": 0, "128 bytes": 1, "64 bytes": 2, "32 bytes": 3}


def tensor_clocks(rows: int, columns: int, depth: int) -> float:
    """Clocks that the tensor cores of a multiprocessor need for a product."""
    return rows * columns * depth / PRODUCTS_A_CLOCK


def shared_clocks(numbers: int) -> float:
    """Clocks in which shared memory gives so many halves."""
    return numbers * HALF / SHARED_BYTES_A_CLOCK


def waves(rows: int, columns: int, tile: tuple[int, int], gpu: str = "H200") -> float:
    """Tiles of a result, by the multiprocessors of a GPU."""
    tiles = -(-rows // tile[0]) * -(-columns // tile[1])
    return tiles / known_gpu(gpu).multiprocessors


def stages(rows: int, columns: int, depth: int) -> int:
    """How many pairs of tiles, rows x depth and depth x columns, shared memory holds at a time."""
    return SHARED_BYTES // ((rows + columns) * depth * HALF)


def descriptor(address: int, leading: int, stride: int, swizzle: str) -> int:
    """The 64 bits that tell wgmma where a tile lies in shared memory; all three in bytes.

    Bits 0-13 address, 16-29 leading offset, 32-45 stride offset, each / 16; 62-63 the swizzle.
    """
    for name, value in (("address", address), ("leading", leading), ("stride", stride)):
        if value % 16 or not 0 <= value < 2**18:
            raise ValueError(f"{name} is {value}: give a multiple of 16 below 2**18")
    fields = address >> 4, leading >> 4 << 16, stride >> 4 << 32, SWIZZLES[swizzle] << 62
    return sum(fields)


def recorded_products(gpu: str = "H200") -> str:
    """What was recorded of products of halves beside cuBLAS's, a line each shape.

    The ratio is the median of rounds in which both took turns, times those of cuBLAS over ours.
    """
    ours, ratios = (
        {
            figure.shape: figure
            for figure in recorded("halves", kernel="product nt", variant=variant, metric=metric,
                                   dtype="float16", gpu=gpu)
        }
        for variant, metric in (("ours", "time in a graph"), ("cuBLAS / ours", "ratio"))
    )  # fmt: skip
    lines = [f"{'shape':>18}  TFLOP/s  cuBLAS's time / ours"]
    lines += [
        f"{shape:>18}  {figure.teraflops:7.0f}  {ratios[shape].median:20.2f}"
        for shape, figure in sorted(ours.items(), key=lambda one: -one[1].operations)
    ]
    return "\n".join(lines)


#: Steps of the ladder, by the names that `python -m course bench halves_ladder` gives them.
LADDER = "plain", "wgmma", "tma", "roles, a tile a block", "roles"


def recorded_ladder(gpu: str = "H200") -> dict[str, list[float]]:
    """TFLOP/s that were recorded of the ladder's steps, of each at a depth of 4,096 and of 768."""
    figures = recorded("halves_ladder", metric="time in a graph", gpu=gpu)
    return {
        step: [figure.teraflops for figure in figures if figure.variant == step] for step in LADDER
    }


def tile_of(number: int, down: int, across: int, band: int) -> tuple[int, int]:
    """Row and column of a tile, where tiles come in bands of rows, down first in each."""
    whole, within = divmod(number, band * across)
    high = min(band, down - whole * band)
    return whole * band + within % high, within // high


def strips(down: int, across: int, at_once: int, band: int) -> int:
    """How many strips of a and of b the first tiles need, taken in bands of so many rows."""
    first = [tile_of(number, down, across, band) for number in range(at_once)]
    return sum(len(set(part)) for part in zip(*first, strict=True))
