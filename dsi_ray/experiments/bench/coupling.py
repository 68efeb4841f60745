"""How often drafts are accepted: exact matching with shared noise, and rejection sampling.

Along texts that the demo target samples, by the code that serves: the share of positions at which
the target's token is the draft of a drafter that is given the text so far. Beside it what is
expected, from the exact laws p and q at these positions:

- independent draws that must be equal: the sum of p q;
- shared Gumbel noise: at least (1 - TV) / (1 + TV) (Daliri et al., arXiv 2408.07978), where TV is
  the total variation distance;
- rejection sampling: the sum of min(p, q), which is 1 - TV.

Run it with ``python -m dsi_ray.experiments.bench.coupling``.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor

from dsi_ray.config import ModelConfig
from dsi_ray.core.path import Path
from dsi_ray.demo import DRAFTER_DIR, TARGET_DIR
from dsi_ray.experiments.bench.prompts import held_out_code
from dsi_ray.models.base import Extension, Sampling, extend_one
from dsi_ray.models.checkpoints.checkpoint import load_checkpoint
from dsi_ray.models.sampling import choose
from dsi_ray.models.text.tokenizer import load_tokenizer
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams

_CACHE_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Coupling:
    """Acceptance rates on the same positions.

    Attributes:
        positions: How many.
        exact: Measured, with the noise that both share.
        rejection: Measured, with rejection sampling.
        independent: Expected, with noise of their own.
        bound: Expected, the least that shared noise can give.
        overlap: Expected of rejection sampling: the most that any rule can give.
    """

    positions: int
    exact: float
    rejection: float
    independent: float
    bound: float
    overlap: float


def demo_coupling(temperature: float, prompts: int, new_tokens: int, seed: int = 0) -> Coupling:
    """Measures the demo pair.

    Args:
        temperature: Of both models; not 0.
        prompts: Number of texts; each has a seed of its own.
        new_tokens: Length of each text; it goes on past an end of sequence.
        seed: Of the first text.
    """
    cpu = torch.device("cpu")
    target, drafter = (load_checkpoint(str(d), "float32", cpu) for d in (TARGET_DIR, DRAFTER_DIR))
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    params = SamplingParams(temperature=temperature, max_tokens=new_tokens)
    rates = []
    for index, text in enumerate(held_out_code(prompts)):
        prompt = tokenizer.encode(text)
        sampling = Sampling(params, len(prompt), seed=seed + index)
        path = sample_text(target, prompt, sampling)
        rates.append(compare(target, drafter, path, sampling))
    every = torch.cat(rates, dim=1)
    return Coupling(every.shape[1], *every.mean(1).tolist())


def sample_text(model: Any, prompt: Sequence[int], sampling: Sampling) -> list[int]:
    """Returns the prompt and ``max_tokens`` tokens that the model samples after it."""
    served = TransformersModel("demo", model, model.config.vocab_size, _CACHE_BYTES)
    path = list(prompt)
    for _ in range(sampling.params.max_tokens):
        path += extend_one(served, Extension("text", Path.of(path), len(path), sampling)).tokens
    return path


@torch.inference_mode()
def compare(target: Any, drafter: Any, path: Sequence[int], sampling: Sampling) -> Tensor:
    """Returns the five rates at each position of an output: (5, positions), float64."""
    first = sampling.prompt_tokens
    ids = torch.tensor([path])
    theirs, own = (model(input_ids=ids).logits[0, first - 1 : -1] for model in (target, drafter))
    exact, rejection = (
        _accepted(theirs, own, path[:-1], replace(sampling, rejection=rejection))
        for rejection in (False, True)
    )
    p, q = ((logits.double() / sampling.params.temperature).softmax(-1) for logits in (theirs, own))
    overlap = torch.minimum(p, q).sum(-1)
    bound = overlap / (2 - overlap)
    return torch.stack([exact, rejection, (p * q).sum(-1), bound, overlap])


def _accepted(theirs: Tensor, own: Tensor, path: Sequence[int], sampling: Sampling) -> Tensor:
    """Returns 1 where the target's token is the draft, else 0."""
    drafts = choose(own, path, sampling.for_drafters)
    verdicts = choose(theirs, path, sampling, proposals=drafts.proposals)
    return (torch.tensor(drafts.tokens) == torch.tensor(verdicts.tokens)).double()


def main(
    prompts: Annotated[int, typer.Option(help="Number of texts.", min=1)] = 40,
    new_tokens: Annotated[int, typer.Option(help="Length of each.", min=1)] = 128,
    temperature: Annotated[list[float] | None, typer.Option(help="May be repeated.")] = None,
) -> None:
    """Print the demo pair's acceptance rates (one thread)."""
    torch.set_num_threads(1)
    table = Table("T", "positions", "exact", "rejection", "independent", "bound", "overlap")
    for each in temperature or (0.3, 0.7, 1.0, 1.5):
        found = demo_coupling(each, prompts, new_tokens)
        positions, *rates = astuple(found)
        table.add_row(str(each), str(positions), *(f"{rate:.3f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
