"""The paths that give text or tokens."""

from fastapi import FastAPI
from starlette.responses import Response

from dsi_ray.serving.openai.chat import create_chat_completion
from dsi_ray.serving.openai.completions import create_completion
from dsi_ray.serving.openai.tokens import detokenize, tokenize
from dsi_ray.serving.routes.documented import STREAM, errors
from dsi_ray.serving.schema.answers import AnyAnswer
from dsi_ray.serving.schema.chat import ChatCompletion, ChatRequest
from dsi_ray.serving.schema.completions import CompletionRequest, CompletionResponse
from dsi_ray.serving.schema.tokens import (
    DetokenizedText,
    DetokenizeRequest,
    TokenizeRequest,
    Tokens,
)
from dsi_ray.serving.service import Service

_GENERATING = errors(400, 401, 404, 408, 413, 415, 429, 500, 503, 504) | STREAM
_TOKENIZING = errors(400, 401, 404, 408, 413, 415, 429, 500, 503)


def add_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes to ``app``."""

    @app.post("/v1/completions", response_model=CompletionResponse, responses=_GENERATING)
    async def post_completion(request: CompletionRequest) -> Response | AnyAnswer:
        service.check_model(request.model, "model")
        return await create_completion(service, request)

    @app.post("/v1/chat/completions", response_model=ChatCompletion, responses=_GENERATING)
    async def post_chat_completion(request: ChatRequest) -> Response | AnyAnswer:
        service.check_model(request.model, "model")
        return await create_chat_completion(service, request)

    @app.post("/tokenize", responses=_TOKENIZING)
    async def post_tokenize(request: TokenizeRequest) -> Tokens:
        service.check_model(request.model or service.model_name, "model")
        return await tokenize(service, request)

    @app.post("/detokenize", responses=_TOKENIZING)
    async def post_detokenize(request: DetokenizeRequest) -> DetokenizedText:
        service.check_model(request.model or service.model_name, "model")
        return await detokenize(service, request)
