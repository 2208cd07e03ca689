"""Records `outrider chat` through a tunnel, as tunnel.cast and tunnel.png: `python docs/recordings/tunnel.py`.

The shipped models, passes of at least 30 ms, and the link profile `tunnel`, which is gone from 40 s to 70 s.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
WIDTH, HEIGHT = 88, 26
FIRST = "Write a Python function that counts the even numbers in a list."
SECOND = "Write a Python function that finds the longest word in a list."
GONE_S, BACK_S = 40.0, 70.0
ASKED_S = GONE_S - 0.5
"""When the second question is sent: its answer has begun when the link goes."""
PICTURES = (
    ("before the tunnel: dim text is drafted", GONE_S + 0.02),
    ("in the tunnel: the draft model writes on alone", GONE_S + 10),
    ("after it: verified, corrected, confirmed", BACK_S + 8),
)
LETTER_S = 0.04
_WHERE = "\x1b[6n"
"""What a program writes that asks for the cursor's place."""

PAPER, INK, PALE, TITLE = (29, 30, 35), (240, 240, 240), (128, 134, 148), (255, 209, 102)
_DIM, _GREY = "\x1b[2m", "\x1b[90m"
"""pyte knows no dim letters, but grey ones."""


@contextmanager
def running(*command: str) -> Iterator[str]:
    """A command that says on stderr where it is ready, until then."""
    with subprocess.Popen([str(Path(sys.executable).parent / command[0]), *command[1:]], stderr=-1, text=True) as child:
        try:
            yield next(line.split("ready on ")[1].split()[0] for line in child.stderr if "ready on " in line)
        finally:
            child.terminate()
            child.communicate()


class Recording:
    """What a program writes to a terminal, with the seconds since the link began."""

    def __init__(self, terminal: int, began_s: float):
        self.events: list[tuple[float, str]] = []
        self._terminal, self._began_s = terminal, began_s

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def until(self, end_s: float) -> None:
        while (left_s := end_s - self.now_s) > 0:
            if select.select([self._terminal], [], [], left_s)[0]:
                self.events.append((round(self.now_s, 3), os.read(self._terminal, 65536).decode()))
                if _WHERE in self.events[-1][1]:
                    cursor = screen_at(self.events, self.now_s).cursor
                    os.write(self._terminal, f"\x1b[{cursor.y + 1};{cursor.x + 1}R".encode())

    def type(self, text: str) -> None:
        for letter in text + "\r":
            os.write(self._terminal, letter.encode())
            self.until(self.now_s + LETTER_S)


def record() -> list[tuple[float, str]]:
    serve = ("outriderd", "serve", "--target", "demo", "--listen", "127.0.0.1:0", "--pace-pass", "30")
    with running(*serve) as server, running("outrider-lab", "proxy", "tunnel", "--to", server) as link:
        began_s = time.monotonic()
        child, terminal = pty.fork()
        if not child:
            outrider = str(Path(sys.executable).parent / "outrider")
            os.execv(outrider, [outrider, "chat", "--server", link, "--no-via-serve"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        recording = Recording(terminal, began_s)
        recording.until(GONE_S / 2)
        recording.type(FIRST)
        recording.until(ASKED_S - LETTER_S * len(SECOND))
        recording.type(SECOND)
        recording.until(BACK_S + 2)
        recording.type("/online")
        recording.until(PICTURES[-1][1])
        os.write(terminal, b"/quit\r")
        os.waitpid(child, 0)
        return recording.events


def screen_at(events: list[tuple[float, str]], at_s: float) -> pyte.Screen:
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.Stream(screen)
    for seen_s, text in events:
        if seen_s <= at_s:
            stream.feed(text.replace(_DIM, _GREY))
    return screen


def draw(events: list[tuple[float, str]]) -> Image.Image:
    font, bold = (
        ImageFont.truetype(
            font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans Mono", weight=weight)), 15
        )
        for weight in ("normal", "bold")
    )
    across, down, edge = 9, 19, 12
    screens = [(title, screen_at(events, at_s)) for title, at_s in PICTURES]
    shown = [(title, screen, screen.cursor.y + 1) for title, screen in screens]
    size = (2 * edge + across * WIDTH, sum(down * (lines + 2) for _, _, lines in shown) + edge)
    image = Image.new("RGB", size, PAPER)
    pen, top = ImageDraw.Draw(image), edge // 2
    for title, screen, lines in shown:
        pen.text((edge, top), title, TITLE, bold)
        top += down + down // 2
        for row in range(lines):
            for column in range(WIDTH):
                letter = screen.buffer[row][column]
                pen.text((edge + across * column, top), letter.data, PALE if letter.fg == "brightblack" else INK, font)
            top += down
        top += down // 2
    return image


if __name__ == "__main__":
    seen = record()
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "outrider chat through a tunnel"}
    lines = [json.dumps(header), *(json.dumps([at_s, "o", text]) for at_s, text in seen)]
    (HERE / "tunnel.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(seen).save(HERE / "tunnel.png", optimize=True)
