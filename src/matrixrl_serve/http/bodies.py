"""What requests say, as pydantic models: the shape is checked here, the content by `Decisions`."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from matrixrl_serve.projection import EPISODE_NAME
from matrixrl_serve.refusals import refusal

__all__ = [
    "AskBody",
    "BatchBody",
    "BatchItem",
    "CloseBody",
    "ModeBody",
    "OpenBody",
    "TellBody",
    "parsed",
]

Key = Field(
    None,
    min_length=1,
    max_length=100,
    pattern=r"^[!-~]+$",
    description="Idempotency key, printable ASCII: the same request again has the same key.",
)
EpisodeName = Field(None, pattern=EPISODE_NAME.pattern, description="Name of the episode.")
MOST_IN_A_BATCH = 1000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class OpenBody(_Body):
    """Open an episode."""

    episode: str | None = EpisodeName
    key: str | None = Key


class AskBody(_Body):
    """Ask what to do."""

    state: Any = Field(description="The state: a number, a name, or an object with the parts of the problem file.")
    allowed: list[Any] | None = Field(
        None, max_length=100_000, description="Actions that are allowed just now, if fewer than the file allows."
    )
    step: int | None = Field(
        None, description="Number of the step, counted from 0; by default the last open question or the next step."
    )
    key: str | None = Key


class TellBody(_Body):
    """Report what came of a step."""

    reward: float = Field(description="Reward of the step.")
    next_state: Any = Field(None, description="State after the step; not needed if the next step was asked for.")
    terminated: bool = Field(False, description="Whether the step ended the episode.")
    state: Any = Field(None, description="State before the step, if it was not asked for.")
    action: Any = Field(None, description="Action that was played, if it is not the one that was answered.")
    step: int | None = Field(None, description="Number of the step; by default the first one without an outcome.")
    key: str | None = Key


class CloseBody(_Body):
    """End, abandon or time out an episode."""

    key: str | None = Key


class ModeBody(_Body):
    """Change the mode."""

    mode: str = Field(description="shadow, live or frozen.")
    reason: str = Field("request", max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$", description="Why, for the log.")


class BatchItem(BaseModel):
    """One request of a batch: `do`, the episode, and the keys of that request."""

    model_config = ConfigDict(extra="allow", strict=True)

    do: Literal["open", "ask", "tell", "end", "abandon", "time_out"]
    episode: str | None = EpisodeName


class BatchBody(_Body):
    """Many requests at once, answered one by one in their order; one that is refused does not stop the others."""

    requests: list[BatchItem] = Field(max_length=MOST_IN_A_BATCH)


Body = TypeVar("Body", bound=BaseModel)


def parsed(model: type[Body], data: bytes | dict[str, Any]) -> Body:
    """Return the body of a request, or refuse it in the words of the library."""
    try:
        if isinstance(data, bytes):
            return model.model_validate_json(data or b"{}")
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal(error, "the request", list(model.model_fields)) from error
