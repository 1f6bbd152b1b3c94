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
    add("--host", default="127.0.0.1", help="address to listen on; any but this computer's own needs --auth")
    add("--port", type=int, default=7860, help="port to listen on")
    add("--output", type=Path, default=Path("output"), help="folder of all projects")
    add("--input-root", type=Path, action="append", default=[], help="folder that recordings may be taken from")
    login = "login, or @FILE with one NAME:PASSWORD a line; XTTS_STUDIO_LOGIN or XTTS_STUDIO_LOGIN_FILE give one, too"
    add("--auth", default="", metavar="NAME:PASSWORD", help=login)
    add("--make-login", action="store_true", help="where no login is given, make one, keep it and print it once")
    add("--share", action="store_true", help="make a public address through gradio.live; needs --auth")
    add("--trusted-host", action="append", default=[], help="name the page is reached by, as behind a proxy")
    add("--max-upload-gb", type=float, default=2.0, help="largest file that can be uploaded, in GiB")
    add("--project-quota-gb", type=float, default=50.0, help="all uploads of one project together, in GiB")
    return parser.parse_args()
