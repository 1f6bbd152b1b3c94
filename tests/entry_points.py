"""Each entry point up to where it computes: there it ends, and says on which device it would have."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.test_run import config_of
from utils import jobs
from utils.bases.find import find_base
from utils.cli import synthesize, train
from utils.config import Device, ExportConfig, TrainConfig
from utils.dataset import build
from utils.dataset.settings import PrepareConfig
from utils.decoder_training.tune import HIFIGAN
from utils.errors import UserError
from utils.evaluation.evaluate import EvaluateConfig, evaluate
from utils.gpt_train import train_gpt
from utils.inference import comparison, own_decoder
from utils.inference.engine import Synthesizer
from utils.inference.speaker import Speaker
from utils.jobs.device import Claim, free_device
from utils.language import make
from utils.model.weights import State
from utils.project.paths import Project, assets_folder
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig
from utils.training.switches import optim as precision

REFUSED = "refused"
CLAIMED = (
    "train",
    "train_gpt",
    "preflight",
    "page_trains",
    "language",
    "prepare",
    "fit_decoder",
    "evaluate",
    "compare",
)
"""What has a GPU for itself."""
SPEAKING = ("synthesize", "speaker", "server", "page_speaks")


class Reached(Exception):
    """The work would begin now, on this device."""


class EntryPoints:
    """What a user can start on a project; nothing of it computes.

    Args:
        project: with a dataset.
        monkeypatch: replaces what would compute.
        reach: called there with the device, cpu or cuda; ends the work by an error.
    """

    def __init__(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, reach: Callable[[str], None] | None = None
    ) -> None:
        self.project, self._reach, self._before = project, reach or self._reached, set[str]()
        place = {"project": project.name, "output": project.output}
        reach_, sentences = self._reach, project.output / "sentences.txt"
        sentences.write_text("One sentence.\n", encoding="utf-8")
        monkeypatch.setattr(precision, "Accelerator", lambda *, cpu, **_: reach_("cpu" if cpu else "cuda"))
        monkeypatch.setattr(Synthesizer, "__init__", lambda *_, device="cpu", **__: reach_(device))
        monkeypatch.setattr(own_decoder, "_fitted", lambda *values: reach_(values[-2]))
        monkeypatch.setattr(own_decoder, "method_of", lambda base: HIFIGAN)
        monkeypatch.setattr(own_decoder, "fit_steps", lambda base, config: 1)
        monkeypatch.setattr(build, "read_sources", lambda *_: reach_("cpu"))
        monkeypatch.setattr(sys.modules["utils.evaluation.evaluate"], "_sentences", lambda *_: [])
        monkeypatch.setattr(sys.modules["utils.jobs.start"], "_begin", lambda folder: None)
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (1 << 33, 1 << 33))
        monkeypatch.setattr("torch.cuda.get_device_capability", lambda device=None: (8, 6))

        def flags(device: str) -> list[str]:
            return ["--project", project.name, "--output", str(project.output), "--device", device]

        def page(device: Device) -> str:
            claimed = str(jobs.start("train", config_of(project, device=device)).device)
            Claim(claimed, project.output).free()
            return claimed

        def serve(device: Device) -> str:
            service = SpeechService(ServerConfig(output=project.output, device=device))
            service._new_engine()
            return service.device.split(":")[0]

        def compare(device: Device) -> None:
            with ExitStack() as stack:
                reach_(comparison._device(stack, project, ExportConfig(**place, device=device)))

        def language(device: Device) -> None:
            look = SimpleNamespace(
                config=SimpleNamespace(
                    train_dvae=True, device=device, dvae_steps=1, dvae_learning_rate=1.0, language="en"
                ),
                project=project,
                base=None,
            )
            with make._dvae(look, lambda *_: None):
                pass

        listening = {"input": assets_folder() / "demo_voice", "language": "en", "transcriber": "tiny", "base": "tiny"}
        model = {
            "model": "tiny",
            "sentences": sentences,
            "language": "en",
            "reference": next(assets_folder().rglob("*.flac")),
            "out": project.output / "measured",
            "output": project.output,
        }
        named = {"output_path": project.output, "language": "en", "train_csv": project.train_csv}
        named |= {"custom_model": None, "version": "tiny", "num_epochs": 1, "batch_size": 1, "grad_acumm": 1}
        words = ["--model", "tiny", "--text", "No.", "--out", str(project.output / "no.wav"), "--language", "en"]
        self.works: dict[str, Callable[[Device], Any]] = {
            "train": lambda device: train.main([*flags(device), "--base", "tiny"]),
            "train_gpt": lambda device: train_gpt(**named, eval_csv=project.eval_csv, device=device, in_process=True),
            "preflight": lambda device: train.main([*flags(device), "--base", "tiny", "--preflight"]),
            "page_trains": page,
            "language": language,
            "prepare": lambda device: build.prepare(PrepareConfig(**place, **listening, transcriber_device=device)),
            "fit_decoder": self.fit,
            "evaluate": lambda device: evaluate(EvaluateConfig(**model, device=device)),
            "compare": compare,
            "synthesize": lambda device: synthesize.main([*words, *flags(device)[2:]]),
            "speaker": lambda device: Speaker("tiny", output=project.output, device=device),
            "server": serve,
            "page_speaks": lambda device: free_device(device, project.output).split(":")[0],
        }

    def fit(self, device: Device, *, is_asked: bool = True) -> tuple[State, dict[str, Any]]:
        """The fit of a HiFi-GAN at export."""
        place, base = {"project": self.project.name, "output": self.project.output}, find_base("tiny")
        asked = ExportConfig(**place, device=device, tune_decoder=True if is_asked else None)
        settings = TrainConfig(**place)
        return own_decoder.own_decoder(
            self.project.folder, base, {}, {}, self.project, settings, asked, lambda *_: None
        )

    def devices(self, requested: Device) -> dict[str, str]:
        """By entry point: cpu or cuda, cuda:N where it claims the GPU, or `REFUSED`."""
        return {name: self._outcome(work, requested) for name, work in self.works.items()}

    def _outcome(self, work: Callable[[Device], Any], requested: Device) -> str:
        self._before = self._claimed()
        try:
            return str(work(requested))
        except Reached as reached:
            return str(reached)
        except UserError:
            return REFUSED
        except SystemExit as ended:
            assert ended.code == 2
            return REFUSED

    def _claimed(self) -> set[str]:
        claims = {name: Claim(name, self.project.output).named() for name in ("cuda:0", "cuda:1")}
        return {name for name, held in claims.items() if held and held[2]}

    def _reached(self, device: str) -> None:
        raise Reached(next(iter(self._claimed() - self._before), device))
