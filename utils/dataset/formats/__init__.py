"""Readers of source formats: tables, JSON lines, subtitles, labels, archives, folders and text."""
