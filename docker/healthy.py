"""Exit with 0 when a server of this container answers at an address; a page that asks for a login first does, too."""

import sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

TIMEOUT_S = 10


def is_healthy(address: str) -> bool:
    """Whether the server answers, and not with a fault of its own."""
    try:
        # Without a proxy, whatever the environment says: the server is in this container.
        with build_opener(ProxyHandler({})).open(address, timeout=TIMEOUT_S):
            return True
    except HTTPError as answer:
        return answer.code < 500
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not is_healthy(sys.argv[1]))
