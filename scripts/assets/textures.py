"""Floor and wall textures drawn by code: woods, tiles, carpets, stone, plaster and wallpaper.

`draw` gives the image of a line of the curation table. Every pattern repeats without a seam, and covers two to three
metres, so that nobody sees it repeat. A picture is drawn at twice its size and halved, which smooths its joints.

Axes: S side of the drawing. Lengths are metres; u runs along the texture's width and v along its height.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Colors = Sequence[str]  # "#rrggbb"
_OVERSAMPLING = 2
_SOFT_M = 0.002  # half the width over which a joint's edge fades


@dataclass(frozen=True, slots=True)
class Canvas:
    """A square drawing that repeats: its random numbers, its side in pixels, and the metres that it covers."""

    rng: np.random.Generator
    side: int
    size_m: tuple[float, float]

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """u and v of all pixels' middles, (S, S) each."""
        middle = (np.arange(self.side) + 0.5) / self.side
        return np.meshgrid(middle * self.size_m[0], middle * self.size_m[1])

    def noise(self, along_m: float, across_m: float | None = None) -> np.ndarray:
        """Smooth noise (S, S) of mean 0 and deviation 1 that repeats; its grains are about so long and so high."""
        reach = (along_m, along_m if across_m is None else across_m)
        sigma = [length / size * self.side / 2 for length, size in zip(reach, self.size_m, strict=True)]
        waves = [np.fft.fftfreq(self.side) * s for s in sigma]
        damping = np.exp(-2 * np.pi**2 * (waves[1][:, None] ** 2 + waves[0][None] ** 2))
        field = np.fft.ifft2(np.fft.fft2(self.rng.random((self.side, self.side))) * damping).real
        field -= field.mean()
        return field / field.std()


def draw(line: dict) -> tuple[bytes, tuple[float, float]]:
    """PNG and size in metres of a curation line with `pattern`, `size_m`, `side_px`, `seed` and the pattern's own."""
    if line["pattern"] not in PATTERNS:
        raise ValueError(f"pattern: expected one of {', '.join(PATTERNS)}, got {line['pattern']!r}")
    own = {k: v for k, v in line.items() if k not in ("name", "kind", "pattern", "size_m", "side_px", "seed")}
    canvas = Canvas(
        np.random.Generator(np.random.PCG64(line["seed"])), _OVERSAMPLING * line["side_px"], tuple(line["size_m"])
    )
    return encode(PATTERNS[line["pattern"]](canvas, **own)), canvas.size_m


def rearranged(image: bytes, *, cells: Sequence[int], count: Sequence[int], side_px: int, seed: int) -> bytes:
    """PNG of a larger floor laid from the tiles in a picture: `cells` across and down there, `count` in the result.

    Each place takes any of the tiles, upright or turned by half, a little brighter or darker.
    """
    from PIL import Image

    rng = np.random.Generator(np.random.PCG64(seed))
    across, down = (side_px // number for number in count)
    with Image.open(io.BytesIO(image)) as opened:
        scaled = opened.convert("RGB").resize((across * cells[0], down * cells[1]), Image.Resampling.LANCZOS)
    source = np.asarray(scaled).reshape(cells[1], down, cells[0], across, 3)
    floor = np.zeros((count[1] * down, count[0] * across, 3), np.uint8)
    for row in range(count[1]):
        for column in range(count[0]):
            row_there, column_there, turn, light = rng.random(4).tolist()
            tile = source[int(row_there * cells[1]), :, int(column_there * cells[0])]
            tile = tile[::-1, ::-1] if turn < 0.5 else tile
            bright = (tile * (0.95 + 0.1 * light)).clip(0, 255).round().astype(np.uint8)
            floor[row * down : (row + 1) * down, column * across : (column + 1) * across] = bright
    with io.BytesIO() as file:
        Image.fromarray(floor).save(file, "PNG")
        return file.getvalue()


def encode(picture: np.ndarray) -> bytes:
    """PNG of a picture (S, S, 3) with values in 0..1, at half its size."""
    from PIL import Image

    side = len(picture) // _OVERSAMPLING
    halved = picture.reshape(side, _OVERSAMPLING, side, _OVERSAMPLING, 3).mean(axis=(1, 3))
    with io.BytesIO() as file:
        Image.fromarray((halved.clip(0, 1) * 255).round().astype(np.uint8)).save(file, "PNG")
        return file.getvalue()


def _rgb(colors: Colors) -> np.ndarray:
    return np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colors]) / 255


