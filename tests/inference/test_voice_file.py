"""LoRA voices as small files: trained, exported and spoken with as their users would, over a base that they share."""

import gc
import hashlib
import json
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from starlette.testclient import TestClient
from torch import Tensor

from tests.decoding import decoded
from tests.model.hub_server import only_hub, published_tiny
from tests.sounds import make_project
from tests.training.test_run import config_of
from utils import jobs
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.cli import export, synthesize
from utils.cli.job import COMMANDS
from utils.config import ExportConfig
from utils.errors import UserError
from utils.inference.adapters import MAX_ADAPTERS, Adapter
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model, export_voice
from utils.inference.model_cache import ModelCache
from utils.inference.sentence import Sentence
from utils.inference.speaker import Speaker
from utils.inference.voice_file import DIGEST, read_voice_file
from utils.model.weights import read_weights
from utils.options import SpeechSettings
from utils.project.paths import Project
from utils.runs.layout import VOICE_FILE
from utils.server.api import SpeechApi
from utils.server.application import create_application
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig
from utils.speech.models import find_model, own_recording, speaking_models
from utils.training.train import fine_tune
from webui.handlers import live, training
from webui.studio import Studio

SETTINGS = {"greedy": SpeechSettings(temperature=0), "sampled": SpeechSettings(temperature=1.0)}
TEXTS = ["The train was late again.", "It rained.", "She painted the door blue.", "They knew."]
LAYER = "gpt.h.0.attn.c_attn"


def train(project: Project, **settings) -> None:
    values = {"num_epochs": 1, "lora_rank": 8, "learning_rate": 3e-4, "best_by": "loss", "sample_text": ""}
    fine_tune(config_of(project, **(values | settings)))


@pytest.fixture(scope="module")
def anna(tmp_path_factory) -> Project:
    """A project with a full model and a voice of the same run."""
    project = make_project(tmp_path_factory.mktemp("output"), name="anna")
    train(project)
    where = ["--project", project.name, "--output", str(project.output)]
    export.main([*where, "--adapter"])
    export.main([*where, "--no-compare"])
    return project


@pytest.fixture(scope="module")
def ben(anna) -> Project:
    """Another voice over the same base, of another rank."""
    project = make_project(anna.output, name="ben")
    train(project, lora_rank=4, seed=2)
    export.main(["--project", project.name, "--output", str(project.output), "--adapter"])
    return project


def voice_of(project: Project) -> Path:
    return project.ready / VOICE_FILE


def sentences(speaker: Synthesizer, how: str) -> list[Sentence]:
    latents = speaker.default_voice().latents
    return [
        Sentence(
            latents=latents,
            tokens=speaker.tokenizer.encode(text, "en"),
            settings=SETTINGS[how],
            limit=40,
            adapter=speaker.adapter,
            generator=torch.Generator().manual_seed(number),
        )
        for number, text in enumerate(TEXTS)
    ]


def codes(speaker: Synthesizer, how: str) -> list[list[int]]:
    return decoded(speaker.batch.decoder, sentences(speaker, how))


def merged(file: Path) -> Synthesizer:
    """The base with the additions of a voice's file in its weights."""
    base, tensors = find_base("tiny"), read_weights(file)
    state = load_gpt(base).state_dict()
    for name in (name.removesuffix(".A") for name in tensors if name.endswith(".A")):
        delta = tensors[f"{name}.A"].double().T @ tensors[f"{name}.B"].double()
        state[f"{name}.weight"] = (state[f"{name}.weight"].double() + delta).float()
    return Synthesizer(base, gpt_state=state)


def test_a_voice_has_the_codes_of_the_exported_model_and_of_its_file_merged(anna):
    base = Synthesizer(find_base("tiny"))
    voice, own = base.adapted(voice_of(anna)), base.adapted(voice_of(anna)).default_voice()
    found = codes(voice, "sampled")
    whole, same = ModelCache("cpu", precision="fp32").load(kind="ready", source=str(anna.ready)), merged(voice_of(anna))
    assert torch.equal(whole.default_voice().latents, own.latents)
    same._own = own
    assert found == codes(whole, "sampled") == codes(same, "sampled")
    base._own = own
    assert found != codes(base, "sampled") and sum(map(len, found)) > 60, "the additions must matter"


