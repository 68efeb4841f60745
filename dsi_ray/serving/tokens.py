"""``POST /tokenize`` and ``POST /detokenize``."""

from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.conversation import encode_chat
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
        RequestError: There is no chat template, or it refuses the messages.
    """
    tokenizer = service.engine.tokenizer
    if isinstance(request, TokenizeChat):
        ids = await service.aside(encode_chat, tokenizer, request)
    else:
        ids = await service.aside(
            tokenizer.encode, request.prompt, add_special_tokens=request.add_special_tokens
        )
    names = [tokenizer.token_bytes(token).decode(errors="replace") for token in ids]
    return Tokens(
        count=len(ids),
        max_model_len=service.engine.max_model_len,
        tokens=ids,
        token_strs=names if request.return_token_strs else None,
    )


async def detokenize(service: Service, request: DetokenizeRequest) -> DetokenizedText:
    """Returns the text of tokens, special ones included.

    Raises:
        RequestError: An id stands for no token.
    """
    size = service.engine.target.vocab_size
    if (wrong := max(request.tokens, default=0)) >= size:
        raise RequestError(f"token id {wrong} is not in the vocabulary of {size} ids", "tokens")
    decode = service.engine.tokenizer.decode
    return DetokenizedText(
        prompt=await service.aside(decode, request.tokens, skip_special_tokens=False)
    )
