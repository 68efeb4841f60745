"""Several choices, echo, token ids and log probabilities of both endpoints."""

from typing import Any

import openai
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion

from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine

PROMPT = "class Stack:\n    "
CHAT = [{"role": "system", "content": "Answer in code."}, {"role": "user", "content": "sort"}]
MANY = 12
SAMPLED: dict[str, Any] = {"temperature": 1, "seed": 17, "max_tokens": MANY}


def complete(client: openai.OpenAI, extra: dict[str, Any] | None = None, **fields: Any) -> Any:
    return client.completions.create(
        **{"model": "demo", "prompt": PROMPT, **SAMPLED, **fields},
        extra_body={"ignore_eos": True, **(extra or {})},
    )


def chat(client: openai.OpenAI, extra: dict[str, Any] | None = None, **fields: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "demo", "messages": CHAT, **SAMPLED, **fields},
        extra_body={"ignore_eos": True, **(extra or {})},
    )


def texts(answer: Any) -> dict[int, str]:
    """The texts of all choices, of an answer or of a stream's chunks."""
    found: dict[int, str] = {}
    for part in [answer] if isinstance(answer, Completion | ChatCompletion) else answer:
        for choice in part.choices:
            message = getattr(choice, "message", None) or getattr(choice, "delta", None)
            text = choice.text if message is None else message.content
            found[choice.index] = found.get(choice.index, "") + (text or "")
    return found


@pytest.mark.parametrize("ask", [complete, chat])
def test_choices_differ_and_each_can_be_had_alone(client: openai.OpenAI, ask: Any) -> None:
    answer = ask(client, n=3)
    assert texts(answer) == texts(ask(client, n=3, stream=True))
    assert len(set(texts(answer).values())) == 3
    assert answer.usage.completion_tokens == 3 * MANY
    alone = ask(client)
    assert answer.usage.prompt_tokens == alone.usage.prompt_tokens
    for choice in answer.choices:
        assert texts(ask(client, seed=choice.seed)) == {0: texts(answer)[choice.index]}


def test_each_prompt_has_its_choices(client: openai.OpenAI) -> None:
    both = texts(complete(client, prompt=[PROMPT, "def g("], n=2))
    assert both.keys() == {0, 1, 2, 3}
    first = texts(complete(client, n=2))
    assert {0: both[0], 1: both[1]} == first


def test_greedy_choices_are_equal_and_have_no_seed(client: openai.OpenAI) -> None:
    answer = complete(client, n=2, temperature=0)
    assert len(set(texts(answer).values())) == 1
    assert not hasattr(answer.choices[0], "seed")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("as_ids", [False, True])
def test_echo_puts_the_prompt_in_front(
    client: openai.OpenAI, engine: Engine, stream: bool, as_ids: bool
) -> None:
    prompt = engine.tokenizer.encode(PROMPT) if as_ids else PROMPT
    plain = texts(complete(client, n=2))
    echoed = texts(complete(client, prompt=prompt, n=2, echo=True, stream=stream))
    assert echoed == {index: PROMPT + text for index, text in plain.items()}


@pytest.mark.parametrize("stream", [False, True])
def test_echo_alone_generates_nothing(client: openai.OpenAI, stream: bool) -> None:
    answer = complete(client, echo=True, max_tokens=0, stream=stream)
    parts = list(answer) if stream else [answer]
    assert texts(parts) == {0: PROMPT}
    assert parts[-1].choices[0].finish_reason == "length"
    if not stream:
        assert (answer.usage.completion_tokens, answer.usage.prompt_tokens > 0) == (0, True)


