"""What the dashboard shows: a table of panels."""

from dataclasses import replace
from functools import partial

from deployments.grafana.panel import WIDTH, Panel, Row, percentiles, rate
from dsi_ray.runtime.metrics.catalogue import PREFIX

_TARGETS = '{server=~"target-.*"}'
_USEFUL = '{outcome=~"accepted|rejected"}'
_SERVERS = f"sum({PREFIX}target_servers)"
_BUSY = rate("server_busy_seconds_total", where=_TARGETS)
_JUDGED = f"({rate('accepted_tokens_total')} + {rate('rejected_tokens_total')})"
_TOKENS_PER_S = f"{rate('decoded_tokens_total')} / {rate('decode_seconds_total')}"
_KV_READ = " + ".join(rate(f"kv_{kind}_tokens_total") for kind in ("computed", "reused", "shared"))

_share = partial(Panel, unit="percentunit", limits=(0, 1))
"""A panel of parts of a whole."""

_SPEED_UP = Panel(
    "Speed-up over non-SI",
    "Time of a target forward over the time of an output token: above 1 DSI is faster than the "
    "target alone.",
    {"speed-up": f"avg({PREFIX}target_forward_seconds) * {_TOKENS_PER_S}"},
    unit="suffix:×",
    floor=1,
)
_SP_UTILISATION = _share(
    "SP utilisation",
    "Share of the target servers' time in forwards, and in forwards that gave the text something.",
    {
        "busy": f"{_BUSY} / {_SERVERS}",
        "useful": f"{rate('target_busy_seconds_total', where=_USEFUL)} / {_SERVERS}",
    },
)
_ACCEPTANCE = _share(
    "Acceptance",
    "Share of guessed positions where the target agreed.",
    {"acceptance": f"{rate('accepted_tokens_total')} / {_JUDGED}"},
)
_WASTED = _share(
    "Wasted forwards",
    "Share of target forwards that gave the text nothing.",
    {"wasted": f"{rate('wasted_forwards_total')} / {rate('target_forwards_total')}"},
)
_TOKENS = Panel(
    "Output tokens a second",
    "Of all requests together.",
    {"tokens/s": rate("committed_tokens_total")},
)
_ALIVE = _share(
    "Target servers alive",
    "Share of those that there are to be.",
    {"alive": f"{_SERVERS} / sum({PREFIX}target_servers_configured)"},
    floor=1,
)


