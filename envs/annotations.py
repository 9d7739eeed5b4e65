"""`PALETTE`: the colours that questions are about, in any world, and what they look like."""

# The colours that questions are about, painted as these sRGB values.
PALETTE: dict[str, tuple[int, int, int]] = {
    "black": (30, 30, 32),
    "white": (242, 242, 240),
    "gray": (128, 129, 132),
    "brown": (112, 68, 36),
    "red": (192, 28, 34),
    "orange": (240, 122, 20),
    "yellow": (244, 208, 44),
    "green": (42, 138, 60),
    "blue": (34, 84, 186),
    "purple": (120, 52, 152),
    "pink": (244, 142, 178),
}
