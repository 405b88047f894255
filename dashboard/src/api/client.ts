/** Calls to the master, typed by its own description of its API. */
import type { Problem as ProblemBody, paths } from "../generated/api";

export type Method = "get" | "post" | "patch" | "delete";
export type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, infer O>
    ? O extends undefined
      ? never
      : P
    : never;
}[keyof paths];

type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M & keyof paths[P]]>;
type Parameters<O> = O extends { parameters: infer X } ? X : never;
type QueryOf<O> = Parameters<O> extends { query?: infer Q } ? Q : never;
type PathOf<O> = Parameters<O> extends { path: infer V } ? V : never;
type BodyOf<O> = O extends { requestBody?: { content: { "application/json": infer B } } }
  ? B
  : never;
type Content<R> = R extends { content: { "application/json": infer B } } ? B : never;
export type Answer<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: infer R }
    ? Content<R extends { 200: infer A } ? A : R extends { 201: infer A } ? A : never>
    : never;

export interface Asked<P extends keyof paths, M extends Method> {
  query?: QueryOf<Operation<P, M>>;
  path?: PathOf<Operation<P, M>>;
  body?: BodyOf<Operation<P, M>>;
  signal?: AbortSignal;
}

/** A refusal: what the master says was wrong, field by field. */
export class Problem extends Error {
  readonly status: number;
  readonly body: Partial<ProblemBody>;

  constructor(status: number, body: Partial<ProblemBody>) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.body = body;
  }
}

/** What the master found wrong, by field. */
export function problemsOf(error: unknown): Record<string, string> {
  if (!(error instanceof Problem)) return {};
  return Object.fromEntries(
    (error.body.errors ?? []).map((each) => [each.field, `${each.message}; ${each.remedy}`]),
  );
}

let csrf = "";
let onSignedOut: () => void = () => {};

export function setCsrf(token: string): void {
  csrf = token;
}

export function whenSignedOut(act: () => void): void {
  onSignedOut = act;
}

/** `/tasks/{id}` and its values as an address; ids are data, whatever they contain. */
export function address(
  pattern: string,
  values: Record<string, unknown> = {},
  query: Record<string, unknown> = {},
): string {
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(values[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

export function headers(method: string, more: Record<string, string> = {}): Record<string, string> {
  const safe = method.toUpperCase() === "GET";
  return { ...(safe || !csrf ? {} : { "X-Crawlfleet-Csrf": csrf }), ...more };
}

export async function call<M extends Method, P extends PathsWith<M>>(
  method: M,
  path: P,
  asked: Asked<P, M> = {},
): Promise<Answer<P, M>> {
  const where = address(path, asked.path ?? {}, asked.query ?? {});
  return (await send(method, where, asked.body, asked.signal)) as Answer<P, M>;
}

export async function send(
  method: string,
  where: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<unknown> {
  const json: Record<string, string> =
    body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(where, {
    method: method.toUpperCase(),
    headers: headers(method, { Accept: "application/json", ...json }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
    credentials: "same-origin",
  });
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  const problem = new Problem(response.status, parsed(text));
  if (response.status === 401 && where !== "/api/v1/session") onSignedOut();
  throw problem;
}

export function parsed(text: string): Partial<ProblemBody> {
  try {
    return JSON.parse(text) as Partial<ProblemBody>;
  } catch {
    return { detail: text.slice(0, 300) };
  }
}
