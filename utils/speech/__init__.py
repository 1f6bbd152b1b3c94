"""Speak from a process without torch: the models, a worker that speaks, and takes on disk.

queue = GenerationQueue(output)                              # one a process; nothing is loaded yet
take = queue.submit(project, lines, model=..., settings=...)
read_take(take.folder).lines[0].sentences              # sound as it comes
queue.release("training starts")                        # the worker ends, and the device is free
"""
