"""Base models: find, download, verify, lock, grow and extend them; the tiny one is made here."""