def test_voices_side_by_side_and_the_base_are_what_they_are_alone(anna, ben):
    base = Synthesizer(find_base("tiny"), slots=4)
    voices = [base.adapted(voice_of(anna)), base.adapted(voice_of(ben)), base]
    alone = [codes(one, "sampled") for one in voices]
    assert alone[0] != alone[1] and base.adapted(voice_of(anna)).adapter is voices[0].adapter
    mixed = [one for three in zip(*(sentences(one, "sampled") for one in voices), strict=True) for one in three]
    found = decoded(base.batch.decoder, mixed)
    assert [found[number::3] for number in range(3)] == alone
    # Another copy of the weights would be 3.4 million numbers more.
    assert sum(table.nbytes for table in base.batch.decoder._adapters.tables) == 4 * 12 * _NUMBERS_OF_A_RANK
    assert {one.batch for one in voices} == {base.batch} and {one.gpt for one in voices} == {base.gpt}


_NUMBERS_OF_A_RANK = 4 * (4 * 128 + 2 * 128 + 5 * 128 + 5 * 128)
"""Of the tiny base: four blocks, inputs and outputs of their four products."""


@pytest.mark.slow
def test_voices_that_nobody_uses_make_room(anna, ben):
    base = Synthesizer(find_base("tiny"))
    voice = base.adapted(voice_of(anna))
    alone, decoder = codes(voice, "greedy"), base.batch.decoder
    base._own = voice.default_voice()
    pairs = read_voice_file(voice_of(ben), base.base)[0].pairs
    for _ in range(MAX_ADAPTERS):
        base.adapter = Adapter(pairs)
        decoded(decoder, sentences(base, "greedy")[:1])
    assert len(decoder._adapters._held) == MAX_ADAPTERS and voice.adapter not in decoder._adapters
    assert codes(voice, "greedy") == alone
    # Memory runs out, or anything else fails, while additions are taken.
    base.adapter = Adapter((*pairs[:5], *((torch.zeros(4, 3), torch.zeros(4, 3)) for _ in pairs[5:])))
    with pytest.raises(RuntimeError):
        decoder.join(sentences(base, "greedy")[0])
    decoder.reset(decoder.slots)
    assert codes(voice, "greedy") == alone


@pytest.mark.slow
def test_memory_of_voices_is_counted_and_freed_with_their_model(anna):
    cache = ModelCache("cpu")
    before = cache.load(kind="base", source="tiny").num_bytes
    voice = cache.load(kind="voice", source=str(voice_of(anna)))
    assert voice.adapter is not None and voice.num_bytes - before == voice.adapter.num_bytes > 0
    weights, _ = weakref.ref(voice.gpt), gc.collect()
    gc.disable()
    try:
        del voice
        cache.clear()
        assert weights() is None, "the next model is loaded before anything collects circles"
    finally:
        gc.enable()


def test_a_base_that_cannot_speak_any_more_is_unloaded_whoever_spoke_over_it(anna, monkeypatch):
    def fail(slots: int) -> None:
        raise RuntimeError("a fault of the device")

    cache = ModelCache("cpu")
    voice = cache.load(kind="voice", source=str(voice_of(anna)))
    monkeypatch.setattr(voice.batch, "reset", fail)
    assert not cache.reset(voice, 4) and cache.models == {}


def test_a_voice_survives_what_happens_to_its_file(anna, ben, tmp_path):
    base, file = Synthesizer(find_base("tiny")), tmp_path / VOICE_FILE
    shutil.copyfile(voice_of(anna), file)
    first = base.adapted(file).adapter
    assert first is not None
    # Over the old one, as cp does: what is only mapped would change with it.
    file.write_bytes(bytes(file.stat().st_size))
    assert all(side.any() for pair in first.pairs for side in pair)
    shutil.copyfile(voice_of(ben), file)
    second = base.adapted(file).adapter
    assert second is not None and (first.rank, second.rank) == (8, 4)


def test_python_command_and_server_speak_with_it(anna, ben, tmp_path):
    speaker = Speaker("tiny", adapter=voice_of(anna), device="cpu", precision="fp32")
    other = speaker.adapted(voice_of(ben))
    assert speaker.language == other.language == "en"
    said = [one.speak("No.", speed=4.0) for one in (speaker, other)]
    assert said[0].wav.shape != said[1].wav.shape or (said[0].wav != said[1].wav).any()
    common = ["--text", "No.", "--precision", "fp32", "--device", "cpu", "--seed", "1", "--speed", "4"]
    for how in (["--adapter", str(voice_of(anna))], ["--project", "anna", "--model", "voice"]):
        place = ["--output", str(anna.output), "--out", str(tmp_path / "said.wav")]
        synthesize.main([*how, *common, "--split", "sentences", *place])
        samples, _ = soundfile.read(tmp_path / "said.wav", dtype="float32")
        assert abs(samples - said[0].wav).max() < 1e-4

    service = SpeechService(ServerConfig(output=anna.output, precision="fp32", device="cpu", model="anna/voice"))
    server = TestClient(create_application(SpeechApi(service), ()), base_url="http://127.0.0.1:8020")
    service.start()
    try:
        names = [model["id"] for model in server.get("/v1/models").json()["data"]]
        assert {"anna/ready", "anna/voice", "ben/voice"} <= set(names)
        asked = {"input": "No.", "seed": 1, "speed": 4.0, "split": "sentences", "response_format": "pcm"}
        for name, speech in (("anna/voice", said[0]), ("ben/voice", said[1])):
            answer = server.post("/v1/audio/speech", json=asked | {"model": name, "voice": "default"})
            samples = torch.frombuffer(bytearray(answer.content), dtype=torch.int16) / 32_768
            assert (samples - torch.from_numpy(speech.wav)).abs().max() < 1e-3, name
        loaded = server.get("/metrics").text
    finally:
        service.close()
    assert 'model="tiny"' in loaded and "/voice" not in loaded, "both are spoken by one base"


