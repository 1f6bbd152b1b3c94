"""Who has to wait: what computes on the GPU in one line, and no request behind more others than the queue holds."""

import threading

import gradio as gr
import httpx

from tests.webui.app import free_port
from webui.interface import create_ui


def test_what_computes_on_the_gpu_waits_in_one_line(laid_out):
    """Speaking, comparing and resuming a take: one at a time, for all pages."""
    heavy = {"inference_speak", "inference_continue", "inference_compare"}
    found = {block.api_name: block for block in laid_out.fns.values() if block.api_name in heavy}
    assert found.keys() == heavy
    assert {(block.concurrency_id, block.concurrency_limit, block.queue) for block in found.values()} == {
        ("gpu", 1, True)
    }


def test_requests_beyond_the_queue_are_refused_at_once(tmp_path):
    page = create_ui(tmp_path)
    blocker = threading.Event()

    def wait() -> None:
        blocker.wait(30)

    with page:
        gr.api(wait, api_name="slow")
    port = free_port()
    try:
        page.launch(server_port=port, quiet=True, prevent_thread_lock=True, footer_links=[], ssr_mode=False)
        size = page._queue.max_size
        assert size is not None and size <= 100
        address = f"http://127.0.0.1:{port}/gradio_api/call/slow"
        answers = [
            httpx.post(address, json={"data": []}, timeout=60, verify=False).status_code for _ in range(size + 5)
        ]
        assert answers[0] == 200 and answers[-1] == 503
        assert page._queue.events_recorded > 0 and not page._queue.event_analytics, "no statistics are kept"
    finally:
        blocker.set()
        page.close()
