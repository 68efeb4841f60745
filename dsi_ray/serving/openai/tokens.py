"""``POST /tokenize`` and ``POST /detokenize``."""

from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.openai.conversation import encode_chat
from dsi_ray.serving.schema.tokens import (
    DetokenizedText,
    DetokenizeRequest,
    TokenizeChat,
    TokenizeText,
    Tokens,
)
from dsi_ray.serving.service import Service


async def tokenize(service: Service, request: TokenizeText | TokenizeChat) -> Tokens:
    """Returns the tokens of a text or a conversation.

    Raises:
        RequestError: There is no chat template, it refuses the messages, or the text is too long.
        ApiError: Too many texts wait.
    """
    return await service.aside.run(_tokenize, service.engine.prompts, request)


def _tokenize(prompts: Prompts, request: TokenizeText | TokenizeChat) -> Tokens:
    if isinstance(request, TokenizeChat):
        ids = encode_chat(prompts, request)
    else:
        ids = prompts.encode(request.prompt, add_special_tokens=request.add_special_tokens)
    bytes_of = prompts.tokenizer.token_bytes
    return Tokens(
        count=len(ids),
        max_model_len=prompts.max_model_len,
        tokens=ids,
        token_strs=(
            [bytes_of(token).decode(errors="replace") for token in ids]
            if request.return_token_strs
            else None
        ),
    )


async def detokenize(service: Service, request: DetokenizeRequest) -> DetokenizedText:
    """Returns the text of tokens, special ones included.

    Raises:
        RequestError: An id stands for no token.
        ApiError: Too many texts wait.
    """
    size = service.engine.target.vocab_size
    if (wrong := max(request.tokens, default=0)) >= size:
        raise RequestError(f"token id {wrong} is not in the vocabulary of {size} ids", "tokens")
    decode = service.engine.tokenizer.decode
    return DetokenizedText(
        prompt=await service.aside.run(decode, request.tokens, skip_special_tokens=False)
    )
