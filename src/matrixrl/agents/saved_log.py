"""What an agent saw, and which logs it knows, as arrays and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["log_arrays", "restore_log"]

Arrays = dict[str, NDArray[Any]]
_DIGESTS = ("learned_digests", "exported_digests")
_DIGEST = 32  # bytes of SHA-256
_SLACK = 1e-6  # rounding of sums of rewards


def log_arrays(agent: Agent) -> Arrays:
    """Return the steps that were seen, if they are kept, and the digests of logs, if there are any."""
    arrays = {} if agent._seen is None else dict(agent._seen.arrays())
    for name, digests in zip(_DIGESTS, (agent._digests, agent._exported), strict=True):
        if digests:
            arrays[name] = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _DIGEST)
    return arrays


def restore_log(agent: Agent, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Take back what `log_arrays` returned, after the history of the agent.

    Raises:
        InvalidInput: The steps are not those of the history, or the arrays are no digests.
    """
    for name, digests in zip(_DIGESTS, (agent._digests, agent._exported), strict=True):
        saved = arrays.get(name)
        if saved is not None:
            if saved.ndim != 2 or saved.shape[1] != _DIGEST or saved.dtype != np.uint8 or not len(saved):
                raise InvalidInput(f"{name} must be digests of {_DIGEST} bytes")
            digests.extend(row.tobytes() for row in saved)
    if bool(agent._digests) != bool(agent.n_logged_episodes) or len(agent._digests) > agent.n_logged_episodes:
        raise InvalidInput("there must be a digest for every log that was learned from")
    steps = {name: array for name, array in arrays.items() if name not in _DIGESTS}
    if agent._seen is None:
        if steps:
            raise InvalidInput("there must be no steps where they are not kept")
        return
    agent._seen.restore(steps)
    _compare_with_history(agent)


def _compare_with_history(agent: Agent) -> None:
    """Refuse steps that are not those of the history."""
    seen, history = agent._seen, agent.history
    assert seen is not None
    if seen.n_episodes != history.n_episodes + history.n_logged_episodes:
        raise InvalidInput("the steps that were seen must be those of the episodes of the history")
    if not seen.n_episodes:
        return
    steps, logged = seen.all()
    found = steps.returns(agent.problem.discount)
    for episodes, lengths, returns in (
        (~logged, history.lengths, history.returns),
        (logged, history.logged_lengths, history.logged_returns),
    ):
        slack = _SLACK * (1.0 + np.abs(returns).max(initial=0.0))
        same = np.array_equal(steps.lengths[episodes], lengths)
        if not same or not np.allclose(found[episodes], returns, rtol=_SLACK, atol=slack):
            raise InvalidInput("the steps that were seen must have the lengths and returns of the history")
