"""When the requests of an open loop are due."""

from collections.abc import Iterator
from itertools import accumulate, count, islice, repeat, takewhile

import numpy as np

from loadtest.load import Constant, Gamma, OpenLoad, Poisson, Ramp


def arrivals(load: OpenLoad, rng: np.random.Generator) -> list[float]:
    """Returns the times in seconds, in order, at which requests are due; the load begins at 0."""
    times = _endless(load, rng)
    if load.duration_s is not None:
        end = load.duration_s
        times = takewhile(lambda time: time < end, times)
    return list(islice(times, load.requests))


def _endless(load: OpenLoad, rng: np.random.Generator) -> Iterator[float]:
    match load:
        case Constant(rate=rate):
            return (index / rate for index in count())
        case Poisson(rate=rate):
            return _gamma(rng, 1.0, rate)
        case Gamma(rate=rate, burstiness=shape):
            return _gamma(rng, shape, rate)
        case Ramp():
            return _ramp(load, _gamma(rng, 1.0, 1.0))


def _gamma(rng: np.random.Generator, shape: float, rate: float) -> Iterator[float]:
    return accumulate(map(rng.gamma, repeat(shape), repeat(1 / (rate * shape))))


def _ramp(load: Ramp, unit: Iterator[float]) -> Iterator[float]:
    """Stretches a Poisson process of rate 1: the k-th event is where the expected number of
    arrivals, ``rate * t + slope * t^2 / 2``, reaches the unit process's time."""
    slope = (load.to_rate - load.rate) / load.duration_s
    for expected in unit:
        square = load.rate**2 + 2 * slope * expected
        if square < 0:
            # A falling rate would reach zero before: after the end of the ramp.
            return
        yield 2 * expected / (load.rate + square**0.5)
