import { useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { scheduleNext, schedule as scheduleQuery } from "../../api/queries";
import type { FiringView, ScheduleView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { count, span } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import { Card, Crumbs, Loaded, PageHead } from "../../ui/basics";
import { Json } from "../../ui/Json";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import type { Column } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { Instant, Rule, ScheduleActions, startedPath } from "../schedules/parts";
import { Editor } from "./Editor";
import { DueList } from "./Preview";

function Facts({ schedule }: { schedule: ScheduleView }) {
  const t = useT();
  return (
    <dl className="facts">
      <dt>{t("schedules.rule")}</dt>
      <dd>
        <Rule schedule={schedule} />
      </dd>
      <dt>{t("tasks.project")}</dt>
      <dd>{schedule.project_id}</dd>
      {schedule.start_at && (
        <>
          <dt>{t("schedules.start")}</dt>
          <dd>
            <Instant at={schedule.start_at} zone={schedule.time_zone} />
          </dd>
        </>
      )}
      {schedule.end_at && (
        <>
          <dt>{t("schedules.end")}</dt>
          <dd>
            <Instant at={schedule.end_at} zone={schedule.time_zone} />
          </dd>
        </>
      )}
      <dt>{t("schedules.running")}</dt>
      <dd>
        {schedule.running.length === 0
          ? `0 / ${count(schedule.max_instances)}`
          : schedule.running.map((id) => (
              <Link
                key={id}
                className="breaks"
                to={`/${id.startsWith("run-") ? "runs" : "tasks"}/${encodeURIComponent(id)}`}
              >
                {id}
              </Link>
            ))}
      </dd>
      <dt>{t("schedules.overlap")}</dt>
      <dd>
        {t(schedule.overlap === "queue" ? "schedules.overlap.queue" : "schedules.overlap.skip")}
      </dd>
      <dt>{t("schedules.grace")}</dt>
      <dd>
        {schedule.misfire_grace_s ? span(schedule.misfire_grace_s) : t("schedules.graceNone")}
      </dd>
      {schedule.jitter_s > 0 && (
        <>
          <dt>{t("schedules.jitter")}</dt>
          <dd>{span(schedule.jitter_s)}</dd>
        </>
      )}
    </dl>
  );
}

/** Why it does not run, or did not. */
function Reasons({ schedule }: { schedule: ScheduleView }) {
  const found = useQuery({
    queryKey: ["schedules", schedule.id, "explain", schedule.version],
    queryFn: () =>
      call("get", "/api/v1/schedules/{schedule_id}:explain", {
        path: { schedule_id: schedule.id },
      }),
  });
  return found.data?.reasons.map((each) => (
    <div key={each.code} className="notice warn">
      <span className="breaks">
        {each.message}. <span className="muted">{each.remedy}</span>
      </span>
    </div>
  ));
}

function History({ schedule }: { schedule: ScheduleView }) {
  const t = useT();
  const word = useWord();
  const found = usePages<FiringView>(
    ["schedules", schedule.id, "history"],
    (cursor) =>
      call("get", "/api/v1/schedules/{schedule_id}/history", {
        path: { schedule_id: schedule.id },
        query: { limit: 50, ...(cursor ? { cursor } : {}) },
      }),
    10_000,
  );
  const columns: Column<FiringView>[] = [
    {
      title: t("schedules.due"),
      cell: (each) => <Instant at={each.due_at} zone={schedule.time_zone} />,
    },
    {
      title: t("schedules.outcome"),
      cell: (each) => <State family="firing" name={each.outcome} />,
    },
    {
      title: t("schedules.origin"),
      cell: (each) => (
        <>
          <span className="nowrap">{word("origin", each.origin)}</span>
          {each.count > 1 && (
            <span className="muted small"> {t("schedules.together", { n: each.count })}</span>
          )}
        </>
      ),
    },
    {
      title: t("palette.task"),
      cell: (each) =>
        startedPath(each) ? (
          <Link className="mono small" to={startedPath(each)}>
            {each.run_id ?? each.task_id}
          </Link>
        ) : (
          <span className="muted small breaks">{each.reason || "–"}</span>
        ),
    },
  ];
  return (
    <Card title={t("schedules.history")} flush>
      <Listing
        of={found}
        label={t("schedules.history")}
        columns={columns}
        rowKey={(each) => each.id}
        empty={<p className="card-body muted">{t("schedules.never")}</p>}
      />
    </Card>
  );
}

function Summary({ schedule }: { schedule: ScheduleView }) {
  const t = useT();
  const next = useQuery(scheduleNext(schedule.id, schedule.edition, 8));
  return (
    <div className="grid">
      <div className="span-8 stack">
        <Reasons schedule={schedule} />
        <History schedule={schedule} />
        <Card title={t("schedules.what")}>
          <Json value={schedule.workflow ?? schedule.task} label={t("schedules.what")} />
        </Card>
      </div>
      <div className="span-4 stack">
        <Card title={t("schedules.next")}>
          <Loaded of={next} rows={4}>
            {({ items, time_zone }) => <DueList items={items} zone={time_zone} />}
          </Loaded>
        </Card>
        <Card title={t("tasks.about")}>
          <Facts schedule={schedule} />
        </Card>
      </div>
    </div>
  );
}

function Shown({ schedule }: { schedule: ScheduleView }) {
  const t = useT();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "summary";
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">{schedule.name}</h1>
            <State family="other" name={schedule.status} />
          </>
        }
      >
        <ScheduleActions schedule={schedule} />
      </PageHead>
      {schedule.description && <p className="muted">{schedule.description}</p>}
      <Tabs
        label={t("nav.schedules")}
        current={tab}
        tabs={[
          ["summary", t("tasks.summary")],
          ["edit", t("clusters.change")],
        ]}
      />
      {tab === "edit" ? <Editor schedule={schedule} /> : <Summary schedule={schedule} />}
    </>
  );
}

function Kept({ id }: { id: string }) {
  const found = useQuery(scheduleQuery(id));
  return (
    <Loaded of={found} rows={10}>
      {(schedule) => <Shown schedule={schedule} />}
    </Loaded>
  );
}

export default function SchedulePage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/schedules/{id}", path)?.id ?? "";
  return (
    <>
      <Crumbs to="/schedules" parent={t("nav.schedules")} />
      {id === "new" ? (
        <>
          <PageHead title={<h1>{t("schedules.make")}</h1>} />
          <Editor />
        </>
      ) : (
        <Kept id={id} />
      )}
    </>
  );
}
