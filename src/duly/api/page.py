"""What a face needs to know to show a page: where it may be reached (G1, G2), and limits."""

from __future__ import annotations

from duly.config import PageSettings as PageSettings
from duly.rules.page import check_page as check_page
from duly.rules.page import list_names as list_names
from duly.rules.page import name_hooks as name_hooks
from duly.rules.page import places_of as places_of
from duly.rules.page import read_place as read_place
from duly.rules.token import DEVICE_DAYS as DEVICE_DAYS
from duly.rules.webhook import GIVES_SECRET as GIVES_SECRET
from duly.rules.webhook import HOOK_HEADERS as HOOK_HEADERS
from duly.rules.webhook import ID_HEADER as ID_HEADER
from duly.rules.webhook import ID_HEADERS_MAX as ID_HEADERS_MAX
from duly.rules.webhook import POSTS_MAX as POSTS_MAX
from duly.rules.webhook import HookSender as HookSender
from duly.rules.webhook import IdFrom as IdFrom
from duly.rules.webhook import UnreadFault as UnreadFault
from duly.store.people import PAGE_ROWS_MAX as PAGE_ROWS_MAX
