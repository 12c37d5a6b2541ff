"""A scene, a film, and a voice.

Always true here: everything is computed in whole numbers, because the last digits of a cosine
differ between hosts; `scale` is a place in `SCALES`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from perdure.inputs.chance import Chance


def scene(scale: int) -> bytes:
    """A scene for POV-Ray: spheres in a glass-like lattice, carved solids, two lamps."""
    spheres, solids = ((3_000, 300), (400, 40), (20, 4))[scale]
    chance = Chance("scene")
    lines = [
        "#version 3.7;",
        "global_settings { assumed_gamma 1.0 max_trace_level 4 }",
        "camera { location <0, 6, -22> look_at <0, 1, 0> angle 48 }",
        "light_source { <20, 40, -30> color rgb <1, 0.95, 0.9> }",
        "light_source { <-30, 20, -20> color rgb <0.3, 0.35, 0.5> shadowless }",
        "plane { y, -3 pigment { checker color rgb 0.9 color rgb 0.25 scale 2 }"
        " finish { reflection 0.15 } }",
        "#declare Glass = finish { reflection 0.2 phong 0.8 phong_size 60 }",
    ]
    for _ in range(spheres):
        place = ", ".join(_tenths(chance.between(-90, 90)) for _ in "xyz")
        colour = ", ".join(_tenths(chance.between(1, 10)) for _ in "rgb")
        lines.append(
            f"sphere {{ <{place}>, 0.{chance.between(10, 45)} pigment {{ color rgb <{colour}> }}"
            " finish { Glass } }"
        )
    for number in range(solids):
        place = ", ".join(_tenths(chance.between(-80, 80)) for _ in "xyz")
        turn = ", ".join(str(chance.below(360)) for _ in "xyz")
        kind = ("bozo", "marble", "granite", "wood")[number % 4]
        lines.append(
            f"difference {{ box {{ -0.6, 0.6 }} sphere {{ 0, 0.{chance.between(65, 78)} }}"
            f" cylinder {{ -y, y, 0.3 }} pigment {{ {kind} scale 0.5 turbulence 0.4 }}"
            f" rotate <{turn}> translate <{place}> }}"
        )
    return "".join(f"{line}\n" for line in lines).encode()


def _tenths(value: int) -> str:
    """A number of tenths as a decimal, without arithmetic that could round."""
    return f"{'-' if value < 0 else ''}{abs(value) // 10}.{abs(value) % 10}"


VIDEO_SIZE = ((352, 288), (176, 144), (64, 64))
VIDEO_FRAMES = (24, 5, 2)


def video(scale: int) -> bytes:
    """Frames in planar YUV 4:2:0: a panning background, patches that move over it, noise."""
    width, height = VIDEO_SIZE[scale]
    chance = Chance("video")
    margin = 64
    background = _texture(chance, width + margin, height + margin)
    patches = [
        (
            _texture(chance, 48, 40),
            chance.between(-3, 3),
            chance.between(-3, 3),
            chance.below(width),
        )
        for _ in range(6)
    ]
    frames = bytearray()
    for frame in range(VIDEO_FRAMES[scale]):
        luma = [
            bytearray(row[frame % margin : frame % margin + width])
            for row in background[frame // 2 % margin :][:height]
        ]
        for patch, right, down, start in patches:
            left = (start + right * frame) % (width - 48)
            top = (start + down * frame) % (height - 40)
            for row, pixels in enumerate(patch):
                luma[top + row][left : left + 48] = pixels
        for _ in range(width * height // 16):
            line = luma[chance.below(height)]
            place = chance.below(width)
            line[place] = min(255, line[place] + 6)
        frames += b"".join(luma)
        for shift in (40, 80):
            for row in range(0, height, 2):
                frames += bytes((value + shift) // 2 for value in luma[row][::2])
    return bytes(frames)


def _texture(chance: Chance, width: int, height: int) -> list[bytes]:
    """Rows of soft patterns: random values every eight pixels, joined by straight lines."""
    step = 8
    columns, rows = width // step + 2, height // step + 2
    grid = [[chance.between(16, 235) for _ in range(columns)] for _ in range(rows)]

    def value(x: int, y: int) -> int:
        left, top, right, down = x // step, y // step, x % step, y % step
        upper = grid[top][left] * (step - right) + grid[top][left + 1] * right
        lower = grid[top + 1][left] * (step - right) + grid[top + 1][left + 1] * right
        return (upper * (step - down) + lower * down) // (step * step)

    return [bytes(value(x, y) for x in range(width)) for y in range(height)]


SAMPLES_PER_SECOND = 16_000
# Sounds of a made-up voice: three formants in hertz, and whether the vocal cords swing.
SOUNDS = (
    (730, 1090, 2440, True),
    (270, 2290, 3010, True),
    (300, 870, 2240, True),
    (530, 1840, 2480, True),
    (570, 840, 2410, True),
    (490, 1350, 1690, True),
    (250, 1200, 2100, True),
    (1800, 2700, 4200, False),
    (2500, 4500, 5600, False),
)


def speech(scale: int) -> bytes:
    """A made-up voice at 16 kHz, 16 bits: pulses or noise through three resonators, and pauses."""
    milliseconds = (24_000, 1_200, 200)[scale]
    chance = Chance("speech")
    samples: list[int] = []
    phase = 0
    state = [[0, 0] for _ in range(3)]
    while len(samples) * 1000 < milliseconds * SAMPLES_PER_SECOND:
        *formants, voiced = chance.choice(SOUNDS)
        loud = chance.choice((0, 500, 700, 900))
        pitch = chance.between(110, 150)
        for _ in range(chance.between(60, 160) * SAMPLES_PER_SECOND // 1000):
            phase += pitch
            value = chance.between(-20, 20) if voiced else chance.between(-loud - 1, loud + 1)
            if phase >= SAMPLES_PER_SECOND:
                phase -= SAMPLES_PER_SECOND
                value += 8 * loud if voiced else 0
            samples.append(_resonated(value, formants, state))
    return struct.pack(f"<{len(samples)}h", *samples)


def _resonated(value: int, formants: Sequence[int], state: list[list[int]]) -> int:
    """One sample through two-pole resonators in a row, in fixed point with 14 bits.

    A pole at angle w and radius r needs 2 r cos w; the cosine is a polynomial in whole numbers.
    """
    for formant, past in zip(formants, state, strict=True):
        # w / (pi / 2) in 14 bits, reflected into the first quadrant.
        angle = formant * 4 * 16_384 // SAMPLES_PER_SECOND
        sign, angle = (1, angle) if angle <= 16_384 else (-1, 32_768 - angle)
        square = angle * angle >> 14
        cosine = sign * (16_384 - (square * (20_213 - (square * 4_156 >> 14)) >> 14))
        radius = 15_900
        pole = cosine * radius >> 13
        value += (pole * past[0] - (radius * radius >> 14) * past[1]) >> 14
        value = max(-200_000, min(200_000, value))
        past[1], past[0] = past[0], value
        value >>= 2
    return max(-32_768, min(32_767, value))


PHONES_OPEN = ("AA", "AE", "AH", "AO", "EH", "ER", "EY", "IH", "IY", "OW", "UH", "UW")
PHONES_CLOSED = ("B", "D", "F", "G", "K", "L", "M", "N", "P", "R", "S", "SH", "T", "V", "W", "Z")


def _pronunciations(scale: int) -> list[tuple[str, str]]:
    """Made-up words of one to three syllables, and how they are said."""
    chance = Chance("pronunciations")
    words = []
    for number in range((600, 60, 6)[scale]):
        phones = " ".join(
            f"{chance.choice(PHONES_CLOSED)} {chance.choice(PHONES_OPEN)}"
            for _ in range(chance.between(1, 3))
        )
        words.append((f"word{number}", phones))
    return words


def speech_dictionary(scale: int) -> bytes:
    """How each word is said."""
    return "".join(f"{word} {phones}\n" for word, phones in _pronunciations(scale)).encode()


def speech_grammar(scale: int) -> bytes:
    """A grammar in which any word follows any other."""
    words = " | ".join(word for word, _ in _pronunciations(scale))
    return f"#JSGF V1.0;\ngrammar speech;\npublic <sentence> = ( {words} )+;\n".encode()


def speech_list(_scale: int) -> bytes:
    """The list of recordings that the recogniser works through."""
    return b"speech\n"
