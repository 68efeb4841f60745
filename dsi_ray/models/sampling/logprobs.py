"""Log probabilities as the OpenAI API defines them: the model's own, before any parameter."""

from torch import Tensor

from dsi_ray.core.messages import TokenLogprobs


def raw_logprobs(logits: Tensor, chosen: Tensor, count: int) -> tuple[TokenLogprobs, ...]:
    """Returns the log probability of each row's token and of its ``count`` likeliest ones.

    Args:
        logits: Of shape (rows, vocabulary), as the model gave them, without padding.
        chosen: One id a row.
        count: Fewer are returned where the vocabulary has fewer.
    """
    # Of a half-precision model too, and as plain numbers: they travel in messages.
    law = logits.double().log_softmax(-1)
    own = law.gather(-1, chosen[:, None])[:, 0].tolist()
    values, ids = law.topk(min(count, law.shape[1]))
    tops = zip(ids.tolist(), values.tolist(), strict=True)
    return tuple(
        TokenLogprobs(logprob, tuple(zip(*top, strict=True)))
        for logprob, top in zip(own, tops, strict=True)
    )
