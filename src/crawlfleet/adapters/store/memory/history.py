"""Logs and samples in plain dictionaries; the part of the memory store that nothing depends on."""

from collections.abc import Collection, Sequence
from copy import deepcopy

import msgspec

from crawlfleet.model.log import LogLevel, LogLine, LogPart, LogSize
from crawlfleet.model.node_sample import NodeSample, Resolution
from crawlfleet.ports.history import LINE_BYTES


class MemoryHistory:
    """Implements `crawlfleet.ports.history.History`."""

    def __init__(self) -> None:
        self._logs: dict[str, dict[int, LogLine]] = {}
        self._samples: dict[tuple[str, Resolution], dict[float, NodeSample]] = {}

    async def append_logs(self, parts: Sequence[LogPart]) -> None:
        self._need_open()
        for part in parts:
            lines = self._logs.setdefault(part.execution_id, {})
            if part.left_out is not None:
                first, last = part.left_out.first, part.left_out.last
                for seq in [seq for seq in lines if first <= seq <= last]:
                    del lines[seq]
            lines.update((line.seq, deepcopy(line)) for line in part.lines)

    async def logs(
        self, execution_id: str, *, after: int, limit: int, levels: Sequence[LogLevel] = ()
    ) -> list[LogLine]:
        self._need_open()
        found = [
            line
            for seq, line in sorted(self._logs.get(execution_id, {}).items())
            if seq > after and (not levels or line.level in levels)
        ]
        return deepcopy(found[: max(limit, 0)])

    async def remove_logs(self, *, before: float, limit: int) -> int:
        self._need_open()
        old = sorted(
            (line.at, execution_id, seq)
            for execution_id, lines in self._logs.items()
            for seq, line in lines.items()
            if line.at < before
        )[: max(limit, 0)]
        for _, execution_id, seq in old:
            del self._logs[execution_id][seq]
            if not self._logs[execution_id]:
                del self._logs[execution_id]
        return len(old)

    async def oldest_log(self, *, since: float) -> float | None:
        self._need_open()
        instants = (line.at for lines in self._logs.values() for line in lines.values())
        return min((at for at in instants if at >= since), default=None)

    async def log_size(self, *, since: float, until: float) -> LogSize:
        self._need_open()
        sizes = [
            _size(line)
            for lines in self._logs.values()
            for line in lines.values()
            if since <= line.at < until
        ]
        return LogSize(lines=len(sizes), bytes=sum(sizes))

    async def append_samples(self, samples: Sequence[NodeSample]) -> None:
        self._need_open()
        for sample in samples:
            of_node = self._samples.setdefault((sample.node_id, sample.resolution), {})
            of_node[sample.at] = sample

    async def samples(
        self, node_id: str, resolution: Resolution, *, since: float, until: float, limit: int
    ) -> list[NodeSample]:
        self._need_open()
        of_node = sorted(self._samples.get((node_id, resolution), {}).items())
        return [sample for at, sample in of_node if since <= at < until][: max(limit, 0)]

    async def replace_samples(
        self,
        node_id: str,
        resolution: Resolution,
        *,
        since: float,
        until: float,
        by: Sequence[NodeSample],
    ) -> None:
        self._need_open()
        of_node = self._samples.get((node_id, resolution), {})
        for at in [at for at in of_node if since <= at < until]:
            del of_node[at]
        await self.append_samples(by)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError

    def _forget_samples(self, node_ids: Collection[str]) -> None:
        """Drop all samples of nodes that are gone."""
        for key in [key for key in self._samples if key[0] in node_ids]:
            del self._samples[key]


def _size(line: LogLine) -> int:
    fields = len(msgspec.json.encode(line.fields)) if line.fields else 0
    return LINE_BYTES + len(line.message.encode()) + fields
