"""Terms of the nodes of each cluster: heartbeat interval, session timeout, log level and slots.

A node may not have received a shorter timeout yet: until it reports that it uses the new one, the
master waits as long as the node may believe that it may go on.
"""

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.access.projects import interval_of, timeout_of
from crawlfleet.model.node import Session
from crawlfleet.model.project import ClusterSettings, NodeTerms
from crawlfleet.model.settings import SessionSettings
from crawlfleet.model.wire.node_protocol import Heartbeat


class ClusterTerms:
    """The settings of clusters, with the fleet's where a cluster has none."""

    def __init__(self, *, state: FleetState, settings: SessionSettings) -> None:
        self._state = state
        self._settings = settings

    def of(self, cluster_id: str) -> NodeTerms:
        """Return the terms for nodes of the cluster; the fleet's for an unknown cluster."""
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
        """Return the shortest heartbeat interval among all clusters."""
        intervals = (
            interval_of(cluster.configuration, self._settings)
            for cluster in self._state.clusters.values()
        )
        return min([self._settings.heartbeat_interval_s, *intervals])

    def longest_timeout_s(self) -> float:
        """Return the longest session timeout: every live node sends a heartbeat within it."""
        timeouts = (
            timeout_of(cluster.configuration, self._settings)
            for cluster in self._state.clusters.values()
        )
        return max(self._settings.timeout_s, *timeouts, 0.0)


def renewed(
    session: Session, heartbeat: Heartbeat, terms: NodeTerms, *, now: float
) -> Session | None:
    """Return the session after a heartbeat; `None` for a late copy of an earlier heartbeat."""
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
    """Return the terms to send to a node; `None` if it uses them already.

    Also `None` for a node that never reports its terms: it would not understand them.
    """
    if heartbeat.configuration_version is None and heartbeat.session_timeout_s is None:
        return None
    up_to_date = (
        heartbeat.configuration_version == terms.version
        and heartbeat.session_timeout_s == terms.session_timeout_s
    )
    return None if up_to_date else terms
