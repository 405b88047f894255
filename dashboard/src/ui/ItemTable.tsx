import { useT } from "../i18n";
import { columnsOf, textOf } from "../lib/items";
import { Outside } from "./basics";
import { type Column, Table } from "./Table";

export interface Item {
  kind: string;
  fields: Record<string, unknown>;
  number?: number;
}

/** Items as rows; whatever they hold is text. */
export function ItemTable({ items }: { items: readonly Item[] }) {
  const t = useT();
  const rows = items.map((item, index) => ({ ...item, number: item.number ?? index + 1 }));
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { title: "#", right: true, cell: (row) => <span className="muted">{row.number}</span> },
    { title: t("items.kind"), cell: (row) => <span className="muted">{row.kind}</span> },
    ...columnsOf(items).map(
      (name): Column<Row> => ({
        title: name,
        cell: (row) => (
          <div className="item-value">
            <Outside text={textOf(row.fields[name])} />
          </div>
        ),
      }),
    ),
  ];
  return (
    <Table
      label={t("crawls.items")}
      columns={columns}
      rows={rows}
      rowKey={(row) => `${row.number}`}
    />
  );
}
