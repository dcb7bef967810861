"""All this extension does stands in its manifest."""

import duly


class CheckinAgent(duly.Extension):
    pass
