import { call } from "../../api/client";
import type { AuditView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { useSearch } from "../../lib/router";
import { Button, Card, Clock, Empty, Loaded } from "../../ui/basics";
import { SubjectLink } from "../../ui/events";
import { type Column, Table } from "../../ui/Table";

const FILTERS = ["actor", "action", "about"] as const;

/** Who changed what through the API. */
export function Audit() {
  const t = useT();
  const [search, change] = useSearch();
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
          <input
            key={name}
            className="input auto"
            aria-label={t(`audit.${name}`)}
            placeholder={t(`audit.${name}`)}
            defaultValue={search.get(name) ?? ""}
            onBlur={(event) => change({ [name]: event.target.value.trim() })}
            onKeyDown={(event) => {
              if (event.key === "Enter") change({ [name]: event.currentTarget.value.trim() });
            }}
          />
        ))}
      </search>
      <Card flush>
        <Loaded of={found} rows={8}>
          {(entries) =>
            entries.length > 0 ? (
              <Table
                label={t("audit.title")}
                columns={columns}
                rows={entries}
                rowKey={(entry) => entry.id}
              />
            ) : (
              <Empty icon="events" title={t("common.nothingFits")} command="crawlfleet audit" />
            )
          }
        </Loaded>
        {found.hasNextPage && (
          <p className="card-body">
            <Button onClick={() => void found.fetchNextPage()}>{t("common.older")}</Button>
          </p>
        )}
      </Card>
    </>
  );
}
