"""Grids: rooms, an open grid with coordinates, one of up to millions of cells, and a mass that is pushed."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, fits_memory, integer, number
from matrixrl.envs.cases import Outcome, table_of
from matrixrl.features import Features, FunctionPhi, SparsePsi
from matrixrl.problems import FactoredTransitions, FiniteMDP, Layout, MDPEnv
from matrixrl.records import FloatArray, IntArray

__all__ = ["DoubleIntegrator", "FourRooms", "GridWorld", "SoftGrid"]


_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left
_PUSH, _STEP = 0.25, 0.25  # change of the speed by a push, change of the position by a speed of 1


class FourRooms(MDPEnv):
    """Square grid of four rooms; episodes start in the upper left corner, the goal is in the lower right one.

    A move succeeds with probability 1 − slip and goes in each of the two sideways directions with probability slip/2;
    a move into a wall does not change the state. The goal is absorbing and earns 1 per step.

    Args:
        size: Cells along a side without the outer walls; odd, at least 5. n_states is the number of free cells.
        horizon: Steps in an episode; four times the side if None.
        slip: Probability of moving sideways.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self, size: int = 9, horizon: int | None = None, *, slip: float = 0.1, noisy_rewards: bool = False
    ) -> None:
        n = integer("size", size, low=5, remedy="Try 9.")
        if n % 2 == 0:
            fail("size", "must be odd (the walls need a middle line)", n, f"Try {n + 1}.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        fits_memory("size", 12.0 * (n - 1) ** 4, f"{n:,}", remedy="Try 9.")
        self._walls = _walls(n)
        self._cells = [(int(r), int(c)) for r, c in np.argwhere(~self._walls)]
        index_of = {cell: i for i, cell in enumerate(self._cells)}
        states = len(self._cells)
        goal = index_of[n - 1, n - 1]
        table = np.zeros((states, 4, states))
        reward = np.zeros((states, 4))
        reward[goal] = 1.0
        for s, (row, column) in enumerate(self._cells):
            for a in range(4):
                if s == goal:
                    table[s, a, s] = 1.0
                    continue
                for turn, probability in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
                    dr, dc = _MOVES[(a + turn) % 4]
                    table[s, a, index_of.get((row + dr, column + dc), s)] += probability
        mdp = FiniteMDP(table, reward, 4 * n if horizon is None else horizon, noisy_rewards=noisy_rewards)
        super().__init__(mdp)

    @property
    def layout(self) -> Layout:
        """The free cells of the rooms."""
        return Layout(np.array(self._cells), _MOVES.astype(np.float64))


def _walls(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    middle = n // 2
    walls = np.zeros((n, n), dtype=np.bool_)
    walls[middle, :] = walls[:, middle] = True
    near, far = middle // 2, middle + 1 + (n - middle - 1) // 2
    walls[middle, near] = walls[middle, far] = walls[near, middle] = walls[far, middle] = False
    return walls


class GridWorld(MDPEnv):
    """Open grid of size × size cells; episodes start in one corner, the goal is in the opposite one.

    A move succeeds with probability 1 − slip and goes in each of the two sideways directions with probability slip/2;
    a move out of the grid does not change the state. The goal is absorbing and earns 1 per step. Neighbouring cells
    have similar dynamics, so that kernels on `points` generalise.

    Args:
        size: Cells along a side; n_states is its square.
        horizon: Steps in an episode; three times the side if None.
        slip: Probability of moving sideways.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        points: Coordinates of every state in [-1, 1]², shape (S, 2).
    """

    def __init__(
        self, size: int = 20, horizon: int | None = None, *, slip: float = 0.1, noisy_rewards: bool = False
    ) -> None:
        self.size = n = integer("size", size, low=2, remedy="Try 20.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        fits_memory("size", 100.0 * n * n, f"{n:,}", remedy="Try 20.")
        states, goal = np.arange(n * n), n * n - 1
        cells = np.stack(np.divmod(states, n), axis=1)
        outcomes = []
        for turn, probability in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
            there = np.clip(cells[:, None] + np.roll(_MOVES, -turn, axis=0), 0, n - 1) @ [n, 1]
            outcomes.append((probability, np.where(states[:, None] == goal, goal, there), 0.0))
        table, _ = table_of(outcomes)
        reward = np.zeros((n * n, 4))
        reward[goal] = 1.0
        self.points: FloatArray = 2.0 * cells / (n - 1) - 1.0
        mdp = FiniteMDP(table, reward, 3 * n if horizon is None else horizon, noisy_rewards=noisy_rewards)
        super().__init__(mdp)

    @property
    def layout(self) -> Layout:
        """The grid, row by row."""
        return Layout.grid(self.size, self.size, moves=("up", "right", "down", "left"))


class SoftGrid(MDPEnv):
    """Square grid that is crossed from the first corner to the opposite one; side² states, d regions.

    A cell belongs to the (up to four) regions around it, with weights that change linearly between the centres of the
    regions. A move aims at a point `step` regions away, clipped to the grid, and leads to a random cell of the regions
    that the point belongs to. So P(s'|s,a) = φ(s,a)ᵀM*ψ(s'), where φ are the weights of the point and ψ the weights of
    the cell; at most four of them are not zero. No table of S·A·d numbers is stored. Only the last region has rewards.

    Args:
        side: Cells along each side; S = side².
        regions: Number of regions along the two sides; d is their product.
        horizon: Steps in an episode.
        step: Length of a move, in regions.
        copies: Number of actions for each of the four moves; A is four times that, and d does not change.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        core: True core M*, shape (d, d); agents do not use it.
    """

    def __init__(
        self,
        side: int = 100,
        regions: tuple[int, int] = (5, 4),
        horizon: int = 20,
        *,
        step: float = 0.75,
        copies: int = 1,
        noisy_rewards: bool = False,
    ) -> None:
        self.side = integer("side", side, low=2, remedy="Give the number of cells along a side.")
        if not isinstance(regions, (tuple, list)) or len(regions) != 2:
            fail("regions", "must be two numbers", regions, "Such as regions=5,4.")
        n_down, n_across = (integer("regions", n, low=2, remedy="Give two numbers, such as 5,4.") for n in regions)
        if self.side < max(n_down, n_across):
            rule = f"must be at least {max(n_down, n_across)}, one cell for each region"
            fail("side", rule, side, "Use fewer regions.")
        self.regions = n_down, n_across
        self._step = number("step", step, low=0.0, high=100.0, remedy="Try 0.75.")
        n_copies = integer("copies", copies, low=1, remedy="Give at least one action for each move.")
        n_states = self.side**2
        numbers = n_states * (4.0 * n_copies + 10.0) + float(n_down * n_across) ** 2
        fits_memory("side and copies", numbers, f"{self.side:,} and {n_copies:,}", remedy="Make it smaller.")
        self._moves = np.tile(_MOVES.astype(np.float64), (n_copies, 1))
        phi = FunctionPhi(self._aim, n_states, len(self._moves))
        psi = _weights_of_cells(self.side, self.regions)
        mass = np.asarray(psi.sum(axis=0)).ravel()
        factors = (psi / mass).T.tocsr()
        self.core: FloatArray = np.diag(1.0 / mass)
        goal = np.zeros(n_down * n_across)
        goal[-1] = 1.0
        reward = np.ascontiguousarray(phi.dot(goal[None])[0].T)
        super().__init__(
            FiniteMDP(
                FactoredTransitions(phi, factors),
                reward,
                horizon,
                features=Features(phi, SparsePsi(psi)),
                noisy_rewards=noisy_rewards,
            )
        )

    def _aim(self, states: IntArray) -> FloatArray:
        """Return the weights of the points that the moves from some cells aim at: (k,) → (k, A, d)."""
        points = np.stack(np.divmod(np.asarray(states), self.side), axis=-1) / (self.side - 1)
        spacing = 1.0 / (np.array(self.regions) - 1)
        aims = np.clip(points[:, None, :] + self._step * spacing * self._moves, 0.0, 1.0)
        down, across = (_hats(aims[..., i], n) for i, n in enumerate(self.regions))
        weights: FloatArray = (down[..., :, None] * across[..., None, :]).reshape(len(points), len(self._moves), -1)
        return weights

    @property
    def layout(self) -> Layout:
        """The cells, row by row."""
        return Layout.grid(self.side, self.side, moves=self._moves)


def _hats(x: FloatArray, n: int) -> FloatArray:
    """Return n piecewise linear functions on [0, 1], each 1 at its centre and 0 at the others; they sum to one."""
    return np.maximum(0.0, 1.0 - np.abs(x[..., None] * (n - 1) - np.arange(n)))


def _weights_of_cells(side: int, regions: tuple[int, int]) -> sparse.csr_array:
    """Return the weights of every cell as a sparse matrix, shape (S, d)."""
    along = np.arange(side) / (side - 1)
    return sparse.csr_array(sparse.kron(*(sparse.csr_array(_hats(along, n)) for n in regions), format="csr"))


class DoubleIntegrator(MDPEnv):
    """Push a mass with pushes −1, 0 or 1 and random noise to position 0.6, and hold it there.

    Position x and speed v lie in [-1, 1]. The next speed is v' = v + 0.25·(push + noise), the next position is
    x + 0.25·v', both clipped to [-1, 1]. The next state is one of the (up to four) grid points around that point, with
    probabilities that preserve its mean. The reward is exp(−((x − 0.6)² + v²)/0.08).

    Wrap the environment in `PointObservations` to run agents for continuous states and measure their exact regret.

    Args:
        positions: Number of grid points of the position.
        speeds: Number of grid points of the speed.
        horizon: Steps in an episode.
        noise: Size of the noise in units of a push; it is −noise, 0 or noise with probabilities ¼, ½ and ¼.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        points: Position and speed of every state, shape (S, 2).
    """

    def __init__(
        self,
        positions: int = 41,
        speeds: int = 31,
        horizon: int = 30,
        *,
        noise: float = 0.3,
        noisy_rewards: bool = False,
    ) -> None:
        nx = integer("positions", positions, low=3, remedy="Try 41.")
        nv = integer("speeds", speeds, low=3, remedy="Try 31.")
        fits_memory("positions and speeds", 300.0 * nx * nv, f"{nx:,} and {nv:,}", remedy="Try 41 and 31.")
        size = number("noise", noise, low=0.0, high=10.0, remedy="Try 0.3.")
        x, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 1, nx), np.linspace(-1, 1, nv), indexing="ij"))
        self.points: FloatArray = np.stack([x, v], axis=1)
        outcomes: list[Outcome] = []
        for shock, chance in ((-size, 0.25), (0.0, 0.5), (size, 0.25)):
            speed = np.clip(v[:, None] + _PUSH * (np.array([-1.0, 0.0, 1.0]) + shock), -1.0, 1.0)
            position = np.clip(x[:, None] + _STEP * speed, -1.0, 1.0)
            outcomes += [(chance * share, following, 0.0) for following, share in _corners(position, speed, nx, nv)]
        table, _ = table_of(outcomes)
        bell = np.exp(-((x - 0.6) ** 2 + v**2) / 0.08)
        start = int(np.argmin((x + 0.6) ** 2 + v**2))
        mdp = FiniteMDP(table, np.tile(bell[:, None], (1, 3)), horizon, start=start, noisy_rewards=noisy_rewards)
        super().__init__(mdp)


def _corners(x: FloatArray, v: FloatArray, nx: int, nv: int) -> list[tuple[IntArray, FloatArray]]:
    """Return the four grid points around each point, with their bilinear weights."""
    i, j = (x + 1.0) / 2.0 * (nx - 1), (v + 1.0) / 2.0 * (nv - 1)
    i0, j0 = np.minimum(i.astype(np.int64), nx - 2), np.minimum(j.astype(np.int64), nv - 2)
    fi, fj = i - i0, j - j0
    return [
        ((i0 + di) * nv + (j0 + dj), (fi if di else 1.0 - fi) * (fj if dj else 1.0 - fj))
        for di in (0, 1)
        for dj in (0, 1)
    ]
