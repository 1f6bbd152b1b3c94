"""Speak from a process without torch: the models, a worker that speaks, and takes on disk.

desk = GenerationQueue(output)                              # one a process; nothing is loaded yet
take = desk.submit(project, lines, model=..., settings=...)
read_take(take.folder).lines[0].sentences              # sound as it comes
desk.release("training starts")                        # the worker ends, and the device is free
"""
