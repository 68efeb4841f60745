"""``POST /v1/completions``: the text that follows a prompt."""

from collections.abc import Sequence

from starlette.responses import Response

from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.openai.answer import respond
from dsi_ray.serving.openai.generations import Generations
from dsi_ray.serving.openai.logprobs import completion_logprobs
from dsi_ray.serving.openai.writer import ResponseHead, head, seed_of
from dsi_ray.serving.schema.answers import AnyAnswer, RequestMetrics, Usage
from dsi_ray.serving.schema.completions import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
)
from dsi_ray.serving.service import Service


async def create_completion(service: Service, request: CompletionRequest) -> Response | AnyAnswer:
    """Answers ``request``.

    Raises:
        RequestError: The request cannot be run.
        ApiError: The server is full.
    """
    service.gate.check_not_full()
    encode = service.engine.prompts.encode
    prompts = [
        await service.aside.run(encode, prompt) if isinstance(prompt, str) else prompt
        for prompt in request.prompts
    ]
    top = head("cmpl", request.model)
    generations = Generations.plan(service, request, prompts, request.wanted_tokens, top["id"])
    writer = _CompletionWriter(request, prompts, service.engine.tokenizer, top)
    return await respond(request, generations, writer)


class _CompletionWriter:
    """Words an answer as ``text_completion``."""

    def __init__(
        self,
        request: CompletionRequest,
        prompts: Sequence[list[int]],
        tokenizer: Tokenizer,
        top: ResponseHead,
    ) -> None:
        self._request = request
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._head = top

    def opening(self, index: int) -> CompletionChoice | None:
        """The prompt, where it is asked for."""
        text, ids = self._echo(index), self._prompt_ids(index)
        if not text and ids is None:
            return None
        return CompletionChoice(index=index, text=text, prompt_token_ids=ids)

    def news(self, index: int, chunk: Chunk) -> CompletionChoice:
        """New text."""
        return CompletionChoice(
            index=index,
            text=chunk.text,
            logprobs=completion_logprobs(self._tokenizer, chunk),
            token_ids=list(chunk.tokens) if self._request.return_token_ids else None,
        )

    def ending(self, index: int, chunk: Chunk) -> CompletionChoice:
        """Why a choice ended."""
        seed = seed_of(chunk)
        return CompletionChoice(index=index, text="", finish_reason=chunk.finish_reason, seed=seed)

    def part(
        self, choice: CompletionChoice | None, usage: Usage | None, metrics: RequestMetrics | None
    ) -> CompletionResponse:
        """A chunk of a streamed answer."""
        choices = [] if choice is None else [choice]
        return CompletionResponse(**self._head, choices=choices, usage=usage, metrics=metrics)

    def whole(
        self, chunks: Sequence[Chunk], usage: Usage, metrics: RequestMetrics | None
    ) -> CompletionResponse:
        """The whole answer."""
        choices = [self._choice(index, chunk) for index, chunk in enumerate(chunks)]
        return CompletionResponse(**self._head, choices=choices, usage=usage, metrics=metrics)

    def _choice(self, index: int, chunk: Chunk) -> CompletionChoice:
        ending = self.ending(index, chunk)
        return self.news(index, chunk).model_copy(
            update={
                "text": self._echo(index) + chunk.text,
                "prompt_token_ids": self._prompt_ids(index),
                "finish_reason": ending.finish_reason,
                "seed": ending.seed,
            }
        )

    def _echo(self, index: int) -> str:
        if not self._request.echo:
            return ""
        place = index // self._request.choices
        prompt = self._request.prompts[place]
        if isinstance(prompt, str):
            return prompt
        return self._tokenizer.decode(
            prompt, skip_special_tokens=self._request.skip_special_tokens is not False
        )

    def _prompt_ids(self, index: int) -> list[int] | None:
        ids = self._prompts[index // self._request.choices]
        return ids if self._request.return_token_ids else None
