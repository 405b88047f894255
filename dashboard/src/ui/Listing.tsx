import type { ReactNode } from "react";
import { useT } from "../i18n";
import { useSearch } from "../lib/router";
import { Button, Empty, Loaded } from "./basics";
import { type Column, Table } from "./Table";

/** What `usePages` gives. */
interface Pages<T> {
  data: T[] | undefined;
  error: unknown;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** The way to what comes after the pages that are shown. */
export function More({ of, verb }: { of: Pages<unknown>; verb?: string | undefined }) {
  const t = useT();
  if (!of.hasNextPage) return null;
  return (
    <p className="card-body">
      <Button disabled={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        {verb ?? t("common.older")}
      </Button>
    </p>
  );
}

/** Nothing is left by the filters with these names in the address. */
export function NothingFits({ filters }: { filters: readonly string[] }) {
  const t = useT();
  const [, change] = useSearch();
  return (
    <Empty icon="search" title={t("common.nothingFits")}>
      <Button onClick={() => change(Object.fromEntries(filters.map((name) => [name, null])))}>
        {t("common.clearFilters")}
      </Button>
    </Empty>
  );
}

interface ListingProps<T> {
  of: Pages<T>;
  label: string;
  columns: Column<T>[];
  rowKey: (row: T) => string;
  /** Where there is nothing at all. */
  empty: ReactNode;
  /** Names in the address of what may have left nothing. */
  filters?: readonly string[];
  more?: string;
}

/** A list of any length as a table, page after page. */
export function Listing<T>(props: ListingProps<T>) {
  const [search] = useSearch();
  const filters = props.filters?.filter((name) => search.get(name)) ?? [];
  return (
    <>
      <Loaded of={props.of} rows={8}>
        {(rows) =>
          rows.length > 0 ? (
            <Table label={props.label} columns={props.columns} rows={rows} rowKey={props.rowKey} />
          ) : filters.length > 0 ? (
            <NothingFits filters={filters} />
          ) : (
            props.empty
          )
        }
      </Loaded>
      <More of={props.of} verb={props.more} />
    </>
  );
}
