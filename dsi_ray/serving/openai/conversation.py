"""From messages to tokens, through the model's chat template."""

from typing import Any

from dsi_ray.models.text.tokenizer import ChatError
from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.schema.chat import Conversation, Message

_OURS = frozenset(
    "conversation messages tools documents chat_template add_generation_prompt tokenize padding "
    "continue_final_message truncation max_length return_tensors return_dict "
    "return_assistant_tokens_mask tokenizer_kwargs".split()
)
"""Arguments of transformers' ``apply_chat_template`` that are not the template's to read."""


def encode_chat(prompts: Prompts, conversation: Conversation) -> list[int]:
    """Returns the tokens of a conversation, ready for the model's next turn.

    Raises:
        RequestError: There is no chat template, it refuses the messages, or they are too long.
    """
    options = dict(conversation.chat_template_kwargs or {})
    if wrong := sorted(_OURS & options.keys()):
        raise RequestError(f"{wrong[0]} is not for the template", "chat_template_kwargs")
    options["add_generation_prompt"] = conversation.add_generation_prompt is not False
    messages = [_as_template_reads_it(message) for message in conversation.messages]
    try:
        text = prompts.tokenizer.render_chat(messages, options)
    except ChatError as error:
        raise RequestError(str(error), "messages") from error
    # The template writes the special tokens itself.
    return prompts.encode(text, param="messages", add_special_tokens=False)


def _as_template_reads_it(message: Message) -> dict[str, Any]:
    fields = {
        # OpenAI's newer name for the same role; templates know the older one.
        "role": "system" if message.role == "developer" else message.role,
        "content": message.text,
        "name": message.name,
        "tool_call_id": message.tool_call_id,
    }
    return {name: value for name, value in fields.items() if value is not None}
