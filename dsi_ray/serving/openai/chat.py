"""``POST /v1/chat/completions``: the next message of a conversation."""

from collections.abc import Sequence

from starlette.responses import Response

from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.openai.answer import respond
from dsi_ray.serving.openai.conversation import encode_chat
from dsi_ray.serving.openai.generations import Generations
from dsi_ray.serving.openai.logprobs import chat_logprobs
from dsi_ray.serving.openai.writer import ResponseHead, head, seed_of
from dsi_ray.serving.schema.answers import AnyAnswer, RequestMetrics, Usage
from dsi_ray.serving.schema.chat import (
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatRequest,
    ChunkChoice,
    Delta,
)
from dsi_ray.serving.service import Service


async def create_chat_completion(service: Service, request: ChatRequest) -> Response | AnyAnswer:
    """Answers ``request``.

    Raises:
        RequestError: The request cannot be run.
        ApiError: The server is full.
    """
    service.gate.check_not_full()
    engine = service.engine
    prompt = await service.aside.run(encode_chat, engine.prompts, request)
    # At least one: a conversation that fills the context is refused for its length.
    left = max(engine.max_model_len - len(prompt), 1)
    wanted = left if request.wanted_tokens is None else request.wanted_tokens
    top = head("chatcmpl", request.model)
    generations = Generations.plan(service, request, [prompt], wanted, top["id"])
    return await respond(request, generations, _ChatWriter(request, prompt, engine.tokenizer, top))


class _ChatWriter:
    """Words an answer as ``chat.completion`` or its chunks."""

    def __init__(
        self, request: ChatRequest, prompt: list[int], tokenizer: Tokenizer, top: ResponseHead
    ) -> None:
        self._returns_ids = bool(request.return_token_ids)
        self._prompt_ids = prompt if request.return_token_ids else None
        self._tokenizer = tokenizer
        self._head = top

    def opening(self, index: int) -> ChunkChoice:
        """The role."""
        return ChunkChoice(index=index, delta=Delta(role="assistant", content=""))

    def news(self, index: int, chunk: Chunk) -> ChunkChoice:
        """New text."""
        return ChunkChoice(
            index=index,
            delta=Delta(content=chunk.text),
            logprobs=chat_logprobs(self._tokenizer, chunk),
            token_ids=self._ids(chunk),
        )

    def ending(self, index: int, chunk: Chunk) -> ChunkChoice:
        """Why a choice ended."""
        seed = seed_of(chunk)
        return ChunkChoice(index=index, delta=Delta(), finish_reason=chunk.finish_reason, seed=seed)

    def part(
        self, choice: ChunkChoice | None, usage: Usage | None, metrics: RequestMetrics | None
    ) -> ChatCompletionChunk:
        """A chunk of a streamed answer. The prompt's ids come with the first."""
        choices = [] if choice is None else [choice]
        opens = any(choice.delta.role for choice in choices)
        return ChatCompletionChunk(
            **self._head,
            choices=choices,
            usage=usage,
            metrics=metrics,
            prompt_token_ids=self._prompt_ids if opens else None,
        )

    def whole(
        self, chunks: Sequence[Chunk], usage: Usage, metrics: RequestMetrics | None
    ) -> ChatCompletion:
        """The whole answer."""
        choices = [
            ChatChoice(
                index=index,
                message=AnswerMessage(content=chunk.text),
                logprobs=chat_logprobs(self._tokenizer, chunk),
                finish_reason=chunk.finish_reason,
                token_ids=self._ids(chunk),
                seed=seed_of(chunk),
            )
            for index, chunk in enumerate(chunks)
        ]
        return ChatCompletion(
            **self._head,
            choices=choices,
            usage=usage,
            metrics=metrics,
            prompt_token_ids=self._prompt_ids,
        )

    def _ids(self, chunk: Chunk) -> list[int] | None:
        return list(chunk.tokens) if self._returns_ids else None
