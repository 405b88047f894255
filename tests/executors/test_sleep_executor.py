from typing import ClassVar

import pytest

from crawlfleet.testing.executor_suite import ExecutorSuite

pytestmark = pytest.mark.slow


class TestSleep(ExecutorSuite):
    task_type = "sleep"
    good: ClassVar = {"seconds": 0}
    bad: ClassVar = {"seconds": "long"}
    endless: ClassVar = {"seconds": 90}
