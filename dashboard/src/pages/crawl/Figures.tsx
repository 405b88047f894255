import { useMemo } from "react";
import type { CrawlFigures, HostReport } from "../../generated/api";
import { type Key, useT, useWord } from "../../i18n";
import { count, short, span } from "../../lib/format";
import { Bars, type BarTone, Card, Chip, useNow } from "../../ui/basics";
import { Chart, type Line } from "../../ui/Chart";
import { type Column, Table } from "../../ui/Table";

/** Those that failed are done as well, and are shown apart. */
const PARTS: [(figures: CrawlFigures) => number, Key, string][] = [
  [({ done = 0, failed = 0 }) => Math.max(0, done - failed), "crawl.done", "--series-1"],
  [(figures) => figures.in_flight ?? 0, "crawl.inFlight", "--series-2"],
  [(figures) => figures.waiting ?? 0, "crawls.waiting", "--series-6"],
  [(figures) => figures.failed ?? 0, "crawls.failed", "--series-4"],
];

const WELL = new Set(["ok", "not_modified", "redirect"]);
/** No page, but as somebody wished it. */
const LEFT_OUT = new Set(["robots", "refused", "unwanted"]);

function toneOf(outcome: string): BarTone {
  return WELL.has(outcome) ? undefined : LEFT_OUT.has(outcome) ? "warn" : "bad";
}

/** The frontier: how much of what is known is finished, under way, waiting or lost. */
function Frontier({ figures }: { figures: CrawlFigures }) {
  const t = useT();
  const parts = PARTS.map(([amount, title, colour]) => ({
    title: t(title),
    colour,
    value: amount(figures),
  }));
  const sum = Math.max(
    1,
    parts.reduce((total, part) => total + part.value, 0),
  );
  return (
    <div className="stack tight">
      <div className="stacked" aria-hidden="true">
        {parts
          .filter((part) => part.value > 0)
          .map((part) => (
            <span
              key={part.title}
              style={{ width: `${(100 * part.value) / sum}%`, background: `var(${part.colour})` }}
            />
          ))}
      </div>
      <div className="legend">
        {parts.map((part) => (
          <span key={part.title}>
            <i style={{ background: `var(${part.colour})` }} />
            {part.title} <b>{count(part.value)}</b>
          </span>
        ))}
        <span>{t("crawl.rejected", { n: count(figures.rejected ?? 0) })}</span>
      </div>
    </div>
  );
}

function Hosts({ hosts }: { hosts: readonly HostReport[] }) {
  const t = useT();
  const now = useNow();
  const columns: Column<HostReport>[] = [
    { title: t("crawl.host"), cell: (host) => <span className="breaks">{host.host}</span> },
    { title: t("crawls.pages"), right: true, cell: (host) => count(host.pages ?? 0) },
    { title: t("crawls.waiting"), right: true, cell: (host) => count(host.waiting ?? 0) },
    {
      title: t("crawl.errors"),
      right: true,
      cell: (host) => (
        <span className={host.errors ? "tone-bad" : ""}>{count(host.errors ?? 0)}</span>
      ),
    },
    {
      title: t("crawl.latency"),
      right: true,
      cell: (host) => (host.latency_ms == null ? "–" : span(host.latency_ms / 1000)),
    },
    {
      title: t("crawl.rests"),
      cell: (host) =>
        host.rests_until && host.rests_until * 1000 > now ? (
          <Chip tone="warn">
            {t("crawl.restsFor", { span: span(host.rests_until - now / 1000) })}
          </Chip>
        ) : (
          <span className="muted">–</span>
        ),
    },
    { title: t("explain.why"), cell: (host) => <span className="breaks small">{host.why}</span> },
  ];
  if (hosts.length === 0) return <p className="empty muted">{t("crawl.noHosts")}</p>;
  return (
    <Table label={t("crawl.hosts")} columns={columns} rows={hosts} rowKey={(host) => host.host} />
  );
}

export function Figures({ figures }: { figures: CrawlFigures }) {
  const t = useT();
  const word = useWord();
  const { rates = [] } = figures;
  const at = useMemo(() => rates.map((rate) => rate.at), [rates]);
  const lines = useMemo<Line[]>(() => {
    const values = rates.map((rate, index) => {
      const before = rates[index - 1]?.at ?? rate.at - 10;
      return rate.pages / Math.max(1, rate.at - before);
    });
    return [{ name: t("crawls.rate"), values, colour: "--series-1" }];
  }, [rates, t]);
  const outcomes = Object.entries(figures.outcomes ?? {})
    .map(([name, value]): [string, number, BarTone] => [
      word("outcome", name),
      Number(value),
      toneOf(name),
    ])
    .sort((a, b) => b[1] - a[1]);
  const depths = (figures.depths ?? []).map((value, depth): [string, number] => [
    t("crawl.depth", { n: depth }),
    value,
  ]);
  return (
    <div className="grid">
      <Card className="span-8" title={t("crawl.rateOverTime")} aside={t("unit.perSecond")}>
        <Chart label={t("crawl.rateOverTime")} at={at} lines={lines} format={short} />
      </Card>
      <Card className="span-4" title={t("crawl.frontier")}>
        <Frontier figures={figures} />
      </Card>
      <Card className="span-4" title={t("crawl.outcomes")}>
        {outcomes.length ? <Bars rows={outcomes} /> : <p className="muted">–</p>}
      </Card>
      <Card className="span-8" title={t("crawl.depths")}>
        {depths.length ? <Bars rows={depths} /> : <p className="muted">–</p>}
      </Card>
      <Card className="span-12" title={t("crawl.hosts")} flush>
        <Hosts hosts={figures.hosts ?? []} />
      </Card>
    </div>
  );
}
