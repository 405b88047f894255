/** Whether every word that was typed is in the text, in any order and case. */
export function matches(typed: string, text: string): boolean {
  const where = text.toLowerCase();
  return typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}
