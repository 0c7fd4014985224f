"""The loop between an agent and a vector environment of Gymnasium: one open episode for each sub-environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import vector as vector_wrappers

from matrixrl.agents import certification
from matrixrl.checks import fail, flag, shown
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.history import Episode
from matrixrl.play.rollout import check_first_state, kept, refuse_truncation
from matrixrl.problems import FiniteMDP, Problem, Task, read_problem
from matrixrl.problems.fingerprint import differing_fields, fingerprint
from matrixrl.problems.gym_tables import current_mask
from matrixrl.problems.reader import options_like
from matrixrl.random_streams import numbered_seed
from matrixrl.records import BoolArray
from matrixrl.spaces import Codec, DiscreteCodec, codec_of, control_codec

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
    on_episode: Callable[[Episode], bool],
    *,
    certify: bool = False,
) -> None:
    """Begin so many episodes and finish all that were begun, so that none is left out for how long it took.

    An interrupt or an error leaves the agent with what it learned from until then. `on_episode` is called with each
    episode that was learned from, and says whether to begin more.
    """
    try:
        _play(agent, env, n_episodes, on_episode, certify)
    except BaseException as error:
        agent._queue.drop(error, None)
        raise


def _play(
    agent: Agent, env: VectorEnv[Any, Any, Any], left: int, on_episode: Callable[[Episode], bool], certify: bool
) -> None:
    problem, horizon, mode = agent.problem, agent.problem.task.horizon, _autoreset_mode(env)
    masks, space = agent.algorithm.masks, env.single_action_space
    slots: list[OpenEpisode | None] = [None] * env.num_envs  # the episode of each sub-environment
    resets_next: BoolArray = np.zeros(env.num_envs, dtype=np.bool_)  # its next step only resets it
    unlearned: list[OpenEpisode] = []
    obs, infos = _per_env(problem, env, *env.reset(seed=numbered_seed(agent.seed, "env", agent._queue.n_begun)))
    while left or any(slot is not None for slot in slots):
        for i in range(env.num_envs):
            if left and slots[i] is None and not resets_next[i]:
                slots[i] = episode = _begin(agent, obs[i], certify)
                unlearned.append(episode)
                left -= 1
        actions = [_action(agent, *one) for one in zip(slots, obs, infos, strict=True)]
        batch: Any = create_empty_array(space, len(actions))
        taken = concatenate(space, [problem.to_env(action) for action in actions], batch)
        answer, rewards, terminations, truncations, shared = env.step(taken)
        before, (obs, infos) = obs, _per_env(problem, env, answer, shared)
        done: BoolArray = np.asarray(terminations, dtype=np.bool_) | np.asarray(truncations, dtype=np.bool_)
        done &= ~resets_next  # such a step belongs to no episode
        resets_next = done & (mode == _NEXT)
        to_reset = done & (mode == _DISABLED)
        finished = []
        for i, slot in enumerate(slots):
            if slot is None:
                continue
            is_reset = done[i] and mode == _SAME  # observation and mask are those of the next episode
            following = problem.from_env(_final_observation(shared, i)) if is_reset else obs[i]
            ended = flag("terminated", terminations[i], remedy="env.step returns it.")
            slot.observe(before[i], actions[i], float(rewards[i]), following, ended)
            if slot.is_finished:
                if not ended and not is_reset:
                    masks.note_last(slot.data.next_states[-1], infos[i])
                finished.append(slot)
                slots[i] = None
                to_reset[i] |= not done[i]  # the horizon is shorter than the episodes of the environment
            elif done[i]:
                refuse_truncation(slot.stage, horizon)
        if to_reset.any():
            if mode != _DISABLED and not isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
                raise ProtocolError(
                    f"an episode of the vector environment goes on after the horizon of {problem.task.horizon} steps, "
                    "and only those of SyncVectorEnv and AsyncVectorEnv can be reset alone; give it a time limit"
                )
            obs, fresh = _per_env(problem, env, *env.reset(options={"reset_mask": to_reset}))
            infos = [new if reset else old for new, old, reset in zip(fresh, infos, to_reset, strict=True)]
        for episode in finished:
            episode.end()
        learned = sorted((e.record for e in unlearned if e.record is not None), key=lambda record: record.index)
        unlearned = [episode for episode in unlearned if episode.record is None]
        for record in learned:  # every one is shown
            left = left if on_episode(record) else 0


def _begin(agent: Agent, obs: Any, certify: bool) -> OpenEpisode:
    """Begin an episode at the observation of a sub-environment."""
    check_first_state(agent.problem, agent.problem.state("obs", obs))  # before it is begun
    episode = agent.begin_episode()
    if certify:
        named = obs if agent._engine.certifies_first_state else None
        episode._certificate = certification.certificate_of(agent, episode.data.plan, named)
    return episode


def _action(agent: Agent, episode: OpenEpisode | None, obs: Any, info: dict[str, Any]) -> Any:
    """Return the action of a sub-environment: without an episode it takes steps all the same, by allowed actions."""
    masks = agent.algorithm.masks
    if episode is not None:
        state = episode._state(obs)
        return agent.problem.env_action(episode._answer(state, masks.among(state, episode.stage, info)))
    known = info.get("action_mask")
    if known is None:
        known = masks.at(agent.problem.state("obs", obs), 0)
    return agent.problem.env_action(0 if known is None else int(np.argmax(known)))


def _per_env(
    problem: Problem, env: VectorEnv[Any, Any, Any], obs: Any, infos: Any
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return observation and mask of each sub-environment; vector environments may reuse their arrays."""
    own = [problem.from_env(kept(one)) for one in iterate(env.observation_space, obs)]
    return own, [_mask_info(infos, i) for i in range(env.num_envs)]


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
    wanted, mine = problem.env_codecs or (problem.states, problem.actions)
    if _codec_or_none("action", actions, is_control=problem.kind == "continuous") != mine:
        fail("env", f"must have the actions of the agent's problem, {mine}", actions, "Make it with them.")
    own = None if problem.env is None else problem.env.observation_space
    if own is not None and own != states:
        fail("env", f"must have the observations of the agent's problem, {own}", states, "Make it with them.")
    if own is None and problem.kind == "finite":
        found = _codec_or_none("observation", states)
        if isinstance(wanted, DiscreteCodec) and isinstance(found, DiscreteCodec):  # some numbers may never be observed
            is_part = wanted.first <= found.first and found.first + found.count <= wanted.first + wanted.count
            found = wanted if is_part else None
        if found != wanted:
            rule = f"must have observations of the agent's problem, {wanted}"
            fail("env", rule, states, "Make it with them.")


def _codec_or_none(part: str, space: gym.Space[Any], *, is_control: bool = False) -> Codec | None:
    """Return the codec of a space as a problem reads it; None if it has none."""
    try:
        return control_codec(space) if is_control else codec_of(part, space)
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
    expected = fingerprint(mdp)
    for i, one in enumerate(_sub_environments(layer)):
        found = _table_of(problem, one)
        differing = ["transition table"] if found is None else differing_fields(expected, fingerprint(found))
        if found is not mdp and differing:
            received = f"sub-environment {i} with another {', '.join(differing)}"
            fail("env", "must be made of the agent's problem", received, "Make them with the same settings.")


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
    task, masks = problem.task, problem.ignores_masks
    options: dict[str, Any] = {"horizon": task.horizon, "reward_range": task.reward_range, "measure_regret": True}
    if isinstance(task, Task):
        options = options_like(task, env, ignores_masks=masks, n_observed=problem.n_observed)
    return read_problem(env, **options).mdp
