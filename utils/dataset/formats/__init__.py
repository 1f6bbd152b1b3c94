"""Readers of the files people bring: tables, JSON lines, subtitles, labels, archives, folders and text."""
