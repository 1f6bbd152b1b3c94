"""All text on the page, ready for translation: one file for each tab."""

from webui.text.common import *  # noqa: F403
from webui.text.data import *  # noqa: F403
from webui.text.inference import *  # noqa: F403
from webui.text.language import *  # noqa: F403
from webui.text.memory import *  # noqa: F403
from webui.text.settings import *  # noqa: F403
from webui.text.system import *  # noqa: F403
from webui.text.training import *  # noqa: F403
