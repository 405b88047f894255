"""What the nodes of each cluster are told to work by, and how long they are waited for.

A node that was told a shorter time-out may not have heard of it: until it says that it works by
the new one, the master waits as long as the node may believe that it may go on.
"""

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.access.projects import interval_of, timeout_of
from crawlfleet.model.node import Session
from crawlfleet.model.project import ClusterSettings, NodeTerms
from crawlfleet.model.settings import SessionSettings
from crawlfleet.model.wire.node_protocol import Heartbeat


class ClusterTerms:
    """The settings of clusters, filled up by the fleet's."""

    def __init__(self, *, state: FleetState, settings: SessionSettings) -> None:
        self._state = state
        self._settings = settings

    def of(self, cluster_id: str) -> NodeTerms:
        """What a node of the cluster is told."""
        cluster = self._state.clusters.get(cluster_id)
        settings = cluster.configuration if cluster else ClusterSettings()
        return NodeTerms(
            version=cluster.configuration_version if cluster else 0,
            heartbeat_interval_s=interval_of(settings, self._settings),
            session_timeout_s=timeout_of(settings, self._settings),
            log_level=settings.log_level,
            max_slots=settings.max_slots,
        )

    def shortest_interval_s(self) -> float:
        """How often the nodes of the most talkative cluster say that they are alive."""
        intervals = (
            interval_of(cluster.configuration, self._settings)
            for cluster in self._state.clusters.values()
        )
        return min([self._settings.heartbeat_interval_s, *intervals])

    def longest_timeout_s(self) -> float:
        """How long it takes until every node that is alive has been heard."""
        timeouts = (
            timeout_of(cluster.configuration, self._settings)
            for cluster in self._state.clusters.values()
        )
        return max(self._settings.timeout_s, *timeouts, 0.0)


def renewed(
    session: Session, heartbeat: Heartbeat, terms: NodeTerms, *, now: float
) -> Session | None:
    """The session after a heartbeat; `None` for a late copy of one that was heard before."""
    number, believed = heartbeat.number, heartbeat.session_timeout_s
    if number is not None and number <= session.beat:
        return None
    timeout_s = max(session.timeout_s if believed is None else believed, terms.session_timeout_s)
    deadline = now + timeout_s
    if number is None:
        # Nobody knows whether it is the newest: what a newer one was promised must hold.
        deadline = max(deadline, session.deadline)
    runs = heartbeat.configuration_version
    return msgspec.structs.replace(
        session,
        deadline=deadline,
        last_heartbeat=now,
        usage=heartbeat.resources,
        load=heartbeat.load,
        timeout_s=timeout_s,
        beat=session.beat if number is None else number,
        configuration_version=session.configuration_version if runs is None else runs,
        version=session.version + 1,
    )


def news(terms: NodeTerms, heartbeat: Heartbeat) -> NodeTerms | None:
    """What the node has to be told, if it does not work by it yet.

    Nothing to one that never says what it works by: it would not understand.
    """
    if heartbeat.configuration_version is None and heartbeat.session_timeout_s is None:
        return None
    up_to_date = (
        heartbeat.configuration_version == terms.version
        and heartbeat.session_timeout_s == terms.session_timeout_s
    )
    return None if up_to_date else terms
