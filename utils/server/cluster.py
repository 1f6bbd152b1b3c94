"""The speech server on a Ray cluster: serve run utils.server.cluster:speech output=/shared/output replicas=2.

Ray Serve (requirements-scale.txt) starts the replicas, restarts and scales them, and spreads the requests. Each replica
is the whole server of `utils.server.build`. Models, voices, keys and clients' settings lie in the output folder, which
all machines share.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from ray import serve
from starlette.types import ASGIApp

from utils.errors import UserError
from utils.server.hosts import is_loopback
from utils.server.keys import find_keys
from utils.server.settings import ServerConfig


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(ServerConfig):
    """Speak over HTTP from many machines; the port is that of Ray's proxies."""

    replicas: int = 1
    """Copies of the server at least; each has its own models in memory."""
    max_replicas: int = 0
    """Copies at most; more than `replicas` scales with the requests that wait."""
    gpus: float = 0.0
    """GPUs that each copy takes; 0 speaks on the CPU."""
    cpus: float = 1.0
    """CPU cores that each copy takes."""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.replicas < 1:
            found.append(f"replicas is {self.replicas}; use 1 or more")
        if self.max_replicas and self.max_replicas < self.replicas:
            found.append(f"max_replicas is {self.max_replicas}; use {self.replicas} (replicas) or more")
        if self.gpus < 0 or self.cpus <= 0:
            found.append(f"gpus is {self.gpus} and cpus is {self.cpus}; use 0 or more, and more than 0")
        return found


def speech(values: dict[str, Any]) -> serve.Application:
    """What `serve run` and a cluster's configuration file start.

    Args:
        values: fields of `ClusterConfig`; as text, as the command line gives them, or as YAML does.

    Raises:
        UserError: a value cannot be used, or others than this computer are to be answered and there is no API key.
    """
    read = {name: yaml.safe_load(value) if isinstance(value, str) else value for name, value in values.items()}
    config = ClusterConfig.from_values(read, where="serve run").validate(where="serve run")
    keys, _ = find_keys(config.api_key, os.environ, config.output.resolve(), make=False)
    if not keys and not is_loopback(config.host):
        raise UserError(what="a server that others can reach needs an API key", fix="give one: api_key=@FILE")
    deployment = serve.deployment(serve.ingress(_builder(config, tuple(keys)))())
    scaling: dict[str, Any] = {"num_replicas": config.replicas}
    if config.max_replicas > config.replicas:
        # A replica decodes so many sentences for little more than the price of one.
        limits = {"min_replicas": config.replicas, "max_replicas": config.max_replicas}
        scaling = {"autoscaling_config": {**limits, "target_ongoing_requests": config.slots}}
    return deployment.options(
        name="speech",
        max_ongoing_requests=config.max_requests,
        ray_actor_options={"num_cpus": config.cpus, "num_gpus": config.gpus},
        **scaling,
    ).bind()


def _builder(config: ServerConfig, keys: tuple[str, ...]) -> Callable[[], ASGIApp]:
    def build() -> ASGIApp:
        # In the replica: it loads torch.
        from utils.server.build import build_server

        server = build_server(config, keys)
        server.start()
        return server.application

    return build
