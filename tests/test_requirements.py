"""The pinned requirements say exactly what the project imports, and the lock pins all of it for every machine."""

import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.test_architecture import ROOT, read_modules

PIN = re.compile(r"^(?P<name>[\w.-]+)(\[[\w,]+\])?==(?P<version>[\w.]+)(?P<comment>\s+#.*)?$")
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-long.txt")
EXTRAS = tuple(f"requirements-{name}.txt" for name in ("scale", "denoise", "huggingface", "8bit"))
"""For more than one machine, and for single steps; what no test needs is not in the lock, but must fit to it."""
BROUGHT = {"triton"}
"""Comes with torch on Linux; code that needs it asks whether it is there."""
OWN = {"app", "utils", "webui", "benchmarks", "recipes", "scripts", "tests"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, re.Match[str]]:
    """Pins by name; any other line but a comment or an include fails."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith(("#", "-r "))]
    found = [PIN.match(line) for line in wanted]
    assert all(found), [line for line, match in zip(wanted, found, strict=True) if not match]
    return {normal(match["name"]): match for match in found if match}


@cache
def imported_packages() -> dict[str, Path]:
    """Distributions that the app's own code imports, each with one file that does."""
    distributions = packages_distributions()
    found = {}
    for module in read_modules(ROOT):
        for item in module.imports if module.name.split(".")[0] in ("app", "utils", "webui") else ():
            top = item.name.split(".")[0]
            if top not in sys.stdlib_module_names and top not in OWN:
                names = distributions.get(top, [top])
                found |= {normal(name): module.path.relative_to(ROOT) for name in names[:1]}
    return found


def test_everything_the_app_imports_is_pinned():
    pinned = {*pins("requirements.txt"), *(name for file in EXTRAS for name in pins(file)), *BROUGHT}
    assert {name: path for name, path in imported_packages().items() if name not in pinned} == {}


def test_a_pin_that_nothing_imports_says_why_it_is_there():
    imported = imported_packages()
    assert [name for name, pin in pins("requirements.txt").items() if name not in imported and not pin["comment"]] == []


def test_the_lock_holds_every_pin_and_nothing_of_one_machine():
    lock = pins("requirements.lock")
    direct = {name: pin["version"] for file in FILES for name, pin in pins(file).items()}
    assert {name: lock[name]["version"] for name in direct} == direct
    # PIN admits no `+cpu` builds, no paths and no addresses.
    assert len(lock) > len(direct)


def test_the_optional_attention_package_is_pinned_beside_the_torch_it_is_built_for():
    assert list(pins("requirements-flash.txt")) == ["flash-attn"]
    assert pins("requirements.txt")["torch"]["version"] == "2.11.0", "choose the flash-attn that fits the new torch"
