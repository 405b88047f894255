import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { nodes, statistics } from "../../api/queries";
import { useVisitor } from "../../app/session";
import { useT, useWord } from "../../i18n";
import { count, short } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { STATES, statesOf, taskFilter, toggled } from "../../lib/taskFilter";
import { Card, Empty, PageHead, Skeletons, Trouble } from "../../ui/basics";
import { ProjectSelect, SelectFilter, TextFilter, TypeSelect } from "../../ui/filters";
import { Icon } from "../../ui/Icon";
import { Mark } from "../../ui/State";
import { BulkBar } from "./BulkBar";
import { TaskTable } from "./TaskTable";
import { useRows } from "./useRows";

function StateFilter() {
  const t = useT();
  const [search, change] = useSearch();
  const { data } = useQuery(statistics);
  const chosen = statesOf(search);
  return (
    <fieldset className="row wrap group">
      <legend className="hidden-text">{t("tasks.state")}</legend>
      {STATES.map((state) => (
        <button
          key={state}
          type="button"
          className="toggle"
          aria-pressed={chosen.includes(state)}
          onClick={() => change({ status: toggled(search, state) })}
        >
          <Mark family="task" name={state} />
          {t(`task.${state}`)}
          {data && <span className="muted">{short(data.tasks[state] ?? 0)}</span>}
        </button>
      ))}
    </fieldset>
  );
}

function Filters() {
  const t = useT();
  const { seesFleet } = useVisitor();
  const [search] = useSearch();
  const fleet = useQuery({ ...nodes, enabled: seesFleet, refetchInterval: 30_000 });
  const names = useMemo(
    () => new Map(fleet.data?.items.map((node) => [node.id, node.name])),
    [fleet.data],
  );
  const filtered = [...search.keys()].length > 0;
  return (
    <search className="filters">
      <StateFilter />
      <TypeSelect />
      {seesFleet && (
        <>
          <ProjectSelect />
          <SelectFilter
            name="node"
            label={t("tasks.node")}
            values={[...names.keys()]}
            word={(id) => names.get(id) ?? id}
          />
        </>
      )}
      <TextFilter name="workflow" label={t("tasks.workflow")} />
      {filtered && (
        <Link to="/tasks" className="button plain small">
          <Icon name="close" /> {t("common.clearFilters")}
        </Link>
      )}
    </search>
  );
}

export default function Tasks() {
  const t = useT();
  const word = useWord();
  const { operates, seesFleet } = useVisitor();
  const [search] = useSearch();
  const filter = useMemo(() => taskFilter(search), [search]);
  const found = useRows(filter);
  const numbers = useQuery(statistics);
  const fleet = useQuery({ ...nodes, enabled: seesFleet, refetchInterval: 30_000 });
  const names = useMemo(
    () => new Map(fleet.data?.items.map((node) => [node.id, node.name])),
    [fleet.data],
  );
  const key = JSON.stringify(filter);
  const [selection, setSelection] = useState<{ key: string; ids: Set<string>; all: boolean }>({
    key,
    ids: new Set(),
    all: false,
  });
  const chosen = selection.key === key ? selection : { key, ids: new Set<string>(), all: false };
  const total = useMemo(() => {
    const { status: states, ...rest } = filter;
    if (!numbers.data || Object.keys(rest).length > 0) return null;
    const wanted = states ? states.split(",") : STATES;
    return wanted.reduce((sum, state) => sum + (numbers.data.tasks[state] ?? 0), 0);
  }, [filter, numbers.data]);

  const filtered = key !== "{}";
  return (
    <>
      <PageHead
        title={
          <>
            <h1>{t("nav.tasks")}</h1>
            <span className="muted" role="status">
              {total === null
                ? t("tasks.loaded", { n: count(found.rows.length) })
                : t("tasks.total", { n: count(total) })}
            </span>
          </>
        }
      >
        {operates && (
          <Link className="button primary" to="/submit">
            <Icon name="submit" /> {t("nav.submit")}
          </Link>
        )}
      </PageHead>
      <Filters />
      {operates && (chosen.ids.size > 0 || chosen.all) && (
        <BulkBar
          ids={chosen.ids}
          all={chosen.all}
          filter={filter}
          total={total}
          describe={(state) => word("task", state)}
          onAll={() => setSelection({ ...chosen, all: true })}
          onDone={() => {
            setSelection({ key, ids: new Set(), all: false });
            found.refresh();
          }}
        />
      )}
      {found.error ? <Trouble error={found.error} /> : null}
      {found.rows.length > 0 ? (
        <TaskTable
          found={found}
          names={names}
          chosen={chosen.ids}
          all={chosen.all}
          selectable={operates}
          total={total}
          onChoose={(ids) => setSelection({ key, ids, all: false })}
        />
      ) : found.loading ? (
        <Card>
          <Skeletons rows={12} height={20} />
        </Card>
      ) : (
        <Card>
          {filtered ? (
            <Empty icon="search" title={t("common.nothingFits")}>
              <Link to="/tasks">{t("common.clearFilters")}</Link>
            </Empty>
          ) : (
            <Empty
              icon="tasks"
              title={t("tasks.emptyTitle")}
              command="crawlfleet submit sleep -p seconds=1 --wait"
            >
              {t("tasks.emptyText")} <Link to="/submit">{t("tasks.emptyLink")}</Link>
            </Empty>
          )}
        </Card>
      )}
    </>
  );
}
