"""The requests of a scenario for locust, which decides when to send them.

``locust -f loadtest/locustfile.py --host http://127.0.0.1:8000 --scenario closed``
"""

import os
import time
from itertools import count
from typing import Any

import numpy as np
from locust import HttpUser, events, task

from loadtest.record import Record
from loadtest.request import requests
from loadtest.scenario import parse, read
from loadtest.stream import Stream

_numbers = count()


@events.init_command_line_parser.add_listener
def _add_options(parser: Any) -> None:
    parser.add_argument("--scenario", default="smoke", help="Name or path; its load is not used.")
    parser.add_argument("--model", default="", help="Default: the server's first.")


class Reader(HttpUser):
    """Asks again as soon as it has its answer: a client of a closed loop.

    Locust's own row for the request ends with the headers. TTFT, TPOT and E2E, rows of their own,
    are of whole answers.
    """

    def on_start(self) -> None:
        """Finds out what to ask."""
        options = self.environment.parsed_options
        scenario = parse(read(options.scenario))
        if key := os.environ.get("OPENAI_API_KEY"):
            self.client.headers["Authorization"] = f"Bearer {key}"
        model = options.model or self.client.get("/v1/models").json()["data"][0]["id"]
        # Every user asks something else.
        rng = np.random.default_rng((scenario.seed, next(_numbers)))
        self._requests = requests(scenario, model, rng)

    @task
    def ask(self) -> None:
        """Asks once."""
        request = next(self._requests)
        stream = Stream()
        sent = time.perf_counter()
        with self.client.post(
            request.path, json=request.body, stream=True, catch_response=True
        ) as response:
            if not response.ok:
                response.failure(f"http_{response.status_code}")
                return
            for line in response.iter_lines():
                stream.feed(line.decode(), time.perf_counter() - sent)
            stream.close()
            if stream.failure is not None:
                response.failure(stream.failure[0])
                return
        self._report(request.path, stream)

    def _report(self, path: str, stream: Stream) -> None:
        record = Record(
            point="",
            index=0,
            scheduled_s=0.0,
            sent_s=0.0,
            chunks_s=tuple(stream.chunks_s),
            end_s=stream.end_s or 0.0,
            completion_tokens=stream.completion_tokens,
        )
        figures = {"TTFT": record.ttft_s, "TPOT": record.tpot_s, "E2E": record.e2e_s}
        for kind, seconds in figures.items():
            if seconds is not None:
                self.environment.events.request.fire(
                    request_type=kind,
                    name=path,
                    response_time=1e3 * seconds,
                    response_length=stream.completion_tokens or 0,
                    exception=None,
                    context={},
                )
