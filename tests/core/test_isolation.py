"""Levels, demands, and what follows from them."""

import pytest

from crawlfleet.core.isolation import (
    NEEDS,
    at_level,
    demanded,
    egress_of,
    level_of,
    limits_of,
    needs_cell,
    offered,
    with_demand,
)
from crawlfleet.core.network.egress import domain_refusal, refused_address
from crawlfleet.core.placement.filters import class_of, class_reasons
from crawlfleet.core.tasks.admission import AdmissionRules, problems_of
from crawlfleet.model.isolation import Egress, Isolation, Layer, Level
from crawlfleet.model.node import Node
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings.sandbox import SandboxSettings
from crawlfleet.model.task import Requirement

EVERYTHING = Isolation(layers=tuple(Layer))


def test_a_level_needs_all_its_layers() -> None:
    for level, needs in NEEDS.items():
        assert level_of(needs) is level
        assert all(level_of(needs - {layer}) < level for layer in needs) or level is Level.L0


def test_a_machine_with_nothing_is_at_the_lowest_level() -> None:
    assert level_of(frozenset()) is Level.L0


def test_a_lower_level_leaves_off_what_belongs_to_higher_ones() -> None:
    offer, lacking = at_level(Level.L1, EVERYTHING)
    assert not lacking
    assert set(offer.layers) == NEEDS[Level.L1] | {Layer.OTHER_USER}
    offer, _ = at_level(Level.L3, EVERYTHING)
    assert Layer.CGROUP_V2 not in offer.layers
    assert {Layer.LANDLOCK, Layer.USER_NAMESPACE} <= set(offer.layers)


@pytest.mark.parametrize("level", list(Level))
def test_no_level_lets_foreign_code_be_root_or_gain_rights(level: Level) -> None:
    offer, _ = at_level(level, EVERYTHING)
    assert {Layer.NO_NEW_PRIVILEGES, Layer.SECCOMP, Layer.OTHER_USER} <= set(offer.layers)


def test_levels_compare_in_their_order() -> None:
    assert sorted(Level) == list(Level)
    assert [level.number for level in Level] == [0, 1, 2, 3, 4]


def test_a_demand_travels_as_a_capability() -> None:
    asked = with_demand({"gpu": True}, Level.L3)
    assert asked == {"gpu": True, "isolation": 3}
    assert demanded(asked) is Level.L3
    assert demanded({}) is None
    assert with_demand({"gpu": True}, None) == {"gpu": True}


def test_the_lowest_level_is_no_demand_and_is_refused() -> None:
    rules = AdmissionRules(strategies=())
    (problem,) = problems_of(TaskRequest(task_type="sleep", isolation=Level.L0), rules)
    assert (problem.field, problem.value) == ("isolation", "L0")
    assert "L1 or more" in problem.remedy
    for level in (None, *list(Level)[1:]):
        assert problems_of(TaskRequest(task_type="sleep", isolation=level), rules) == []


def reasons(demand: Level, node: Isolation | None) -> list[str]:
    kind = class_of(
        Node(
            id="n",
            name="n",
            created_at=0,
            updated_at=0,
            capabilities=dict(offered(node)) if node else {},
        )
    )
    wish = Requirement(task_type="python", capabilities=tuple(with_demand({}, demand).items()))
    return [reason.message for reason in class_reasons(wish, kind, {})]


def test_what_is_missing_is_told_and_places_nothing() -> None:
    found = Isolation(
        level=Level.L2, layers=(Layer.RLIMITS,), missing={Layer.CGROUP_V2: "no group " + "x" * 300}
    )
    told = offered(found)
    node = Node(id="n", name="n", created_at=0.0, updated_at=0.0, capabilities=told)
    other = Node(
        id="m",
        name="m",
        created_at=0.0,
        updated_at=0.0,
        capabilities=told | {"isolation_missing": ["cgroup_v2: another reason"]},
    )

    (reason,) = told["isolation_missing"]  # type: ignore[misc]
    assert reason.startswith("cgroup_v2: no group ")
    assert len(reason) <= 200
    assert class_of(node) == class_of(other)
    assert "isolation_missing" not in offered(EVERYTHING)


