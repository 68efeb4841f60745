"""Make the demo pair: `python -m dsi_ray.demo.train --out DIR --minutes N`.

A phase whose checkpoint is in the output folder already is not repeated, so a stopped training can
be taken up again.  The layers are compiled, which needs a C++ compiler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers import LlamaForCausalLM

from dsi_ray.demo.corpus import read_files
from dsi_ray.demo.distil import distil
from dsi_ray.demo.models import MAX_LENGTH, TARGET_LAYERS, cut_drafter, new_model, save
from dsi_ray.demo.polish import polish
from dsi_ray.demo.pretrain import pretrain, validation_loss
from dsi_ray.demo.stream import TokenStream, tokenize_documents
from dsi_ray.demo.tokenizer import train_tokenizer

SEED = 1
PRETRAIN_SHARE, POLISH_SHARE, DISTIL_SHARE = 0.76, 0.115, 0.125

log = logging.getLogger(__name__)


def main(
    out: Annotated[Path, typer.Option(help="Folder for the models, the checkpoints and the log.")],
    minutes: Annotated[float, typer.Option(help="Time to train for, all phases together.")] = 29,
    threads: Annotated[int, typer.Option(help="CPU threads to use.")] = 1,
) -> None:
    """Train the demo's tokenizer, target and drafter on the standard library's sources."""
    out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=out / "train.log", level=logging.INFO, format="%(asctime)s %(message)s"
    )
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    texts = read_files(held_out=False)
    tokenizer = train_tokenizer(texts, MAX_LENGTH)
    documents = tokenize_documents(texts, tokenizer)
    log.info("%d files, %d characters", len(texts), sum(map(len, texts)))
    log.info("%d documents, %d tokens", len(documents), sum(map(len, documents)))
    held_out = TokenStream(tokenize_documents(read_files(held_out=True), tokenizer), SEED)
    held_out_rows = held_out.batch(32, 256)

    target = new_model(TARGET_LAYERS)
    partial = out / "pretrain.partial"
    _once(
        out / "pretrain.pt",
        target,
        lambda: pretrain(
            target, TokenStream(documents, SEED), held_out_rows, PRETRAIN_SHARE * minutes, partial
        ),
    )
    log.info("held-out loss %.3f", validation_loss(target, held_out_rows))
    _once(
        out / "polish.pt",
        target,
        lambda: polish(target, TokenStream(documents, SEED + 1), POLISH_SHARE * minutes),
    )
    log.info("held-out loss %.3f", validation_loss(target, held_out_rows))
    save(target, tokenizer, out / "target")
    drafter = cut_drafter(target)
    save(drafter, tokenizer, out / "drafter")
    distil(target, drafter, TokenStream(documents, SEED + 2), DISTIL_SHARE * minutes)
    save(drafter, tokenizer, out / "drafter")


def _once(checkpoint: Path, model: LlamaForCausalLM, train: Callable[[], None]) -> None:
    """Load `model` from its checkpoint, or train it and write the checkpoint."""
    if checkpoint.exists():
        model.load_state_dict(torch.load(checkpoint))
        return
    train()
    torch.save(model.state_dict(), checkpoint)


if __name__ == "__main__":
    typer.run(main)
