/** Calls at once, then at most every so often, and once more at the end for what came meanwhile. */
export function throttle(act: () => void, everyMs: number): () => void {
  let waiting: ReturnType<typeof setTimeout> | null = null;
  let again = false;
  function rest(): void {
    waiting = setTimeout(() => {
      waiting = null;
      if (!again) return;
      again = false;
      act();
      rest();
    }, everyMs);
  }
  return () => {
    if (waiting !== null) {
      again = true;
      return;
    }
    act();
    rest();
  };
}
