import { call } from "../../api/client";
import type { AuditView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { useSearch } from "../../lib/router";
import { Card, Clock, Empty } from "../../ui/basics";
import { SubjectLink } from "../../ui/events";
import { TextFilter } from "../../ui/filters";
import { Listing } from "../../ui/Listing";
import type { Column } from "../../ui/Table";

const FILTERS = ["actor", "action", "about"] as const;

/** Who changed what through the API. */
export function Audit() {
  const t = useT();
  const [search] = useSearch();
  const [actor, action, subject] = FILTERS.map((name) => search.get(name) ?? "");
  const found = usePages<AuditView>(["audit", actor, action, subject], (cursor) =>
    call("get", "/api/v1/audit", {
      query: {
        limit: 100,
        ...(actor ? { actor } : {}),
        ...(action ? { action } : {}),
        ...(subject ? { subject } : {}),
        ...(cursor ? { cursor } : {}),
      },
    }),
  );
  const columns: Column<AuditView>[] = [
    {
      title: t("audit.at"),
      cell: (entry) => (
        <span className="muted small">
          <Clock at={entry.at} />
        </span>
      ),
    },
    {
      title: t("audit.actor"),
      cell: (entry) => (
        <>
          <span className="strong">{entry.actor}</span> <span className="muted">{entry.role}</span>
        </>
      ),
    },
    { title: t("audit.action"), cell: (entry) => <span className="mono">{entry.action}</span> },
    { title: t("audit.count"), right: true, cell: (entry) => count(entry.count) },
    {
      title: t("audit.about"),
      cell: (entry) => (
        <div className="row wrap">
          {(entry.subjects ?? []).slice(0, 4).map((id) => (
            <SubjectLink key={id} event={{ subject: id }} />
          ))}
          {entry.count > 4 && <span className="muted">+{count(entry.count - 4)}</span>}
        </div>
      ),
    },
    {
      title: t("audit.address"),
      cell: (entry) => <span className="muted mono small">{entry.address}</span>,
    },
  ];
  return (
    <>
      <search className="filters">
        {FILTERS.map((name) => (
          <TextFilter key={name} name={name} label={t(`audit.${name}`)} />
        ))}
      </search>
      <Card flush>
        <Listing
          of={found}
          label={t("audit.title")}
          columns={columns}
          rowKey={(entry) => entry.id}
          filters={FILTERS}
          empty={<Empty icon="events" title={t("common.nothingFits")} command="crawlfleet audit" />}
        />
      </Card>
    </>
  );
}
