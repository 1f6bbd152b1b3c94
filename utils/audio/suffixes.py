"""Name endings of recordings."""

# fmt: off
AUDIO_SUFFIXES = (
    ".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".mp4", ".webm", ".aiff", ".aif", ".mkv", ".mov",
    ".m4b", ".mka", ".caf", ".wma", ".amr", ".3gp", ".3g2", ".awb", ".ac3", ".wv", ".ape", ".tta", ".au", ".w64",
    ".mp2", ".avi", ".flv", ".m4v", ".mpg", ".mpeg", ".m2ts", ".mts", ".wmv",
)
# fmt: on
"""File name endings that are taken for recordings, the likeliest first."""
PLAIN_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif")
"""Those without time stamps: the first sample is at 0."""
