"""Transcribe, align and cut long recordings into clips."""