def test_the_page_lists_it_and_its_worker_loads_the_base_once(anna, ben, tmp_path):
    assert [model.id for model in speaking_models(anna)][:2] == ["ready", "voice"]
    assert speaking_models(ben)[0].id == "voice"
    own = own_recording(find_model(ben, "voice"), tmp_path)
    assert own is not None and own.read_bytes() == (next(ben.runs.iterdir()) / "reference.wav").read_bytes()
    cache, requests = ModelCache("cpu"), [find_model(one, "voice").request() for one in (anna, ben)]
    first, second, again = (cache.load(**request) for request in (*requests, requests[0]))
    assert first.adapter is again.adapter is not second.adapter and first.gpt is second.gpt
    assert first.speakers() is second.speakers(), "read once"
    assert [first.pronunciations.parent, second.pronunciations.parent] == [anna.folder, ben.folder]


def test_the_page_exports_it_where_its_checkbox_is_ticked(anna, monkeypatch):
    asked, studio = list[ExportConfig](), Studio(output=anna.output)
    monkeypatch.setattr(jobs, "start", lambda kind, config: asked.append(config))
    values = {"project.project": "anna", "train.run": "", "train.checkpoint": "best", "train.decoder": "default"}
    training.export(studio, values | {"train.adapter": True})
    before = [file.stat().st_mtime_ns for file in (voice_of(anna), anna.ready / "model.pth")]
    assert before[0] < before[1], "the whole model left the voice where it was"
    COMMANDS["export"][1](asked[0], lambda *now: None)
    after = [file.stat().st_mtime_ns for file in (voice_of(anna), anna.ready / "model.pth")]
    assert after[0] > before[0] and after[1] == before[1]
    shown = live.poll(studio, values | {"project.base": "tiny"})["train.exported"]
    assert f"LoRA voice exported: {voice_of(anna)}." in shown and "Model exported." in shown


def changed(file: Path, target: Path, change: Callable[[dict[str, Tensor], dict], None]) -> Path:
    """A voice's file with other content, as a version wrote it that kept no hash of it."""
    with safe_open(file, framework="pt") as content:
        facts = json.loads(content.metadata()["voice"])
        tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    facts.pop(DIGEST)
    change(tensors, facts)
    save_file(tensors, target, {"voice": json.dumps(facts)} if facts else None)
    return target


FAULTS: dict[str, tuple[Callable[[dict[str, Tensor], dict], object], str]] = {
    "no reference": (lambda tensors, facts: tensors.pop("reference"), "its recording is missing"),
    "no sound": (
        lambda tensors, facts: tensors.update(reference=tensors["reference"][:100]),
        "the voice's recording: ",
    ),
    "another reference": (
        lambda tensors, facts: tensors.update(reference=tensors["reference"].bfloat16()),
        "its recording is missing",
    ),
    "language": (lambda tensors, facts: facts.update(language=["en"]), "not a voice file"),
    "rank": (lambda tensors, facts: facts.update(rank=7), "rank 7 takes \\[\\(7, 128\\), \\(7, 384\\)\\]"),
    "a layer": (lambda tensors, facts: tensors.pop(f"{LAYER}.B"), f"damaged: {LAYER} has sizes"),
    "infinite": (lambda tensors, facts: tensors[f"{LAYER}.A"].fill_(float("inf")), f"{LAYER} holds no finite numbers"),
    "no header": (lambda tensors, facts: facts.clear(), "not a voice file.*export --project NAME --adapter"),
    "header": (lambda tensors, facts: facts.pop("base"), "not a voice file"),
    "format": (lambda tensors, facts: facts.update(format=9), "layout 9; this version reads up to 1"),
    "other vocabulary": (lambda tensors, facts: facts.update(text_rows=9), "VOCABULARY"),
    "other languages": (lambda tensors, facts: facts["languages"].pop(), "VOCABULARY"),
    "other base": (lambda tensors, facts: facts["base"].update(name="v2.0.2", sha256="0" * 64), "BASES"),
}


