"""What the dashboard shows: a table of panels."""

from dataclasses import dataclass, field

from dsi_ray.runtime.metrics.catalogue import PREFIX

WIDTH = 24
"""Of a row, in Grafana's units."""

Targets = dict[str, str]
"""Expressions by legend."""


@dataclass(frozen=True)
class Panel:
    """One picture; two stand side by side."""

    title: str
    description: str
    targets: Targets
    unit: str = "short"
    kind: str = "timeseries"
    width: int = WIDTH // 2
    stacked: bool = False
    limits: tuple[float | None, float | None] = (0, None)


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: list[Panel] = field(default_factory=list)


def _rate(name: str, by: str = "", where: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({PREFIX}{name}{where}[$__rate_interval]))"


def _percentiles(name: str) -> Targets:
    buckets = _rate(f"{name}_bucket", by="le")
    return {
        f"p{percent}": f"histogram_quantile({percent / 100:g}, {buckets})"
        for percent in (50, 90, 99)
    }


_TARGETS = '{server=~"target-.*"}'
_USEFUL = '{outcome=~"accepted|rejected"}'
_SERVERS = f"sum({PREFIX}target_servers)"
_JUDGED = f"({_rate('accepted_tokens_total')} + {_rate('rejected_tokens_total')})"
_KV_READ = " + ".join(_rate(f"kv_{kind}_tokens_total") for kind in ("computed", "reused", "shared"))

