import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { attention, nodes, series, statistics } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { Statistics } from "../../generated/api";
import { type Key, useT, useWord } from "../../i18n";
import { count, short, span } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { type Columns, columns, errorClasses, IN_HAND, recent } from "../../lib/series";
import { judge, type Verdict } from "../../lib/verdict";
import { Bars, Card, Loaded, Segments, Skeletons } from "../../ui/basics";
import { Chart, Legend, type Line } from "../../ui/Chart";
import { Icon, type IconName } from "../../ui/Icon";
import { NoNodes } from "../../ui/NoNodes";
import { Sparkline } from "../../ui/Sparkline";
import type { Tone } from "../../ui/State";
import { Attention } from "./Attention";
import { Feed } from "./Feed";
import { WorldMap } from "./WorldMap";

const LOOKS: Record<Verdict, [Tone, IconName]> = {
  empty: ["quiet", "nodes"],
  stopped: ["bad", "warning"],
  urgent: ["bad", "warning"],
  uneasy: ["warn", "warning"],
  healthy: ["ok", "check"],
};

function Headline({
  data,
  verdict,
  troubles,
}: {
  data: Statistics;
  verdict: Verdict;
  troubles: number;
}) {
  const t = useT();
  const [tone, icon] = LOOKS[verdict];
  const minute = data.throughput.minute;
  return (
    <div className="verdict" role="status">
      <div className={`badge ${tone}`}>
        <Icon name={icon} />
      </div>
      <div>
        <h1>{t(`verdict.${verdict}`, { n: troubles })}</h1>
        <p className="muted">
          {[
            t("overview.sentence.nodes", { n: count(data.nodes.online ?? 0) }),
            t("overview.sentence.running", { n: count(data.running) }),
            t("overview.sentence.rate", {
              rate: short((minute?.completed ?? 0) / Math.max(1, minute?.seconds ?? 60)),
            }),
            t("overview.sentence.ready", { n: count(data.ready) }),
          ].join(" · ")}
        </p>
      </div>
    </div>
  );
}

interface FigureProps {
  name: Key;
  value: string;
  unit?: string;
  note?: string;
  to: string;
  values?: readonly number[] | undefined;
  colour?: string;
}

function Figure({ name, value, unit, note, to, values, colour }: FigureProps) {
  const t = useT();
  return (
    <Link to={to} className="card figure">
      <span className="name">{t(name)}</span>
      <span className="value">
        {value} {unit && <small>{unit}</small>}
      </span>
      <span className="note cut">{note}</span>
      <Sparkline
        values={values?.slice(-60) ?? []}
        label={t(name)}
        {...(colour ? { colour } : {})}
      />
    </Link>
  );
}

function Figures({ data, past }: { data: Statistics; past: Columns | undefined }) {
  const t = useT();
  const { seesFleet } = useVisitor();
  const minute = data.throughput.minute;
  const seconds = Math.max(1, minute?.seconds ?? 60);
  const failures = Object.values(data.failures).reduce((sum, each) => sum + each, 0);
  const all = Object.values(data.nodes).reduce((sum, each) => sum + each, 0);
  const perSecond = t("unit.perSecond");
  return (
    <div className="figures">
      <Figure
        name="overview.running"
        value={count(data.running)}
        note={t("overview.assignedNote", { n: count(data.tasks.assigned ?? 0) })}
        to="/tasks?status=assigned%2Cprocessing"
        values={past?.states.processing}
        colour="var(--series-2)"
      />
      <Figure
        name="overview.ready"
        value={count(data.ready)}
        note={
          data.oldest_ready_s === null
            ? t("overview.nothingWaits")
            : t("overview.oldest", { age: span(data.oldest_ready_s) })
        }
        to="/tasks?status=pending"
        values={past?.states.pending}
        colour="var(--series-6)"
      />
      <Figure
        name="overview.finished"
        value={short((minute?.completed ?? 0) / seconds)}
        unit={perSecond}
        note={t("overview.lastHour", { n: count(data.throughput.hour?.completed ?? 0) })}
        to="/tasks?status=completed"
        values={past?.finished}
        colour="var(--ok)"
      />
      <Figure
        name="overview.pages"
        value={past ? short(recent(past.pages)) : "–"}
        unit={perSecond}
        note={t("overview.pagesNote")}
        to="/crawls"
        values={past?.pages}
        colour="var(--series-1)"
      />
      <Figure
        name="overview.failures"
        value={count(failures)}
        note={t("overview.failuresNote")}
        to="/tasks?status=failed%2Ctimeout"
        values={past?.failed}
        colour="var(--series-4)"
      />
      {seesFleet && (
        <Figure
          name="overview.nodes"
          value={count(data.nodes.online ?? 0)}
          unit={`/ ${count(all)}`}
          note={t("overview.healthyNote", { n: count(data.health.healthy ?? 0) })}
          to="/nodes"
        />
      )}
    </div>
  );
}

