"""How to make a pair like the demo's: `python -m tests.demo.recipe OUT`.

The recipe: decoding time on a CPU goes with the number of layers and hardly with their width, so a
deep and thin target is slow enough to be worth speculating on, and still small enough to ship.

1. *Pretrain* a target of 30 layers on the standard library's sources. Documented functions come a
   second time, as conversations: the docstring asked, the function answered. The target has an
   early exit after the drafter's 7 layers, which costs it little and gives the drafter its start.
2. *Polish* it on its own greedy continuations. Tokens that repeat what it has just written become
   less likely (sequence-level unlikelihood, Welleck et al. 2019), so that it does not loop. On the
   others the exit learns the target's distribution, the target yields a little to the exit's, and
   both grow surer of what was chosen: near-ties are what a drafter gets wrong.
3. *Distil*: cut the drafter out of the target's first layers, and train it on what the finished
   target writes without repeating itself. The target's distribution is the teacher, its first
   choice above all.

Muon trains the matrices, as it needs clearly fewer tokens than Adam, which trains the rest. The
shipped pair was trained like that for half an hour on one core.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import track
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, get_wsd_schedule

from dsi_ray.demo.corpus import read_files, split_documents

VOCAB_SIZE, MAX_LENGTH = 2048, 1024
TARGET_LAYERS, DRAFTER_LAYERS = 30, 7
END, USER, ASSISTANT = "<|endoftext|>", "<|user|>", "<|assistant|>"
END_ID = 0
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    f"{ASSISTANT}{{{{ message['content'] }}}}{END}"
    f"{{% else %}}{USER}{{{{ message['content'] }}}}{{% endif %}}{{% endfor %}}"
    f"{{% if add_generation_prompt %}}{ASSISTANT}{{% endif %}}"
)
MAX_ANSWER_CHARS = 1500
EXIT_WEIGHT, FIRST_CHOICE_WEIGHT = 0.3, 0.5
UNLIKELIHOOD_WEIGHT, YIELDING_WEIGHT, COMMITMENT_WEIGHT = 2.0, 0.5, 0.15
PROMPT_TOKENS, NEW_TOKENS, ROWS = 32, 128, 16
REPEAT_NGRAM, REPEAT_WINDOW = 6, 64


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a chat template, for target and drafter."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_LENGTH,
    )


def conversations(text: str) -> Iterator[tuple[str, str]]:
    """Of each documented function the first line of its docstring, and its source."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            source = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])) + "\n"
            if len(source) <= MAX_ANSWER_CHARS:
                yield docstring.splitlines()[0], source


class Corpus:
    """Texts as token ids: documents and conversations, each with its end token."""

    def __init__(self, texts: list[str], tokenizer: PreTrainedTokenizerFast) -> None:
        documents = [piece + END for text in texts for piece in split_documents(text)]
        asked = [pair for text in texts for pair in conversations(text)]
        documents += [f"{USER}{request}{ASSISTANT}{answer}{END}" for request, answer in asked]
        encoded = tokenizer(documents, add_special_tokens=False, verbose=False)["input_ids"]
        shuffled = [encoded[index] for index in torch.randperm(len(encoded)).tolist()]
        self._tokens = torch.tensor([token for document in shuffled for token in document])
        self._starts = torch.tensor(
            [document[:PROMPT_TOKENS] for document in encoded if len(document) > PROMPT_TOKENS]
        )

    def batch(self, rows: int, length: int) -> Tensor:
        """Random stretches of the text: (rows, length)."""
        starts = torch.randint(len(self._tokens) - length, (rows, 1))
        return self._tokens[starts + torch.arange(length)]

    def prompts(self, rows: int) -> Tensor:
        """The beginnings of random documents: (rows, PROMPT_TOKENS)."""
        return self._starts[torch.randint(len(self._starts), (rows,))]


def new_model(layers: int) -> LlamaForCausalLM:
    """A fresh model; each block starts as the identity, which lets deep stacks learn."""
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
    )
    model = LlamaForCausalLM(config)
    for block in model.model.layers:
        nn.init.zeros_(block.self_attn.o_proj.weight)
        nn.init.zeros_(block.mlp.down_proj.weight)
    return model


