"""The keys of a spec as pydantic models: environments × agents × settings × seeds × episodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator

__all__ = ["Entry", "ExecutorName", "Spec"]

Values = Annotated[list[Any], Field(min_length=1)]
LARGEST_EPISODES = 10**9
LARGEST_SEEDS = 100_000
LARGEST_CELLS = 10_000
LARGEST_RUNS = 1_000_000
ExecutorName = Literal["serial", "processes", "ray"]
"""Name of the executor that plays the blocks of an experiment."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """An environment or an agent with its settings, fixed and swept.

    Attributes:
        name: Name of the environment or agent (`matrixrl list`), or ``package.module:Name``.
        id: Name in tables; made of the name and the settings by default.
        settings: Settings with one value each.
        sweep: Settings with a list of values each; every combination defines one environment or agent.
    """

    name: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    settings: dict[str, Any] = {}
    sweep: dict[str, Values] = {}


class Spec(_Strict):
    """All keys of a spec.

    Attributes:
        name: Short name, used for directories.
        title: Title of the report; the name by default.
        episodes: Number of episodes N of every run.
        seeds: Number of seeds (they are 0, 1, 2, …), or the list of seeds.
        block: Number of episodes between two writes to the store; a kill loses at most this many of each run.
        batch: Largest number of seeds that one task plays together.
        certify: Whether to store a certificate of every episode, for agents that have certificates.
        measure_regret: Whether to measure exact regret where P is known; a number k measures the episodes 1, k + 1,
            2k + 1, …. Without it returns are compared, and V* is not computed.
        executor: Where blocks are played, unless the command line or the caller says otherwise.
        env: The environments.
        agent: The agents.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    title: str = ""
    episodes: Annotated[StrictInt, Field(ge=1, le=LARGEST_EPISODES)]
    seeds: Any
    block: Annotated[StrictInt, Field(ge=1)] = 1000
    batch: Annotated[StrictInt, Field(ge=1, le=1024)] = 32
    certify: StrictBool = False
    measure_regret: StrictBool | Annotated[StrictInt, Field(ge=1, le=LARGEST_EPISODES)] = True
    executor: ExecutorName = "processes"
    env: Annotated[list[Entry], Field(min_length=1)]
    agent: Annotated[list[Entry], Field(min_length=1)]

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: Any) -> int | list[int]:
        if type(seeds) is int and 1 <= seeds <= LARGEST_SEEDS:
            return seeds
        whole = isinstance(seeds, list) and all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
        if not whole or len(seeds) > LARGEST_SEEDS:
            raise ValueError(f"must be a number of seeds, 1 … {LARGEST_SEEDS}, or a list of whole numbers >= 0")
        if not seeds:
            raise ValueError("must not be empty")
        if len(set(seeds)) < len(seeds):
            raise ValueError("must differ: a repeated seed repeats the same run")
        return list(seeds)

    @property
    def seed_list(self) -> list[int]:
        """The list of seeds."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)