ROWS = [
    Row(
        "Speculation parallelism",
        [
            Panel(
                "SP utilisation",
                "Share of the target servers' time in forwards, and in forwards that gave the text "
                "something.",
                {
                    "busy": f"{_rate('server_busy_seconds_total', where=_TARGETS)} / {_SERVERS}",
                    "useful": f"{_rate('target_busy_seconds_total', where=_USEFUL)} / {_SERVERS}",
                },
                unit="percentunit",
                limits=(0, 1),
            ),
            Panel(
                "SP degree",
                "Target servers. required: with which no verification of one request waits "
                "(Equation 1).",
                {
                    state: f"sum({PREFIX}target_servers{suffix})"
                    for state, suffix in {
                        "configured": "_configured",
                        "alive": "",
                        "busy": "_busy",
                        "required": "_required",
                    }.items()
                },
            ),
            Panel(
                "Time of target servers",
                "Seconds a second, by what became of the work. Wasted: unused and cancelled.",
                {"{{outcome}}": _rate("target_busy_seconds_total", by="outcome")},
                unit="s",
                stacked=True,
            ),
            Panel(
                "Time of drafters",
                "Seconds a second, by what became of the work.",
                {"{{outcome}}": _rate("drafter_busy_seconds_total", by="outcome")},
                unit="s",
                stacked=True,
            ),
            Panel(
                "Servers",
                "A lane a server: share of its time in forwards.",
                {"{{server}}": _rate("server_busy_seconds_total", by="server")},
                unit="percentunit",
                kind="state-timeline",
                width=WIDTH,
                limits=(0, 1),
            ),
        ],
    ),
    Row(
        "Drafts",
        [
            Panel(
                "Acceptance",
                "Share of guessed positions where the target agreed.",
                {"acceptance": f"{_rate('accepted_tokens_total')} / {_JUDGED}"},
                unit="percentunit",
                limits=(0, 1),
            ),
            Panel(
                "Acceptance by position",
                "Share of runs of drafts that were right up to this position and at it.",
                {
                    "{{position}}": f"{_rate('accepted_tokens_at_position_total', by='position')} "
                    f"/ scalar({_rate('draft_runs_total')})"
                },
                unit="percentunit",
                kind="bargauge",
                limits=(0, 1),
            ),
            Panel(
                "Lookahead",
                "Drafts in a verification task, for a request that is alone.",
                {"lookahead": f"avg({PREFIX}lookahead)"},
            ),
            Panel(
                "Wasted forwards",
                "Share of target forwards that gave the text nothing.",
                {"wasted": f"{_rate('wasted_forwards_total')} / {_rate('target_forwards_total')}"},
                unit="percentunit",
                limits=(0, 1),
            ),
        ],
    ),
    Row(
        "Latency",
        [
            Panel(
                "Speed-up over non-SI",
                "Time of a target forward over the time of an output token: above 1 DSI is faster "
                "than the target alone.",
                {
                    "speed-up": f"avg({PREFIX}target_forward_seconds) "
                    f"* {_rate('decoded_tokens_total')} / {_rate('decode_seconds_total')}"
                },
            ),
            Panel(
                "Output tokens a second",
                "Of all requests together.",
                {"tokens/s": _rate("committed_tokens_total")},
            ),
            Panel(
                "Time to first token",
                "From the coordinator's receipt.",
                _percentiles("time_to_first_token_seconds"),
                unit="s",
            ),
            Panel(
                "Time per output token",
                "Of each request the mean of the tokens after the first.",
                _percentiles("time_per_output_token_seconds"),
                unit="s",
            ),
            Panel(
                "Generations, end to end",
                "From the coordinator's receipt to the last token.",
                _percentiles("generation_seconds"),
                unit="s",
            ),
            Panel(
                "Forwards and messages",
                "Latencies in force.",
                {
                    "target forward": f"avg({PREFIX}target_forward_seconds)",
                    "drafter forward": f"avg({PREFIX}drafter_forward_seconds)",
                    "message": f"avg({PREFIX}message_seconds)",
                },
                unit="s",
            ),
        ],
    ),
    Row(
        "Requests and queues",
        [
            Panel(
                "HTTP requests by status",
                "Answers a second.",
                {"{{status}}": _rate("http_requests_total", by="status")},
                unit="reqps",
                stacked=True,
            ),
            Panel(
                "Requests",
                "Generations in the groups, and requests that wait to be let in.",
                {
                    "running": f"sum({PREFIX}running_requests)",
                    "queued": f"sum({PREFIX}queued_requests)",
                },
            ),
            Panel(
                "Wait of requests",
                "Until they were let in.",
                _percentiles("queue_wait_seconds"),
                unit="s",
            ),
            Panel(
                "Refused requests",
                "A second, by reason.",
                {"{{reason}}": _rate("refused_requests_total", by="reason")},
                unit="reqps",
            ),
            Panel(
                "Wait of verifications",
                "From sending a task to a target server to its forward.",
                _percentiles("verification_queue_seconds"),
                unit="s",
            ),
            Panel(
                "Tasks by how they ended",
                "A second.",
                {
                    "{{role}} {{reason}}": _rate("task_ends_total", by="role, reason"),
                    "{{role}} late": _rate("late_reports_total", by="role"),
                },
                unit="ops",
            ),
            Panel(
                "Messages per token",
                "What crossed a process for each output token.",
                {"messages": f"{_rate('messages_total')} / {_rate('committed_tokens_total')}"},
            ),
            Panel(
                "Generations by how they ended",
                "A second.",
                {"{{outcome}}": _rate("ended_requests_total", by="outcome")},
                unit="reqps",
            ),
        ],
    ),
    Row(
        "KV cache",
        [
            Panel(
                "Memory",
                "Of all servers: of requests in flight, left by former ones, and the budget.",
                {kind: f"sum({PREFIX}kv_{kind}_bytes)" for kind in ("used", "cached", "budget")},
                unit="bytes",
            ),
            Panel(
                "Fill by server",
                "Share of the budget.",
                {
                    "{{server}}": f"(sum by (server) ({PREFIX}kv_used_bytes) "
                    f"+ sum by (server) ({PREFIX}kv_cached_bytes)) "
                    f"/ (sum by (server) ({PREFIX}kv_budget_bytes) > 0)"
                },
                unit="percentunit",
                limits=(0, 1),
            ),
            Panel(
                "Prefix hits",
                "Share of all tokens that were found in another request's cache.",
                {"hits": f"{_rate('kv_shared_tokens_total')} / ({_KV_READ})"},
                unit="percentunit",
                limits=(0, 1),
            ),
            Panel(
                "Evictions",
                "Blocks of former requests, and requests in flight, that made room; a second.",
                {
                    "evictions": _rate("kv_evictions_total"),
                    "preemptions": _rate("kv_preemptions_total"),
                },
                unit="ops",
            ),
        ],
    ),
    Row(
        "Faults",
        [
            Panel(
                "Servers that are up",
                "1 is up, 0 is down.",
                {"{{server}}": f"min by (server) ({PREFIX}server_up)"},
                kind="state-timeline",
                limits=(0, 1),
            ),
            Panel(
                "Deaths, restarts and moves",
                "In five minutes. A move is a request that got another target server.",
                {
                    "{{server}} died": "sum by (server) "
                    f"(increase({PREFIX}server_losses_total[5m]))",
                    "restarts": f"sum(increase({PREFIX}server_restarts_total[5m]))",
                    "moves": f"sum(increase({PREFIX}moves_total[5m]))",
                },
            ),
        ],
    ),
]
