"""Lower case of dotted and dotless i, in texts and where texts are compared."""

import pytest

from utils.text.error_rate import character_error_rate
from utils.text.languages import same_case, to_lower


@pytest.mark.parametrize(
    ("code", "lower"), [("az", "bakı, işıq"), ("tr", "bakı, işıq"), ("en", "baki, i\u0307şiq")], ids=["az", "tr", "en"]
)
def test_each_language_has_its_own_lower_case(code, lower):
    assert to_lower("BAKI, İŞIQ", code) == lower


@pytest.mark.parametrize("recognized", ["İyi ışık", "iyi ışık", "IYI ISIK".replace("S", "Ş"), "i\u0307yi işik"])
def test_texts_that_differ_in_case_only_are_the_same(recognized):
    assert same_case(recognized) == same_case("İYİ IŞIK")
    assert character_error_rate("İYİ IŞIK", recognized) == 0
    assert character_error_rate("İyi", "ayi") > 0
