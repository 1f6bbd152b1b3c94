"""From a long recording to clips: transcribe, align and cut."""
