"""/api/v1/crawls/{task_id}/work"""

from typing import Final

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.features.crawls.work_views import CrawlWork


async def work(call: Call) -> CrawlWork:
    task = await call.control.crawls.get(check_id("task", call.path["task_id"]))
    return await call.control.workforce.of(task, project_id=call.project_id)


ROUTES: Final = (
    Route(
        name="get_crawl_work",
        method="GET",
        path="/api/v1/crawls/{task_id}/work",
        roles=READERS,
        scope=Scope.PATH,
        handler=work,
        client="crawl_work(task_id)",
        command="crawls work",
        summary="Who does what in a crawl",
        details="Its shards with their nodes, the partitions of its frontier with those who hold "
        "hosts of them, the hosts with the longest queues, and what the fleet's ledger knows of "
        "the hosts, domains and addresses that it visits: delays, grants, pauses, and which other "
        "crawls visit them. Lists are bounded; totals say of how many they are the first. Where "
        "`frontier` or `ledger` has a word, nothing is told of it: `closed` (nobody works with it "
        "now, or it is on the node), `elsewhere` (ask the master that leads), `away` (there is no "
        "ledger, or it does not answer).",
        response=CrawlWork,
        example=Example(response=examples.CRAWL_WORK),
    ),
)
