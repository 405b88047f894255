const MOST_COLUMNS = 24;
const LONGEST = 400;

/** The fields of all items, in the order in which they are first met. */
export function columnsOf(items: readonly { fields: Record<string, unknown> }[]): string[] {
  const names = new Set<string>();
  for (const item of items) for (const name of Object.keys(item.fields)) names.add(name);
  return [...names].slice(0, MOST_COLUMNS);
}

export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
