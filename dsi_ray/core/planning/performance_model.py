"""Equation 1: lookahead <-> SP degree <-> devices (Timor et al., section 3.1 and appendix D).

And the plans that follow from what is measured.
"""

import math
from dataclasses import dataclass

from dsi_ray.core.decoders.dsi import DSI, Plan
from dsi_ray.core.planning.expected import ForwardCost, Latencies

_WEIGHT = 0.02
"""Of a new latency in an exponentially weighted mean: small, so that a lookahead lasts."""

_TOKEN_WEIGHT = 0.01
"""Of a judged draft in the acceptance rate of all requests."""

_PRIOR_TOKENS = 32
"""How many judged drafts of its own count as much as all other requests together."""

_MOST_LOOKAHEAD = 16
"""A drafter that costs next to nothing does not make ever longer blocks worth verifying."""

_TASK_WORK = 0.0005
"""Seconds of a processor that a report and the task that follows take at all who have to do with
them, however they travel: measured with forwards that are timed waits."""

_MESSAGE_WORK = 6.0
"""What they take beside that, in the processor time of a message's sender: by actor calls, 1.5 ms
and 0.25 ms. Where the models run on the same processor it is taken from them."""

_WORTH = 0.01
"""A gain below this is not worth the messages of shorter blocks."""

_MESSAGE_SHARE = 0.1
"""Of a target forward: what messages that are sent only to be early may take."""

_FAR = 0.25
"""Of a target forward: from messages that take longer a request may lose more than it gains."""

_UNLIKELY = 0.01
"""Drafts that come true less often are not worth a forward."""


def smallest_lookahead(target: float, drafter: float, sp_degree: int) -> int:
    """The smallest lookahead with ``ceil(target / (lookahead * drafter)) <= sp_degree``.

    Args:
        target: Latency of one target forward, messages included; any unit.
        drafter: Latency of one drafter forward, same unit.
        sp_degree: Number of target servers.
    """
    return max(1, _ceil(target / (sp_degree * drafter)))


def needed_sp_degree(target: float, drafter: float, lookahead: int) -> int:
    """The smallest SP degree with which verifications never wait for a server."""
    return max(1, _ceil(target / (lookahead * drafter)))


def largest_useful_sp_degree(target: float, drafter: float) -> int:
    """The SP degree beyond which more target servers find no work."""
    return needed_sp_degree(target, drafter, lookahead=1)


def affordable_sp_degree(devices: int, model_parallel: int = 1) -> int:
    """How many target servers of ``model_parallel`` devices each fit beside one drafter.

    Raises:
        ValueError: Not even one.
    """
    sp_degree = (devices - 1) // model_parallel
    if sp_degree < 1:
        raise ValueError(f"a drafter and one target server take {model_parallel + 1} devices")
    return sp_degree


