import { useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import type { SettingView } from "../../generated/api";
import { useT } from "../../i18n";
import { matches } from "../../lib/matching";
import { useSearch } from "../../lib/router";
import { Card, Chip, Coded, Loaded } from "../../ui/basics";
import { SearchFilter } from "../../ui/filters";
import { type Column, Table } from "../../ui/Table";

/** What the master runs by, and where each value came from; changed in its settings file. */
export function Master() {
  const t = useT();
  const [search] = useSearch();
  const text = search.get("q") ?? "";
  const found = useQuery({
    queryKey: ["settings"],
    queryFn: () => call("get", "/api/v1/settings"),
  });
  const columns: Column<SettingView>[] = [
    { title: t("common.name"), cell: (each) => <span className="mono">{each.name}</span> },
    {
      title: t("settings.value"),
      cell: (each) => <span className="mono breaks">{JSON.stringify(each.value)}</span>,
    },
    {
      title: t("settings.origin"),
      cell: (each) =>
        each.origin === "default" ? (
          <span className="muted">{each.origin}</span>
        ) : (
          <Chip tone="busy">{each.origin}</Chip>
        ),
    },
    {
      title: t("common.description"),
      cell: (each) => (
        <span className="muted">
          <Coded text={each.description ?? ""} />
        </span>
      ),
    },
  ];
  return (
    <>
      <search className="filters">
        <SearchFilter label={t("settings.search")} />
      </search>
      <Card title={t("settings.master")} aside={t("settings.masterHint")} flush>
        <Loaded of={found} rows={10}>
          {({ items }) => (
            <Table
              label={t("settings.master")}
              columns={columns}
              rows={items.filter((each) => matches(text, `${each.name} ${each.description}`))}
              rowKey={(each) => each.name}
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}
