"""The benchmark of preparation measures what it names, and keeps the cells of earlier calls."""

import json

import pytest

from benchmarks.prepare import Cell, Settings, main


def test_cells_measured_one_by_one_add_up_and_a_new_one_replaces_the_old(tmp_path):
    from benchmarks.prepare import _result

    settings = Settings(out=tmp_path / "prepare.json")

    def stages(*cells: Cell) -> list[tuple[str, float, float]]:
        result = _result(settings, list(cells))
        settings.out.write_text(json.dumps(result))
        return [(cell["stage"], cell["hours"], cell["seconds"]) for cell in result["cells"]]  # type: ignore[attr-defined]

    def cell(stage: str, hours: float, seconds: float) -> Cell:
        return Cell(stage=stage, hours=hours, items=1, seconds=seconds, cpu_s=seconds)

    stages(cell("long", 10.0, 5.0), cell("vad", 0.1, 1.0))
    assert stages(cell("long", 1.0, 2.0)) == [("long", 1.0, 2.0), ("long", 10.0, 5.0), ("vad", 0.1, 1.0)]
    assert stages(cell("vad", 0.1, 3.0))[-1] == ("vad", 0.1, 3.0)


@pytest.mark.slow
def test_small_cells_are_measured_from_input_to_dataset(tmp_path, monkeypatch):
    out = tmp_path / "prepare.json"
    stages = ["clips", "clips-again", "long", "codes"]
    flags = ["--stages", *stages, "--copies", "1", "--hours", "0.02", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["prepare", *flags])
    main()
    cells = {cell["stage"]: cell for cell in json.loads(out.read_text())["cells"]}
    assert set(cells) == set(stages)
    assert cells["clips"]["items"] == 40 and cells["clips"]["hours"] == pytest.approx(0.048, abs=0.002)
    assert all(cell["seconds"] > 0 and cell["peak_mb"] > 50 for cell in cells.values())
