"""Lengths of clips and texts, under a published guide's name for it: python scripts/check_mel_lengths.py --csv FILE."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from utils.cli.lengths import main

main()
