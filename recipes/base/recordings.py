"""The voices that no stage trained on, as folders of recordings: python -m recipes.base.recordings --work FOLDER.

Leaves `<work>/recordings/<voice>/` with metadata.csv and wavs, some ten minutes each, for benchmarks.voices.
"""

from recipes.base.corpus import HELD_OUT
from recipes.base.speech import Speech
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE
from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.options import DATASET_RATE


def write(config: StageConfig) -> None:
    """Write each voice of the corpus' set `fine_tuning`."""
    speech = Speech(config.work, "fine_tuning")
    for voice in (name for names in HELD_OUT.values() for name in names):
        folder, lines = config.work / "recordings" / voice, list[str]()
        (folder / "wavs").mkdir(parents=True, exist_ok=True)
        for number, index in enumerate(speech.by_speaker[voice]):
            clip = speech.clips[index]
            wav = resample(speech.sound(clip)[None], SAMPLE_RATE, DATASET_RATE)
            write_wav(folder / "wavs" / f"{number:04}.wav", wav, DATASET_RATE)
            lines.append(f"{number:04}|{clip.text}\n")
        (folder / "metadata.csv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main_of(StageConfig, {"train": write})
