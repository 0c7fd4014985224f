"""What a spec may say, as pydantic models: environments × agents × settings × seeds × episodes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator

__all__ = ["Entry", "Spec"]

Values = Annotated[list[Any], Field(min_length=1)]
LARGEST_EPISODES = 10**9
LARGEST_SEEDS = 100_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """An environment or an agent, with settings, and settings to sweep over.

    Attributes:
        name: of the environment or agent (`matrixrl list`).
        id: what it is called in tables; made of name and settings if it is left out.
        settings: fixed ones.
        sweep: lists of values; every combination is one more environment or agent.
    """

    name: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    settings: dict[str, Any] = {}
    sweep: dict[str, Values] = {}


class Spec(_Strict):
    """One experiment.

    Attributes:
        name: short, for directories.
        title: for the report.
        episodes: N of every run.
        seeds: how many (0, 1, 2, …), or the list of them.
        block: episodes between two writes to the store; what a kill can cost.
        batch: seeds that one task plays side by side.
        certify: keep a certificate of every episode, for agents that have them.
        env: the environments.
        agent: the agents.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    title: str = ""
    episodes: Annotated[StrictInt, Field(ge=1, le=LARGEST_EPISODES)]
    seeds: Any
    block: Annotated[StrictInt, Field(ge=1)] = 1000
    batch: Annotated[StrictInt, Field(ge=1, le=1024)] = 32
    certify: StrictBool = False
    env: Annotated[list[Entry], Field(min_length=1)]
    agent: Annotated[list[Entry], Field(min_length=1)]

    @field_validator("seeds")
    @classmethod
    def _some_and_different(cls, seeds: Any) -> int | list[int]:
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
        """The seeds themselves."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)
