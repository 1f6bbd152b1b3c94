"""A cluster of two replicas on this computer: python -m tests.server.cluster OUTPUT PORT."""

import sys
import time

import ray
from ray import serve

from utils.server.cluster import speech


def main() -> None:
    output, port = sys.argv[1:]
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    serve.run(speech({"output": output, "replicas": "2", "precision": "fp32", "max_requests": "80"}), name="speech")
    sys.stdout.write(f"Listening on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
