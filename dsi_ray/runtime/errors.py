"""What can go wrong with a request or an engine.

ValueError
 └─ RequestError    the caller's request cannot be served; nothing was started
RuntimeError
 └─ EngineError     a model, a server or the cluster failed
     ├─ RequestFailed   the caller's request cannot be served, which showed only when it had begun
     └─ GroupLost   and the same request, sent again, may well succeed
         └─ GroupUnreachable   at once: the group may be alive
"""


class RequestError(ValueError):
    """A request that cannot be served as asked.

    Attributes:
        param: The field that is wrong.
        code: OpenAI's error code, where there is one.
    """

    def __init__(self, message: str, param: str, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class EngineError(RuntimeError):
    """The engine could not start, or a request failed in it."""


class RequestFailed(EngineError):
    """A request asks for what cannot be computed, and that showed only when it had begun.

    Attributes:
        param: The field that asks for it.
    """

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class GroupLost(EngineError):
    """The group that had a request was lost, or all are: send the request again."""


class GroupUnreachable(GroupLost):
    """The group that had a request does not answer from here; it need not be lost."""
