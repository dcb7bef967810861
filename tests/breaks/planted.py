"""Breaks with a known verdict, to see that the judge can tell them apart.

`breaks.collect` does not find this module by itself; `test_breaks.py` names it.
"""

from __future__ import annotations

from tests.breaks import Break

CONFIG = ("tests/test_config.py",)

GUARDED = Break(
    rule="A3",
    module="duly.config",
    attribute="APPROVALS",
    replacement=("above:high",),
    tests=CONFIG,
    says="a guard that its tests look at",
)
# The defaults were computed when the module was imported, so nobody notices this one.
UNGUARDED = Break(
    rule="N",
    module="duly.config",
    attribute="KIB",
    replacement=1000,
    tests=CONFIG,
    says="a constant that no test looks at any more",
)
NO_MODULE = Break(
    rule="N",
    module="duly.attic",
    attribute="X",
    replacement=1,
    tests=CONFIG,
    says="a module that does not exist",
)
NO_ATTRIBUTE = Break(
    rule="N",
    module="duly.config",
    attribute="Limits.absent",
    replacement=1,
    tests=CONFIG,
    says="an attribute that does not exist",
)
# The break is real, but these tests prove another rule.
UNCLAIMED = Break(
    rule="L2",
    module="duly.config",
    attribute="APPROVALS",
    replacement=("above:high",),
    tests=CONFIG,
    says="a rule none of the named tests claims",
)
NO_TESTS = Break(
    rule="N",
    module="duly.config",
    attribute="KIB",
    replacement=1000,
    tests=("tests/absent.py::test_absent",),
    says="a test that does not exist",
)
UNFINDABLE = Break(
    rule="N",
    module="duly.config",
    attribute="MIB",
    replacement=1,
    tests=CONFIG,
    says="a break that is in no area",
)

BREAKS = (GUARDED, UNGUARDED, NO_MODULE, NO_ATTRIBUTE, UNCLAIMED, NO_TESTS)