def test_placement_says_in_words_which_level_is_missing() -> None:
    weak = Isolation(level=Level.L2, layers=(Layer.RLIMITS,))
    assert reasons(Level.L2, weak) == []
    assert reasons(Level.L3, weak) == ["isolation: needs at least L3, the node has L2"]
    assert reasons(Level.L1, None) == ["isolation: needs at least L1, the node has none"]


@pytest.mark.parametrize(
    ("task_type", "demand", "settings", "confined"),
    [
        ("python", None, SandboxSettings(), True),
        ("http_fetch", None, SandboxSettings(), False),
        ("http_fetch", Level.L1, SandboxSettings(), True),
        ("python", None, SandboxSettings(task_types=()), False),
        ("python", None, SandboxSettings(level="off"), False),
        ("python", Level.L1, SandboxSettings(level="off"), True),
    ],
)
def test_who_gets_a_cell(
    task_type: str, demand: Level | None, settings: SandboxSettings, confined: bool
) -> None:
    assert needs_cell(task_type, demand, settings) is confined
    assert needs_cell(task_type, demand, settings, has_bundle=True)


def test_limits_come_from_the_allocation_and_else_from_the_node() -> None:
    settings = SandboxSettings(memory_mb=700, processes=9, disk_mb=5, bandwidth_mbps=3)
    own = limits_of(Resources(cpu_cores=2, memory_mb=300), settings)
    assert (own.cpu_cores, own.memory_mb, own.pids, own.disk_mb) == (2, 300, 9, 5)
    none = limits_of(Resources(), settings)
    assert (none.cpu_cores, none.memory_mb) == (None, 700)
    way = egress_of(Resources(bandwidth_mbps=8), settings, allow_private=False)
    assert way is not None
    assert way.bandwidth_mbps == 8
    assert egress_of(Resources(), SandboxSettings(network="none"), allow_private=True) is None


@pytest.mark.parametrize(
    ("address", "port", "is_own", "refused"),
    [
        ("192.0.2.7", 443, False, True),
        ("::ffff:192.0.2.7", 443, False, True),
        ("64:ff9b::c000:207", 443, False, True),
        ("2002:c000:207::1", 443, False, True),
        ("2001:0db8:0::0001", 443, False, True),
        ("2001:db8::1", 443, False, True),
        ("192.0.2.8", 443, False, False),
        ("192.0.2.8", 8700, False, False),
        ("192.0.2.8", 8700, True, True),
        ("127.8.8.8", 8700, False, True),
        ("::ffff:127.0.0.1", 8700, False, True),
        ("127.0.0.1", 8000, True, False),
        ("fe80::1%eth0", 443, False, False),
    ],
)
def test_an_address_is_denied_however_it_is_spelt(
    address: str, port: int, is_own: bool, refused: bool
) -> None:
    denied = ("192.0.2.7", "2001:DB8::1", "master.example")
    rules = Egress(deny=denied, closed_ports=(8700,), allow_private=True)
    reason = refused_address(address, port, is_own=is_own, rules=rules)
    assert (reason is not None) is refused


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860::8888"])
def test_public_addresses_of_the_machine_are_as_closed_as_private_ones(address: str) -> None:
    for is_own, allow_private in ((True, False), (True, True), (False, False)):
        rules = Egress(allow_private=allow_private)
        reason = refused_address(address, 22, is_own=is_own, rules=rules)
        assert ("of this machine" in (reason or "")) is (is_own and not allow_private)


@pytest.mark.parametrize(
    ("host", "allow", "deny", "refused"),
    [
        ("a.example", (), (), False),
        ("a.example", ("example",), (), False),
        ("example", ("example",), (), False),
        ("badexample", ("example",), (), True),
        ("A.Example.", ("*.example",), (), False),
        ("a.example", ("example",), ("a.example",), True),
        ("b.a.example", (), ("A.example.",), True),
        ("10.0.0.1", (), ("10.0.0.1",), True),
    ],
)
def test_lists_of_domains(
    host: str, allow: tuple[str, ...], deny: tuple[str, ...], refused: bool
) -> None:
    assert (domain_refusal(host, allow, deny) is not None) is refused
