/** A JSON schema as the fields of a form. What a form cannot show well becomes a field of JSON. */

export type Schema = { [name: string]: unknown };
export type Kind =
  | "text"
  | "longText"
  | "number"
  | "boolean"
  | "choice"
  | "list"
  | "rows"
  | "map"
  | "group"
  | "json";
/** What the values of a map are: text alone, selectors (text or nested), or anything. */
export type MapOf = "text" | "selectors" | "any";

export interface FormField {
  name: string;
  /** From the top of the schema. */
  path: readonly string[];
  kind: Kind;
  hint: string;
  required: boolean;
  fallback: unknown;
  options: string[];
  min: number | null;
  max: number | null;
  whole: boolean;
  /** One on each line, for fields of several. */
  example: string;
  /** What may be chosen, beside anything else. */
  suggestions: string[];
  mapOf: MapOf;
  /** Of a group, and of each row. */
  fields: FormField[];
}

const DEEPEST = 4;
const LONG_TEXT = 10_000;

function follow(schema: Schema, root: Schema): Schema {
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== "string") return schema;
  let found: unknown = root;
  for (const part of reference.replace(/^#\//, "").split("/")) {
    found = (found as Schema | undefined)?.[part.replace(/~1/g, "/").replace(/~0/g, "~")];
  }
  return { ...follow((found ?? {}) as Schema, root), ...rest };
}

/** Of "this or null" the this, with what was said beside it. */
function plain(schema: Schema, root: Schema): Schema {
  const resolved = follow(schema, root);
  const choices = (resolved.anyOf ?? resolved.oneOf) as Schema[] | undefined;
  if (!choices) return resolved;
  const real = choices.map((each) => follow(each, root)).filter((each) => each.type !== "null");
  const { anyOf: _, oneOf: __, ...rest } = resolved;
  return real.length === 1 ? { ...real[0], ...rest } : { ...rest, type: "mixed" };
}

function kindOf(schema: Schema, root: Schema, depth: number): Kind {
  if (Array.isArray(schema.enum)) return "choice";
  switch (schema.type) {
    case "string":
      return Number(schema.maxLength ?? 0) > LONG_TEXT ? "longText" : "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "array": {
      const each = plain((schema.items ?? {}) as Schema, root);
      if (each.type === "string" && !each.enum) return "list";
      return each.properties && depth < DEEPEST ? "rows" : "json";
    }
    case "object":
      if (!schema.properties) return "map";
      return depth < DEEPEST ? "group" : "json";
    default:
      return "json";
  }
}

function mapOf(schema: Schema, name: string, root: Schema): MapOf {
  if (name === "selectors") return "selectors";
  const values = plain((schema.additionalProperties ?? {}) as Schema, root);
  return values.type === "string" ? "text" : "any";
}

function examplesOf(schema: Schema, root: Schema): string[] {
  const inner = schema.items ? plain(schema.items as Schema, root) : schema;
  return ((inner.examples ?? []) as unknown[]).map(String);
}

export function fieldsOf(
  schema: Schema,
  root: Schema = schema,
  above: readonly string[] = [],
): FormField[] {
  const resolved = plain(schema, root);
  const required = new Set((resolved.required ?? []) as string[]);
  const properties = (resolved.properties ?? {}) as Record<string, Schema>;
  return Object.entries(properties).map(([name, given]) => {
    const each = plain(given, root);
    const path = [...above, name];
    const kind = kindOf(each, root, above.length);
    const inner = kind === "group" ? given : kind === "rows" ? (each.items as Schema) : null;
    const examples = examplesOf(each, root);
    const number = (value: unknown) => (typeof value === "number" ? value : null);
    return {
      name,
      path,
      kind,
      hint: String(each.description ?? ""),
      required: required.has(name),
      fallback: each.default,
      options: ((each.enum ?? []) as unknown[]).filter((it) => it !== null).map(String),
      min: number(each.minimum) ?? number(each.exclusiveMinimum),
      max: number(each.maximum) ?? number(each.exclusiveMaximum),
      whole: each.type === "integer",
      example: kind === "list" ? examples.join("\n") : (examples[0] ?? ""),
      suggestions: kind === "text" && examples.length > 1 ? examples : [],
      mapOf: mapOf(each, name, root),
      fields: inner ? fieldsOf(inner, root, path) : [],
    };
  });
}

export type Values = Record<string, unknown>;

/** The values without what was left empty, so that the master's defaults hold. */
export function filled(values: Values): Values {
  const found: Values = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === "" || value === null) continue;
    if (Array.isArray(value)) {
      const some = value.map(bare).filter((each) => each !== "" && each !== undefined);
      if (some.length > 0) found[name] = some;
    } else if (typeof value === "object") {
      const inner = filled(value as Values);
      if (Object.keys(inner).length > 0) found[name] = inner;
    } else found[name] = value;
  }
  return found;
}

/** A row without what was left empty in it; nothing at all where all of it was. */
function bare(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const row = filled(value as Values);
  return Object.keys(row).length > 0 ? row : undefined;
}

/** What stands at a path, if anything does. */
export function valueAt(values: Values, path: readonly string[]): unknown {
  let found: unknown = values;
  for (const name of path) found = (found as Values | undefined)?.[name];
  return found;
}

/** Values with one of them changed, in whatever depth. */
export function changed(values: Values, path: readonly string[], value: unknown): Values {
  const [first, ...rest] = path;
  if (first === undefined) return values;
  if (rest.length === 0) return { ...values, [first]: value };
  return { ...values, [first]: changed((values[first] ?? {}) as Values, rest, value) };
}
