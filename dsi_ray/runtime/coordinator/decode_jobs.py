"""From a request to what the group decodes."""

from dsi_ray.config import Algorithm
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Request
from dsi_ray.core.group.request_state import Job
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.runtime.request import Generation


def job_of(generation: Generation) -> Job:
    """The job that a request is."""
    decoding = generation.decoding
    algorithm = decoding.algorithm
    lookahead = None if decoding.lookahead == "auto" else decoding.lookahead

    def decoder(request: Request, pace: PerformanceModel) -> Decoder:
        match algorithm:
            case Algorithm.DSI:
                return DSI(request, pace.plan(max(1, len(request.targets)), lookahead))
            case Algorithm.SI:
                return SI(request, lookahead or pace.si_lookahead())
            case Algorithm.NON_SI:
                return NonSI(request)

    return Job(
        generation.id,
        generation.prompt,
        StopCriteria(generation.params.max_tokens, generation.stop_ids),
        decoding.sp_degree if algorithm is Algorithm.DSI else 1,
        decoder,
        drafted=algorithm is not Algorithm.NON_SI,
        adapts=lookahead is None,
        rejection=generation.sampling.rejection,
    )
