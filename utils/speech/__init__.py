"""Speaking from a process that never loads torch: models to choose, a worker that speaks, and takes kept on disk.

desk = SpeechDesk(output)                              # one a process; nothing is loaded yet
take = desk.submit(project, lines, model=..., settings=...)
read_take(take.folder).lines[0].sentences              # sound as it comes
desk.release("training starts")                        # the worker ends, and the device is free
"""
