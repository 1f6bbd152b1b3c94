"""The whole recipe: stages in order, none twice, and none after a gate that was not passed."""

import json

import pytest

from recipes.base import run
from recipes.base.run import RunConfig
from utils.errors import UserError


def test_stages_run_in_order_up_to_a_gate_that_is_not_passed(tmp_path, monkeypatch):
    called: list[str] = []
    rates = {"vocoder": 0.04, "codec": 0.2}

    def stage(name: str):
        def work(config) -> None:
            called.append(name)
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            gate = {"made": {"wer": rates.get(name, 0.0)}, "phoneme_errors": 0.05}
            (folder / "gate.json").write_text(json.dumps(gate))
            if name not in ("corpus", "package"):
                (folder / f"{name}.safetensors").touch()

        return work

    for name in ("corpus", "package"):
        monkeypatch.setattr(getattr(run, name), "run", stage(name))
    for name in ("vocoder", "codec", "gpt", "decoder"):
        monkeypatch.setattr(getattr(run, name), "train", stage(name))
    monkeypatch.setattr(run.speaker_encoder, "train", stage("speaker"))
    with pytest.raises(UserError, match=r"codec does not pass its gate: wer 20.0%, at most 8%"):
        run.train(RunConfig(work=tmp_path))
    assert called == ["corpus", "vocoder", "codec"]
    run.train(RunConfig(work=tmp_path, despite_gates=True))
    assert called == ["corpus", "vocoder", "codec", "corpus", "gpt", "speaker", "decoder", "package"]