@pytest.mark.parametrize("ask", [complete, chat])
@pytest.mark.parametrize("stream", [False, True])
def test_token_ids_are_the_texts(
    client: openai.OpenAI, engine: Engine, ask: Any, stream: bool
) -> None:
    answer = ask(client, extra={"return_token_ids": True}, stream=stream)
    parts = list(answer) if stream else [answer]
    ids = [token for p in parts for token in getattr(p.choices[0], "token_ids", None) or []]
    assert len(ids) == MANY
    assert engine.tokenizer.decode(ids) == texts(parts)[0]
    shown = [getattr(part, "prompt_token_ids", None) for part in parts]
    shown += [getattr(part.choices[0], "prompt_token_ids", None) for part in parts]
    (prompt,) = filter(None, shown)
    wanted = PROMPT if ask is complete else "<|user|>Answer in code.<|user|>sort<|assistant|>"
    assert engine.tokenizer.decode(prompt, skip_special_tokens=False) == wanted


@pytest.mark.parametrize("stream", [False, True])
def test_completion_logprobs(client: openai.OpenAI, stream: bool) -> None:
    answer = complete(client, logprobs=2, stream=stream)
    parts = [p.choices[0] for p in (list(answer) if stream else [answer])]
    found = [part.logprobs for part in parts if part.logprobs is not None]
    tokens = [token for entry in found for token in entry.tokens]
    assert len(tokens) == MANY
    assert "".join(tokens) == "".join(part.text for part in parts)
    for entry in found:
        for token, own, top in zip(
            entry.tokens, entry.token_logprobs, entry.top_logprobs, strict=True
        ):
            assert top[token] == own <= 0
            assert 2 <= len(top) <= 3


@pytest.mark.parametrize("stream", [False, True])
def test_chat_logprobs(client: openai.OpenAI, engine: Engine, stream: bool) -> None:
    answer = chat(client, logprobs=True, top_logprobs=3, stream=stream)
    parts = [p.choices[0] for p in (list(answer) if stream else [answer])]
    entries = [e for p in parts if p.logprobs is not None for e in p.logprobs.content or []]
    assert len(entries) == MANY
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.bytes == list(entry.token.encode())
        best = [top.logprob for top in entry.top_logprobs]
        assert best == sorted(best, reverse=True) and entry.logprob <= best[0]


def test_chat_goes_on_to_the_end_of_the_context(client: openai.OpenAI, engine: Engine) -> None:
    words = "word " * 1000
    while len(engine.tokenizer.encode(words)) > engine.max_model_len - 20:
        words = words[:-5]
    answer = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": words}],
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    assert answer.usage is not None
    assert answer.usage.total_tokens == engine.max_model_len
    assert answer.choices[0].finish_reason == "length"


def test_chat_is_the_engines_text(client: openai.OpenAI, engine: Engine) -> None:
    text = "<|user|>Answer in code.<|user|>sort<|assistant|>"
    prompt = engine.tokenizer.encode(text, add_special_tokens=False)
    params = SamplingParams(max_tokens=MANY, temperature=1, seed=17, ignore_eos=True)
    assert texts(chat(client))[0] == engine.generate(prompt, params).text


def test_a_conversation_too_long_is_400(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": "word " * 5000}])
    assert caught.value.code == "context_length_exceeded"


def test_special_tokens_are_shown_where_asked(client: openai.OpenAI, engine: Engine) -> None:
    user = engine.tokenizer.encode("<|user|>", add_special_tokens=False)
    force = {"allowed_token_ids": user, "skip_special_tokens": False}
    assert texts(complete(client, extra=force))[0] == "<|user|>" * MANY
    assert texts(complete(client, extra={"allowed_token_ids": user}))[0] == ""


@pytest.mark.parametrize("ask", [complete, chat])
def test_drafts_are_reported_for_one_choice(client: openai.OpenAI, ask: Any) -> None:
    told = ask(client, max_tokens=40).metrics["speculative_decoding"]
    assert told["num_draft_tokens"] >= told["num_accepted_draft_tokens"] >= 0
    assert len(told["acceptance_histogram"]) == told["num_spec_tokens"] + 1
    *_, last = ask(client, stream=True, stream_options={"include_usage": True})
    assert last.metrics["speculative_decoding"].keys() == told.keys()
    assert not hasattr(ask(client, n=2), "metrics")
