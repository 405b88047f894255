import { useQuery } from "@tanstack/react-query";
import { schedules } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { ScheduleView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { Link } from "../../lib/router";
import { Card, Empty, Loaded, PageHead } from "../../ui/basics";
import { Icon } from "../../ui/Icon";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { Calendar } from "./Calendar";
import { Instant, Outcome, Rule, ScheduleActions } from "./parts";

function useColumns(): Column<ScheduleView>[] {
  const t = useT();
  const { operates } = useVisitor();
  const columns: Column<ScheduleView>[] = [
    { title: t("tasks.state"), cell: (each) => <State family="other" name={each.status} /> },
    {
      title: t("schedules.schedule"),
      cell: (each) => (
        <>
          <Link className="strong" to={`/schedules/${encodeURIComponent(each.id)}`}>
            {each.name}
          </Link>
          <div className="muted small cut">
            {each.description ||
              `${each.task?.task_type ?? each.workflow?.name} · ${each.project_id}`}
          </div>
        </>
      ),
    },
    { title: t("schedules.rule"), cell: (each) => <Rule schedule={each} /> },
    {
      title: t("schedules.next"),
      cell: (each) => <Instant at={each.next_at} zone={each.time_zone} />,
    },
    { title: t("schedules.last"), cell: (each) => <Outcome firing={each.last} /> },
    {
      title: t("schedules.running"),
      right: true,
      cell: (each) => `${count(each.running.length)} / ${count(each.max_instances)}`,
    },
  ];
  if (operates) {
    columns.push({
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) => <ScheduleActions schedule={each} brief />,
    });
  }
  return columns;
}

export default function Schedules() {
  const t = useT();
  const { operates } = useVisitor();
  const found = useQuery(schedules);
  const columns = useColumns();
  return (
    <>
      <PageHead title={<h1>{t("nav.schedules")}</h1>}>
        {operates && (
          <Link className="button primary" to="/schedules/new">
            <Icon name="submit" /> {t("schedules.make")}
          </Link>
        )}
      </PageHead>
      <Loaded of={found} rows={8}>
        {({ items }) =>
          items.length > 0 ? (
            <div className="stack">
              <Card flush>
                <Table
                  label={t("nav.schedules")}
                  columns={columns}
                  rows={items}
                  rowKey={(each) => each.id}
                />
              </Card>
              <Calendar schedules={items} />
            </div>
          ) : (
            <Card>
              <Empty
                icon="schedules"
                title={t("schedules.emptyTitle")}
                command="crawlfleet schedules create shop-nightly web_crawl --cron '30 2 * * *' --zone Europe/Berlin -p url=https://shop.example"
              >
                {t("schedules.emptyText")}
              </Empty>
            </Card>
          )
        }
      </Loaded>
    </>
  );
}
