"""The loop between an agent and a vector environment of Gymnasium: one open episode for each sub-environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import vector as vector_wrappers

from matrixrl.agents.heeding import MaskReader
from matrixrl.agents.playing import Audience, kept, refuse_truncation
from matrixrl.checks import fail, flag, shown
from matrixrl.coding import Codec, DiscreteCodec
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.problems import FiniteMDP, Problem, Task, from_gymnasium, read_problem
from matrixrl.problems.continuous import control_codec
from matrixrl.problems.declared_masks import restricted
from matrixrl.problems.fingerprint import differences, fingerprint_parts
from matrixrl.problems.gym_tables import declares_start, known_mdp
from matrixrl.problems.spaces import codec_of
from matrixrl.problems.wrappers import current_mask
from matrixrl.progress import EpisodeProgress
from matrixrl.records import BoolArray, Episode
from matrixrl.seeding import numbered_seed
from matrixrl.threads import limited_threads

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.agents.episodes import OpenEpisode

__all__ = ["check_vector_env", "play_vector"]

_NEXT, _SAME, _DISABLED = "NextStep", "SameStep", "Disabled"  # values of gymnasium.vector.AutoresetMode
_HARMLESS = (vector_wrappers.RecordEpisodeStatistics, vector_wrappers.HumanRendering, vector_wrappers.RecordVideo)


def play_vector(
    agent: Agent,
    env: VectorEnv[Any, Any, Any],
    n_episodes: int,
    *,
    callback: Callable[[Episode], bool | None] | None = None,
    progress: bool = False,
    blas_threads: int | None = 1,
    certify: bool = False,
    until_gap: float | None = None,
) -> None:
    """Begin so many episodes and finish all that were begun, so that none is left out for how long it took.

    An interrupt or an error leaves the agent with what it learned from until then.
    """
    with limited_threads(blas_threads), EpisodeProgress(agent.algorithm.name, n_episodes, visible=progress) as bar:
        try:
            _VectorPlay(agent, env, Audience(agent, bar, callback, until_gap), certify).play(n_episodes)
        except BaseException as error:
            agent._drop_episodes(error)
            raise


class _VectorPlay:
    """Episodes in the sub-environments of a vector environment.

    Args:
        agent: The agent.
        env: The vector environment, checked.
        audience: Those who follow the episodes.
        certify: Whether every episode gets a certificate.
    """

    def __init__(self, agent: Agent, env: VectorEnv[Any, Any, Any], audience: Audience, certify: bool) -> None:
        self._agent, self._env, self._audience, self._certify = agent, env, audience, certify
        self._mode = _autoreset_mode(env)
        self._slots: list[OpenEpisode | None] = [None] * env.num_envs  # the episode of each sub-environment
        self._resets_next: BoolArray = np.zeros(env.num_envs, dtype=np.bool_)  # its next step only resets it
        self._unlearned: list[OpenEpisode] = []
        self._masks = MaskReader(agent.algorithm, None)

    def play(self, n_episodes: int) -> None:
        """Begin `n_episodes` episodes, or fewer if the audience stops, and finish them."""
        seed = numbered_seed(self._agent.seed, "env", self._agent._order.n_begun)
        self._take_observations(*self._env.reset(seed=seed))
        left = n_episodes
        while left or any(slot is not None for slot in self._slots):
            for i, slot in enumerate(self._slots):
                if left and slot is None and not self._resets_next[i]:
                    self._begin(i)
                    left -= 1
            if not self._step():
                left = 0

    def _begin(self, i: int) -> None:
        self._agent._first.check(self._agent.problem.state("obs", self._obs[i]))  # before the episode is begun
        episode = self._agent.begin_episode()
        if self._certify:
            self._agent._certify(episode, self._obs[i])
        self._slots[i] = episode
        self._unlearned.append(episode)

    def _take_observations(self, obs: Any, infos: Any) -> None:
        """Keep observation and mask of each sub-environment; vector environments may reuse their arrays."""
        self._obs = [kept(one) for one in iterate(self._env.observation_space, obs)]
        self._infos = [_mask_info(infos, i) for i in range(self._env.num_envs)]

    def _step(self) -> bool:
        """Take one step in every sub-environment, end finished episodes, and say whether to begin more."""
        before = self._obs
        actions = [
            self._idle_action(obs, info) if slot is None else slot.act_in_environment(obs, info, self._masks)
            for slot, obs, info in zip(self._slots, before, self._infos, strict=True)
        ]
        space = self._env.single_action_space
        empty: Any = create_empty_array(space, len(actions))
        batch = concatenate(space, actions, empty)
        obs, rewards, terminations, truncations, infos = self._env.step(batch)
        self._take_observations(obs, infos)
        done: BoolArray = np.asarray(terminations, dtype=np.bool_) | np.asarray(truncations, dtype=np.bool_)
        done &= ~self._resets_next  # such a step belongs to no episode
        self._resets_next = done.copy() if self._mode == _NEXT else np.zeros_like(done)
        to_reset = done.copy() if self._mode == _DISABLED else np.zeros_like(done)
        finished = []
        for i, episode in enumerate(self._slots):
            if episode is None:
                continue
            following = _final_observation(infos, i) if done[i] and self._mode == _SAME else self._obs[i]
            ended = flag("terminated", terminations[i], remedy="env.step returns it.")
            episode.observe(before[i], actions[i], float(rewards[i]), following, ended)
            if episode.is_finished:
                if not ended and not (done[i] and self._mode == _SAME):  # else the mask is that of the next episode
                    self._masks.note_last(episode._next_states[-1], self._infos[i])
                finished.append(episode)
                self._slots[i] = None
                to_reset[i] |= not done[i]  # the horizon is shorter than the episodes of the environment
            elif done[i]:
                refuse_truncation(episode.stage, self._agent.problem.task.horizon)
        self._reset(to_reset)
        return self._end(finished)

    def _idle_action(self, obs: Any, info: dict[str, Any]) -> Any:
        """Return an action that is allowed in a sub-environment without an episode, which takes steps all the same."""
        problem = self._agent.problem
        reported = info.get("action_mask")
        known = self._agent.algorithm.allowed_at(problem.state("obs", obs), 0) if reported is None else reported
        return problem.own_action(0 if known is None else int(np.argmax(known)))

    def _reset(self, chosen: BoolArray) -> None:
        """Reset some sub-environments."""
        if not chosen.any():
            return
        if self._mode != _DISABLED and not isinstance(self._env.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
            raise ProtocolError(
                f"an episode of the vector environment goes on after the horizon of {self._agent.problem.task.horizon} "
                "steps, and only those of SyncVectorEnv and AsyncVectorEnv can be reset alone; give it a time limit"
            )
        before = self._infos
        self._take_observations(*self._env.reset(options={"reset_mask": chosen}))
        self._infos = [new if reset else old for new, old, reset in zip(self._infos, before, chosen, strict=True)]

    def _end(self, finished: list[OpenEpisode]) -> bool:
        """End episodes and show those that were learned from; say whether to begin more."""
        for episode in finished:
            episode.end()
        if not finished:
            return True
        learned = sorted((e.record for e in self._unlearned if e.record is not None), key=lambda record: record.index)
        self._unlearned = [episode for episode in self._unlearned if episode.record is None]
        answers = [self._audience.goes_on(record) for record in learned]  # every one is shown
        return all(answers)


def _mask_info(infos: Any, i: int) -> dict[str, Any]:
    """Return the mask of actions that a sub-environment reported, as its own info has it."""
    masks = infos.get("action_mask") if isinstance(infos, dict) else None
    has_one = infos.get("_action_mask") if masks is not None else None
    return {"action_mask": np.array(masks[i])} if masks is not None and (has_one is None or has_one[i]) else {}


def _final_observation(infos: Any, i: int) -> Any:
    """Return the last observation of an episode whose sub-environment was reset in the same step."""
    found = infos.get("final_obs") if isinstance(infos, dict) else None
    if found is None or found[i] is None:
        raise ProtocolError(
            "the vector environment resets in the same step and did not return infos['final_obs'], the last "
            "observation of a finished episode; remove wrappers that change infos"
        )
    return found[i]


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """Return when sub-environments are reset after an episode, as the environment declares it."""
    mode = env.metadata.get("autoreset_mode")
    value = getattr(mode, "value", mode)
    if value not in (_NEXT, _SAME, _DISABLED):
        rule = "must declare metadata['autoreset_mode'], as vector environments of Gymnasium 1.1 do"
        fail("env", rule, shown(mode), "Set it to a gymnasium.vector.AutoresetMode.")
    return str(value)


def check_vector_env(agent: Agent, env: object) -> VectorEnv[Any, Any, Any]:
    """Return a vector environment whose sub-environments are the problem of an agent; refuse anything else."""
    if not isinstance(env, VectorEnv):
        what = "an ordinary environment" if isinstance(env, gym.Env) else shown(env)
        remedy = "Such as gymnasium.make_vec(…); an ordinary one is passed to the agent or to load."
        fail("env", "must be a vector environment of Gymnasium", what, remedy)
    problem, mode, inner = agent.problem, _autoreset_mode(env), env.unwrapped
    if isinstance(inner, AsyncVectorEnv) and mode == _NEXT and not inner.shared_memory:
        rule = "must have shared memory, without which its reset leaves an earlier end of an episode pending"
        fail("env", rule, "AsyncVectorEnv(shared_memory=False)", "Leave it out, or use autoreset_mode='SameStep'.")
    _check_spaces(problem, env)
    _check_masks(problem)
    if problem.mdp is not None:
        _check_tables(problem, problem.mdp, env)
    return env


def _check_masks(problem: Problem) -> None:
    """Refuse masks that only a method of the environment reports, which a vector environment does not pass on."""
    known = problem.ignores_masks or problem.mdp is not None or problem.allowed_by_action is not None
    if not known and problem.env is not None and current_mask(problem.env) is not None:
        rule = "must report masks with infos['action_mask'] to be played many at a time"
        fail("env", rule, "a method of the sub-environments", "Return them in info, or declare them: allowed=….")


def _check_spaces(problem: Problem, env: VectorEnv[Any, Any, Any]) -> None:
    """Refuse sub-environments with other states or actions than the problem has."""
    states, actions = env.single_observation_space, env.single_action_space
    if _actions_or_none(problem, actions) != problem.actions:
        fail("env", f"must have the actions of the agent's problem, {problem.actions}", actions, "Make it with them.")
    own = None if problem.env is None else problem.env.observation_space
    if own is not None and own != states:
        fail("env", f"must have the observations of the agent's problem, {own}", states, "Make it with them.")
    if own is None and problem.kind == "finite":
        wanted, found = problem.states, _codec_or_none("observation", states)
        if isinstance(wanted, DiscreteCodec) and isinstance(found, DiscreteCodec):  # some numbers may never be observed
            is_part = wanted.first <= found.first and found.first + found.count <= wanted.first + wanted.count
            found = wanted if is_part else None
        if found != wanted:
            rule = f"must have observations of the agent's problem, {wanted}"
            fail("env", rule, states, "Make it with them.")


def _actions_or_none(problem: Problem, space: gym.Space[Any]) -> Codec | None:
    """Return the codec of a space of actions as the problem reads it; None if it has none."""
    if problem.kind != "continuous":
        return _codec_or_none("action", space)
    try:
        return control_codec(space)
    except InvalidInput:
        return None


def _codec_or_none(part: str, space: gym.Space[Any]) -> Codec | None:
    """Return the codec of a finite space; None for another one."""
    try:
        return codec_of(part, space)
    except InvalidInput:
        return None


def _check_tables(problem: Problem, mdp: FiniteMDP, env: VectorEnv[Any, Any, Any]) -> None:
    """Refuse sub-environments that are not the known MDP of the problem, which regret is measured with."""
    layer, remedy = env, "Give the agent a Task in place of its environment."
    while isinstance(layer, VectorWrapper):
        if type(layer) not in _HARMLESS:
            rule = "must have no wrapper that may change the known transition table of the agent's problem"
            fail("env", rule, type(layer).__name__, remedy)
        layer = layer.env
    if not isinstance(layer, (SyncVectorEnv, AsyncVectorEnv)):
        rule = "must show its sub-environments, as the transition table of the agent's problem is known"
        fail("env", rule, type(layer).__name__, remedy)
    expected = fingerprint_parts(mdp)
    for i, one in enumerate(_sub_environments(layer)):
        found = _table_of(problem, one)
        words = "no transition table" if found is None else differences(expected, fingerprint_parts(found), own="agent")
        if found is not mdp and words:
            rule = "must be made of the agent's problem"
            fail("env", rule, f"sub-environment {i} with {words}", "Make its sub-environments with the same settings.")


def _sub_environments(env: SyncVectorEnv[Any, Any] | AsyncVectorEnv[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Yield the sub-environments; those of other processes are made once more to look at them."""
    if isinstance(env, SyncVectorEnv):
        yield from env.envs
        return
    for make in env.env_fns:
        made = make()
        try:
            yield made
        finally:
            made.close()


def _table_of(problem: Problem, env: gym.Env[Any, Any]) -> FiniteMDP | None:
    """Return the transition table of a sub-environment with the horizon and the range of rewards of the problem."""
    task, known, allowed = problem.task, known_mdp(env), problem.allowed_option
    if isinstance(task, Task) and known is not None:
        fits = task.stages is not None and (known.horizon, known.n_actions) == (task.horizon, task.n_own_actions)
        return restricted(known.staged(task.stages) if fits else known, allowed)
    if isinstance(task, Task):
        start = task.start[: problem.n_observed] if task.start_is_declared and not declares_start(env) else None
        return from_gymnasium(env, reward_range=task.reward_range, allowed=allowed, start=start, **task.timing)
    read = read_problem(env, horizon=task.horizon, reward_range=task.reward_range, measure_regret=True)
    return read.mdp
