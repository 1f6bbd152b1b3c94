"""A CUDA library that is missing is named with the package that has it."""

from types import SimpleNamespace

import pytest

from utils.cli.common import error_exits
from utils.hardware import wheel
from utils.hardware.wheel import TorchBuild, load_library, missing_library

MESSAGES = [
    ("Library libcublas.so.12 is not found or cannot be loaded", "pip install nvidia-cublas-cu12,"),
    ("Library cublas64_12.dll is not found or cannot be loaded", "pip install nvidia-cublas-cu12,"),
    ("libcublasLt.so.13: cannot open shared object file: No such file or directory", "requirements.lock"),
    ("libcudnn.so.9: cannot open shared object file: No such file or directory", "pip install nvidia-cudnn-cu13==9.*"),
    ("Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1}", "pip install nvidia-cudnn-cu13==9.*"),
    ("Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops", "pip install -U ctranslate2"),
    ('[WinError 126] Error loading "C:\\torch\\lib\\cudnn64_9.dll"', "pip install nvidia-cudnn-cu13==9.*"),
]


@pytest.mark.parametrize(("message", "fix"), MESSAGES)
def test_a_missing_library_is_named_with_its_package(message, fix, monkeypatch, capsys):
    monkeypatch.setattr(wheel, "torch_build", lambda: TorchBuild(version="2.11.0+cu130", cuda=(13, 0)))
    words = missing_library(OSError(message))
    assert words is not None and fix in words.fix
    with pytest.raises(SystemExit) as caught, error_exits():
        raise RuntimeError(message)
    assert caught.value.code == 2 and fix in capsys.readouterr().err


def test_other_errors_keep_their_traceback():
    assert missing_library(OSError("libavcodec.so.60: cannot open shared object file")) is None
    assert missing_library(RuntimeError("cublas64_12 is fine")) is None
    with pytest.raises(RuntimeError, match="other"), error_exits():
        raise RuntimeError("other")


def test_a_library_of_a_package_is_loaded(tmp_path, monkeypatch):
    loaded = []
    (tmp_path / "cublas" / "lib").mkdir(parents=True)
    file = tmp_path / "cublas" / "lib" / "libcublas.so.12"
    file.touch()
    monkeypatch.setattr(wheel, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[tmp_path]))
    monkeypatch.setattr(wheel, "CDLL", loaded.append)
    assert load_library("libcublas.so.12") and loaded == [str(file)]
    assert not load_library("libcublas.so.11")
