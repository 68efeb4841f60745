"""TargetPool: which target servers serve which request.

With more servers than requests each request has servers of its own: its share is its SP degree.
With more requests than servers each has one, and a server computes its requests together.
A request that may be what kills servers is isolated: it shares its servers with nobody.
"""

from collections.abc import Collection, Iterable

from dsi_ray.core.messages import ServerId


class TargetPool:
    """Shares the target servers among requests.

    Which of several servers a request gives up is for the caller to choose, who knows which one it
    needs least.
    """

    def __init__(self, servers: Iterable[ServerId]) -> None:
        self._users: dict[ServerId, set[str]] = {server: set() for server in servers}
        self._held: dict[str, list[ServerId]] = {}
        self._most: dict[str, int] = {}
        self._isolated: set[str] = set()

    @property
    def size(self) -> int:
        """The largest SP degree that a request can have."""
        return len(self._users)

    @property
    def isolates(self) -> bool:
        """Whether any request shares with nobody."""
        return bool(self._isolated)

    @property
    def waiting(self) -> list[str]:
        """The isolated requests without a server, in the order in which they came."""
        return [r for r, servers in self._held.items() if not servers and r in self._isolated]

    def serves(self, server: ServerId) -> bool:
        """Whether a server is among those that are shared out."""
        return server in self._users

    def __contains__(self, request: str) -> bool:
        """Whether a request is served, or waits for a server."""
        return request in self._held

    def held(self, request: str) -> list[ServerId]:
        """The servers of a request."""
        return list(self._held.get(request, ()))

    def own(self, request: str) -> list[ServerId]:
        """Those of its servers that no other request uses."""
        return [server for server in self.held(request) if len(self._users[server]) == 1]

    def crowd(self, request: str) -> int:
        """How many requests share this one's servers at most, itself included."""
        return max((len(self._users[server]) for server in self.held(request)), default=1)

    def share(self, requests: int) -> int:
        """How many servers each of so many requests can have for itself."""
        return max(1, self.size // max(1, requests))

    def admit(self, request: str, most: int) -> list[ServerId]:
        """Gives a new request the free servers, up to its share and to ``most``.

        Without a free one it gets the one that the fewest others use, or none where isolated
        requests have them all. Call :meth:`donors` before: what they give up is free then.
        """
        if request in self._held:
            raise ValueError(f"request {request} already has target servers")
        self._held[request], self._most[request] = [], most
        share = min(most, self.share(len(self._held)))
        for server in (self._free() or self._least_used())[:share]:
            self._give(request, server)
        return self.held(request)

    def donors(self, most: int) -> list[str]:
        """Who has to give up a server, once for each, so that a new request gets its share."""
        share = min(most, self.share(len(self._held) + 1))
        # Only what is its own helps another.
        have = {
            request: min(len(servers), len(self.own(request)) + 1)
            for request, servers in self._held.items()
        }
        donors: list[str] = []
        for _ in range(share - len(self._free())):
            richest = max(have, key=lambda request: have[request], default=None)
            if richest is None or have[richest] < 2 or have[richest] <= share:
                break
            have[richest] -= 1
            donors.append(richest)
        return donors

    @property
    def without(self) -> list[str]:
        """The requests that have lost all their servers."""
        return [request for request, servers in self._held.items() if not servers]

    def take(self, request: str, server: ServerId) -> None:
        """Takes a server from a request."""
        self._held[request].remove(server)
        self._users[server].discard(request)

    def release(self, request: str) -> None:
        """Takes all servers from a request; one without is fine."""
        self._isolated.discard(request)
        for server in self._held.pop(request, ()):
            self._users[server].discard(request)
        self._most.pop(request, None)

    def grow(self) -> list[tuple[str, ServerId]]:
        """Gives free servers to requests: first to those without any, then to those that share
        theirs with others, then to those with the fewest.

        Who has none gets one even if none is free; isolated requests are left to :meth:`confine`.
        A request that shared its server keeps that one
        until the caller takes it: the new one has to be filled first.
        """
        grants: list[tuple[str, ServerId]] = []
        for request, servers in self._held.items():
            waits = not servers and request not in self._isolated
            for server in self._least_used() if waits else []:
                self._give(request, server)
                grants.append((request, server))
        for server in self._free():
            poor = [r for r in self._held if self._may_grow(r)]
            if not poor:
                break
            request = min(poor, key=self._wealth)
            self._give(request, server)
            grants.append((request, server))
        return grants

    def isolate(self, request: str) -> list[ServerId]:
        """Lets a request share with nobody; returns the servers that are to be taken from it."""
        self._isolated.add(request)
        return self.shared(request)

    def mingle(self, request: str) -> None:
        """Lets a request share its servers again."""
        self._isolated.discard(request)

    def confine(
        self, request: str, only: Collection[ServerId] | None = None
    ) -> tuple[ServerId, list[str]] | None:
        """Gives an isolated request without servers one, from which its users are to be taken.

        They go one at a time: unless a server is free it waits while another is on its own.
        ``only``: One of these, if it is free; None is any.
        """
        places = [server for server in self._free() if only is None or server in only][:1]
        if not places and only is None and not any(self._held[r] for r in self._isolated):
            places = self._least_used()
        for server in places:
            users = sorted(self._users[server])
            self._give(request, server)
            return server, users
        return None

    def shared(self, request: str) -> list[ServerId]:
        """Those of its servers that other requests use too."""
        own = self.own(request)
        return [server for server in self.held(request) if server not in own]

    def lose(self, server: ServerId) -> list[str]:
        """Takes a server out until it is back; returns the requests that it served."""
        users = sorted(self._users.pop(server, ()))
        for request in users:
            self._held[request].remove(server)
        return users

    def restore(self, server: ServerId) -> None:
        """Takes a server in."""
        self._users.setdefault(server, set())

    def _give(self, request: str, server: ServerId) -> None:
        self._held[request].append(server)
        self._users[server].add(request)

    def _free(self) -> list[ServerId]:
        return [server for server, users in self._users.items() if not users]

    def _least_used(self) -> list[ServerId]:
        open_ = [server for server, users in self._users.items() if not users & self._isolated]
        return sorted(open_, key=lambda server: (len(self._users[server]), server))[:1]

    def _may_grow(self, request: str) -> bool:
        held = self._held[request]
        wants = len(held) < self._most[request] or self.crowd(request) > 1
        return wants and request not in self._isolated

    def _wealth(self, request: str) -> tuple[bool, int, int]:
        held = self._held[request]
        return bool(held), -self.crowd(request), len(held)
