"""``POST /v1/chat/completions``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from dsi_ray.params import MAX_LOGPROBS
from dsi_ray.serving.schema.answers import AnyAnswer, AnyChoice, Extension
from dsi_ray.serving.schema.fields import Only, RequestModel, Text, one_message
from dsi_ray.serving.schema.generation import GenerationRequest


class TextPart(RequestModel):
    """A part of a message. Only text is supported."""

    type: Literal["text"]
    text: Text


class Message(RequestModel):
    """One turn of a conversation.

    Fields that only models with tools, audio or refusals fill may be null, as they are in messages
    that clients send back.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[
        Text | Annotated[list[TextPart], Field(min_length=1)],
        one_message("Must be a string or a list of parts {type: text, text: ...}, valid Unicode"),
    ]
    name: str | None = None
    tool_call_id: str | None = None

    annotations: Annotated[Any, Only([])] = None
    audio: Annotated[Any, Only()] = None
    function_call: Annotated[Any, Only()] = None
    refusal: Annotated[Any, Only()] = None
    tool_calls: Annotated[Any, Only([])] = None

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class Conversation(RequestModel):
    """Messages, and how the model's template puts them into words."""

    messages: Annotated[list[Message], Field(min_length=1)]
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    add_special_tokens: Annotated[Any, Only(False)] = None
    chat_template: Annotated[Any, Only()] = None
    continue_final_message: Annotated[Any, Only(False)] = None
    documents: Annotated[Any, Only([])] = None


class ChatRequest(Conversation, GenerationRequest):
    """The next message of a conversation."""

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    audio: Annotated[Any, Only()] = None
    echo: Annotated[Any, Only(False)] = None
    function_call: Annotated[Any, Only("none", "auto")] = None
    functions: Annotated[Any, Only([])] = None
    modalities: Annotated[Any, Only(["text"])] = None
    parallel_tool_calls: Annotated[Any, Only(True, False)] = None
    prediction: Annotated[Any, Only()] = None
    reasoning_effort: Annotated[Any, Only()] = None
    tool_choice: Annotated[Any, Only("none", "auto")] = None
    tools: Annotated[Any, Only([])] = None
    verbosity: Annotated[Any, Only()] = None
    web_search_options: Annotated[Any, Only()] = None

    @field_validator("max_tokens")
    @classmethod
    def _one_of_two_names(cls, max_tokens: int | None, info: ValidationInfo) -> int | None:
        other = info.data.get("max_completion_tokens")
        if max_tokens is not None and other not in (None, max_tokens):
            raise ValueError("Give max_completion_tokens or max_tokens, not both")
        return max_tokens

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and not info.data.get("logprobs"):
            raise ValueError("Needs logprobs: true")
        return top

    @property
    def wanted_tokens(self) -> int | None:
        """Most tokens of each choice; None for as many as the context still holds."""
        return self.max_tokens if self.max_tokens is not None else self.max_completion_tokens

    @property
    def wanted_logprobs(self) -> int | None:
        """How many alternatives to report at each position; None for no log probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


class TokenLogprob(BaseModel):
    """A token and its log probability.

    Attributes:
        token: As text; half a character is written ``\\xf0\\x9f``.
        logprob: Its log probability.
        bytes: What it stands for, in UTF-8: its part of the text, maybe half a character; of a
            special token its name. Two tokens may have the same.
    """

    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(TokenLogprob):
    """A token of the message, and the likeliest ones in its place."""

    top_logprobs: list[TokenLogprob]


class ChatLogprobs(BaseModel):
    """One entry for each token of the message, or of the chunk."""

    content: list[ChatLogprob]


class AnswerMessage(BaseModel):
    """The model's turn."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(AnyChoice):
    """One of the answers."""

    message: AnswerMessage
    logprobs: ChatLogprobs | None = None


class ChatCompletion(AnyAnswer):
    """The answer to a conversation."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    prompt_token_ids: Extension[list[int]] = None


class Delta(BaseModel):
    """What a chunk adds to a message: the role first, then text, at last nothing."""

    role: Extension[Literal["assistant"]] = None
    content: Extension[str] = None


class ChunkChoice(AnyChoice):
    """New text of one of the answers."""

    delta: Delta
    logprobs: ChatLogprobs | None = None


class ChatCompletionChunk(AnyAnswer):
    """A chunk of a streamed answer."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]
    prompt_token_ids: Extension[list[int]] = None