def _glance(panel: Panel, *legends: str) -> Panel:
    """The last value of a panel's expressions, of all or of some."""
    title = ", ".join((panel.title, *legends))
    targets = {legend: panel.targets[legend] for legend in legends or panel.targets}
    return replace(panel, title=title, kind="stat", width=WIDTH // 6, targets=targets)


_REQUESTS = [
    _TOKENS,
    Panel(
        "HTTP requests by status",
        "Answers a second.",
        {"{{status}}": rate("http_requests_total", by="status")},
        unit="reqps",
        stacked=True,
    ),
    Panel(
        "Requests",
        "Generations in the groups, and requests that wait to be let in.",
        {
            "running": f"sum({PREFIX}running_requests)",
            # Where several processes speak HTTP, each scrape meets one of them.
            "queued": f"sum(last_over_time({PREFIX}queued_requests[$__rate_interval]))",
        },
    ),
    Panel(
        "Wait of requests",
        "Until they were let in.",
        percentiles("queue_wait_seconds"),
        unit="s",
    ),
    Panel(
        "Refused requests",
        "A second, by reason.",
        {"{{reason}}": rate("refused_requests_total", by="reason")},
        unit="reqps",
    ),
    Panel(
        "Wait of verifications",
        "From sending a task to a target server to its forward.",
        percentiles("verification_queue_seconds"),
        unit="s",
    ),
    Panel(
        "Verifications by how they ended",
        "A second. late: what was reported after it had been replaced or cancelled.",
        {
            "{{reason}}": rate("task_ends_total", by="reason", where='{role="target"}'),
            "late": rate("late_reports_total", where='{role="target"}'),
        },
        unit="ops",
    ),
    Panel(
        "Messages per token",
        "What crossed a process for each output token.",
        {"messages": f"{rate('messages_total')} / {rate('committed_tokens_total')}"},
    ),
    Panel(
        "Generations by how they ended",
        "A second.",
        {"{{outcome}}": rate("ended_requests_total", by="outcome")},
        unit="reqps",
    ),
]

ROWS = [
    Row(
        "Does speculation parallelism pay?",
        [
            _glance(_SPEED_UP),
            _glance(_TOKENS),
            _glance(_SP_UTILISATION, "useful"),
            _glance(_ACCEPTANCE),
            _glance(_WASTED),
            _glance(_ALIVE),
        ],
        height=4,
    ),
    Row(
        "Speculation parallelism",
        [
            _SPEED_UP,
            Panel(
                "Tokens a second of one request",
                "What a client gets, and what the target would give it without drafts.",
                {
                    "DSI": _TOKENS_PER_S,
                    "target alone": f"1 / avg({PREFIX}target_forward_seconds)",
                },
            ),
            _SP_UTILISATION,
            Panel(
                "SP degree",
                "Target servers. busy: at one moment, in the mean. required: with which no "
                "verification of one request waits (Equation 1); more bring nothing.",
                {
                    "configured": f"sum({PREFIX}target_servers_configured)",
                    "alive": _SERVERS,
                    "busy": _BUSY,
                    "required": f"sum({PREFIX}target_servers_required)",
                },
            ),
            Panel(
                "Time of target servers",
                "Seconds a second, by what became of the work. Wasted: unused and cancelled.",
                {"{{outcome}}": rate("target_busy_seconds_total", by="outcome")},
                unit="s",
                stacked=True,
            ),
            Panel(
                "Time of drafters",
                "Seconds a second, by what became of the work.",
                {"{{outcome}}": rate("drafter_busy_seconds_total", by="outcome")},
                unit="s",
                stacked=True,
            ),
            _share(
                "Servers",
                "A lane a server: share of its time in forwards.",
                {"{{server}}": rate("server_busy_seconds_total", by="server")},
                kind="status-history",
                width=WIDTH,
            ),
        ],
    ),
    Row(
        "Drafts",
        [
            _ACCEPTANCE,
            _share(
                "Acceptance by position",
                "Share of runs of drafts that were right up to this position and at it, over all "
                "of the time that is shown.",
                {
                    # It never grows with the position: so this is the order of positions.
                    "{{position}}": "sort_desc(sum by (position) "
                    f"(increase({PREFIX}accepted_tokens_at_position_total[$__range])) "
                    f"/ scalar(sum(increase({PREFIX}draft_runs_total[$__range]))))"
                },
                kind="bargauge",
            ),
            Panel(
                "Lookahead",
                "Drafts in a verification task, for a request that is alone.",
                {"lookahead": f"avg({PREFIX}lookahead)"},
            ),
            _WASTED,
        ],
    ),
    Row(
        "Latency",
        [
            Panel(
                "Time to first token",
                "From the coordinator's receipt.",
                percentiles("time_to_first_token_seconds"),
                unit="s",
            ),
            Panel(
                "Time per output token",
                "Of each request the mean of the tokens after the first.",
                percentiles("time_per_output_token_seconds"),
                unit="s",
            ),
            Panel(
                "Generations, end to end",
                "From the coordinator's receipt to the last token.",
                percentiles("generation_seconds"),
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
    Row("Requests and queues", [replace(panel, width=WIDTH // 3) for panel in _REQUESTS]),
    Row(
        "KV cache",
        [
            Panel(
                "Memory",
                "Of all servers: of requests in flight, left by former ones, and the budget.",
                {kind: f"sum({PREFIX}kv_{kind}_bytes)" for kind in ("used", "cached", "budget")},
                unit="bytes",
            ),
            _share(
                "Fill by server",
                "Share of the budget.",
                {
                    "{{server}}": f"(sum by (server) ({PREFIX}kv_used_bytes) "
                    f"+ sum by (server) ({PREFIX}kv_cached_bytes)) "
                    f"/ (sum by (server) ({PREFIX}kv_budget_bytes) > 0)"
                },
            ),
            _share(
                "Prefix hits",
                "Share of all tokens that were found in another request's cache.",
                {"hits": f"{rate('kv_shared_tokens_total')} / ({_KV_READ})"},
            ),
            Panel(
                "Evictions",
                "Blocks of former requests, and requests in flight, that made room; a second.",
                {
                    "evictions": rate("kv_evictions_total"),
                    "preemptions": rate("kv_preemptions_total"),
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
                width=WIDTH // 3,
                limits=(0, 1),
                floor=1,
            ),
            Panel(
                "Deaths and restarts",
                "In five minutes.",
                {
                    "{{server}} died": "sum by (server) "
                    f"(increase({PREFIX}server_losses_total[5m]))",
                    "restarts": f"sum(increase({PREFIX}server_restarts_total[5m]))",
                },
                width=WIDTH // 3,
            ),
            Panel(
                "Moves of requests",
                "To another target server, because theirs died or another has more room; a second.",
                {"moves": rate("moves_total"), "tokens computed again": rate("moved_tokens_total")},
                unit="ops",
                width=WIDTH // 3,
            ),
        ],
    ),
]
