"""Tab 2, "Will it fit?": the form's training against this machine, and odd values."""

import pytest

from tests.hardware.machines import GIB, make_gpu, make_machine
from tests.webui.test_training_form import page, studio  # noqa: F401
from utils.errors import UserError
from webui.handlers import fit

SMALL = make_machine(make_gpu(8, (8, 6), used_bytes=GIB))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "this_machine", lambda: SMALL)


def test_a_small_base_fits_where_a_large_one_does_not(studio) -> None:  # noqa: F811
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "starter"}
    shown = fit.predict(studio, values | {"train.set_batch_size": "4"})["train.fit"]
    assert "It should fit." in shown and "Planned for base starter" in shown and "the limit is 8.6 GB" in shown
    large = fit.predict(studio, values | {"train.set_batch_size": "4096"})["train.fit"]
    assert "It probably does not fit" in large and "GPU memory" in large


@pytest.mark.parametrize("batch", ["many", "-1", "nan", ["4"], {"a": 1}, "1e400", "<b>"])
def test_odd_values_are_refused_as_at_the_start(studio, batch) -> None:  # noqa: F811
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "tiny"}
    with pytest.raises(UserError):
        fit.predict(studio, values | {"train.set_batch_size": batch})
    for project in ("nobody", "../maria", None, ["maria"]):
        with pytest.raises(UserError):
            fit.predict(studio, values | {"project.project": project})
