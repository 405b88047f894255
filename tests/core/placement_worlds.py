"""Fleets and tasks for the tests of placement: made by hand, or drawn by hypothesis."""

from hypothesis import strategies as st

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import PlacementPlan, PlacementRules, default_rules, plan
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.model.node import Health, Node, NodeStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement, Task

NOW = 1_800_000_000.0


def make_node(id: str, **fields: object) -> Node:
    settings: dict[str, object] = {
        "name": id,
        "created_at": NOW,
        "updated_at": NOW,
        "status": NodeStatus.ONLINE,
        "health": Health.HEALTHY,
        "resources": Resources(cpu_cores=4, memory_mb=8192, slots=4),
    }
    return Node(id=id, **{**settings, **fields})  # type: ignore[arg-type]


def make_task(id: str = "task-1", **fields: object) -> Task:
    settings: dict[str, object] = {
        "project_id": "default",
        "task_type": "web_crawl",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Task(id=id, **{**settings, **fields})  # type: ignore[arg-type]


def need(**fields: object) -> Requirement:
    demand = fields.pop("demand", Resources(slots=1))
    return Requirement(task_type="web_crawl", demand=demand, **fields)  # type: ignore[arg-type]


def fleet_of(*nodes: Node) -> Fleet:
    fleet = Fleet()
    for node in nodes:
        fleet.put(node)
    return fleet


def queue_of(*requirements: Requirement) -> ProjectQueues:
    """Tasks t0, t1, … of the same priority, one second apart."""
    queue = ProjectQueues()
    for number, requirement in enumerate(requirements):
        queue.add(f"t{number}", requirement, priority=5, created_at=NOW + number / 1000)
    return queue


def planned(
    queue: ProjectQueues,
    fleet: Fleet,
    rules: PlacementRules | None = None,
    *,
    limit: int = 1000,
    seed: int = 7,
) -> PlacementPlan:
    return plan(queue, fleet, rules or default_rules(), now=NOW + 60, seed=seed, limit=limit)


def nodes_chosen(made: PlacementPlan) -> list[str]:
    return [node_id for _, node_id in made.assignments]


amounts = st.builds(
    Resources,
    cpu_cores=st.sampled_from([0.0, 0.1, 0.25, 0.3, 1.0, 2.0]),
    memory_mb=st.sampled_from([0.0, 100.0, 256.0, 333.3, 1024.0]),
    gpu=st.sampled_from([0.0, 0.0, 1.0]),
    slots=st.sampled_from([1.0, 1.0, 1.0, 2.0]),
)
capacities = st.builds(
    Resources,
    cpu_cores=st.sampled_from([0.3, 1.0, 2.0, 4.0]),
    memory_mb=st.sampled_from([256.0, 1000.0, 4096.0]),
    gpu=st.sampled_from([0.0, 1.0]),
    slots=st.sampled_from([1.0, 2.0, 5.0, 40.0]),
)
node_fields = st.fixed_dictionaries(
    {
        "resources": capacities,
        "status": st.sampled_from([NodeStatus.ONLINE] * 4 + [NodeStatus.DRAINING]),
        "health": st.sampled_from([Health.HEALTHY] * 3 + [Health.DEGRADED, Health.UNHEALTHY]),
        "node_type": st.sampled_from(["standard", "large"]),
        "cluster_id": st.sampled_from(["default", "default", "other", "closed"]),
        "region": st.sampled_from([None, "us-east-1", "de", "jp", "nowhere"]),
        "task_types": st.sampled_from([(), ("web_crawl",), ("python",)]),
        "capabilities": st.sampled_from(
            [{}, {"js": 1}, {"js": True, "technologies": ["react", "vue"]}, {"js": 3.0}]
        ),
    }
)
needs = st.builds(
    Requirement,
    task_type=st.sampled_from(["web_crawl", "python"]),
    cluster_id=st.sampled_from(["default", "default", "other", "closed"]),
    node_type=st.sampled_from([None, None, "large"]),
    capabilities=st.sampled_from([(), (("js", 1),), (("js", 2),), (("technologies", ("vue",)),)]),
    demand=amounts,
    strategy=st.sampled_from(
        [
            None,
            "least_loaded",
            "least_tasks",
            "round_robin",
            "weighted",
            "random",
            "geo_location",
            "content_based",
            "bin_pack",
            "unheard_of",
        ]
    ),
    target_region=st.sampled_from([None, "us", "cn", "atlantis"]),
    content_features=st.sampled_from([(), (("technology", "react"),)]),
)


@st.composite
def fleets(draw: st.DrawFn, most: int = 12) -> Fleet:
    """Nodes of all kinds, some with reservations, after some coming and going."""
    fleet = Fleet()
    fleet.set_cluster("closed", False)
    drawn = draw(st.lists(node_fields, max_size=most))
    for number, fields in enumerate(drawn):
        id = f"node-{number}"
        fleet.put(make_node(id, **fields))
        fleet.observe(id, draw(st.sampled_from([0.0, 0.3, 0.8, 1.4])))
        held = draw(amounts)
        if draw(st.booleans()) and _fits(held, fleet.free(id)):
            fleet.reserve(id, held)
    for number in draw(st.sets(st.integers(0, most), max_size=3)):
        fleet.drop(f"node-{number}")
    return fleet


def _fits(amount: Resources, free: Resources) -> bool:
    return all(getattr(amount, name) <= getattr(free, name) for name in free.__struct_fields__)