@pytest.fixture(scope="module")
def tiny() -> Synthesizer:
    return Synthesizer(find_base("tiny"))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_fit_is_refused_in_words(anna, tiny, tmp_path, fault):
    change, message = FAULTS[fault]
    file = changed(voice_of(anna), tmp_path / VOICE_FILE, change)
    if message == "BASES":
        message = "belongs to base v2.0.2 .*weights 000000000000.*this is tiny version 2 "
    where = file
    if message == "VOCABULARY":
        message, where = "tiny has another vocabulary than this voice was trained with: ", find_base("tiny").vocab
    with pytest.raises(UserError, match=f"(?s){message}") as error:
        tiny.adapted(file)
    assert str(where) in str(error.value)


def test_what_is_no_file_or_cut_is_refused_without_a_trace(anna, tmp_path, capfd):
    cut = tmp_path / "cut.safetensors"
    content = bytearray(voice_of(anna).read_bytes())
    cut.write_bytes(content[:5_000])
    content[-5_000] ^= 255
    (flipped := tmp_path / "flipped.safetensors").write_bytes(content)
    lost = changed(
        voice_of(anna), tmp_path / "lost.safetensors", lambda _, facts: facts["base"].update(name="x", folder="gone")
    )
    missing = f"the base of this voice, x, is not on this computer: there is none in {tmp_path / 'gone'}"
    known = {cut: "cannot be read", tmp_path / "none": "no such voice file", lost: missing}
    for file, message in {**known, flipped: "its content is not what was written"}.items():
        with pytest.raises(SystemExit) as end:
            synthesize.main(["--adapter", str(file), "--text", "It rained.", "--out", str(tmp_path / "a.wav")])
        said = capfd.readouterr().err
        assert end.value.code == 2 and message in said and "Traceback" not in said


@pytest.mark.slow
def test_its_base_is_downloaded_by_the_name_in_the_file(anna, tmp_path, monkeypatch, capfd):
    files = published_tiny()
    origin = {"name": "v2.0.2", "folder": "", "sha256": hashlib.sha256(files["model.pth"]).hexdigest()}
    file = changed(voice_of(anna), tmp_path / VOICE_FILE, lambda _, facts: facts["base"].update(origin))
    spoken = tmp_path / "spoken.wav"
    common = ["--text", "No.", "--speed", "4", "--device", "cpu", "--out", str(spoken)]
    with only_hub(monkeypatch, tmp_path / "bases", {"v2.0.2": files}):
        with pytest.raises(SystemExit):
            synthesize.main(["--adapter", str(file), *common])
        assert "there is no base 'v2.0.2' on this computer" in capfd.readouterr().err and not spoken.exists()
        monkeypatch.setenv("COQUI_TOS_AGREED", "1")
        synthesize.main(["--adapter", str(file), *common])
    assert soundfile.info(spoken).duration > 0


def test_a_voice_belongs_to_a_base_and_a_lora_run(anna, tmp_path, caplog):
    run = next(iter(anna.runs.iterdir())).name
    own = ModelCache("cpu").load(kind="run", source=str(anna.runs / run), checkpoint="best")
    with pytest.raises(UserError, match="added to its base, not to a run"):
        own.adapted(voice_of(anna))
    with pytest.raises(UserError, match="this is starter version"):
        Speaker("starter", adapter=voice_of(anna), device="cpu")
    with pytest.raises(UserError, match="this is anna"):
        Speaker("ready", project="anna", output=anna.output, adapter=voice_of(anna), device="cpu")
    project = make_project(tmp_path)
    where = {"project": project.name, "output": project.output}
    train(project, lora_rank=0, run_id="whole")
    with pytest.raises(UserError, match=r"(?s)run whole trained all weights.*--lora-rank 28"):
        export_voice(ExportConfig(**where))
    train(project, base="run/whole/best", run_id="second")
    with pytest.raises(UserError, match=r"(?s)started from another run.*export the full model: .*--run second"):
        export_voice(ExportConfig(**where, run="second"))
    assert not project.ready.exists()
    # A run over the exported model, whose own export then takes that one's place: added again, it would count twice.
    export.main(["--project", project.name, "--output", str(project.output), "--run", "whole", "--no-compare"])
    train(project, base=str(project.ready), run_id="over")
    over = ExportConfig(**where, run="over", compare=False)
    before = export_voice(over).read_bytes()
    export_model(over)
    with pytest.raises(UserError, match=r"(?s)is not what run over was trained on.*--run over"):
        export_voice(over)
    assert voice_of(project).read_bytes() == before
    with pytest.raises(UserError, match="a file without a decoder"):
        ExportConfig(**where, adapter=True, tune_decoder=True).validate(where="export")