const STATE_COLOURS: Record<(typeof IN_HAND)[number], string> = {
  processing: "--series-2",
  assigned: "--series-5",
  pending: "--series-6",
  waiting: "--series-3",
  paused: "--warn",
};

function Charts({ past, errors }: { past: Columns; errors: [string, number][] }) {
  const t = useT();
  const word = useWord();
  const states = useMemo<Line[]>(
    () =>
      IN_HAND.filter(
        (state) => state === "processing" || past.states[state].some((value) => value > 0),
      ).map((state) => ({
        name: t(`task.${state}`),
        values: past.states[state],
        colour: STATE_COLOURS[state],
      })),
    [past, t],
  );
  const flow = useMemo<Line[]>(
    () => [
      { name: t("overview.finished"), values: past.finished, colour: "--ok" },
      { name: t("overview.failed"), values: past.failed, colour: "--series-4" },
    ],
    [past, t],
  );
  const pages = useMemo<Line[]>(
    () => [{ name: t("overview.pages"), values: past.pages, colour: "--series-1" }],
    [past, t],
  );
  const age = useMemo<Line[]>(
    () => [{ name: t("overview.age"), values: past.age, colour: "--series-3" }],
    [past, t],
  );
  return (
    <>
      <Card className="span-8" title={t("overview.byState")} aside={<Legend lines={states} />}>
        <Chart label={t("overview.byState")} at={past.at} lines={states} stacked format={short} />
      </Card>
      <Card className="span-4" title={t("overview.flow")} aside={<Legend lines={flow} />}>
        <Chart label={t("overview.flow")} at={past.at} lines={flow} format={short} />
      </Card>
      <Card className="span-4" title={t("overview.pages")} aside={t("unit.perSecond")}>
        <Chart label={t("overview.pages")} at={past.at} lines={pages} height={150} format={short} />
      </Card>
      <Card className="span-4" title={t("overview.age")}>
        <Chart label={t("overview.age")} at={past.at} lines={age} height={150} format={span} />
      </Card>
      <Card className="span-4" title={t("overview.errors")}>
        {errors.length ? (
          <Bars rows={errors.map(([name, n]) => [word("errorClass", name), n])} tone="bad" />
        ) : (
          <p className="muted">{t("overview.noErrors")}</p>
        )}
      </Card>
    </>
  );
}

export default function Overview() {
  const t = useT();
  const { seesFleet } = useVisitor();
  const [search, change] = useSearch();
  const minutes = Number(search.get("range")) || 15;
  const numbers = useQuery(statistics);
  const past = useQuery(series(minutes));
  const fleet = useQuery({ ...nodes, enabled: seesFleet });
  const urgent = useQuery(attention);
  const drawn = useMemo(() => (past.data ? columns(past.data) : undefined), [past.data]);
  const errors = useMemo(() => (past.data ? errorClasses(past.data) : []), [past.data]);
  const mapped = seesFleet && (fleet.data?.items.some((node) => node.region) ?? true);
  const items = urgent.data?.items ?? [];
  const high = items.filter((item) => item.severity === "high").length;
  const medium = items.filter((item) => item.severity === "medium").length;

  return (
    <Loaded of={numbers} rows={10}>
      {(data) => {
        const verdict = judge({ nodes: data.nodes, ready: data.ready, high, medium });
        return (
          <div className="stack">
            <div className="row between wrap">
              <Headline data={data} verdict={verdict} troubles={high || medium} />
              <Segments
                label={t("overview.range")}
                value={String(minutes)}
                options={["5", "15", "60"].map((n) => [n, t("overview.minutes", { n })])}
                onChange={(value) => change({ range: value === "15" ? null : value })}
              />
            </div>
            {verdict === "empty" && seesFleet && <NoNodes />}
            <Figures data={data} past={drawn} />
            <div className="grid">
              <Card className="span-7" title={t("attention.title")} flush>
                <Loaded of={urgent} rows={3}>
                  {(found) => <Attention items={found.items} />}
                </Loaded>
              </Card>
              {mapped ? (
                <Card className="span-5" title={t("overview.map")}>
                  <Loaded of={fleet}>{(found) => <WorldMap nodes={found.items} />}</Loaded>
                </Card>
              ) : (
                <Card className="span-5" title={t("overview.feed")} flush>
                  <Feed />
                </Card>
              )}
              {drawn ? (
                <Charts past={drawn} errors={errors} />
              ) : (
                <Card className="span-12">
                  {past.error ? <Loaded of={past}>{() => null}</Loaded> : <Skeletons rows={6} />}
                </Card>
              )}
              {mapped && (
                <Card className="span-12" title={t("overview.feed")} flush>
                  <Feed />
                </Card>
              )}
            </div>
          </div>
        );
      }}
    </Loaded>
  );
}