def cut_drafter(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """A drafter that starts as the target's first layers, which were trained to exit."""
    drafter = new_model(DRAFTER_LAYERS)
    drafter.load_state_dict(target.state_dict(), strict=False)
    return drafter


def logits_of(model: LlamaForCausalLM, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The model's logits, and those it would give after the drafter's layers."""
    with torch.autocast("cpu", torch.bfloat16):
        out = model(tokens, output_hidden_states=True, use_cache=False)
        early = model.lm_head(model.model.norm(out.hidden_states[DRAFTER_LAYERS]))
    return out.logits.float(), early.float()


def train(
    model: LlamaForCausalLM, steps: int, muon: float, adam: float, loss_of: Callable[[int], Tensor]
) -> list[float]:
    """Takes ``steps`` steps at these learning rates at most; returns their losses."""
    matrices = [block for block in model.model.layers.parameters() if block.ndim == 2]
    others = [*model.model.embed_tokens.parameters(), *model.model.norm.parameters()]
    others += [norm for norm in model.model.layers.parameters() if norm.ndim == 1]
    optimizers = [torch.optim.Muon(matrices, lr=muon), torch.optim.Adam(others, lr=adam)]
    warm_up, decay = min(40, steps // 4), 7 * steps // 10
    schedules = [
        get_wsd_schedule(optimizer, warm_up, decay, num_training_steps=steps, min_lr_ratio=0.02)
        for optimizer in optimizers
    ]
    losses: list[float] = []
    for step in track(range(steps), "Training"):
        loss = loss_of(step)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for part in (*optimizers, *schedules):
            part.step()
        model.zero_grad()
        losses.append(loss.item())
    return losses


def pretrain(target: LlamaForCausalLM, corpus: Corpus, steps: int) -> list[float]:
    """Phase 1: text, at the full depth and at the exit."""

    def loss(step: int) -> Tensor:
        longer = 4 if step % 8 == 7 else 1
        return text_loss(target, corpus.batch(ROWS // 2 // longer, 256 * longer))

    return train(target, steps, 0.02, 0.004, loss)


def text_loss(target: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """Mean cross entropy of each token given those before it, and EXIT_WEIGHT times the exit's."""
    full, early = (
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        for logits in logits_of(target, tokens)
    )
    return full + EXIT_WEIGHT * early


def polish(target: LlamaForCausalLM, corpus: Corpus, steps: int) -> list[float]:
    """Phase 2: its own continuations, with some text to keep its knowledge."""

    def loss(_: int) -> Tensor:
        rows = continue_greedily(target, corpus.prompts(ROWS), NEW_TOKENS)
        return text_loss(target, corpus.batch(ROWS // 4, 256)) + own_text_loss(target, rows)

    return train(target, steps, 0.004, 0.0008, loss)


def own_text_loss(target: LlamaForCausalLM, rows: Tensor) -> Tensor:
    """Unlikelihood of tokens that repeat; elsewhere the distance of target and exit."""
    full, early = (logits[:, :-1].log_softmax(-1) for logits in logits_of(target, rows))
    own, repeated = written(rows, PROMPT_TOKENS)[:, 1:], repeats(rows)[:, 1:]
    repeated, fresh = own & repeated, own & ~repeated
    chosen = rows[:, 1:, None]
    full_chosen, early_chosen = full.gather(-1, chosen)[..., 0], early.gather(-1, chosen)[..., 0]
    unlikelihood = -UNLIKELIHOOD_WEIGHT * torch.log1p(-full_chosen.exp().clamp(max=0.9999))
    distance = divergence(full.detach(), early) + YIELDING_WEIGHT * divergence(early.detach(), full)
    going_on = rows[:, 1:] != END_ID
    commitment = -COMMITMENT_WEIGHT * (full_chosen + early_chosen) * going_on
    agreeing = ((distance + commitment) * fresh).sum() / fresh.sum()
    return agreeing + (unlikelihood * repeated).sum() / own.sum()


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Kullback-Leibler divergence of each position, from log-probabilities."""
    return functional.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)


def distil(
    target: LlamaForCausalLM, drafter: LlamaForCausalLM, corpus: Corpus, steps: int
) -> list[float]:
    """Phase 3: what the target writes without repeating itself teaches the drafter."""
    target.requires_grad_(False)

    def loss(_: int) -> Tensor:
        rows = continue_greedily(target, corpus.prompts(ROWS), NEW_TOKENS)
        fresh = (written(rows, PROMPT_TOKENS) & ~repeats(rows))[:, 1:]
        teacher, student = (
            logits_of(model, rows)[0][:, :-1][fresh].log_softmax(-1) for model in (target, drafter)
        )
        first = functional.nll_loss(student, teacher.argmax(-1))
        return divergence(teacher, student).mean() + FIRST_CHOICE_WEIGHT * first

    return train(drafter, steps, 0.01, 0.002, loss)


def continue_greedily(model: LlamaForCausalLM, prompts: Tensor, new_tokens: int) -> Tensor:
    """The prompts, all of one length, and what the model writes; filled up with end tokens."""
    ones = torch.ones_like(prompts)
    rows = model.generate(prompts, attention_mask=ones, max_new_tokens=new_tokens, do_sample=False)
    return functional.pad(rows, (0, prompts.shape[1] + new_tokens - rows.shape[1]), value=END_ID)


def written(sequences: Tensor, prompt_length: int) -> Tensor:
    """A mask of the tokens that the model wrote: after the prompt, up to its first end."""
    ends = sequences[:, prompt_length:] == END_ID
    mask = torch.zeros_like(sequences, dtype=torch.bool)
    mask[:, prompt_length:] = (ends.cumsum(1) - ends.long()) == 0
    return mask


def repeats(sequences: Tensor) -> Tensor:
    """A mask of the tokens that end a copy of `REPEAT_NGRAM` or more recent tokens."""
    rows, length = sequences.shape
    mask = torch.zeros(rows, length, dtype=torch.bool)
    for offset in range(1, min(REPEAT_WINDOW, length - REPEAT_NGRAM) + 1):
        same = sequences[:, offset:] == sequences[:, :-offset]
        mask[:, offset + REPEAT_NGRAM - 1 :] |= same.unfold(1, REPEAT_NGRAM, 1).all(-1)
    return mask


@torch.inference_mode()
def agreement(drafter: LlamaForCausalLM, sequences: Tensor, prompt_length: int) -> Tensor:
    """Of each token that the target wrote, whether it is the drafter's first choice."""
    own = written(sequences, prompt_length)[:, 1:]
    first = drafter(sequences).logits[:, :-1].argmax(-1)
    return (first == sequences[:, 1:])[own]


def main(
    out: Annotated[Path, typer.Argument(help="Folder for the two models.")],
    steps: Annotated[int, typer.Option(help="Of pretraining; the others take a tenth.")] = 4000,
) -> None:
    """Train the demo's tokenizer, target and drafter."""
    torch.manual_seed(1)
    texts = read_files(held_out=False)
    tokenizer = train_tokenizer(texts)
    corpus = Corpus(texts, tokenizer)
    target = new_model(TARGET_LAYERS)
    print("losses", pretrain(target, corpus, steps)[-1], polish(target, corpus, steps // 10)[-1])
    drafter = cut_drafter(target)
    print("distil", distil(target, drafter, corpus, steps // 10)[-1])
    held_out = Corpus(read_files(held_out=True), tokenizer).prompts(60)
    rows = continue_greedily(target, held_out, NEW_TOKENS)
    print("agreement", agreement(drafter, rows, PROMPT_TOKENS).float().mean().item())
    for model, name in ((target, "target"), (drafter, "drafter")):
        model.to(torch.bfloat16).save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)


if __name__ == "__main__":
    typer.run(main)
