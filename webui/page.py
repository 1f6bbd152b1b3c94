"""The page itself: gradio's, but for what its polls cost."""

import copy
from typing import Any

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.blocks import Block
from gradio.state_holder import SessionState


class Page(gr.Blocks):
    """Does not build anew what an answer leaves as it is.

    gradio makes a new component, and describes it, for each output of an event, whether it changes or not. The page
    asks every few seconds about dozens of components, of which few change.
    """

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: list[Any] | dict[Any, Any], state: SessionState | None
    ) -> list[Any]:
        if not (isinstance(predictions, dict) and predictions and all(isinstance(key, Block) for key in predictions)):
            return await super().postprocess_data(block_fn, predictions, state)
        known = {block._id for block in predictions}
        changed = copy.copy(block_fn)
        changed.outputs = [block for block in block_fn.outputs if block._id in known]
        values = await super().postprocess_data(changed, predictions, state)
        by_id = {block._id: value for block, value in zip(changed.outputs, values, strict=True)}
        return [by_id.get(block._id, gr.skip()) for block in block_fn.outputs]
