import { call } from "../../api/client";
import type { MeasuredRunView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { count, percent, shortId } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { brokenChecks, emptyShare, fieldsOf, isOff } from "../../lib/quality";
import { Link } from "../../lib/router";
import { Card, Empty, Loaded } from "../../ui/basics";
import { More } from "../../ui/Listing";
import { State } from "../../ui/State";
import { type Column, since, Table } from "../../ui/Table";
import { Decide } from "./Decide";
import { RunBars } from "./RunBars";

const SHOWN = 50;
const MOST_FIELDS = 12;

function Charts({ runs }: { runs: readonly MeasuredRunView[] }) {
  const t = useT();
  const oldest = runs.slice(0, SHOWN).reverse();
  const bars = (value: (run: MeasuredRunView) => number | null) =>
    oldest.map((run) => ({ id: run.id, at: run.at, value: value(run), isOff: isOff(run) }));
  const fields = fieldsOf(runs).slice(0, MOST_FIELDS);
  const [newest] = runs;
  return (
    <div className="two">
      <Card title={t("quality.items")} aside={newest?.items == null ? null : count(newest.items)}>
        <div className="bars-room">
          <RunBars
            label={t("quality.items")}
            bars={bars((run) => run.items)}
            height={120}
            format={count}
          />
        </div>
      </Card>
      <Card title={t("quality.empty")}>
        {fields.length > 0 ? (
          <ul className="field-bars">
            {fields.map((name) => {
              const now = newest ? emptyShare(newest, name) : null;
              return (
                <li key={name}>
                  <code className="cut" title={name}>
                    {name}
                  </code>
                  <span className="bars-room">
                    <RunBars
                      label={`${t("quality.empty")}: ${name}`}
                      bars={bars((run) => emptyShare(run, name))}
                      most={1}
                      height={32}
                      format={percent}
                    />
                  </span>
                  <span className="right">{now === null ? "–" : percent(now)}</span>
                </li>
              );
            })}
          </ul>
        ) : (
          <p className="muted">{t("quality.noFields")}</p>
        )}
      </Card>
    </div>
  );
}

function useColumns(): Column<MeasuredRunView>[] {
  const t = useT();
  const { check } = useRetelling();
  const word = useWord();
  return [
    {
      title: t("tasks.state"),
      cell: (run) => (
        <>
          <State family="measured" name={run.verdict} />
          {run.decision !== "none" && (
            <div className="muted small">
              {word("decision", run.decision)}
              {run.decided_by && ` · ${run.decided_by}`}
            </div>
          )}
        </>
      ),
    },
    {
      title: t("palette.task"),
      cell: (run) => (
        <Link
          className="mono nowrap"
          to={`/tasks/${encodeURIComponent(run.task_id)}`}
          title={run.task_id}
        >
          {shortId(run.task_id)}
        </Link>
      ),
    },
    {
      title: t("quality.items"),
      right: true,
      cell: (run) => (run.items === null ? "–" : count(run.items)),
    },
    {
      title: t("crawls.pages"),
      right: true,
      cell: (run) => (run.pages === null ? "–" : count(run.pages)),
    },
    {
      title: t("crawl.errors"),
      right: true,
      cell: (run) => (run.errors === null ? "–" : percent(run.errors)),
    },
    {
      title: t("flow.reason"),
      cell: (run) => (
        <ul className="small reason">
          {(isOff(run) ? brokenChecks(run) : []).map((each) => (
            <li key={each.name} className="breaks">
              {check(each)}
            </li>
          ))}
          {run.reason && <li className="muted breaks">“{run.reason}”</li>}
        </ul>
      ),
    },
    since(t("hooks.when"), (run) => run.at),
    {
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (run) => <Decide run={run} />,
    },
  ];
}

/** A series over its runs: how much was found, how much of it was empty, and what was not right. */
export function Series({ project, series }: { project: string; series: string }) {
  const t = useT();
  const columns = useColumns();
  const found = usePages<MeasuredRunView>(
    ["quality", project, series],
    (cursor) =>
      call("get", "/api/v1/quality/{series_id}", {
        path: { series_id: series },
        query: { project_id: project, limit: SHOWN, ...(cursor ? { cursor } : {}) },
      }),
    15_000,
  );
  return (
    <Loaded of={found} rows={8}>
      {(runs) =>
        runs.length > 0 ? (
          <div className="stack">
            <Charts runs={runs} />
            {runs.some(isOff) && <p className="muted small">{t("quality.legend")}</p>}
            <Card title={t("quality.runs")} flush>
              <Table
                label={t("quality.runs")}
                columns={columns}
                rows={runs}
                rowKey={(run) => run.id}
              />
              <More of={found} />
            </Card>
          </div>
        ) : (
          <Card>
            <Empty icon="quality" title={t("quality.noRuns")} />
          </Card>
        )
      }
    </Loaded>
  );
}
