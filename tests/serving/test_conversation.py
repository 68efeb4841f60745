"""From messages to the model's words."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import ModelConfig
from dsi_ray.models.text.tokenizer import load_tokenizer
from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.openai.conversation import encode_chat
from dsi_ray.serving.schema.chat import Conversation

DEMO = load_tokenizer(ModelConfig(model="demo"))


def text_of(*messages: dict[str, Any], **options: Any) -> str:
    conversation = Conversation.model_validate({"messages": list(messages), **options})
    return DEMO.decode(encode_chat(Prompts(DEMO, 1024), conversation), skip_special_tokens=False)


USER = {"role": "user", "content": "hello"}


def test_ready_for_the_models_turn() -> None:
    assert text_of(USER) == "<|user|>hello<|assistant|>"
    assert text_of(USER, add_generation_prompt=False) == "<|user|>hello"


def roles(folder: Path) -> Any:
    """A tokenizer whose template writes roles and names."""
    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template="{% for m in messages %}{{ m.role }}={{ m.name }} {% endfor %}",
    ).save_pretrained(folder)
    return load_tokenizer(ModelConfig(model=str(folder)))


class Written:
    """Keeps the text instead of cutting it into tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.text = ""
        self.max_token_bytes = 1
        self.render_chat = tokenizer.render_chat

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens, "the template has written them"
        self.text = text
        return [0]


def test_templates_see_a_system_role_for_a_developer_and_only_what_was_said(tmp_path: Path) -> None:
    written: Any = Written(roles(tmp_path))
    messages = [{"role": "developer", "content": "x"}, {**USER, "name": "me"}]
    encode_chat(Prompts(written, 1024), Conversation.model_validate({"messages": messages}))
    assert written.text == "system= user=me "


def test_options_of_the_template_cannot_be_ours() -> None:
    for name in ("chat_template", "tokenize", "add_generation_prompt"):
        with pytest.raises(RequestError) as caught:
            text_of(USER, chat_template_kwargs={name: "x"})
        assert caught.value.param == "chat_template_kwargs"
    assert text_of(USER, chat_template_kwargs={"enable_thinking": False}) == text_of(USER)