def _pieces(canvas: Canvas, number: np.ndarray, colors: Colors, vary: float) -> tuple[np.ndarray, np.ndarray]:
    """The colour (S, S, 3) of each piece of a floor, brighter or darker by up to `vary`, and the piece of each pixel.

    `number` may be any whole numbers; pixels with the same one are of one piece.
    """
    found, piece = np.unique(number, return_inverse=True)
    piece = piece.reshape(number.shape)
    base = _rgb(colors)[(canvas.rng.random(len(found)) * len(colors)).astype(int)]
    base = base * (1 + vary * (2 * canvas.rng.random(len(found)) - 1))[:, None]
    return base[piece], piece


def _at(field: np.ndarray, canvas: Canvas, u: np.ndarray, v: np.ndarray, piece: np.ndarray) -> np.ndarray:
    """A field of noise at places that differ from piece to piece, so that no two pieces look alike."""
    shift = (canvas.rng.random((int(piece.max()) + 1, 2)) * canvas.side).astype(int)[piece]
    column = np.floor(u / canvas.size_m[0] * canvas.side).astype(int) + shift[..., 0]
    row = np.floor(v / canvas.size_m[1] * canvas.side).astype(int) + shift[..., 1]
    return field[row % canvas.side, column % canvas.side]


def _wood(canvas: Canvas, number, u, v, edge_m, colors: Colors, vary: float, grain: float) -> np.ndarray:
    """Planks: `u` and `v` run along and across each plank, `edge_m` is the distance to its nearest edge."""
    color, piece = _pieces(canvas, number, colors, vary)
    fibre = _at(canvas.noise(0.35, 0.006), canvas, u, v, piece)
    bend = _at(canvas.noise(0.7, 0.05), canvas, u, v, piece)
    rings = np.sin(2 * np.pi * (v / 0.045 + 1.1 * bend))
    pores = np.minimum(_at(canvas.noise(0.05, 0.004), canvas, u, v, piece) + 1.3, 0)
    shade = 1 + grain * (0.035 * fibre + 0.045 * rings + 0.03 * bend + 0.06 * pores)
    return color * shade[..., None] * _joint(edge_m, 0.0022, 0.5)[..., None]


def _joint(edge_m: np.ndarray, half_m: float, depth: float) -> np.ndarray:
    """Brightness: `depth` in a joint, 1 outside, and soft between."""
    return depth + (1 - depth) * ((edge_m - half_m) / _SOFT_M + 0.5).clip(0, 1)


def planks(canvas: Canvas, *, plank_m: Sequence[float], colors: Colors, vary=0.1, grain=1.0) -> np.ndarray:
    """Rows of planks of about this length and width, whose ends stand anywhere."""
    u, v = canvas.grid()
    rows = round(canvas.size_m[1] / plank_m[1])
    width = canvas.size_m[1] / rows
    row = np.floor(v / width).astype(int)
    count = max(1, round(canvas.size_m[0] / plank_m[0]))
    ends = (np.arange(count) + 0.5 * canvas.rng.random((rows, count))) / count
    ends = np.sort((ends + canvas.rng.random((rows, 1))) % 1, axis=1) * canvas.size_m[0]
    before = (ends[row] <= u[..., None]).sum(axis=-1) - 1  # -1: the plank that comes round from the right
    start = np.take_along_axis(ends[row], (before % count)[..., None], -1)[..., 0]
    end = np.take_along_axis(ends[row], ((before + 1) % count)[..., None], -1)[..., 0]
    along, length = (u - start) % canvas.size_m[0], (end - start) % canvas.size_m[0]
    length = np.where(length == 0, canvas.size_m[0], length)
    across = v - row * width
    edge = np.minimum(np.minimum(across, width - across), np.minimum(along, length - along))
    return _wood(canvas, row * count + before % count, along, across, edge, colors, vary, grain)


