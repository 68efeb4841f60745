"""A model on two ranks says what it says on one."""

import contextlib
import itertools
import multiprocessing
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection

import pytest
import torch
from tiny import CONFIGS, LAYERS, VOCAB, expected_tokens, serve, tiny_model

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import (
    Extension,
    ForwardCancelled,
    ModelError,
    NoRoom,
    Sampling,
    extend_one,
)
from dsi_ray.models.checkpoints.checkpoint import refuse_unshardable
from dsi_ray.models.forward.parallel import RankLeader
from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.load import follow, load_model
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)

KINDS = ["gemma2", "gpt_neox", "llama"]
BLOCKS = 4

Split = Callable[[str], AbstractContextManager[TransformersModel]]


def follow_all(orders: Connection) -> None:
    """The second rank of one model after the other."""
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            config, meeting = orders.recv()
            follow(config, Role.TARGET, 1, meeting)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Split]:
    """Loads a model on this process and another, with room for `BLOCKS` blocks."""
    orders, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=follow_all, args=(theirs,))
    process.start()
    theirs.close()

    @contextlib.contextmanager
    def split(kind: str) -> Iterator[TransformersModel]:
        folder = tmp_path_factory.mktemp(kind)
        tiny_model(kind).save_pretrained(folder)
        room = BLOCKS * BLOCK_TOKENS * serve(kind).info.kv_bytes_per_token // 2
        config = ModelConfig(model=str(folder), parallel=2, dtype="float64", kv_cache_bytes=room)
        with contextlib.closing(RankLeader(config.ranks)) as leader:
            orders.send((config, leader.meeting))
            model = load_model(config, Role.TARGET, leader=leader)
            assert isinstance(model, TransformersModel)
            yield model

    yield split
    orders.close()
    process.join()
    assert process.exitcode == 0


class StopsAt:
    """Is set when it is asked for the ``layer``-th time."""

    def __init__(self, layer: int) -> None:
        self._asked = itertools.count()
        self._layer = layer

    def is_set(self) -> bool:
        return next(self._asked) >= self._layer


def check(model: TransformersModel, kind: str, parts: dict[str, tuple[int, ...]]) -> None:
    """Compares one forward for several sessions with forwards of one rank without a cache."""
    starts = {session: (len(path) + 1) // 2 for session, path in parts.items()}
    batch = [Extension(name, path, starts[name], GREEDY) for name, path in parts.items()]
    outcomes = model.extend(batch, threading.Event())
    assert not isinstance(outcomes[0], NoRoom)
    for part, found in zip(batch, outcomes, strict=True):
        if isinstance(found, NoRoom):
            continue
        assert not isinstance(found, Exception)
        assert found.tokens == expected_tokens(kind, part.tokens[:])[part.start - 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_one_rank(split: Split, kind: str) -> None:
    """Through batches, rejections, releases, evictions and stopped forwards."""
    chance = random.Random(kind)
    paths: dict[str, list[int]] = {session: [1] for session in "abcd"}
    with split(kind) as model:
        assert model.info.kv_bytes_per_token * 2 == serve(kind).info.kv_bytes_per_token
        for _ in range(30):
            batch = chance.sample("abcd", chance.randint(1, 3))
            for session in batch:
                del paths[session][chance.randint(1, len(paths[session])) :]
                paths[session] += chance.choices(range(VOCAB), k=chance.randint(1, 9))
                del paths[session][40:]
            if chance.random() < 0.2:
                stopped = Extension(batch[0], tuple(paths[batch[0]]) + (7, 7), 1, GREEDY)
                with pytest.raises(ForwardCancelled):
                    extend_one(model, stopped, StopsAt(chance.randrange(LAYERS)))
            if chance.random() < 0.2:
                model.release(batch[0])
            check(model, kind, {session: tuple(paths[session]) for session in batch})
        stats = model.cache_stats
        assert stats.preemptions > 0
        assert stats.reused_tokens > 0


@pytest.mark.parametrize(
    ("kind", "ranks", "error"),
    [
        ("gpt2", 2, "no plan for tensor parallelism; use parallel_style: pipeline"),
        ("llama", 4, "2 num_key_value_heads cannot be split over 4 devices"),
        ("gpt_neox", 3, "4 num_attention_heads cannot be split over 3 devices"),
    ],
)
def test_what_cannot_be_split_is_refused(kind: str, ranks: int, error: str) -> None:
    refuse_unshardable(kind, CONFIGS[kind], 1)
    with pytest.raises(ModelError, match=error):
        refuse_unshardable(kind, CONFIGS[kind], ranks)
