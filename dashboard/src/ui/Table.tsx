import type { ReactNode } from "react";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** The title is for those who hear the page: what is below speaks for itself. */
  bare?: boolean;
  right?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
}

/** A short table; it scrolls sideways where it is wider than the window. */
export function Table<T>({ label, columns, rows, rowKey }: TableProps<T>) {
  return (
    <div className="table-wrap" role="group" aria-label={label} tabIndex={0}>
      <table className="table">
        <caption className="hidden-text">{label}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" key={column.title} className={column.right ? "right" : ""}>
                {column.bare ? <span className="hidden-text">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td key={column.title} className={column.right ? "right" : ""}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