@dataclass(slots=True)
class PerformanceModel:
    """What is measured, in seconds, and the plans that follow from it.

    Attributes:
        target: Mean of a target forward.
        drafter: Mean of a drafter forward.
        message: Of one message, until it arrives.
        acceptance: Share of drafts that are right, over all requests.
        proven: The same, but without measurements no draft counts as right.
        spread: Mean deviation of a target forward from the mean.
        judged: How many drafts the acceptance rate comes from.
        cost: Of a target forward by its number of tokens; unknown, it is that of one token.
        processor: What a message takes of its sender's processor, however far it goes; unknown, it
            is all of its latency.
    """

    target: float
    drafter: float
    message: float = 0.0
    acceptance: float = 0.8
    proven: float = 0.0
    spread: float = 0.0
    judged: int = 0
    cost: ForwardCost | None = None
    processor: float | None = None

    def observe_target(self, seconds: float) -> None:
        """Takes a target forward into the mean."""
        self.spread += _WEIGHT * (abs(seconds - self.target) - self.spread)
        self.target += _WEIGHT * (seconds - self.target)

    def observe_drafter(self, seconds: float) -> None:
        """Takes a drafter forward into the mean."""
        self.drafter += _WEIGHT * (seconds - self.drafter)

    def observe_request(self, accepted: int, rejected: int) -> None:
        """Takes the drafts of a request that ended into the acceptance rate."""
        judged = accepted + rejected
        if judged:
            self.judged += judged
            weight = 1 - (1 - _TOKEN_WEIGHT) ** judged
            self.acceptance += weight * (accepted / judged - self.acceptance)
            # What the first requests replace here is not even a guess.
            weight = max(weight, judged / (_PRIOR_TOKENS + self.judged))
            self.proven += weight * (accepted / judged - self.proven)

    def adapt(self, decoder: DSI, crowd: int = 1) -> None:
        """Gives a request in flight the plan that its own drafts so far, and all others', ask for.

        Where few drafts are right, verifications are short and servers idle: blocks shrink. Where
        they would queue, blocks grow up to what Equation 1 asks for. Where ``crowd`` requests
        share a server, drafts are verified only as far as that costs nobody anything.
        """
        accepted, rejected = decoder.tree.accepted, decoder.tree.rejected
        if crowd > 1:
            decoder.plan = self.shared_plan(crowd, _blend(self.acceptance, accepted, rejected))
        else:
            servers = max(1, len(decoder.targets))
            decoder.plan = self.plan(servers, accepted=accepted, rejected=rejected)

    def plan(
        self,
        sp_degree: int,
        lookahead: int | None = None,
        accepted: int = 0,
        rejected: int = 0,
    ) -> Plan:
        """The plan for DSI.

        Args:
            sp_degree: Number of target servers.
            lookahead: Overrides the planner's choice.
            accepted: Right drafts of the request so far.
            rejected: Its wrong ones.
        """
        acceptance = _blend(self.acceptance, accepted, rejected)
        if lookahead is not None:
            return self._plan(sp_degree, lookahead, acceptance)
        lookahead = min(self._depth(sp_degree, acceptance), self.lookahead(sp_degree, acceptance))
        if sp_degree > 1:
            return self._plan(sp_degree, lookahead, acceptance)
        first_block = self._first_block(_blend(self.proven, accepted, rejected))
        return self._plan(sp_degree, lookahead, acceptance, first_block)

    def shared_plan(self, crowd: int, acceptance: float) -> Plan:
        """The plan for each of ``crowd`` requests that a server computes together.

        A draft of one makes the forward of all longer; so there are as many as shorten the mean
        time of a token, and none where the server has its hands full without.
        """
        cost = self.cost or ForwardCost(((1, self.target),))

        def seconds(depth: int) -> float:
            # After a rejection a request has no drafts for a forward.
            drafts = depth * Latencies(1, 0, acceptance).drafted_share(depth)
            together = cost(crowd * (1 + drafts))
            latencies = Latencies(together, self._drafter_or_little, acceptance)
            return latencies.dsi_single(depth=depth) if depth else latencies.non_si()

        depth = min(range(_MOST_LOOKAHEAD + 1), key=seconds)
        # While one block is verified the next is drafted.
        return Plan(max(1, min(depth, self._sending_interval())), 2 * depth + bool(depth))

    def _plan(
        self, sp_degree: int, lookahead: int, acceptance: float, first_block: int = 0
    ) -> Plan:
        # While one block is verified the next is drafted, and a message travels.
        most = lookahead * (sp_degree + 1) + 2 * _MOST_LOOKAHEAD
        run_ahead = max(lookahead, first_block, min(most, self._depth(sp_degree, acceptance))) + 1
        return Plan(lookahead, run_ahead, first_block, far=self.message > _FAR * self.target)

    def token(self, sp_degree: int) -> float:
        """Expected latency of a token with DSI; a message there and one back count to the target.

        Args:
            sp_degree: Number of target servers.
        """
        latencies = Latencies(self.target + 2 * self.message, self.drafter, self.acceptance)
        plan = self.plan(sp_degree)
        speculative = (
            latencies.dsi_single(plan.first_block)
            if sp_degree == 1
            else latencies.dsi(plan.lookahead, sp_degree)
        )
        # A target that goes on alone waits for no message.
        return min(speculative, self.target)

    def lookahead(self, sp_degree: int, acceptance: float | None = None) -> int:
        """The lookahead for DSI.

        With several target servers it is at most what Equation 1 asks for: less where drafts are
        so often wrong that the servers rarely have all their blocks. One server alone takes
        whatever is drafted when it becomes free; there the lookahead only sets how often the
        draft is sent.
        """
        if sp_degree == 1:
            return self._sending_interval()
        a = self.acceptance if acceptance is None else acceptance
        drafter = self._drafter_or_little
        most = min(
            _MOST_LOOKAHEAD,
            smallest_lookahead(self.target + self.message + self.spread, drafter, sp_degree),
        )
        # The coordinator hears of one block, and sends it on, while the next is drafted.
        least = min(most, max(1, _ceil(2 * self.message / drafter)))
        latencies = Latencies(self.target + self.message, drafter, a)
        expected = {k: latencies.dsi(k, sp_degree) for k in range(least, most + 1)}
        enough = min(expected.values()) * (1 + _WORTH)
        return max(k for k, seconds in expected.items() if seconds <= enough)

    def _depth(self, sp_degree: int, acceptance: float) -> int:
        """How far ahead drafts are likely enough to come true to be worth drafting.

        Among several target servers every block is a task of its own, and has to be worth its
        messages: not to send it costs a target forward if its drafts would have come true.
        """
        worth = _UNLIKELY
        if sp_degree > 1:
            worth = max(worth, min(0.5, self._message_work / self.target))
        return math.ceil(math.log(worth) / math.log(min(max(acceptance, 0.01), 0.99)))

    def needed_sp_degree(self, lookahead: int) -> int:
        """The smallest SP degree with which verifications of a request never wait."""
        return needed_sp_degree(self.target + self.message, self._drafter_or_little, lookahead)

    def si_lookahead(self, acceptance: float | None = None, most: int = 16) -> int:
        """The lookahead with which SI commits most tokens a second."""
        a = self.acceptance if acceptance is None else acceptance
        latencies = Latencies(self.target + 2 * self.message, self.drafter, a)
        return min(range(1, most + 1), key=latencies.si)

    @property
    def _drafter_or_little(self) -> float:
        """A drafter that costs nothing, such as a lookup, would ask for endless blocks."""
        return max(self.drafter, self.target / 256)

    @property
    def _message_work(self) -> float:
        """Processor time of a report and the task that follows."""
        sender = self.message if self.processor is None else self.processor
        return _MESSAGE_WORK * sender + (_TASK_WORK if sender else 0.0)

    def _sending_interval(self) -> int:
        """Drafts in a report, so that the last report before a forward's end comes in time.

        A report for which the forward does not wait is lost time: its drafts wait for the next.
        So there are several in a forward, as far as messages are cheap.
        """
        affordable = _MESSAGE_SHARE * self.target / max(self._message_work, 1e-9)
        reports = max(1, min(4, math.floor(affordable)))
        in_time = self.target - 2 * self.message
        # Exactly in time is too late as often as not.
        drafts = math.floor(0.99 * in_time / (reports * self._drafter_or_little))
        return max(1, min(_MOST_LOOKAHEAD, drafts))

    def _first_block(self, acceptance: float) -> int:
        """Drafts for which it pays to give up the decode step after a rejection; 0 for none."""
        latencies = Latencies(self.target + 2 * self.message, self._drafter_or_little, acceptance)
        best = min(range(1, _MOST_LOOKAHEAD + 1), key=latencies.dsi_single)
        pays = latencies.dsi_single(best) < (1 - 3 * _WORTH) * latencies.dsi_single()
        return best if pays else 0


def _blend(prior: float, accepted: int, rejected: int) -> float:
    """A request's acceptance rate: that of all others until it has drafts of its own."""
    return (_PRIOR_TOKENS * prior + accepted) / (_PRIOR_TOKENS + accepted + rejected)


def _ceil(value: float) -> int:
    """Rounds up what is more than a rounding error above a whole number."""
    return math.ceil(value - 1e-9)
