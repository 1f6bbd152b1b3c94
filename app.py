"""Start the web app: python app.py --help lists the flags."""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

from utils.errors import UserError
from webui.quick_start import load_interface
from webui.security import access_of, gibibytes
from webui.temporary import own_folder


def main() -> int:
    """Serve the page until Ctrl-C.

    Returns:
        The exit status: 0, or 2 when a flag or the address cannot be used.
    """
    flags = read_flags()
    try:
        with own_folder():
            page = launched(flags)
            print(f"Open {page.share_url or page.local_url} in a browser; Ctrl-C here stops the app.", flush=True)
            page.block_thread()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"the page cannot be served at {flags.host}:{flags.port}: {error}", file=sys.stderr)
        print("  fix:   choose another address with --host and --port", file=sys.stderr)
        return 2
    return 0


def launched(flags: argparse.Namespace) -> Any:
    """The page, which answers from now on."""
    access, quota_bytes = access_of(flags), gibibytes(flags.project_quota_gb, flag="--project-quota-gb")
    output, roots = flags.output.resolve(), [root.resolve() for root in flags.input_root]
    page = load_interface().create_ui(output, input_roots=roots, quota_bytes=quota_bytes, access=access)
    # It loads gradio, too.
    from webui.theme import create_theme, style

    leave_proxy_out(flags.host)
    options = access.launch_options(output)
    # `docker stop` and service managers end it so; it then leaves as with Ctrl-C, and leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    page.launch(theme=create_theme(), css=style(), footer_links=[], quiet=True, prevent_thread_lock=True, **options)
    return page


def leave_proxy_out(host: str) -> None:
    """Reach this computer itself without a proxy: gradio asks its own server whether it has started."""
    own = [os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "", "localhost", "127.0.0.1", host]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, own))


def read_flags() -> argparse.Namespace:
    """The command line's flags."""
    about = "The web app of XTTS Fine-tuning Studio."
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; any but this computer's own needs --auth")
    add("--port", type=int, default=7860, help="port to listen on")
    add("--output", type=Path, default=Path("output"), help="folder of all projects")
    add("--input-root", type=Path, action="append", default=[], help="folder that recordings may be taken from")
    add("--auth", default="", metavar="NAME:PASSWORD", help="login, or @FILE with one NAME:PASSWORD a line")
    add("--share", action="store_true", help="make a public address through gradio.live; needs --auth")
    add("--trusted-host", action="append", default=[], help="name the page is reached by, as behind a proxy")
    add("--max-upload-gb", type=float, default=2.0, help="largest file that can be uploaded, in GiB")
    add("--project-quota-gb", type=float, default=50.0, help="all uploads of one project together, in GiB")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
