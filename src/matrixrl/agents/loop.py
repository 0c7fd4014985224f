"""How an agent plays and learns by itself, in its own environment or in a vector environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from matrixrl.agents import ask_and_tell, certification
from matrixrl.checks import fail, fits_memory, flag, function, integer, number, shown
from matrixrl.errors import ProtocolError
from matrixrl.history import Episode, History
from matrixrl.records import IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.progress import EpisodeProgress

__all__ = ["learn"]

_NUMBERS_PER_EPISODE = 30  # of the history, in numbers of 8 bytes
_LOOK_GROWTH = 1.02  # of the number of episodes between two looks at the gap: it falls like 1/√n


def learn(
    self: Agent,
    n_episodes: int,
    *,
    env: Any = None,
    until_gap: float | None = None,
    explore_for: str | None = None,
    policy: Any = None,
    certify: bool = False,
    callback: Callable[[Episode], bool | None] | None = None,
    progress: bool = False,
    blas_threads: int | None = 1,
) -> History:
    """Play and learn `n_episodes` more episodes; `learn(a)` then `learn(b)` is `learn(a + b)`.

    Args:
        n_episodes: Largest number of episodes to play.
        env: Vector environment of Gymnasium whose sub-environments are the agent's problem: one episode is open in
            each of them, `n_episodes` are begun, and all of them are finished. Every call seeds it again, by the
            agent's seed and the number of episodes begun so far. By default the agent's own environment.
        until_gap: Stop once `recommend` has a policy that is certified to be within this of optimal. This is
            checked whenever the number of episodes grew by 2 %.
        explore_for: "regret" or "certificate" for these episodes, in place of the agent's setting: play to earn, or
            to certify a policy with few episodes.
        policy: Policy to play in these episodes in place of the agent's own, as in `Agent.compare`, but without
            probabilities: an incumbent, or what a person decides. The agent learns from them, and what they are
            expected to lose is added to the regret bound (`Agent.bound`). Their returns count for `certify` and
            `compare`.
        certify: Put a certificate into every `Episode` and the history.
        callback: Called with each finished `Episode`; returning False stops.
        progress: Show progress on standard error: a bar, or lines if it is not a terminal.
        blas_threads: Threads of the linear algebra; None leaves them unchanged.

    Returns:
        The history of all episodes of the agent.
    """
    if self.problem.env is None and env is None:
        raise ProtocolError(
            "learn needs an environment, and this agent has none: pass one to load, or play yourself, with "
            "episode = agent.begin_episode(), episode.act(obs) and episode.observe(…)"
        )
    if self._queue.n_open:
        raise ProtocolError("learn was called while an episode is open; end it first")
    count = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
    fits_memory("n_episodes", _NUMBERS_PER_EPISODE * count, f"{count:,} episodes", remedy="Play fewer at a time.")
    if callback is not None:
        function("callback", callback, of=1, remedy="Give a function of an Episode, or leave it out.")
    flag("certify", certify)
    flag("progress", progress)
    for name, given in (("certify", certify or None), ("until_gap", until_gap)):
        if given is not None and not self._algorithm.claims.certifies:
            rule = f"must be left out for {self._algorithm.name}, which has no certificates"
            fail(name, rule, given, "Use MatrixRL.")
    if until_gap is not None:
        number("until_gap", until_gap, low=0.0, remedy="Give a gap in the environment's unit.")
        certification.check_certifies(self, "until_gap")
    if policy is not None and env is not None:
        fail("policy", "must be left out with a vector environment", shown(policy), "Leave one of them out.")
    table = None if policy is None else ask_and_tell.given_table(self, "learn", policy)
    from matrixrl.agents.vector import check_vector_env, play_vector
    from matrixrl.threads import limited_threads

    vector, bar = None if env is None else check_vector_env(self, env), None
    if progress:
        from matrixrl.progress import EpisodeProgress  # which loads Rich

        bar = EpisodeProgress(self._algorithm.name, count)
    on_episode, before = _callbacks(self, bar, callback, until_gap), self._algorithm.certifier.purpose
    if explore_for is not None:
        self._algorithm.certifier.purpose = explore_for
    try:
        with limited_threads(blas_threads), bar or nullcontext():
            if vector is not None:
                play_vector(self, vector, count, on_episode, certify=certify)
            else:
                _play(self, count, on_episode, table, certify=certify)
    finally:
        if explore_for is not None:
            self._algorithm.certifier.purpose = before
    return self.history


def _callbacks(
    self: Agent, bar: EpisodeProgress | None, callback: Callable[[Episode], bool | None] | None, until_gap: float | None
) -> Callable[[Episode], bool]:
    """Return a function that shows a finished episode to all who follow `learn`, and says whether to go on."""
    next_look = self.n_episodes + 1

    def on_episode(episode: Episode) -> bool:
        nonlocal next_look
        if bar is not None:
            bar.advance(f"return {episode.episode_return:.3g}")
        if callback is not None and callback(episode) is False:
            return False
        if until_gap is None or self.n_episodes < next_look:
            return True
        _, found = certification.safest(self)
        next_look = max(self.n_episodes + 1, int(self.n_episodes * _LOOK_GROWTH))
        return not (found.guarantee and found.gap <= until_gap)

    return on_episode


def _play(
    self: Agent, n_episodes: int, on_episode: Callable[[Episode], bool], policy: IntArray | None, *, certify: bool
) -> None:
    """Play whole episodes; an interrupt or an error leaves the agent as after the last finished one."""
    engine, queue = self._engine, self._queue
    learn, certifier = partial(ask_and_tell.learn_steps, self), partial(certification.certificate_of, self)
    for _ in range(n_episodes):
        n = self.n_episodes
        try:
            record = engine.play(learn, certifier if certify else None, policy)
        except BaseException as error:
            if self.n_episodes == n:  # nothing was learned
                running = getattr(engine.world, "running", None)
                queue.drop(error, None if running is None else len(running.actions))
            raise
        finally:
            if self.n_episodes > n:
                queue.n_begun = max(queue.n_begun, n) + 1
        if not on_episode(record):
            return
