"""The flags of `python app.py`."""

import argparse
from pathlib import Path

Flags = argparse.Namespace
"""What `read_flags` found, by the flags' names; `webui.security` says whether it may be."""


def read_flags() -> Flags:
    """The command line's flags."""
    about = "The web app of XTTS Fine-tuning Studio."
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; any other than loopback requires --auth")
    add("--port", type=int, default=7860, help="port to listen on")
    add("--output", type=Path, default=Path("output"), help="folder of all projects")
    add(
        "--input-root",
        type=Path,
        action="append",
        default=[],
        help="folder that recordings may be read from; can be repeated",
    )
    login = "login, or @FILE with one NAME:PASSWORD per line; default: XTTS_STUDIO_LOGIN or XTTS_STUDIO_LOGIN_FILE"
    add("--auth", default="", metavar="NAME:PASSWORD", help=login)
    add("--make-login", action="store_true", help="without a login, create one, save it, and print it once")
    add("--share", action="store_true", help="create a public address through gradio.live; requires --auth")
    add("--trusted-host", action="append", default=[], help="additional host name of the page, such as behind a proxy")
    add("--root-path", default="", help="path of the page behind a proxy that removes it, such as /studio")
    add("--max-upload-gb", type=float, default=2.0, help="maximum size of an uploaded file, in GiB")
    add("--project-quota-gb", type=float, default=50.0, help="maximum size of all uploads of a project, in GiB")
    return parser.parse_args()
