import { useQuery } from "@tanstack/react-query";
import { webhooks } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { WebhookView } from "../../generated/api";
import { useT } from "../../i18n";
import { Link } from "../../lib/router";
import { Card, Chip, Empty, Loaded, PageHead } from "../../ui/basics";
import { State } from "../../ui/State";
import { type Column, since, Table } from "../../ui/Table";
import { Make } from "./Make";
import { Wants, WebhookActions } from "./parts";

function useColumns(): Column<WebhookView>[] {
  const t = useT();
  const { operates } = useVisitor();
  const columns: Column<WebhookView>[] = [
    {
      title: t("tasks.state"),
      cell: (each) => (
        <span className="row tight">
          <State family="other" name={each.status} />
          {each.is_full && <Chip tone="bad">{t("hooks.full")}</Chip>}
        </span>
      ),
    },
    {
      title: t("hooks.webhook"),
      cell: (each) => (
        <>
          <Link className="strong" to={`/webhooks/${encodeURIComponent(each.id)}`}>
            {each.name}
          </Link>
          <div className="muted small cut hook-url" title={each.url}>
            {each.url}
          </div>
        </>
      ),
    },
    { title: t("hooks.told"), cell: (each) => <Wants webhook={each} /> },
    since(t("projects.made"), (each) => each.created_at),
  ];
  if (operates) {
    columns.push({
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) => <WebhookActions webhook={each} brief />,
    });
  }
  return columns;
}

export default function Webhooks() {
  const t = useT();
  const { operates } = useVisitor();
  const found = useQuery(webhooks);
  const columns = useColumns();
  return (
    <>
      <PageHead title={<h1>{t("nav.webhooks")}</h1>}>{operates && <Make />}</PageHead>
      <Card flush>
        <Loaded of={found} rows={6}>
          {({ items }) =>
            items.length > 0 ? (
              <Table
                label={t("nav.webhooks")}
                columns={columns}
                rows={items}
                rowKey={(each) => each.id}
              />
            ) : (
              <Empty
                icon="webhooks"
                title={t("hooks.emptyTitle")}
                command="crawlfleet webhooks create failures https://hooks.example/in --kind task.failed"
              >
                {t("hooks.emptyText")}
              </Empty>
            )
          }
        </Loaded>
      </Card>
    </>
  );
}
