"""Tab 3: start and stop the speech server."""

from utils.errors import UserError
from utils.server.child import curl
from webui import text
from webui.change import Change, Updates, Values
from webui.studio import Studio
from webui.views import inference as view

LOOPBACK = "127.0.0.1"


def start(studio: Studio, values: Values) -> Updates:
    """Start the speech server at a port, where the page itself listens: on the loopback, or with a key for others."""
    host = studio.access.host if studio.access else LOOPBACK
    port = values["inference.port"]
    studio.server.start(host=host, port=-1 if port is None else port)
    return shown(studio)


def stop(studio: Studio, values: Values) -> Updates:
    """Stop the speech server; requests in progress end with an error."""
    if not studio.server.stop():
        raise UserError(what=text.NO_SERVER, where=text.SERVER_TITLE)
    return shown(studio)


def shown(studio: Studio) -> Updates:
    """The server's state; asked every few seconds."""
    server = studio.server
    served, state = server.served, server.state
    return {
        "inference.server_start": Change(visible=served is None),
        "inference.server_stop": Change(visible=served is not None),
        "inference.server": view.server(state, served, server.last_words if state == "ended" else ""),
        "inference.curl": Change(value=curl(served) if served else "", visible=served is not None),
    }
