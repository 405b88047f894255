/** Whether every word that was typed is in the text, in any order and case. */
export function matches(typed: string, text: string): boolean {
  const where = text.toLowerCase();
  return typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}

/** A text in parts, those that were searched for told apart from the others. */
export function marked(text: string, sought: string): [part: string, isFound: boolean][] {
  if (!sought) return [[text, false]];
  const where = text.toLowerCase();
  const what = sought.toLowerCase();
  const parts: [string, boolean][] = [];
  let from = 0;
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, from)) {
    if (at > from) parts.push([text.slice(from, at), false]);
    parts.push([text.slice(at, at + what.length), true]);
    from = at + what.length;
  }
  if (from < text.length) parts.push([text.slice(from), false]);
  return parts;
}
