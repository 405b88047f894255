import type { ReactNode } from "react";
import { Ago } from "./basics";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** The title is for those who hear the page: what is below speaks for itself. */
  bare?: boolean;
  right?: boolean;
}

/** A column that tells how long ago something was. */
export function since<T>(title: string, at: (row: T) => string | null | undefined): Column<T> {
  return {
    title,
    right: true,
    cell: (row) => (
      <span className="muted small">
        <Ago at={at(row)} />
      </span>
    ),
  };
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
