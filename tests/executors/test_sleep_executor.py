from typing import ClassVar

from crawlfleet.testing.executor_suite import ExecutorSuite


class TestSleep(ExecutorSuite):
    task_type = "sleep"
    good: ClassVar = {"seconds": 0}
    bad: ClassVar = {"seconds": "long"}
    endless: ClassVar = {"seconds": 90}
