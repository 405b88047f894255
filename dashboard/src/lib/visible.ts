import { type RefObject, useEffect, useState } from "react";

/** Whether a thing is, or soon will be, in the window. */
export function useVisible(ref: RefObject<Element | null>): boolean {
  const [visible, setVisible] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const watcher = new IntersectionObserver(
      ([entry]) => setVisible(entry?.isIntersecting ?? false),
      { rootMargin: "200px" },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [ref]);
  return visible;
}
