"""What the server's counters say."""

import asyncio
import re

import httpx
import pytest

from loadtest.errors import LoadTestError
from loadtest.server import ServerFigures, parse_metrics, server_figures, wait_until_ready

BEFORE = """
# TYPE dsi_ray_target_busy_seconds counter
dsi_ray_target_busy_seconds_total{server="0"} 10
dsi_ray_target_busy_seconds_total{server="1"} 20
# TYPE dsi_ray_target_servers gauge
dsi_ray_target_servers 2
# TYPE dsi_ray_completion_tokens counter
dsi_ray_completion_tokens_total 100
# TYPE dsi_ray_messages counter
dsi_ray_messages_total 7
# TYPE dsi_ray_drafted_tokens counter
dsi_ray_drafted_tokens_total 50
# TYPE dsi_ray_queue_wait_seconds histogram
dsi_ray_queue_wait_seconds_bucket{le="+Inf"} 4
dsi_ray_queue_wait_seconds_count 4
dsi_ray_queue_wait_seconds_sum 2
"""
AFTER = BEFORE.replace("} 10", "} 13").replace("} 20", "} 22").replace(" 100", " 150")
AFTER = AFTER.replace("_count 4", "_count 14").replace("_sum 2", "_sum 5")


def test_figures_are_of_the_window_alone_and_summed_over_labels() -> None:
    after = parse_metrics(AFTER.replace("_total 7", "_total 132"))
    found = server_figures(parse_metrics(BEFORE), after, seconds=4)
    assert found == ServerFigures(
        sp_utilisation=5 / (2 * 4),
        messages_per_token=125 / 50,
        drafted_tokens=0,
        queue_wait_s=3 / 10,
    )


def test_a_server_that_was_restarted_reports_nothing_for_its_counters() -> None:
    after = parse_metrics(AFTER.replace("_total 7", "_total 1"))
    assert server_figures(parse_metrics(BEFORE), after, 4).messages_per_token is None


def test_a_counter_begins_with_its_first_event() -> None:
    refused = (
        '# TYPE dsi_ray_refused_requests counter\ndsi_ray_refused_requests_total{reason="x"} 3\n'
    )
    after = parse_metrics(AFTER + refused)
    assert server_figures(parse_metrics(BEFORE), after, 4).refused_requests == 3
    assert server_figures({}, after, 4) == ServerFigures()


def test_a_server_without_metrics() -> None:
    assert server_figures({}, {}, 4) == ServerFigures()


@pytest.mark.parametrize(
    ("base", "status", "advice"),
    [("http://host", 401, "--api-key"), ("http://host/below", 404, "is the address right?")],
)
def test_a_server_that_refuses_is_named_with_what_to_do(
    base: str, status: int, advice: str
) -> None:
    async def ask() -> None:
        refusing = httpx.MockTransport(lambda _: httpx.Response(status))
        async with httpx.AsyncClient(base_url=base, transport=refusing) as http:
            await wait_until_ready(http, timeout_s=1)

    message = f"^{base}/v1/models: HTTP {status}; .*{re.escape(advice)}"
    with pytest.raises(LoadTestError, match=message):
        asyncio.run(ask())
