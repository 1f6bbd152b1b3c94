"""The engine: everything the app can do, with no knowledge of any user interface."""

VERSION = "0.1.0"
