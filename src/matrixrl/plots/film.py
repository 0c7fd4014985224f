"""An animated picture of learning: the confidence set shrinks, the certificate closes, regret flattens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from matrixrl.agents import Agent
from matrixrl.archive import atomic_write
from matrixrl.checks import fail, file_path, flag, integer, number, shown
from matrixrl.colours import COLOURS
from matrixrl.errors import ProtocolError
from matrixrl.plots.curves import draw_band
from matrixrl.plots.inputs import checked_agent, state_names
from matrixrl.plots.regions import Region, draw_region, region_of
from matrixrl.plots.style import add_grid, require_matplotlib, shown_episodes
from matrixrl.problems import solve
from matrixrl.progress import EpisodeProgress
from matrixrl.records import FloatArray

__all__ = ["film"]

_DPI = 80
_HOLD = 2.5  # seconds for which the last picture stays
_SIZE = (10.8, 3.7)
_COLOURS = 128  # of a film


class _Scene(NamedTuple):
    """What one picture shows: the state of the agent after some episodes."""

    n_episodes: int
    lower: float
    upper: float
    region: Region


def film(
    agent: Any,
    path: str | os.PathLike[str],
    *,
    n_episodes: int = 2000,
    state: Any = None,
    action: Any = None,
    n_frames: int = 60,
    fps: float = 8.0,
    progress: bool = False,
) -> Path:
    """Let an agent learn and write an animated GIF of it: confidence set, certificate and regret, side by side.

    Pictures are dense in the first episodes and rare later on, as knowledge grows. The agent has learned afterwards.

    Args:
        agent: A MatrixRL agent on numbered states in an environment with a known P.
        path: File to write, which ends in .gif; an existing one is replaced.
        n_episodes: Number of episodes to play.
        state: State of the pair whose confidence set is shown; by default the first pair with three next states.
        action: Action of the pair.
        n_frames: Largest number of pictures.
        fps: Pictures in a second.
        progress: Draw a live bar.

    Returns:
        The path of the file.

    Raises:
        InvalidInput: An argument is wrong, or no pair has three next states.
        MissingExtra: matplotlib is not installed.

    >>> import matrixrl, pathlib, tempfile
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "learning.gif"
    >>> film(agent, target, n_episodes=20, n_frames=3).name
    'learning.gif'
    """
    one, target = checked_agent(agent), Path(file_path("path", path))
    if target.suffix.lower() != ".gif":
        fail("path", "must end in .gif", shown(target.name), "Such as 'learning.gif'.")
    count = integer("n_episodes", n_episodes, low=1, remedy="Play at least one episode.")
    frames = integer("n_frames", n_frames, low=1, high=1000, remedy="Such as 60.")
    rate = number("fps", fps, low=0.1, high=50.0, remedy="Such as 8.")
    if one.problem.mdp is None or one.problem.regret_every == 0:
        fail("agent", "must play an MDP with a known P and measure regret", shown(agent), "Such as 'river-swim'.")
    if not one.algorithm.claims.certifies:
        raise ProtocolError(f"film shows certificates, and {one.name} has none; use MatrixRL")
    flag("progress", progress)
    require_matplotlib()
    pair = _pair(one, state, action)
    scenes = _play(one, pair, count, frames, progress)
    atomic_write(target, lambda whole: _write(whole, one, pair, scenes, rate))
    return target


def _pair(agent: Agent, state: Any, action: Any) -> tuple[Any, Any]:
    """Return the pair whose confidence set is shown."""
    if (state is None) != (action is None):
        fail("state", "must be given together with action", shown((state, action)), "Give both, or neither.")
    if state is not None:
        region_of(agent, state, action)  # refuse it now
        return state, action
    mdp, problem, task = agent.problem.mdp, agent.problem, agent.problem.finite_task
    assert mdp is not None
    for s in range(task.n_observed):
        for a in range(*task.choices[0]):
            law = mdp.transitions.rows(np.array([s]), np.array([a]))[0]
            if np.count_nonzero(law) == 3 and (task.allowed is None or task.allowed[s, a]):
                return problem.observation(s), problem.env_action(a)
    fail("agent", "must have a pair with three next states", shown(agent), "Give state and action of another one.")


def _play(agent: Agent, pair: tuple[Any, Any], n_episodes: int, n_frames: int, progress: bool) -> list[_Scene]:
    """Let the agent learn, and keep what the pictures show."""
    first = agent.n_episodes
    stops = np.unique(np.geomspace(1, n_episodes + 1, n_frames).round().astype(int)) - 1
    scenes = []
    with EpisodeProgress(agent.name, n_episodes, visible=progress) as bar:
        for stop in stops.tolist():
            left = first + stop - agent.n_episodes
            if left > 0:
                agent.learn(left)
                bar.advance(count=left)
            found = agent.certificate()
            scenes.append(_Scene(agent.n_episodes, found.lower, found.upper, region_of(agent, *pair)))
    return scenes


def _write(path: Path, agent: Agent, pair: tuple[Any, Any], scenes: list[_Scene], fps: float) -> None:
    """Draw what moves of each scene over a picture of what does not, and write the pictures as one file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, and optional
    from matplotlib.figure import Figure
    from PIL import Image

    assert agent.problem.mdp is not None
    optimum, regret = solve(agent.problem.mdp).start_value, agent.history.cumulative_regret
    names = [state_names(agent)[s] for s in scenes[0].region.next_states]
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.01, right=0.985, bottom=0.15, top=0.84, wspace=0.3)
    _prepare(panels, scenes, regret)
    canvas.draw()
    ground = canvas.copy_from_bbox(figure.bbox)
    title = figure.text(0.5, 0.93, "", ha="center", fontsize=12)
    pictures = []
    for i, scene in enumerate(scenes):
        draw_region(panels[0], scene.region, names)
        panels[0].set_title(f"possible laws of state {pair[0]}, action {pair[1]}", fontsize=10)
        _draw_certificate(panels[1], scenes[: i + 1], optimum)
        _draw_regret(panels[2], regret, scene.n_episodes, optimum)
        title.set_text(f"{agent.name}: {scene.n_episodes:,} episode{'s' * (scene.n_episodes != 1)}")
        canvas.restore_region(ground)
        figure.draw_artist(title)
        for axes in panels:
            moving = [*axes.lines, *axes.collections, *axes.patches, *axes.texts]
            for artist in sorted([*moving, axes.title], key=lambda one: one.get_zorder()):
                axes.draw_artist(artist)
            for artist in moving:
                artist.remove()
        picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        pictures.append(picture.convert("RGB"))
    both = Image.new("RGB", (pictures[0].width, 2 * pictures[0].height))  # one palette for all: files become small
    for i, picture in enumerate((pictures[0], pictures[-1])):
        both.paste(picture, (0, i * picture.height))
    palette = both.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE)
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    times = [round(1000.0 / fps)] * len(others) + [round(1000.0 * _HOLD)]
    first.save(path, format="GIF", save_all=True, append_images=others, duration=times, loop=0)


