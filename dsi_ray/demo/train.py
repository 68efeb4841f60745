"""Make the demo pair: `python -m dsi_ray.demo.train --out DIR --minutes N`.

A phase whose checkpoint is in the output folder already is not repeated, so a stopped training can
be taken up again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers import LlamaForCausalLM

from dsi_ray.demo.corpus import read_files
from dsi_ray.demo.models import MAX_LENGTH, TARGET_LAYERS, cut_drafter, new_model, save
from dsi_ray.demo.pretrain import pretrain
from dsi_ray.demo.stream import TokenStream, tokenize_documents
from dsi_ray.demo.tokenizer import train_tokenizer

SEED = 1
PRETRAIN_SHARE = 0.5

log = logging.getLogger(__name__)


def main(
    out: Annotated[Path, typer.Option(help="Folder for the models, the checkpoints and the log.")],
    minutes: Annotated[float, typer.Option(help="Time to train for, all phases together.")] = 44,
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
    log.info(
        "%d characters, %d documents, %d tokens",
        sum(map(len, texts)),
        len(documents),
        sum(map(len, documents)),
    )
    held_out = TokenStream(tokenize_documents(read_files(held_out=True), tokenizer), SEED)
    stream = TokenStream(documents, SEED)
    target = new_model(TARGET_LAYERS)
    checkpoint = out / "pretrained.pt"
    if checkpoint.exists():
        target.load_state_dict(torch.load(checkpoint))
    else:
        pretrain(target, stream, held_out.batch(32, 256), PRETRAIN_SHARE * minutes, checkpoint)
    save(target, tokenizer, out / "target")
    save(cut_drafter(target), tokenizer, out / "drafter")


if __name__ == "__main__":
    typer.run(main)
