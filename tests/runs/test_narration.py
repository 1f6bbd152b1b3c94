"""The lines of a run say in words what its evaluations mean."""

from utils.runs.narration import Narration


def test_an_evaluation_says_which_step_is_best_and_when_the_loss_rises() -> None:
    lines: list[str] = []
    narration = Narration(lines.append)
    for step, loss in ((10, 3.0), (20, 2.5), (30, 2.6), (40, 2.8)):
        narration.event("eval", {"step": step, "loss": loss, "is_best": step <= 20})
    assert lines[1:] == [
        "evaluation after step 20: loss 2.500, the best so far",
        "evaluation after step 30: loss 2.600, best at step 20",
        "evaluation after step 40: loss 2.800, best at step 20; rising for 2 evaluations: stop, or export the best",
    ]