def _prepare(panels: Any, scenes: list[_Scene], regret: FloatArray) -> None:
    """Draw axes, labels and limits, which are the same in all pictures."""
    draw_region(panels[0], scenes[0].region, ["", "", ""])  # sets the limits
    for artist in [*panels[0].lines, *panels[0].patches, *panels[0].texts]:
        artist.remove()
    last = max(scenes[-1].n_episodes, 2)
    low, high = min(scene.lower for scene in scenes), max(scene.upper for scene in scenes)
    panels[1].set_xscale("log")
    panels[1].set_xlim(1, last)
    powers = [10**k for k in range(len(str(last)))]
    panels[1].set_xticks(powers, [f"{power:,}" for power in powers])
    panels[1].set_xticks([], minor=True)
    panels[1].set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    panels[1].set_ylabel("value", fontsize=9)
    panels[2].set_xlim(0, len(regret))
    panels[2].set_ylim(0.0, 1.15 * max(float(regret[-1]), 1e-9))
    panels[2].set_ylabel("cumulative regret", fontsize=9)
    for axes in panels[1:]:
        axes.set_xlabel("episode N", fontsize=9)
        axes.tick_params(labelsize=8)
        add_grid(axes)


def _draw_certificate(axes: Any, scenes: list[_Scene], optimum: float) -> None:
    episodes = np.array([max(scene.n_episodes, 1) for scene in scenes])
    lower, upper = (np.array([[getattr(scene, side) for scene in scenes]]) for side in ("lower", "upper"))
    draw_band(axes, episodes, lower, upper, COLOURS[0])
    axes.axhline(optimum, color="black", linewidth=0.9, linestyle=":")
    axes.set_title(f"certified: {lower[0, -1]:.2f} to {upper[0, -1]:.2f} (V* = {optimum:.2f})", fontsize=10)


def _draw_regret(axes: Any, regret: FloatArray, n_episodes: int, optimum: float) -> None:
    now = 0.0
    if n_episodes:
        episodes = shown_episodes(n_episodes)
        axes.plot(np.r_[0, episodes], np.r_[0.0, regret[episodes - 1]], color=COLOURS[1], linewidth=2.0)
        now = float(regret[n_episodes - 1])
    axes.plot([n_episodes], [now], color=COLOURS[1], marker="o", markersize=5)
    axes.set_title(f"regret: {now:,.0f} (earning nothing: {n_episodes * optimum:,.0f})", fontsize=10)
