/** A JSON schema as the fields of a form. What a form cannot show well becomes a field of JSON. */

export type Schema = { [name: string]: unknown };
export type Kind = "text" | "number" | "boolean" | "choice" | "list" | "map" | "group" | "json";

export interface FormField {
  name: string;
  kind: Kind;
  hint: string;
  required: boolean;
  fallback: unknown;
  options: string[];
  min: number | null;
  max: number | null;
  whole: boolean;
  fields: FormField[];
}

const DEEPEST = 4;

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

function kindOf(schema: Schema, name: string, root: Schema, depth: number): Kind {
  if (Array.isArray(schema.enum)) return "choice";
  switch (schema.type) {
    case "string":
      return "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "array": {
      const each = plain((schema.items ?? {}) as Schema, root);
      return each.type === "string" && !each.enum ? "list" : "json";
    }
    case "object": {
      if (schema.properties && depth < DEEPEST) return "group";
      const values = plain((schema.additionalProperties ?? {}) as Schema, root);
      return values.type === "string" || name === "selectors" ? "map" : "json";
    }
    default:
      return "json";
  }
}

export function fieldsOf(schema: Schema, root: Schema = schema, depth = 0): FormField[] {
  const resolved = plain(schema, root);
  const required = new Set((resolved.required ?? []) as string[]);
  const properties = (resolved.properties ?? {}) as Record<string, Schema>;
  return Object.entries(properties).map(([name, given]) => {
    const each = plain(given, root);
    const kind = kindOf(each, name, root, depth);
    const number = (value: unknown) => (typeof value === "number" ? value : null);
    return {
      name,
      kind,
      hint: String(each.description ?? ""),
      required: required.has(name),
      fallback: each.default,
      options: ((each.enum ?? []) as unknown[]).filter((it) => it !== null).map(String),
      min: number(each.minimum) ?? number(each.exclusiveMinimum),
      max: number(each.maximum) ?? number(each.exclusiveMaximum),
      whole: each.type === "integer",
      fields: kind === "group" ? fieldsOf(given, root, depth + 1) : [],
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
      const some = value.filter((each) => each !== "");
      if (some.length > 0) found[name] = some;
    } else if (typeof value === "object") {
      const inner = filled(value as Values);
      if (Object.keys(inner).length > 0) found[name] = inner;
    } else found[name] = value;
  }
  return found;
}

/** Values with one of them changed, in whatever depth. */
export function changed(values: Values, path: readonly string[], value: unknown): Values {
  const [first, ...rest] = path;
  if (first === undefined) return values;
  if (rest.length === 0) return { ...values, [first]: value };
  return { ...values, [first]: changed((values[first] ?? {}) as Values, rest, value) };
}
