/** Tasks page by page as one scrolls, kept up to date by the news. */
import { useCallback, useEffect, useRef, useState } from "react";
import { call } from "../../api/client";
import { live } from "../../api/live";
import { merged, patched, rowOf, type TaskRow, within } from "../../lib/rows";
import type { TaskFilter } from "../../lib/taskFilter";
import { throttle } from "../../lib/throttle";

const PAGE = 500;
const HEAD = 100;

export interface Rows {
  rows: TaskRow[];
  /** Whether the last page was fetched. */
  complete: boolean;
  loading: boolean;
  error: unknown;
  fetchMore: () => Promise<void>;
  refresh: () => Promise<void>;
}

async function fetchPage(filter: TaskFilter, limit: number, cursor: string | null) {
  const page = await call("get", "/api/v1/tasks", {
    query: { ...filter, limit, brief: true, ...(cursor ? { cursor } : {}) },
  });
  return { rows: page.items.map(rowOf), cursor: page.next_cursor ?? null };
}

export function useRows(filter: TaskFilter): Rows {
  const [rows, setRows] = useState<TaskRow[]>([]);
  const [complete, setComplete] = useState(false);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<unknown>(null);
  const cursor = useRef<string | null>(null);
  const busy = useRef(false);
  const key = JSON.stringify(filter);
  const current = useRef(key);
  current.current = key;

  const fetchMore = useCallback(async () => {
    if (busy.current) return;
    busy.current = true;
    setLoading(true);
    try {
      const page = await fetchPage(JSON.parse(key), PAGE, cursor.current);
      if (current.current !== key) return;
      cursor.current = page.cursor;
      setRows((known) => merged(page.rows, known));
      setComplete(page.cursor === null);
      setError(null);
    } catch (problem) {
      if (current.current === key) setError(problem);
    } finally {
      busy.current = false;
      if (current.current === key) setLoading(false);
    }
  }, [key]);

  const refresh = useCallback(async () => {
    try {
      const page = await fetchPage(JSON.parse(key), HEAD, null);
      if (current.current === key) setRows((known) => merged(page.rows, known));
    } catch {
      // The next news try again.
    }
  }, [key]);

  useEffect(() => {
    const begin = () => {
      cursor.current = null;
      busy.current = false;
      setRows([]);
      setComplete(false);
      void fetchMore();
    };
    begin();
    const renew = throttle(() => void refresh(), 1500);
    const { status } = JSON.parse(key) as TaskFilter;
    const states = status ? status.split(",") : [];
    const stopReturning = live.hearReturn(begin);
    const stopHearing = live.hear((news) => {
      if (news.tasks.size === 0) return;
      setRows((known) => {
        const next = patched(known, news.tasks);
        return next === known ? known : within(next, states);
      });
      if (news.born > 0 || key !== "{}") renew();
    });
    return () => {
      stopReturning();
      stopHearing();
    };
  }, [key, fetchMore, refresh]);

  return { rows, complete, loading, error, fetchMore, refresh };
}
