/** How far a node keeps foreign code apart, out of what it says of itself. */

const LEVEL = "isolation";
const LAYERS = "isolation_layers";
const MISSING = "isolation_missing";
/** What is shown apart from other capabilities. */
export const ISOLATION_NAMES: ReadonlySet<string> = new Set([LEVEL, LAYERS, MISSING]);

export interface Isolation {
  /** `L3`; `null` for a node without a sandbox. */
  level: string | null;
  layers: string[];
  missing: { layer: string; why: string }[];
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

export function isolationOf(capabilities: Record<string, unknown>): Isolation {
  const number = capabilities[LEVEL];
  return {
    level: typeof number === "number" ? `L${Math.trunc(number)}` : null,
    layers: texts(capabilities[LAYERS]),
    missing: texts(capabilities[MISSING]).map((text) => {
      const [layer = "", ...why] = text.split(": ");
      return { layer, why: why.join(": ") };
    }),
  };
}
