/** Where the fields of a form stand: what most people fill in first, the rest folded by subject. */
import { type FormField, filled, type Values, valueAt } from "./schema";

export interface Section {
  name: string;
  fields: FormField[];
}

export interface Layout {
  first: readonly string[];
  /** By path; the name of a group stands for all of its fields that are not named elsewhere. */
  sections: readonly (readonly [name: string, paths: readonly string[]])[];
}

const LAYOUTS: Record<string, Layout> = {
  web_crawl: {
    first: ["urls", "depth", "limits.max_pages", "scope.within", "item", "selectors"],
    sections: [
      ["scope", ["scope.allow", "scope.deny", "scope.sitemaps", "scope.feeds", "scope"]],
      ["limits", ["limits.max_per_host", "limits.max_seconds", "limits"]],
      [
        "politeness",
        ["politeness.delay_s", "politeness.concurrency", "politeness.obey_robots", "politeness"],
      ],
      ["fetching", ["fetching.user_agent", "fetching.contact", "fetching.headers", "fetching"]],
      ["output", ["sinks", "structured", "infer_item"]],
      ["fleet", ["workers", "split_hosts", "frontier"]],
      ["canonical", ["canonical", "dedup", "dedup_capacity"]],
    ],
  },
  http_fetch: {
    first: ["urls", "url", "method", "headers"],
    sections: [
      ["limits", ["timeout_s", "max_bytes"]],
      ["politeness", ["delay_s", "concurrency", "retries", "shards"]],
    ],
  },
  task: {
    first: ["priority", "timeout", "max_retries", "project_id", "workflow_id", "dedup_key"],
    sections: [
      ["where", ["cluster_id", "node_type", "schedule_strategy", "target_region", "capabilities"]],
      ["min_resources", ["min_resources"]],
    ],
  },
};

function leaves(fields: readonly FormField[]): FormField[] {
  return fields.flatMap((field) => (field.kind === "group" ? leaves(field.fields) : [field]));
}

/** Every field in one place; those that the layout does not know stand with their group. */
export function arrange(
  fields: readonly FormField[],
  type: string,
): { first: FormField[]; sections: Section[] } {
  const layout = LAYOUTS[type] ?? { first: [], sections: [] };
  const left = new Map(leaves(fields).map((field) => [field.path.join("."), field]));
  function take(path: string): FormField[] {
    const names = [...left.keys()].filter((name) => name === path || name.startsWith(`${path}.`));
    return names.flatMap((name) => {
      const field = left.get(name);
      left.delete(name);
      return field ? [field] : [];
    });
  }
  const first = layout.first.flatMap(take);
  const sections = layout.sections.map(([name, paths]) => ({ name, fields: paths.flatMap(take) }));
  for (const field of fields) {
    const rest = take(field.path.join("."));
    if (field.kind === "group") sections.push({ name: field.name, fields: rest });
    else first.push(...rest);
  }
  return { first, sections: sections.filter((section) => section.fields.length > 0) };
}

/** How many fields of a section are filled in. */
export function filledIn(section: Section, values: Values): number {
  return section.fields.filter(
    (field) => Object.keys(filled({ it: valueAt(values, field.path) })).length > 0,
  ).length;
}

/** `url` and `urls` are one field of the form: addresses, one on each line. */
export function joinAddresses(values: Values): Values {
  const { url, urls, ...rest } = values;
  const all = [...(url ? [url] : []), ...((urls as unknown[] | undefined) ?? [])];
  return all.length > 0 ? { urls: all, ...rest } : rest;
}

export function partAddresses(values: Values): Values {
  const { urls, ...rest } = values;
  const all = ((urls as string[] | undefined) ?? [])
    .map((each) => each.trim())
    .filter((each) => each !== "");
  if (all.length === 0) return rest;
  return all.length === 1 ? { url: all[0], ...rest } : { urls: all, ...rest };
}

export function hasAddresses(fields: readonly FormField[]): boolean {
  const kinds = new Map(fields.map((field) => [field.name, field.kind]));
  return kinds.get("url") === "text" && kinds.get("urls") === "list";
}
