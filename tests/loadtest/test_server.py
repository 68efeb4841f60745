"""What the server's counters say."""

from loadtest.server import ServerFigures, parse_metrics, server_figures

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
"""
AFTER = BEFORE.replace("} 10", "} 13").replace("} 20", "} 22").replace(" 100", " 150")


def test_figures_are_of_the_window_alone_and_summed_over_labels() -> None:
    after = parse_metrics(AFTER.replace("_total 7", "_total 132"))
    found = server_figures(parse_metrics(BEFORE), after, seconds=4)
    assert found == ServerFigures(
        sp_utilisation=5 / (2 * 4), messages_per_token=125 / 50, drafted_tokens=0
    )


def test_a_server_that_was_restarted_reports_nothing_for_its_counters() -> None:
    after = parse_metrics(AFTER.replace("_total 7", "_total 1"))
    assert server_figures(parse_metrics(BEFORE), after, 4).messages_per_token is None


def test_a_server_without_metrics() -> None:
    assert server_figures({}, {}, 4) == ServerFigures()
