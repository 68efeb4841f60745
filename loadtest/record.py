"""What became of each request: one line of JSON."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from loadtest.errors import LoadTestError


class Drafts(BaseModel):
    """How the drafts of a request fared, as dsi-ray and vLLM report it.

    Attributes:
        num_draft_tokens: Drafted tokens.
        num_accepted_draft_tokens: Of these, accepted ones.
        num_spec_steps: Number of drafts, each with a token of the target's own after it.
    """

    num_draft_tokens: int
    num_accepted_draft_tokens: int
    num_spec_steps: int


class Record(BaseModel):
    """One request. Times are seconds since the load began.

    Attributes:
        point: Of the sweep, which.
        index: Of the request.
        scheduled_s: When the schedule wanted it sent; latencies count from here.
        sent_s: When it was sent.
        chunks_s: When each piece of text came; several tokens may share one.
        end_s: When the last piece came, or the failure.
        prompt_tokens: As the server counts them; None if it does not.
        completion_tokens: Likewise.
        finish_reason: The server's.
        drafts: None if the server does not tell.
        status: Of the HTTP answer; None if there was none.
        error: None for success; else ``http_NNN``, ``timeout``, ``connection``, ``error_event``
            (the stream ended with an error) or ``broken_stream`` (without its end).
        detail: What the server or the network said about the error.
        retry_after_s: When the server wants to be asked again.
    """

    model_config = ConfigDict(frozen=True)

    point: str
    index: int
    scheduled_s: float
    sent_s: float
    chunks_s: tuple[float, ...] = ()
    end_s: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    drafts: Drafts | None = None
    status: int | None = None
    error: str | None = None
    detail: str | None = None
    retry_after_s: float | None = None

    @property
    def e2e_s(self) -> float:
        """From the scheduled time to the last token."""
        return self.end_s - self.scheduled_s

    @property
    def ttft_s(self) -> float | None:
        """From the scheduled time to the first token; None if there was none."""
        return self.chunks_s[0] - self.scheduled_s if self.chunks_s else None

    @property
    def tpot_s(self) -> float | None:
        """Mean time of each token after the first; None if there are none or no count."""
        if not self.chunks_s or self.completion_tokens is None or self.completion_tokens < 2:
            return None
        return (self.end_s - self.chunks_s[0]) / (self.completion_tokens - 1)


def read_records(file: Path) -> list[Record]:
    """Reads a file of lines.

    Raises:
        LoadTestError: It cannot be read, or is no such file.
    """
    try:
        return [Record.model_validate_json(line) for line in file.read_text("utf-8").splitlines()]
    except (OSError, ValidationError) as error:
        raise LoadTestError(f"cannot read {file}: {error}") from error


def by_point(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Groups records by their point of the sweep, in order of appearance."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.point, []).append(record)
    return groups
