import type { TaskView } from "../generated/api";

/** A submission as it is typed in a shell or written in a program. */
export type TaskRequest = { task_type: string; parameters?: unknown } & Record<string, unknown>;

/** What a task has where nothing else was asked for. */
const USUAL: Record<string, unknown> = {
  priority: 5,
  project_id: "default",
  cluster_id: "default",
  max_retries: 3,
};

const FIELDS = [
  "priority",
  "project_id",
  "cluster_id",
  "timeout",
  "max_retries",
  "retry_policy",
  "schedule_strategy",
  "target_region",
  "node_type",
  "bundle",
  "capabilities",
  "min_resources",
  "content_features",
  "categories",
] as const satisfies readonly (keyof TaskView)[];

/** What to send for a task like this one. Keys that would find this one again are left out. */
export function requestOf(task: TaskView): TaskRequest {
  const request: TaskRequest = { task_type: task.task_type, parameters: task.parameters };
  for (const name of FIELDS) {
    const value = task[name];
    const empty = typeof value === "object" && value !== null && !Object.keys(value).length;
    if (value == null || empty || value === USUAL[name]) continue;
    request[name] = value;
  }
  return request;
}

/** In single quotes, as every POSIX shell reads it. */
export function quoted(text: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

export function asCurl(request: TaskRequest, origin: string): string {
  return [
    `curl ${quoted(`${origin}/api/v1/tasks`)} \\`,
    '  -H "Authorization: Bearer $CRAWLFLEET_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quoted(JSON.stringify(request))}`,
  ].join("\n");
}

/** The options of `crawlfleet submit` that say what is not in the parameters. */
const OPTIONS: Record<string, string> = {
  priority: "--priority",
  project_id: "--project",
  cluster_id: "--cluster",
  timeout: "--timeout",
  max_retries: "--max-retries",
  schedule_strategy: "--strategy",
  target_region: "--region",
  node_type: "--node-type",
  bundle: "--bundle",
  isolation: "--isolation",
  dedup_key: "--dedup-key",
  idempotency_key: "--idempotency-key",
};

/** Those that are said once for each name in them. */
const PAIRS: Record<string, string> = {
  capabilities: "--capability",
  min_resources: "--min",
};

function isPairs(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The words of the command line for one field; `null` where it has none. */
function option(name: string, value: unknown): string[] | null {
  const flag = PAIRS[name];
  if (flag && isPairs(value)) {
    return Object.entries(value).flatMap(([key, each]) => [flag, pair(key, each)]);
  }
  const plain = OPTIONS[name];
  return plain ? [plain, quoted(String(value))] : null;
}

/** `name=value`, where the command line reads a value as JSON if it can. */
function pair(name: string, value: unknown): string {
  const looksLikeJson = typeof value === "string" && isJson(value);
  return quoted(
    `${name}=${typeof value === "string" && !looksLikeJson ? value : JSON.stringify(value)}`,
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function asCli(request: TaskRequest, origin: string): string {
  const { task_type, parameters, ...rest } = request;
  const options = Object.entries(rest).map(([name, value]) => option(name, value));
  if (options.includes(null)) {
    const line = quoted(JSON.stringify(request));
    return `echo ${line} | crawlfleet submit --file - --url ${quoted(origin)}`;
  }
  const words = ["crawlfleet", "submit", quoted(task_type)];
  for (const [name, value] of Object.entries((parameters ?? {}) as Record<string, unknown>)) {
    words.push("-p", pair(name, value));
  }
  for (const each of options) words.push(...(each ?? []));
  words.push("--url", quoted(origin));
  return words.join(" ");
}

export function asPython(request: TaskRequest, origin: string): string {
  const { task_type, parameters, ...rest } = request;
  const named = Object.entries(rest).map(([name, value]) => `, ${name}=${python(value)}`);
  const given = `${python(task_type)}, ${python(parameters ?? {})}${named.join("")}`;
  return [
    "import os",
    "from crawlfleet.client import Client",
    "",
    `with Client.blocking(${python(origin)}, os.environ["CRAWLFLEET_KEY"]) as fleet:`,
    `    receipt = fleet.submit(${given})`,
    "    print(fleet.wait(receipt.id).status)",
  ].join("\n");
}

/** A JSON value as Python writes it. */
export function python(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    const pairs = Object.entries(value).map(([name, each]) => `${python(name)}: ${python(each)}`);
    return `{${pairs.join(", ")}}`;
  }
  return JSON.stringify(value);
}
