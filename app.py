"""Start the web app: python app.py --help lists the flags."""

import argparse
import sys
from pathlib import Path

from webui.interface import create_ui
from webui.theme import create_theme, style


def main() -> int:
    """Serve the page until Ctrl-C.

    Returns:
        The exit status: 0, or 2 when the address cannot be used.
    """
    flags = read_flags()
    output = flags.output.resolve()
    page = create_ui(output)
    try:
        page.launch(
            server_name=flags.host,
            server_port=flags.port,
            theme=create_theme(),
            css=style(),
            allowed_paths=[str(output)],
            footer_links=[],
            run_history=False,
            enable_monitoring=False,
            share=False,
            ssr_mode=False,
            quiet=True,
            prevent_thread_lock=True,
        )
    except OSError as error:
        print(f"the page cannot be served at {flags.host}:{flags.port}: {error}", file=sys.stderr)
        print("  fix:   choose another address with --host and --port", file=sys.stderr)
        return 2
    print(f"Open {page.local_url} in a browser; Ctrl-C here stops the app.", flush=True)
    page.block_thread()
    return 0


def read_flags() -> argparse.Namespace:
    """The command line's flags."""
    parser = argparse.ArgumentParser(description="The web app of XTTS Fine-tuning Studio.")
    show = "(default: %(default)s)"
    parser.add_argument("--host", default="127.0.0.1", help=f"address to listen on; there is no login yet {show}")
    parser.add_argument("--port", type=int, default=7860, help=f"port to listen on {show}")
    parser.add_argument("--output", type=Path, default=Path("output"), help=f"folder of all projects {show}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
