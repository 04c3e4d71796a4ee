from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from rlcb.config.tree import EnvSettings
from rlcb.envs.levels import Levels
from rlcb.envs.procgen import ProcgenVectorEnv
from rlcb.errors import UserError
from rlcb.video.film import choose_levels, on_levels
from rlcb.video.grid import SIZE, Tile, draw_grid, n_columns, shrink
from rlcb.video.show import Show
from rlcb.video.window import Window
from rlcb.video.writers import VideoFile

Run = Callable[..., subprocess.CompletedProcess[str]]
Picture = NDArray[np.uint8]


class Audience:
    """A screen that remembers."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []

    def show(self, picture: Picture) -> None:
        self.pictures.append(picture)


def frames_of(path: Path) -> list[Picture]:
    with av.open(str(path)) as video:
        return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in video.decode(video=0)]


def stripes(number: int, height: int = 256, width: int = 512) -> Picture:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[:, number * 32 : number * 32 + 32] = 255
    return picture


@pytest.mark.parametrize(("tiles", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 3), (7, 3), (8, 4), (9, 3)])
def test_a_grid_is_nearly_square_and_full_where_it_can_be(tiles: int, columns: int) -> None:
    assert n_columns(tiles) == columns


def test_tiles_lie_row_by_row_and_ended_ones_are_darker() -> None:
    tiles = [Tile(Image.new("RGB", (SIZE, SIZE), (40 * i, 0, 0)), level=i, known=True) for i in range(1, 4)]
    tiles[1].done = True
    grid = draw_grid(tiles)
    assert grid.shape == (SIZE, 3 * SIZE, 3)
    corners = grid[SIZE - 5, [5, SIZE + 5, 2 * SIZE + 5], 0]
    assert corners.tolist() == [40, 40, 120]
    assert grid[:20, :SIZE].max() == 255  # the caption is white
    tiles[0].reward = 7.5
    changed = np.argwhere((draw_grid(tiles) != grid).any(axis=2))
    assert len(changed) > 0
    assert changed[:, 0].max() < 25  # the reward is in the caption,
    assert changed[:, 1].max() < SIZE  # of its own tile


def test_an_mp4_is_what_browsers_play(tmp_path: Path) -> None:
    path = tmp_path / "new" / "video.mp4"
    with VideoFile(path, 15) as video:
        for number in range(12):
            video.show(stripes(number))
            assert not path.exists()  # it has its name when it is whole
    assert [file.name for file in path.parent.iterdir()] == ["video.mp4"]
    content = path.read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert stream.average_rate == 15
    frames = frames_of(path)
    assert len(frames) == 12
    for number, frame in enumerate(frames):
        assert np.abs(frame.astype(int) - stripes(number)).mean() < 10


def test_a_gif_moves(tmp_path: Path) -> None:
    with VideoFile(tmp_path / "video.gif", 20) as video:
        for number in range(5):
            video.show(stripes(number))
    with Image.open(tmp_path / "video.gif") as gif:
        assert (gif.format, gif.size, gif.info["duration"], gif.info["loop"]) == ("GIF", (512, 256), 50, 0)
        for number in range(5):
            gif.seek(number)
            assert np.array_equal(np.asarray(gif.convert("RGB")), stripes(number))
        with pytest.raises(EOFError):
            gif.seek(5)


@pytest.mark.parametrize("name", ["video.mp4", "video.gif"])
def test_a_video_that_is_not_finished_leaves_the_old_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("old")

    def interrupted() -> None:
        with VideoFile(tmp_path / name, 15) as video:
            video.show(stripes(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_levels_without_a_list() -> None:
    usual = EnvSettings(start_level=10, num_levels=50)
    assert choose_levels(usual, None, 8) == [10, 11, 12, 13, 60, 61, 62, 63]
    assert choose_levels(usual, None, 3) == [10, 11, 60]
    assert choose_levels(usual, "train", 3) == [10, 11, 12]
    assert choose_levels(usual, "test", 2) == [60, 61]
    assert choose_levels(EnvSettings(num_levels=2), None, 8) == [0, 1, 2, 3, 4, 5]
    everything = EnvSettings(num_levels=0)
    assert choose_levels(everything, None, 4) == [0, 1, 2, 3]
    with pytest.raises(UserError, match="none is unseen"):
        choose_levels(everything, "test", 4)


def test_levels_side_by_side_are_those_levels_alone() -> None:
    """Every picture and reward of the first episode, and the number of the level."""
    levels = [3, 250, 3, 0]
    actions = np.random.default_rng(0).integers(0, 15, (400, len(levels)))
    with closing(on_levels(EnvSettings(name="bigfish"), levels, seed=5)) as together:
        assert [level for _, level in together.scenes()] == levels
        alone = [
            ProcgenVectorEnv("bigfish", 1, seed=5, num_levels=1, start_level=n, render_mode="rgb_array") for n in levels
        ]
        assert np.array_equal(together.render(), np.concatenate([env.render() for env in alone]))
        playing = np.ones(len(levels), np.bool_)
        for chosen in actions:
            obs, rewards, dones, _, _ = together.step(chosen)
            apart = [env.step(chosen[i : i + 1]) for i, env in enumerate(alone)]
            playing &= ~dones
            for i in np.flatnonzero(playing):
                assert np.array_equal(obs[i], apart[i][0][0])
                assert rewards[i] == apart[i][1][0]
            assert np.array_equal(dones[playing], np.zeros(playing.sum(), np.bool_))
        assert not playing.all()
        for env in alone:
            env.close()


def test_a_tile_keeps_the_last_picture_of_its_episode() -> None:
    audience = Audience()
    with closing(ProcgenVectorEnv("leaper", 2, seed=1, render_mode="rgb_array")) as envs:
        show = Show(envs, Levels("train", 0, 200), audience)
        up, playing = np.full(2, 5), np.ones(2, np.bool_)  # straight on, under the first car
        steps = 0
        while not show.tiles[0].done:
            before, level = envs.scenes()[0]
            show.step(up, playing)
            steps += 1
        tile = show.tiles[0]
        assert (tile.level, tile.known, tile.steps) == (level, True, steps)
        assert np.array_equal(np.asarray(tile.picture), np.asarray(shrink(before)))
        _, following = envs.scenes()[0]
        frozen = audience.pictures[-1][:, :SIZE]
        show.step(up, np.array([False, True]))
        assert np.array_equal(audience.pictures[-1][:, :SIZE], frozen)  # through: it stays
        show.step(up, playing)
        assert (show.tiles[0].level, show.tiles[0].steps, show.tiles[0].done) == (following, 1, False)
        assert len(audience.pictures) == 1 + steps + 2


def test_the_command_writes_and_says_where(rlcb: Run, checkpoint: Path) -> None:
    words = ["--levels", "0,7,500", "--max-steps", "40", "--fps", "30", "--seed", "3"]
    done = rlcb("video", checkpoint.name, *words)
    assert done.returncode == 0, done.stderr
    assert "Video: ppo_sequential_final.mp4" in done.stdout
    assert re.findall(r"Level (\d+) \((\w+)\): reward", done.stdout) == [
        ("0", "train"),
        ("7", "train"),
        ("500", "unseen"),
    ]
    frames = frames_of(checkpoint.with_suffix(".mp4"))
    assert len(frames) == 1 + 40 + 30  # the start, the steps, and a second at the end
    assert frames[0].shape == (SIZE, 3 * SIZE, 3)
    assert frames[0].std() > 10
    again = rlcb("video", ".", *words, "--output", "again.gif")
    assert re.findall("Level.*", again.stdout) == re.findall("Level.*", done.stdout)
    with Image.open(checkpoint.parent / "again.gif") as gif:
        assert gif.size == (3 * SIZE, SIZE)


def test_half_of_the_tiles_are_unseen_levels(rlcb: Run, checkpoint: Path) -> None:
    done = rlcb("video", checkpoint.name, "--max-steps", "2", "--deterministic", "--output", "deep/er/all.MP4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(train)") == done.stdout.count("(unseen)") == 4
    assert frames_of(checkpoint.parent / "deep/er/all.MP4")[0].shape == (2 * SIZE, 4 * SIZE, 3)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--output", "video.avi"], "--output video.avi: is neither"),
        (["--output", "blocked/video.mp4"], "blocked/video.mp4: cannot be written"),
        (["--output", "folder.mp4"], "folder.mp4: is a directory"),
        (["--levels", "0,one"], "--levels 0,one: not a list"),
        (["--levels", "2147483647"], "past Procgen's last level"),
        (["--levels", ",".join(["1"] * 65)], "list at most 64"),
        (["--levels", "1,2", "--tiles", "4"], "--tiles 4: --levels lists 2"),
        (["--tiles", "0"], "--tiles 0 is not a whole number from 1 to 64"),
        (["--fps", "fast"], "--fps fast"),
        (["--max-step", "5"], "did you mean --max-steps"),
    ],
)
def test_bad_input(rlcb: Run, checkpoint: Path, words: list[str], expected: str) -> None:
    (checkpoint.parent / "blocked").touch()
    (checkpoint.parent / "folder.mp4").mkdir()
    done = rlcb("video", checkpoint.name, *words)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(checkpoint.parent.glob(".*.tmp"))


def test_no_checkpoint(rlcb: Run, checkpoint: Path) -> None:
    for words, expected in (([], "CHECKPOINT"), (["final.pt"], "there are ppo_sequential_final.pt")):
        done = rlcb("video", *words)
        assert done.returncode == 2
        assert expected in done.stderr
        assert "Traceback" not in done.stderr


@pytest.fixture
def display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A display in memory, and the file in which its pixels are."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb here, so no display to show a window on (Debian and Ubuntu: apt install xvfb)")
    pytest.importorskip("tkinter", reason="this Python was built without tkinter, so it has no windows")
    read, write = os.pipe()
    words = [
        "Xvfb",
        "-displayfd",
        str(write),
        "-screen",
        "0",
        "640x640x24",
        "-nolisten",
        "tcp",
        "-fbdir",
        str(tmp_path),
    ]
    with subprocess.Popen(words, pass_fds=[write], stderr=subprocess.DEVNULL) as server:
        os.close(write)
        with open(read) as numbers:
            monkeypatch.setenv("DISPLAY", f":{numbers.readline().strip()}")
        yield tmp_path / "Xvfb_screen0"
        server.terminate()


def screenshot(file: Path) -> Picture:
    """Of a file in X's window dump format: a header of 25 numbers, its rest, a table of colours, then BGRX."""
    content = file.read_bytes()
    header = struct.unpack(">25I", content[:100])
    width, height, n_colours = header[4], header[5], header[19]
    begin = header[0] + 12 * n_colours
    pixels = np.frombuffer(content[begin : begin + 4 * width * height], np.uint8).reshape(height, width, 4)
    return pixels[..., 2::-1]


def test_a_window_shows_the_picture_until_it_is_closed(display: Path) -> None:
    window = Window.open("a test", fps=1000)
    assert window is not None
    with window:
        for number in range(3):
            window.show(stripes(number))
        assert np.array_equal(screenshot(display)[:256, :512], stripes(2))
        # As the cross in its corner does.
        window._root.tk.eval(window._root.protocol("WM_DELETE_WINDOW"))
        assert window.closed
        window.show(stripes(3))


def test_rendering_on_a_display_writes_no_video(display: Path, checkpoint: Path) -> None:
    """In a process of its own: when the display of a test goes, Tk ends the process that has used it."""
    words = ["evaluate", "--checkpoint", str(checkpoint), "--num-episodes", "2", "--env", "fruitbot", "--render"]
    done = subprocess.run([sys.executable, "-m", "rlcb", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Video:" not in done.stdout
    assert not list(checkpoint.parent.glob("*.mp4"))
    assert (checkpoint.parent / "evaluation.json").exists()


@pytest.mark.parametrize("name", ["", ":4095"])
def test_no_window_where_no_display_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", name)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert Window.open("a test", fps=30) is None
