"""Put a server together from its settings: the engine's service, the routes and the guard before them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.applications import Starlette

from utils.jobs.device import require_usable
from utils.project.uploads import GIB
from utils.server.application import create_application
from utils.server.catalog import find_listed
from utils.server.guard import ServerAccess
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig
from utils.server.talk import Desk, RequestLimits
from utils.speech.models import SpeakingModel

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class SpeechServer:
    """A server that listens nowhere yet."""

    application: Starlette
    service: SpeechService
    model: str
    """Id of the model that speaks where a request names none."""
    preload: SpeakingModel

    def start(self) -> None:
        """Load the libraries and the first model in the background; requests wait for them."""
        self.service.start((self.model, self.preload))


def build_server(config: ServerConfig, keys: Sequence[str]) -> SpeechServer:
    """A server as the settings say.

    Args:
        config: the settings.
        keys: API keys of which a request must bring one; none is needed where there are none.

    Raises:
        UserError: the device or the model cannot be used.
    """
    output = config.output.resolve()
    require_usable(config.device)
    service = SpeechService(
        output,
        device=config.device,
        precision=config.precision,
        slots=config.slots,
        max_requests=config.max_requests,
        max_model_bytes=None if config.max_model_gb is None else int(config.max_model_gb * GIB),
        unload_after_s=60 * config.unload_after or math.inf,
        language=config.language,
    )
    desk = Desk(
        service,
        limits=RequestLimits(max_characters=config.max_characters),
        model=config.model,
        aliases=dict(one.split("=", 1) for one in config.alias),
    )
    model = desk.default_model()
    access = ServerAccess(
        host=config.host,
        keys=tuple(keys),
        trusted_hosts=config.trusted_host,
        origins=tuple(origin.rstrip("/") for origin in config.allow_origin),
        max_upload_bytes=config.max_upload_mb * MIB,
    )
    return SpeechServer(
        application=create_application(desk, access),
        service=service,
        model=model,
        preload=find_listed(output, model),
    )
