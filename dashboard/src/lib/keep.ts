/** Small choices that outlast a reload, where the browser lets us keep them. */
const PREFIX = "crawlfleet.";

export function kept(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Private windows may refuse; then the choice lasts as long as the page.
  }
}