def herringbone(canvas: Canvas, *, blocks: int, ratio: int, colors: Colors, vary=0.1, grain=0.8) -> np.ndarray:
    """Blocks `ratio` times as long as wide that meet at right angles, `blocks` lengths across the texture.

    The zigzag runs along the texture's sides. So the axes of the blocks are turned by 45 degrees: x - y tells which
    block a place belongs to, and x + y and x - y repeat after `blocks` lengths.
    """
    u, v = canvas.grid()
    period = 2 * ratio * blocks  # of x + y and of x - y, in block widths
    width = canvas.size_m[0] / (period / 2**0.5)
    x, y = (u + v) / width / 2**0.5, (v - u) / width / 2**0.5
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    step = (column - row) % (2 * ratio)
    lies = step < ratio
    first_x = np.where(lies, column - step, column)
    first_y = np.where(lies, row, row - (2 * ratio - 1 - step))
    along = np.where(lies, x - first_x, y - first_y)
    across = np.where(lies, y - first_y, x - first_x)
    edge = np.minimum(np.minimum(along, ratio - along), np.minimum(across, 1 - across)) * width
    number = ((first_x + first_y) % period * period + (first_x - first_y) % period) * 2 + lies
    return _wood(canvas, number, along * width, across * width, edge, colors, vary, grain)


def parquet(canvas: Canvas, *, squares: int, strips: int, colors: Colors, vary=0.12, grain=0.8) -> np.ndarray:
    """Squares of strips, turned by turns; `squares` across the texture, an even number."""
    u, v = canvas.grid()
    side = canvas.size_m[0] / squares
    column, row = np.floor(u / side).astype(int), np.floor(v / side).astype(int)
    turned = (column + row) % 2 == 1
    along = np.where(turned, v - row * side, u - column * side)
    across = np.where(turned, u - column * side, v - row * side)
    strip = np.minimum((across / side * strips).astype(int), strips - 1)
    within = across - strip * side / strips
    edge = np.minimum(np.minimum(along, side - along), np.minimum(within, side / strips - within))
    number = (row * squares + column) * strips + strip
    return _wood(canvas, number, along, within, edge, colors, vary, grain)


def tiles(
    canvas: Canvas, *, count: Sequence[int], colors: Colors, grout: str, bond=0.0, vary=0.03, mottle=0.02, veins=0.0,
    checker=False, grout_m=0.004,
) -> np.ndarray:  # fmt: skip
    """`count` tiles across and down. `bond` shifts every other row by that share of a tile."""
    u, v = canvas.grid()
    width, height = (size / number for size, number in zip(canvas.size_m, count, strict=True))
    row = np.floor(v / height).astype(int)
    u = u + np.where(row % 2 == 1, bond * width, 0.0)
    column = np.floor(u / width).astype(int) % count[0]
    along, across = u % width, v - row * height
    edge = np.minimum(np.minimum(along, width - along), np.minimum(across, height - across))
    if checker:
        even, piece = _pieces(canvas, row * count[0] + column, colors[:1], vary)
        odd, _ = _pieces(canvas, row * count[0] + column, colors[1:], vary)
        color = np.where(((row + column) % 2 == 0)[..., None], even, odd)
    else:
        color, piece = _pieces(canvas, row * count[0] + column, colors, vary)
    return _laid(canvas, color, piece, (along, across), edge, (_rgb([grout])[0], grout_m), mottle, veins)


def hexagons(canvas: Canvas, *, count: Sequence[int], colors: Colors, grout: str, vary=0.03, mottle=0.02) -> np.ndarray:
    """Six-sided tiles: `count` across, and pairs of rows down; the texture's height is 3**0.5 * down / across of it."""
    u, v = canvas.grid()
    a, b = canvas.size_m[0] / count[0], canvas.size_m[1] / count[1]
    number, nearest, edge = np.zeros(u.shape, int), np.full(u.shape, 9.0), np.zeros(u.shape)
    for half in (0, 1):
        column, row = np.round(u / a - half / 2), np.round(v / b - half / 2)
        du, dv = u - (column + half / 2) * a, v - (row + half / 2) * b
        # The distance to a hexagon's middle, measured so that its six sides are equally far.
        reach = np.maximum(np.abs(du), np.abs(du) / 2 + np.abs(dv) * 3**0.5 / 2)
        closer = reach < nearest
        tile = (row % count[1] * count[0] + column % count[0]) * 2 + half
        number, nearest = np.where(closer, tile, number), np.where(closer, reach, nearest)
    edge = a / 2 - nearest
    color, piece = _pieces(canvas, number, colors, vary)
    return _laid(canvas, color, piece, (u, v), edge, (_rgb([grout])[0], 0.004), mottle, 0.0)


