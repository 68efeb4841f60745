"""The Ray cluster that an engine runs on."""

import re
import signal
import socket
import sys
import threading

import ray

from dsi_ray.config import ConfigError

_HOST_AND_PORT = re.compile(r"(?:ray://)?([^:/]+):(\d+)")
_TIMEOUT_S = 5


def connect(address: str | None) -> bool:
    """Connects to a Ray cluster, or starts one here; returns whether this call did it.

    Raises:
        ConfigError: There is no cluster at ``address``.
    """
    if ray.is_initialized():
        return False
    if address is not None:
        _knock(address)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except ConnectionError as error:
        raise _nobody_at(address) from error
    except OSError as error:
        raise ConfigError(_why_not_here(error)) from error
    finally:
        _unwind_at_sigterm(handler)
    return True


def _why_not_here(error: OSError) -> str:
    """Ray keeps its files and sockets below ``RAY_TMPDIR``, and a token in the home directory."""
    if error.filename is not None:
        return (
            f"Ray cannot start here: {error.filename}: {error.strerror}; point RAY_TMPDIR and HOME "
            "to directories that can be written"
        )
    if "path length" in str(error):
        return "Ray cannot start here: the path in RAY_TMPDIR is too long for sockets; shorten it"
    return f"Ray cannot start here: {' '.join(str(error).split())}; see dsi-ray doctor"


def _unwind_at_sigterm(handler: object) -> None:
    """Puts back the handler of before; without one, SIGTERM ends blocks of code as Ctrl-C does.

    What Ray leaves there writes a stack to stderr and aborts, and nothing is cleaned up.
    """
    if threading.current_thread() is threading.main_thread():
        ours = handler if callable(handler) else lambda *_: sys.exit(128 + signal.SIGTERM)
        signal.signal(signal.SIGTERM, ours)


def disconnect() -> None:
    """Leaves the cluster; ends it if :func:`connect` started it."""
    ray.shutdown()


def _knock(address: str) -> None:
    """Finds out in seconds that nobody is there: Ray itself would try for minutes."""
    match = _HOST_AND_PORT.fullmatch(address)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), _TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise _nobody_at(address) from error


def _nobody_at(address: str | None) -> ConfigError:
    return ConfigError(
        f"no Ray cluster answers at {address}: correct the address, start a cluster, or leave the "
        "address out to start Ray on this machine"
    )
