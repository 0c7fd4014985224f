"""The player of compiled episodes that plan on the path: one-hot pairs with likelihood sets, rewards known."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.path import PathMatrixRL
from matrixrl.core.confidence import TUNED_EXPLORATION
from matrixrl.core.greedy import lowest_first, tie_weights
from matrixrl.core.path import PathTable
from matrixrl.linalg import OutcomeCounts
from matrixrl.play.compiled.arrays import Data, KLBalls, Lists, Played
from matrixrl.play.player import CompiledPlayer, radius_tables
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray, IntArray

__all__ = ["PathPlayer"]

_LEAST_ROOM = 256  # states


def _loops(module: str) -> Any:
    return importlib.import_module(f"matrixrl.play.compiled.{module}")


class _Replica(NamedTuple):
    """The arrays of one replica, as the loops take them."""

    path: Any  # PathArrays
    data: Data
    law: Lists
    joint: Lists
    kl: KLBalls


class PathPlayer(CompiledPlayer):
    """Plays the replicas of an algorithm that plans on the path; it reads their arrays when it is asked for them."""

    _algorithm: PathMatrixRL
    _replicas: list[_Replica]

    @classmethod
    def of(cls, mdp: FiniteMDP, algorithm: PathMatrixRL, optimal_value: float | None, every: int) -> PathPlayer | None:
        """Return the player; None where P is not given as a table."""
        if mdp.transitions.most_successors() is None:
            return None
        return cls(mdp, algorithm, (optimal_value, every) if every and optimal_value is not None else None)

    def __init__(self, mdp: FiniteMDP, algorithm: PathMatrixRL, regret: tuple[float, int] | None) -> None:
        super().__init__(mdp, algorithm, regret)
        task = mdp.task
        unit = np.ascontiguousarray(algorithm._rewards_at(np.arange(mdp.n_states)).T)
        if algorithm.frame.allowed is not None:
            unit = np.where(algorithm.frame.allowed, unit, -np.inf)
        states = np.flatnonzero(task.start)
        self._start = _loops("path").PathStart(
            unit=unit.ravel(),
            ceilings=algorithm.tables[0].ceilings,
            best=algorithm.best.rewards,
            order=algorithm.best.order,
            states=states,
            weights=task.start[states],
            no_table=np.empty((3, 0)),
            alpha=float(algorithm.settings.optimism_budget),
            lefts=algorithm.frame.lefts(),
        )

    def prepare(self) -> None:
        """Load the loops, or compile them if they are not cached, by playing no episode at all."""
        n = self._algorithm.n_replicas
        ranks = np.zeros((n, 0, self._mdp.n_actions), dtype=np.int64)
        self._run(ranks, np.zeros((n, 0, self._mdp.draws_per_episode)), certifies=False)

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        algorithm, loops, task, found = self._algorithm, _loops("path"), self._mdp.task, []
        if self._revision != algorithm.revision:
            self._take_over()
        ties = tie_weights(lowest_first(self._mdp.n_actions, 1), task.horizon)[0]
        for one in self._replicas:
            bounds, pays = np.zeros(2), algorithm.pays(*one.path.accounts.tolist())
            names = ("values", "tops", "largest", "top_numbers", "lows")
            swept = one.path._replace(**{name: getattr(one.path, name).copy() for name in names})
            table = np.int64(loops.TUNED if pays else loops.VALUES)
            loops.certify_on_path(self._world, self._start, one.path, swept, one.law, one.kl, table, ties, bounds)
            found.append(bounds)
        lower, upper = np.array(found).T
        return task.to_own_unit(upper + task.tail), task.to_own_unit(lower)

    def _take_over(self) -> None:  # type: ignore[override]  # nothing depends on the number of episodes
        """Copy what the algorithm has learned into arrays that can grow."""
        self._replicas = [self._arrays_of(table) for table in self._algorithm.tables]
        self._revision = self._algorithm.revision

    def _plans_made(self, count: int) -> IntArray:
        return np.full(self._algorithm.n_replicas, count)

    def _run(self, ranks: IntArray, uniforms: FloatArray, *, certifies: bool, learns: bool = True) -> Played:
        del certifies, learns  # episodes are certified by NumPy
        task, algorithm, (n_replicas, count, n_actions) = self._mdp.task, self._algorithm, ranks.shape
        shape = (n_replicas, count)
        played = Played(
            states=np.zeros((*shape, task.horizon + 1), dtype=np.int64),
            actions=np.zeros((*shape, task.horizon), dtype=np.int64),
            regret=np.full(shape, np.nan),
            returns=np.zeros(shape),
            lengths=np.zeros(shape, dtype=np.int64),
            upper=np.zeros(shape),
            certified=np.full((*shape, 2), np.nan),
        )
        if self._revision != algorithm.revision:
            self._take_over()
        self._revision = -1  # of data that are being changed: after a failure they are taken over again
        ties = tie_weights(ranks / n_actions, task.horizon)
        play = _loops("path").play_on_path
        for b in range(n_replicas):
            done = -1
            while done < count:
                one = self._replicas[b]
                arrays = one.path, one.data, one.law, one.joint, one.kl
                options = (ties[b], uniforms[b], algorithm.episode, max(done, 0), b, played)
                done = play(self._world, self._start, *arrays, *options)
                if done < count:
                    self._replicas[b] = self._with_room(one)
        if count > 0:
            algorithm.take_later(lambda: [self._state_of(one) for one in self._replicas], count)
        self._revision = algorithm.revision
        return played

    def _arrays_of(self, table: PathTable) -> _Replica:
        """Return the arrays that hold what a table has learned."""
        state, frame = table.state_dict(), self._algorithm.frame
        n, n_actions, horizon = len(state["states"]), frame.n_actions, frame.horizon
        room, log_room = max(_LEAST_ROOM, 2 * (n + horizon + 1)), 0
        n_pairs = room * n_actions
        while (1 << log_room) < 2 * room:
            log_room += 1
        counts = OutcomeCounts(1, n_pairs, room)
        counts.take(state["pairs"] * room + state["next"], state["times"])
        lists, path = _loops("lists"), _loops("path")
        confidence = self._algorithm.confidence
        keys, numbers = np.full(1 << log_room, -1, dtype=np.int64), np.zeros(1 << log_room, dtype=np.int64)
        path.fill_index(state["states"], keys, numbers)
        has_budget = self._start.alpha > 0.0
        levels = [0, 2, 3] if has_budget else [0, 3]  # of the agent, of the tuned plan and of certificates
        ones, reward = np.ones((len(levels), 1, n_pairs)), np.zeros((1, 1, n_pairs))
        reward[0, 0, : n * n_actions] = self._start.unit.reshape(n_actions, -1)[:, state["states"]].T.ravel()
        data = Data(
            visits=counts.totals().astype(np.int64),
            learns_reward=False,
            reward_sums=np.zeros((1, 1)),
            paid=np.zeros((1, 1)),
            ranks=np.zeros((1, 1), dtype=np.int64),
            n_paid=np.zeros(1, dtype=np.int64),
            changed=np.zeros((1, n_pairs), dtype=np.int64),
            n_changed=np.zeros(1, dtype=np.int64),
            is_changed=np.zeros((1, n_pairs), dtype=np.bool_),
        )
        kl = KLBalls(
            levels=np.array(levels),
            scales=np.array([confidence.exploration**2, 0.0, TUNED_EXPLORATION**2, 1.0]),
            log_all=confidence.log_events(confidence.parts.all_functions),
            log_optimal=confidence.log_targets() if confidence.targeted else np.inf,
            log_rewards=np.inf,
            tuned=False,
            **radius_tables(self._mdp.n_states),
            upper=ones,
            lower=np.ones((1, n_pairs)),
            joint=np.ones((1, 1, 0)),
            top=ones.copy(),
            no_top=np.full((1, 0), np.inf),
            most=reward,
            least=np.zeros((1, 0)),
        )
        law, joint = lists.lists_of(counts, 1, None), lists.lists_of(None, 1, None)
        law = lists.make_room(law, horizon, has_extras=False)
        _loops("bounds").refresh_all(data, law, joint, None, kl, self._mdp.n_states)
        values, tuned = np.zeros((horizon + 1, room)), np.zeros((horizon + 1, room if has_budget else 0))
        values[:, :n], tuned[:, : state["tuned"].shape[1]] = state["values"], state["tuned"]
        arrays = path.PathArrays(
            keys=keys,
            numbers=numbers,
            states=np.append(state["states"], np.zeros(room - n, dtype=np.int64)),
            sizes=np.array([n, *state["learned"].tolist(), 0]),
            values=values,
            tuned=tuned,
            tops=np.stack([table.tops[0], table.tops[-1]]),
            largest=np.stack([one.max(axis=1, initial=-1.0) for one in (values[:, :n], tuned[:, :n])]),
            top_numbers=np.stack(
                [one[:, : max(n, 1)].argmax(axis=1) for one in (values, tuned if has_budget else values)]
            ),
            lows=state["values"].min(axis=1, initial=np.inf),
            accounts=state["budget"].copy(),
            stamps=np.full(room, -1, dtype=np.int64),
        )
        return _Replica(arrays, data, law, joint, kl)

    def _with_room(self, one: _Replica) -> _Replica:
        """Return the same replica with room for more states and outcomes."""
        path, horizon = one.path, self._algorithm.frame.horizon
        law = _loops("lists").make_room(one.law, horizon, has_extras=False)
        if path.sizes[0] + horizon + 1 <= len(path.states):
            return one._replace(law=law)
        n = int(path.sizes[0])

        def longer(array: NDArray[Any], fill: float = 0.0) -> Any:
            shape = array.shape  # whatever has no entry for a state or a pair stays empty
            return np.concatenate([array, np.full(shape, fill, dtype=array.dtype)], axis=-1)

        keys, numbers = (np.full(2 * len(path.keys), fill, dtype=np.int64) for fill in (-1, 0))
        _loops("path").fill_index(path.states[:n], keys, numbers)
        wider = {name: longer(getattr(path, name)) for name in ("states", "values", "tuned", "stamps")}
        data, kl = one.data, one.kl
        return _Replica(
            path._replace(keys=keys, numbers=numbers, **wider),
            data._replace(**{name: longer(getattr(data, name)) for name in ("visits", "changed", "is_changed")}),
            law._replace(**{name: longer(getattr(law, name)) for name in ("firsts", "lasts", "rooms")}),
            one.joint,
            kl._replace(**{name: longer(getattr(kl, name), 1.0) for name in ("upper", "lower", "top", "most")}),
        )

    def _state_of(self, one: _Replica) -> dict[str, NDArray[Any]]:
        """Return what a replica has learned, as `PathTable.state_dict` does."""
        n, room = int(one.path.sizes[0]), len(one.path.states)
        codes, times = _loops("lists").read_lists(one.law, room)
        pairs = codes // room
        return {
            "states": one.path.states[:n].copy(),
            "values": one.path.values[:, :n].copy(),
            "pairs": pairs,
            "next": codes - pairs * room,
            "times": times,
            "learned": one.path.sizes[1:3].copy(),
            "tuned": one.path.tuned[:, :n].copy(),
            "budget": one.path.accounts.copy(),
        }