def _laid(canvas: Canvas, color, piece, place, edge, joint: tuple[np.ndarray, float], mottle, veins) -> np.ndarray:
    """Tiles with their stains and veins, a slightly brighter rim, and the joints between them."""
    stains = canvas.noise(0.12) + 0.6 * canvas.noise(0.03) + 0.4 * canvas.noise(0.012)
    shade = 1 + mottle * _at(stains, canvas, *place, piece)
    if veins:
        ridge = np.abs(_at(canvas.noise(0.25) + 0.35 * canvas.noise(0.05), canvas, *place, piece))
        shade = shade - veins * np.exp(-((ridge / 0.07) ** 2)) - veins / 3 * np.exp(-((ridge / 0.4) ** 2))
    shade = shade + 0.03 * np.exp(-(((edge - joint[1]) / 0.004).clip(0) ** 2))
    share = ((edge - joint[1] / 2) / _SOFT_M + 0.5).clip(0, 1)[..., None]
    rough = joint[0] * (1 + 0.03 * canvas.noise(0.01))[..., None]
    return color * shade[..., None] * share + rough * (1 - share)


def terrazzo(canvas: Canvas, *, ground: str, colors: Colors, chips: int, chip_m: Sequence[float]) -> np.ndarray:
    """Chips of stone of all sizes between `chip_m` in a ground of cement."""
    picture = (
        np.broadcast_to(_rgb([ground])[0], (canvas.side, canvas.side, 3))
        * (1 + 0.012 * canvas.noise(0.006) + 0.01 * canvas.noise(0.2))[..., None]
    )
    texel = canvas.size_m[0] / canvas.side
    for _ in range(chips):
        x, y, turn, stretch, size, tone = canvas.rng.random(6).tolist()
        radius = (chip_m[0] + (chip_m[1] - chip_m[0]) * size**3) / texel / 2
        reach = int(radius * 1.5) + 2
        span = np.arange(-reach, reach + 1)
        c, s = np.cos(np.pi * turn), np.sin(np.pi * turn)
        along, across = c * span[None] + s * span[:, None], c * span[:, None] - s * span[None]
        corners = np.abs(along) * (1 - 0.4 * stretch) + np.abs(across) * (0.6 + 0.4 * stretch)
        inside = np.maximum(corners, np.maximum(np.abs(along), np.abs(across)) * 0.95) < radius
        rows, columns = (span + int(y * canvas.side)) % canvas.side, (span + int(x * canvas.side)) % canvas.side
        color = _rgb([colors[int(tone * len(colors))]])[0] * (0.9 + 0.2 * (tone * len(colors) % 1))
        window = picture[np.ix_(rows, columns)]
        window[inside] = color
        picture[np.ix_(rows, columns)] = window
    return picture


def concrete(canvas: Canvas, *, color: str, cloud=0.035, pores=0.5) -> np.ndarray:
    """Poured cement: clouds, a fine grain, and pores."""
    shade = 1 + cloud * (0.7 * canvas.noise(0.5) + 0.6 * canvas.noise(0.14) + 0.4 * canvas.noise(0.04))
    shade += 0.016 * canvas.noise(0.012)
    shade -= 0.12 * pores * (canvas.noise(0.012) > 3.0)
    return _rgb([color])[0] * shade[..., None]


def carpet(canvas: Canvas, *, color: str, pile=0.06, loop_m=0.0, rib=0.0, fleck=0.0) -> np.ndarray:
    """A pile of threads, with rows of loops `loop_m` apart, ribs, and flecks of lighter and darker threads."""
    u, v = canvas.grid()
    shade = 1 + pile * canvas.noise(0.008) + pile / 3 * canvas.noise(0.03) + 0.012 * canvas.noise(0.5)
    if loop_m:
        rows, columns = (round(size / loop_m) for size in reversed(canvas.size_m))
        bow = np.sin(np.pi * v / canvas.size_m[1] * rows) ** 2
        loop = np.sin(np.pi * u / canvas.size_m[0] * columns) ** 2
        shade = shade * (1 - rib * (1 - bow) - rib / 2 * (1 - loop))
    shade += fleck * np.sign(canvas.noise(0.014, 0.007)) * (np.abs(canvas.noise(0.014, 0.007)) > 1.2)
    return _rgb([color])[0] * shade[..., None]


