"""Videos of episodes, made with the recorder of Gymnasium."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.envs import make
from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.extras import require_packages
from matrixrl.play.rollout import Trajectory, first_observation, play_in_env
from matrixrl.problems import MDPEnv
from matrixrl.problems.gym_tables import current_mask
from matrixrl.random_streams import stream_seed

__all__ = ["Recorder", "Recording", "make_rendered"]

_HEADER, _GAP = 36, 8  # pixels of a title, and between two videos


def make_rendered(env: str, env_settings: dict[str, Any], *, trust_code: bool = False) -> gym.Env[Any, Any]:
    """Return an environment that renders images.

    Raises:
        InvalidInput: The environment cannot be rendered as images.
    """
    options = {**env_settings, "render_mode": "rgb_array"}
    try:
        made = make(env, trust_code=trust_code, **options)
        if isinstance(made, MDPEnv) and env.startswith("gym:"):  # a table cannot be rendered: use the original
            horizon = options.pop("horizon", None)
            for name in ("reward_range", "allowed", "stage_dependent", "discount", "accuracy"):
                options.pop(name, None)
            made = gym.make(env.removeprefix("gym:"), max_episode_steps=horizon, **options)
    except (InvalidInput, gym.error.Error) as error:
        raise InvalidInput(_cannot_render(env)) from error
    if made.render_mode != "rgb_array":
        made.close()
        raise InvalidInput(_cannot_render(env))
    return made


def _cannot_render(env: str) -> str:
    return f"--record must be left out for {env}, which cannot be rendered as images; got a directory. Leave it out."


@dataclass(frozen=True)
class Recording:
    """An episode as a video.

    Attributes:
        path: The file.
        episode_return: Sum of the rewards of the environment that was filmed.
        length: Number of steps.
        width: Width of the images in pixels.
    """

    path: Path
    episode_return: float
    length: int
    width: int


class Recorder:
    """Writes videos of episodes in one environment.

    Args:
        env: Name of the environment.
        env_settings: Settings of the environment.
        folder: Directory of the videos, which is made with the first one.
        trust_code: Whether names may import code.

    Raises:
        MissingExtra: A package that writes videos is not installed.
        InvalidInput: The environment cannot be rendered as images.
    """

    def __init__(self, env: str, env_settings: dict[str, Any], folder: Path, *, trust_code: bool = False) -> None:
        require_packages(("imageio_ffmpeg", "moviepy", "PIL", "pygame"), extra="video", purpose="a video")
        self._given, self._trust_code, self._folder = (env, env_settings), trust_code, folder
        self._name = env.removeprefix("gym:").replace("/", "-").replace(":", "-")
        self._make().close()  # complain now, before anything is played

    def _make(self) -> gym.Env[Any, Any]:
        return make_rendered(*self._given, trust_code=self._trust_code)

    def record(self, algorithm: Algorithm) -> Recording:
        """Play one episode with the current policy of the first replica, without exploration: NAME-after.mp4.

        It begins where the first episode of the replica began.

        Args:
            algorithm: Algorithm whose policy is played; it learns nothing from the episode.
        """
        return self._film(algorithm, algorithm.advice(), "after", explore=False)

    def record_both(self, fresh: Algorithm, learned: Algorithm) -> tuple[Recording, Recording, Path]:
        """Record the first episode, one more after the last, and both side by side: NAME-before-and-after.mp4.

        Args:
            fresh: Algorithm with one replica that has played nothing, whose first episode is that of a run with the
                same seed; it must not be used afterwards.
            learned: The algorithm after the run.
        """
        before, after = self._film(fresh, fresh.plan(), "before", explore=True), self.record(learned)
        played = learned.episode
        titles = (
            f"first episode: return {before.episode_return:.4g}",
            f"after {played} episode{'s' * (played > 1)}: return {after.episode_return:.4g}",
        )
        path = self._folder / f"{self._name}-before-and-after.mp4"
        return before, after, _write_side_by_side(before, after, path, titles)

    def _film(self, algorithm: Algorithm, plan: Any, name: str, *, explore: bool) -> Recording:
        """Play one episode in a rendered environment, and write its images."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as scratch:
            inside = Path(scratch) / "video"  # Gymnasium warns about a directory that exists
            film = gym.wrappers.RecordVideo(
                self._make(), str(inside), episode_trigger=lambda _: True, name_prefix=name, disable_logger=True
            )
            try:
                obs, info = first_observation(film, stream_seed(algorithm.seeds[0], "env"))
                played = Trajectory(algorithm, plan)
                play_in_env(algorithm, played, film, obs, info, current_mask(film), explore=explore)
                width = np.shape(film.recorded_frames[0])[1]
            finally:
                film.close()  # type: ignore[no-untyped-call]
            path = self._folder / f"{self._name}-{name}.mp4"
            (inside / f"{name}-episode-0.mp4").replace(path)
        return Recording(path, float(sum(played.rewards)), len(played.actions), width)


def _write_side_by_side(before: Recording, after: Recording, path: Path, titles: tuple[str, str]) -> Path:
    """Write two videos of one environment as one, next to each other; the shorter one waits at its last image."""
    from imageio_ffmpeg import get_ffmpeg_exe

    graph = (  # a stack repeats the last image of an input that is over
        f"[0:v]pad=iw+{_GAP}:ih:0:0:white[left];[left][1:v]hstack,"
        f"pad=iw:ih+{_HEADER}:0:{_HEADER}:white[both];[both][2:v]overlay=0:0"
    )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as scratch:
        head, made = Path(scratch) / "head.png", Path(scratch) / path.name
        _write_titles(titles, (before.width, after.width), head)
        inputs = [word for one in (before.path, after.path, head) for word in ("-i", str(one))]
        look = ["-filter_complex", graph, "-pix_fmt", "yuv420p", "-crf", "20"]
        command = [get_ffmpeg_exe(), *inputs, *look, str(made)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MatrixRLError(f"ffmpeg cannot write {path}: {done.stderr.strip().splitlines()[-1:]}")
        made.replace(path)
    return path


def _write_titles(titles: tuple[str, str], widths: tuple[int, int], path: Path) -> None:
    """Write an image with a title above each of two videos."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (sum(widths) + _GAP, _HEADER), "white")
    drawing = ImageDraw.Draw(image)
    for title, width, middle in zip(titles, widths, (widths[0] / 2, widths[0] + _GAP + widths[1] / 2), strict=True):
        size = 0.55 * _HEADER
        while size > 6 and drawing.textlength(title, ImageFont.load_default(size)) > width - 8:
            size -= 1
        drawing.text((middle, _HEADER / 2), title, "black", ImageFont.load_default(size), anchor="mm")
    image.save(path)
