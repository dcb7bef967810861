"""`python -m tests.breaks`: take each guard away and see its tests go red."""

import sys

from tests.breaks import main

sys.exit(main())
