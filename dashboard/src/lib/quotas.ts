/** Quotas in the forms that people read and fill in. */
import type { QuotaLine, QuotaPatch, QuotaView } from "../generated/api";
import { bytes, short } from "./format";

/** An amount of a quota, in the unit that its name ends with. */
export function amount(name: string, value: number): string {
  if (name.endsWith("_mb")) return bytes(value * 1e6);
  if (name.endsWith("_gb")) return bytes(value * 1e9);
  if (name.endsWith("bytes")) return bytes(value);
  return short(value);
}

/** How much of a limit is used, up to all of it; nothing where there is no limit. */
export function usedShare({ use, limit }: Pick<QuotaLine, "use" | "limit">): number | null {
  if (limit === null) return null;
  if (limit <= 0) return use > 0 ? 1 : 0;
  return Math.min(1, use / limit);
}

/** What a project holds of the fleet beyond its due, which it gives back as others come. */
export function borrowed({ share, due }: Pick<QuotaView, "share" | "due">): number {
  return Math.max(0, share - due);
}

/** Those first that hold something or have a limit. */
export function sorted(items: readonly QuotaView[]): QuotaView[] {
  const limits = (each: QuotaView) => each.quotas.filter((line) => line.limit !== null).length;
  const waits = (each: QuotaView) => each.quotas.reduce((sum, line) => sum + line.use, 0);
  return [...items].sort(
    (a, b) =>
      b.share - a.share ||
      Number(waits(b) > 0) - Number(waits(a) > 0) ||
      Number(limits(b) > 0) - Number(limits(a) > 0) ||
      a.project_id.localeCompare(b.project_id),
  );
}

/** `pool=shop, disk=fast` as labels; `null` for none. Says which part is not one. */
export function labelsOf(text: string): { labels: Record<string, string> | null; wrong: string } {
  const parts = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const wrong = parts.find((part) => !/^[^=\s]+=\S+$/.test(part)) ?? "";
  if (wrong || parts.length === 0) return { labels: null, wrong };
  const pairs = parts.map((part): [string, string] => {
    const at = part.indexOf("=");
    return [part.slice(0, at), part.slice(at + 1)];
  });
  return { labels: Object.fromEntries(pairs), wrong: "" };
}

/** What a form changes: an empty field takes a limit away. */
export function patchOf(view: QuotaView, values: Record<string, string>): QuotaPatch {
  const limits = view.quotas.map(({ name }) => {
    const text = values[name]?.trim() ?? "";
    return [name, text === "" ? null : Number(text)];
  });
  return {
    ...Object.fromEntries(limits),
    weight: Number(values.weight ?? view.weight),
    over: values.over === "reject" ? "reject" : "queue",
    nodes: labelsOf(values.nodes ?? "").labels,
  };
}
