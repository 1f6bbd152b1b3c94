"""Start the web app: python app.py --help lists the flags."""

import gc
import os
import signal
import socket
import sys
from typing import Any

from utils.errors import UserError
from utils.hardware.machine import this_machine
from utils.server.access import MADE_FILE as KEY_FILE
from webui.flags import Flags, read_flags
from webui.login import MADE_FILE, find_login
from webui.security import access_of, gibibytes
from webui.temporary import own_folder


def main() -> int:
    """Serve the page until Ctrl-C.

    Returns:
        The exit status: 0, or 2 when a flag or the address cannot be used.
    """
    flags = read_flags()
    for problem in this_machine().gpu_problems:
        print(problem, flush=True)
    try:
        with own_folder():
            page = launched(flags)
            print(f"Open {page.share_url or page.local_url} in a browser; Ctrl-C here stops the app.", flush=True)
            page.block_thread()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        fault = f"the page cannot be served at {flags.host}:{flags.port}: {error}"
        print(f"{fault}\n  fix:   choose another address with --host and --port", file=sys.stderr)
        return 2
    return 0


def launched(flags: Flags) -> Any:
    """The page, which answers from now on."""
    output, roots = flags.output.resolve(), [root.resolve() for root in flags.input_root]
    quota_bytes = gibibytes(flags.project_quota_gb, flag="--project-quota-gb")
    auth, notice = find_login(flags.auth, os.environ, output, make=flags.make_login)
    access = access_of(flags, auth)
    if notice:
        print(notice, flush=True)
    # An address that is taken is reported at once: to import gradio takes seconds.
    family = socket.getaddrinfo(flags.host, flags.port, type=socket.SOCK_STREAM)[0][0]
    socket.create_server((flags.host, flags.port), family=family).close()
    # What is imported stays: the collector need not look for garbage in it, now or while the page is served.
    gc.disable()
    from webui.interface import create_ui

    gc.freeze()
    gc.enable()
    page = create_ui(output, input_roots=roots, quota_bytes=quota_bytes, access=access)
    from starlette.middleware import Middleware

    from utils.jobs.run_queue import watch_queues
    from webui.languages import with_page_language
    from webui.sound import with_sounds
    from webui.theme import create_theme, scripts, style

    # Gradio asks its own server whether it has started: this computer itself is reached without a proxy.
    direct = [os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "", "localhost", "127.0.0.1", flags.host]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, direct))
    # `docker stop` and service managers end it so; it then leaves as with Ctrl-C, and leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = access.launch_options(output, secrets=[output / MADE_FILE, output / KEY_FILE])
    options["app_kwargs"]["middleware"].append(Middleware(with_sounds, find=page.studio.generations.sound))
    options["app_kwargs"]["middleware"].append(Middleware(with_page_language))
    # Without the flag, gradio reads GRADIO_ROOT_PATH.
    root_path = flags.root_path.rstrip("/") or None
    page.launch(theme=create_theme(), css=style(), head=scripts(), root_path=root_path, **options)
    # Starts the queued runs, as a press of Train does.
    watch_queues(output, lambda config: page.studio.start_alone("train", config))
    return page


if __name__ == "__main__":
    sys.exit(main())
