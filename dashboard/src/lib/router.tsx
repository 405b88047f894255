/** The page's address as its state: which view is shown, and how it is filtered. */
import {
  type AnchorHTMLAttributes,
  type MouseEvent,
  useCallback,
  useMemo,
  useSyncExternalStore,
} from "react";

export interface Place {
  path: string;
  search: string;
  hash: string;
}

const listeners = new Set<() => void>();
let here: Place = read();

function read(): Place {
  if (typeof window === "undefined") return { path: "/", search: "", hash: "" };
  const { pathname, search, hash } = window.location;
  return { path: pathname, search, hash };
}

function tell(): void {
  here = read();
  for (const listener of listeners) listener();
}

function listen(listener: () => void): () => void {
  if (listeners.size === 0) window.addEventListener("popstate", tell);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.removeEventListener("popstate", tell);
  };
}

export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (options.replace) window.history.replaceState(null, "", to);
  else {
    window.history.pushState(null, "", to);
    window.scrollTo(0, 0);
  }
  tell();
}

export function usePlace(): Place {
  return useSyncExternalStore(listen, () => here);
}

/** The values of `{names}` in a pattern such as `/tasks/{id}`; `null` when it does not match. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (wanted.length !== given.length) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? "";
    if (part.startsWith("{")) values[part.slice(1, -1)] = decode(value);
    else if (part !== value) return null;
  }
  return values;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A query text with some values changed; empty ones are taken out. */
export function withSearch(search: string, changes: Record<string, string | null>): string {
  const values = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) values.set(name, value);
    else values.delete(name);
  }
  values.sort();
  const text = values.toString();
  return text ? `?${text}` : "";
}

type Search = [URLSearchParams, (changes: Record<string, string | null>) => void];

/** The query of the address, and how to change it without a step in the history. */
export function useSearch(): Search {
  const { search } = usePlace();
  const values = useMemo(() => new URLSearchParams(search), [search]);
  const change = useCallback((changes: Record<string, string | null>) => {
    navigate(`${here.path}${withSearch(here.search, changes)}`, { replace: true });
  }, []);
  return [values, change];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string };

export function Link({ to, onClick, ...rest }: LinkProps) {
  function follow(event: MouseEvent<HTMLAnchorElement>): void {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  }
  return <a href={to} onClick={follow} {...rest} />;
}