def plaster(canvas: Canvas, *, color: str, grain_m: float, relief: float) -> np.ndarray:
    """A rough wall lit from above: brighter where its surface rises towards the light."""
    height = canvas.noise(grain_m) + 0.5 * canvas.noise(grain_m / 3)
    slope = np.roll(height, 1, axis=0) - np.roll(height, -1, axis=0)
    return _rgb([color])[0] * (1 + relief * slope / slope.std() + 0.008 * canvas.noise(0.5))[..., None]


def wallpaper(canvas: Canvas, *, motif: str, colors: Colors, repeats: Sequence[int]) -> np.ndarray:
    """A printed pattern of two colours, `repeats` times across and down."""
    u, v = canvas.grid()
    x, y = u / canvas.size_m[0] * repeats[0], v / canvas.size_m[1] * repeats[1]
    share = _MOTIFS[motif](x, y)[..., None]
    paper = 1 + 0.010 * canvas.noise(0.02, 0.004)
    ground, print_ = _rgb(colors)
    return (ground * (1 - share) + print_ * share) * paper[..., None]


def _edge(value: np.ndarray, softness: float) -> np.ndarray:
    """1 where a value is above 0, 0 below, and soft between."""
    return (value / softness + 0.5).clip(0, 1)


def _stripes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _edge(0.25 - np.abs(x % 1 - 0.5), 0.05)


def _pinstripes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide, thin = np.abs(x % 1 - 0.5), np.abs((x + 0.5) % 1 - 0.5)
    return np.maximum(_edge(0.06 - wide, 0.04), 0.6 * _edge(0.02 - thin, 0.04))


def _staggered(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places -0.5..0.5 within cells whose every other column is half a cell lower."""
    column = np.floor(x)
    return x % 1 - 0.5, (y + 0.5 * (column % 2)) % 1 - 0.5


def _dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = _staggered(x, y)
    return _edge(0.16 - np.hypot(a, b), 0.06)


def _trellis(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wave = np.abs(np.cos(np.pi * x) + np.cos(np.pi * 2 * y))
    return _edge(0.16 - wave, 0.12)


def _leaves(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = _staggered(x, y)
    found = _edge(0.012 - np.abs(a - 0.04 * np.sin(7 * b)), 0.02) * (np.abs(b) < 0.42)
    for place in (-0.28, -0.08, 0.12, 0.30):
        for side in (-1, 1):
            p, q = a * side - 0.13, b - place + 0.05 * (side + 1)
            along, across = 0.8 * p - 0.6 * q, 0.6 * p + 0.8 * q
            found = np.maximum(found, _edge(1 - (along / 0.15) ** 2 - (across / 0.055) ** 2, 0.4))
    return found


def _damask(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = _staggered(x, y)
    radius, angle = np.hypot(a * 1.3, b), np.arctan2(a, b)
    flower = _edge(0.20 + 0.07 * np.cos(6 * angle) - radius, 0.03) * (
        1 - 0.8 * _edge(0.07 - np.abs(radius - 0.12), 0.04)
    )
    frame = _edge(0.03 - np.abs(0.46 - np.abs(a) * 1.1 - np.abs(np.sin(np.pi * b)) * 0.25), 0.03)
    return np.maximum(flower, 0.8 * frame)


_MOTIFS = {
    "stripes": _stripes, "pinstripes": _pinstripes, "dots": _dots, "trellis": _trellis, "leaves": _leaves,
    "damask": _damask,
}  # fmt: skip

PATTERNS: dict[str, Callable[..., np.ndarray]] = {
    function.__name__: function
    for function in (
        planks, herringbone, parquet, tiles, hexagons, terrazzo, concrete, carpet, plaster, wallpaper,
    )
}  # fmt: skip
