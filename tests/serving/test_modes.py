"""The API behind Serve's other data plane: HAProxy before replicas that speak HTTP themselves."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cli.conftest import titles

WRAPPER = Path(__file__).parents[2] / "deployments" / "haproxy.sh"
MODE = {
    "RAY_SERVE_HAPROXY_BINARY_PATH": str(WRAPPER),
    # The wrapper asks this Python for Ray's HAProxy.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    # By default a replica that is to end waits half a minute for a load balancer to notice.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "0",
}
TESTS = ["test_contract.py", "test_disconnect.py"]


def files_of_haproxy(folder: str) -> dict[str, str]:
    """Settings: other servers of this machine have their own."""
    return {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": f"{folder}/haproxy.cfg",
        "RAY_SERVE_HAPROXY_SOCKET_PATH": f"{folder}/admin.sock",
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": folder,
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": f"{folder}/state",
    }


def test_contract_and_disconnect_with_haproxy_and_for_throughput(tmp_path: Path) -> None:
    tests = [str(Path(__file__).with_name(name)) for name in TESTS]
    seen: set[str] = set()
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory() as own, (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            env={**os.environ, **MODE, **files_of_haproxy(own)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None:
            seen.update(titles(process.pid).values())
            time.sleep(1)
        output.seek(0)
        assert process.returncode == 0, output.read()
    assert any("/haproxy -dS " in title for title in seen)
