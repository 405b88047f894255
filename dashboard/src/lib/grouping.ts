/** Steps that stand alike in a graph, as one: a hundred branches of the same kind are one branch
 * with a count, until somebody wants to see them. */
import { type Before, layersOf, type On, type Vertex } from "./graph";

export interface Alike extends Vertex {
  /** What it must have in common with others, beside its neighbours. */
  kind: string;
}

export interface Group extends Vertex {
  members: readonly string[];
}

/** From so many of a kind on they are one. */
export const LEAST_GROUPED = 4;
const MOST_ROUNDS = 12;

function numbered(keys: ReadonlyMap<string, string>): Map<string, number> {
  const numbers = new Map<string, number>();
  const found = new Map<string, number>();
  for (const [name, key] of keys) {
    let number = numbers.get(key);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(key, number);
    }
    found.set(name, number);
  }
  return found;
}

/** A number for each step; those with the same one cannot be told apart by kind, layer and the
 * numbers of their neighbours. */
function classes(steps: readonly Alike[]): Map<string, number> {
  const layers = layersOf(steps);
  const after = new Map<string, [string, On][]>();
  for (const { name, after: before } of steps) {
    for (const { step, on } of before) after.set(step, [...(after.get(step) ?? []), [name, on]]);
  }
  let found = numbered(
    new Map(steps.map(({ name, kind }) => [name, `${layers.get(name)} ${kind}`])),
  );
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const near = (names: [string, On][]) =>
      [...new Set(names.map(([name, on]) => `${found.get(name)}${on}`))].sort().join();
    const next = numbered(
      new Map(
        steps.map((each) => [
          each.name,
          [
            found.get(each.name),
            near(each.after.map(({ step, on }) => [step, on])),
            near(after.get(each.name) ?? []),
          ].join(";"),
        ]),
      ),
    );
    const settled = new Set(next.values()).size === new Set(found.values()).size;
    found = next;
    if (settled) break;
  }
  return found;
}

/** The graph with those that are alike as one, but for the groups that are `open`; a group has the
 * name of its first member. */
export function grouped(steps: readonly Alike[], open: ReadonlySet<string>): Group[] {
  const byClass = new Map<number, string[]>();
  for (const [name, number] of classes(steps)) {
    byClass.set(number, [...(byClass.get(number) ?? []), name]);
  }
  const standsFor = new Map<string, string>();
  const membersOf = new Map<string, string[]>();
  for (const names of byClass.values()) {
    const [first = ""] = names;
    const together = names.length >= LEAST_GROUPED && !open.has(first);
    for (const name of names) standsFor.set(name, together ? first : name);
    if (together) membersOf.set(first, names);
  }
  const groups = new Map<string, { members: readonly string[]; after: Map<string, Before> }>();
  for (const { name, after } of steps) {
    const own = standsFor.get(name) ?? name;
    let group = groups.get(own);
    if (!group) {
      group = { members: membersOf.get(own) ?? [name], after: new Map() };
      groups.set(own, group);
    }
    for (const { step, on } of after) {
      const before = standsFor.get(step) ?? step;
      group.after.set(`${on} ${before}`, { step: before, on });
    }
  }
  return [...groups].map(([name, { members, after }]) => ({
    name,
    members,
    after: [...after.values()],
  }));
}
